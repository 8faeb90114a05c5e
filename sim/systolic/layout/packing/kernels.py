"""The inner loops that numpy runs in many passes and numba in one: words of several elements.

Each loop is an ordinary function here. ``compiled`` gives its compiled form where numba is
installed. Callers have a numpy way that gives the same bytes, and use it for small arrays, where
compiling would take longer than the work. The loops take plain numbers in a row, as numba wants
them. Not here: what is gathered, or where it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

WORTH_COMPILING = 1 << 21
"""Fewest elements for which numba is imported and a loop compiled (about 0.5 s, once)."""


def gather_words(flat: Any, strides: tuple[int, int], planes: int, words: Any, bits: int) -> None:
    """Set ``words[g, c]`` to the elements of ``planes`` planes at (g, c), the first lowest.

    strides: elements from a group to the next, and from a plane to the next; plane p of group g
    begins at ``flat[g * group_stride + p * plane_stride]``.
    """
    group_stride, plane_stride = strides
    wide = words.dtype.type
    for group in range(words.shape[0]):
        target = words[group]
        for plane in range(planes):
            # A slice first: its indices are known to be in range, so the loop can be vectorised.
            start = group * group_stride + plane * plane_stride
            row = flat[start : start + target.size]
            shift = wide(bits * plane)
            if plane == 0:
                for column in range(target.size):
                    target[column] = row[column]
            else:
                for column in range(target.size):
                    target[column] |= wide(row[column]) << shift


def scatter_words(flat: Any, strides: tuple[int, int], planes: int, words: Any, bits: int) -> None:
    """Set the elements of ``planes`` planes from ``words[g, c]``: ``gather_words`` backwards."""
    group_stride, plane_stride = strides
    narrow = flat.dtype.type
    for group in range(words.shape[0]):
        source = words[group]
        for plane in range(planes):
            start = group * group_stride + plane * plane_stride
            row = flat[start : start + source.size]
            shift = source.dtype.type(bits * plane)
            for column in range(source.size):
                row[column] = narrow(source[column] >> shift)


def gather_bits(flat: Any, strides: tuple[int, int], shifts: Any, joined: Any, mask: int) -> None:
    """Set byte ``joined[g, c]`` to the masked elements of all planes, each at its shift."""
    group_stride, plane_stride = strides
    byte = joined.dtype.type
    for group in range(joined.shape[0]):
        target = joined[group]
        for plane in range(shifts.size):
            start = group * group_stride + plane * plane_stride
            row = flat[start : start + target.size]
            shift = byte(shifts[plane])
            if plane == 0:
                for column in range(target.size):
                    target[column] = byte(row[column] & mask) << shift
            else:
                for column in range(target.size):
                    target[column] |= byte(row[column] & mask) << shift


@lru_cache(maxsize=8)
def compiled(loop: Callable[..., None]) -> Callable[..., None] | None:
    """Return ``loop`` compiled by numba, or None without numba."""
    try:
        import numba
    except ImportError:
        return None
    machine_code: Callable[..., None] = numba.njit(loop)
    return machine_code
