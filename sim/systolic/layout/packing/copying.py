"""Fast strided copies: the one loop that moves elements into layouts and out of them.

``np.copyto`` is fastest when long runs are contiguous on both sides. Three cases are not like that
and have a way of their own: a few elements gathered into each word (``(2,1)`` below 32 bits), a few
into each byte (``E(1)``), and transposes, which are copied in blocks that fit the cache. The result
is the same by every way. Not here: where elements go (``boxes``, ``packing``).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from systolic.arrays import Array
from systolic.layout.packing import kernels

_WORDS: dict[int, np.dtype[Any]] = {width: np.dtype(f"u{width}") for width in (2, 4, 8)}
_SMALL_RUN = 16
_CHUNK_ITEMS = 1 << 17
_BLOCK = (32, 256)
_WORTH_BLOCKS = 1 << 18


def copy_strided(target: Array, source: Array) -> None:
    """Copy ``source`` to ``target``, two views of the same sizes and dtype that do not overlap."""
    target, source = _merged(target, source)
    if _is_gather(target, source):
        run = target.shape[-1]
        if _words_fit(target, run):
            _gather_words(target, source, run)
        else:
            for place in range(run):
                _copy_in_blocks(target[..., place], source[..., place])
        return
    inside = _axis_inside_words(target, source)
    if inside is None:
        _copy_in_blocks(target, source)
    else:
        _scatter_words(np.moveaxis(target, inside, -1), np.moveaxis(source, inside, -1))


def _is_gather(target: Array, source: Array) -> bool:
    """Return whether short contiguous runs of the target are scattered in the source."""
    return (
        target.ndim > 1
        and target.shape[-1] <= _SMALL_RUN
        and target.strides[-1] == target.itemsize
        and source.strides[-1] != source.itemsize
    )


def _axis_inside_words(target: Array, source: Array) -> int | None:
    """Return the axis whose elements share a machine word of the source, but not of the target."""
    for axis in range(target.ndim - 1):
        if source.strides[axis] == source.itemsize and target.size >= _WORTH_BLOCKS:
            moved = np.moveaxis(source, axis, -1)
            return axis if _words_fit(moved, source.shape[axis]) else None
    return None


def gather_bits(
    target: NDArray[np.uint8],
    source: NDArray[np.uint8],
    shifts: Sequence[int],
    mask: int,
) -> None:
    """Pack the last axis of ``source``, as long as ``shifts``, into one byte of ``target`` each.

    Element i goes to the bits at ``shifts[i]``; only the bits of ``mask`` count.
    """
    joined = _like_source(source[..., 0], np.dtype(np.uint8))
    loop = _compiled(kernels.gather_bits, source)
    rows = _Rows.of(source, joined) if loop else None
    if loop and rows:
        places = np.asarray(shifts, np.uint8)
        loop(rows.flat, rows.strides, places, rows.made, np.uint8(mask))
    else:
        _join_bits(joined, source, shifts, np.uint8(mask))
    copy_strided(target, joined)


def scatter_bits(
    target: NDArray[np.uint8],
    source: NDArray[np.uint8],
    shifts: Sequence[int],
    mask: int,
) -> None:
    """Unpack each byte of ``source`` along the last axis of ``target``, undoing ``gather_bits``."""
    joined = _like_source(target[..., 0], np.dtype(np.uint8))
    copy_strided(joined, source)
    for chunk in _chunks(joined, _CHUNK_ITEMS):
        scratch = np.empty_like(joined[chunk])
        for place, shift in enumerate(shifts):
            np.right_shift(joined[chunk], np.uint8(shift), out=scratch)
            plane = target[..., place]
            np.bitwise_and(scratch, np.uint8(mask), out=plane[chunk])


def _join_bits(joined: Array, source: Array, shifts: Sequence[int], mask: np.uint8) -> None:
    """Gather bits with numpy: one pass for each place in the byte, in parts that stay cached."""
    for chunk in _chunks(joined, _CHUNK_ITEMS):
        byte = joined[chunk]
        byte[...] = 0
        for place, shift in enumerate(shifts):
            plane = source[..., place]
            part = np.bitwise_and(plane[chunk], mask)
            np.bitwise_or(byte, np.left_shift(part, np.uint8(shift)), out=byte)


def _gather_words(target: Array, source: Array, run: int) -> None:
    """Gather ``run`` strided elements into each machine word, then store whole words."""
    word = _WORDS[run * source.itemsize]
    item = np.dtype(f"u{source.itemsize}")
    planes = source.view(item)
    stored = target.view(item).view(word)[..., 0]
    loop = _compiled(kernels.gather_words, source)
    for chunk in _chunks(stored, _CHUNK_ITEMS):
        part = planes[chunk]
        gathered = _like_source(part[..., 0], word)
        rows = _Rows.of(part, gathered) if loop else None
        if loop and rows:
            bits = 8 * item.itemsize
            loop(rows.flat, rows.strides, run, rows.made, bits)
        else:
            _join_words(gathered, part, run)
        np.copyto(stored[chunk], gathered)


def _scatter_words(target: Array, source: Array) -> None:
    """Load whole words of ``source`` and store their elements, the last axis, one plane each."""
    run = source.shape[-1]
    word = _WORDS[run * source.itemsize]
    planes = target.view(np.dtype(f"u{target.itemsize}"))
    loaded = source.view(planes.dtype).view(word)[..., 0]
    bits = 8 * planes.itemsize
    loop = _compiled(kernels.scatter_words, source)
    for chunk in _chunks(loaded, _CHUNK_ITEMS):
        part = planes[chunk]
        words = _like_source(part[..., 0], word)
        np.copyto(words, loaded[chunk])
        rows = _Rows.of(part, words) if loop else None
        if loop and rows:
            loop(rows.flat, rows.strides, run, rows.made, bits)
            continue
        for place in range(run):
            np.copyto(part[..., place], words, casting="unsafe")
            np.right_shift(words, bits, out=words)


def _join_words(gathered: Array, planes: Array, run: int) -> None:
    """Gather words with numpy: shift and or, one plane after the other."""
    gathered[...] = planes[..., 0]
    scratch = np.empty_like(gathered)
    for place in range(1, run):
        scratch[...] = planes[..., place]
        np.left_shift(scratch, 8 * planes.itemsize * place, out=scratch)
        np.bitwise_or(gathered, scratch, out=gathered)


def _compiled(loop: Callable[..., None], source: Array) -> Callable[..., None] | None:
    return kernels.compiled(loop) if source.size >= kernels.WORTH_COMPILING else None


@dataclass(frozen=True, slots=True)
class _Rows:
    """A source seen as groups of planes of contiguous rows, and the rows made from them.

    strides: elements from a group to the next, and from a plane to the next.
    """

    flat: Array
    strides: tuple[int, int]
    made: Array

    @classmethod
    def of(cls, source: Array, made: Array) -> _Rows | None:
        """Return that view, or None if more than two axes are left besides the planes."""
        _, lines = _merged(made, source[..., 0])
        strides = [stride // source.itemsize for stride in lines.strides]
        plane = source.strides[-1] // source.itemsize
        if not 1 <= lines.ndim <= 2 or strides[-1] != 1 or plane < 1 or min(strides) < 1:
            return None
        groups, columns = (1, *lines.shape)[-2:]
        group_stride = strides[0] if lines.ndim == 2 else 0
        span = 1 + (groups - 1) * group_stride + (columns - 1) + (source.shape[-1] - 1) * plane
        flat = as_strided(source, (span,), (source.itemsize,))
        order = sorted(range(made.ndim), key=lambda axis: -made.strides[axis])
        return cls(flat, (group_stride, plane), made.transpose(order).reshape(groups, columns))


def _words_fit(target: Array, run: int) -> bool:
    """Return whether each run of ``target`` is one aligned machine word, low bytes first."""
    width = run * target.itemsize
    return (
        run > 1
        and width in _WORDS
        and sys.byteorder == "little"
        and target.ctypes.data % width == 0
        and all(stride % width == 0 for stride in target.strides[:-1])
    )


def _like_source(source: Array, dtype: np.dtype[Any]) -> Array:
    """Return an empty array of the same sizes whose axes lie in memory in the source's order."""
    order = sorted(range(source.ndim), key=lambda axis: -abs(source.strides[axis]))
    made = np.empty([source.shape[axis] for axis in order], dtype)
    back = [order.index(axis) for axis in range(source.ndim)]
    return made.transpose(back)


def _chunks(array: Array, most: int) -> Iterator[tuple[slice, ...]]:
    """Yield leading slices that cut ``array`` into parts of about ``most`` items."""
    axes: list[list[slice]] = []
    inner = array.size
    for size in array.shape:
        if inner <= most or size == 0:
            break
        inner //= size
        step = max(1, most // max(inner, 1))
        axes.append([slice(start, start + step) for start in range(0, size, step)])
    return itertools.product(*axes)


def _merged(target: Array, source: Array) -> tuple[Array, Array]:
    """Return both views with axes ordered by the target; axes that go on in both are merged."""
    axes = sorted(
        (axis for axis in range(target.ndim) if target.shape[axis] != 1),
        key=lambda axis: -abs(target.strides[axis]),
    )
    merged: list[tuple[int, int, int]] = []
    for axis in axes:
        size = target.shape[axis]
        to_stride, from_stride = target.strides[axis], source.strides[axis]
        if merged and merged[-1][1:] == (to_stride * size, from_stride * size):
            merged[-1] = (merged[-1][0] * size, to_stride, from_stride)
        else:
            merged.append((size, to_stride, from_stride))
    sizes = [size for size, _, _ in merged]
    return (
        as_strided(target, sizes, [stride for _, stride, _ in merged]),
        as_strided(source, sizes, [stride for _, _, stride in merged]),
    )


def _copy_in_blocks(target: Array, source: Array) -> None:
    """Copy in one go, or in blocks if target and source run along different axes."""
    by_target = sorted(range(target.ndim), key=lambda axis: abs(target.strides[axis]))
    by_source = sorted(range(source.ndim), key=lambda axis: abs(source.strides[axis]))
    if target.size < _WORTH_BLOCKS or by_target[0] == by_source[0]:
        np.copyto(target, source)
        return
    block = [1] * target.ndim
    for axes, wanted in zip((by_target, by_source), _BLOCK, strict=True):
        reached = 1
        for axis in axes:
            block[axis] = max(block[axis], min(target.shape[axis], -(-wanted // reached)))
            reached *= block[axis]
    starts = [range(0, size, step) for size, step in zip(target.shape, block, strict=True)]
    for corner in itertools.product(*starts):
        part = tuple(slice(at, at + step) for at, step in zip(corner, block, strict=True))
        np.copyto(target[part], source[part])
