"""Popcount: how many bits of each integer, in its own type, are 1; pairs of bits, then more.

Made of operators of an integer and a number: neighbours are added in fields of two, four and eight
bits, and a product adds the four bytes up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    first_shape,
    is_integer,
    plain,
)

PAIRS, FOURS, BYTES, ONES = 0x55555555, 0x33333333, 0x0F0F0F0F, 0x01010101
TYPES = ("s32", "s8", "u8")


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, source.dims, out)
    if source.element_type not in TYPES or not is_integer(out):
        raise WorkloadError(f"popcount takes {', '.join(TYPES)}, found {plain(source)}")


def popcount_parts(
    shapes: Sequence[Shape], out: Shape, attributes: Attributes
) -> list[CompositePart]:
    """Return the operations of a popcount."""
    recipe, x = Recipe(shapes), "0"
    if shapes[0].dtype.itemsize == 1:  # an engine extends the sign of a byte
        x = recipe.scalar("and", x, 0xFF)
    pairs = recipe.scalar("and", recipe.scalar("shift_right_logical", x, 1), PAIRS)
    x = recipe.binary("subtract", x, pairs, ())
    fours = recipe.scalar("and", recipe.scalar("shift_right_logical", x, 2), FOURS)
    x = recipe.binary("add", recipe.scalar("and", x, FOURS), fours, ())
    eights = recipe.scalar("shift_right_logical", x, 4)
    x = recipe.scalar("and", recipe.binary("add", x, eights, ()), BYTES)
    recipe.scalar("shift_right_logical", recipe.scalar("multiply", x, ONES), 24)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    (array,) = arrays
    words = array.astype(f"u{array.dtype.itemsize}")
    counted: Array = np.bitwise_count(words).astype(np.int64)
    return counted


POPCOUNT = Row(
    operands=ONE_SHAPE,
    attributes=Attributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(popcount_parts),
    exact=_exact,
    computes=True,
    parts=popcount_parts,
)
