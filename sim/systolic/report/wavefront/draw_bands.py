"""Drawing the space-time diagram: bands one below the other on a common axis of cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.paper.lettering import text_inches
from systolic.report.paper.page import Horizontal, Page, PageBox
from systolic.report.wavefront.bands import PHASES, Band, CycleAxis, Phase
from systolic.report.wavefront.manner import BYS
from systolic.report.wavefront.moments import PhasePlace
from systolic.report.wavefront.painter import Painter
from systolic.report.wavefront.pe_lines import line_name

LINE, JOINT, LEAST_BAND, BAND_GAP, CAPTION_LEVEL = 0.17, 0.05, 0.28, 0.17, 0.34
CAPTION = style.SMALL - 0.5
JOINTS, LOAD_MARK, HAIRLINE = 0.8, 0.09, 0.6
ZEROS = ("0", "-0")
GROUP_NAMES = 0.24
"""How far names of groups of lines stand from the first cycle."""
LINE_BANDS = tuple(map(line_name, BYS))
ACTIVITY = Painter()


@dataclass(frozen=True, slots=True)
class Frame:
    """A part of a page whose x counts cycles: from `left`, `width` inches wide."""

    page: Page
    axis: CycleAxis
    left: float
    width: float

    @property
    def cycle_inches(self) -> float:
        """Return the width of a cycle."""
        return self.width / (self.axis.stop - self.axis.first)

    def x(self, cycle: float) -> float:
        """Return where a cycle begins on the page."""
        return self.left + (cycle - self.axis.first) * self.cycle_inches

    def box(self, first: float, stop: float, top: float, height: float) -> PageBox:
        """Return the box of some cycles."""
        return self.x(first), top, (stop - first) * self.cycle_inches, height


def band_height(band: Band, cells: bool) -> float:
    """Return the height of a band in inches."""
    if cells:
        joints = max(len(band.groups) - 1, 0)
        return max(LINE * band.lines + JOINT * joints, LEAST_BAND)
    if band.name in LINE_BANDS:
        return float(np.clip(band.lines * 0.018, 0.6, 2.4))
    return float(np.clip(band.lines * 0.01, 0.3, 0.5))


def draw_band(
    frame: Frame, top: float, band: Band, cells: bool, painter: Painter = ACTIVITY
) -> float:
    """Draw a band and its labels from `top` on; return its height."""
    height = band_height(band, cells)
    x, page = frame.left - 0.42, frame.page
    if band.groups and len(band.groups[0].lines) < 3:  # else the name stands above the group's
        longest = max(text_inches(group.name, style.TINY) for group in band.groups)
        x = min(x, frame.left - GROUP_NAMES - longest - 0.1)
    page.text(x, top, band.name, style.SMALL, ha="right")
    page.text(x, top + 0.14, painter.place_text(band), style.TINY, style.MUTED, ha="right")
    if cells:
        _draw_cells(frame, top, band, painter)
    else:
        _draw_heat(frame, (top, height), band, painter)
    return height


def line_tops(band: Band) -> npt.NDArray[np.float64]:
    """Return where each line of a band of cells begins, in inches."""
    before = np.repeat(np.arange(len(band.groups)), [len(group.lines) for group in band.groups])
    joints = before * JOINT if band.groups else np.zeros(band.lines)
    return np.arange(band.lines) * LINE + joints


def _draw_cells(frame: Frame, top: float, band: Band, painter: Painter) -> None:
    tops = top + line_tops(band)
    axis, page = frame.axis, frame.page
    page.boxes([frame.box(axis.first, axis.stop, y, LINE) for y in tops], style.FAINT, JOINTS)
    streaming = _busy(band, "stream") | _busy(band, "next") | _busy(band, "drain")
    values: list[tuple[float, float, str, str]] = []
    for phase in ("stream", "next", "drain", "load"):
        boxes: defaultdict[str, list[PageBox]] = defaultdict(list)
        for line, column in np.argwhere(_busy(band, phase)).tolist():
            cycle, y = axis.first + column, tops[line]
            text = band.texts.get(phase, {}).get((line, column), "")
            fill, ink = painter.cell(band, phase, (line, column), is_pale=text in ZEROS)
            if phase == "load" and streaming[line, column]:
                boxes[fill].append(frame.box(cycle, cycle + LOAD_MARK, y, LINE))
                continue
            boxes[fill].append(frame.box(cycle, cycle + 1, y, LINE))
            values.append((frame.x(cycle + 0.5), y + LINE / 2, text, ink))
        for fill, those in boxes.items():
            page.boxes(those, fill, JOINTS)
    for value in values:  # last, because boxes of a later phase would cover the text
        _value(frame, *value)
    _line_names(frame, tops, band)


def _busy(band: Band, phase: Phase) -> npt.NDArray[np.bool_]:
    layer = band.layers.get(phase)
    if layer is None:
        return np.zeros((band.lines, band.axis.columns), bool)
    return layer > 0


def _value(frame: Frame, x: float, y: float, text: str, ink: str) -> None:
    if not text or text_inches(text, style.TINY) > frame.cycle_inches:
        return
    frame.page.text(
        x,
        y + 0.005,
        text,
        style.TINY + 0.5,
        ink,
        ha="center",
        va="middle",
        opacity=0.45 if text in ZEROS else 1.0,
    )


def _line_names(frame: Frame, tops: npt.NDArray[np.float64], band: Band) -> None:
    x, muted, size = frame.left, style.MUTED, style.TINY - 0.5
    names = [name for group in band.groups for name in group.lines]
    for y, text in zip(tops, names or map(str, range(band.lines)), strict=True):
        frame.page.text(x - 0.06, y + LINE / 2, text, size, muted, ha="right", va="middle")
    first = 0
    for group in band.groups:
        y = tops[first : first + len(group.lines)].mean() + LINE / 2
        left = x - GROUP_NAMES
        frame.page.text(left, y, group.name, style.TINY, muted, ha="right", va="middle")
        first += len(group.lines)


def _draw_heat(frame: Frame, extent: tuple[float, float], band: Band, painter: Painter) -> None:
    top, height = extent
    image = style.paper(band.lines, band.axis.columns)
    style.lay(image, np.ones(image.shape[:2], bool), style.FAINT)
    for phase in PHASES:
        if _busy(band, phase).any():
            style.lay(image, _busy(band, phase), painter.hue(phase), _opacity(band, phase))
        colours = painter.plane(band, phase)
        if colours is not None:
            image[...] = np.where(np.isnan(colours), image, colours)
    axis, size = frame.axis, style.TINY - 0.5
    stop = min(axis.first + axis.columns * axis.step, axis.stop)
    frame.page.plane(frame.box(axis.first, stop, top, height), image)
    frame.page.text(frame.left - 0.06, top, "0", size, style.MUTED, ha="right")
    if band.lines > 1:
        last, y = str(band.lines - 1), top + height
        frame.page.text(frame.left - 0.06, y, last, size, style.MUTED, ha="right", va="bottom")


def _opacity(band: Band, phase: Phase) -> npt.NDArray[np.float64]:
    """Return how strongly a phase covers what is below it.

    Vectors cover more the more of them there are; by the square root, so that a few still show.
    """
    if phase == "load":
        return 0.5 * band.layers[phase]
    vectors = [layer for name, layer in band.layers.items() if name != "load"]
    most = max(float(layer.max(initial=0.0)) for layer in vectors)
    return np.asarray(np.sqrt(band.layers[phase] / (most or 1.0)))


def draw_turning_points(
    frame: Frame, top: float, bottom: float, points: Sequence[tuple[int, str]]
) -> None:
    """Draw a hairline through all bands at each cycle, its number and caption above `top`."""
    page, places = frame.page, caption_places(points, frame.axis, frame.width)
    side: dict[bool, Horizontal] = {False: "left", True: "right"}
    for (cycle, _), (level, _) in zip(points, places, strict=True):
        y = top - 0.06 - level * CAPTION_LEVEL
        page.upright(frame.x(cycle), y, bottom, style.INK, HAIRLINE)
    for (cycle, caption), (level, to_the_left) in zip(points, places, strict=True):
        y, ha = top - 0.06 - level * CAPTION_LEVEL, side[to_the_left]
        x = frame.x(cycle) + (-0.04 if to_the_left else 0.04)
        page.text(x, y, caption, CAPTION, style.MUTED, ha=ha, va="bottom", backed=True)
        page.text(x, y - 0.13, f"{cycle:,}", weight="bold", ha=ha, va="bottom", backed=True)


def draw_phase_names(frame: Frame, top: float, band: Band, places: Sequence[PhasePlace]) -> None:
    """Name the phases inside a band of PE rows, each where it fits its rows and its cycles."""
    line = band_height(band, cells=False) / band.lines
    for place in places:
        room = (min(place.end, frame.axis.stop) - place.begin) * frame.cycle_inches
        tall = place.rows.count * line
        if text_inches(place.name, style.BODY) + 0.15 > room or tall < style.BODY / 72:
            continue
        frame.page.text(
            frame.x((place.begin + place.end) / 2),
            top + (place.row + 0.5) * line,
            place.name,
            ha="center",
            va="middle",
            weight="bold",
            colour=style.TEXT["load"] if place.name == "load" else style.PAPER,
        )


def captions_height(points: Sequence[tuple[int, str]], axis: CycleAxis, width: float) -> float:
    """Return the height in inches that the captions of turning points take."""
    levels = [level for level, _ in caption_places(points, axis, width)]
    return 0.3 + CAPTION_LEVEL * max(levels, default=0)


def caption_places(
    points: Sequence[tuple[int, str]], axis: CycleAxis, width: float
) -> list[tuple[int, bool]]:
    """Return each caption's level, and whether it stands left of its hairline.

    No two captions touch.
    """
    levels: list[list[tuple[float, float]]] = []
    places = []
    for cycle, caption in points:
        extent = max(text_inches(caption, CAPTION), text_inches(f"{cycle:,}", 10)) + 0.14
        x = (cycle - axis.first) * width / (axis.stop - axis.first)
        left = x + extent > width + 0.1
        begin, end = (x - extent, x) if left else (x, x + extent)
        free = (i for i, used in enumerate(levels) if all(b <= begin or a >= end for a, b in used))
        level = next(free, len(levels))
        if level == len(levels):
            levels.append([])
        levels[level].append((begin, end))
        places.append((level, left))
    return places


def draw_cycle_axis(frame: Frame, top: float) -> None:
    """Draw the numbers of the cycles at `top`."""
    axis = frame.axis
    step = tick_step(axis.stop - axis.first, frame.width)
    for cycle in range(-(-axis.first // step) * step, axis.stop, step):
        x = cycle + (0.5 if step == 1 else 0.0)
        frame.page.text(frame.x(x), top, f"{cycle:,}", style.TINY, style.MUTED, ha="center")
    frame.page.text(frame.left - 0.42, top, "cycle", style.SMALL, style.MUTED, ha="right")


def tick_step(cycles: int, width: float) -> int:
    """Return the least of 1, 2, 5, 10, ... cycles between ticks that keeps their numbers apart."""
    room = text_inches(f"{cycles:,}", style.TINY) + 0.16
    steps = (int(digit * 10**power) for power in range(12) for digit in (1, 2, 5))
    return next(step for step in steps if step * width / cycles >= room)
