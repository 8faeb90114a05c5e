"""The picture of a sweep: how long the run takes, over the varied values.

There is a panel for each sweep, and in it a line for each combination of the values that are not on
the axis. The functions take plain summaries; nothing is run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from systolic.report.paper import style
from systolic.report.paper.figure_page import FigurePage
from systolic.report.summary.wording import time_text
from systolic.report.sweeps.pairs import PointRow

COLUMNS, PANEL_WIDTH, PANEL_HEIGHT = 3, 4.1, 2.6
LEFT, GAP, TITLE_HEIGHT, CAPTION_HEIGHT, FOOT_HEIGHT = 0.75, 1.6, 0.95, 0.6, 1.05
COLOURS = (style.HUE["stream"], style.HUE["load"], style.HUE["drain"], style.STALLED, style.MUTED)
SERIES_KEY = "compile.via"
TITLE_LETTERS_PER_INCH, NAME_LETTERS, NAME_APART = 7.0, 20, 0.07
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
        draw_panel(page.axes(left, top + CAPTION_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT), rows)
    page.save(path)


def axis_keys(rows: Sequence[PointRow]) -> list[str]:
    """Return the key on the axis, and the keys that it decides: those of a zip vary with it."""
    key = axis_key(rows)
    found = [key]
    for other in rows[0]["vary"]:
        pairs = {(str(row["vary"][key]), str(row["vary"][other])) for row in rows}
        values = {value for value, _ in pairs}
        varies = len({found for _, found in pairs}) > 1
        if other != key and varies and len(pairs) == len(values):
            found.append(other)
    return found


def axis_key(rows: Sequence[PointRow]) -> str:
    """Return the key whose values go on the axis: the first that varies other than `via`.

    If no other key varies, the first key.
    """
    varying = [key for key in rows[0]["vary"] if len({str(r["vary"][key]) for r in rows}) > 1]
    return next((key for key in varying if key != SERIES_KEY), str(next(iter(rows[0]["vary"]))))


def series(rows: Sequence[PointRow], keys: Sequence[str]) -> dict[str, list[tuple[str, float]]]:
    """Return, by the values of all other keys that vary, points (values of `keys`, time in ns)."""
    others = [k for k in rows[0]["vary"] if k not in keys]
    others = [k for k in others if len({str(row["vary"][k]) for row in rows}) > 1]
    found: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        name = ", ".join(_short(k, row["vary"][k]) for k in others)
        value = " / ".join(str(row["vary"][key]) for key in keys)
        found.setdefault(name, []).append((value, row["time_ns"]))
    return found


def _short(key: str, value: Any) -> str:
    """Return what a line is called by a key: a word stands for itself, a number needs the key."""
    return value if isinstance(value, str) else f"{key.rsplit('.', 1)[-1]} {value}"


def draw_panel(axes: Axes, rows: Sequence[PointRow]) -> None:
    """Draw the points of a sweep on axes: a line for each combination of keys off the axis."""
    keys = axis_keys(rows)
    lines = series(rows, keys)
    values = list(dict.fromkeys(value for points in lines.values() for value, _ in points))
    _frame(axes, " / ".join(keys), values, [row["time_ns"] for row in rows])
    for number, points in enumerate(lines.values()):
        colour = COLOURS[number] if len(lines) <= len(COLOURS) else style.MUTED
        x = [values.index(value) for value, _ in points]
        dashes = "solid" if not number else (0, (3, 3 * number))  # so that equal lines are seen
        axes.plot(
            x, [time for _, time in points], "o", ls=dashes, color=colour, lw=1.8, clip_on=False,
            ms=4 + 1.5 * max(len(lines) - 1 - number, 0) if len(lines) <= len(COLOURS) else 4,
        )  # fmt: skip
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
            "\n".join(textwrap.wrap(names[number], NAME_LETTERS)[:2]),
            (values.index(value), time),
            (1.015, least),
            textcoords="axes fraction",
            va="center",
            color=COLOURS[number],
            fontsize=style.SMALL,
            annotation_clip=False,
        )
        least += NAME_APART * min(2, 1 + len(names[number]) // NAME_LETTERS)


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
