"""Rows of HLO opcodes that put elements into other places: shapes, boxes, paddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.layout import Shape
from systolic.workload.importers.form import Form, Value, View
from systolic.workload.importers.hlo.attributes import (
    number,
    numbers,
    paddings,
    slices,
)
from systolic.workload.importers.hlo.context import (
    CannotLowerError,
    Context,
    Row,
    one_number,
)
from systolic.workload.importers.hlo.module import Instruction


def _broadcast(at: Context, made: Instruction, operands: list[Value]) -> Value:
    dims, value = numbers(made, "dimensions", ()), operands[0]
    if list(dims) != sorted(dims):
        order = sorted(range(len(dims)), key=lambda axis: dims[axis])
        value = at.form.transpose(value, order)
        dims = tuple(sorted(dims))
    return at.form.view(value).spread(made.array.dims, dims)


def _reshape(at: Context, made: Instruction, operands: list[Value]) -> Value:
    return at.form.reshape(operands[0], made.array)


def _transpose(at: Context, made: Instruction, operands: list[Value]) -> Value:
    return at.form.transpose(operands[0], numbers(made, "dimensions", ()), made.array)


def _slice(at: Context, made: Instruction, operands: list[Value]) -> Value:
    found = slices(made)
    if all(s.stop > s.start for s in found) and _is_all(found, at.form.shape(operands[0])):
        return operands[0]
    return _box(at.form, at.form.whole(operands[0]), found, made.array)


def _is_all(found: Sequence[slice], shape: Shape) -> bool:
    return [(s.start, s.stop, s.step) for s in found] == [(0, size, 1) for size in shape.dims]


def _box(form: Form, tensor: str, found: Sequence[slice], out: Shape) -> Value:
    step = tuple(s.step for s in found)
    name = form.node(
        "slice",
        (tensor,),
        out,
        start=tuple(s.start for s in found),
        stop=tuple(s.stop for s in found),
        step=step if any(each > 1 for each in step) else None,
    )
    return View(name, out.dims, tuple(range(out.rank)))


def _concatenate(at: Context, made: Instruction, operands: list[Value]) -> Value:
    (axis,) = numbers(made, "dimensions")
    inputs = [at.form.whole(each) for each in operands]
    if len(inputs) == 1:
        return operands[0]
    name = at.form.node("concat", inputs, made.array, axis=axis)
    return View(name, made.array.dims, tuple(range(made.array.rank)))


def _pad(at: Context, made: Instruction, operands: list[Value]) -> Value:
    source, value = operands
    single, found = one_number(value), paddings(made)
    if single is None:
        raise CannotLowerError("a padding whose value is known only when running")
    if any(inner for _, _, inner in found):
        raise CannotLowerError("interior padding")
    tensor, dims = at.form.whole(source), at.form.shape(source).dims
    cut = [
        slice(max(-low, 0), size - max(-high, 0), 1)
        for size, (low, high, _) in zip(dims, found, strict=True)
    ]
    element_type = made.array.element_type
    if not _is_all(cut, at.form.shape(source)):
        inner = Shape(element_type, [s.stop - s.start for s in cut])
        tensor = at.form.whole(_box(at.form, tensor, cut, inner))
    low = tuple(max(each, 0) for each, _, _ in found)
    high = tuple(max(each, 0) for _, each, _ in found)
    name = at.form.node("pad", (tensor,), made.array, low=low, high=high, value=single or None)
    return View(name, made.array.dims, tuple(range(made.array.rank)))


def _dynamic_slice(at: Context, made: Instruction, operands: list[Value]) -> Value:
    source, *places = operands
    if not all(isinstance(place, np.ndarray) for place in places):
        raise CannotLowerError("a place that is known only when running")
    sizes, dims = numbers(made, "dynamic_slice_sizes"), at.form.shape(source).dims
    starts = _clamped(places, dims, sizes)
    found = [slice(start, start + size, 1) for start, size in zip(starts, sizes, strict=True)]
    if _is_all(found, at.form.shape(source)):
        return source
    return _box(at.form, at.form.whole(source), found, made.array)


def _bitcast(at: Context, made: Instruction, operands: list[Value]) -> Value:
    """The same bytes in another shape: seen in the order of memory, and from there put back.

    How the operand lies is what the text says of it, not how the form lets it lie.
    """
    (value,), (before,), after = operands, at.operand_shapes, made.array
    assert isinstance(before, Shape)
    if before.element_type != after.element_type:
        raise CannotLowerError("the bits of one type taken as another")
    if before.layout.tiles or after.layout.tiles:
        raise CannotLowerError("a bitcast between tiles")
    form = at.form
    memory = form.transpose(value, tuple(reversed(before.layout.minor_to_major)))
    back = tuple(reversed(after.layout.minor_to_major))
    seen = form.reshape(memory, Shape(after.element_type, [after.dims[a] for a in back]))
    return form.transpose(seen, sorted(range(len(back)), key=lambda axis: back[axis]))


def _dynamic_update_slice(at: Context, made: Instruction, operands: list[Value]) -> Value:
    """Put a box into a tensor at a known place: what is around it, and the box, side by side."""
    source, update, *places = operands
    if not all(isinstance(place, np.ndarray) for place in places):
        raise CannotLowerError("a place that is known only when running")
    dims, sizes = at.form.shape(source).dims, at.form.shape(update).dims
    starts = _clamped(places, dims, sizes)
    return _placed(at.form, source, update, starts, sizes, made.array)


def _placed(
    form: Form,
    source: Value,
    update: Value,
    starts: Sequence[int],
    sizes: Sequence[int],
    out: Shape,
) -> Value:
    """Join what lies before the box, the box, and what lies behind it, along one axis at a time."""
    axes = [axis for axis, size in enumerate(sizes) if size != out.dims[axis]]
    if not axes:
        return update
    axis, start = axes[0], starts[axes[0]]
    stop = start + sizes[axis]
    middle_dims = [*out.dims[:axis], sizes[axis], *out.dims[axis + 1 :]]
    middle = update
    if len(axes) > 1:
        inner = Shape(out.element_type, middle_dims)
        cut = _part(form, source, out, axis, start, stop)
        middle = _placed(form, cut, update, starts, sizes, inner)
    parts = [
        _part(form, source, out, axis, 0, start),
        middle,
        _part(form, source, out, axis, stop, out.dims[axis]),
    ]
    inputs = [form.whole(part) for part in parts if part is not None]
    name = form.node("concat", inputs, out, axis=axis)
    return View(name, out.dims, tuple(range(out.rank)))


def _part(form: Form, source: Value, out: Shape, axis: int, start: int, stop: int) -> Value:
    """Return what a tensor has between two places of an axis; None if that is nothing."""
    if start == stop:
        return None
    found = [slice(0, size, 1) for size in out.dims]
    found[axis] = slice(start, stop, 1)
    if isinstance(source, np.ndarray):
        return source[tuple(found)]
    dims = [s.stop - s.start for s in found]
    return _box(form, form.whole(source), found, Shape(out.element_type, dims))


def _clamped(places: Sequence[Value], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return known places, moved inside as XLA does."""
    return [
        min(max(int(place), 0), whole - size)  # type: ignore[arg-type]
        for place, whole, size in zip(places, dims, sizes, strict=True)
    ]


def _reverse(at: Context, made: Instruction, operands: list[Value]) -> Value:
    found: Value = operands[0]
    for axis in numbers(made, "dimensions"):
        found = at.form.take(found, axis, range(made.array.dims[axis] - 1, -1, -1))
    return found


def _gather(at: Context, made: Instruction, operands: list[Value]) -> Value:
    """Take known places along one dimension, as `x[places]` or `take` do.

    Each line of places says where one slice begins, which is whole along all other dimensions.
    """
    source, places = operands
    if not isinstance(places, np.ndarray):
        raise CannotLowerError("places that are known only when running")
    dims, sizes = at.form.shape(source).dims, numbers(made, "slice_sizes")
    starts = numbers(made, "start_index_map")
    moved = [axis for axis in starts if sizes[axis] != dims[axis]]
    if len(starts) != 1 or moved != list(starts) or sizes[moved[0]] != 1:
        raise CannotLowerError("places along more than one dimension at once")
    (axis,) = moved
    if made.attributes.get("operand_batching_dims", "{}") != "{}":
        raise CannotLowerError("a gather of batches")
    batch = [n for d, n in enumerate(places.shape) if d != number(made, "index_vector_dim")]
    flat = np.clip(places.reshape(-1), 0, dims[axis] - 1)
    found = at.form.take(source, axis, [int(each) for each in flat])
    return _with_batch(at.form, made, found, axis, batch)


def _with_batch(
    form: Form, made: Instruction, found: View, axis: int, batch: Sequence[int]
) -> Value:
    """Put the dimensions of the places where the result has them."""
    offsets = numbers(made, "offset_dims", ())
    collapsed = axis in numbers(made, "collapsed_slice_dims", ())
    rest = [d for d in range(len(found.dims)) if d != axis]
    kind = made.array.element_type
    turned = form.transpose(found, [axis, *rest])
    kept = [found.dims[d] for d in rest]
    if not collapsed:
        kept.insert(axis, 1)
    seen = form.reshape(turned, Shape(kind, [*batch, *kept]))
    places = [d for d in range(made.array.rank) if d not in offsets]
    order = [*places, *offsets]
    return form.transpose(seen, sorted(range(len(order)), key=lambda n: order[n]))


PLACES: dict[str, Row] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "reverse": _reverse,
    "gather": _gather,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
}
