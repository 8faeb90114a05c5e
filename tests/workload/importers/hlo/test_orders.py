"""Is the value right? HLO's topk of integers, which the operation of that name finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import systolic

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
