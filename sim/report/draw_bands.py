"""Draws the space-time diagram: bands one below the other on a common axis of cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from sim.report import style
from sim.report.bands import PHASES, Axis, Band, Phase
from sim.report.pe_bands import ROWS
from sim.report.style import text_inches

Box: TypeAlias = tuple[float, float, float, float]

LINE, JOINT, LEAST_BAND, BAND_GAP, CAPTION_LEVEL = 0.17, 0.05, 0.28, 0.17, 0.34
CAPTION = style.SMALL - 0.5


@dataclass(frozen=True, slots=True)
class Frame:
    """Axes whose x counts cycles and whose y counts inches downwards, `width` inches wide."""

    axes: Axes
    axis: Axis
    width: float

    @property
    def cycle_inches(self) -> float:
        """Return the width of a cycle."""
        return self.width / (self.axis.stop - self.axis.first)

    def left_of(self, inches: float) -> float:
        """Return the x that lies so many inches left of the first cycle."""
        return self.axis.first - inches / self.cycle_inches


def band_height(band: Band, cells: bool) -> float:
    """Return the height of a band in inches."""
    if cells:
        joints = (band.lines // band.group - 1) * (band.group > 1)
        return max(LINE * band.lines + JOINT * joints, LEAST_BAND)
    if band.name == ROWS:
        return float(np.clip(band.lines * 0.018, 0.6, 2.4))
    return float(np.clip(band.lines * 0.01, 0.3, 0.5))


def draw_band(frame: Frame, top: float, band: Band, cells: bool) -> float:
    """Draw a band and its labels from `top` on; return its height."""
    height = band_height(band, cells)
    name: dict[str, Any] = {"va": "top", "ha": "right"}
    x = frame.left_of(0.42)
    frame.axes.text(x, top, band.name, fontsize=style.SMALL, color=style.INK, **name)
    frame.axes.text(x, top + 0.14, band.place, fontsize=style.TINY, color=style.MUTED, **name)
    if cells:
        _draw_cells(frame, top, band)
    else:
        _draw_heat(frame, top, height, band)
    return height


def line_tops(band: Band) -> npt.NDArray[np.float64]:
    """Return where each line of a band of cells begins, in inches."""
    lines = np.arange(band.lines)
    return np.asarray(lines * LINE + (lines // band.group) * JOINT * (band.group > 1))


def _draw_cells(frame: Frame, top: float, band: Band) -> None:
    tops = top + line_tops(band)
    axis = frame.axis
    _boxes(frame, [(axis.first, y, axis.stop - axis.first, LINE) for y in tops], style.FAINT)
    streaming = _busy(band, "stream") | _busy(band, "next") | _busy(band, "drain")
    for phase in ("stream", "next", "drain", "load"):
        strong: list[Box] = []
        pale: list[Box] = []
        for line, column in np.argwhere(_busy(band, phase)):
            x, y = axis.first + column, tops[line]
            if phase == "load" and streaming[line, column]:
                strong.append((x, y, 0.09, LINE))
                continue
            text = band.texts.get(phase, {}).get((line, column), "")
            (pale if text in ("0", "-0") else strong).append((x, y, 1, LINE))
            _value(frame, x + 0.5, y + LINE / 2, text, phase)
        _boxes(frame, strong, style.MID[phase])
        _boxes(frame, pale, style.TINT[phase])
    _line_names(frame, tops, band)


def _busy(band: Band, phase: Phase) -> npt.NDArray[np.bool_]:
    layer = band.layers.get(phase)
    if layer is None:
        return np.zeros((band.lines, band.axis.columns), bool)
    return layer > 0


def _value(frame: Frame, x: float, y: float, text: str, phase: Phase) -> None:
    if not text or text_inches(text, style.TINY) > frame.cycle_inches:
        return
    faint = text in ("0", "-0")
    frame.axes.text(
        x, y + 0.005, text, ha="center", va="center_baseline", fontsize=style.TINY + 0.5,
        color=style.TEXT[phase], alpha=0.45 if faint else 1.0,
    )  # fmt: skip


def _boxes(frame: Frame, boxes: Sequence[Box], fill: str) -> None:
    """Draw (x, y, width, height) boxes with white joints."""
    corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in boxes]
    frame.axes.add_collection(
        PolyCollection(corners, facecolors=fill, edgecolors="white", linewidths=0.8),
        autolim=False,
    )


def _line_names(frame: Frame, tops: npt.NDArray[np.float64], band: Band) -> None:
    name: dict[str, Any] = {"va": "center_baseline", "ha": "right", "color": style.MUTED}
    for line, y in enumerate(tops):
        text = str(line % band.group if band.group > 1 else line)
        frame.axes.text(frame.left_of(0.06), y + LINE / 2, text, fontsize=style.TINY - 0.5, **name)
    if band.group > 1:
        for row in range(0, band.lines // band.group):
            middle = tops[row * band.group : (row + 1) * band.group].mean() + LINE / 2
            text = f"row {row}"
            frame.axes.text(frame.left_of(0.2), middle, text, fontsize=style.TINY, **name)


def _draw_heat(frame: Frame, top: float, height: float, band: Band) -> None:
    image = style.paper(band.lines, band.axis.columns)
    style.lay(image, np.ones(image.shape[:2], bool), style.FAINT)
    for phase in PHASES:
        if _busy(band, phase).any():
            style.lay(image, _busy(band, phase), style.HUE[phase], _opacity(band, phase))
    axis = frame.axis
    right = axis.first + axis.columns * axis.step
    frame.axes.imshow(
        image, extent=(axis.first, right, top + height, top), aspect="auto",
        interpolation="nearest", interpolation_stage="rgba",
    )  # fmt: skip
    for line, y, va in ((0, top, "top"), (band.lines - 1, top + height, "bottom")):
        if line or not y > top:
            frame.axes.text(
                frame.left_of(0.06), y, str(line), fontsize=style.TINY - 0.5, va=va, ha="right",
                color=style.MUTED,
            )  # fmt: skip


def _opacity(band: Band, phase: Phase) -> npt.NDArray[np.float64]:
    """Vectors cover what loads leave, in step with how many there are; a few must still show."""
    if phase == "load":
        return 0.5 * band.layers[phase]
    vectors = [layer for name, layer in band.layers.items() if name != "load"]
    most = max(float(layer.max(initial=0.0)) for layer in vectors)
    return np.asarray(np.sqrt(band.layers[phase] / (most or 1.0)))


def draw_turning_points(
    frame: Frame, top: float, bottom: float, points: Sequence[tuple[int, str]]
) -> None:
    """Draw a hairline through all bands at each cycle, its number and caption above `top`."""
    places = caption_places(points, frame.axis, frame.width)
    for (cycle, caption), (level, to_the_left) in zip(points, places, strict=True):
        y = top - 0.06 - level * CAPTION_LEVEL
        frame.axes.plot([cycle, cycle], [y, bottom], color=style.INK, lw=0.6, alpha=0.5)
        x = cycle + (-0.04 if to_the_left else 0.04) / frame.cycle_inches
        common: dict[str, Any] = {
            "ha": "right" if to_the_left else "left", "va": "bottom", "zorder": 5,
            "bbox": {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.6},
        }  # fmt: skip
        frame.axes.text(x, y, caption, fontsize=CAPTION, color=style.MUTED, **common)
        common |= {"fontsize": style.BODY, "weight": "bold", "color": style.INK}
        frame.axes.text(x, y - 0.13, f"{cycle:,}", **common)


def draw_phase_names(
    frame: Frame, top: float, band: Band, places: Sequence[tuple[str, float, float]]
) -> None:
    """Name the phases inside a band, at half its height, each where it fits its extent."""
    for name, first, stop in places:
        room = (min(stop, frame.axis.stop) - first) * frame.cycle_inches
        if text_inches(name, style.BODY) + 0.15 <= room:
            frame.axes.text(
                (first + stop) / 2, top + band_height(band, cells=False) / 2, name,
                fontsize=style.BODY, weight="bold", ha="center", va="center_baseline",
                color=style.TEXT["load"] if name == "load" else style.PAPER,
            )  # fmt: skip


def captions_height(points: Sequence[tuple[int, str]], axis: Axis, width: float) -> float:
    """Return the height in inches that the captions of turning points take."""
    levels = [level for level, _ in caption_places(points, axis, width)]
    return 0.3 + CAPTION_LEVEL * max(levels, default=0)


def caption_places(
    points: Sequence[tuple[int, str]], axis: Axis, width: float
) -> list[tuple[int, bool]]:
    """Return each caption's level, and whether it stands left of its hairline; none touch."""
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
        frame.axes.text(
            x, top, f"{cycle:,}", fontsize=style.TINY, ha="center", va="top", color=style.MUTED
        )
    frame.axes.text(
        frame.left_of(0.42), top, "cycle", fontsize=style.SMALL, ha="right", va="top",
        color=style.MUTED,
    )  # fmt: skip


def tick_step(cycles: int, width: float) -> int:
    """Return the least round distance (1, 2, 5, 10, ...) at which the ticks' numbers stay apart."""
    room = text_inches(f"{cycles:,}", style.TINY) + 0.16
    steps = (int(digit * 10**power) for power in range(12) for digit in (1, 2, 5))
    return next(step for step in steps if step * width / cycles >= room)
