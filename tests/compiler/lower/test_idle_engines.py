"""Is the value right? Moves in rounds beside a product, which engines share that are idle.

numpy is the oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import systolic
from compiler.lower.test_digit_moves import product
from compiler.lower.test_product_places import multiplied
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import CompiledGraph, compile_graph
from systolic.compiler.lower import idle_engines, product_places, relays
from systolic.compiler.place import tiles
from systolic.compiler.schedule import moves
from systolic.hw.spec import Chip
from systolic.isa import Copy
from systolic.workload import Graph
from systolic.workload.options import Options

LANES = {"independent_lanes": True}


def small_chip(rng: Random) -> Chip:
    scope = rng.choice(["bank", "partition"])
    return ideal_chip(
        8, 8,
        state_buffer={"partitions": 8, "banks": 8, "port_scope": scope},
        result_buffer={"banks": 4, "bank_bytes": 64}, activation=LANES, pooling=LANES,
    )  # fmt: skip


def elements_moved(compiled: CompiledGraph) -> Counter[str]:
    """Return how many elements each engine copies within the state buffer."""
    copies = (i for i in compiled.program.instructions if isinstance(i, Copy))
    found = Counter[str]()
    for copy in copies:
        if copy.source.buffer is copy.target.buffer:
            found[copy.engine] += copy.target.elements * copy.target.partitions
    return found


def move_whatever_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operands of any size move in rounds, however long other ways take."""
    for of, name, value in (
        (product_places, "LEAST_CYCLES", -1),
        (product_places, "NEAR", 0),
        (product_places, "FEWER", 0),
        (relays, "ROUGHLY", 1e9),
        (tiles, "LEAST_CYCLES", 0),
        (moves, "LEAST_SHARED", 0),
    ):
        monkeypatch.setattr(of, name, value)


@pytest.fixture
def _whatever_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    move_whatever_others_take(monkeypatch)


def compiled_of(seed: int) -> tuple[Graph, Chip, Random, CompiledGraph]:
    rng = Random(seed)
    graph, chip = product(rng), small_chip(rng)
    return graph, chip, rng, compile_graph("product", graph, chip, verify=True)


@pytest.mark.usefixtures("_whatever_others_take")
@pytest.mark.parametrize("seed", quick_first(range(40), 8))
@pytest.mark.parametrize("shared", [0.0, 1e9])
def test_values_are_those_of_numpy_shared_or_not(
    seed: int, shared: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_engines, "SHARED", shared)
    graph, chip, rng, _ = compiled_of(seed)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    run_on_both_engines(graph, chip, inputs)


@pytest.mark.usefixtures("_whatever_others_take")
def test_two_engines_share_some_of_these_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_engines, "SHARED", 1e9)
    shared = [elements_moved(compiled_of(seed)[3]) for seed in range(40)]
    assert sum(min(each["activation"], each["pooling"]) > 0 for each in shared) >= 5


def test_an_operand_goes_to_its_rows_by_two_engines() -> None:
    """One engine takes 4,760 cycles for x, in which the array waits: 7,671 for all."""
    graph = multiplied(
        "f16[12,197,64]{1,2,0:T(8,128)(2,1)}", "f16[12,64,80]", "f32[12,197,80]{0,2,1}"
    )
    result = systolic.run(graph, "ideal_128x128", values=False)
    moved = elements_moved(result.compiled)
    assert moved["activation"] == moved["pooling"]
    assert result.cycles == 5307


def test_an_operand_moves_on_one_engine_while_another_takes_turned_elements_out() -> None:
    """x takes 12,288 vectors to turn, and w about as many elements of a lane to move.

    On one engine all of it takes 37,326 cycles.
    """
    graph = multiplied(
        "f16[96,128,128]{2,1,0}",
        "f16[96,128,64]{2,1,0:T(8,128)(2,1)}",
        "f16[96,128,64]{2,1,0:T(8,128)(2,1)}",
    )
    result = systolic.run(graph, "lpddr5_6400_128x128", values=False)
    assert set(elements_moved(result.compiled)) == {"pooling"}
    assert result.cycles == 25485


def test_a_given_engine_makes_all_moves() -> None:
    graph = multiplied(
        "f16[12,197,64]{1,2,0:T(8,128)(2,1)}", "f16[12,64,80]", "f32[12,197,80]{0,2,1}"
    )
    options = Options(drain_engine="activation")
    result = systolic.run(graph, "ideal_128x128", values=False, options=options)
    assert set(elements_moved(result.compiled)) == {"activation"}


def test_nothing_lies_across_two_banks_if_other_tiles_had_to_leave_for_it() -> None:
    """With gaps of a bank beside x and w, tiles leave and come back: 140,556 cycles."""
    graph = multiplied(
        "bf16[16,64,128]", "bf16[16,128,512]{2,1,0:T(8,128)(2,1)}", "bf16[16,64,512]{1,0,2}"
    )
    result = systolic.run(graph, "neuroncore_v1", values=False)
    assert result.compiled.scheduled.evictions == 0
    assert result.cycles == 26909
