"""Is every stretch seen in a picture, however thin it is there?"""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from systolic.report.plots.look import Look
from systolic.report.plots.marks import area, stacked
from systolic.report.plots.sheet import Sheet
from systolic.report.plots.stretches import Stretches, coverage
from systolic.spans import Interval

COLOURS = {"wide": "#0000ff", "thin": "#ff0000"}
BLUE, RED = (0, 0, 255), (255, 0, 0)


def drawn(kinds: dict[str, Stretches], window: Interval, colours: dict[str, str]) -> np.ndarray:
    """Return the pixels [height, width, 3] of a sheet with one lane."""
    sheet = Sheet(Look("lane"), 2.0, "")
    axes = sheet.axes(1.0, 0.5)
    axes.set(xlim=(window.first, window.stop), ylim=(1, 0))
    stacked(axes, coverage(kinds, window, 1000), 1, (1, 0), colours)
    canvas = FigureCanvasAgg(sheet.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


@pytest.mark.parametrize("order", [("wide", "thin"), ("thin", "wide")])
@pytest.mark.parametrize("cycles", [5000, 10_000_000])
def test_a_cycle_between_long_stretches_is_seen(order: tuple[str, str], cycles: int) -> None:
    """Beside stretches drawn before it and after it, wherever it falls between two pixels."""
    window, places = Interval(0, cycles), [cycles // 20 * n + 7 * n for n in range(1, 20)]
    ends = [0, *(place + 1 for place in places), cycles]
    wide = list(zip(ends, [*places, cycles], strict=False))
    kinds = {
        "wide": Stretches.of(wide),
        "thin": Stretches.of([(place, place + 1) for place in places]),
    }
    pixels = drawn({kind: kinds[kind] for kind in order}, window, {k: COLOURS[k] for k in order})
    row = (pixels == RED).all(axis=2).any(axis=0)
    begins = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int)])) == 1)
    assert len(begins) == len(places)
    lane = (pixels == BLUE).all(axis=2).any(axis=0) | row
    at = (begins - np.flatnonzero(lane)[0]) / lane.sum() * cycles
    np.testing.assert_allclose(at, places, atol=2 * cycles / lane.sum())


def test_columns_side_by_side_are_one_shape() -> None:
    """Else a vector file shows seams between them; and what is empty is no shape, not even flat."""
    axes = Sheet(Look("lane"), 2.0, "").axes(1.0, 0.5)
    high = np.array([0.0, 2.0, 3.0, 1e-16, 0.0, 1.0])
    area(axes, np.arange(7.0), np.zeros(6), high, "#ff0000")
    (found,) = axes.collections
    corners = [path.vertices.tolist() for path in found.get_paths()]
    assert corners == [
        [[1, 2], [2, 2], [2, 3], [3, 3], [3, 0], [2, 0], [2, 0], [1, 0], [1, 2]],
        [[5, 1], [6, 1], [6, 0], [5, 0], [5, 1]],
    ]
