"""The view `layers`: the operations of a network as bars of cycles, coloured by what bounds them.

A bar is the time in which the array is at an operation, so all bars together are the run. Where
nothing is multiplied, or a summary of version 0.1 does not say it, a bar is the time under way,
and operations overlap. A line across a bar is what the operation needs if it is done alone. In a
network part of that is done while the array is at another operation, so a bar may end before its
line. Everything is in the summary, so a summary.json will do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from systolic.errors import SystolicError
from systolic.report.paper import style
from systolic.report.plots.look import Look
from systolic.report.plots.marks import boxes
from systolic.report.plots.sheet import FOOT, HEAD, MARGIN, MIDDLE, NAMES, WIDTH, Sheet
from systolic.report.plots.subject import PlotSummary
from systolic.report.summary.layers import is_divided
from systolic.report.summary.wording import number, percent, plural, ratio_text

NO_PRODUCT = "no product"
"""Stands for what binds an operation that has no bound of the array's time."""
MANY = 40
"""Beyond this many operations, operations without a visible bar are left out."""
SEEN = 0.0005
"""Part of all bars that can be seen."""
MOST_ROWS = 120
"""The most operations that are drawn: the longest, in their order. A line counts the others."""
TALL, LOW, FULL_PAGE = 0.36, 0.17, 10.0
LONGEST_NAME = 20


class LayerBar(NamedTuple):
    """An operation: cycles, bound, what binds it, share of the array, what costs it most.

    without_bar: what to say of it if it has no cycles.
    """

    name: str
    op: str
    cycles: int
    bound_cycles: int
    bound_why: str
    utilisation: float
    worst: tuple[str, int] | None
    without_bar: str = "others do its work"


def layer_bars(summary: Mapping[str, Any]) -> list[LayerBar]:
    """Return a bar for each operation; SystolicError if the summary has none."""
    if not summary.get("operations"):
        raise SystolicError(
            f"{summary['run']}: has no operations to draw; needed the run of a graph "
            "([[workload.ops]])"
        )
    divided = is_divided(summary)
    return [_bar(each, divided=divided) for each in summary["operations"]]


def _bar(operation: Mapping[str, Any], *, divided: bool) -> LayerBar:
    taken = operation["array"] if divided else operation
    held_up = taken["lost"] if divided else operation["stalls"]
    worst = max(held_up, key=lambda each: held_up[each]) if held_up else None
    against_bound = operation["multiply_adds"] > 0 or not divided
    return LayerBar(
        name=operation["name"],
        op=operation["op"],
        cycles=taken["cycles"],
        bound_cycles=operation["bound"]["cycles"] if against_bound else 0,
        bound_why=operation["bound"]["why"] if against_bound else NO_PRODUCT,
        utilisation=taken["utilisation"],
        worst=None if worst is None else (worst, held_up[worst]),
        without_bar="done meanwhile" if operation["cycles"] else "others do its work",
    )


def longest(bars: Sequence[LayerBar], most: int) -> list[LayerBar]:
    """Return the longest bars, in their old order; of many only those that can be seen."""
    if len(bars) > MANY:
        least = SEEN * sum(bar.cycles for bar in bars)
        bars = [bar for bar in bars if bar.cycles > least]
    ranked = sorted(range(len(bars)), key=lambda place: -bars[place].cycles)[:most]
    return [bars[place] for place in sorted(ranked)]


def draw_layers(subject: PlotSummary, look: Look) -> Sheet:
    """Return the sheet."""
    every = layer_bars(subject.summary)
    bars = longest(every, MOST_ROWS)
    reasons = list(dict.fromkeys(bar.bound_why for bar in bars if bar.cycles))
    colour_of = {why: look.theme.series_colour(place) for place, why in enumerate(reasons)}
    bounded = {bar.bound_why for bar in bars if bar.bound_cycles}
    row = max(LOW, min(TALL, FULL_PAGE / len(bars)))
    sheet = Sheet(
        look,
        HEAD + len(bars) * row + FOOT,
        _said(subject, len(every) - len(bars)),
        [(colour, _bound_by(why, bounded)) for why, colour in colour_of.items()],
    )
    axes = sheet.axes(HEAD, len(bars) * row)
    _scale(axes, divided=is_divided(subject.summary))
    _draw(sheet, axes, bars, row, colour_of)
    return sheet


def _bound_by(why: str, bounded: Collection[str]) -> str:
    if why == NO_PRODUCT:
        return "the array waits for, or turns for, what is no product"
    return f"bound by {why}" if why in bounded else "without a bound of its own"


def _said(subject: PlotSummary, left_out: int) -> str:
    summary = subject.summary
    sums = "which all bars sum to" if is_divided(summary) else "operations overlap"
    said = (
        f"{summary['chip']}; {plural(summary['cycles'], 'cycle')} in all, {sums}. "
        "Line: the least for the operation alone, nothing fetched before it"
    )
    return f"{said}; {plural(left_out, 'shorter operation')} left out" if left_out else said


def _draw(
    sheet: Sheet, axes: Any, bars: Sequence[LayerBar], row: float, colour_of: Mapping[str, str]
) -> None:
    most = max(1, *(max(bar.cycles, bar.bound_cycles if bar.cycles else 0) for bar in bars))
    axes.set_xlim(0, most * 1.02)
    axes.set_ylim(len(bars), 0)
    size = min(style.BODY, row * 72 * 0.62)
    for place, bar in enumerate(bars):
        if bar.cycles:
            x, y = (np.zeros(1), np.array([bar.cycles])), (place + 0.14, place + 0.86)
            boxes(axes, x, y, colour_of[bar.bound_why])
            if bar.bound_cycles:
                axes.plot(
                    [bar.bound_cycles] * 2,
                    [place + 0.04, place + 0.96],
                    color=sheet.theme.ink,
                    linewidth=1.4,
                    solid_capstyle="butt",
                )
        _words(sheet, bar, HEAD + (place + 0.5) * row, size)


def _scale(axes: Any, *, divided: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
    when = "in which it is at an operation" if divided else "from first start to last end"
    axes.set_xlabel(f"cycles of the array, {when}")


def _words(sheet: Sheet, bar: LayerBar, middle: float, size: float) -> None:
    from systolic.report.paper.lettering import text_inches

    left, muted = MARGIN + NAMES, sheet.theme.muted
    name = bar.name if len(bar.name) <= LONGEST_NAME else bar.name[: LONGEST_NAME - 3] + "..."
    sheet.text(left - 0.1, middle, name, ha="right", va="center_baseline", fontsize=size)
    note, room = _note(bar), WIDTH - left - MIDDLE - 2 * 0.1
    sheet.text(
        left + MIDDLE + 0.1,
        middle,
        note,
        va="center_baseline",
        color=muted,
        fontsize=size * 0.85 * min(1.0, room / text_inches(note, size * 0.85)),
    )
    if bar.worst and size >= style.BODY:  # there is room for a second line
        text = f"{bar.worst[0]} {number(bar.worst[1])}"
        sheet.text(
            left + MIDDLE + 0.1,
            middle + 0.13,
            text,
            va="center_baseline",
            fontsize=style.TINY,
            color=muted,
        )


def _note(bar: LayerBar) -> str:
    if not bar.cycles:
        return f"{bar.op}: {bar.without_bar}"
    note = f"{bar.op}, {number(bar.cycles)}"
    if bar.bound_cycles:
        note += f", {ratio_text(bar.cycles / bar.bound_cycles)} alone"
    return f"{note}, utilisation {percent(bar.utilisation, 1)}" if bar.utilisation else note
