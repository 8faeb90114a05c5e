"""The picture of the product: how a wave of multiplications crosses the grid, and when.

Above is the grid in chosen cycles, with the result buffer filling beneath it. Below is every cycle:
the activity of each memory partition and PE row, with the turning points numbered. At the foot are
the labels of each unit. `moments`, `bands`, `pe_bands` and `panels` extract the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.report.paper import style
from systolic.report.paper.page import Page
from systolic.report.summary.wording import number
from systolic.report.wavefront.bands import (
    CycleAxis,
    drain_bands,
    is_small,
    results_band,
    vectors_band,
    weights_band,
)
from systolic.report.wavefront.draw_bands import (
    BAND_GAP,
    Frame,
    band_height,
    captions_height,
    draw_band,
    draw_cycle_axis,
    draw_phase_names,
    draw_turning_points,
)
from systolic.report.wavefront.draw_panels import PanelStyle, draw_panels, measure
from systolic.report.wavefront.draw_units import draw_units, units_height
from systolic.report.wavefront.legend import draw_legend
from systolic.report.wavefront.manner import MOST_ELEMENTS, PLAIN, Manner
from systolic.report.wavefront.moments import Moments, moments, phase_places, turning_points, window
from systolic.report.wavefront.painter import Painter
from systolic.report.wavefront.panels import panels
from systolic.report.wavefront.pe_bands import line_band, pe_band
from systolic.report.wavefront.pe_lines import PeLines, line_name
from systolic.report.wavefront.timeline import timeline_page
from systolic.spans import Interval
from systolic.trace.records import Trace

WIDTH, MARGIN, NAMES = 15.0, 0.55, 1.35
HEAD, BETWEEN, FOOT = 1.3, 0.35, 0.55
CELLS_NOTE = (
    "In each PE its weight; where it multiplies, the moving operand at its top left "
    "and the sum it passes down at its bottom right"
)
HEAT_NOTE = "The deeper the colour, the larger the weight (blue, grey) or the sum; pale: still 0"
SHADOW_NOTES = {True: "Blue at the foot of a PE", False: "Blue hatching"}
WINDOW_NOTES = {
    True: "the first tile and the beginning of the next (other cycles can be asked for)",
    False: "those of its only tile (other cycles can be asked for)",
}
"""Why these cycles are shown, of a run with several multiplies and of one with one."""


def plot_wavefront(chip: Chip, trace: Trace, path: str | Path, *, title: str) -> None:
    """Draw the wavefront picture of a run and save it as a PNG.

    Args:
        chip: the hardware.
        trace: a run with grid history. Values are shown where operands were kept; words of the
            kinds psum_write, read and write show which word moved when, and may be missing.
        path: the file, which is replaced once the picture is complete.
        title: headline.

    """
    wavefront_page(chip, trace, title).save(path)


def wavefront_page(
    chip: Chip,
    trace: Trace,
    title: str,
    *,
    page_of: Callable[[float, float], Page] = Page,
    cycles: Interval | None = None,
    manner: Manner = PLAIN,
) -> Page:
    """Return the page of the picture, made by `page_of(width, height)`.

    cycles: that the diagram shows; None for the cycles of the run's first tile. Raises
    SystolicError if values are to be coloured and the run has none, or too many.
    """
    when = moments(chip, trace)
    if when is None:
        return timeline_page(chip, trace, title, page_of=page_of, cycles=cycles)
    require_values(trace, manner)
    axis = CycleAxis.fit(cycles or window(trace, when))
    diagram = Diagram(chip, trace, when, axis, manner)
    shots = panels(chip, trace, when, manner.colouring)
    size = measure(shots, WIDTH - 2 * MARGIN, diagram.cells)
    page = page_of(WIDTH, HEAD + size.height + BETWEEN + diagram.height + FOOT)
    shadows = any((s.waiting & s.state.valid).any() for s in shots)
    why = "" if cycles else WINDOW_NOTES[len(trace.grid.matmuls) > 1]
    _head(page, title, chip, diagram, shadows=shadows, why=why)
    look = PanelStyle(diagram.cells, diagram.painter)
    draw_panels(page, (MARGIN, HEAD), shots, size, look)
    diagram.draw(page, HEAD + size.height + BETWEEN)
    return page


def has_values(trace: Trace) -> bool:
    """Return whether a run kept the operands of its multiplies."""
    return any(one.moving.size for one in trace.grid.matmuls)


def require_whole(trace: Trace) -> None:
    """Raise SystolicError if multiplies are made on tiles of the array, side by side."""
    if trace.grid.has_tiles:
        raise SystolicError(
            "a wavefront shows one multiply after another on the whole array; needed a program "
            "without load_tile and matmul_tile, found tiles (the timeline shows them)"
        )


def require_values(trace: Trace, manner: Manner) -> None:
    """Raise SystolicError if values are to be coloured and the run kept none."""
    if manner.colouring == "value" and not has_values(trace):
        raise SystolicError(
            "values cannot be coloured: the run kept none; needed a run file of at most "
            f"{MOST_ELEMENTS:,} elements"
        )


def _head(page: Page, title: str, chip: Chip, diagram: Diagram, *, shadows: bool, why: str) -> None:
    """Write title, what is shown, and what the colours mean. why: these cycles are shown."""
    page.text(MARGIN, 0.3, title, style.TITLE, weight="bold")
    array, axis, done = chip.pe_array, diagram.axis, diagram.when.done
    text = f"{chip.name}: {array.rows} x {array.cols} PEs, {number(done)} cycles in all"
    if (axis.first, axis.stop) != (0, done):
        text += f"; shown are cycles {number(axis.first)} to {number(axis.stop - 1)}"
        text += f", {why}" if why else ""
    page.text(MARGIN, 0.66, text, colour=style.MUTED)
    page.text(
        MARGIN, 0.88, "; ".join(notes_of(array.cols, diagram, shadows)), style.SMALL, style.MUTED
    )
    draw_legend(page, page.width - MARGIN, diagram.painter)


def notes_of(cols: int, diagram: Diagram, shadows: bool) -> Iterator[str]:
    """Yield what is to be said of the colours and numbers of the grid."""
    is_activity = diagram.painter.colouring == "activity"
    if diagram.cells and cols <= 5:
        yield CELLS_NOTE
    if not diagram.cells and is_activity and has_values(diagram.trace):
        yield HEAT_NOTE
    if shadows and (is_activity or diagram.cells):
        yield f"{SHADOW_NOTES[diagram.cells]}: the next weight waits"


class Diagram:
    """The lower half of the picture: every cycle of a window, band by band, unit by unit."""

    def __init__(
        self, chip: Chip, trace: Trace, when: Moments, axis: CycleAxis, manner: Manner
    ) -> None:
        self.trace, self.axis, self.when = trace, axis, when
        self.cells = is_small(chip, axis)
        self.painter = Painter.of(manner.colouring, trace.grid)
        loads, colouring = trace.grid.loads, manner.colouring
        values = self.cells and bool(loads and loads[0].weights.size)
        lines = PeLines.of(manner.by, chip.pe_array.rows, chip.pe_array.cols)
        self.bands = [
            weights_band(trace, axis, values, colouring),
            vectors_band(trace, axis, values, colouring),
            pe_band(trace, axis, values, lines, colouring)
            if self.cells
            else line_band(trace, axis, lines, colouring),
            results_band(chip, trace, axis, values, colouring),
            *drain_bands(chip, trace, axis, values, colouring),
        ]
        self.width = WIDTH - 2 * MARGIN - NAMES
        points = turning_points(when)
        self.points = [p for p in points if axis.first <= p[0] <= axis.stop]
        self.captions = captions_height(self.points, axis, self.width)

    @property
    def height(self) -> float:
        """Return the height in inches, from the captions to the axis of cycles."""
        bands = sum(band_height(band, self.cells) + BAND_GAP for band in self.bands)
        return self.captions + bands + units_height(self.trace)

    def draw(self, page: Page, top: float) -> None:
        """Draw the lower half on the page, from `top` on."""
        frame = Frame(page, self.axis, MARGIN + NAMES, self.width)
        first = y = top + self.captions
        for band in self.bands:
            draw_band(frame, y, band, self.cells, self.painter)
            y += band_height(band, self.cells) + BAND_GAP
        draw_turning_points(frame, first, y - BAND_GAP / 2, self.points)
        if self.painter.colouring == "activity":
            self._name_phases(frame, first)
        draw_units(frame, y, self.trace)
        draw_cycle_axis(frame, y + units_height(self.trace) + 0.08)

    def _name_phases(self, frame: Frame, y: float) -> None:
        for band in self.bands:
            if band.name == line_name("row"):
                draw_phase_names(frame, y, band, phase_places(self.trace.grid, self.when))
            y += band_height(band, self.cells) + BAND_GAP
