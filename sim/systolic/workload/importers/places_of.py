"""The places of the largest or the least elements, made of comparisons and reductions.

The place is found as a number: n minus the largest of n - place among the elements that equal the
extreme one. A NaN counts as the extreme, as in XLA and numpy. Places below 2^24 are
exact in float32.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array, Integers
from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView

MOST_PLACES = 1 << 24


def extreme(
    form: ModelForm, value: ModelValue, axis: int, *, largest: bool
) -> tuple[ModelView, ModelView]:
    """Return the extreme of each line along an axis, and its first place there, in s32."""
    shape = form.shape(value)
    size = shape.dims[axis]
    kept = tuple(d for d in range(shape.rank) if d != axis)
    dims = tuple(shape.dims[d] for d in kept)
    found = form.reduce("max" if largest else "min", value, [axis], Shape(shape.element_type, dims))
    single = Shape("f32", shape.dims)
    is_it = form.binary("equal", value, found.spread(shape.dims, kept), single)
    is_nan = form.binary("not_equal", value, value, single)
    either = form.binary("max", is_it, is_nan, single)
    behind = form.binary("multiply", either, _along(size - np.arange(size), shape, axis), single)
    first = form.reduce("max", behind, [axis], Shape("f32", dims))
    place = form.unary(first, "activation", function="identity", scale=-1.0, bias=float(size))
    return found, form.unary(place, "cast", "s32")


def top(
    form: ModelForm, value: ModelValue, count: int, *, largest: bool
) -> tuple[ModelView, ModelView]:
    """Return the `count` largest of each line along the last axis, in order, and their places."""
    shape = form.shape(value)
    axis, size = shape.rank - 1, shape.dims[-1]
    lowest = np.array(-np.inf if largest else np.inf, shape.dtype)
    values, places = list[str](), list[str]()
    column = (*shape.dims[:-1], 1)
    for number in range(count):
        found, place = extreme(form, value, axis, largest=largest)
        values.append(form.whole(form.reshape(found, Shape(shape.element_type, column))))
        places.append(form.whole(form.reshape(place, Shape("s32", column))))
        if number + 1 < count:
            at = form.unary(place, "cast", "f32")
            line = _along(np.arange(size), shape, axis)
            taken = form.binary(
                "equal", line, at.spread(shape.dims, tuple(range(axis))), Shape("pred", shape.dims)
            )
            value = form.select(taken, np.broadcast_to(lowest, shape.dims), value, shape)
    return (
        _joined(form, values, Shape(shape.element_type, (*shape.dims[:-1], count))),
        _joined(form, places, Shape("s32", (*shape.dims[:-1], count))),
    )


def _along(line: Integers, shape: Shape, axis: int) -> Array:
    """Return numbers along an axis, the same everywhere else."""
    sizes = [len(line) if d == axis else 1 for d in range(shape.rank)]
    return np.broadcast_to(line.astype(np.float32).reshape(sizes), shape.dims)


def _joined(form: ModelForm, names: list[str], out: Shape) -> ModelView:
    name = names[0] if len(names) == 1 else form.node("concat", names, out, axis=out.rank - 1)
    return ModelView(name, out.dims, tuple(range(out.rank)))
