"""Neighbouring rows on one partition: what comes so, how it is added up, and that it is right.

The oracle of values is numpy with an order of additions of its own, that of cycles the register
engine, that of races the program checker.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.nodes import MultiplyNode
from systolic.config import load_chip, load_run
from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

FOLDED = " on a partition"
IDEAL = load_chip(CHIPS / "ideal_128x128.toml")


def product(left: str, right: str, out: str, home: str = "dram") -> Graph:
    builder = GraphBuilder(home=home)
    builder.tensor("x", left)
    builder.tensor("w", right)
    builder.matmul("x", "w", out, name="y")
    return builder.graph()


def dear_descriptors(rng: Random) -> Chip:
    """Return a small chip that pays for each descriptor, so that long runs are worth the wait."""
    return ideal_chip(
        4, rng.choice([4, 5]),
        state_buffer={"partitions": rng.choice([4, 8]), "banks": rng.choice([1, 8]),
                      "bytes_per_partition": 4096},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.choice([2, 20]),
             "descriptor_cycles": rng.choice([10, 40])},
    )  # fmt: skip


def drawn(rng: Random) -> Graph:
    """Return a product of one matrix or of a batch, which may share an operand, in any layouts."""
    batch = rng.choice([[], [], [4], [2, 3]])
    M, N = rng.choice([3, 8, 12, 20, 32]), rng.choice([2, 4, 7])
    K = rng.choice([4, 8, 16, 24, 32, 13])
    dtype, total = rng.choice([("f32", "f32"), ("bf16", "f32"), ("s8", "s32")])
    shared = rng.choice([None, None, "x", "w"])

    def shape(name: str, kind: str, dims: tuple[int, int]) -> str:
        sizes = [*([] if name == shared else batch), *dims]
        places = list(range(len(sizes)))
        minor_to_major = "" if rng.random() < 0.5 else rng.sample(places, len(sizes))
        layout = "{" + ",".join(map(str, minor_to_major)) + "}" if minor_to_major else ""
        return f"{kind}[{','.join(map(str, sizes))}]{layout}"

    left, right = shape("x", dtype, (M, K)), shape("w", dtype, (K, N))
    out = shape("y", total, (M, N))
    return product(left, right, out)


@pytest.mark.parametrize("seed", quick_first(range(80), 16))
def test_folded_operands_are_right_and_cost_the_same_on_both_engines(seed: int) -> None:
    rng = Random(9100 + seed)
    graph, chip = drawn(rng), dear_descriptors(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)


def ways(graph: Graph, chip: Chip) -> set[str]:
    """Return how operands come that come folded: turned or not, one row on a partition or more."""
    choices = compile_graph("product", graph, chip).layers.choices
    found = [text for text in choices if FOLDED in text]
    return {
        ("turned" if "and turned" in text else "as they are")
        + (", one" if "with a row" in text else "")
        for text in found
    }


def test_the_seeds_meet_every_way() -> None:
    drawn_ways, folds = set(), set()
    for seed in range(80):
        rng = Random(9100 + seed)
        graph, chip = drawn(rng), dear_descriptors(rng)
        drawn_ways |= ways(graph, chip)
        layers = compile_graph("product", graph, chip).layers
        folds |= {node.fold for node in layers.nodes if isinstance(node, MultiplyNode)}
    assert drawn_ways == {"turned", "turned, one", "as they are"}
    assert len(folds) > 2


def sums_in_order(x: np.ndarray, w: np.ndarray, order: list[int], tile: int) -> np.ndarray:
    """Return x @ w in float32: rows of K one by one in an order, then the sums of whole tiles."""
    total = None
    for first in range(0, len(order), tile):
        sums = np.zeros((x.shape[0], w.shape[1]), np.float32)
        for k in order[first : first + tile]:
            sums = sums + np.outer(x[:, k], w[k]).astype(np.float32)
        total = sums if total is None else total + sums
    assert total is not None
    return total


def test_rows_of_the_contraction_are_added_as_they_lie() -> None:
    """By hand: with 3 neighbours on each of 4 partitions rows 0, 3, 6 and 9 are taken first."""
    chip = ideal_chip(
        4, 4, dma={"queues": 1, "descriptor_cycles": 60, "latency_cycles": 1},
    )  # fmt: skip
    graph = product("f32[4,24]{0,1}", "f32[24,4]", "f32[4,4]{0,1}")
    numbers = np.random.default_rng(5)
    inputs = {n: numbers.normal(size=graph.shape(n).dims).astype(np.float32) for n in ("x", "w")}
    run = systolic.run(graph, chip, inputs)
    (fold,) = (node.fold for node in run.compiled.layers.nodes if isinstance(node, MultiplyNode))
    assert fold == 6
    order = [k for j in range(6) for k in range(j, 24, 6)]
    expected = sums_in_order(inputs["x"], inputs["w"], order, 4)
    assert run.outputs["y"].tobytes() == expected.tobytes()
    as_numbered = sums_in_order(inputs["x"], inputs["w"], [*range(24)], 4)
    assert run.outputs["y"].tobytes() != as_numbered.tobytes()
    assert run.summary["values"]["equal"]


def runs_of(graph: Graph, chip: Chip, tensor: str) -> set[int]:
    """Return the bytes side by side of the copies that bring a tensor."""
    compiled = compile_graph("product", graph, chip)
    place = next(p for p in compiled.layers.dram if p.name == tensor)
    copies = (i for i in compiled.program.instructions if isinstance(i, DmaCopy))
    return {
        copy.source.size_bytes // copy.target.partitions
        for copy in copies
        if copy.source.buffer is Buffer.DRAM
        and place.base <= copy.source.start < place.base + place.size_bytes
    }


def test_runs_of_the_chain_are_those_of_neighbouring_rows() -> None:
    """Two rows of x, 1 KiB each, and two rows of w1, 768 bytes each."""
    config = load_run(CHIPS.parent / "runs" / "matmul_chain.toml")
    assert runs_of(config.graph, config.chip, "x") == {2048}
    assert runs_of(config.graph, config.chip, "w1") == {1536}


@pytest.mark.parametrize(
    ("graph", "chip"),
    [
        (product("f32[197,768]", "f32[768,768]", "f32[197,768]"), "ideal_128x128"),
        (product("bf16[256,512]", "bf16[512,384]", "f32[256,384]"), "ddr4_128x128"),
        (product("bf16[256,512]", "bf16[512,384]", "f32[256,384]", "state_buffer"),
         "ideal_128x128"),
    ],
    ids=["long rows, and 197 of them", "bytes of DRAM take longest", "on the chip"],
)  # fmt: skip
def test_rows_stay_apart_where_nothing_is_gained(graph: Graph, chip: str) -> None:
    assert not ways(graph, load_chip(CHIPS / f"{chip}.toml"))


@pytest.mark.parametrize("options", [Options(tile_columns=256), Options(via="pe")])
def test_tiles_that_are_asked_for_are_kept(options: Options) -> None:
    graph = product("bf16[256,512]", "bf16[512,384]", "f32[256,384]")
    layers = compile_graph("product", graph, IDEAL, options).layers
    assert not [text for text in layers.choices if FOLDED in text]


def test_what_a_turn_does_to_special_values_is_told_neighbour_by_neighbour() -> None:
    """An infinity that is turned makes NaNs of its column in one block: every second row of x.

    Its own row has the infinity itself there.
    """
    graph = product("f32[8,4]", "f32[4,4]", "f32[8,4]{0,1}")
    chip = ideal_chip(4, 4, dma={"queues": 1, "descriptor_cycles": 60, "latency_cycles": 1})
    x, w = np.ones((8, 4), np.float32), np.eye(4, dtype=np.float32)
    x[2, 1] = np.inf
    run = systolic.run(graph, chip, {"x": x, "w": w})
    assert "turned" in ways(graph, chip)
    assert run.summary["values"]["equal"]
    assert np.flatnonzero(np.isnan(run.outputs["y"][:, 1])).tolist() == [0, 4, 6]
