"""Drawing the small multiples: the grid and the result buffer, as cells or as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from systolic.arrays import Mask
from systolic.report.paper import style
from systolic.report.paper.page import Page
from systolic.report.summary.wording import value_text
from systolic.report.wavefront.panels import Panel

GAP, HEAD, BETWEEN, LARGEST_CELL = 0.34, 0.52, 0.26, 0.56
OPERANDS_FIT, HATCH, JOINTS = 0.34, 8, 1.6

Corner: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Measures:
    """Sizes in inches of one panel: its width, the grid, the result buffer."""

    width: float
    grid: tuple[float, float]
    results: tuple[float, float]

    @property
    def height(self) -> float:
        """Return the height of head, grid and result buffer."""
        return HEAD + self.grid[1] + BETWEEN + self.results[1]


def measure(panels: Sequence[Panel], width: float, cells: bool) -> Measures:
    """Return how large the panels are drawn so that all fit side by side into `width` inches."""
    one = panels[0]
    (R, C), M = one.state.valid.shape, one.written.shape[0]
    each = (width - GAP * (len(panels) - 1)) / max(len(panels), 6)
    if cells:
        side = min(each / C, LARGEST_CELL)
        return Measures(each, (side * C, side * R), (side * C, 0.5 * side * M))
    tall = float(np.clip(each * R / C, 0.5 * each, 1.5 * each))
    return Measures(each, (each, tall), (each, float(np.clip(tall * M / R, 0.1, 0.6 * tall))))


def draw_panels(
    page: Page, at: Corner, panels: Sequence[Panel], size: Measures, *, cells: bool
) -> None:
    """Draw the panels side by side; `at` is the upper left corner of the first."""
    left, top = at
    for place, panel in enumerate(panels):
        x = left + place * (size.width + GAP)
        page.text(x, top, f"cycle {panel.cycle:,}", style.HEADING, weight="bold")
        page.text(x, top + 0.22, panel.caption, style.SMALL, style.MUTED)
        below = top + HEAD + size.grid[1] + BETWEEN
        page.text(x, below - 0.17, "result buffer", style.TINY, style.MUTED)
        (_grid_cells if cells else _grid_heat)(page, (x, top + HEAD), panel, size)
        (_result_cells if cells else _result_heat)(page, (x, below), panel, size)


def multiplying(panel: Panel) -> tuple[tuple[str, Mask], ...]:
    """Return the phases in which a PE multiplies, and which PEs are in each."""
    return ("stream", panel.stream), ("next", panel.next), ("drain", panel.drain)


def _grid_cells(page: Page, at: Corner, panel: Panel, size: Measures) -> None:
    R, C = panel.state.valid.shape
    side, values = size.grid[0] / C, panel.results.any()
    for r in range(R):
        for c in range(C):
            x, y = at[0] + c * side, at[1] + r * side
            page.boxes([(x, y, side, side)], _grid_fill(panel, r, c), JOINTS)
            if panel.waiting[r, c] and panel.state.valid[r, c]:
                edge = style.HUE["load"] if panel.load[r, c] else style.MID["load"]
                page.boxes([(x, y + 0.9 * side, side, 0.1 * side)], edge, JOINTS)
    for r, c in np.argwhere(panel.held).tolist() if values else ():
        middle = at[0] + (c + 0.5) * side, at[1] + (r + 0.5) * side
        _pe_text(page, middle, panel, (r, c), side)


def _grid_fill(panel: Panel, r: int, c: int) -> str:
    for phase, mask in multiplying(panel):
        if mask[r, c]:
            return (style.MID if panel.state.sum[r, c] != 0 else style.TINT)[phase]
    if panel.load[r, c]:
        return style.MID["load"]
    return style.TINT["load"] if panel.waiting[r, c] else style.FAINT


def _pe_text(page: Page, middle: Corner, panel: Panel, pe: tuple[int, int], side: float) -> None:
    """Write a PE's weight and, if it multiplies, operand (top left) and sum (bottom right)."""
    r, c = pe
    state, new = panel.state, panel.waiting[r, c] and not panel.state.valid[r, c]
    weight = state.shadow[r, c] if new and panel.double else state.weight[r, c]
    x, y = middle
    colour = style.TEXT["load"] if new else style.INK if state.valid[r, c] else style.MUTED
    page.text(x, y, value_text(weight, 4), 20 * side, colour, ha="center", va="middle")
    if state.valid[r, c] and side >= OPERANDS_FIT:
        ink = style.TEXT["drain" if panel.drain[r, c] else "stream"]
        moving, total = value_text(state.moving[r, c], 3), value_text(state.sum[r, c], 4)
        size, out = 12.5 * side, 0.45 * side
        page.text(x - out, y - 0.28 * side, moving, size, ink, va="middle")
        page.text(
            x + out, y + 0.33 * side, total, size, ink, ha="right", va="middle", weight="bold"
        )


def _result_cells(page: Page, at: Corner, panel: Panel, size: Measures) -> None:
    M, N = panel.written.shape
    width, height = size.grid[0] / panel.state.valid.shape[1], size.results[1] / M
    for m in range(M):
        for c in range(N):
            x, y = at[0] + c * width, at[1] + m * height
            page.boxes([(x, y, width, height)], _result_fill(panel, m, c), JOINTS)
    for m, c in np.argwhere(panel.written).tolist() if panel.results.size else ():
        x, y = at[0] + (c + 0.5) * width, at[1] + (m + 0.5) * height
        text = value_text(panel.results[m, c], 4)
        page.text(x, y, text, 17 * width, ha="center", va="middle")


def _result_fill(panel: Panel, m: int, c: int) -> str:
    if panel.drained[m, c]:
        return style.MID["drain"]
    if panel.written[m, c]:
        return (style.MID if panel.fresh[m, c] else style.TINT)["stream"]
    return style.FAINT


def _grid_heat(page: Page, at: Corner, panel: Panel, size: Measures) -> None:
    """Draw each PE's state as a hue, deeper for a larger weight or, while multiplying, sum."""
    state = panel.state
    weight = np.where(panel.waiting & panel.double, state.shadow, state.weight)
    image = style.paper(*state.valid.shape)
    style.lay(image, np.ones(state.valid.shape, bool), style.FAINT)
    style.lay(image, panel.held, style.HAIR, 0.2 + 0.6 * strength(weight))
    style.lay(image, panel.waiting, style.HUE["load"], 0.25 + 0.5 * strength(weight))
    sums = 0.3 + 0.7 * strength(state.sum)
    for phase, mask in multiplying(panel):
        style.lay(image, mask, style.TINT[phase])
        style.lay(image, mask & (state.sum != 0), style.HUE[phase], sums)
    hatch = np.add.outer(np.arange(len(image)), np.arange(image.shape[1])) % HATCH == 0
    style.lay(image, panel.waiting & state.valid & hatch, style.HUE["load"], 0.35)
    page.plane((*at, *size.grid), image)


def _result_heat(page: Page, at: Corner, panel: Panel, size: Measures) -> None:
    M, N = panel.written.shape
    image = style.paper(M, panel.state.valid.shape[1])
    style.lay(image, np.ones(image.shape[:2], bool), style.FAINT)
    used = image[:, :N]
    strong = 0.3 + 0.7 * strength(panel.results) if panel.results.any() else 0.7
    for phase, mask in (("stream", panel.written & ~panel.drained), ("drain", panel.drained)):
        style.lay(used, mask, style.TINT[phase])
        style.lay(used, mask, style.HUE[phase], strong)
    page.plane((*at, *size.results), image)


def strength(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return magnitudes as 0 to 1 of the largest finite one; NaN and infinities count as 1."""
    size = np.abs(values.astype(np.float64))
    finite = np.isfinite(size)
    largest = size[finite].max(initial=0.0)
    return np.where(finite, np.where(finite, size, 0) / (largest or 1.0), 1.0)
