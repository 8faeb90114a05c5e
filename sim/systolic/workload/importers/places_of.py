"""The places of the largest or the least elements: an argmax, and the first elements in order."""

from __future__ import annotations

from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView


def place_of_extreme(
    form: ModelForm, value: ModelValue, axis: int, *, largest: bool, last: bool = False
) -> ModelView:
    """Return the place of the extreme of each line along an axis, in s32; the first, or the last.

    A NaN counts as the extreme, as in XLA and numpy.
    """
    shape = form.shape(value)
    dims = [size for n, size in enumerate(shape.dims) if n != axis]
    return _made(
        form, "argmax" if largest else "argmin", value, Shape("s32", dims), axis=axis,
        last=last or None,
    )  # fmt: skip


def first_in_order(
    form: ModelForm,
    value: ModelValue,
    axis: int,
    count: int,
    *,
    largest: bool,
    nan_last: bool = False,
) -> tuple[ModelView, ModelView]:
    """Return the first elements of each line along an axis in order, and their places, in s32.

    Of equal elements the first comes first, and a NaN before all numbers, or behind them.
    """
    shape = form.shape(value)
    dims = [count if n == axis else size for n, size in enumerate(shape.dims)]
    values, places = (
        _made(form, "top_k", value, Shape(kind, dims), k=count, axis=axis, largest=largest,
              nan_last=nan_last or None, gives=gives)
        for gives, kind in (("values", shape.element_type), ("indices", "s32"))
    )  # fmt: skip
    return values, places


def _made(
    form: ModelForm, kind: str, value: ModelValue, out: Shape, **attributes: object
) -> ModelView:
    name = form.node(kind, (form.whole(value),), out, **attributes)
    return ModelView(name, out.dims, tuple(range(out.rank)))
