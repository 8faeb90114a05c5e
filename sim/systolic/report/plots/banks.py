"""The view `banks`: which banks of both buffers are read and written when, and who refuses whom.

A bank has a lane for reads and one for writes: an instruction with bytes there was on, from its
first element to its last. A port that was refused is marked red. The figures at the right are
exact: cycles in which the bank's ports were in use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from systolic.hw.spec import Chip
from systolic.report.paper.theme import Theme
from systolic.report.plots.bars import BAR, CountedBar, draw_bars
from systolic.report.plots.look import Look
from systolic.report.plots.marks import ground, marks, stacked
from systolic.report.plots.sheet import (
    COLUMNS,
    FOOT,
    HEAD,
    Sheet,
    cycle_scale,
    said_of,
    window_ticks,
)
from systolic.report.plots.stretches import Stretches, coverage
from systolic.report.plots.subject import PlotRun, Touch
from systolic.report.summary.wording import number, plural
from systolic.spans import Interval

STRIP, LANE, GAP = 0.05, 0.11, 0.1
SCALE = 0.7
MOST_PAIRS = 16
READ, WRITE = "read", "write"


class BankLane(NamedTuple):
    """A bank in a window of ticks.

    on: by direction, when an instruction was on that reads or writes bytes of it. refused: when a
    port of it was. cycles: by direction, cycles of the array in which ports were in use, of the
    whole run; where every partition has ports of its own, of all of them together.
    """

    buffer: str
    bank: int
    on: dict[str, Stretches]
    refused: Stretches
    cycles: dict[str, int]


def bank_lanes(run: PlotRun, window: Interval) -> list[BankLane]:
    """Return the banks that the run uses, buffer by buffer."""
    on = defaultdict[tuple[str, int, str], list[tuple[int, int]]](list)
    for place, first, stop in _uses(run):
        on[place].append((first, stop))
    refused = defaultdict[tuple[str, int], list[tuple[int, int]]](list)
    for stall in run.trace.stalls:
        stop = stall.tick + stall.cycles * run.trace.periods[stall.unit]
        refused[stall.buffer, stall.bank].append((stall.tick, stop))
    used = {(buffer, bank) for buffer, bank, _ in on}
    return [
        BankLane(
            buffer,
            bank,
            {
                way: Stretches.of(on[buffer, bank, way]).merged.within(window)
                for way in (READ, WRITE)
            },
            Stretches.of(refused[buffer, bank]).within(window),
            {
                way: -(-run.trace.port_cycles.get((buffer, bank, way), 0) // run.period)
                for way in (READ, WRITE)
            },
        )
        for buffer, bank in sorted(used)
    ]


def _uses(run: PlotRun) -> Iterator[tuple[tuple[str, int, str], int, int]]:
    """Yield (buffer, bank, direction), first and stop tick of every use of a bank."""
    times = {each.instruction: each for each in run.trace.times}
    for touch in run.touches():
        each = times[touch.instruction]
        stop = (each.done if touch.is_write else each.last) + run.trace.periods[each.unit]
        way = WRITE if touch.is_write else READ
        for bank in banks_of(run.chip, touch):
            yield (touch.buffer, bank, way), each.first, stop


def banks_of(chip: Chip, touch: Touch) -> range:
    """Return the banks from the first byte's to the last byte's; DRAM's are not meant."""
    if touch.buffer == "dram":
        return range(0)
    is_state = touch.buffer == "state_buffer"
    size = chip.state_buffer.bank_bytes if is_state else chip.result_buffer.bank_bytes
    return range(touch.bytes.first // size, (touch.bytes.stop - 1) // size + 1)


def refusals(run: PlotRun) -> list[CountedBar]:
    """Return the cycles in which each unit was refused a port for another's sake, the most first.

    Cycles are the refused unit's.
    """
    cycles = Counter[tuple[str, str]]()
    places = defaultdict[tuple[str, str], set[str]](set)
    for stall in run.trace.stalls:
        cycles[stall.unit, stall.winner] += stall.cycles
        places[stall.unit, stall.winner].add(stall.place)
    return [
        CountedBar(unit, (count,), f"{number(count)}: {winner} had {_where(places[unit, winner])}")
        for (unit, winner), count in sorted(cycles.items(), key=lambda item: (-item[1], item[0]))
    ]


def _where(places: set[str]) -> str:
    one = min(places).replace("_buffer", "")
    return one if len(places) == 1 else plural(len(places), "port")


def draw_banks(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet."""
    cycles, theme = look.shown(run.trace.cycles()), look.theme
    lanes = bank_lanes(run, window_ticks(run, cycles))
    every = refusals(run)
    bars = every[:MOST_PAIRS]
    row = STRIP + 2 * LANE + GAP
    height = max(len(lanes) * row, row)
    below = (len(bars) * BAR + SCALE) * bool(bars)
    legend = [(colour, name) for name, colour in _colours(theme).items()]
    sheet = Sheet(look, HEAD + height + FOOT + below, said_of(run, cycles), legend)
    _lanes(sheet, run, lanes, cycles, height=height)
    if bars:
        left_out = len(every) - len(bars)
        scale = "cycles of the unit in which it was refused a port, in the whole run"
        scale += f" ({plural(left_out, 'smaller row')} left out)" if left_out else ""
        draw_bars(sheet, HEAD + height + FOOT, bars, scale, [theme.activities["stalled"]])
    return sheet


def _colours(theme: Theme) -> dict[str, str]:
    return {
        "read by an instruction": theme.activities["loading"],
        "written": theme.activities["draining"],
        "a port refused": theme.activities["stalled"],
    }


def _lanes(
    sheet: Sheet, run: PlotRun, lanes: Sequence[BankLane], cycles: Interval, *, height: float
) -> None:
    axes = sheet.axes(HEAD, height)
    axes.set_ylim(height, 0)
    cycle_scale(axes, run, cycles)
    window, top = window_ticks(run, cycles), 0.0
    reading, writing, red = _colours(sheet.theme).values()
    for lane in lanes:
        y = top + STRIP
        ground(axes, cycles, y, y + 2 * LANE, sheet.theme.faint)
        found = coverage(lane.on, window, COLUMNS)
        stacked(axes, found, run.period, (y + LANE, y), {READ: reading})
        stacked(axes, found, run.period, (y + 2 * LANE, y + LANE), {WRITE: writing})
        marks(axes, lane.refused, run.period, window, (top, y), colour=red)
        _words(sheet, lane, HEAD + y + LANE)
        top += STRIP + 2 * LANE + GAP


def _words(sheet: Sheet, lane: BankLane, middle: float) -> None:
    name = f"{lane.buffer.removesuffix('_buffer')} {lane.bank}"
    used = f"ports read {number(lane.cycles[READ])}, written {number(lane.cycles[WRITE])}"
    sheet.beside(middle, name, used)
