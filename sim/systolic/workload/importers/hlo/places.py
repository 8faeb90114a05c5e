"""Rows of HLO opcodes that put elements into other places: shapes, boxes, paddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.layout import Shape
from systolic.workload.importers.arithmetic import one_number
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView
from systolic.workload.importers.hlo.attributes import (
    numbers,
    paddings,
    slices,
)
from systolic.workload.importers.hlo.context import HloContext, HloRow
from systolic.workload.importers.hlo.module import HloInstruction
from systolic.workload.importers.runtime_places import at_places, clamped


def _broadcast(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    dims, value = numbers(made, "dimensions", ()), operands[0]
    if list(dims) != sorted(dims):
        order = sorted(range(len(dims)), key=lambda axis: dims[axis])
        value = at.form.transpose(value, order)
        dims = tuple(sorted(dims))
    return at.form.view(value).spread(made.array.dims, dims)


def _reshape(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    return at.form.reshape(operands[0], made.array)


def _transpose(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    return at.form.transpose(operands[0], numbers(made, "dimensions", ()), made.array)


def _slice(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    return at.form.box(operands[0], slices(made))


def _concatenate(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    (axis,) = numbers(made, "dimensions")
    inputs = [at.form.whole(each) for each in operands]
    if len(inputs) == 1:
        return operands[0]
    name = at.form.node("concat", inputs, made.array, axis=axis)
    return ModelView(name, made.array.dims, tuple(range(made.array.rank)))


def _pad(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    source, value = operands
    single, found = one_number(value), paddings(made)
    if single is None:
        raise CannotLowerError("a padding whose value is known only when running")
    return at.form.padded(source, found, single)


def _dynamic_slice(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    source, *places = operands
    sizes = numbers(made, "dynamic_slice_sizes")
    found: ModelValue = source
    for axis, (place, size) in enumerate(zip(places, sizes, strict=True)):
        found = _slid(at.form, found, axis, place, size)
    return found


def _slid(
    form: ModelForm, value: ModelValue, axis: int, place: ModelValue, size: int
) -> ModelValue:
    """Return `size` elements along an axis, from a place on that may be known only when running."""
    shape = form.shape(value)
    whole = shape.dims[axis]
    if size == whole:
        return value
    if isinstance(place, np.ndarray):
        start = min(max(int(place), 0), whole - size)
        cut = [slice(0, n, 1) for n in shape.dims]
        cut[axis] = slice(start, start + size, 1)
        return value[tuple(cut)] if isinstance(value, np.ndarray) else form.box(value, cut)
    first = clamped(form, place, whole - size)
    line = np.arange(size, dtype=np.int32)
    places = form.binary("add", first.spread((size,), ()), line, Shape("s32", (size,)))
    order = [axis, *(d for d in range(shape.rank) if d != axis)]
    found = at_places(form, form.transpose(value, order), places, 0)
    return form.transpose(found, sorted(range(len(order)), key=lambda n: order[n]))


def _dynamic_update_slice(
    at: HloContext, made: HloInstruction, operands: list[ModelValue]
) -> ModelValue:
    """Put a box into a tensor at a known place: what is around it, and the box, side by side."""
    source, update, *places = operands
    dims, sizes = at.form.shape(source).dims, at.form.shape(update).dims
    if not all(isinstance(place, np.ndarray) for place in places):
        return _written(at.form, source, update, places, made.array)
    starts = _clamped(places, dims, sizes)
    return _placed(at.form, source, update, starts, made.array)


def _written(
    form: ModelForm,
    source: ModelValue,
    update: ModelValue,
    places: Sequence[ModelValue],
    out: Shape,
) -> ModelValue:
    """Put a box at a place that is known only when running: each element is selected.

    Along an axis element j of the result is element j - start of the box, if there is such a one.
    """
    moved: ModelValue = update
    inside: ModelValue = np.broadcast_to(np.array(True), out.dims)
    for axis, place in enumerate(places):
        size, whole = form.shape(update).dims[axis], out.dims[axis]
        if size == whole:
            continue
        first = clamped(form, place, whole - size)
        line = Shape("s32", (whole,))
        count = np.arange(whole, dtype=np.int32)
        apart = form.binary("subtract", count, first.spread((whole,), ()), line)
        truth = Shape("pred", (whole,))
        end = np.broadcast_to(np.array(size, np.int32), (whole,))
        zero = np.broadcast_to(np.array(0, np.int32), (whole,))
        within = form.binary(
            "and",
            form.binary("greater_equal", apart, zero, truth),
            form.binary("less", apart, end, truth),
            truth,
        )
        shape = form.shape(moved)
        order = [axis, *(d for d in range(shape.rank) if d != axis)]
        taken = at_places(form, form.transpose(moved, order), clamped(form, apart, size - 1), 0)
        moved = form.transpose(taken, sorted(range(len(order)), key=lambda n: order[n]))
        spread = within.spread(out.dims, (axis,))
        inside = (
            spread
            if isinstance(inside, np.ndarray)
            else form.binary("and", inside, spread, Shape("pred", out.dims))
        )
    return form.select(inside, moved, source, out)


def _placed(
    form: ModelForm, source: ModelValue, update: ModelValue, starts: Sequence[int], out: Shape
) -> ModelValue:
    """Join what lies before the box, the box, and what lies behind it, along one axis at a time."""
    sizes = form.shape(update).dims
    axes = [axis for axis, size in enumerate(sizes) if size != out.dims[axis]]
    if not axes:
        return update
    axis, start = axes[0], starts[axes[0]]
    stop = start + sizes[axis]
    middle_dims = [*out.dims[:axis], sizes[axis], *out.dims[axis + 1 :]]
    middle = update
    if len(axes) > 1:
        inner = Shape(out.element_type, middle_dims)
        cut = _part(form, source, out, axis, slice(start, stop, 1))
        middle = _placed(form, cut, update, starts, inner)
    parts = [
        _part(form, source, out, axis, slice(0, start, 1)),
        middle,
        _part(form, source, out, axis, slice(stop, out.dims[axis], 1)),
    ]
    inputs = [form.whole(part) for part in parts if part is not None]
    name = form.node("concat", inputs, out, axis=axis)
    return ModelView(name, out.dims, tuple(range(out.rank)))


def _part(form: ModelForm, source: ModelValue, out: Shape, axis: int, within: slice) -> ModelValue:
    """Return what a tensor has between two places of an axis; None if that is nothing."""
    if within.start == within.stop:
        return None
    found = [slice(0, size, 1) for size in out.dims]
    found[axis] = within
    if isinstance(source, np.ndarray):
        return source[tuple(found)]
    return form.box(source, found)


def _clamped(places: Sequence[ModelValue], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return known places, moved inside as XLA does."""
    return [
        min(max(int(place), 0), whole - size)  # type: ignore[arg-type]
        for place, whole, size in zip(places, dims, sizes, strict=True)
    ]


def _reverse(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    found: ModelValue = operands[0]
    for axis in numbers(made, "dimensions"):
        found = at.form.take(found, axis, range(made.array.dims[axis] - 1, -1, -1))
    return found


def _bitcast(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """The same bytes in another shape: seen in the order of memory, and from there put back.

    How the operand lies is what the text says of it, not how the form lets it lie.
    """
    (value,), (before,), after = operands, at.operand_shapes, made.array
    assert isinstance(before, Shape)
    if before.element_type != after.element_type:
        alike = (before.dims, before.layout) == (after.dims, after.layout)
        if isinstance(value, np.ndarray) and alike and before.type.bits == after.type.bits:
            return value.view(after.dtype)
        raise CannotLowerError("the bits of one type taken as another")
    if before.layout.tiles or after.layout.tiles:
        raise CannotLowerError("a bitcast between tiles")
    form = at.form
    memory = form.transpose(value, tuple(reversed(before.layout.minor_to_major)))
    back = tuple(reversed(after.layout.minor_to_major))
    seen = form.reshape(memory, Shape(after.element_type, [after.dims[a] for a in back]))
    return form.transpose(seen, sorted(range(len(back)), key=lambda axis: back[axis]))


PLACES: dict[str, HloRow] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "reverse": _reverse,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
}
