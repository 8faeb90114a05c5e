"""Drawing the small multiples: the grid and the result buffer, as cells or as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from systolic.arrays import Mask
from systolic.report.paper import style
from systolic.report.paper.page import Page
from systolic.report.summary.wording import shorten, value_text
from systolic.report.wavefront.draw_bands import LOAD_MARK, ZEROS
from systolic.report.wavefront.painter import Painter, hex_of, ink_on
from systolic.report.wavefront.panels import Panel

GAP, HEAD, BETWEEN, LARGEST_CELL = 0.28, 0.6, 0.26, 0.56
STRIP_CELLS, STRIP = 1.18, 0.2
"""The state buffer beside the grid: its share of a cell with its gap, or in inches."""
STRIP_GAP = 0.06
OPERANDS_FIT, HATCH, JOINTS = 0.34, 8, 1.6

Corner: TypeAlias = tuple[float, float]
Spot: TypeAlias = tuple[float, float, float]
"""The middle of a PE, and its side."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Sizes in inches of one panel: its width, the state buffer, the grid, the result buffer."""

    width: float
    strip: float
    grid: tuple[float, float]
    results: tuple[float, float]

    @property
    def height(self) -> float:
        """Return the height of head, grid and result buffer."""
        return HEAD + self.grid[1] + BETWEEN + self.results[1]


@dataclass(frozen=True, slots=True)
class PanelStyle:
    """Whether single PEs are drawn, and what colours say."""

    cells: bool
    painter: Painter = field(default_factory=Painter)


def measure(panels: Sequence[Panel], width: float, cells: bool) -> Measures:
    """Return how large the panels are drawn so that all fit side by side into `width` inches."""
    each = (width - GAP * (len(panels) - 1)) / max(len(panels), 6)
    return measure_one(panels[0], each, cells)


def measure_one(
    panel: Panel, each: float, cells: bool, largest_cell: float = LARGEST_CELL
) -> Measures:
    """Return how large a panel is drawn that is `each` inches wide."""
    (R, C), M = panel.state.valid.shape, panel.written.shape[0]
    if cells:
        side = min(each / (C + STRIP_CELLS), largest_cell)
        return Measures(each, STRIP_CELLS * side, (side * C, side * R), (side * C, 0.5 * side * M))
    wide = each - STRIP
    tall = float(np.clip(wide * R / C, 0.5 * wide, 1.5 * wide))
    below = float(np.clip(tall * M / R, 0.1, 0.6 * tall))
    return Measures(each, STRIP, (wide, tall), (wide, below))


def draw_panels(
    page: Page, at: Corner, panels: Sequence[Panel], size: Measures, look: PanelStyle
) -> None:
    """Draw the panels side by side; `at` is the upper left corner of the first."""
    left, top = at
    for place, panel in enumerate(panels):
        x = left + place * (size.width + GAP)
        page.text(x, top, f"cycle {panel.cycle:,}", style.HEADING, weight="bold")
        page.text(x, top + 0.22, panel.caption, style.SMALL, style.MUTED)
        draw_panel(page, (x, top), panel, size, look)


def draw_panel(page: Page, at: Corner, panel: Panel, size: Measures, look: PanelStyle) -> None:
    """Draw a panel without its head: the state buffer, the grid beside it, the results below."""
    left, top = at
    x, below = left + size.strip, top + HEAD + size.grid[1] + BETWEEN
    page.text(left, top + HEAD - 0.15, "state buffer", style.TINY, style.MUTED)
    page.text(x, below - 0.17, "result buffer", style.TINY, style.MUTED)
    if look.cells:
        _state_cells(page, (left, top + HEAD), panel, size, look.painter)
        _grid_cells(page, (x, top + HEAD), panel, size, look.painter)
        _result_cells(page, (x, below), panel, size, look.painter)
    else:
        _state_heat(page, (left, top + HEAD), panel, size, look.painter)
        _grid_heat(page, (x, top + HEAD), panel, size, look.painter)
        _result_heat(page, (x, below), panel, size, look.painter)


def _state_cells(page: Page, at: Corner, panel: Panel, size: Measures, painter: Painter) -> None:
    """Draw the partitions that feed the rows, with the words that they give or take."""
    R, C = panel.state.valid.shape
    side = size.grid[0] / C
    x, y = at
    page.boxes([(x, y + r * side, side, side) for r in range(R)], style.FAINT, JOINTS)
    taken: set[int] = set()
    for band in reversed(panel.state_buffer):  # a load beside a vector is a mark at its edge
        for phase, layer in band.layers.items():
            for r in np.flatnonzero(layer[:R, panel.column]).tolist():
                text = band.texts.get(phase, {}).get((r, panel.column), "")
                pale = text in ZEROS
                fill, ink = painter.cell(band, phase, (r, panel.column), is_pale=pale)
                wide = side * (LOAD_MARK if r in taken else 1)
                page.boxes([(x, y + r * side, wide, side)], fill, JOINTS)
                if r not in taken and text:
                    middle = x + side / 2, y + (r + 0.5) * side
                    short = shorten(text, 4)
                    page.text(*middle, short, 20 * side, ink, ha="center", va="middle")
                taken.add(r)


def _state_heat(page: Page, at: Corner, panel: Panel, size: Measures, painter: Painter) -> None:
    R = panel.state.valid.shape[0]
    image = style.paper(R, 1)
    style.lay(image, np.ones((R, 1), bool), style.FAINT)
    for band in panel.state_buffer:
        for phase, layer in band.layers.items():
            shown = layer[:R, panel.column, None] > 0
            style.lay(image[: len(shown)], shown, style.HUE[phase])
            colours = painter.plane(band, phase)
            if colours is not None:
                mine = colours[:R, panel.column, None]
                image[: len(mine)] = np.where(np.isnan(mine), image[: len(mine)], mine)
    page.plane((*at, size.strip - STRIP_GAP, size.grid[1]), image)


def multiplying(panel: Panel) -> tuple[tuple[str, Mask], ...]:
    """Return the phases in which a PE multiplies, and which PEs are in each."""
    return ("stream", panel.stream), ("next", panel.next), ("drain", panel.drain)


def _grid_cells(page: Page, at: Corner, panel: Panel, size: Measures, painter: Painter) -> None:
    R, C = panel.state.valid.shape
    side = size.grid[0] / C
    for r in range(R):
        for c in range(C):
            x, y = at[0] + c * side, at[1] + r * side
            page.boxes([(x, y, side, side)], _grid_fill(panel, (r, c), painter), JOINTS)
            if panel.waiting[r, c] and panel.state.valid[r, c]:
                edge = style.HUE["load"] if panel.load[r, c] else style.MID["load"]
                page.boxes([(x, y + 0.9 * side, side, 0.1 * side)], edge, JOINTS)
    for r, c in np.argwhere(panel.held).tolist() if panel.has_values else ():
        spot = at[0] + (c + 0.5) * side, at[1] + (r + 0.5) * side, side
        _pe_text(page, spot, panel, (r, c), painter)


def _grid_fill(panel: Panel, pe: tuple[int, int], painter: Painter) -> str:
    r, c = pe
    painted = pe_colours(panel, painter)
    if painted is not None and not np.isnan(painted[r, c, 0]):
        return hex_of(painted[r, c])
    for phase, mask in multiplying(panel):
        if mask[r, c]:
            return (style.MID if panel.state.sum[r, c] != 0 else style.TINT)[phase]
    if panel.load[r, c]:
        return style.MID["load"]
    return style.TINT["load"] if panel.waiting[r, c] else style.FAINT


def pe_colours(panel: Panel, painter: Painter) -> npt.NDArray[np.float64] | None:
    """Return the colours [R, C, 3] of vectors or values, NaN where activity is shown instead.

    Values are sums where a PE multiplies, else weights that are new.
    """
    if painter.colouring == "activity":
        return None
    state, new = panel.state, panel.load | panel.waiting
    numbers = painter.number(panel.vector, state.sum)
    numbers = np.where(state.valid, numbers, np.nan)
    painted = painter.paint(numbers, largest_result(panel))
    if painter.colouring == "value":
        weights = np.where(new & ~state.valid, panel.weight, np.nan)
        largest = np.abs(panel.weight[np.isfinite(panel.weight)]).max(initial=0.0)
        weights = painter.paint(weights, float(largest))
        painted = np.where(state.valid[..., None], painted, weights)
    return painted


def _pe_text(page: Page, spot: Spot, panel: Panel, pe: tuple[int, int], painter: Painter) -> None:
    """Write a PE's weight and, if it multiplies, operand (top left) and sum (bottom right)."""
    state, new = panel.state, panel.waiting[pe] and not panel.state.valid[pe]
    weight = panel.weight[pe] if new else state.weight[pe]
    x, y, side = spot
    colour = style.TEXT["load"] if new else style.INK if state.valid[pe] else style.MUTED
    ink = style.TEXT["drain" if panel.drain[pe] else "stream"]
    if painter.colouring == "value" or (state.valid[pe] and painter.colouring == "vector"):
        colour = ink = ink_on(_grid_fill(panel, pe, painter))
    page.text(x, y, value_text(weight, 4), 20 * side, colour, ha="center", va="middle")
    if state.valid[pe] and side >= OPERANDS_FIT:
        moving, total = value_text(state.moving[pe], 3), value_text(state.sum[pe], 4)
        size, out = 12.5 * side, 0.45 * side
        low = (0.26 if panel.waiting[pe] else 0.33) * side  # above the mark of a waiting weight
        page.text(x - out, y - 0.28 * side, moving, size, ink, va="middle")
        page.text(x + out, y + low, total, size, ink, ha="right", va="middle", weight="bold")


def _result_cells(page: Page, at: Corner, panel: Panel, size: Measures, painter: Painter) -> None:
    M, N = panel.written.shape
    width, height = size.grid[0] / panel.state.valid.shape[1], size.results[1] / M
    for m in range(M):
        for c in range(N):
            x, y = at[0] + c * width, at[1] + m * height
            fill = _result_fill(panel, (m, c), painter)
            page.boxes([(x, y, width, height)], fill, JOINTS)
            if panel.has_values and panel.written[m, c]:
                middle = x + width / 2, y + height / 2
                text = value_text(panel.results[m, c], 4)
                page.text(*middle, text, 17 * width, ink_on(fill), ha="center", va="middle")


def _result_fill(panel: Panel, at: tuple[int, int], painter: Painter) -> str:
    if panel.written[at] and painter.colouring != "activity":
        number = painter.number(np.array(at[0]), panel.results[at])
        return hex_of(painter.paint(number, largest_result(panel)))
    if panel.drained[at]:
        return style.MID["drain"]
    if panel.written[at]:
        return (style.MID if panel.fresh[at] else style.TINT)["stream"]
    return style.FAINT


def largest_result(panel: Panel) -> float:
    """Return the largest finite magnitude of the results, whose colour is the deepest."""
    finite = panel.results[np.isfinite(panel.results)]
    return float(np.abs(finite).max(initial=0.0))


def _grid_heat(page: Page, at: Corner, panel: Panel, size: Measures, painter: Painter) -> None:
    """Draw each PE's state as a hue, deeper for a larger weight or, while multiplying, sum."""
    state = panel.state
    weight = panel.weight
    image = style.paper(*state.valid.shape)
    style.lay(image, np.ones(state.valid.shape, bool), style.FAINT)
    style.lay(image, panel.held, style.HAIR, 0.2 + 0.6 * strength(weight))
    style.lay(image, panel.waiting, style.HUE["load"], 0.25 + 0.5 * strength(weight))
    sums = 0.3 + 0.7 * strength(state.sum)
    for phase, mask in multiplying(panel):
        style.lay(image, mask, style.TINT[phase])
        style.lay(image, mask & (state.sum != 0), style.HUE[phase], sums)
    hatch = np.add.outer(np.arange(len(image)), np.arange(image.shape[1])) % HATCH == 0
    style.lay(image, panel.waiting & state.valid & hatch, style.HUE["load"], 0.8)
    painted = pe_colours(panel, painter)
    if painted is not None:
        image[...] = np.where(np.isnan(painted), image, painted)
    page.plane((*at, *size.grid), image)


def _result_heat(page: Page, at: Corner, panel: Panel, size: Measures, painter: Painter) -> None:
    M, N = panel.written.shape
    image = style.paper(M, panel.state.valid.shape[1])
    style.lay(image, np.ones(image.shape[:2], bool), style.FAINT)
    used = image[:, :N]
    strong = 0.3 + 0.7 * strength(panel.results) if panel.results.any() else 0.7
    for phase, mask in (("stream", panel.written & ~panel.drained), ("drain", panel.drained)):
        style.lay(used, mask, style.TINT[phase])
        style.lay(used, mask, style.HUE[phase], strong)
    if painter.colouring != "activity":
        rows = np.broadcast_to(np.arange(M)[:, None], (M, N))
        colours = painter.paint(painter.number(rows, panel.results), largest_result(panel))
        used[...] = np.where(panel.written[..., None], colours, used)
    page.plane((*at, *size.results), image)


def strength(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return magnitudes as 0 to 1 of the largest finite one; NaN and infinities count as 1."""
    size = np.abs(values.astype(np.float64))
    finite = np.isfinite(size)
    largest = size[finite].max(initial=0.0)
    return np.where(finite, np.where(finite, size, 0) / (largest or 1.0), 1.0)
