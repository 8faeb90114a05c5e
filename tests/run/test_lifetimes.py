"""Are lives of bytes those that a model finds that follows every byte on its own?"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from support.explained import random_run
from support.tiers import quick_first
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Program
from systolic.isa.effects import reads, writes
from systolic.report.plots.subject import Life
from systolic.run.execute import run
from systolic.run.lifetimes import AT_CYCLE_0, lifetimes
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS
from systolic.spans import Interval
from systolic.trace.records import Trace


def touched(access: Access) -> set[tuple[int, int]]:
    """Return (partition, byte) of everything that an access names."""
    starts = access.offsets() * access.element_bytes
    places = (starts[:, None] + np.arange(access.element_bytes)).ravel().tolist()
    return {(lane, byte) for lane in range(*access.lanes) for byte in places}


def byte_by_byte(program: Program, trace: Trace) -> dict[tuple[int, int], int]:
    """Return, by (writer, first tick), when the last of its bytes was read.

    If none was read: when the last was overwritten, or the end. Each byte knows its writer and
    that one's first tick. Lives of cycle 0 are left out.
    """
    uses = []
    for times in trace.times:
        instruction, period = program.instructions[times.instruction], trace.periods[times.unit]
        for accesses, is_write in ((reads(instruction), False), (writes(instruction), True)):
            for access in accesses:
                if access.buffer is Buffer.STATE:
                    end = (times.done if is_write else times.last) + period
                    uses.append((times.first, is_write, times.instruction, end, access))
    owner: dict[tuple[int, int], tuple[int, int]] = {}
    left: defaultdict[tuple[int, int], int] = defaultdict(int)
    read: dict[tuple[int, int], int] = {}
    gone: dict[tuple[int, int], int] = {}
    for first, is_write, number, end, access in sorted(uses, key=lambda use: use[:2]):
        for place in touched(access):
            life = owner.get(place)
            if is_write:
                if life is not None:
                    left[life] -= 1
                    if not left[life]:
                        gone.setdefault(life, first)
                owner[place] = (number, first)
                left[number, first] += 1
            elif life is not None:
                read[life] = max(read.get(life, 0), end)
    return {life: gone.get(life, trace.ticks) for life in left} | read


def check(program: Program, chip: Chip, trace: Trace) -> list[Life]:
    found = lifetimes(program, chip, trace)
    mine = {(each.writer, each.first): each.stop for each in found if each.writer != AT_CYCLE_0}
    expected = byte_by_byte(program, trace)
    assert mine.keys() == expected.keys()
    for life, stop in expected.items():
        assert mine[life] == stop, life
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transpose_fig3", "transpose_fig4", "transpose_pooling"])
def test_shipped_runs(name: str) -> None:
    result = run(CONFIGS / "runs" / f"{name}.toml", values=False)
    check(result.program, result.chip, result.trace)


@pytest.mark.parametrize("seed", quick_first(range(25), 6))
def test_random_programs(seed: int) -> None:
    found = random_run(seed)
    check(found.program, found.chip, found.trace)


def test_figure_3_by_hand() -> None:
    """Identity read in cycles 0 to 3, source in 4 to 7, result written from cycle 14 to the end."""
    result = run(CONFIGS / "runs" / "transpose_fig3.toml", values=False)
    found = plotted(result).lives()
    assert [(life.writer, life.first, life.stop, life.size_bytes) for life in found] == [
        (AT_CYCLE_0, 0, 4, 64), (AT_CYCLE_0, 0, 8, 64), (2, 14, 19, 64),
    ]  # fmt: skip
    assert {life.partitions for life in found} == {Interval(0, 4)}
