"""Is the value right? HLO's popcnt, of numbers known only when running and of constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import systolic

TEXT = """HloModule bits
ENTRY main {
  x = s32[5] parameter(0)
  known = s32[5] constant({0, 1, -1, 255, -2147483648})
  counted = s32[5] popcnt(x)
  other = s32[5] popcnt(known)
  ROOT both = s32[5] add(counted, other)
}
"""


def test_popcnt(tmp_path: Path) -> None:
    path = tmp_path / "bits.hlo"
    path.write_text(TEXT, encoding="utf-8")
    x = np.array([7, -1, 1 << 30, 0, -2], np.int32)
    (found,) = systolic.run(path, "ideal_4x4", [x]).outputs.values()
    assert found.tolist() == [3 + 0, 32 + 1, 1 + 32, 0 + 8, 31 + 1]
