"""Numbers that share scales, as the OCP Microscaling Formats (MX) 1.0 define them. No time.

A scale is a byte b, worth 2^(b - 127), or a NaN if b is 255 (E8M0). It is for 8 partitions, and
four elements of each that follow one another (`systolic.isa.scales` says where it lies).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from systolic.arrays import Array
from systolic.hw.datatypes import data_type
from systolic.isa.scales import GROUP_ELEMENTS, GROUP_PARTITIONS

BIAS, NO_NUMBER = 127, 255
LARGEST_POWER = {"f8e4m3fn": 8, "f8e5m2": 15}
"""The exponent of the largest power of two of a type."""
LARGEST = {"f8e4m3fn": np.float32(448), "f8e5m2": np.float32(57344)}

_FACTORS = np.ldexp(np.float32(1), np.minimum(np.arange(256), NO_NUMBER - 1) - BIAS)
_FACTORS[NO_NUMBER] = np.nan
_NIBBLES = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def factors(scales: Array) -> Array:
    """Return what scales are worth, float32, in their shape."""
    found: Array = _FACTORS[scales.view(np.uint8)]
    return found


def unscaled(elements: Array, dtype: str) -> Array:
    """Return the values of elements [..., n], float32 [..., n * values of an element].

    The first of several values is in the lowest bits.
    """
    packed = data_type(dtype).packed
    if packed == 1:
        return elements.astype(np.float32)
    shifts = np.arange(0, 4 * packed, 4, dtype=np.uint16)
    found: Array = _NIBBLES[elements[..., None] >> shifts & 0xF]
    return found.reshape(*elements.shape[:-1], -1)


def scaled(elements: Array, scales: Array, dtype: str) -> Array:
    """Return elements times the scales of their groups, float32 [K, 4 n].

    A product beyond float32 is infinite.

    Args:
        elements: [K, 4 n] of the type, or as many fewer as it packs.
        scales: [K / 8, n], of their type.
        dtype: the type of the elements.

    """
    each = np.repeat(factors(scales), GROUP_PARTITIONS, axis=0)
    with np.errstate(all="ignore"):
        found: Array = unscaled(elements, dtype) * np.repeat(each, GROUP_ELEMENTS, axis=1)
    return found


def scales_for(values: Array, dtype: str, headroom: int) -> Array:
    """Return the scales of the groups of values [K, 4 n], uint8 [K / 8, n].

    2 to the power of floor(log2(largest size)) - (largest power of the type) + headroom, or the
    nearest scale there is; the least one for a group of zeros, and a NaN for a group that has a NaN
    or an infinity.
    """
    K, elements = values.shape
    with np.errstate(all="ignore"):
        sizes = np.abs(values.astype(np.float32))
    groups = sizes.reshape(
        K // GROUP_PARTITIONS, GROUP_PARTITIONS, elements // GROUP_ELEMENTS, GROUP_ELEMENTS
    )
    largest = groups.max(axis=(1, 3))  # a NaN wins
    _, exponent = np.frexp(largest)  # of a number between 1/2 and 1
    power = exponent - 1 - LARGEST_POWER[dtype] + headroom + BIAS
    bits = np.where(largest == 0, 0, np.clip(power, 0, NO_NUMBER - 1))
    return np.where(np.isfinite(largest), bits, NO_NUMBER).astype(np.uint8)


def quantised(values: Array, scales: Array, dtype: str) -> Array:
    """Return values [K, 4 n] divided by their scales [K / 8, n], float32, to be cast to the type.

    What is beyond the largest number of the type is that number. Elements of a group whose scale is
    a NaN are NaNs.
    """
    each = np.repeat(scales.astype(np.int32), GROUP_PARTITIONS, axis=0)
    bits = np.repeat(each, GROUP_ELEMENTS, axis=1)
    with np.errstate(all="ignore"):
        divided = np.ldexp(values.astype(np.float32), BIAS - bits)
        kept = np.clip(divided, -LARGEST[dtype], LARGEST[dtype])
    missing = np.float32(np.nan)
    return np.where(bits == NO_NUMBER, missing, kept)
