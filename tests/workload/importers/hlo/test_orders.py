"""Is the value right? HLO's topk of integers, and its sorts, which `top_k` does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import systolic
from support.command_line import refused

TEXT = """HloModule first
ENTRY main {
  x = s32[3,9] parameter(0)
  ROOT y = (s32[3,4], s32[3,4]) topk(x), k=4, largest=true
}
"""


def test_topk_of_integers(tmp_path: Path) -> None:
    path = tmp_path / "first.hlo"
    path.write_text(TEXT, encoding="utf-8")
    x = np.random.default_rng(1).integers(-5, 6, (3, 9)).astype(np.int32)
    values, places = systolic.run(path, "ideal_4x4", [x]).outputs.values()
    order = np.argsort(-x, axis=1, kind="stable")[:, :4]
    assert np.array_equal(places, order)
    assert np.array_equal(values, np.take_along_axis(x, order, 1))


SORT = """HloModule sorted

order {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT before = pred[] COMPARE
}

ENTRY main {
  x = f32[3,9] parameter(0)
  line = s32[3,9] iota(), iota_dimension=1
  ROOT y = (f32[3,9], s32[3,9]) sort(x, line), dimensions={1}, is_stable=true, to_apply=order
}
"""
UP, DOWN = ("compare(a, b), direction=LT, type=TOTALORDER", "compare(a, b), direction=GT")
NUMBERS = [3, -1, 3, 0, 4, -1, 2, -7, 3], [1.5] * 9, [9, 8, 7, 6, 5, 4, 3, 2, 1]


def sort_file(folder: Path, compare: str) -> Path:
    path = folder / "sorted.hlo"
    path.write_text(SORT.replace("COMPARE", compare), encoding="utf-8")
    return path


@pytest.mark.parametrize("odd", [(), (np.nan, np.inf, np.nan, -np.inf)])
def test_a_sort_gives_a_line_in_order_and_the_places(tmp_path: Path, odd: tuple[float]) -> None:
    """Numpy's order ends with NaN, as XLA's does."""
    x = np.array(NUMBERS, np.float32)
    x[0, 1 : 1 + len(odd)] = odd
    values, places = systolic.run(sort_file(tmp_path, UP), "ideal_4x4", [x]).outputs.values()
    order = np.argsort(x, axis=1, kind="stable")
    assert np.array_equal(places, order)
    if not odd:  # what is turned by products spreads an infinity
        assert np.array_equal(values, np.take_along_axis(x, order, 1))


def test_a_comparison_with_nan_nowhere_is_no_order(tmp_path: Path) -> None:
    said = refused("run", sort_file(tmp_path, DOWN), "--chip", "ideal_4x4", "--out", tmp_path / "o")
    assert "a sort by a comparison of its own" in said
