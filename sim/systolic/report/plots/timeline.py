"""The view `timeline`: what every unit did when, and what held it back.

Each unit that did anything has a lane of labels with a strip of refused ports above it, and a lane
of its instructions below. In a long run a column stands for many cycles, and the height of a colour
is its share of them. Operations are a band above all units.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from systolic.report.paper import style
from systolic.report.paper.theme import ACTIVITIES, Activity, activity_of
from systolic.report.plots.colours import colours_apart, spans_of
from systolic.report.plots.look import Look
from systolic.report.plots.marks import WORD_MARGIN, boxes, ground, marks, stacked, words
from systolic.report.plots.sheet import (
    COLUMNS,
    FOOT,
    HEAD,
    MARGIN,
    MIDDLE,
    NAMES,
    NAMES_END,
    NOTES_START,
    Sheet,
    cycle_scale,
    said_of,
    window_ticks,
)
from systolic.report.plots.stretches import Coverage, Stretches, coverage
from systolic.report.plots.subject import PlotRun
from systolic.report.summary.wording import number, percent, plural
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRIP, LANE, TRACK, GAP, REASON = 0.06, 0.2, 0.13, 0.13, 0.135
"""Heights in inches: of the strip of refused ports, of labels, of a track of instructions, between
lanes, and of a line that names a reason."""
BAND = 0.16
"""The height of a track of operations, in inches."""
MOST_TRACKS, MOST_OPERATION_TRACKS = 3, 16
MOST_BARS = 1200
"""If a lane has more instructions, it shows the share of time in which one of them was on."""
MOST_ARROWS = 1000
MOST_REASONS = 4


class Bar(NamedTuple):
    """An instruction, from tick `first` to before tick `stop`, on a track of its unit."""

    instruction: int
    first: int
    stop: int
    track: int


@dataclass(frozen=True, eq=False)
class InstructionTracks:
    """Instructions of a unit below its labels; `name` is said where they have a name of their own.

    bars: None if there are too many, and then `some` stands for them: shares of columns in which
    an instruction was on, divided among operations ("" of a program) by how long each was on.
    kinds: the names of its instructions.
    """

    name: str
    bars: Sequence[Bar] | None
    some: Coverage
    kinds: Sequence[str]

    @property
    def tracks(self) -> int:
        """Return how many tracks the instructions need."""
        return 1 + max((bar.track for bar in self.bars or ()), default=0)


@dataclass(frozen=True, eq=False)
class UnitLane:
    """What a unit did in a window of ticks.

    labels: shares of columns by activity. reasons: cycles of the unit by label, the most first.
    refused: when its ports were refused. parts: its instructions, all together, or in the parts
    that the run tells apart.
    """

    unit: str
    labels: Coverage
    reasons: Sequence[tuple[str, int]]
    waits: Sequence[tuple[int, int, str]]
    refused: Stretches
    parts: Sequence[InstructionTracks]

    @property
    def tracks(self) -> int:
        """Return how many tracks the instructions need."""
        return sum(part.tracks for part in self.parts)

    @property
    def height(self) -> float:
        """Return the height in inches."""
        told = len(self.told_reasons) * REASON
        return max(STRIP + LANE + self.tracks * TRACK, told) + GAP

    @property
    def told_reasons(self) -> list[tuple[str, int]]:
        """Return the reasons that are told beside the lane, idle among them: they are all cycles.

        If there are too many, the last line sums those that are left.
        """
        if len(self.reasons) <= MOST_REASONS:
            return list(self.reasons)
        shown, others = self.reasons[: MOST_REASONS - 1], self.reasons[MOST_REASONS - 1 :]
        return [*shown, (f"{len(others)} others", sum(cycles for _, cycles in others))]


class OperationBar(NamedTuple):
    """An operation: when one of its instructions was on in the window, and its track in the band.

    words: the ticks that its name takes, beginning with it if there is room.
    """

    name: str
    track: int
    on: Stretches
    words: Interval


@dataclass(frozen=True, eq=False)
class UnitTimes:
    """The data of the picture: a run in a window of cycles of the array."""

    run: PlotRun
    cycles: Interval

    @cached_property
    def window(self) -> Interval:
        """Return the window in ticks."""
        return window_ticks(self.run, self.cycles)

    @cached_property
    def lanes(self) -> list[UnitLane]:
        """Return the lanes of the units that did anything in the window."""
        found = [self._lane(unit) for unit in self.run.trace.labels]
        return [lane for lane in found if any(label != "idle" for label, _ in lane.reasons)]

    @cached_property
    def idle(self) -> list[str]:
        """Return the units without a lane."""
        shown = {lane.unit for lane in self.lanes}
        return [unit for unit in self.run.trace.labels if unit not in shown]

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Return the ticks from the first start to the last end of each operation of the run."""
        layers, trace = self.run.observed.operations or (), self.run.trace
        return spans_of(
            (layers[each.instruction], each.start, each.done + trace.periods[each.unit])
            for each in (trace.times if layers else ())
        )

    @cached_property
    def operations(self) -> list[OperationBar]:
        """Return when an instruction of each operation was on, in the order of first starts."""
        layers, found = self.run.observed.operations, defaultdict[str, list[tuple[int, int]]](list)
        if layers is None or len(set(layers)) < 2:
            return []
        for each in self.run.trace.times:
            stop = each.done + self.run.trace.periods[each.unit]
            found[layers[each.instruction]].append((each.start, stop))
        inside = {
            name: Stretches.of(pairs).merged.within(self.window) for name, pairs in found.items()
        }
        shown = [(name, on, self._words(name, on)) for name, on in inside.items() if on.ticks]
        spans = [
            (min(int(on.firsts[0]), words.first), max(int(on.stops[-1]), words.stop), place)
            for place, (_, on, words) in enumerate(shown)
        ]
        bars = []
        for bar in _on_tracks(spans, MOST_OPERATION_TRACKS):
            name, on, words = shown[bar.instruction]
            bars.append(OperationBar(name, bar.track, on, words))
        return bars

    def has_room(self, one: OperationBar) -> bool:
        """Return whether the name of an operation lies on no bar and no name of another."""
        before = True
        for other in self.operations:
            if other is one:
                before = False
            elif other.track == one.track:
                bar = Interval(int(other.on.firsts[0]), int(other.on.stops[-1]))
                if bar.meets(one.words) or (before and other.words.meets(one.words)):
                    return False
        return True

    def _words(self, name: str, on: Stretches) -> Interval:
        """Return the ticks over which the name of an operation is written."""
        from systolic.report.paper.lettering import text_inches

        inches = text_inches(name, style.TINY + 0.5) + 2 * WORD_MARGIN
        width = math.ceil(inches / MIDDLE * self.window.count)
        first = max(self.window.first, min(int(on.firsts[0]), self.window.stop - width))
        return Interval(first, first + width)

    @cached_property
    def _times(self) -> dict[str, list[tuple[int, int, int]]]:
        found = defaultdict[str, list[tuple[int, int, int]]](list)
        for each in self.run.trace.times:
            stop = each.done + self.run.trace.periods[each.unit]
            first, stop = max(each.start, self.window.first), min(stop, self.window.stop)
            if first < stop:
                found[each.unit].append((first, stop, each.instruction))
        return found

    @cached_property
    def _stalls(self) -> dict[str, list[tuple[int, int]]]:
        found = defaultdict[str, list[tuple[int, int]]](list)
        for stall in self.run.trace.stalls:
            stop = stall.tick + stall.cycles * self.run.trace.periods[stall.unit]
            found[stall.unit].append((stall.tick, stop))
        return found

    def _lane(self, unit: str) -> UnitLane:
        period = self.run.trace.periods[unit]
        kinds: dict[Activity, list[tuple[int, int]]] = {each: [] for each in ACTIVITIES}
        reasons, waits = Counter[str](), list[tuple[int, int, str]]()
        for label in self.run.trace.labels[unit]:
            first = max(label.first * period, self.window.first)
            stop = min(label.stop * period, self.window.stop)
            if first >= stop:
                continue
            reasons[label.label] += stop - first
            if kind := activity_of(label.label):
                kinds[kind].append((first, stop))
            if label.label.startswith("waiting for "):
                waits.append((first, stop, label.label.removeprefix("waiting for ")))
        return UnitLane(
            unit=unit,
            labels=coverage(
                {kind: Stretches.of(found) for kind, found in kinds.items()}, self.window, COLUMNS
            ),
            reasons=[(label, -(-ticks // period)) for label, ticks in reasons.most_common()],
            waits=waits,
            refused=Stretches.of(self._stalls.get(unit, [])).within(self.window),
            parts=[self._part(name, times) for name, times in self._parts(unit)],
        )

    def _parts(self, unit: str) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
        """Yield the instructions of a unit, apart where the run tells them apart, with a name."""
        observed, times = self.run.observed, self._times.get(unit, [])
        for name in observed.parts_of(unit):
            yield name, [each for each in times if observed.part_of(unit, each[2]) == name]

    def _part(self, name: str, times: Sequence[tuple[int, int, int]]) -> InstructionTracks:
        names = self.run.observed.names
        return InstructionTracks(
            name=name,
            bars=list(_on_tracks(times)) if len(times) <= MOST_BARS else None,
            some=self._shares(times),
            kinds=list(dict.fromkeys(names[each] for _, _, each in times)),
        )

    def _shares(self, times: Sequence[tuple[int, int, int]]) -> Coverage:
        """Return shares of columns in which an instruction was on, divided among operations."""
        layers, by_layer = (
            self.run.observed.operations,
            defaultdict[str, list[tuple[int, int]]](list),
        )
        for first, stop, instruction in times:
            by_layer[layers[instruction] if layers else ""].append((first, stop))
        found = coverage(
            {layer: Stretches.of(pairs).merged for layer, pairs in by_layer.items()},
            self.window,
            COLUMNS,
        )
        on = Stretches.of([(first, stop) for first, stop, _ in times]).merged
        some = on.per_column(found.edges) / np.diff(found.edges)
        together = np.asarray(sum(found.shares.values(), np.zeros(len(some))))
        scale = np.divide(some, together, out=np.zeros(len(some)), where=together > 0)
        shares = {layer: share * scale for layer, share in found.shares.items()}
        return replace(found, shares=shares)


def _on_tracks(times: Sequence[tuple[int, int, int]], most: int = MOST_TRACKS) -> Iterator[Bar]:
    """Yield each instruction on the lowest track that is free; beyond the last one on the last."""
    free, busy, tracks = list[int](), list[tuple[int, int]](), 0
    for first, stop, instruction in sorted(times):
        while busy and busy[0][0] <= first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, tracks)
            tracks += 1
        track = heapq.heappop(free)
        heapq.heappush(busy, (stop, track))
        yield Bar(instruction, first, stop, min(track, most - 1))


def draw_timeline(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet."""
    cycles = look.shown(run.trace.cycles())
    return _Picture(UnitTimes(run, cycles), look).drawn()


class _Picture:
    """The sheet in the making: axes in cycles across and in inches from the top down."""

    def __init__(self, data: UnitTimes, look: Look) -> None:
        self.data, self.look, self.theme = data, look, look.theme
        self.period = data.run.period
        self.inches_per_cycle = MIDDLE / data.cycles.count
        self.colour_of = colours_apart(data.spans, self.theme)
        self.middles: dict[str, float] = {}

    def drawn(self) -> Sheet:
        """Draw everything and return the sheet."""
        data = self.data
        tracks = 1 + max((each.track for each in data.operations), default=-1)
        band = tracks * BAND + GAP * bool(tracks)
        height = band + sum(lane.height for lane in data.lanes)
        notes = self._notes()
        idle = 0.25 * len(notes)
        sheet = Sheet(self.look, HEAD + height + idle + FOOT, self._said(), self._legend())
        axes = sheet.axes(HEAD, height)
        axes.set_ylim(height, 0)
        cycle_scale(axes, data.run, data.cycles)
        self._operations(axes)
        top = band
        for lane in data.lanes:
            self._lane(axes, sheet, lane, top)
            top += lane.height
        if self.look.arrows:
            self._arrows(axes, sheet)
        for place, text in enumerate(notes):
            sheet.text(
                MARGIN,
                HEAD + height + 0.55 + 0.25 * place,
                text,
                fontsize=style.SMALL,
                color=self.theme.muted,
            )
        return sheet

    def _said(self) -> str:
        said = said_of(self.data.run, self.data.cycles)
        if len(self.colour_of) > len(self.theme.series):
            said += f"; {len(self.colour_of)} operations share {len(self.theme.series)} colours"
        if all(lane.labels.is_exact for lane in self.data.lanes):
            return said
        cycles = self.data.cycles.count / COLUMNS
        return f"{said}; a column stands for {cycles:,.1f} cycles, heights are shares of them"

    def _notes(self) -> list[str]:
        """Return lines for the foot: units without a lane, and what parts of a unit hold."""
        data = self.data
        parts = [part for lane in data.lanes for part in lane.parts if part.name and part.kinds]
        told = [f"{part.name}: {', '.join(part.kinds)}" for part in parts]
        idle = [f"idle: {_name_list(data.idle)}"] if data.idle else []
        return [*idle, *(["; ".join(told)] if told else [])]

    def _legend(self) -> list[tuple[str, str]]:
        seen = {activity_of(label) for lane in self.data.lanes for label, _ in lane.reasons}
        if any(lane.refused.ticks for lane in self.data.lanes):
            seen.add("stalled")
        meanings = {"waiting": "waiting for the unit named", "stalled": "a port refused"}
        return [
            (self.theme.activities[kind], meanings.get(kind, kind))
            for kind in ACTIVITIES
            if kind in seen
        ]

    def _operations(self, axes: Axes) -> None:
        """Draw the band: each operation on a track, its name where it begins and has room.

        On the last track operations may lie on each other: there a name is on no bar of another.
        """
        for each in self.data.operations:
            top = each.track * BAND
            y = top, top + BAND - 0.025
            colour = self.colour_of[each.name]
            marks(axes, each.on, self.period, self.data.window, y, colour=colour)
            if not self.data.has_room(each):
                continue
            axes.text(
                each.words.first / self.period + WORD_MARGIN / self.inches_per_cycle,
                sum(y) / 2,
                each.name,
                va="center_baseline",
                fontsize=style.TINY + 0.5,
                color=self.theme.ink,
                clip_on=True,
                parse_math=False,
            )

    def _lane(self, axes: Axes, sheet: Sheet, lane: UnitLane, top: float) -> None:
        y, cycles = top + STRIP, self.data.cycles
        ground(axes, cycles, y, y + LANE, self.theme.faint)
        colours: dict[str, str] = {kind: self.theme.activities[kind] for kind in ACTIVITIES}
        stacked(axes, lane.labels, self.period, (y + LANE, y), colours)
        red = self.theme.activities["stalled"]
        marks(axes, lane.refused, self.period, self.data.window, (top, y), colour=red)
        waits = [(first / self.period, stop / self.period, who) for first, stop, who in lane.waits]
        words(axes, waits, y + LANE / 2, self.inches_per_cycle, self.theme.ink)
        below = y + LANE
        for part in lane.parts:
            self._instructions(axes, part, below)
            if part.name:
                sheet.text(
                    MARGIN + NAMES - 0.12,
                    HEAD + below + 0.01 + TRACK / 2,
                    part.name,
                    ha="right",
                    va="center_baseline",
                    fontsize=style.TINY + 0.5,
                    color=self.theme.muted,
                )
            below += part.tracks * TRACK
        self.middles[lane.unit] = y + LANE + lane.tracks * TRACK / 2
        self._names(sheet, lane, HEAD + top)

    def _instructions(self, axes: Axes, lane: InstructionTracks, top: float) -> None:
        plain = self.theme.plain
        if lane.bars is None:
            colours = {layer: self.colour_of.get(layer, plain) for layer in lane.some.shares}
            stacked(axes, lane.some, self.period, (top + TRACK, top + 0.02), colours)
            return
        layers, names = self.data.run.observed.operations, self.data.run.observed.names
        kinds = [layers[bar.instruction] if layers else "" for bar in lane.bars]
        least = self.data.cycles.count / COLUMNS
        lefts = [bar.first / self.period for bar in lane.bars]
        rights = [
            max(bar.stop / self.period, left + least)
            for bar, left in zip(lane.bars, lefts, strict=True)
        ]
        joint = 1.5 * least
        shown = [
            right - joint if right - left > 4 * joint else right
            for left, right in zip(lefts, rights, strict=True)
        ]
        lows = [top + bar.track * TRACK + 0.02 for bar in lane.bars]
        highs = [low + TRACK - 0.02 for low in lows]
        fills = [self.colour_of.get(kind, plain) for kind in kinds]
        boxes(axes, (np.array(lefts), np.array(shown)), (lows, highs), fills)
        for track in range(lane.tracks):
            texts = [
                (left, right, f"{names[bar.instruction]} {bar.instruction}")
                for bar, left, right in zip(lane.bars, lefts, rights, strict=True)
                if bar.track == track
            ]
            middle = top + track * TRACK + 0.01 + TRACK / 2
            words(axes, texts, middle, self.inches_per_cycle, self.theme.on_series)

    def _names(self, sheet: Sheet, lane: UnitLane, top: float) -> None:
        middle = top + STRIP + LANE / 2
        sheet.text(NAMES_END, middle, lane.unit, ha="right", va="center_baseline")
        total = sum(cycles for _, cycles in lane.reasons)
        for place, (label, cycles) in enumerate(lane.told_reasons):
            stalled = label.startswith("stalled")
            sheet.text(
                NOTES_START,
                top + (place + 0.75) * REASON,
                f"{percent(cycles, total)}  {label}",
                fontsize=style.TINY + 0.5,
                va="center_baseline",
                color=self.theme.activities["stalled"] if stalled else self.theme.muted,
            )

    def _arrows(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the first arrows from posts to starts, and say how many are left out."""
        from matplotlib.collections import LineCollection

        unit_of = {each.instruction: each.unit for each in self.data.run.trace.times}
        window, lines, count = self.data.window, [], 0
        for arrow in self.data.run.observed.arrows():
            ends = arrow.posted, arrow.started
            if max(ends) < window.first or min(ends) >= window.stop:
                continue
            count += 1
            if count <= MOST_ARROWS:
                start = ends[0] / self.period, self.middles[unit_of[arrow.poster]]
                lines.append((start, (ends[1] / self.period, self.middles[unit_of[arrow.waiter]])))
        ink = self.theme.ink
        axes.add_collection(LineCollection(lines, colors=ink, linewidths=0.5, alpha=0.7))
        tips = [end for _, end in lines]
        axes.scatter([x for x, _ in tips], [y for _, y in tips], s=5, c=ink, linewidths=0, zorder=3)
        left_out = count - len(lines)
        text = f"{plural(count, 'wait')} for a semaphore: a line from the post, a dot at the start"
        if left_out:
            text += f" ({number(left_out)} left out: fewer cycles have room for all)"
        sheet.text(MARGIN, 1.13, text, fontsize=style.TINY + 0.5, color=self.theme.muted)


def _name_list(units: Sequence[str]) -> str:
    """Return names for a line of text; many queues are counted instead of listed."""
    queues = [u for u in units if u.startswith("dma")]
    if len(queues) > 4:
        units = [u for u in units if u not in queues] + [f"{len(queues)} DMA queues"]
    return ", ".join(units)
