"""Is slack what can be lost? An instruction held back by so much, and by one cycle more.

What holds it back is an engine of its own that does nothing else: it posts when it is time.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.explained import lives, random_run, unshared, with_keys
from support.tiers import quick_first
from systolic.critical_path.causes import Causes
from systolic.critical_path.path import critical_path
from systolic.critical_path.points import Lives
from systolic.critical_path.slack import slacks
from systolic.hw.spec import Chip
from systolic.isa import Memset, Post, Program, Wait
from systolic.machine.spared import Spared

FREE = Spared(ports=True)
CLOCK = "delay"


def held_back(run: Lives, index: int, ticks: int) -> int:
    """Return the length of the run if an instruction can start no earlier than in that tick."""
    chip, program = run.chip, run.program
    number = len(program.semaphores)
    post = Memset(engine=CLOCK, target=state(0, 1, 0, 1), value=0, posts=(Post(number),))
    instructions = list(program.instructions)
    waiting = instructions[index]
    instructions[index] = replace(waiting, waits=(*waiting.waits, Wait(number, 1)))
    changed = Program("delayed", (*instructions, post), (*program.semaphores, CLOCK))
    # Written in the cycle after its step, seen semaphore_cycles after that.
    fixed = ticks - 1 - chip.semaphore_cycles
    engine = chip.lane_engines[CLOCK].model_copy(update={"fixed_cycles": fixed})
    engines = {n: e.model_dump() for n, e in {**chip.lane_engines, CLOCK: engine}.items()}
    return lives(with_keys(chip, engines=engines), changed, FREE).trace.ticks


def with_clock(chip: Chip) -> Chip:
    """Return the chip with a clock, whose array is never cold: then delays alone shift its work."""
    engines = {name: engine.model_dump() for name, engine in chip.lane_engines.items()}
    idle = {"does": ("memset",), "latency_cycles": 1}
    return with_keys(
        chip,
        engines={**engines, CLOCK: idle},
        port_priority=(*chip.port_priority, CLOCK),
        pe_array={**chip.pe_array.model_dump(), "warm_up_cycles": 0},
    )


@pytest.mark.parametrize("seed", quick_first(range(80), 8))
def test_slack_can_be_lost_and_no_more(seed):
    """Exact where instructions are rigid: all but copies in line, of which it is the least."""
    chip, program = unshared(seed)
    chip = with_clock(chip)
    run = lives(chip, program, FREE)
    serial = {
        name: chip.unit(name).dispatch == "serial" for name in (*chip.lane_engines, "pe_array")
    }
    for index, slack in list(slacks(Causes(run)).items())[::3]:
        start = run.times[index].start + slack
        unit = run.times[index].unit
        if serial.get(unit, chip.dma.dispatch == "serial"):
            start -= chip.unit("dma" if unit.startswith("dma") else unit).dispatch_cycles
        if start <= chip.semaphore_cycles:
            continue
        assert held_back(run, index, start) == run.trace.ticks
        if chip.dma.outstanding == 1:
            assert held_back(run, index, start + 1) > run.trace.ticks


@pytest.mark.parametrize("seed", quick_first(range(120), 40))
def test_there_is_none_on_the_path_and_never_less_than_none(seed):
    """Back to the first port that was refused: slack counts refused ports as they were."""
    run = random_run(seed)
    found = slacks(Causes(run))
    assert set(found) == set(run.times)
    assert min(found.values()) >= 0
    if len(set(run.chip.queue_periods.values())) == 1 and not run.fetches:
        path = critical_path(Causes(run), lambda index, ticks: {"moving": ticks})
        refused = [n for n, link in enumerate(path) if "refusing" in " ".join(link.reasons)]
        for link in path[max(refused, default=-1) + 1 :]:
            assert found[link.instruction] == 0


def test_by_hand():
    """Fills of 9 and 4 elements side by side: the shorter one can come 5 cycles later."""
    long = Memset(engine="activation", target=state(0, 4, 0, 9), value=0)
    short = Memset(engine="pooling", target=state(0, 4, 8192, 4), value=0)
    assert slacks(Causes(lives(ideal_chip(4, 4), Program("two", (long, short))))) == {0: 0, 1: 5}
