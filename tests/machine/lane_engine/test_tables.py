"""Are tables of functions loaded when they must be, and only then? Worked by hand, both engines.

The engine `v` reads an element in each cycle, writes it 2 cycles later, and loads a table in 10
cycles. An instruction of 4 elements reads in 4 cycles; with a load before it in 14.
"""

from __future__ import annotations

import pytest

from support.blocks import state
from support.chips import ideal_chip
from systolic.engine_kind import EngineKind
from systolic.isa import Activate, Copy, OnEngine, Post, Program, Wait
from systolic.machine import simulate

V = {
    "does": ["copy", "activate"], "latency_cycles": 2, "table_cycles": 10,
    "tables": [["exponential", "tanh"], ["tanh", "gelu"], ["sin"]],
}  # fmt: skip


def act(function: str, first: int = 0) -> Activate:
    source, target = state(first, 2, 0, 4), state(first, 2, 16384, 4)
    return Activate(engine="v", function=function, source=source, target=target)  # type: ignore[arg-type]


COPY = Copy(engine="v", source=state(0, 2, 0, 4), target=state(0, 2, 16384, 4))
# Instructions of the same lanes, and the cycles of their starts and of the end of the last.
CASES: dict[str, tuple[list[OnEngine], list[int], int]] = {
    "a copy needs none": ([COPY, COPY], [0, 4], 10),
    "nor does a function that is in none": ([act("ramp"), act("ramp")], [0, 4], 10),
    "the first use loads": ([act("gelu"), act("gelu")], [0, 14], 20),
    "functions that share a table": ([act("gelu"), act("tanh")], [0, 14], 20),
    "tanh first has the first table, which gelu is not in": (
        [act("tanh"), act("exponential"), act("gelu")], [0, 14, 18], 34),
    "there and back": ([act("sin"), act("gelu"), act("sin")], [0, 14, 28], 44),
    "what needs none leaves the table": ([act("sin"), COPY, act("sin")], [0, 14, 18], 24),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("case", CASES)
def test_loads_by_hand(case: str, engine: EngineKind) -> None:
    instructions, starts, end = CASES[case]
    chip = ideal_chip(4, 4, engines={"v": V})
    trace = simulate(chip, Program("p", tuple(instructions)), engine=engine).trace
    assert ([time.start for time in trace.times], trace.cycles()) == (starts, end)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_a_load_has_all_lanes_to_itself(engine: EngineKind) -> None:
    """With lanes of their own: gelu reads in 10-13, in lanes 2 and 3 it may follow from 10 on.

    It does so in 10, and so reads in 10-13 too. sin waits for the last of these reads.
    """
    chip = ideal_chip(4, 4, engines={"v": V | {"independent_lanes": True}})
    program = Program("p", (act("gelu"), act("tanh", 2), act("sin")))
    trace = simulate(chip, program, engine=engine).trace
    assert [(time.start, time.first) for time in trace.times] == [(0, 10), (10, 10), (14, 24)]
    assert [(one.first, one.stop, one.label) for one in trace.labels["v"]] == [
        (0, 10, "loading"), (10, 14, "streaming"), (14, 24, "loading"), (24, 28, "streaming"),
        (28, 30, "draining"),
    ]  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
def test_handing_over_takes_what_the_posting_unit_says(engine: EngineKind) -> None:
    """`v` is done in 5 and `w` in 15; 7 cycles later the other goes on, and 2 after `w`."""
    tables = {"does": ["copy"], "latency_cycles": 2}
    chip = ideal_chip(
        4, 4, engines={"v": tables, "w": tables}, semaphore_cycles=2, handoff_cycles={"v": 7}
    )
    steps = (
        Copy(engine="v", source=state(0, 2, 0, 4), target=state(0, 2, 16384, 4), posts=(Post(0),)),
        Copy(engine="w", source=state(0, 2, 0, 2), target=state(0, 2, 32768, 2),
             waits=(Wait(0, 1),), posts=(Post(1),)),
        Copy(engine="v", source=state(0, 2, 0, 2), target=state(0, 2, 40960, 2),
             waits=(Wait(1, 1),)),
    )  # fmt: skip
    trace = simulate(chip, Program("p", steps, ("s", "t")), engine=engine).trace
    assert [(time.start, time.done) for time in trace.times] == [(0, 5), (12, 15), (17, 20)]
