"""Moves in DRAM of which two ways have about the same estimate: the shorter schedule is taken.

Every arrangement is estimated here, without a limit, to say which are the best two. numpy is the
oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

import systolic
from compiler.test_graph_values import random_values
from compiler.test_moves import chip, random_move
from support.both_engines import run_on_both_engines
from support.tiers import quick_first
from systolic.compiler import compile_graph, pipeline
from systolic.compiler.cost.arrangements import Estimate, Planner
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.move_parts import move_parts
from systolic.compiler.lower import moves, ways
from systolic.compiler.lower.table import lower_graph
from systolic.config import load_chip
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options

HEADS = "s8[2,16,197,197]", "s8[2,16,197,197]{2,0,3,1}"


def relayout(before: str, after: str) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", before)
    builder.add("relayout", ("x",), after, name="y")
    return builder.graph()


def every_estimate(move: Move, planner: Planner) -> Iterator[int]:
    """Yield the ticks of all arrangements of all ways that may be taken."""
    closely = replace(planner, by_address=True)
    for way in ways.WAYS:
        for plan in way.plans(planner, move):
            if not way.tiled or ways._is_small(planner, way, plan, 1):
                yield way.estimate(closely, plan, way.between(planner, plan)).ticks


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("ideal_128x128", *HEADS),
        ("neuroncore_v4", "bf16[2,128,1280]{1,2,0}", "bf16[2,128,1280]"),
        ("patent_128x64", "u8[64,96,40]", "u8[64,96,40]{0,1,2}"),
    ],
)
def test_the_nearest_ways_are_the_best_two_of_all(name: str, before: str, after: str) -> None:
    planner = Planner(load_chip(CHIPS / f"{name}.toml"), Options(), alone=True)
    source, result = Shape.parse(before), Shape.parse(after)
    (part,) = move_parts(source, result, range(source.rank), over_padding=False)
    best, second, *_ = sorted(set(every_estimate(part.move, planner)))
    found = [choice.ticks for choice in ways.nearest(part.move, planner, near=1e9)]
    assert found == [best, second]
    assert [choice.ticks for choice in ways.nearest(part.move, planner)] == [best]
    assert ways.cheapest(part.move, planner).ticks == best


def test_a_second_way_far_from_the_best_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, hardware = relayout(*HEADS), load_chip(CHIPS / "ideal_128x128.toml")
    assert lower_graph(graph, hardware, Options()).rival is not None
    monkeypatch.setattr(moves, "NEARLY", 1.05)
    assert lower_graph(graph, hardware, Options()).rival is None


STRIPES = "bf16[2,128,1280]{1,2,0:T(8,128)(2,1)}", "bf16[2,128,1280]"
ROWS = "s32[2,8,512,96]", "s32[2,8,512,96]{0,2,1,3:T(8,128)}"


@pytest.mark.parametrize(("name", "ends"), [("neuroncore_v4", STRIPES), ("hbm2e_128x128", ROWS)])
def test_the_shorter_schedule_of_two_ways_is_taken(
    name: str, ends: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = relayout(*ends)
    result = systolic.run(graph, name, values=False)
    assert any("but a longer schedule" in choice for choice in result.compiled.layers.choices)
    monkeypatch.setattr(pipeline, "MOST_COMPARED", 0)
    other = systolic.run(graph, name, values=False)
    assert result.cycles < 0.95 * other.cycles


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("lpddr5_6400_128x128", "bf16[2,12,197,197]", "bf16[2,12,38809]{0,1,2}"),
        ("hbm3_128x128", "u8[8,12,197,197]{3,2,1,0:T(8,128)(4,1)}", "u8[96,197,197]{1,2,0}"),
    ],
)
def test_parts_go_by_ways_that_overlap_if_that_schedule_is_shorter(
    name: str, before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Works 71 and 167 of `benchmarks/bench_moves.py`."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", before)
    builder.add("reshape", ("x",), after, name="y")
    graph = builder.graph()
    result = systolic.run(graph, name, values=False)
    (chosen,) = (each for each in result.compiled.layers.choices if " parts" in each)
    assert "but a longer schedule" in chosen
    monkeypatch.setattr(pipeline, "MOST_COMPARED", 0)
    other = systolic.run(graph, name, values=False)
    assert result.cycles < 0.95 * other.cycles


@pytest.mark.parametrize("moves_at_once", [1, 2, 6])
def test_what_a_move_adds_to_others_is_its_busiest_unit_and_a_share_of_the_rest(
    moves_at_once: int,
) -> None:
    """Numbers by hand: 300 of the stages are beside the busiest unit, 500 beside the channels."""
    estimate = Estimate(600, 200, 100, tiles=1, latency=7, bytes_pass=400)
    assert estimate.ticks == 900
    assert estimate.beside(moves_at_once) == 600 + 300 // moves_at_once
    in_channels = replace(estimate, channels=700)
    assert in_channels.beside(moves_at_once) == 700 + 200 // moves_at_once
    four = replace(in_channels, tiles=4)
    assert four.beside(6) == 700 + 200 // 24 + 2 * 7


def test_the_way_of_the_best_estimate_stays_if_its_schedule_is_as_short() -> None:
    graph, hardware = relayout("pred[1280,1024]", "pred[1280,1024]{0,1}"), "ideal_128x128"
    layers = systolic.run(graph, hardware, values=False).compiled.layers
    assert layers.rival is not None
    assert not any("but a longer schedule" in choice for choice in layers.choices)


def test_where_queues_have_one_burst_in_hand_no_second_way_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moves, "NEARLY", 1e9)
    found = {
        name: lower_graph(relayout(*HEADS), load_chip(CHIPS / f"{name}.toml"), Options()).rival
        for name in ("ddr4_128x128", "ddr4_2400_128x128")
    }
    assert [rival is not None for rival in found.values()] == [False, True]


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_second_ways_are_right_on_both_engines(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "NEARLY", 1e9)
    monkeypatch.setattr(pipeline, "NOTABLY", 0)  # whatever its schedule takes
    monkeypatch.setattr(pipeline, "NOTABLY_IN_PARTS", 0)
    rng = Random(seed)
    graph, _ = random_move(rng)
    hardware = chip(rng)
    compile_graph("moved", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, {"x": random_values(rng, graph.shape("x"))})


def test_half_of_the_random_moves_have_a_second_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "NEARLY", 1e9)
    found = 0
    for rng in map(Random, range(40)):
        graph, _ = random_move(rng)
        found += lower_graph(graph, chip(rng), Options()).rival is not None
    assert found >= 20
