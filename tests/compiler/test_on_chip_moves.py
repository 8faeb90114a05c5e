"""Permutations and reshapes of what is on the chip: right, clean, and without a byte of DRAM.

numpy is the oracle of the values, the register engine that of the cycles, the program checker
that of the order; where an element must come from is computed by numpy on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from compiler.test_graph_values import random_values
from support.axes import axes_of, told
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.change_of_view import Spread, pieces
from systolic.compiler.lower.moves.reshape import common_factors, regroup
from systolic.config import load_chip, load_run
from systolic.engine_kind import EngineKind
from systolic.isa import Buffer, DmaCopy, MatMul
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.run.result import Result
from systolic.run.tensors import graph_images, initial_accesses
from systolic.shipped import CHIPS
from systolic.spans import Span
from systolic.workload import Graph, GraphBuilder

TYPES = ("f32", "bf16", "f16", "f8e4m3fn", "s8", "u8", "s32")
RUNS = Path(__file__).resolve().parents[2] / "configs" / "runs"
KINDS = ("load", "inject", "psum_write", "read", "write")


def chip(rng: Random):
    rows, cols = rng.randint(1, 9), rng.randint(1, 9)
    return ideal_chip(
        rows, cols,
        state_buffer={"partitions": rng.randint(max(rows, cols), 12), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(1, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
        dma={"queues": rng.randint(1, 3), "latency_cycles": rng.choice([0, 5, 50])},
    )  # fmt: skip


def layout(rng: Random, rank: int) -> str:
    order = list(range(rank))
    rng.shuffle(order)
    return "{" + ",".join(map(str, order)) + "}"


def another_shape(rng: Random, dims: list[int]) -> list[int]:
    """Merge neighbours and split dimensions, so that some of them nest and some do not."""
    total = int(np.prod(dims))
    found = []
    while total > 1 and len(found) < 3 and rng.random() < 0.8:
        side = rng.choice([d for d in range(1, total + 1) if total % d == 0])
        found.append(side)
        total //= side
    return [*found, total]


def moves(rng: Random) -> Graph:
    """A chain of permutations, relayouts and reshapes, on the chip at both ends."""
    builder = GraphBuilder("state_buffer")
    dtype = rng.choice(TYPES)
    dims = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    now = builder.tensor("x", f"{dtype}[{','.join(map(str, dims))}]{layout(rng, len(dims))}")
    for number in range(rng.randint(1, 3)):
        axes: list[int] = []
        kind = rng.choice(["transpose", "relayout", "reshape"])
        if kind == "transpose" and len(dims) > 1:
            axes = list(range(len(dims)))
            rng.shuffle(axes)
            dims = [dims[axis] for axis in axes]
        elif kind == "reshape":
            dims = another_shape(rng, dims)
        else:
            kind = "relayout"
        shape = f"{dtype}[{','.join(map(str, dims))}]{layout(rng, len(dims))}"
        now = builder.add(kind, (now,), shape, name=f"y{number}", **told(axes))
    return builder.graph()


def numpy_of(graph: Graph, x: np.ndarray) -> np.ndarray:
    for op in graph.operations:
        x = x.transpose(axes_of(op)) if op.kind == "transpose" else x
        x = x.reshape(graph.shape(op.output).dims)
    return x


def dram_bytes(run: Result) -> int:
    return sum(
        access.size_bytes
        for instruction in run.compiled.program.instructions
        if isinstance(instruction, DmaCopy)
        for access in (instruction.source, instruction.target)
        if access.buffer is Buffer.DRAM
    )


@settings(max_examples=40, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_any_chain_on_the_chip(rng):
    is_right_on_the_chip(rng)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_many_chains_on_the_chip(rng):
    is_right_on_the_chip(rng)


def is_right_on_the_chip(rng):
    graph, hardware = moves(rng), chip(rng)
    values = random_values(rng, graph.shape("x"))
    run = systolic.run(graph, hardware, {"x": values})
    (name,) = graph.outputs
    expected = numpy_of(graph, values)
    assert np.array_equal(run.outputs[name].astype(np.float64), expected.astype(np.float64))
    assert dram_bytes(run) == 0
    compiled = run.compiled
    assert run.trace.cycles() >= run_bound(graph, hardware).cycles
    assert lint(compiled.program, hardware, initial_accesses(compiled)) == []


@pytest.mark.parametrize("seed", quick_first(range(25), 6))
def test_both_engines_agree_on_every_record(seed):
    rng = Random(seed)
    graph, hardware = moves(rng), chip(rng)
    compiled = compile_graph("test", graph, hardware)
    images = graph_images(compiled, {"x": random_values(rng, graph.shape("x"))})
    engines: tuple[EngineKind, ...] = ("event", "register")
    event, register = (
        simulate(hardware, compiled.program, images, engine=e, kinds=KINDS) for e in engines
    )
    assert_same(event, register)


def lone(kind: str, source: str, result: str, permutation=(), home="state_buffer") -> Graph:
    builder = GraphBuilder(home)
    builder.add(kind, (builder.tensor("x", source),), result, name="y", **told(permutation))
    return builder.graph()


@pytest.mark.parametrize(
    ("kind", "source", "result", "axes"),
    [
        ("reshape", "f32[2,14,14,32]", "f32[2,196,32]", ()),
        ("reshape", "f32[2,196,32]", "f32[2,14,14,32]", ()),
        ("reshape", "f32[6,10,7]", "f32[60,7]", ()),
        ("reshape", "f32[6,1,7]", "f32[6,7]", ()),
        ("transpose", "f32[30,20]{0,1}", "f32[20,30]{1,0}", (1, 0)),
        ("relayout", "f32[30,20]", "f32[30,20]", ()),
    ],
)
def test_nothing_moves_where_the_bytes_are_the_same(kind, source, result, axes):
    graph = lone(kind, source, result, axes)
    values = random_values(Random(0), graph.shape("x"))
    run = systolic.run(graph, ideal_chip(16, 8), {"x": values})
    assert run.compiled.program.instructions == ()
    assert run.trace.cycles() == 0
    assert np.array_equal(run.outputs["y"], numpy_of(graph, values))


def test_a_permutation_within_a_graph_takes_the_array_not_dram():
    """Heads of an attention layer: [seq, head, width] to [head, width, seq], there at cycle 0."""
    builder = GraphBuilder("state_buffer")
    x = builder.tensor("x", "f32[24,4,8]")
    y = builder.transpose(x, "f32[4,8,24]", (1, 2, 0), name="y")
    builder.matmul(y, builder.tensor("w", "f32[4,24,5]"), "f32[4,8,5]", name="z")
    graph, rng = builder.graph(), Random(3)
    values = {name: np.round(4 * random_values(rng, graph.shape(name))) for name in graph.inputs}
    run = systolic.run(graph, ideal_chip(8, 8), values)
    assert np.array_equal(run.outputs["z"], values["x"].transpose(1, 2, 0) @ values["w"])
    assert dram_bytes(run) == 0


def test_neighbours_share_the_partitions_where_that_saves_a_move():
    """Heads are turned where they lie: 8 tiles of 128 vectors, one load, one fill, one drain."""
    summary = systolic.run(load_run(RUNS / "permute_onchip.toml")).summary
    assert summary["values"]["equal"]
    assert summary["cycles"] == 128 + 8 * 128 + (127 + 127) + 128 + 1
    assert "DmaCopy" not in summary["instructions"]


def test_a_turn_and_a_move_share_the_work():
    """[a, b, c] to [c, a, b]: columns become rows in the array, not element by element."""
    builder = GraphBuilder("state_buffer")
    x = builder.tensor("x", "f32[6,16,16]")
    y = builder.transpose(x, "f32[16,6,16]", (2, 0, 1), name="y")
    builder.add("relayout", (y,), "f32[16,6,16]{2,1,0}", name="z")
    chip_ = ideal_chip(16, 16, dma={"latency_cycles": 600, "descriptor_cycles": 7})
    run = systolic.run(builder.graph(), chip_)
    assert any(isinstance(i, MatMul) for i in run.compiled.program.instructions)
    assert dram_bytes(run) == 0


def test_what_the_run_file_sends_through_dram_goes_there():
    graph = lone("transpose", "f32[9,14]", "f32[14,9]", (1, 0))
    values = random_values(Random(1), graph.shape("x"))
    run = systolic.run(graph, ideal_chip(4, 4), {"x": values}, options=Options(via="dram"))
    assert np.array_equal(run.outputs["y"], values.T)
    assert dram_bytes(run) == 2 * values.nbytes


@settings(max_examples=200, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_pieces_cover_each_element_once(rng):
    """Every element of the target is in one piece, and comes from where it lies in the source."""
    dims = tuple(rng.randint(1, 5) for _ in range(rng.randint(2, 4)))
    source, target = (Spread(dims, random_axes(rng, len(dims))) for _ in range(2))
    tensor = np.arange(np.prod(dims)).reshape(dims)
    before, after = (as_batch(tensor, spread) for spread in (source, target))
    number = rng.randrange(len(after))
    _, rows, cols = target.sizes()
    logical = target.logical(number, Span(0, rows), Span(0, cols))
    assert np.array_equal(logical, after[number])
    matrix, row, col = source.locate(logical)
    assert np.array_equal(before[matrix, row, col], after[number])
    for n in range(len(before)):
        found = np.full((rows, cols), -1)
        for p in pieces(row, col, matrix == n):
            lines = range(p.source_row, p.source_row + p.source_rows)
            values = [before[n, line, p.source_col + s] for line in lines for s in steps(p.pairs)]
            there = [p.col + s for s in steps(p.into)]
            part = np.ix_(range(p.row, p.row + p.rows), there)
            assert (found[part] == -1).all()
            found[part] = np.reshape(values, (p.rows, -1))
            assert there == p.target_columns().tolist()
            assert len(there) == p.columns
            assert max(len(p.pairs), len(p.into)) <= 4
        assert np.array_equal(found, np.where(matrix == n, after[number], -1))


def steps(pairs: Sequence[tuple[int, int]]) -> list[int]:
    found = [0]
    for step, count in pairs:
        found = [at + step * i for at in found for i in range(count)]
    return found


def test_columns_at_equal_distances_are_one_piece() -> None:
    """Pixels lie twice side by side, as two groups of rows: two accesses with steps, not twelve."""
    source, target = (Spread((6, 2, 5), axes) for axes in (((1, 2), (0,)), ((2,), (0, 1))))
    _, row, col = source.locate(target.logical(0, Span(0, 5), Span(0, 12)))
    found = pieces(row, col, np.ones((5, 12), np.bool_))
    assert [(p.source_row, p.rows, p.pairs, p.into) for p in found] == [
        (0, 5, ((1, 6),), ((2, 6),)),
        (5, 5, ((1, 6),), ((2, 6),)),
    ]


def random_axes(rng: Random, rank: int):
    order = list(range(rank))
    rng.shuffle(order)
    a, b = sorted(rng.randint(0, rank) for _ in range(2))
    return (tuple(order[:a]), tuple(order[a:b]), tuple(order[b:]))


def as_batch(tensor: np.ndarray, spread: Spread) -> np.ndarray:
    moved = tensor.transpose([axis for group in spread.axes for axis in group])
    return moved.reshape(spread.sizes())


@settings(max_examples=200, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_a_regrouped_view_shows_the_same_matrices(rng):
    dims = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    other = another_shape(rng, dims)
    axes = random_axes(rng, len(dims))
    seen = regroup(axes, dims, other)
    tensor = np.arange(np.prod(dims))
    if seen is None:
        return
    assert np.array_equal(
        as_batch(tensor.reshape(dims), Spread(tuple(dims), axes)),
        as_batch(tensor.reshape(other), Spread(tuple(other), seen)),
    )


def test_common_factors_by_hand():
    assert common_factors((6, 4), (3, 2, 4)) == (((0, 1), (2,)), ((0,), (1,), (2,)))
    assert common_factors((6, 4), (8, 3)) is None
    assert common_factors((1, 5), (5,)) == (((), (0,)), ((0,),))


@pytest.mark.parametrize(
    ("dims", "permutation", "most"),
    [
        # 14 matrices of 40 x 97, cast and turned one after another; column by column: 496,958.
        ((40, 14, 97), (2, 1, 0), 5000),
        # Rows stay rows, of 40: an engine copies 14 of them, which 40 products would not beat.
        ((14, 100, 40), (1, 0, 2), 2500),
    ],
)
def test_small_matrices_of_a_carried_type_go_the_cheaper_way(dims, permutation, most) -> None:
    """The array of this chip takes no u8; bfloat16 carries it."""
    builder = GraphBuilder(home="state_buffer")
    x = builder.tensor("x", f"u8[{','.join(map(str, dims))}]")
    out = ",".join(str(dims[axis]) for axis in permutation)
    builder.transpose(x, f"u8[{out}]", permutation, name="y")
    values = np.random.default_rng(1).integers(0, 256, dims).astype(np.uint8)
    chip = load_chip(CHIPS / "multi_clock_128x128.toml")
    found = systolic.run(builder.graph(), chip, {"x": values})
    np.testing.assert_array_equal(found.outputs["y"], values.transpose(permutation))
    assert found.cycles <= most
