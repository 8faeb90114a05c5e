"""The view `dram`: bytes from and to DRAM over time, and what its channels made of them.

Above is what all queues move, beside what they could; then each queue. The bytes of a copy count as
evenly spread from its first element to its last. Of DRAM with an organisation a bar for each
channel counts its bursts by what they found, and one for each queue what its bursts waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from systolic.errors import SystolicError
from systolic.hw.formulas.dram import dram_rate
from systolic.report.paper import style
from systolic.report.paper.theme import Theme
from systolic.report.plots.bars import BAR, CountedBar, draw_bars
from systolic.report.plots.look import Look
from systolic.report.plots.marks import area, ground
from systolic.report.plots.sheet import (
    FOOT,
    HEAD,
    MARGIN,
    NAMES,
    NOTES_START,
    Sheet,
    cycle_scale,
    said_of,
    window_ticks,
)
from systolic.report.plots.stretches import Edges, Stretches, even_edges
from systolic.report.plots.subject import PlotRun
from systolic.report.summary.wording import number, percent
from systolic.spans import Interval
from systolic.trace.records import InstructionTimes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 400
TALL, LOW, GAP, SCALE = 1.5, 0.32, 0.12, 0.75
"""Heights in inches: of all queues, of one, between lanes, and of a scale with its name."""
ALL = "all queues"
FROM, TO = "from DRAM", "to DRAM"
BURSTS = ("row hit", "closed bank", "row conflict")
WAITS = ("for its bank", "for its row", "for the bus")

Bytes = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DramTraffic:
    """Bytes of each column, by queue and direction, and what could be moved in a cycle.

    edges: of the columns, in ticks. limit: bytes that all queues can move in a cycle of the array.
    limit_of_one: bytes that one can.
    """

    edges: Edges
    queues: Mapping[str, Mapping[str, Bytes]]
    limit: float
    limit_of_one: float

    def total(self, direction: str) -> Bytes:
        """Return the bytes of all queues."""
        return np.asarray(sum(queue[direction] for queue in self.queues.values()))


def dram_traffic(run: PlotRun, cycles: Interval) -> DramTraffic:
    """Return the bytes in a window of cycles; SystolicError if the run moves none at all."""
    moved = Counter[tuple[int, str]]()
    for touch in run.touches():
        if touch.buffer == "dram":
            moved[touch.instruction, TO if touch.is_write else FROM] += touch.size_bytes
    if not moved:
        raise SystolicError(f"{run.observed.run}: moves nothing from or to DRAM")
    edges = even_edges(window_ticks(run, cycles), min(COLUMNS, cycles.count))
    units = [unit for unit in run.trace.labels if unit in {t.unit for t in _copies(run, moved)}]
    chip = run.chip
    clocks = chip.period("pe_array") / chip.period("dma")
    return DramTraffic(
        edges,
        {unit: {way: _bytes(run, moved, edges, unit, way) for way in (FROM, TO)} for unit in units},
        dram_rate(chip, chip.dma.queues) * clocks,
        dram_rate(chip, 1) * clocks,
    )


def _copies(run: PlotRun, moved: Mapping[tuple[int, str], int]) -> list[InstructionTimes]:
    numbers = {instruction for instruction, _ in moved}
    return [times for times in run.trace.times if times.instruction in numbers]


def _bytes(
    run: PlotRun, moved: Mapping[tuple[int, str], int], edges: Edges, unit: str, way: str
) -> Bytes:
    """Return the bytes that a queue moves one way in each column."""
    period = run.trace.periods[unit]
    rows = sorted(
        (times.first, times.done + period, moved[times.instruction, way])
        for times in run.trace.times
        if times.unit == unit and (times.instruction, way) in moved
    )
    firsts, stops, sizes = (np.array([row[n] for row in rows], np.int64) for n in range(3))
    return Stretches(firsts, stops).weighed(edges, sizes / np.maximum(stops - firsts, 1))


def channel_bars(run: PlotRun) -> list[CountedBar]:
    """Return the bursts of each channel by what they found; none without an organisation."""
    total = run.trace.cycles("dma0")
    return [
        CountedBar(
            f"channel {number}",
            (each.hits, each.opened, each.conflicts),
            f"{percent(each.hits, max(1, each.bursts))} hits, bus busy "
            f"{percent(each.busy_cycles, total)}",
        )
        for number, each in sorted(run.trace.transfers.channels.items())
    ]


def wait_bars(run: PlotRun) -> list[CountedBar]:
    """Return the cycles that the bursts of each queue waited, by what for."""
    found = []
    for unit, each in run.trace.transfers.waits.items():
        counts = (each.bank_cycles, each.row_cycles, each.bus_cycles)
        if sum(counts):
            found.append(CountedBar(unit, counts, f"{number(sum(counts))} cycles"))
    return found


def draw_dram(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet."""
    cycles = look.shown(run.trace.cycles())
    found = dram_traffic(run, cycles)
    lanes = TALL + len(found.queues) * (LOW + GAP)
    tables = [
        ("bursts in the whole run", BURSTS, channel_bars(run)),
        ("DMA cycles that bursts waited, in the whole run", WAITS, wait_bars(run)),
    ]
    tables = [table for table in tables if table[2]]
    below = sum(len(bars) * BAR + SCALE for _, _, bars in tables)
    theme = look.theme
    legend = [(_colour(theme, way), way) for way in (FROM, TO)]
    height = HEAD + lanes + FOOT + below
    said = f"{said_of(run, cycles)}; the bytes of a copy count as evenly spread over it"
    sheet = Sheet(look, height, said, legend)
    _lanes(sheet, run, found, cycles)
    top, colours = HEAD + lanes + FOOT, [theme.series_colour(place) for place in (2, 1, 3)]
    for scale, kinds, bars in tables:
        draw_bars(sheet, top, bars, scale, colours)
        sheet.swatches(list(zip(colours, kinds, strict=True)), MARGIN + NAMES, top - 0.13)
        top += len(bars) * BAR + SCALE
    return sheet


def _colour(theme: Theme, way: str) -> str:
    return theme.activities["loading" if way == FROM else "draining"]


def _lanes(sheet: Sheet, run: PlotRun, found: DramTraffic, cycles: Interval) -> None:
    """Draw all queues, up to what they can move together, then each, up to what it can alone."""
    every = {FROM: found.total(FROM), TO: found.total(TO)}
    widths = np.diff(found.edges) / run.period
    rates = {
        name: {way: moved / widths for way, moved in ways.items()}
        for name, ways in {ALL: every, **found.queues}.items()
    }
    top = HEAD
    for name, ways in rates.items():
        height, limit = (TALL, found.limit) if name == ALL else (LOW, found.limit_of_one)
        high = max(limit, float((ways[FROM] + ways[TO]).max()))
        _lane(sheet.axes(top, height), sheet.theme, found, ways, cycles=cycles, high=high)
        moved = round(sum(float((rate * widths).sum()) for rate in ways.values()))
        _words(sheet, name, found, (moved, cycles.count), middle=top + height / 2)
        top += height + GAP
    cycle_scale(sheet.figure.axes[-1], run, cycles)


def _lane(
    axes: Axes,
    theme: Theme,
    found: DramTraffic,
    moved: Mapping[str, Bytes],
    *,
    cycles: Interval,
    high: float,
) -> None:
    """Draw bytes in a cycle, both ways on top of each other; what they can be is the ground."""
    across = np.linspace(cycles.first, cycles.stop, len(found.edges))
    both = moved[FROM] + moved[TO]
    axes.set_xlim(*cycles)
    axes.set_ylim(0, high)
    ground(axes, cycles, 0, high, theme.faint)
    area(axes, across, np.zeros(len(both)), moved[FROM], _colour(theme, FROM))
    area(axes, across, moved[FROM], both, _colour(theme, TO))
    axes.yaxis.set_visible(True)
    axes.set_yticks([0, high], ["0", f"{high:,.4g}"], fontsize=style.TINY)


def _words(
    sheet: Sheet, name: str, found: DramTraffic, moved: tuple[int, int], *, middle: float
) -> None:
    left, (size, cycles) = MARGIN + NAMES, moved
    sheet.text(left - 0.5, middle, name, ha="right", va="center_baseline")
    text = f"{number(size)} bytes, {size / cycles:,.4g} in a cycle"
    if name == ALL:
        text += f"\n{percent(size, found.limit * cycles)} of {found.limit:,.4g}, the most"
        sheet.text(
            left - 0.5,
            middle + 0.2,
            "bytes in a cycle",
            ha="right",
            va="center_baseline",
            fontsize=style.TINY,
            color=sheet.theme.muted,
        )
    sheet.text(
        NOTES_START,
        middle,
        text,
        va="center",
        fontsize=style.TINY + 0.5,
        color=sheet.theme.muted,
        linespacing=1.5,
    )
