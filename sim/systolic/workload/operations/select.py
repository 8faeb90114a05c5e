"""Select: of two tensors element by element the one that a third says, broadcast by XLA's rules.

An element of `predicate` that is not 0 takes `on_true`'s, 0 takes `on_false`'s; its type
is any, as a rule `pred`. Both are of the result's type, so that every bit of what is taken stays,
also of a NaN (XLA's Select; broadcasting as in seed 003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic import layout  # its rules of broadcasting load when they are used
from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import LayoutError, Shape
from systolic.workload.operations.binary import Dimensions
from systolic.workload.operations.row import Attributes, Operand, Row, Rules, check_gives, plain


@dataclass(frozen=True, slots=True)
class SelectAttributes(Attributes):
    """The dimensions that dimensions of operands of a lower rank are matched with."""

    broadcast_dimensions: Annotated[
        Dimensions | None,
        Field(
            description="for each dimension of the operands of a lower rank, that of the result "
            "with which it is matched (needed between different ranks, but not by a scalar)",
        ),
    ] = None

    @property
    def matched(self) -> tuple[int, ...]:
        """Return the dimensions given, none if they were left out."""
        return self.broadcast_dimensions or ()


def _result_dims(shapes: Sequence[Shape], attributes: SelectAttributes) -> tuple[int, ...]:
    """Return the dimensions of the result; WorkloadError names the rule and all shapes."""
    given, rank = attributes.matched, max(shape.rank for shape in shapes)
    _, on_true, on_false = shapes
    if on_true.element_type != on_false.element_type:
        raise WorkloadError(
            f"on_true and on_false with different element types: {plain(on_true)} and "
            f"{plain(on_false)}"
        )
    full = [shape.dims for shape in shapes if shape.rank == rank]
    lower = [shape.dims for shape in shapes if 0 < shape.rank < rank]
    try:
        if given and not lower:
            raise LayoutError(f"broadcast_dimensions {list(given)}: no operand has a lower rank")
        dims = full[0]
        for other in (*full[1:], *lower):
            matched = given if len(other) < rank else ()
            dims = layout.broadcast_shapes(dims, other, matched, on_true.element_type)
    except LayoutError as error:
        found = ", ".join(
            f"{name} {plain(shape)}"
            for name, shape in zip(("predicate", "on_true", "on_false"), shapes, strict=True)
        )
        raise WorkloadError(f"{error} ({found})") from None
    return dims


def _check(shapes: Sequence[Shape], out: Shape, attributes: SelectAttributes) -> None:
    dims = _result_dims(shapes, attributes)
    check_gives(shapes[1], shapes[1].element_type, dims, out)


def _default_out(shapes: Sequence[Shape], attributes: SelectAttributes) -> Shape:
    return Shape(shapes[1].element_type, _result_dims(shapes, attributes))


def _taken(arrays: Sequence[Array], out: Shape, attributes: SelectAttributes) -> Array:
    """Return the elements that the predicate takes, in the type of the operands."""
    predicate, on_true, on_false = (
        layout.broadcast_in_dim(
            array, out.dims, range(out.rank) if array.ndim == out.rank else attributes.matched
        )
        if array.ndim
        else np.broadcast_to(array, out.dims)
        for array in arrays
    )
    return np.where(predicate.astype(np.float64) != 0, on_true, on_false)


def _exact(arrays: Sequence[Array], out: Shape, attributes: SelectAttributes) -> Array:
    found = _taken(arrays, out, attributes)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return found.astype(np.int64 if found.dtype.kind in "iub" else np.float64)


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: SelectAttributes, rules: Rules
) -> Array:
    return _taken(arrays, out, attributes)


SELECT = Row(
    operands=(
        Operand("predicate", "XLA shape of what says which one is taken"),
        Operand("on_true", "XLA shape of what is taken where the predicate is not 0"),
        Operand("on_false", "XLA shape of what is taken where the predicate is 0"),
    ),
    attributes=SelectAttributes,
    check=_check,
    default_out=_default_out,
    reference=_reference,
    exact=_exact,
    computes=True,
)
