"""Does a schedule come near its bound, and never below it? Is what does not fit named?"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import systolic
from compiler.test_graph_values import random_chip, random_graph, random_values
from support.chips import ideal_chip
from support.random_programs import aside, spread_over_engines
from support.refusals import is_for_room
from support.tiers import quick_first
from systolic.compiler import Options, compile_graph
from systolic.compiler.bounds.run import operation_bounds, run_bound
from systolic.config import load_run
from systolic.errors import CompileError, SystolicError, WorkloadError
from systolic.hw.formulas.products import Product, Turn, _moved_bound, product_bound
from systolic.layout import Shape
from systolic.workload import Graph, GraphBuilder, Operation, Tensor, make_graph

RUNS = Path(__file__).resolve().parents[3] / "configs" / "runs"


@pytest.mark.parametrize(
    ("run", "share"),
    [
        ("matmul_1024_onchip", 0.03),
        ("matmul_1024_dram", 0.10),
        ("matmul_1024_row_major", 0.10),
        ("matmul_skinny", 0.15),
        ("matmul_deep", 0.15),
    ],
)
def test_shipped_products_come_near_their_bounds(run, share):
    summary = systolic.run(load_run(RUNS / f"{run}.toml"), values=False).summary
    assert summary["cycles"] <= (1 + share) * summary["bound"]["cycles"]


def test_a_bound_by_hand():
    """1024^3 on 128 x 128: 8 x 8 tiles of 1024 vectors; first load 128; 127 + 127 to the last.

    64 x 4096 x 4096: 32 x 32 tiles of 128 reads, the last of which may hold a single column.
    """
    chip = load_run(RUNS / "matmul_1024_onchip.toml").chip
    bound = product_bound(chip, Product(1, 1024, 1024, 1024, "bf16"))
    assert bound.cycles == 128 + 64 * 1024 - 1 + (127 + 127) + 1 + 1 + 1
    skinny = product_bound(chip, Product(1, 64, 4096, 4096, "bf16"))
    assert skinny.cycles == 32 * 32 * 128 + 127 + 1 + 1 + 1


def test_a_bound_with_turned_operands_by_hand():
    """A turned 1024 x 1024 operand: 8 x 8 tiles of 128 identity vectors each, nothing else."""
    chip = load_run(RUNS / "matmul_1024_onchip.toml").chip
    plain = 128 + 64 * 1024 - 1 + (127 + 127) + 1 + 1 + 1
    lhs = Turn(1, 1024, 1024, "bf16")
    one = Product(1, 1024, 1024, 1024, "bf16", (lhs,))
    assert product_bound(chip, one).cycles == plain + 64 * 128
    both = Product(1, 1024, 1024, 1024, "bf16", (lhs, lhs))
    assert product_bound(chip, both).cycles == plain + 2 * 64 * 128


def test_the_better_mapping_turns_the_result_only_if_that_is_less():
    """300 x 128 x 128 with M minor: rhs held, 300 vectors, nothing turned; N minor: a turn of
    128 x 300 (3 tiles of 128 vectors), or lhs held: 3 tiles of 128 vectors, nothing turned."""
    chip = load_run(RUNS / "matmul_1024_onchip.toml").chip
    ends = 128 - 1 + (127 + 127) + 3
    sizes = (1, 300, 128, 128, "bf16", ())
    assert product_bound(chip, Product(*sizes, "M", "bf16")).cycles == ends + 300
    narrow = ends - (128 - 44)  # the last of three tiles has 44 columns: loaded first, run last
    shortest = narrow - (128 - 44)
    assert product_bound(chip, Product(*sizes, "N", "bf16")).cycles == shortest + 3 * 128


def test_dma_turns_what_is_cheaper_so():
    """1024 elements one by one through 16 queues are no work beside 256 cycles of loads; through
    one queue, and by engines that start an instruction in 64 cycles, they are too much."""
    product = Product(1, 1, 256, 4, "f32")
    turned = Product(1, 1, 256, 4, "f32", (Turn(1, 4, 256, "f32"),))
    quick = ideal_chip(4, 4, dma={"queues": 16, "descriptor_cycles": 0, "bytes_per_cycle": 4})
    assert product_bound(quick, turned) == product_bound(quick, product)
    rare = {"min_interval_cycles": 64}
    slow = ideal_chip(4, 4, activation=rare, pooling=rare,
                      dma={"queues": 1, "descriptor_cycles": 3, "bytes_per_cycle": 4})  # fmt: skip
    lhs_held, of_the_turn, load, to_last_write = 64 * 4, 64 * 4, 1, 3 + 1 + 1 + 1
    assert product_bound(slow, turned).cycles == load + lhs_held + of_the_turn - 1 + to_last_write


@pytest.mark.parametrize("out", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("lhs", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("rhs", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize(("home", "share"), [("state_buffer", 0.03), ("dram", 0.10)])
def test_every_layout_comes_near_its_bound(home, share, lhs, rhs, out):
    chip = load_run(RUNS / "matmul_1024_onchip.toml").chip
    graph = matmul(f"bf16[1024,1024]{lhs}", f"bf16[1024,1024]{rhs}", f"bf16[1024,1024]{out}", home)
    cycles = systolic.run(graph, chip).trace.cycles()
    turned = (lhs == "{1,0}") + (rhs == "{0,1}")
    plain = 128 + 64 * 1024 - 1 + (127 + 127) + 1 + 1 + 1 + (home == "dram") * 2 * (600 + 42 + 1)
    bound = run_bound(graph, chip).cycles
    assert bound == plain + turned * 64 * 128
    assert bound <= cycles <= (1 + share) * bound


@pytest.mark.parametrize(
    ("lhs", "rhs", "turned"),
    [
        ("{1,0:T(8,128)}", "{1,0}", 1),
        ("{1,0:T(8,128)(2,1)}", "{1,0:T(8,128)(2,1)}", 1),
        ("{0,1:T(8,128)}", "{0,1:T(8,128)(2,1)}", 1),
        ("{1,0:T(8,128)}", "{0,1:T(8,128)}", 2),
        ("{1,0:T(128)}", "{1,0}", 0),  # other tiles are taken to be readable either way
    ],
)
def test_a_layout_in_tiles_of_its_matrices_is_turned_as_its_columns_lie(lhs, rhs, turned):
    chip = load_run(RUNS / "matmul_1024_onchip.toml").chip
    graph = matmul(f"bf16[1024,1024]{lhs}", f"bf16[1024,1024]{rhs}", "bf16[1024,1024]{1,0}",
                   "state_buffer")  # fmt: skip
    plain = 128 + 64 * 1024 - 1 + (127 + 127) + 1 + 1 + 1
    assert run_bound(graph, chip).cycles == plain + turned * 64 * 128


def test_rows_side_by_side_pass_through_the_array_as_words():
    """Pairs of 16 rows of bf16 are 8 rows of words: as many vectors, where words pass through."""
    rare, late = {"min_interval_cycles": 999}, {"queues": 1, "latency_cycles": 999999}
    slow = {"activation": rare, "pooling": rare, "dma": late | {"bytes_per_cycle": 4}}
    chip = ideal_chip(4, 4, pe_array={"pass_through": {"f32": 1}}, **slow)
    found = {
        turn: product_bound(chip, Product(1, 16, 8, 8, "bf16", (turn,))).cycles
        for turn in (Turn(1, 16, 8, "bf16"), Turn(1, 16, 8, "bf16", 2), Turn(1, 8, 8, "f32"))
    }
    alone, pairs, words = found.values()
    assert pairs == words < alone


def test_lanes_that_are_not_independent_turn_one_element_after_another():
    """A batch of 8: 8 elements in an instruction, which a lane reads in 8 cycles. Four lanes may be
    at work at once, if they are independent, however many elements an instruction has."""
    turned = Product(8, 1, 4, 4, "f32", (Turn(8, 4, 64, "f32"),))
    late = {"queues": 1, "latency_cycles": 9999, "bytes_per_cycle": 4}
    both = {}
    for independent in (True, False):
        engine = {"independent_lanes": independent}
        chip = ideal_chip(4, 4, activation=engine, pooling=engine, dma=late)
        both[independent] = _moved_bound(chip, turned.turns).cycles
    assert both == {True: 8 * 4 * 64 // (2 * 4) + 1, False: 8 * 4 * 64 // 2 + 1}


def test_partial_tiles_count_as_the_array_runs_them():
    chip = ideal_chip(4, 4)
    whole = product_bound(chip, Product(1, 8, 8, 8, "f32")).cycles
    assert product_bound(chip, Product(1, 8, 5, 8, "f32")).cycles == whole


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_no_run_beats_its_bound(seed):
    rng = Random(1000 + seed)
    chip, graph = random_chip(rng), random_graph(rng)
    if seed % 4 == 3:
        chip = spread_over_engines(chip, aside(rng, "spread"))
    try:
        run = systolic.run(graph, chip)
    except SystolicError as error:
        assert is_for_room(error)  # noqa: PT017
        return
    assert run.trace.cycles() >= run_bound(graph, chip).cycles
    assert run_bound(graph, chip).cycles >= max(
        b.bound.cycles for b in operation_bounds(graph, chip)
    )


def test_times_do_not_depend_on_values():
    rng = Random(5)
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[30,20]"), builder.tensor("w", "f32[20,40]")
    builder.matmul(x, w, "f32[30,40]")
    graph, chip = builder.graph(), ideal_chip(8, 4)
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    assert systolic.run(graph, chip, inputs).trace.times == systolic.run(graph, chip).trace.times


def matmul(lhs: str, rhs: str, out: str, home="state_buffer") -> Graph:
    builder = GraphBuilder(home)
    builder.matmul(builder.tensor("x", lhs), builder.tensor("w", rhs), out, name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "message"),
    [
        ("f32[4,5]", "f32[6,4]", "f32[4,4]",
         r'operation "y": f32\[4,5\] and f32\[6,4\] cannot be multiplied: lhs \[.., M, K\] and '
         r"rhs \[.., K, N\] need the same K, and leading dimensions that are equal or 1 from the "
         r"last"),
        ("f32[2,4,5]", "f32[3,5,4]", "f32[3,4,4]", "leading dimensions that are equal or 1"),
        ("f32[2,4,5]", "f32[5,4]", "f32[4,4]",
         r"f32\[2,4,5\] times f32\[5,4\] has dimensions \[2,4,4\], but out is f32\[4,4\]"),
        ("f32[4,5]", "f32[5,4]", "f32[4,5]",
         r'operation "y": f32\[4,5\] times f32\[5,4\] has dimensions \[4,4\], but out is '
         r"f32\[4,5\]"),
        ("f32[4]", "f32[4,4]", "f32[4,4]", r"matmul needs at least 2 dimensions, found "
         r"f32\[4\]; a vector is a matrix of one row or one column"),
        ("s8[4,5]", "f32[5,4]", "f32[4,4]", "integers multiply with integers"),
        ("f32[0,5]", "f32[5,4]", "f32[0,4]", "has no elements"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_go_together(lhs, rhs, out, message):
    with pytest.raises(WorkloadError, match=message):
        matmul(lhs, rhs, out)


@pytest.mark.parametrize(
    ("tables", "shapes", "home", "message"),
    [
        ({"dram": {"size_bytes": 128}}, ("f32[4,4]", "f32[4,4]", "f32[4,4]"), "dram",
         r"dram of test 4 x 4 has no room for y: f32\[4,4\]\{1,0\} needs 64 bytes beside 128"),
        ({"state_buffer": {"bytes_per_partition": 16, "banks": 1}},
         ("f32[4,4]", "f32[4,4]", "f32[4,4]"), "state_buffer",
         r"state_buffer of test 4 x 4 has no room for the inputs: they need at least 32 "
         r"bytes of each of 4 partitions, found 16"),
        ({"state_buffer": {"bytes_per_partition": 16, "banks": 1}},
         ("f32[4,4]{0,1}", "f32[4,4]", "f32[4,4]"), "dram",
         r"state_buffer of test 4 x 4 has no room for w.1\[0;0,0\]: it needs 16 bytes per "
         r"partition beside 16 of the tiles used with it, found 16"),
        ({"pe_array": {"cycles_per_vector": {"bf16": 1}}},
         ("f32[4,4]", "f32[4,4]", "f32[4,4]"), "dram",
         r'operation "y": f32\[4,4\]\{1,0\}: the array of test 4 x 4 cannot take f32; it takes '
         r"bf16"),
        ({}, ("f32[4,4]", "bf16[4,4]", "f32[4,4]"), "dram",
         r'operation "y": f32 cannot be multiplied with bf16'),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_chip(tables, shapes, home, message):
    chip = ideal_chip(4, 4, **tables)
    with pytest.raises(CompileError, match=message):
        compile_graph("test", matmul(*shapes, home=home), chip, Options())


def test_graphs_that_make_no_sense():
    square = Tensor(Shape.parse("f32[4,4]"), "dram")
    a = Operation("a", "relayout", ("y",), "x")
    b = Operation("b", "relayout", ("x",), "y")
    with pytest.raises(WorkloadError, match="the graph has a cycle: "):
        make_graph({"x": square, "y": square}, [a, b])
    with pytest.raises(WorkloadError, match=r'unknown operation "matmull"; perhaps "matmul" was'):
        make_graph({"x": square}, [Operation("a", "matmull", ("x", "x"), "x")])
    with pytest.raises(WorkloadError, match=r'no tensor "yy" \(known: y\); perhaps "y" was'):
        make_graph({"y": square}, [Operation("a", "relayout", ("yy",), "y")])
    with pytest.raises(WorkloadError, match=r'tensor "y" is made by "a" and by "b"'):
        make_graph({"x": square, "y": square},
                   [Operation("a", "relayout", ("x",), "y"), b])  # fmt: skip
    with pytest.raises(WorkloadError, match='operation "a": matmul takes 2 tensors, found 1'):
        make_graph({"x": square, "y": square}, [Operation("a", "matmul", ("x",), "y")])
