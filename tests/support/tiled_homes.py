"""Work on tensors in tiles on the chip, run in a memory full of other bytes, held to the rule.

The memory is compared byte by byte with the second statement of the rule
(`support.placement_law`). Bytes that are padding, or of no tensor, keep what was there before.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from support.chips import ideal_chip
from support.placement_law import PlacementLaw
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.nodes import GIVEN
from systolic.compiler.pipeline import CompiledGraph
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, lint
from systolic.layout import Shape
from systolic.machine import Image, simulate
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.workload import Graph, GraphBuilder
from systolic.workload.evaluate import exact_graph

POISON = 0xA5


def chip_8x8(**tables: Any) -> Chip:
    return ideal_chip(8, 8, state_buffer={"bytes_per_partition": 8192, **tables})


def values(shape: Shape, seed: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).integers(-9, 10, shape.dims)
    return numbers.astype(shape.dtype)


def run(graph: Graph, chip: Chip, engine: str = "event") -> tuple[CompiledGraph, dict[str, Any]]:
    """Run a graph in a state buffer full of other bytes, and check inputs, outputs and padding."""
    compiled = compile_graph("test", graph, chip, Options(), verify=True)
    errors = [d for d in lint(compiled.program, chip, initial_accesses(compiled))
              if d.severity == "error"]  # fmt: skip
    assert not errors
    inputs = {name: values(graph.shape(name), n) for n, name in enumerate(graph.inputs)}
    state = chip.state_buffer
    whole = Access(Buffer.STATE, "u8", 0, state.partitions, 0, ((1, state.bytes_per_partition),))
    before = np.full((state.partitions, state.bytes_per_partition), POISON, np.uint8)
    images = graph_images(compiled, inputs)
    for image in images:
        if image.access.buffer is Buffer.STATE:
            check_image(image, compiled, inputs)
    outcome = simulate(chip, compiled.program, [Image(whole, before), *images], engine=engine)
    memory = outcome.memory.bytes_of(Buffer.STATE)
    results = graph_results(compiled, outcome.memory)
    expected = exact_graph(graph, inputs)
    for name, found in results.items():
        np.testing.assert_array_equal(found, expected[name])
    for name in graph.outputs:
        shape = graph.shape(name)
        if shape.layout.tiles and graph.tensor(name).home == "state_buffer":
            check_lies(compiled, name, memory, results[name], untouched=POISON)
    return compiled, results


def check_image(image: Image, compiled: CompiledGraph, inputs: dict[str, Any]) -> None:
    for name, placed in compiled.placements().items():
        start = (placed.base_partition, placed.base_byte)
        if name in inputs and (image.access.partition, image.access.start) == start:
            own = compiled.graph.shape(name)
            shape = own if own.layout.tiles else placed.shape  # without tiles the compiler chooses
            law = law_of(compiled, name, shape)
            for index in np.ndindex(*placed.shape.dims):
                assert image.values[law.place(index)] == inputs[name][index]
            return


def check_lies(
    compiled: CompiledGraph, name: str, memory: np.ndarray, array: np.ndarray, untouched: int
) -> None:
    placed = compiled.placements()[name]
    law = law_of(compiled, name, compiled.graph.shape(name))
    size, first = array.dtype.itemsize, compiled.graph.tensor(name).partition
    found = memory[
        first : first + law.stack * law.rows,
        placed.base_byte : placed.base_byte + law.addresses * size,
    ].copy()
    for index in np.ndindex(*array.shape):
        partition, address = law.place(index)
        held = found[partition, address * size : (address + 1) * size]
        assert held.tobytes() == array[index].tobytes(), f"{name}{index}"
        held[:] = untouched
    taken = range(placed.base_byte, placed.base_byte + law.addresses * size)
    others = [s for s in compiled.scheduled.stays if s.tile.matrix != homes(compiled)[name]]
    there = [
        (placed.base_byte, placed.base_byte + placed.bytes_per_partition_used)
        for other, placed in compiled.placements().items()
        if other in compiled.graph.inputs and homes(compiled)[other] != homes(compiled)[name]
    ]
    spans = [*((s.start, s.start + s.size_bytes) for s in others), *there]
    if not any(start < taken.stop and taken.start < stop for start, stop in spans):
        before = 0 if homes(compiled)[name] in given(compiled) else untouched
        assert (found[found != untouched] == before).all(), f"{name}: padding was written"


def law_of(compiled: CompiledGraph, name: str, shape: Shape) -> PlacementLaw:
    """The rule for a tensor's tiles, counted from its partition."""
    partitions = compiled.chip.state_buffer.partitions
    return PlacementLaw(shape, partitions - compiled.graph.tensor(name).partition)


def homes(compiled: CompiledGraph) -> dict[str, str]:
    """Return what tells the places of tensors on the chip apart: a matrix, or a byte."""
    if compiled.streamed is not None:
        return {home.tensor: str(home.byte) for home in compiled.streamed.homes}
    return {home.tensor: home.matrix for home in compiled.layers.homes}


def given(compiled: CompiledGraph) -> set[str]:
    if compiled.streamed is not None:
        return {each for name, each in homes(compiled).items() if name in compiled.graph.inputs}
    return {m.name for m in compiled.layers.matrices if m.source == GIVEN}


TILES = ("(8,8)", "(4,8)", "(2,4)", "(4,4)(2,1)", "(8,8)(4,1)", "(2,3)(2,1)", "(3,5)", "(6,4)(3,1)",
         "(4,4)(2,1,1,1)", "(5)", "(4)(2,1)", "(*,4,4)", "(*,3)", "(2,4,4)")  # fmt: skip


def random_text(rng: Random, dtype: str, dims: tuple[int, ...], share: float = 0.85) -> str:
    order = list(range(len(dims)))
    rng.shuffle(order)
    tiles = [t for t in TILES if t.count(",") < 8 and ("*" not in t or len(dims) > 1)]
    chosen = f":T{rng.choice(tiles)}" if rng.random() < share else ""
    body = f"{','.join(map(str, order))}{chosen}"
    return f"{dtype}[{','.join(map(str, dims))}]{{{body}}}"


def random_dims(rng: Random, rank: int) -> tuple[int, ...]:
    most = {1: 40, 2: 21, 3: 9, 4: 6}[rank]
    return tuple(rng.randint(1, most) for _ in range(rank))


def random_graph(rng: Random) -> Graph:
    """One operation between tensors on the chip, most of them in tiles."""
    builder, dtype = GraphBuilder(home="state_buffer"), rng.choice(("f32", "bf16", "s8"))
    kind = rng.choice(("transpose", "transpose", "relayout", "reshape", "cast", "matmul"))
    if kind == "matmul":
        m, k, n = (rng.randint(1, 20) for _ in range(3))
        lhs = builder.tensor("lhs", random_text(rng, dtype, (m, k)))
        rhs = builder.tensor("rhs", random_text(rng, dtype, (k, n)))
        out = "s32" if dtype == "s8" else "f32"
        builder.matmul(lhs, rhs, random_text(rng, out, (m, n)), name="out")
        return builder.graph()
    dims = random_dims(rng, rng.randint(1 if kind != "transpose" else 2, 4))
    source = builder.tensor("source", random_text(rng, dtype, dims))
    if kind == "transpose":
        axes = list(range(len(dims)))
        rng.shuffle(axes)
        text = random_text(rng, dtype, tuple(dims[a] for a in axes))
        builder.transpose(source, text, axes, name="out")
    elif kind == "reshape":
        flat = int(np.prod(dims))
        first = rng.choice([n for n in range(1, flat + 1) if flat % n == 0])
        text = random_text(rng, dtype, (first, flat // first))
        builder.add("reshape", (source,), text, name="out")
    else:
        to = rng.choice(("f32", "bf16")) if kind == "cast" and dtype != "s8" else dtype
        to = "f32" if kind == "cast" and dtype == to else to
        builder.add(kind, (source,), random_text(rng, to, dims), name="out")
    return builder.graph()
