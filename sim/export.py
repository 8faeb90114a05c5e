"""A compiled run as a program file: its program, and where its tensors lie as named arrays.

Wherever the compiler has put a tensor, in tiles over partitions or in an XLA layout in DRAM, its
places are found again as few boxes of the array as can be, each in one access. So the program runs
without the compiler (`sim.run_program`), from and to arrays in logical order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sim.compiler import Compiled, CompiledGraph
from sim.compiler.layers import physical
from sim.compiler.matrix import Axes
from sim.compiler.schedule import identity_values
from sim.config import RunConfig
from sim.config.chip_file import SHIPPED
from sim.errors import CompileError, ProgramError
from sim.isa import Access, Binding, Buffer, Module, check_bindings, parts_of
from sim.layout import Shape
from sim.run import compile_any, load_inputs
from sim.run_graph import as_matrices
from sim.workload import Transpose

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
IDENTITY = "identity"


@dataclass(frozen=True, eq=False)
class Exported:
    """A module and the identity matrices among its inputs, by name; the others are the run's."""

    module: Module
    identities: dict[str, Array]


def export_run(config: RunConfig) -> Exported:
    """Return the program of a run file with its tensors bound to names.

    A lone transpose has the input "source" and the output "result", a graph those of its tensors;
    identity matrices that must be there are inputs too.

    Raises:
        SystolicError: the run does not compile, or its layouts scatter a tensor beyond description.

    """
    compiled = compile_any(config)
    if isinstance(compiled, CompiledGraph):
        inputs, outputs = _graph_inputs(compiled), _graph_outputs(compiled)
        stored: Sequence[Access] = compiled.scheduled.identities
    else:
        assert isinstance(config.operation, Transpose)
        inputs = [_transposed(compiled, config.operation, is_result=False)]
        outputs = [_transposed(compiled, config.operation, is_result=True)]
        stored = [compiled.identity] if compiled.identity else []
    taken = {binding.name for binding in inputs}
    identities = {}
    for access in stored:
        name = _free_name(taken)
        taken.add(name)
        identities[name] = identity_values(access)
        shape = (access.partitions, access.elements)
        inputs.append(Binding.whole(name, shape, access))
    module = Module(compiled.program, tuple(inputs), tuple(outputs), _chip_name(config))
    check_bindings(module)
    return Exported(module, identities)


def input_arrays(config: RunConfig, exported: Exported) -> dict[str, Array]:
    """Return what a run file gives the inputs of its exported program, by name."""
    return {**load_inputs(config), **exported.identities}


def _free_name(taken: set[str]) -> str:
    numbers = (f"{IDENTITY}{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (IDENTITY, *numbers) if name not in taken)


def _chip_name(config: RunConfig) -> str:
    """Return the name by which the chip is found again; none if the command line changed it."""
    if any(override.below("chip") for override in config.overrides):
        return ""
    path = config.chip_path.resolve()
    return path.stem if path.parent == SHIPPED else str(path)


class Piece(Protocol):
    """A tile on the chip: slices of a matrix and its place."""

    @property
    def access(self) -> Access:
        """Return the place."""

    @property
    def slices(self) -> tuple[int | slice, ...]:
        """Return which part of [batch..., rows, columns] lies there."""


# -- where tensors lie ----------------------------------------------------------------------------


class _Places:
    """For each element of a tensor (in some order of them) its partition and its first byte."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.partition = np.zeros(tuple(shape), np.int64)
        self.byte = np.zeros(tuple(shape), np.int64)

    def put(self, slices: tuple[int | slice, ...], access: Access) -> None:
        """Say that the elements at `slices`, [partitions, elements], lie in `access`."""
        extents = self.byte[slices].shape
        bytes_ = (access.offsets() * access.element_bytes).reshape(1, -1)
        rows = access.partition + np.arange(access.partitions).reshape(-1, 1)
        self.byte[slices] = np.broadcast_to(bytes_, (access.partitions, bytes_.size)).reshape(
            extents
        )
        self.partition[slices] = np.broadcast_to(rows, (rows.size, bytes_.size)).reshape(extents)

    def scattered(self, order: Numbers, dims: Sequence[int]) -> _Places:
        """Return the places in logical order; `order` has each element's logical number."""
        found = _Places(dims)
        found.partition.reshape(-1)[order.reshape(-1)] = self.partition.reshape(-1)
        found.byte.reshape(-1)[order.reshape(-1)] = self.byte.reshape(-1)
        return found


def _graph_inputs(compiled: CompiledGraph) -> list[Binding]:
    graph, matrices = compiled.graph, {m.name: m for m in compiled.layers.matrices}
    given = {matrices[piece.matrix].tensor for piece in compiled.scheduled.given}
    bases = {place.name: place.base for place in compiled.layers.dram}
    found = []
    for name in graph.inputs:
        shape = graph.shape(name)
        if name in given:
            names = {m.name for m in matrices.values() if m.tensor == name}
            pieces = [p for p in compiled.scheduled.given if p.matrix in names]
            axes = matrices[pieces[0].matrix].axes
            places = _of_matrices(shape, axes, pieces)
            found.append(_binding(name, shape, Buffer.STATE, places))
        elif name in bases:
            found.append(_binding(name, shape, Buffer.DRAM, _in_dram(shape, bases[name])))
    return found


def _graph_outputs(compiled: CompiledGraph) -> list[Binding]:
    graph = compiled.graph
    bases = {place.name: place.base for place in compiled.layers.dram}
    kept = {each.tensor: each.matrix for each in compiled.layers.kept}
    found = []
    for name in graph.outputs:
        shape = graph.shape(name)
        if name in kept:
            pieces = [p for p in compiled.scheduled.kept if p.matrix == kept[name]]
            places = _of_matrices(shape, physical(shape), pieces)
            found.append(_binding(name, shape, Buffer.STATE, places))
        else:
            found.append(_binding(name, shape, Buffer.DRAM, _in_dram(shape, bases[name])))
    return found


def _in_dram(shape: Shape, base: int) -> _Places:
    places = _Places(shape.dims)
    if shape.num_elements():
        index = np.ogrid[tuple(slice(0, size) for size in shape.dims)]
        places.byte[...] = base + shape.linear_index(list(index)) * shape.dtype.itemsize
    return places


def _of_matrices(shape: Shape, axes: Axes, pieces: Iterable[Piece]) -> _Places:
    """Return the places of a tensor that lies on the chip as [batch..., rows, columns]."""
    order = as_matrices(_numbers(shape.dims), axes)
    return _of_pieces(order, pieces, shape.dims)


def _of_pieces(order: Numbers, pieces: Iterable[Piece], dims: Sequence[int]) -> _Places:
    places = _Places(order.shape)
    for piece in pieces:
        places.put(piece.slices, piece.access)
    return places.scattered(order, dims)


def _numbers(dims: Sequence[int]) -> Numbers:
    return np.arange(math.prod(dims), dtype=np.int64).reshape(tuple(dims))


def _transposed(compiled: Compiled, operation: Transpose, *, is_result: bool) -> Binding:
    """Return the source or the result of a lone transpose."""
    name, shape, pieces = "source", operation.shape, compiled.source
    if is_result:
        name, shape, pieces = "result", operation.out, compiled.result
    first = pieces[0].access
    if first.buffer is Buffer.DRAM:
        return _binding(name, shape, first.buffer, _in_dram(shape, first.start))
    order = compiled.matrices.matrices(_numbers(operation.shape.dims))
    if is_result:
        *batch, rows, cols = compiled.matrices.shape.dims
        there = compiled.matrices.result(_numbers((*batch, cols, rows)), shape.dims)
        order = np.argsort(there.reshape(-1)).reshape(*batch, cols, rows)
    return _binding(name, shape, first.buffer, _of_pieces(order, pieces, shape.dims))


def _binding(name: str, shape: Shape, buffer: Buffer, places: _Places) -> Binding:
    try:
        parts = parts_of(places.partition, places.byte, buffer, shape.element_type)
    except ProgramError as error:
        raise CompileError(f"{name}: {shape}: {error}") from None
    return Binding(name, shape.dims, parts)
