"""Elements at places that are known only when running, made of comparisons and selects.

Of all elements along an axis the one whose number is the place is kept, all others become 0, and
the sum is the element. Values stay as they are (but -0.0 becomes +0.0), and cycles depend on no
value.
Each place takes work for all elements of the axis.
"""

from __future__ import annotations

import numpy as np

from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView


def clamped(form: ModelForm, places: ModelValue, most: int) -> ModelView:
    """Return places moved inside 0 to `most`, as XLA does, in s32."""
    shape = form.shape(places)
    inside = form.view(places)
    if shape.element_type != "s32":
        inside = form.unary(inside, "cast", "s32")
    shape = Shape("s32", shape.dims)
    for operator, end in (("max", 0), ("min", most)):
        limit = np.broadcast_to(np.array(end, np.int32), shape.dims)
        inside = form.binary(operator, inside, limit, shape)
    return inside


def at_places(form: ModelForm, value: ModelValue, places: ModelView, batch: int) -> ModelView:
    """Return the elements of [batch..., n, rest...] at places [batch..., m].

    batch: how many dimensions both have in common, in front. Places are within 0 and n - 1.
    """
    shape, many = form.shape(value), places.dims[-1]
    front, (size, *rest) = shape.dims[:batch], shape.dims[batch:]
    inner = () if many == 1 else (many,)  # a dimension of one element is put in at the end
    count = batch + len(inner)
    seen = form.reshape(places, Shape("s32", (*front, *inner)))
    wide = (*front, *inner, size)
    line = np.arange(size, dtype=np.int32).reshape(*(1 for _ in wide[:-1]), size)
    is_it = form.binary(
        "equal",
        seen.spread(wide, range(count)),
        np.broadcast_to(line, wide),
        Shape("pred", wide),
    )
    dims = (*wide, *rest)
    elements = form.view(value).spread(dims, (*range(batch), *range(count, len(dims))))
    chosen = is_it.spread(dims, range(count + 1))
    kept = _kept(form, chosen, elements, Shape(shape.element_type, dims))
    reduction = "max" if shape.element_type == "pred" else "sum"
    out = Shape(shape.element_type, (*front, *inner, *rest))
    found = form.reduce(reduction, kept, [count], out)
    return form.reshape(found, Shape(shape.element_type, (*front, many, *rest)))


def _kept(form: ModelForm, chosen: ModelView, elements: ModelView, out: Shape) -> ModelView:
    """Return the chosen elements, and 0 where the others are."""
    if out.element_type == "pred":
        return form.binary("and", chosen, elements, out)
    return form.select(chosen, elements, np.broadcast_to(np.zeros((), out.dtype), out.dims), out)
