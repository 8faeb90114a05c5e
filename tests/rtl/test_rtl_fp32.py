"""Is the arithmetic right? The RTL's float32 multiplier and adder against numpy, bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rtl_build import Tool, build, checked
from rtl_harness import hex_words
from rtl_programs import SPECIAL_BITS

pytestmark = pytest.mark.rtl

NAN = np.uint32(0x7FC00000)
SIGN = np.uint32(0x80000000)


def fields(rng: np.random.Generator, low: int, high: int, mask: int, count: int) -> NDArray:
    """Random patterns with biased exponents low..high and significand bits from `mask`."""
    exponent = rng.integers(low, high + 1, count, dtype=np.uint32) << np.uint32(23)
    fraction = rng.integers(0, 2**23, count, dtype=np.uint32) & np.uint32(mask)
    return exponent | fraction | (rng.integers(0, 2, count, dtype=np.uint32) << np.uint32(31))


def patterns() -> NDArray[np.uint32]:
    """Pairs that reach every corner: named by what they provoke."""
    rng = np.random.default_rng(4)
    full, some, few = 0x7FFFFF, 0x7FF000, 0x7FF800
    signed = np.concatenate([SPECIAL_BITS, SPECIAL_BITS ^ SIGN])
    n = 20_000
    near = fields(rng, 1, 254, full, n)
    shift = rng.integers(-2, 3, n).astype(np.uint32) << np.uint32(23)
    last_bits = rng.integers(0, 16, n, dtype=np.uint32)

    def pair(low: int, high: int, mask: int, low_b: int, high_b: int, mask_b: int) -> NDArray:
        return np.stack([fields(rng, low, high, mask, n), fields(rng, low_b, high_b, mask_b, n)], 1)

    groups = {
        "special": np.stack(np.meshgrid(signed, signed), -1).reshape(-1, 2),
        "anything": rng.integers(0, 2**32, (2 * n, 2), dtype=np.uint32),
        "cancelling": np.stack([near, near ^ SIGN ^ shift ^ last_bits], 1),
        "subnormal and any": pair(0, 130, full, 0, 30, full),
        "subnormal sum": pair(0, 1, full, 0, 2, full),
        "subnormal product": pair(50, 76, full, 50, 76, some),
        "overflowing product": pair(180, 254, full, 190, 254, some),
        "overflowing sum": pair(253, 254, full, 252, 254, full),
        "tied product": pair(120, 150, few, 110, 140, few),
        "tied sum": pair(127, 130, full, 102, 107, 0x600000),
    }
    return np.concatenate(list(groups.values()))


def run_fp32(
    pairs: NDArray[np.uint32], tool: Tool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Products and sums of the array's float32 units, for pairs (n, 2) of bit patterns."""
    with tempfile.TemporaryDirectory(prefix="systolic-rtl-run-") as name:
        folder = Path(name)
        command = build(folder, "fp32_bench", ("fp32_bench.v",), {}, tool)
        (folder / "pairs.hex").write_text(hex_words(pairs.reshape(-1)))
        checked([*command, f"+count={len(pairs)}"], folder)
        raw = bytes.fromhex((folder / "results.hex").read_text())
    product, total = np.frombuffer(raw, dtype=">u4").astype(np.uint32).reshape(-1, 2).T
    return product, total


def canonical(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bit patterns, every NaN the canonical one."""
    return np.where(np.isnan(values), NAN, values.view(np.uint32))


def test_both_units_equal_numpy_on_every_kind_of_operand(tool: Tool) -> None:
    pairs = patterns()
    assert len(pairs) >= 100_000
    a, b = pairs.T.copy().view(np.float32)
    with np.errstate(all="ignore"):
        product, total = canonical(a * b), canonical(a + b)
    got_product, got_total = run_fp32(pairs, tool)
    for what, got, wanted in (("product", got_product, product), ("sum", got_total, total)):
        wrong = np.flatnonzero(got != wanted)
        shown = [f"{pairs[i, 0]:08x} {pairs[i, 1]:08x}: {got[i]:08x}" for i in wrong[:5]]
        assert not len(wrong), f"{len(wrong)} wrong {what}s, e.g. {shown}"


def test_the_patterns_reach_the_corners() -> None:
    a, b = patterns().T.copy().view(np.float32)
    with np.errstate(all="ignore"):
        product, total = a * b, a + b
        exact_product = a.astype(np.float64) * b
        exact_total = a.astype(np.float64) + b
    assert np.isnan(product).sum() > 500
    assert np.isnan(total).sum() > 500
    smallest = np.finfo(np.float32).smallest_normal
    for rounded, exact in ((product, exact_product), (total, exact_total)):
        finite = np.isfinite(rounded)
        assert (finite & (rounded != 0) & (abs(rounded) < smallest)).sum() > 5_000
        assert (np.isinf(rounded) & np.isfinite(a) & np.isfinite(b)).sum() > 500
        with np.errstate(all="ignore"):
            gap = np.spacing(abs(rounded)).astype(np.float64)
            ties = finite & (abs(exact - rounded.astype(np.float64)) == gap / 2)
        assert ties.sum() > 500, "round half to even is hardly tried"
