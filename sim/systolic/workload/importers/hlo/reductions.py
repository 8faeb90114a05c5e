"""Rows of `reduce` and `reduce-window`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.importers.arithmetic import one_number
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue, ModelView
from systolic.workload.importers.hlo.attributes import (
    numbers,
    window,
)
from systolic.workload.importers.hlo.context import HloContext, HloRow
from systolic.workload.importers.hlo.elementwise import pair
from systolic.workload.importers.hlo.module import Computation, HloInstruction, HloShape
from systolic.workload.importers.places_of import place_of_extreme
from systolic.workload.importers.windows import NEUTRAL, ModelWindow, pooled


def reducer(at: HloContext, region: Computation) -> str:
    """Return the reduction that a computation of two values does.

    It is tried on some pairs: what it does to these, not how it is written, says which one it is.
    """
    kinds = [each.shape for each in region.parameters]
    if len(kinds) == 2 and isinstance(kinds[0], Shape) and kinds[0] == kinds[1]:
        dtype, truths = kinds[0].dtype, kinds[0].element_type == "pred"
        pairs = [(0, 1), (1, 1), (0, 0)] if truths else [(2, 3), (5, 4), (1, 6)]
        found = [at.tried(region, [np.array(n, dtype) for n in pair]) for pair in pairs]
        results = tuple(float(each) for each in found if isinstance(each, np.ndarray))
        for name, wanted in (OF_TRUTHS if truths else OF_NUMBERS).items():
            if results == wanted:
                return name
    raise CannotLowerError("a reduction by a computation of its own")


OF_NUMBERS = {
    "sum": (5.0, 9.0, 7.0),
    "product": (6.0, 20.0, 6.0),
    "max": (3.0, 5.0, 6.0),
    "min": (2.0, 4.0, 1.0),
}
"""What reductions make of the pairs (2, 3), (5, 4), (1, 6)."""
OF_TRUTHS = {"max": (1.0, 1.0, 0.0), "min": (0.0, 1.0, 0.0)}
"""What "any" and "all" make of (0, 1), (1, 1), (0, 0)."""


def _begins_neutral(reduction: str, begin: ModelValue, shape: Shape) -> bool:
    single = one_number(begin)
    if single is None:
        return False
    limits = shape.type.integer_range
    if limits is not None and reduction in ("max", "min"):
        return single == limits[0 if reduction == "max" else 1]
    return single == NEUTRAL[reduction]


def _reduced(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    if len(operands) == 4:
        return _place_of_extreme(at, made, operands)
    if len(operands) != 2:
        raise CannotLowerError("a reduction of several arrays at once")
    source, begin = operands
    out = _single(made.shape)
    reduction = reducer(at, at.named(made, "to_apply"))
    kind = at.form.shape(source).element_type
    if at.form.shape(source).type.is_narrow and kind != "pred":
        raise CannotLowerError(f"a reduction of {kind}")
    axes = numbers(made, "dimensions")
    if isinstance(source, np.ndarray) and isinstance(begin, np.ndarray):
        return _known_reduction(reduction, source, begin, axes, out)
    source = _untiled(at, source, reduction, axes)
    found: ModelValue = at.form.reduce(reduction, source, axes, out) if axes else source
    if not _begins_neutral(reduction, begin, at.form.shape(source)):
        operator = {"sum": "add", "product": "multiply"}.get(reduction, reduction)
        row = pair(operator)
        plain = HloInstruction(made.name, operator, out, (), "", {}, made.offset)
        found = row(at, plain, [found, begin])
    return (found,) if isinstance(made.shape, tuple) else found


def _place_of_extreme(
    at: HloContext, made: HloInstruction, operands: list[ModelValue]
) -> ModelValue:
    """Return an argmax or argmin: a reduction of values together with their numbers."""
    source, line, _, _ = operands
    axes, form = numbers(made, "dimensions"), at.form
    shape = form.shape(source)
    largest = _keeps_largest(at, at.named(made, "to_apply"), form.shape(line))
    counted = len(axes) == 1 and is_counted(line, axes[0])
    if largest is None or not counted:
        raise CannotLowerError("a reduction of several arrays at once that is no argmax or argmin")
    place = place_of_extreme(form, source, axes[0], largest=largest)
    narrow = shape.type.is_narrow
    wide = form.unary(source, "cast", "s32") if narrow else source
    kept = Shape("s32" if narrow else shape.element_type, place.dims)
    found = form.reduce("max" if largest else "min", wide, axes, kept)
    if narrow:
        found = form.unary(found, "cast", shape.element_type)
    element_type = form.shape(line).element_type
    return found, place if element_type == "s32" else form.unary(place, "cast", element_type)


def is_counted(line: ModelValue, axis: int) -> bool:
    """Return whether a value is known, and 0, 1, 2, ... along an axis."""
    if not isinstance(line, np.ndarray):
        return False
    sizes = [-1 if d == axis else 1 for d in range(line.ndim)]
    return np.array_equal(
        line, np.broadcast_to(np.arange(line.shape[axis]).reshape(sizes), line.shape)
    )


def _keeps_largest(at: HloContext, region: Computation, places: Shape) -> bool | None:
    """Return whether a computation keeps the larger of two values (False: the less), and the first.

    It is tried on some pairs: what it does to these, not how it is written, says which one it is.
    None: neither.
    """
    kinds = [each.shape for each in region.parameters]
    if not all(isinstance(kind, Shape) for kind in kinds):
        return None
    value, place = (kind.dtype for kind in kinds[:2] if isinstance(kind, Shape))
    nan = float("nan")
    pairs = [(0, 0, 1, 1), (1, 0, 0, 1), (1, 0, 1, 1), (1, 1, 1, 0), (nan, 0, 1, 1), (1, 0, nan, 1)]
    if value.kind in "iub":
        pairs = pairs[:4]
    found = []
    for a, i, b, j in pairs:
        given: list[ModelValue] = [
            np.array(a, value),
            np.array(i, place),
            np.array(b, value),
            np.array(j, place),
        ]
        result = at.tried(region, given)
        if not isinstance(result, tuple) or not isinstance(result[1], np.ndarray):
            return None
        found.append(int(result[1]))
    rest = [0, 1][: len(found) - 4]
    wanted = {True: [1, 0, 0, 0, *rest], False: [0, 1, 0, 0, *rest]}
    return next((largest for largest, each in wanted.items() if found == each), None)


def _single(shape: HloShape) -> Shape:
    found = shape[0] if isinstance(shape, tuple) else shape
    assert isinstance(found, Shape)
    return found


def _known_reduction(
    reduction: str, source: Array, begin: Array, axes: tuple[int, ...], out: Shape
) -> ModelValue:
    functions: dict[str, np.ufunc] = {
        "sum": np.add,
        "product": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
    }
    wide = source if source.dtype.kind in "iub" else source.astype(np.float64)
    found = functions[reduction].reduce(wide, axis=axes)
    whole = functions[reduction](found, begin.astype(found.dtype))
    return np.asarray(whole, out.dtype)


def _window_reduced(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """See the dimensions over which windows move as the pixels of images, and pool these."""
    source, begin = operands
    reduction = reducer(at, at.named(made, "to_apply"))
    shape = at.form.shape(source)
    seen = window(made, shape.rank)
    if not _begins_neutral(reduction, begin, shape):
        raise CannotLowerError("windows that begin with another number than the neutral one")
    found = pooled(at.form, source, seen, reduction, made.array)
    moved = tuple(d for d, size in enumerate(seen.size) if size > 1)
    if isinstance(found, ModelView) and found.is_whole and _tiles(seen, shape.dims):
        at.tiled[found.tensor] = (source, moved, reduction)
    return found


def _tiles(seen: ModelWindow, dims: Sequence[int]) -> bool:
    """Return whether windows lie side by side, and each element is in one of them."""
    plain = seen.stride == seen.size and max((*seen.dilation, *seen.base_dilation)) == 1
    made = seen.made(tuple(dims))
    ends = (n * size - low for n, size, low in zip(made, seen.size, seen.low, strict=True))
    return (
        plain
        and min(seen.low) >= 0
        and all(end >= dim for end, dim in zip(ends, dims, strict=True))
    )


def _untiled(at: HloContext, source: ModelValue, reduction: str, axes: Sequence[int]) -> ModelValue:
    """Return what windows were reduced of, if the same reduction follows along all of them.

    Compilers reduce long lines in two steps.
    """
    if not isinstance(source, ModelView) or not source.is_whole:
        return source
    before, moved, how = at.tiled.get(source.tensor, (source, (), ""))
    return before if how == reduction and {*moved} <= {*axes} else source


REDUCTIONS: dict[str, HloRow] = {"reduce": _reduced, "reduce-window": _window_reduced}
