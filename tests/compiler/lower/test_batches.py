"""Batches that come and go many matrices at a time: how they are brought, and that they are right.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.workload import Graph, GraphBuilder


def product(left: str, right: str, out: str) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", left)
    builder.tensor("w", right)
    builder.matmul("x", "w", out, name="y")
    return builder.graph()


def order(rng: Random, rank: int) -> str:
    return "{" + ",".join(map(str, rng.sample(range(rank), rank))) + "}"


def drawn(rng: Random, *, tiles: bool = False) -> Graph:
    """Return a product of a batch with many small matrices, its dimensions in any order.

    tiles: as wide as any dimension, so that gaps lie behind all rows, at equal distances.
    """
    batch = [rng.choice([4, 6, 8, 12])] + ([2] if rng.random() < 0.3 else [])
    M, K, N = (rng.randint(1, 9) for _ in range(3))
    dtype, total = rng.choice([("f32", "f32"), ("bf16", "f32"), ("s8", "s32")])
    rank = len(batch) + 2
    left, right, out = (
        f"{kind}[{','.join(map(str, (*batch, *dims)))}]{order(rng, rank)}"
        for kind, dims in ((dtype, (M, K)), (dtype, (K, N)), (total, (M, N)))
    )
    if tiles:
        left, right, out = (
            f"{text[:-1]}:T({rng.choice([2, 4])},16)}}" for text in (left, right, out)
        )
    return product(left, right, out)


def slow_to_begin(rng: Random):
    """Return a small chip whose copies have a latency, so that many matrices in one copy pay."""
    return ideal_chip(
        rng.randint(4, 8), rng.randint(4, 8),
        state_buffer={"partitions": rng.randint(12, 16), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.choice([20, 100])},
    )  # fmt: skip


def choices(seed: int, *, tiles: bool = False) -> tuple[str, ...]:
    rng = Random(8000 + seed)
    graph = drawn(rng, tiles=tiles)
    return compile_graph("product", graph, slow_to_begin(rng)).layers.choices


@pytest.mark.parametrize(("seed", "tiles"), [(n, t) for t in (False, True) for n in range(40)])
def test_batches_are_right_and_cost_the_same_on_both_engines(seed: int, tiles: bool) -> None:
    rng = Random(8000 + seed)
    graph, hardware = drawn(rng, tiles=tiles), slow_to_begin(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, inputs)


@pytest.mark.parametrize("way", [" is brought in whole rows of all its matrices",
                                 " is stored in whole rows of all its matrices"])  # fmt: skip
def test_the_random_batches_take_every_way(way: str) -> None:
    assert any(way in text for seed in range(40) for text in choices(seed))


@pytest.mark.parametrize("verb", ["brought", "stored"])
def test_a_batch_in_tiles_goes_in_whole_rows_without_the_gaps(verb: str) -> None:
    way = f" is {verb} in whole rows of all its matrices"
    assert any(way in choice for seed in range(40) for choice in choices(seed, tiles=True))


def test_a_result_whose_batch_lies_in_the_columns_of_tiles_is_one_copy() -> None:
    """Work 47 of `benchmarks/bench_moves.py`: 512 copies took three times as long."""
    graph = product("s8[4,8,64,80]{2,3,1,0}", "s8[4,8,80,64]", "s32[4,8,64,64]{0,3,2,1:T(8,128)}")
    result = systolic.run(graph, "lpddr5_6400_128x128", values=False)
    assert result.summary["transfers"]["copies"] < 10
    assert result.summary["dram_bytes"] == 4 * 8 * 64 * (80 + 80 + 4 * 64)  # no gap is moved
    assert result.cycles < 75_000


def test_matrices_that_are_turned_one_after_another_do_not_wait_for_one_another() -> None:
    # 16 products of 8 x 8: x lies row by row and is turned. A sweep is a load of 8 columns that
    # hides behind 8 vectors, for the turn and for the product: 16 cycles for each matrix. The way
    # of one matrix through the array and out twice is more than that.
    graph = product("bf16[16,8,8]", "bf16[16,8,8]", "f32[16,8,8]")
    chip = ideal_chip(8, 8, state_buffer={"partitions": 8}, result_buffer={"banks": 8})
    result = systolic.run(graph, chip, values=False)
    array = [times for times in result.trace.times if times.unit == "pe_array"]
    assert len(array) >= 64  # a load and a multiply, for turn and product of each matrix
    print(array[-1].start - array[0].start)
    assert array[-1].start - array[0].start < 16 * 24


def test_matrices_whose_copies_wait_for_latencies_come_in_a_group() -> None:
    # Work 18 of benchmarks/bench_moves.py: 96 x 256 bytes take a queue less than the latency.
    graph = product("f16[16,128,96]{0,2,1}", "f16[16,96,128]", "f32[16,128,128]{2,1,0:T(8,128)}")
    result = systolic.run(graph, "hbm2e_128x128", values=False)
    assert result.summary["transfers"]["copies"] == 2 + 16
    assert result.cycles < 1.5 * result.summary["bound"]["cycles"]
