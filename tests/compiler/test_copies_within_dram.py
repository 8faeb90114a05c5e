"""Copies within DRAM: which elements they move, that they are taken where they pay, how long.

numpy is the oracle of the elements and of the values, the register engine that of the cycles.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.hw.spec import Chip
from systolic.workload import Graph, GraphBuilder


def moved(source: str, result: str, axes: tuple[int, ...] | None = None) -> Graph:
    """Return a graph of one relayout, or transpose by `axes`, from DRAM to DRAM."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", source)
    if axes is None:
        builder.add("relayout", ("x",), result, name="y")
    else:
        builder.transpose("x", result, axes, name="y")
    return builder.graph()


def random_rows(rng: Random) -> tuple[Graph, Chip]:
    """Return a transpose that keeps its rows, and a chip whose copies are spread, or are not."""
    dims = [rng.randint(2, 6) for _ in range(rng.randint(2, 4))] + [rng.choice([16, 24, 40])]
    axes = (*rng.sample(range(len(dims) - 1), len(dims) - 1), len(dims) - 1)
    dtype, tiles = rng.choice(["f32", "bf16", "u8"]), rng.choice(["", "", ":T(4,8)", ":T(8,16)"])
    order = ",".join(str(n) for n in reversed(range(len(dims))))
    result = f"{dtype}[{','.join(str(dims[axis]) for axis in axes)}]{{{order}{tiles}}}"
    graph = moved(f"{dtype}[{','.join(map(str, dims))}]", result, axes)
    dma = {"queues": rng.randint(1, 4), "latency_cycles": 30, "descriptor_cycles": 0}
    if rng.random() < 0.4:
        dma |= {"engines": 4, "partitions_per_engine": 2, "descriptor_cost": "max"}
        dma |= {"queues": 4, "outstanding": 4, "bytes_per_cycle": 4, "descriptor_cycles": 5}
    return graph, ideal_chip(8, 8, dma=dma, state_buffer={"port_scope": "bank"})


@pytest.mark.parametrize("seed", quick_first(range(30), 8))
def test_rows_that_change_places_equal_numpy_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph, chip = random_rows(rng)
    compile_graph("copied", graph, chip, verify=True)
    run_on_both_engines(graph, chip, {"x": random_values(rng, graph.shape("x"))})


def test_most_of_them_go_within_dram_on_either_kind_of_chip() -> None:
    went = {True: 0, False: 0}
    for seed in range(30):
        graph, chip = random_rows(Random(seed))
        choices = compile_graph("copied", graph, chip).layers.choices
        went[chip.dma.is_spread] += any("within DRAM" in choice for choice in choices)
    assert min(went.values()) >= 6, went


def test_rows_that_change_places_are_copied_at_the_full_rate_of_all_engines() -> None:
    """s32[8,1024,80] to [1024,8,80]: 8,192 runs of 320 bytes, on 16 engines of 33 bytes a cycle.

    A run costs its queue 105 cycles, 16 of them at a time. Of one queue these are 512 x 105; two
    queues would take half of that, and on the chip every byte would pass the engines twice.
    """
    graph = moved("s32[8,1024,80]", "s32[1024,8,80]", (1, 0, 2))
    result = systolic.run(graph, "neuroncore_v4", values=False)
    cycles = 8 * 1024 * 320 // (16 * 33)  # of DMA, whose clock is 1 GHz; that of the array is 2.4
    assert cycles * 24 // 10 < result.cycles < (642 + cycles + 60) * 24 // 10
    assert result.summary["transfers"]["runs"] == [{"bytes": 320, "count": 8192}]
