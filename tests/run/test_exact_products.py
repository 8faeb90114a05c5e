"""Is the value right? Products of small integers on an array that has floats only."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from systolic.errors import SystolicError
from systolic.workload import Graph, GraphBuilder

CHIP = "neuroncore_v2"


def product(inner: int, left: str = "s8", right: str = "s8") -> Graph:
    builder = GraphBuilder()
    builder.tensor("a", f"{left}[3,{inner}]")
    builder.tensor("b", f"{right}[{inner},4]")
    builder.matmul("a", "b", "s32[3,4]", name="y")
    return builder.graph()


def test_the_largest_sums_are_exact() -> None:
    """1,024 products of -128 and -128 are 2^24, the last whole number before float32 has gaps."""
    a, b = np.full((3, 1024), -128, np.int8), np.full((1024, 4), -128, np.int8)
    a[1], b[0, 1] = 127, 127
    result = systolic.run(product(1024), CHIP, {"a": a, "b": b})
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    assert wanted.max() == 1 << 24
    np.testing.assert_array_equal(result.outputs["y"], wanted)
    assert result.summary["bound"]["cycles"] <= result.cycles


def test_longer_sums_are_refused() -> None:
    with pytest.raises(SystolicError, match="cannot take s8"):
        systolic.run(product(1025), CHIP, values=False)


def test_images_with_groups() -> None:
    rng = np.random.default_rng(5)
    builder = GraphBuilder()
    builder.tensor("x", "u8[1,6,6,4]")
    builder.tensor("w", "s8[3,3,2,6]")
    builder.conv2d("x", "w", out="s32[1,4,4,6]", groups=2, name="y")
    x, w = rng.integers(0, 256, (1, 6, 6, 4), np.uint8), rng.integers(-128, 128, (3, 3, 2, 6))
    result = systolic.run(builder.graph(), CHIP, {"x": x, "w": w.astype(np.int8)})
    wanted = np.zeros((1, 4, 4, 6), np.int64)
    for row, col, group in np.ndindex(4, 4, 2):
        part = x[0, row : row + 3, col : col + 3, 2 * group : 2 * group + 2].astype(np.int64)
        filters = w[..., 3 * group : 3 * group + 3]
        wanted[0, row, col, 3 * group : 3 * group + 3] = np.einsum("hwc,hwcf->f", part, filters)
    np.testing.assert_array_equal(result.outputs["y"], wanted)
