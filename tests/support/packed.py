"""Work on packed and narrow tensors, run in memories full of other bits, held to numpy.

What a tensor's memory is comes from `memory_bits`, a statement of the layout's law of its own: the
place of each element by `linear_index` or by the rule of the chip (`support.placement_law`), and
bit by bit from there. Every bit that is no element must be as it was.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from support.compare_traces import assert_same
from support.placement_law import PlacementLaw
from systolic.compiler import Options, compile_graph
from systolic.compiler.pipeline import CompiledGraph
from systolic.element_types import ELEMENT_TYPES
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, lint
from systolic.layout import Shape
from systolic.machine import Image, simulate
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.workload import Graph, Tensor

NARROW = ("pred", "s1", "u1", "s2", "u2", "s4", "u4")
WIDE = ("f32", "bf16", "f16", "s8", "u8", "s32")
HOMES = ("dram", "state_buffer")


def whole_numbers(values: Any, element_type: str) -> np.ndarray:
    """Return elements of a narrow type as int64, as an independent reader of their low bits."""
    bits = ELEMENT_TYPES[element_type].bits
    fields = np.ascontiguousarray(values).view(np.uint8).astype(np.int64) % (1 << bits)
    if element_type[0] == "s":
        fields = np.where(fields >= 1 << (bits - 1), fields - (1 << bits), fields)
    return fields


def random_values(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """Return elements of the type's whole range; floats from -20 to 20, some of them special."""
    limits = ELEMENT_TYPES[shape.element_type].integer_range
    if limits is not None:
        return rng.integers(*limits, shape.dims, endpoint=True).astype(shape.dtype)
    numbers = rng.integers(-80, 81, shape.dims) / 4
    special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 3e4], shape.dims)
    return np.where(rng.random(shape.dims) < 0.1, special, numbers).astype(shape.dtype)


def run(
    graph: Graph, chip: Chip, seed: int = 0
) -> tuple[CompiledGraph, dict[str, Any], dict[str, Any]]:
    """Run a graph with all passes verified; return what was compiled, inputs and outputs.

    Both engines run it, and must leave the same trace and the same bytes. Outputs begin full of
    other bits. In the end the memory of each output is compared bit by bit.
    """
    compiled = compile_graph("test", graph, chip, Options(), verify=True)
    findings = lint(compiled.program, chip, initial_accesses(compiled))
    assert not [d for d in findings if d.severity == "error"]
    rng = np.random.default_rng(seed)
    inputs = {name: random_values(graph.shape(name), rng) for name in graph.inputs}
    images = list(graph_images(compiled, inputs))
    before = {name: _poisoned(compiled, name, rng, images) for name in graph.outputs}
    for name in graph.inputs:
        _check_image(compiled, name, inputs[name], images)
    outcome = simulate(chip, compiled.program, images)
    assert_same(outcome, simulate(chip, compiled.program, images, engine="register"))
    outputs = graph_results(compiled, outcome.memory)
    for name, (access, values) in before.items():
        after = outcome.memory.read(access)
        _check_bits(compiled, name, outputs[name], values, after)
    return compiled, inputs, outputs


def access_of(compiled: CompiledGraph, name: str) -> Access:
    """Return all bytes of a tensor as u8, with what of the compiled graph says where they are."""
    tensor = compiled.graph.tensor(name)
    if tensor.home == "dram":
        base = next(place.base for place in compiled.layers.dram if place.name == name)
        return Access(Buffer.DRAM, "u8", 0, 1, base, ((1, tensor.shape.size_bytes()),))
    placed = compiled.placements()[name]
    count = placed.bytes_per_partition_used
    return Access(
        Buffer.STATE, "u8", placed.base_partition, placed.partitions_used, placed.base_byte,
        ((1, count),),
    )  # fmt: skip


def _poisoned(
    compiled: CompiledGraph, name: str, rng: np.random.Generator, images: list[Image]
) -> tuple[Any, np.ndarray]:
    access = access_of(compiled, name)
    for image in images:  # a result that is the bytes of an input
        if image.access.buffer is access.buffer and image.access.start == access.start:
            return access, image.values.view(np.uint8)
    values = rng.integers(0, 256, (access.partitions, access.elements)).astype(np.uint8)
    images.append(Image(access, values))
    return access, values


def bit_of(compiled: CompiledGraph, name: str, index: tuple[int, ...]) -> tuple[int, int]:
    """Return the partition of an element and its first bit there, both from the tensor's first."""
    shape = compiled.graph.shape(name)
    bits = shape.element_bits
    if compiled.graph.tensor(name).home == "dram":
        return 0, int(shape.linear_index(index)) * bits
    placed = compiled.placements()[name]
    tiled = shape if shape.layout.tiles else placed.shape
    partitions = compiled.chip.state_buffer.partitions - placed.base_partition
    partition, address = PlacementLaw(tiled, partitions).place(index)
    return partition, address * bits


def _check_image(
    compiled: CompiledGraph, name: str, array: np.ndarray, images: list[Image]
) -> None:
    shape = compiled.graph.shape(name)
    tiles = compiled.graph.tensor(name).home == "dram" or name in compiled.placements()
    if shape.element_type not in NARROW or not tiles:
        return
    access = access_of(compiled, name)
    image = next(i for i in images if (i.access.buffer, i.access.start, i.access.partition)
                 == (access.buffer, access.start, access.partition))  # fmt: skip
    bits = np.unpackbits(image.values.view(np.uint8), axis=1, bitorder="little")
    _compare(compiled, name, array, bits)


def _check_bits(
    compiled: CompiledGraph, name: str, array: np.ndarray, before: np.ndarray, after: np.ndarray
) -> None:
    """Hold the memory of an output against its elements, and all other bits against `before`."""
    held, other = (np.unpackbits(each, axis=1, bitorder="little") for each in (after, before))
    if compiled.graph.shape(name).element_type in NARROW:
        for partition, first, bits in _compare(compiled, name, array, held):
            held[partition, first : first + bits] = other[partition, first : first + bits]
        tensor = compiled.graph.tensor(name)
        if tensor.home == "dram" or tensor.shape.element_bits < 8:
            assert (held == other).all(), f"{name}: bits of padding were written"


def _compare(
    compiled: CompiledGraph, name: str, array: np.ndarray, held: np.ndarray
) -> list[tuple[int, int, int]]:
    shape = compiled.graph.shape(name)
    numbers, found = whole_numbers(array, shape.element_type), []
    for index in np.ndindex(*shape.dims):
        partition, first = bit_of(compiled, name, index)
        bits = held[partition, first : first + shape.element_bits].tolist()
        field = sum(bit << place for place, bit in enumerate(bits))
        wanted = int(numbers[index]) % (1 << shape.type.bits)
        assert field == wanted, f"{name}{index} in partition {partition}, bit {first}"
        found.append((partition, first, shape.element_bits))
    return found


FEW_ROWS = ("T(4,8)", "T(2,3)", "T(4,4)(2,1)", "T(3,5)")
TILES = (
    "",
    "T(8,8)",
    "T(4,8)",
    "T(2,3)",
    "T(4,4)(2,1)",
    "T(3,5)",
    "T(8,16)(8,1)",
    "T(5)",
    "T(*,3)",
)


def random_tensor(rng: Random, kind: str, dims: tuple[int, ...]) -> Tensor:
    """Return a tensor in a random home; in tiles of few rows perhaps from another partition on."""
    shape = Shape.parse(random_text(rng, kind, dims))
    if rng.random() < 0.5:
        return Tensor(shape, "dram")
    few = shape.layout.tiles and "T" + "".join(map(str, shape.layout.tiles)) in FEW_ROWS
    partition = rng.randint(0, 3) if few and rng.random() < 0.5 else 0
    return Tensor(shape, "state_buffer", partition)


def random_text(rng: Random, kind: str, dims: tuple[int, ...]) -> str:
    """Return a shape of these dimensions in a random order, tiled or not, packed or not."""
    order = list(range(len(dims)))
    rng.shuffle(order)
    tiles = rng.choice([t for t in TILES if "*" not in t or len(dims) > 1])
    packed = ""
    if kind in NARROW and rng.random() < 0.8:
        bits = rng.choice([b for b in (1, 2, 4) if b >= ELEMENT_TYPES[kind].bits])
        packed = f"E({bits})"
    attributes = f":{tiles}{packed}" if tiles or packed else ""
    return f"{kind}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}{attributes}}}"
