"""Drawing the timeline strip: the activity of each unit in every cycle, by the run's labels."""

from __future__ import annotations

from collections.abc import Sequence

from systolic.report.paper import style
from systolic.report.paper.dark import letters_on
from systolic.report.paper.lettering import text_inches
from systolic.report.paper.page import Page, PageBox
from systolic.report.wavefront.draw_bands import JOINTS, Frame
from systolic.trace.labels import LabelInterval
from systolic.trace.records import Trace

UNIT_LINE, UNIT_GAP = 0.2, 0.05
MOST_JOINTS = 200
DMA_HUE, DMA_TINT, DMA_TEXT = "#cc79a7", "#f0dbe6", "#6b2f50"
WAITING_TEXT = "#4b545e"


def busy_units(trace: Trace) -> tuple[list[str], list[str]]:
    """Return the units that did anything, and those that were idle throughout."""
    busy = [u for u, found in trace.labels.items() if any(one.label != "idle" for one in found)]
    return busy, [u for u in trace.labels if u not in busy]


def units_height(trace: Trace) -> float:
    """Return the height of the strip in inches."""
    busy, idle = busy_units(trace)
    return (len(busy) + bool(idle)) * (UNIT_LINE + UNIT_GAP)


def colours(unit: str, label: str, *, is_dark: bool = False) -> tuple[str, str]:
    """Return fill and text colour of a label; a phase of the work has the same hue everywhere."""
    if label.startswith("stalled"):
        return style.STALLED, letters_on(style.STALLED, is_dark=is_dark)
    if label.startswith("waiting"):
        return style.WAITING, WAITING_TEXT
    if unit.startswith("dma"):
        if label == "streaming":
            return DMA_HUE, letters_on(DMA_HUE, is_dark=is_dark)
        return DMA_TINT, DMA_TEXT
    phase = {"loading": "load", "draining": "drain"}.get(label, "stream")
    if unit != "pe_array":
        phase = "drain"
    if label in ("loading", "streaming"):
        return style.MID[phase], letters_on(style.MID[phase], is_dark=is_dark)
    return style.TINT[phase], style.TEXT[phase]


MEANINGS = {
    style.MID["load"]: "weights load",
    style.MID["stream"]: "vectors stream",
    style.MID["drain"]: "an engine works",
    DMA_HUE: "a queue moves bytes",
    style.WAITING: "waiting",
    style.STALLED: "a port refused",
}
"""What the full colours of labels mean, in the order in which a legend names them."""
PALE = "pale: filling, draining"
SWATCH, SWATCH_GAP, WORDS_GAP = 0.14, 0.07, 0.26


def draw_units_legend(page: Page, left: float, top: float, trace: Trace) -> None:
    """Draw in a line what the colours of a run's labels mean: of those that there are."""
    shown = {
        colours(unit, each.label)[0]
        for unit, found in trace.labels.items()
        for each in found
        if each.label != "idle"
    }
    for colour, words in MEANINGS.items():
        if colour in shown:
            page.boxes([(left, top, SWATCH, SWATCH)], colour)
            left = _legend_words(page, left + SWATCH + SWATCH_GAP, top, words)
    if shown - MEANINGS.keys():
        _legend_words(page, left, top, PALE)


def _legend_words(page: Page, left: float, top: float, words: str) -> float:
    """Write words of a legend; return where the next one begins."""
    page.text(left, top + SWATCH / 2, words, style.SMALL, style.MUTED, va="middle")
    return left + text_inches(words, style.SMALL) + WORDS_GAP


def draw_units(frame: Frame, top: float, trace: Trace) -> None:
    """Draw one line per unit that did anything, and name the others."""
    busy, idle = busy_units(trace)
    for place, unit in enumerate(busy):
        y = top + place * (UNIT_LINE + UNIT_GAP)
        _unit_name(frame, y, unit)
        scale = trace.periods[unit] / trace.periods["pe_array"]
        _labels(frame, y, unit, trace.labels[unit], scale)
    if idle:
        y = top + len(busy) * (UNIT_LINE + UNIT_GAP)
        _unit_name(frame, y, "idle", style.MUTED)
        text, size = name_list(idle), style.SMALL - 0.5
        frame.page.text(frame.left, y + UNIT_LINE / 2, text, size, style.MUTED, va="middle")


def name_list(units: Sequence[str]) -> str:
    """Return names for a line of text; many queues are counted instead of listed."""
    queues = [u for u in units if u.startswith("dma")]
    if len(queues) > 4:
        units = [u for u in units if u not in queues] + [f"{len(queues)} DMA queues"]
    return ", ".join(units)


def _unit_name(frame: Frame, y: float, name: str, colour: str = style.INK) -> None:
    x, middle = frame.left - 0.42, y + UNIT_LINE / 2
    frame.page.text(x, middle, name, style.SMALL, colour, ha="right", va="middle")


def _labels(
    frame: Frame, y: float, unit: str, labels: Sequence[LabelInterval], scale: float
) -> None:
    axis, page = frame.axis, frame.page
    shown: list[tuple[PageBox, str]] = []
    for found in labels:
        a, b = max(found.first * scale, axis.first), min(found.stop * scale, axis.stop)
        if a < b and found.label != "idle":
            shown.append((frame.box(a, b, y, UNIT_LINE), found.label))
    joint = JOINTS if len(shown) < MOST_JOINTS else 0.0
    for box, label in shown:
        page.boxes([box], colours(unit, label)[0], joint)
    for (left, top, width, height), label in shown:
        if text_inches(label, style.SMALL) + 0.08 <= width:
            page.text(
                left + width / 2,
                top + height / 2,
                label,
                style.SMALL - 0.5,
                colours(unit, label, is_dark=page.is_dark)[1],
                ha="center",
                va="middle",
            )
