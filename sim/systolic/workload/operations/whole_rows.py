"""What engines of some chips do with whole rows: running sums, the largest, places by numbers.

Only composites are made of these; a graph cannot name them. Each is one instruction for the rows of
a tile, along an axis of its first operand. Not here: which chips have them (`row.RowWork`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import (
    AnyRow,
    Attributes,
    Operand,
    Row,
    Rules,
    check_gives,
    unrounded,
)

FoldName = Literal["sum", "product", "max", "min"]
DIRECT = ("f32", "bf16", "f16", "s32", "s8", "u8")
"""Types that engines take as they are; others are cast."""
EIGHT = 8
"""The elements that a search finds in each row."""
MOST_SEARCHED = 16_384
"""The most elements of a row that is searched."""
MOST_PICKED = 4_096
"""The most places that are picked of a row."""
GROUP = 16
"""The rows that share the numbers of a pick."""


@dataclass(frozen=True, slots=True)
class AlongAttributes(Attributes):
    """The axis whose places are a row."""

    axis: int


@dataclass(frozen=True, slots=True)
class ScanAttributes(AlongAttributes):
    """What is done with all elements before each, and from which end."""

    fold: FoldName
    from_end: bool = False


@dataclass(frozen=True, slots=True)
class CountAttributes(AlongAttributes):
    """How many places are taken."""

    count: int


def _like(shapes: Sequence[Shape], axis: int, count: int) -> tuple[int, ...]:
    dims = shapes[0].dims
    return (*dims[:axis], count, *dims[axis + 1 :])


def _checked(
    gives: Callable[[Sequence[Shape], AlongAttributes], tuple[str, int]],
) -> Callable[[Sequence[Shape], Shape, AlongAttributes], None]:
    """Return the check of a result whose type and places `gives` says."""

    def check(shapes: Sequence[Shape], out: Shape, attributes: AlongAttributes) -> None:
        dtype, count = gives(shapes, attributes)
        check_gives(shapes[0], dtype, _like(shapes, attributes.axis, count), out)

    return check


def _scanned(arrays: Sequence[Array], attributes: ScanAttributes) -> Array:
    """Return each element combined with the result before it, one after another, from an end on."""
    wide = np.int32 if arrays[0].dtype.kind in "iu" else np.float32
    rows = np.moveaxis(arrays[0], attributes.axis, -1).astype(wide)
    rows = rows[..., ::-1] if attributes.from_end else rows
    now, found = rows[..., 0], []
    for place in range(rows.shape[-1]):
        now = _FOLDS[attributes.fold](now, rows[..., place]) if place else now
        found.append(now)
    made = np.stack(found, axis=-1)
    return np.moveaxis(made[..., ::-1] if attributes.from_end else made, -1, attributes.axis)


def _larger(before: Array, here: Array) -> Array:
    return np.where(np.isnan(before) | (before > here), before, here)


def _smaller(before: Array, here: Array) -> Array:
    return np.where(np.isnan(before) | (before < here), before, here)


_FOLDS: dict[FoldName, Callable[[Array, Array], Array]] = {
    "sum": np.add, "product": np.multiply, "max": _larger, "min": _smaller
}  # fmt: skip


def _scan(arrays: Sequence[Array], out: Shape, attributes: ScanAttributes, rules: Rules) -> Array:
    with np.errstate(all="ignore"):
        return convert(_scanned(arrays, attributes), out.dtype)


def _largest(arrays: Sequence[Array], attributes: AlongAttributes) -> Array:
    """Return the eight largest, NaN before all numbers, of equal ones the first first."""
    rows = np.moveaxis(arrays[0], attributes.axis, -1)
    order = np.lexsort((-rows.astype(np.float64), rows == rows), axis=-1)[..., :EIGHT]
    return np.moveaxis(np.take_along_axis(rows, order, -1), -1, attributes.axis)


def _found(arrays: Sequence[Array], attributes: AlongAttributes) -> Array:
    """Return where the values are: of equal values each the next such element; -1 if none is."""
    rows, values = (np.moveaxis(array, attributes.axis, -1) for array in arrays)
    found, taken = [], np.zeros(rows.shape, bool)
    for number in range(EIGHT):
        hits = (rows == values[..., number : number + 1]) & ~taken
        first = np.where(hits.any(axis=-1), hits.argmax(axis=-1), -1)
        taken |= hits & (np.arange(rows.shape[-1]) == first[..., None])
        found.append(first)
    return np.moveaxis(np.stack(found, axis=-1), -1, attributes.axis).astype(np.int32)


def _moved(arrays: Sequence[Array], out: Shape, attributes: CountAttributes) -> Array:
    source, (start,) = arrays
    places = int(start) + np.arange(attributes.count)
    return np.take(source, places, axis=attributes.axis)


def _put(arrays: Sequence[Array], out: Shape, attributes: AlongAttributes) -> Array:
    source, update, (start,) = arrays
    made = np.moveaxis(np.array(source), attributes.axis, 0)
    new = np.moveaxis(update, attributes.axis, 0)
    made[int(start) : int(start) + len(new)] = new
    return np.moveaxis(made, 0, attributes.axis)


def _picked(arrays: Sequence[Array], out: Shape, attributes: CountAttributes) -> Array:
    """Return places by numbers; number j is in row j % GROUP and column j // GROUP."""
    source, numbers = arrays
    places = numbers[:GROUP].T.ravel()[: attributes.count]
    return np.take(source, places, axis=attributes.axis)


SOURCE = Operand("source")

WHOLE_ROWS: dict[str, AnyRow] = {
    "scan": Row(
        operands=(SOURCE,),
        attributes=ScanAttributes,
        check=_checked(lambda shapes, a: (shapes[0].element_type, shapes[0].dims[a.axis])),
        reference=_scan,
        exact=lambda arrays, out, attributes: _scanned(arrays, attributes),
        computes=True,
    ),
    "largest": Row(
        operands=(SOURCE,),
        attributes=AlongAttributes,
        check=_checked(lambda shapes, _: (shapes[0].element_type, EIGHT)),
        reference=lambda arrays, out, attributes, _: convert(
            _largest(arrays, attributes), out.dtype
        ),
        exact=lambda arrays, out, attributes: _largest(arrays, attributes),
        computes=True,
    ),
    "find": Row(
        operands=(SOURCE, Operand("values")),
        attributes=AlongAttributes,
        check=_checked(lambda shapes, _: ("s32", EIGHT)),
        reference=lambda arrays, out, attributes, _: _found(arrays, attributes),
        exact=lambda arrays, out, attributes: _found(arrays, attributes),
        computes=True,
    ),
    "move_from": Row(
        operands=(SOURCE, Operand("start")),
        attributes=CountAttributes,
        check=_checked(lambda shapes, a: (shapes[0].element_type, _count_of(a))),
        reference=unrounded(_moved),
        exact=_moved,
    ),
    "move_to": Row(
        operands=(SOURCE, Operand("update"), Operand("start")),
        attributes=AlongAttributes,
        check=_checked(lambda shapes, a: (shapes[0].element_type, shapes[0].dims[a.axis])),
        reference=unrounded(_put),
        exact=_put,
    ),
    "pick": Row(
        operands=(SOURCE, Operand("places")),
        attributes=CountAttributes,
        check=_checked(lambda shapes, a: (shapes[0].element_type, _count_of(a))),
        reference=unrounded(_picked),
        exact=_picked,
    ),
}
"""Operations of whole rows, by the word that parts of composites name them with."""


def _count_of(attributes: AlongAttributes) -> int:
    assert isinstance(attributes, CountAttributes)
    return attributes.count
