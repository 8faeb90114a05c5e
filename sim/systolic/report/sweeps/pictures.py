"""The pictures of sweeps: lines, Pareto fronts, heat maps, sensitivities; a panel for each sweep.

What is drawn is in the marks (`lines`, `front`, `heat_map`, `sensitivity`); nothing is counted
here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from systolic.errors import shortened
from systolic.report.paper import style
from systolic.report.paper.figure_page import FigurePage
from systolic.report.summary.wording import time_text
from systolic.report.sweeps.axes import AxisPlace, axes_of, last_word, place_text
from systolic.report.sweeps.found import SweepRows
from systolic.report.sweeps.front import front_marks
from systolic.report.sweeps.heat_map import HeatMarks, heat_marks
from systolic.report.sweeps.lines import LineMark, LinesMarks, lines_marks
from systolic.report.sweeps.pairs import PointRow
from systolic.report.sweeps.sensitivity import sensitivity_marks

COLUMNS, PANEL_WIDTH, PANEL_HEIGHT = 3, 4.1, 2.6
LEFT, GAP, TITLE_HEIGHT, CAPTION_HEIGHT, FOOT_HEIGHT = 1.35, 1.75, 0.95, 0.6, 1.05
COLOURS = (style.HUE["stream"], style.HUE["load"], style.HUE["drain"], style.STALLED, style.MUTED)
SHADES = LinearSegmentedColormap.from_list(
    "shades", [style.TINT["load"], style.HUE["load"], style.TEXT["load"]]
)
TITLE_LETTERS_PER_INCH, NAME_LETTERS, NAME_APART, TICK_LETTERS = 7.0, 24, 0.07, 19
MOST_WRITTEN, MOST_TICKS, LINE_COLOURS = 64, 16, 24
LOG_FROM = 10
"""Results that differ by more than this factor are drawn on a logarithmic axis."""


DrawPanel = Callable[[Axes, SweepRows], None]


def plot_sweeps(
    sweeps: Sequence[tuple[str, str, Sequence[PointRow]]],
    path: Path,
    *,
    title: str,
    zips: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> None:
    """Draw the times of (name, description, rows) of each sweep as lines, and save a PNG.

    zips: groups of keys that go together, by the name of the sweep.
    """
    found = [SweepRows(n, text, rows, (zips or {}).get(n, ())) for n, text, rows in sweeps]
    plot_lines(found, path, title=title)


def plot_lines(sweeps: Sequence[SweepRows], path: Path, *, title: str) -> None:
    """Draw the times of each sweep as lines over the axis with most values."""
    _page(sweeps, path, title, _lines)


def plot_fronts(sweeps: Sequence[SweepRows], path: Path, *, title: str) -> None:
    """Draw the points of each sweep over two objectives, with the Pareto front and its knee."""
    _page(sweeps, path, title, _front)


def plot_heat_maps(sweeps: Sequence[SweepRows], path: Path, *, title: str) -> None:
    """Draw each sweep's first objective over the two axes that explain most of it."""
    _page(sweeps, path, title, _heat_map)


def plot_sensitivities(sweeps: Sequence[SweepRows], path: Path, *, title: str) -> None:
    """Draw how much of the variance of each sweep's first objective each key explains."""
    _page(sweeps, path, title, _sensitivity)


def draw_found(kind: str, sweeps: Sequence[SweepRows], path: Path, *, title: str) -> None:
    """Draw what was found of those sweeps that a kind of picture can show; none, no file.

    kind: "lines", "front", "heat_map" or "sensitivity".
    """
    draw, can_show = KINDS[kind]
    good = [sweep.good() for sweep in sweeps]
    able = [sweep for sweep in good if sweep.rows and can_show(sweep)]
    if able:
        draw(able, path, title=title)
    else:
        path.unlink(missing_ok=True)  # of an earlier exploration


def _page(sweeps: Sequence[SweepRows], path: Path, title: str, draw: DrawPanel) -> None:
    columns = min(COLUMNS, len(sweeps))
    lines = -(-len(sweeps) // columns)
    pitch = CAPTION_HEIGHT + PANEL_HEIGHT + FOOT_HEIGHT
    page = FigurePage(LEFT + columns * (PANEL_WIDTH + GAP), TITLE_HEIGHT + lines * pitch)
    room = int((page.width - LEFT) * TITLE_LETTERS_PER_INCH)
    page.text(
        LEFT, 0.2, _wrap(title, room), fontsize=style.TITLE, fontweight="bold", parse_math=False
    )
    for number, sweep in enumerate(sweeps):
        left = LEFT + number % columns * (PANEL_WIDTH + GAP)
        top = TITLE_HEIGHT + number // columns * pitch
        page.text(
            left, top, sweep.name, fontsize=style.HEADING, fontweight="bold", parse_math=False
        )
        page.text(
            left,
            top + 0.22,
            _wrap(sweep.description),
            fontsize=style.SMALL,
            color=style.MUTED,
            parse_math=False,
        )
        axes = page.axes(left, top + CAPTION_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT)
        axes.set_axis_on()
        draw(axes, sweep)
    page.save(path)


# -- lines ----------------------------------------------------------------------------------------


def _lines(axes: Axes, sweep: SweepRows) -> None:
    found = lines_marks(sweep.rows, sweep.zips)
    times = [time for line in found.lines for _, time in line.points]
    _plain(axes, grid="y")
    _time_axis(axes, times)
    _places(axes, found.axis.values, "x")
    axes.set_xlabel(found.axis.name, fontsize=style.SMALL, color=style.MUTED)
    few = len(found.lines) <= len(COLOURS)
    for number, line in enumerate(found.lines):
        colour = COLOURS[number] if few else style.MUTED
        axes.plot(*zip(*line.points, strict=True), "o-", color=colour, lw=1.8, ms=4, clip_on=False)
    if few:
        _name_lines(axes, found)
    else:
        _corner(axes, f"{len(found.lines)} lines")


def _time_axis(axes: Axes, times: Sequence[float]) -> None:
    if max(times) > LOG_FROM * min(times):
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.margins(y=0.12)
    else:
        axes.set_ylim(0, 1.15 * max(times))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: time_text(max(time, 0.0))))


def _name_lines(axes: Axes, found: LinesMarks) -> None:
    """Write each line's name at its end, at a distance from other names, and shortened to fit."""
    axes.figure.canvas.draw()  # Only after this do the axes know the places of their data.
    least = 0.0
    for colour, line in sorted(
        zip(COLOURS, found.lines, strict=False), key=lambda pair: pair[1].points[-1][1]
    ):
        number, time = line.points[-1]
        place = float(axes.transAxes.inverted().transform(axes.transData.transform((0, time)))[1])
        least = max(place, least)
        axes.annotate(
            line_name(line),
            (number, time),
            (1.02, least),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=style.SMALL,
            annotation_clip=False,
            parse_math=False,
        )
        least += NAME_APART


def line_name(line: LineMark) -> str:
    """Return the name of a line; of one that stands for several, the first and how many more."""
    more = f" +{len(line.names) - 1}" if len(line.names) > 1 else ""
    return shortened(line.names[0], NAME_LETTERS - len(more)) + more


# -- the Pareto front -----------------------------------------------------------------------------


def _front(axes: Axes, sweep: SweepRows) -> None:
    x, y = sweep.objectives[:2]
    found = front_marks(sweep.rows, x, y, sweep.large)
    _plain(axes, grid="both")
    for name, axis, values in (
        (x, axes.xaxis, [m.x for m in found.marks]),
        (y, axes.yaxis, [m.y for m in found.marks]),
    ):
        if min(values) > 0 and max(values) > LOG_FROM * min(values):
            (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
        axis.set_major_formatter(FuncFormatter(_short))
        axis.set_minor_formatter(NullFormatter())
        axis.set_label_text(name, fontsize=style.SMALL, color=style.MUTED)
    others = [mark for mark in found.marks if not mark.is_on_front]
    axes.plot([m.x for m in others], [m.y for m in others], "o", color=style.WAITING, ms=4)
    axes.plot(
        [m.x for m in found.front],
        [m.y for m in found.front],
        "o-",
        color=style.HUE["load"],
        lw=1.4,
        ms=5,
    )
    axes.margins(0.1)
    _corner(axes, f"front: {len(found.front)} of {len(found.marks)} points")
    if found.knee is not None:
        row = sweep.rows[found.knee.row]
        axes.plot([found.knee.x], [found.knee.y], "o", color=style.STALLED, ms=7)
        text = ", ".join(f"{last_word(k)} {v}" for k, v in row["vary"].items())
        axes.annotate(
            f"knee: {textwrap.shorten(text, 46, placeholder=' ...')}",
            (found.knee.x, found.knee.y),
            (8, 8),
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.STALLED,
            parse_math=False,
        )


# -- the heat map ---------------------------------------------------------------------------------


def _heat_map(axes: Axes, sweep: SweepRows) -> None:
    found = heat_marks(sweep.rows, sweep.objectives[0], sweep.zips, sweep.large)
    assert found is not None
    values = [cell for line in found.cells for cell in line if cell is not None]
    cells = [[float("nan") if cell is None else cell for cell in line] for line in found.cells]
    is_log = min(values) > 0 and max(values) > LOG_FROM * min(values)
    norm = (LogNorm if is_log else Normalize)(min(values), max(values))
    _plain(axes)
    axes.imshow(cells, cmap=SHADES, norm=norm, aspect="auto", interpolation="nearest")
    _places(axes, found.across.values, "x")
    _places(axes, found.down.values, "y")
    axes.set_xlabel(found.across.name, fontsize=style.SMALL, color=style.MUTED)
    axes.set_ylabel(found.down.name, fontsize=style.SMALL, color=style.MUTED)
    if len(values) <= MOST_WRITTEN:
        _write_cells(axes, found, norm)
    text = sweep.objectives[0]
    if found.others:
        text += f", the best over {', '.join(axis.name for axis in found.others)}"
    _corner(axes, textwrap.shorten(text, 60, placeholder=" ..."))


def _write_cells(axes: Axes, found: HeatMarks, norm: Normalize) -> None:
    for down, line in enumerate(found.cells):
        for across, cell in enumerate(line):
            if cell is not None:
                dark = float(norm(cell)) > 0.35
                axes.text(
                    across,
                    down,
                    _short(cell),
                    ha="center",
                    va="center",
                    fontsize=style.TINY,
                    color=style.PAPER if dark else style.INK,
                )


# -- sensitivity ----------------------------------------------------------------------------------


def _sensitivity(axes: Axes, sweep: SweepRows) -> None:
    marks = sensitivity_marks(sweep.rows, sweep.objectives[0], sweep.zips)
    _plain(axes, grid="x")
    axes.set_xlim(0, 100)
    axes.set_ylim(len(marks) - 0.4, -0.6)
    axes.set_yticks(
        range(len(marks)),
        [shortened(mark.axis.name, TICK_LETTERS) for mark in marks],
        fontsize=style.SMALL,
        color=style.INK,
        parse_math=False,
    )
    for place, mark in enumerate(marks):
        axes.barh(place, 100 * mark.share, height=0.6, color=style.HUE["load"])
        text = f"{100 * mark.share:.0f} %   best at {shortened(place_text(mark.best), 16)}"
        inside = mark.share > 0.5
        axes.annotate(
            text,
            (100 * mark.share, place),
            (-4 if inside else 4, 0),
            textcoords="offset points",
            ha="right" if inside else "left",
            va="center",
            fontsize=style.SMALL,
            color=style.PAPER if inside else style.MUTED,
            parse_math=False,
        )
    axes.set_xlabel(
        f"share of the variance of {sweep.objectives[0]} that a key explains by itself, in percent",
        fontsize=style.SMALL,
        color=style.MUTED,
    )


# -- what panels share ----------------------------------------------------------------------------


def _plain(axes: Axes, grid: str = "") -> None:
    axes.tick_params(which="both", labelsize=style.SMALL, colors=style.MUTED, length=0)
    if grid:
        axes.grid(visible=True, axis=grid, color=style.HAIR, lw=0.6)  # type: ignore[arg-type]
        axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(style.HAIR)


def _places(axes: Axes, values: Sequence[AxisPlace], side: str) -> None:
    """Write the values of an axis, but no more than there is room for."""
    step = -(-len(values) // MOST_TICKS)
    shown = range(0, len(values), step)
    texts = [shortened(place_text(values[number]), TICK_LETTERS) for number in shown]
    if side == "y":
        axes.set_yticks(shown, texts, parse_math=False)
        return
    axes.set_xticks(shown, texts, parse_math=False)
    if max(map(len, texts)) > 5 or len(texts) > 10:
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")


def _corner(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="right", fontsize=style.SMALL, color=style.MUTED, parse_math=False)


def _short(value: float, _: object = None) -> str:
    """Return a number in a few letters: 1.2M, 34k, 0.56."""
    for scale, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}"


def _wrap(text: str, width: int = 62) -> str:
    return "\n".join(textwrap.wrap(text, width)[:2])


def _has_front(sweep: SweepRows) -> bool:
    return len(sweep.objectives) > 1 and len(sweep.rows) > 1


def _has_map(sweep: SweepRows) -> bool:
    return heat_marks(sweep.rows, sweep.objectives[0], sweep.zips) is not None


def _has_axes(sweep: SweepRows) -> bool:
    return bool(axes_of(sweep.rows, sweep.zips))


KINDS: dict[str, tuple[Callable[..., None], Callable[[SweepRows], bool]]] = {
    "lines": (plot_lines, _has_axes),
    "front": (plot_fronts, _has_front),
    "heat_map": (plot_heat_maps, _has_map),
    "sensitivity": (plot_sensitivities, _has_axes),
}
"""Of each kind of picture the function that draws it, and which sweeps it can show."""
