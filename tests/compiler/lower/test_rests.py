"""Moves with a factor that has no good parts, cut between two of its indices.

The places of elements are numbered by numpy, one by one; values and cycles are those of both
engines.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import systolic
from compiler.test_graph_values import random_values
from compiler.test_moves import random_move
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.ir.move_parts import MovePart, move_parts
from systolic.compiler.lower import rests
from systolic.compiler.lower.rests import Parts, RestCutter
from systolic.compiler.lower.ways import cheapest
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options


def whole(source: str, result: str, axes: tuple[int, ...] | None = None) -> MovePart:
    ends = Shape.parse(source), Shape.parse(result)
    (part,) = move_parts(*ends, axes, over_padding=True)
    return part


def places(part: MovePart) -> dict[int, int]:
    """Return, for each place of the result that a part writes, that of the source."""
    sizes = part.move.sizes
    index = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
    here = part.source + np.dot(part.move.before.steps, index)
    there = part.result + np.dot(part.move.after.steps, index)
    return dict(zip(there.tolist(), here.tolist(), strict=True))


@pytest.mark.parametrize("first", [1, 4, 12])
@pytest.mark.parametrize("factor", [0, 1])
def test_both_parts_of_a_cut_move_every_element_once(factor: int, first: int) -> None:
    part = whole("f32[13,17]", "f32[13,17]{0,1}")
    parts = part.cut(factor, first)
    assert sum(math.prod(each.move.sizes) for each in parts) == 13 * 17
    assert places(parts[0]) | places(parts[1]) == places(part)


def test_elements_behind_the_first_part_are_no_padding() -> None:
    part = whole("s32[4,100]{1,0:T(1,128)}", "s32[4,100]{0,1}", (0, 1))
    assert part.move.gaps == (0, 28)
    first, other = part.cut(1, 64)
    assert first.move.gaps == (0, 0)
    assert other.move.gaps == (0, 28)
    assert other.stop == part.stop


def reshaped(source: str, out: str) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", source)
    builder.add("reshape", ("x",), out, name="y")
    return builder.graph()


def test_what_a_product_takes_may_be_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight matrices whose columns lie 128 elements apart: their gaps are left out on the way."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "f32[8,197,197]{0,1,2:T(8,128)}")
    builder.tensor("w", "f32[8,197,197]{1,0,2}")
    builder.matmul("x", "w", "f32[8,197,197]{2,0,1}", name="y")
    run = systolic.run(builder.graph(), "multi_clock_128x128", values=False)
    monkeypatch.setattr(rests, "CLEARLY", 0)
    other = systolic.run(builder.graph(), "multi_clock_128x128", values=False)
    assert run.cycles < 0.6 * other.cycles


def test_a_factor_with_good_parts_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rests, "CLEARLY", 1e9)
    planner = Planner(load_chip(CHIPS / "ideal_128x128.toml"), Options())
    for rows, parts in ((190, 1), (128, 1), (197, 2), (256, 1)):
        part = whole(f"f32[{rows},64]", f"f32[{rows},64]{{0,1}}")
        found = RestCutter(planner).cut(Parts((part,), [cheapest(part.move, planner)]))
        assert len(found.parts) == parts, rows
    assert [each.move.sizes[0] for each in found.parts] == [256]


def chip(rng: Random) -> Chip:
    """Return a chip of few partitions, so that many factors are more than these."""
    rows, cols, partitions = rng.randint(2, 4), rng.randint(2, 4), rng.randint(4, 6)
    return ideal_chip(
        rows, cols,
        state_buffer={"partitions": partitions, "banks": rng.choice([1, 8])},
        result_buffer={"banks": 2, "bank_bytes": 64},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.choice([0, 5, 50])},
    )  # fmt: skip


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_cut_moves_are_right_on_both_engines(
    seed: int, gaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rests, "CLEARLY", 1e9)  # whatever they take
    monkeypatch.setattr(rests, "POOR", 0)
    rng = Random(seed)
    graph, _ = random_move(rng, gaps=gaps)
    hardware = chip(rng)
    compile_graph("cut", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, {"x": random_values(rng, graph.shape("x"))})
