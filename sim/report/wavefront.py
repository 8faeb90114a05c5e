"""The picture of the product: how a wave of multiplications crosses the grid, and when.

Above, the grid in chosen cycles with the result buffer filling beneath it; below, every cycle: what
each memory partition and PE row did, with the turning points numbered; at the foot, what each unit
says it did. All that is drawn is extracted by `moments`, `bands`, `pe_bands` and `panels`.
"""

from __future__ import annotations

from pathlib import Path

from sim.hw.spec import Chip
from sim.report import style
from sim.report.bands import Axis, Band, drain_bands, is_small, reads_band, results_band
from sim.report.draw_bands import (
    BAND_GAP,
    Frame,
    band_height,
    draw_band,
    draw_cycle_axis,
    draw_turning_points,
)
from sim.report.draw_panels import draw_panels, measure
from sim.report.draw_units import draw_units, units_height
from sim.report.moments import Moments, moments, turning_points, window
from sim.report.panels import panels
from sim.report.pe_bands import pe_band, row_band
from sim.report.style import Page
from sim.report.timeline import plot_timeline
from sim.report.wording import number
from sim.trace.record import Trace

WIDTH, MARGIN, NAMES = 14.0, 0.55, 1.35
TITLE_HEIGHT, CAPTIONS_HEIGHT, AXIS_HEIGHT = 1.0, 1.0, 0.3


def plot_wavefront(chip: Chip, trace: Trace, path: str | Path, *, title: str) -> None:
    """Draw the wavefront picture of a run and save it as a PNG.

    Args:
        chip: the hardware.
        trace: a run with grid history. Values are shown where operands were kept; words of the
            kinds psum_write, read and write show which word moved when, and may be missing.
        path: the file; replaced at once when the picture is complete.
        title: headline.

    """
    when = moments(chip, trace)
    if when is None:
        plot_timeline(chip, trace, path, title=title)
        return
    axis = Axis.fit(*window(trace, when))
    cells = is_small(chip, axis)
    shots = panels(chip, trace, when)
    size = measure(shots, WIDTH - 2 * MARGIN, cells)
    stack = _bands(chip, trace, axis, cells)
    heights = [band_height(band, cells) + BAND_GAP for band in stack]
    below = CAPTIONS_HEIGHT + sum(heights) + units_height(trace) + AXIS_HEIGHT
    page = Page(WIDTH, TITLE_HEIGHT + size.height + below + 0.35)
    _head(page, chip, trace, axis, title)
    draw_panels(page, MARGIN, TITLE_HEIGHT, shots, size, cells)
    _spacetime(page, TITLE_HEIGHT + size.height, stack, trace, axis, cells, when)
    page.save(path)


def _bands(chip: Chip, trace: Trace, axis: Axis, cells: bool) -> list[Band]:
    values = cells and bool(trace.grid.loads and trace.grid.loads[0].weights.size)
    grid = pe_band(trace, axis, values) if cells else row_band(trace, axis)
    results = results_band(chip, trace, axis, values)
    return [
        reads_band(trace, axis, values), grid, results, *drain_bands(chip, trace, axis, values)
    ]  # fmt: skip


def _head(page: Page, chip: Chip, trace: Trace, axis: Axis, title: str) -> None:
    page.text(MARGIN, 0.3, title, fontsize=style.TITLE, weight="bold")
    array = chip.pe_array
    text = f"{chip.name}: {array.rows} x {array.cols} PEs, {number(trace.cycles())} cycles in all"
    if (axis.first, axis.stop) != (0, trace.cycles()):
        text += f"; shown are cycles {number(axis.first)} to {number(axis.stop - 1)}"
    page.text(MARGIN, 0.64, text, color=style.MUTED)
    x = page.width - MARGIN
    for phase in ("drain", "stream", "load"):
        x -= style.text_inches(phase, style.HEADING) + 0.1
        page.text(x, 0.36, phase, fontsize=style.HEADING, weight="bold", color=style.HUE[phase])
        x -= 0.2


def _spacetime(
    page: Page, top: float, stack: list[Band], trace: Trace, axis: Axis, cells: bool, when: Moments
) -> None:
    width = WIDTH - 2 * MARGIN - NAMES
    height = page.height - top
    axes = page.axes(MARGIN + NAMES, top, width, height)
    axes.set_xlim(axis.first, axis.stop)
    axes.set_ylim(height, 0)
    axes.set_autoscale_on(False)
    frame = Frame(axes, axis, width)
    y = CAPTIONS_HEIGHT
    for band in stack:
        y += draw_band(frame, y, band, cells) + BAND_GAP
    draw_turning_points(frame, CAPTIONS_HEIGHT, y - BAND_GAP / 2, turning_points(when))
    draw_units(frame, y, trace)
    draw_cycle_axis(frame, y + units_height(trace) + 0.08)
    axes.set_xlim(axis.first, axis.stop)
    axes.set_ylim(height, 0)
