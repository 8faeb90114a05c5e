"""The generator of `dropout`: 32 bits for each element, of its place alone.

It counts instead of carrying a state, so that elements come out the same in any order: the seed,
the lane and the element, each times an odd number, are added up, and the sum is mixed by the last
steps of MurmurHash3 (fmix32, Appleby, public domain). All of it modulo 2^32. It is no generator for
cryptography, nor the generator of any product.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array

SEED, LANE, ELEMENT = 0x9E3779B9, 0x85EBCA77, 0xC2B2AE3D
"""What the three are multiplied by: odd, and far from one another."""


def uniform(seed: int, lanes: int, first: int, count: int) -> Array:
    """Return numbers 0 <= u < 1 in steps of 2^-24, float32, [lanes, count], from `first` on."""
    lane = np.arange(lanes, dtype=np.uint64)[:, None] * LANE
    element = np.arange(first, first + count, dtype=np.uint64)[None, :] * ELEMENT
    total = lane + element + np.uint64(seed * SEED % (1 << 32))
    bits = _mixed((total & 0xFFFFFFFF).astype(np.uint32))
    return (bits >> 8).astype(np.float32) * np.float32(2**-24)


def _mixed(bits: Array) -> Array:
    """Return fmix32 of each number."""
    bits = (bits ^ (bits >> 16)) * np.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * np.uint32(0xC2B2AE35)
    mixed: Array = bits ^ (bits >> 16)
    return mixed
