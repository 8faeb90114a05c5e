"""Where the elements of an array lie, as boxes of it that one access each enumerates.

A binding says where the elements of an array lie (`systolic.isa.formats.module`); here a binding's
parts are found from the places of the elements. Only the places count, not the tiles or layouts
that they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from systolic.arrays import Integers
from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.isa.access import MAX_PAIRS, Access, Buffer, Pattern
from systolic.isa.formats.module import IndexBox, Part

Located = tuple[IndexBox, Integers, Integers]
"""A box of the array, and the partition and the byte of each of its elements."""
MOST_PARTS = 1 << 16


def parts_of(partition: Integers, byte: Integers, buffer: Buffer, dtype: str) -> tuple[Part, ...]:
    """Return the parts of an array whose elements lie in `buffer` at these places.

    Args:
        partition: of each element, int64, in the array's shape.
        byte: offset of each element in its partition, int64, in the array's shape.
        buffer: the memory.
        dtype: XLA name of the element type.

    Raises:
        ProgramError: so irregular that more than MOST_PARTS parts would be needed.

    """
    whole = tuple((0, size) for size in byte.shape)
    found: list[Part] = []
    for part in _regular((whole, partition, byte), buffer, dtype):
        found.append(part)
        if len(found) > MOST_PARTS:
            raise ProgramError(f"lies in more than {MOST_PARTS} pieces, too many to be listed")
    return tuple(found)


def _regular(located: Located, buffer: Buffer, dtype: str) -> Iterator[Part]:
    box, partition, byte = located
    found = _one_access(partition.reshape(-1), byte.reshape(-1), data_type(dtype).size_bytes)
    if found is not None:
        count, pattern = found
        first, start = int(partition.flat[0]), int(byte.flat[0])
        yield Part(box, Access(buffer, dtype, first, count, start, pattern))
        return
    axis, cuts = _cuts(partition, byte)
    origin = box[axis][0]
    for low, high in pairwise(cuts):
        inner = (*box[:axis], (origin + low, origin + high), *box[axis + 1 :])
        place = (*[slice(None)] * axis, slice(low, high))
        yield from _regular((inner, partition[place], byte[place]), buffer, dtype)


def _one_access(partition: Integers, byte: Integers, size: int) -> tuple[int, Pattern] | None:
    """Return partitions and pairs if one access enumerates these places in their order."""
    count = int(partition[-1] - partition[0]) + 1
    if count < 1 or len(partition) % count:
        return None
    rows = partition.reshape(count, -1) - np.arange(count).reshape(-1, 1)
    table = byte.reshape(count, -1)
    if (rows != partition[0]).any() or (table != table[0]).any():
        return None
    pattern = _pairs(table[0] // size)
    return None if pattern is None or len(pattern) > MAX_PAIRS else (count, pattern)


def _pairs(elements: Integers) -> Pattern | None:
    """Return the [step, count] pairs that enumerate elements, outermost first, if there are any."""
    pairs: list[tuple[int, int]] = []
    while len(elements) > 1:
        steps = np.diff(elements)
        other = np.flatnonzero(steps != steps[0])
        count = int(other[0]) + 1 if len(other) else len(elements)
        if len(elements) % count:
            return None
        table = elements.reshape(-1, count)
        if (table - table[:, :1] != table[0] - table[0, 0]).any():
            return None
        pairs.append((int(steps[0]), count))
        elements = table[:, 0]
    return tuple(reversed(pairs)) or ((1, 1),)


def _cuts(partition: Integers, byte: Integers) -> tuple[int, list[int]]:
    """Return an axis and where to cut it: where its steps change, else at every index.

    If no step changes in a box, the box is cut along the axis along which partitions change: one
    access enumerates partitions along the first axis only.
    """
    axes = [axis for axis in range(byte.ndim) if byte.shape[axis] > 1]
    for axis in axes:
        steps = [np.moveaxis(np.diff(a, axis=axis), axis, 0) for a in (partition, byte)]
        cuts = [0]
        for index in range(1, byte.shape[axis] - 1):
            if index > cuts[-1] and any((s[index] != s[cuts[-1]]).any() for s in steps):
                cuts.append(index + 1)
        if len(cuts) > 1:
            return axis, [*cuts, byte.shape[axis]]
    moving = [axis for axis in axes if (np.diff(partition, axis=axis) != 0).any()]
    axis = moving[-1] if moving else axes[0]
    return axis, list(range(byte.shape[axis] + 1))
