"""The picture of a sweep: how long the run takes, over the varied values.

There is a panel for each sweep, and in it a line for each combination of the values that are not on
the axis. The functions take plain summaries; nothing is run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from systolic.errors import shortened
from systolic.report.paper import style
from systolic.report.paper.figure_page import FigurePage
from systolic.report.summary.wording import time_text
from systolic.report.sweeps.pairs import PointRow

COLUMNS, PANEL_WIDTH, PANEL_HEIGHT = 3, 4.1, 2.6
LEFT, GAP, TITLE_HEIGHT, CAPTION_HEIGHT, FOOT_HEIGHT = 0.75, 1.3, 0.95, 0.6, 1.05
COLOURS = (style.HUE["stream"], style.HUE["load"], style.HUE["drain"], style.STALLED, style.MUTED)
SERIES_KEY = "compile.via"
TITLE_LETTERS_PER_INCH, NAME_LETTERS, NAME_APART = 7.0, 15, 0.07
LOG_FROM = 10
"""Times that differ by more than this factor are drawn on a logarithmic axis."""


def plot_sweeps(
    sweeps: Sequence[tuple[str, str, Sequence[PointRow]]], path: Path, *, title: str
) -> None:
    """Draw (name, description, summaries with their "vary") of each sweep and save a PNG."""
    columns = min(COLUMNS, len(sweeps))
    lines = -(-len(sweeps) // columns)
    pitch = CAPTION_HEIGHT + PANEL_HEIGHT + FOOT_HEIGHT
    page = FigurePage(LEFT + columns * (PANEL_WIDTH + GAP), TITLE_HEIGHT + lines * pitch)
    room = int((page.width - LEFT) * TITLE_LETTERS_PER_INCH)
    page.text(LEFT, 0.2, _wrap(title, room), fontsize=style.TITLE, fontweight="bold")
    for number, (name, description, rows) in enumerate(sweeps):
        left = LEFT + number % columns * (PANEL_WIDTH + GAP)
        top = TITLE_HEIGHT + number // columns * pitch
        page.text(left, top, name, fontsize=style.HEADING, fontweight="bold")
        page.text(left, top + 0.22, _wrap(description), fontsize=style.SMALL, color=style.MUTED)
        _panel(page.axes(left, top + CAPTION_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT), rows)
    page.save(path)


def axis_key(rows: Sequence[PointRow]) -> str:
    """Return the key whose values go on the axis: the first that varies other than `via`.

    If no other key varies, the first key.
    """
    varying = [key for key in rows[0]["vary"] if len({str(r["vary"][key]) for r in rows}) > 1]
    return next((key for key in varying if key != SERIES_KEY), str(next(iter(rows[0]["vary"]))))


def series(rows: Sequence[PointRow], key: str) -> dict[str, list[tuple[str, float]]]:
    """Return, by the values of all other keys that vary, points (value of `key`, time in ns)."""
    others = [k for k in rows[0]["vary"] if k != key]
    others = [k for k in others if len({str(row["vary"][k]) for row in rows}) > 1]
    found: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        name = ", ".join(f"{k.rsplit('.', 1)[-1]} {row['vary'][k]}" for k in others)
        found.setdefault(name, []).append((str(row["vary"][key]), row["time_ns"]))
    return found


def _panel(axes: Axes, rows: Sequence[PointRow]) -> None:
    key = axis_key(rows)
    lines = series(rows, key)
    values = list(dict.fromkeys(value for points in lines.values() for value, _ in points))
    _frame(axes, key, values, [row["time_ns"] for row in rows])
    for number, points in enumerate(lines.values()):
        colour = COLOURS[number] if len(lines) <= len(COLOURS) else style.MUTED
        x = [values.index(value) for value, _ in points]
        axes.plot(x, [time for _, time in points], "o-", color=colour, lw=1.8, ms=4, clip_on=False)
    if len(lines) <= len(COLOURS):
        _name_lines(axes, lines, values)
    else:
        axes.set_title(
            f"{len(lines)} lines: sweep.csv has their keys",
            loc="right",
            fontsize=style.SMALL,
            color=style.MUTED,
        )


def _name_lines(
    axes: Axes, lines: Mapping[str, Sequence[tuple[str, float]]], values: Sequence[str]
) -> None:
    """Write each line's name at its end, at a distance from other names, and shortened to fit."""
    axes.figure.canvas.draw()  # Only after this do the axes know the places of their data.
    least = 0.0
    ends = sorted((points[-1][1], number) for number, points in enumerate(lines.values()))
    names = list(lines)
    for time, number in ends:
        value = lines[names[number]][-1][0]
        place = float(axes.transAxes.inverted().transform(axes.transData.transform((0, time)))[1])
        least = max(place, least)
        axes.annotate(
            shortened(names[number], NAME_LETTERS),
            (values.index(value), time),
            (1.015, least),
            textcoords="axes fraction",
            va="center",
            color=COLOURS[number],
            fontsize=style.SMALL,
            annotation_clip=False,
        )
        least += NAME_APART


def _frame(axes: Axes, key: str, values: Sequence[str], times: Sequence[float]) -> None:
    axes.set_axis_on()
    if max(times) > LOG_FROM * min(times):
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.margins(y=0.12)
    else:
        axes.set_ylim(0, 1.15 * max(times))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: time_text(max(time, 0.0))))
    axes.set_xlabel(key, fontsize=style.SMALL, color=style.MUTED)
    axes.set_xticks(range(len(values)), values)
    axes.tick_params(labelsize=style.SMALL, colors=style.MUTED, length=0)
    if max(map(len, values)) > 5:
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")
    axes.grid(visible=True, axis="y", color=style.HAIR, lw=0.6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(style.HAIR)


def _wrap(text: str, width: int = 62) -> str:
    return "\n".join(textwrap.wrap(text, width)[:2])
