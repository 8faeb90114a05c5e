"""Between a graph's tensors and a chip's memories: images before a run, results after it.

Not here: the verdict on the values (`systolic.run.verdict`), and the run itself
(`systolic.run.execute`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from systolic.arrays import Array
from systolic.compiler import CompiledGraph
from systolic.compiler.ir.carried import CARRIER, NARROW_BITS, carrier_shape, is_packed
from systolic.compiler.ir.nodes import Axes, TensorInDram
from systolic.compiler.place.tiles import PlacedTile
from systolic.compiler.schedule.identities import identity_values
from systolic.errors import WorkloadError, listed, perhaps, shortened
from systolic.isa import Access, Buffer
from systolic.layout import Placement, Shape, pack, unpack
from systolic.machine import Image, Memory
from systolic.run.narrow import from_memory, in_memory
from systolic.workload import Graph
from systolic.workload.words import as_word


def checked_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a graph by name, in the graph's order.

    Raises WorkloadError if one is missing or unknown, or of another shape or type.
    """
    for name in inputs:
        if name not in graph.inputs:
            known = listed(f'"{each}"' for each in graph.inputs)
            near = perhaps(name, graph.inputs)
            raise WorkloadError(
                f'the graph has no input "{shortened(name)}" (it has: {known}){near}'
            )
    wide, found = dict(graph.wide), dict[str, Array]()
    for name in graph.inputs:
        shape = graph.shape(name)
        if name not in wide:
            found[name] = _checked(name, shape, inputs.get(name))
            continue
        given = Shape(wide[name], shape.dims, shape.layout)
        found[name] = as_word(name, wide[name], _checked(name, given, inputs.get(name)))
    return found


def _checked(name: str, shape: Shape, array: Array | None) -> Array:
    needed = f'input "{name}" ({shape.element_type} {list(shape.dims)})'
    if array is None:
        raise WorkloadError(f"{needed} is missing")
    found = np.asarray(array)
    if found.shape != shape.dims or found.dtype != shape.dtype:
        raise WorkloadError(f"{needed}: found {found.dtype} {list(found.shape)}")
    return found


def graph_images(compiled: CompiledGraph, inputs: Mapping[str, Array]) -> list[Image]:
    """Return what lies in the memories at cycle 0: inputs, stored identities, padding values.

    The program stores only the elements of an output. So the value that pads its dimensions must
    be there from the start.
    """
    graph = compiled.graph
    matrices = {m.name: m for m in compiled.layers.matrices}
    seen: dict[str, Array] = {}
    found = []
    placed = compiled.placements()
    for name, placement in placed.items():
        if name in inputs:
            found.append(_image(placement, inputs[name]))
        elif placement.shape.holds_padding:
            found.append(_image(placement, _nothing(placement.shape)))
    for piece in compiled.scheduled.given:
        matrix = matrices[piece.matrix]
        if matrix.tensor in placed:
            continue
        if piece.matrix not in seen:
            values = in_memory(inputs[matrix.tensor], graph.shape(matrix.tensor))
            seen[piece.matrix] = as_matrices(values, matrix.axes)
        found.append(Image(piece.access, seen[piece.matrix][piece.slices]))
    for place in compiled.layers.dram:
        # An input that lives on the chip may have a place in DRAM too, to which the program
        # copies it.
        if place.name in inputs and graph.tensor(place.name).home == "dram":
            found.append(_dram_image(graph.shape(place.name), place, inputs[place.name]))
        elif place.name in graph.outputs and graph.shape(place.name).holds_padding:
            shape = graph.shape(place.name)
            found.append(_dram_image(shape, place, _nothing(shape)))
    found += [Image(a, identity_values(a)) for a in compiled.scheduled.identities]
    return found


def _nothing(shape: Shape) -> Array:
    return np.zeros(shape.dims, shape.dtype)


def initial_accesses(compiled: CompiledGraph) -> list[Access]:
    """Return which regions of the memories hold something at cycle 0."""
    graph = compiled.graph
    inputs, outputs = {*graph.inputs}, {*graph.outputs}
    tensors = dict(graph.tensors)
    found = [piece.access for piece in compiled.scheduled.given]
    if compiled.streamed is not None:
        placed = compiled.placements()
        found += [_region(placed[name]) for name in graph.inputs if name in placed]
    for place in compiled.layers.dram:
        name = place.name
        if name not in inputs and name not in outputs:
            continue
        tensor = tensors[name]
        # A packed output has bits of padding, which are there from the start.
        if tensor.home == "dram" and (name in inputs or is_packed(tensor.shape)):
            found.append(dram_access(tensor.shape, place))
    return [*found, *compiled.scheduled.identities]


def graph_results(compiled: CompiledGraph, memory: Memory) -> dict[str, Array]:
    """Return the outputs as they stand in the memories, in logical order."""
    graph = compiled.graph
    places = {place.name: place for place in compiled.layers.dram}
    kept = {k.tensor: k.matrix for k in compiled.layers.kept}
    found, placed = {}, compiled.placements()
    for name in graph.outputs:
        shape = graph.shape(name)
        if name in placed:
            found[name] = _read(placed[name], memory)
        elif name in kept:
            matrix = compiled.layers.matrix(kept[name])
            pieces = [p for p in compiled.scheduled.kept if p.matrix == matrix.name]
            axes = compiled.layers.shown(name)
            gathered = _gather(pieces, axes, matrix.dims, shape.dims, memory)
            found[name] = from_memory(gathered, shape)
        else:
            access = dram_access(shape, places[name])
            found[name] = unpack(from_memory(memory.view(access)[0], shape), shape)
    return found


def _image(placement: Placement, values: Array) -> Image:
    """Return what a tensor on the chip puts there at cycle 0; padding of tiles holds zeros."""
    shape = placement.shape
    bytes_ = placement.image(values)
    if shape.element_type in NARROW_BITS:
        return Image(_region(placement), in_memory(bytes_, shape))
    return Image(_region(placement), bytes_.view(shape.dtype))


def _read(placement: Placement, memory: Memory) -> Array:
    """Return a tensor as it stands on the chip, in logical order."""
    return placement.array(memory.read(_region(placement)).view(np.uint8))


def _region(placement: Placement) -> Access:
    """Return the access to all places of a tensor on the chip, padding included."""
    dtype, count = placement.shape.element_type, placement.elements_per_partition
    if dtype in NARROW_BITS:
        dtype, count = CARRIER, placement.bytes_per_partition_used
    return Access(
        Buffer.STATE,
        dtype,
        placement.base_partition,
        placement.partitions_used,
        placement.base_byte,
        ((1, count),),
    )


def _gather(
    pieces: Iterable[PlacedTile],
    axes: Axes,
    sizes: Sequence[int],
    dims: tuple[int, ...],
    memory: Memory,
) -> Array:
    """Return a tensor in logical order from its tiles, [batch..., rows, columns] by `axes`."""
    found = [(piece.slices, memory.read(piece.access)) for piece in pieces]
    matrices = np.zeros(sizes, found[0][1].dtype)
    for slices, values in found:
        matrices[slices] = values
    return as_tensor(matrices, axes, dims)


def _dram_image(shape: Shape, place: TensorInDram, values: Array) -> Image:
    """Return what a tensor puts into its place in DRAM; a packed one fills the place with zeros."""
    access, found = dram_access(shape, place), in_memory(pack(values, shape), shape)
    return Image(access, np.pad(found, (0, access.elements - len(found)))[None])


def dram_access(shape: Shape, place: TensorInDram) -> Access:
    """Return the access to a tensor in its place in DRAM; of a packed one to all of the place."""
    dtype, count = carrier_shape(shape).element_type, shape.padded_elements()
    if is_packed(shape):
        count = place.shape.padded_elements()
    return Access(Buffer.DRAM, dtype, 0, 1, place.base, ((1, count),))


def as_matrices(array: Array, axes: Axes) -> Array:
    """Return a tensor seen as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    sizes = [math.prod(array.shape[axis] for axis in group) for group in axes]
    return array.transpose(order).reshape(sizes)


def as_tensor(matrices: Array, axes: Axes, dims: tuple[int, ...]) -> Array:
    """Return in logical order what `as_matrices` shows as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    moved = np.ascontiguousarray(matrices).reshape([dims[axis] for axis in order])
    return np.asarray(moved.transpose(np.argsort(order)), order="C")
