"""What is only copied goes in the widest words: the same bytes, sooner.

numpy's bytes are the oracle of the values, NaNs and their payloads among them; the other engine
that of the cycles, the program checker that of the order, and the bound must stay below the run.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.axes import axes_of, told
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.bounds import run_bound
from systolic.compiler import compile_graph
from systolic.config import load_chip
from systolic.engine_kind import EngineKind
from systolic.hw.datatypes import data_type
from systolic.isa import Copy
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.run.tensors import graph_images, initial_accesses
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

KINDS = ("load", "inject", "psum_write", "read", "write")


def any_bits(seed: int, graph: Graph) -> dict[str, np.ndarray]:
    """Return tensors of random bytes: numbers, infinities and NaNs of every payload."""
    rng, found = np.random.default_rng(seed), {}
    for name in graph.inputs:
        shape = graph.shape(name)
        dtype = data_type(shape.element_type).numpy
        data = rng.integers(0, 256, shape.num_elements() * dtype.itemsize, np.uint8)
        found[name] = data.view(dtype).reshape(shape.dims)
    return found


def random_move(rng: Random) -> Graph:
    """Return a move of a narrow type on the chip, of sides that have whole words and that do not.

    The minor-most dimension mostly stays, so that runs are long enough.
    """
    builder = GraphBuilder("state_buffer")
    dtype = rng.choice(["s8", "u8", "bf16", "f16", "f8e4m3fn", "f32"])
    dims = [rng.choice([2, 3, 4, 5, 8]) for _ in range(rng.randint(2, 3))]
    dims.append(rng.choice([2, 4, 6, 7, 8, 16]))
    x = builder.tensor("x", f"{dtype}[{','.join(map(str, dims))}]")
    axes = list(range(len(dims) - 1))
    rng.shuffle(axes)
    axes.insert(len(axes) if rng.random() < 0.8 else 0, len(dims) - 1)
    out = [dims[axis] for axis in axes]
    shape = f"{dtype}[{','.join(map(str, out))}]"
    y = builder.add("transpose", (x,), shape, name="y", **told(axes))
    if rng.random() < 0.4:  # some rows of all columns, or all rows of some columns
        axis = rng.choice([0, len(out) - 1])
        first = rng.randrange(out[axis])
        starts = [first if n == axis else 0 for n in range(len(out))]
        limits = [rng.randint(first + 1, side) if n == axis else side for n, side in enumerate(out)]
        sides = [b - a for a, b in zip(starts, limits, strict=True)]
        cut = f"{dtype}[{','.join(map(str, sides))}]"
        builder.add("slice", (y,), cut, name="z", start=starts, stop=limits)
    return builder.graph()


def expected(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Return what numpy makes of the input."""
    for op in graph.operations:
        if op.kind == "transpose":
            x = x.transpose(axes_of(op))
        else:
            starts, limits = op.attributes.start, op.attributes.stop
            x = x[tuple(slice(a, b) for a, b in zip(starts, limits, strict=True))]
    return np.ascontiguousarray(x)


def random_chip(rng: Random):
    rows, cols = rng.choice([(4, 4), (8, 8), (16, 8)])
    if rng.random() < 0.2:
        return load_chip(CHIPS / f"{rng.choice(['neuroncore_v3', 'multi_clock_128x128'])}.toml")
    port = rng.choice([None, None, 4, 8])
    return ideal_chip(
        rows, cols,
        state_buffer={"partitions": max(rows, cols), "banks": rng.choice([1, 4, 8])}
        | ({"port_bytes": port} if port else {}),
        activation={"independent_lanes": rng.random() < 0.5, "latency_cycles": rng.randint(1, 9)},
        pooling={"min_interval_cycles": rng.choice([1, 6])},
        dma={"queues": 2, "latency_cycles": 300, "descriptor_cycles": 7},
    )  # fmt: skip


def widened(run: systolic.run.result.Result, dtype: str) -> bool:
    """Return whether a copy takes words of another size than the elements."""
    copies = [i for i in run.compiled.program.instructions if isinstance(i, Copy)]
    size = data_type(dtype).size_bytes
    return any(
        data_type(copy.source.dtype).size_bytes != size and copy.source.dtype == copy.target.dtype
        for copy in copies
    )


@pytest.mark.parametrize("batch", range(3))
def test_bytes_arrive_as_they_were_whatever_words_they_go_in(batch: int) -> None:
    wide = 0
    for seed in range(12 * batch, 12 * batch + 12):
        rng = Random(seed)
        graph, chip = random_move(rng), random_chip(rng)
        values = any_bits(seed, graph)
        run = systolic.run(graph, chip, values)
        (name,) = graph.outputs
        assert run.outputs[name].tobytes() == expected(graph, values["x"]).tobytes(), seed
        assert run.trace.ticks >= run_bound(graph, chip).ticks, seed
        assert lint(run.compiled.program, chip, initial_accesses(run.compiled)) == [], seed
        wide += widened(run, graph.shape("x").element_type)
    assert wide >= 2  # of 12


@pytest.mark.parametrize("seed", range(6))
def test_both_engines_agree_on_words(seed: int) -> None:
    rng = Random(700 + seed)
    graph, chip = random_move(rng), random_chip(rng)
    compiled = compile_graph("words", graph, chip, verify=True)
    images = graph_images(compiled, any_bits(seed, graph))
    engines: tuple[EngineKind, ...] = ("event", "register")
    event, register = (
        simulate(chip, compiled.program, images, engine=e, kinds=KINDS) for e in engines
    )
    assert_same(event, register)


def relayout(shape: str, before: str, after: str) -> Graph:
    builder = GraphBuilder("state_buffer")
    builder.add("relayout", (builder.tensor("x", shape + before),), shape + after, name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("dtype", "cols", "word", "elements"),
    [
        ("s8", 64, "s32", 16),
        ("bf16", 64, "s32", 32),
        ("f32", 64, "f32", 64),
        ("s8", 62, "bf16", 31),  # rows of 62 bytes: every other one begins within a word of four
        ("s8", 63, "s8", 63),
    ],
)
def test_the_widest_words_that_fit_are_taken(dtype, cols, word, elements) -> None:
    """Each of 8 lanes has 3 x 4 rows of columns before, and 4 x 3 after.

    The last element is written a cycle after it is read.
    """
    graph = relayout(f"{dtype}[3,8,4,{cols}]", "{3,2,1,0}", "{3,0,1,2}")
    run = systolic.run(graph, ideal_chip(8, 8, state_buffer={"banks": 1}), any_bits(1, graph))
    ends = [(each.source, each.target) for each in run.compiled.program.instructions]
    assert {end.dtype for both in ends for end in both} == {word}
    assert run.cycles <= 12 * elements + 1


def test_a_port_may_be_too_narrow_for_the_widest_words() -> None:
    chip = ideal_chip(8, 8, state_buffer={"port_bytes": 2},
                      pe_array={"cycles_per_vector": {"bf16": 1, "s8": 1}})  # fmt: skip
    graph = relayout("s8[3,8,4,64]", "{3,2,1,0}", "{3,0,1,2}")
    run = systolic.run(graph, chip, any_bits(1, graph))
    assert {each.source.dtype for each in run.compiled.program.instructions} == {"bf16"}
    assert run.cycles <= 12 * 32 + 1


def test_an_engine_that_is_faster_with_two_bytes_gets_two_bytes() -> None:
    """The vector engine of this chip takes four bf16 that lie side by side in a cycle, or one s32.

    Four rows of 256 bytes are 512 words of two bytes for each lane, 128 cycles; one instruction.
    """
    chip = load_chip(CHIPS / "neuroncore_v3.toml")
    graph = relayout("s8[2,128,2,256]", "{3,2,1,0}", "{3,0,1,2}")
    run = systolic.run(graph, chip, any_bits(1, graph))
    assert {each.source.dtype for each in run.compiled.program.instructions} <= {"bf16", "s32"}
    assert run.trace.ticks >= run_bound(graph, chip).ticks
