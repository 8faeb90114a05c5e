"""Is a program stopped at a limit if it takes as long, and are plans chosen as if none was stopped?

Works are drawn as `benchmarks/bench_works.py` draws them, small, on all chips of one core.
"""

from __future__ import annotations

from random import Random

import pytest
import random_works

from systolic.compiler import compile_graph
from systolic.compiler.cost.pace import estimated_ticks
from systolic.compiler.pipeline import CERTAIN
from systolic.config import load_chip
from systolic.errors import LimitReachedError
from systolic.machine import simulate
from systolic.run.judge import judge_on
from systolic.shipped import CHIPS, chips_of_one_core
from systolic.workload import GraphBuilder

WORKS = 14
MOST_ELEMENTS = 1 << 11


@pytest.mark.parametrize("number", range(WORKS))
def test_plans_are_chosen_as_if_none_was_stopped(number):
    rng = Random(f"judge {number}")
    chip = load_chip(CHIPS / f"{chips_of_one_core()[number % len(chips_of_one_core())]}.toml")
    graph = random_works.drawn(rng, chip, rng.choice(random_works.THIRDS), MOST_ELEMENTS)
    judge = judge_on(chip)

    def to_the_end(program, limit):
        found = judge(program)
        assert judge(program, found + 1) == found
        assert judge(program, found) == found
        assert judge(program, max(1, found // 2)) == max(1, found // 2)
        return found

    whole = compile_graph("t", graph, chip, judge=to_the_end).program
    assert whole == compile_graph("t", graph, chip, judge=judge).program


def test_a_stopped_run_says_so():
    chip = load_chip(CHIPS / "ideal_4x4.toml")
    graph = random_works.drawn(Random(1), chip, ("elementwise",), 64)
    program = compile_graph("t", graph, chip).program
    ticks = simulate(chip, program, values=False).trace.ticks
    with pytest.raises(LimitReachedError, match=f"it takes {ticks} ticks or more"):
        simulate(chip, program, values=False, limit_ticks=ticks)
    for settings in ({"engine": "register"}, {"values": True}):
        with pytest.raises(ValueError, match="or stopped, and only for times"):
            simulate(chip, program, limit_ticks=ticks, **settings)


def test_a_schedule_that_is_surely_near_its_parts_is_not_simulated():
    chip, asked = load_chip(CHIPS / "ideal_128x128.toml"), []
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "bf16[256,512]"), builder.tensor("w", "bf16[512,640]")
    builder.matmul(x, w, "f32[256,640]", name="y")
    found = compile_graph("t", builder.graph(), chip, judge=lambda *given: asked.append(given) or 1)
    assert not asked
    ticks = simulate(chip, found.program, values=False).trace.ticks
    assert ticks < CERTAIN * estimated_ticks(found.scheduled.drafts, chip)
