"""The plots of a comparison: times through the array and through DRAM, and their ratio.

A sweep over sizes is drawn as times on two logarithmic axes, with the ratio beside each pair. Other
sweeps are drawn as the ratio alone, with a line where the array stops winning.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from systolic.report.paper import style
from systolic.report.paper.figure_page import FigurePage
from systolic.report.summary.wording import ratio_text, time_text
from systolic.report.sweeps.pairs import Comparison, PointRow, comparisons

ARRAY, THROUGH = style.HUE["stream"], style.HUE["load"]
COLUMNS, WIDTH, HEIGHT = 3, 3.9, 2.75
MARGIN, GAP, HEAD, NAME, FOOT, NOTE_LETTERS = 0.85, 1.2, 1.2, 0.72, 0.8, 62


def plot_comparison(
    points: Iterable[PointRow],
    path: str | Path,
    *,
    title: str = "Array or DRAM?",
    notes: Mapping[str, str] | None = None,
) -> None:
    """Draw all sweeps that ran both ways and save the picture as a PNG.

    Args:
        points: summaries that have also `sweep` and `vary`; or dicts of these two and `summary`.
        path: the file, which is replaced once the picture is complete.
        title: headline.
        notes: a sentence for each sweep, by the sweep's name.

    Raises:
        ValueError: no sweep ran its points both ways.

    """
    found = sorted(comparisons(points), key=lambda one: not one.over_size)
    if not found:
        raise ValueError("no sweep has points via both the array and DRAM")
    columns = min(COLUMNS, len(found))
    lines = -(-len(found) // columns)
    pitch = NAME + HEIGHT + FOOT
    page = FigurePage(2 * MARGIN + columns * (WIDTH + GAP) - GAP + 0.3, HEAD + lines * pitch)
    page.text(MARGIN, 0.3, title, fontsize=style.TITLE, weight="bold")
    page.text(MARGIN, 0.68, _verdict(found), color=style.MUTED)
    for place, one in enumerate(found):
        left = MARGIN + place % columns * (WIDTH + GAP)
        top = HEAD + place // columns * pitch
        page.text(left, top, one.sweep, fontsize=style.HEADING, weight="bold")
        note = textwrap.fill((notes or {}).get(one.sweep, ""), NOTE_LETTERS)
        page.text(left, top + 0.24, note, fontsize=style.SMALL, color=style.MUTED)
        axes = page.axes(left, top + NAME, WIDTH, HEIGHT)
        _frame(axes, one)
        (_draw_times if one.over_size else _draw_ratio)(axes, one)
    page.save(path)


def _verdict(found: list[Comparison]) -> str:
    ratios = [pair.ratio for one in found for pair in one.pairs]
    least, most = ratio_text(min(ratios)), ratio_text(max(ratios))
    return f"The way through DRAM takes {least} to {most} the time of the way through the array"


def _frame(axes: Axes, one: Comparison) -> None:
    axes.set_axis_on()
    axes.set_yscale("log")
    smallest = min((pair.x for pair in one.pairs if pair.x > 0), default=1.0)
    if one.pairs[0].x > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=smallest)
    axes.set_xticks([pair.x for pair in one.pairs], [tick_text(p.value) for p in one.pairs])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", labelsize=style.SMALL, colors=style.MUTED, length=0)
    long = max(len(tick_text(pair.value)) for pair in one.pairs) > 5
    axes.tick_params(axis="x", labelrotation=35 if long and len(one.pairs) > 4 else 0)
    axes.set_xlabel(axis_name(one.key), fontsize=style.SMALL, color=style.MUTED)
    axes.grid(visible=True, axis="y", color=style.HAIR, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(style.HAIR)


def tick_text(value: str) -> str:
    """Return the text of a tick: a shape's sides alone, any other value as it is."""
    if "[" in value:
        return value[value.index("[") + 1 : value.index("]")].replace(",", "x")
    return value


def axis_name(key: str) -> str:
    """Return a key as the name of an axis: "chip.dram.latency_cycles" is "dram latency cycles"."""
    return key.removeprefix("chip.").removeprefix("workload.").replace(".", " ").replace("_", " ")


def _draw_times(axes: Axes, one: Comparison) -> None:
    x = [pair.x for pair in one.pairs]
    lines = (
        ("DRAM", THROUGH, [pair.dram_ns for pair in one.pairs]),
        ("array", ARRAY, [pair.array_ns for pair in one.pairs]),
    )
    for name, colour, times in lines:
        axes.plot(x, times, "o-", color=colour, lw=2, ms=4.5, clip_on=False)
        axes.annotate(
            name,
            (x[-1], times[-1]),
            (8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=style.BODY,
            weight="bold",
            annotation_clip=False,
        )
    for pair in one.pairs:
        _note(axes, pair.x, max(pair.array_ns, pair.dram_ns), ratio_text(pair.ratio))
    axes.yaxis.set_major_formatter(FuncFormatter(_time_tick))
    axes.margins(x=0.05, y=0.16)
    _crossing(axes, one)


def _draw_ratio(axes: Axes, one: Comparison) -> None:
    ratios = [pair.ratio for pair in one.pairs]
    axes.plot([p.x for p in one.pairs], ratios, "o-", color=THROUGH, lw=2, ms=4.5, clip_on=False)
    for pair in one.pairs:
        _note(axes, pair.x, pair.ratio, ratio_text(pair.ratio))
    axes.axhline(1, color=style.INK, lw=0.8)
    axes.set_ylim(min(0.8, *ratios) / 1.3, max(1.25, *ratios) * 1.6)
    kind: dict[str, Any] = {"fontsize": style.SMALL - 0.5, "color": style.MUTED, "ha": "right"}
    where: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    axes.annotate("the array wins above", (1, 1), (0, 3), va="bottom", **where, **kind)
    axes.annotate("DRAM wins below", (1, 1), (0, -3), va="top", **where, **kind)
    axes.yaxis.set_major_formatter(FuncFormatter(_ratio_tick))
    _crossing(axes, one)


def _note(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(
        text,
        (x, y),
        (-6, 6),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=style.SMALL,
        color=style.INK,
    )


def _crossing(axes: Axes, one: Comparison) -> None:
    """Mark the place where both ways take the same time, if it lies within the sweep."""
    x = one.crossing()
    if x is None:
        return
    axes.axvline(x, color=style.STALLED, lw=1, ls=(0, (4, 3)))
    unit = " elements" if one.over_size else ""
    axes.annotate(
        f"equal at {x:,.3g}{unit}",
        (x, 0.02),
        (4, 0),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        color=style.STALLED,
        fontsize=style.SMALL,
        va="bottom",
    )


def _time_tick(value: float, _: int) -> str:
    return time_text(value)


def _ratio_tick(value: float, _: int) -> str:
    return f"{value:,g}x"
