"""Rows of `gather` and `scatter`: slices of a tensor at places along some of its dimensions.

Dimensions along which places are given are seen as one dimension, whose every element has one
number. So a gather takes numbers along one dimension. Numbers that are known when importing become
a `take`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from systolic.arrays import Array, Integers
from systolic.layout import Shape
from systolic.workload.importers.arithmetic import one_number
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import MOST_PLACES, ModelForm, ModelValue, ModelView
from systolic.workload.importers.hlo.attributes import number, numbers
from systolic.workload.importers.hlo.context import HloContext, HloRow
from systolic.workload.importers.hlo.module import HloInstruction
from systolic.workload.importers.hlo.reductions import reducer
from systolic.workload.importers.runtime_places import at_places, clamped
from systolic.workload.operations.dynamic_scatter import MOST_UPDATES

OPERATORS = {"sum": "add", "product": "multiply", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class _Starts:
    """Where slices begin: an array or view [own..., free...] for each dimension they are given for.

    along: these dimensions of the operand. own: dimensions of the places that belong, one by one,
    to the batch dimensions `batch` of the operand.
    """

    along: tuple[int, ...]
    components: tuple[ModelValue, ...]
    batch: tuple[int, ...]
    own: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.dims)) if d not in self.own)

    @property
    def is_known(self) -> bool:
        return all(isinstance(each, np.ndarray) for each in self.components)


def _starts(
    form: ModelForm,
    places: ModelValue,
    along: tuple[int, ...],
    vector: int,
    *,
    batch: tuple[int, ...],
    own: tuple[int, ...],
) -> _Starts:
    """Return places by dimension of the operand; `vector`: where in `places` these lie."""
    lines = form.shape(places).dims
    kept = [d for d in range(len(lines)) if d != vector]
    dims = tuple(lines[d] for d in kept)
    moved = tuple(kept.index(d) for d in own)
    if vector == len(lines):
        return _Starts(along, (places,), batch, moved, dims)
    found = list[ModelValue]()
    for at in range(len(along)):
        cut = [slice(0, n, 1) for n in lines]
        cut[vector] = slice(at, at + 1, 1)
        each = _taken(form, places, cut)
        if isinstance(each, np.ndarray):
            found.append(each.reshape(dims))
        else:
            found.append(form.reshape(each, Shape(form.shape(each).element_type, dims)))
    return _Starts(along, tuple(found), batch, moved, dims)


def _taken(form: ModelForm, value: ModelValue, cut: Sequence[slice]) -> ModelValue:
    if isinstance(value, np.ndarray):
        return value[tuple(cut)]
    return form.known(form.box(value, cut))


def _with_batches(starts: _Starts, dims: Sequence[int], sizes: Sequence[int]) -> _Starts:
    """See a dimension along which the n-th slice begins at n as a batch of both operands.

    Compilers make such places of what was a batch.
    """
    if starts.is_known:
        return starts
    for at, (axis, each) in enumerate(zip(starts.along, starts.components, strict=True)):
        for d in starts.free:
            if sizes[axis] == 1 and starts.dims[d] == dims[axis] and _counts(each, starts.dims, d):
                rest = tuple(n for n in range(len(starts.along)) if n != at)
                return _with_batches(
                    _Starts(
                        tuple(starts.along[n] for n in rest),
                        tuple(starts.components[n] for n in rest),
                        (*starts.batch, axis),
                        (*starts.own, d),
                        starts.dims,
                    ),
                    dims,
                    sizes,
                )
    return starts


def _counts(value: ModelValue, dims: Sequence[int], axis: int) -> bool:
    """Return whether a known array is 0, 1, 2, ... along an axis, and the same along others."""
    if not isinstance(value, np.ndarray):
        return False
    sizes = [-1 if d == axis else 1 for d in range(len(dims))]
    return bool(np.array_equal(value, np.broadcast_to(np.arange(dims[axis]).reshape(sizes), dims)))


def _gather(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    source, places = operands
    form, dims = at.form, at.form.shape(source).dims
    sizes = numbers(made, "slice_sizes")
    batching = numbers(made, "operand_batching_dims", ())
    starts = _starts(
        form,
        places,
        numbers(made, "start_index_map"),
        number(made, "index_vector_dim"),
        batch=batching,
        own=numbers(made, "start_indices_batching_dims", ()),
    )
    dropped = (*numbers(made, "collapsed_slice_dims", ()), *batching)
    starts = _with_batches(starts, dims, sizes)
    cut = [
        slice(0, size if d not in (*starts.along, *starts.batch) else whole, 1)
        for d, (size, whole) in enumerate(zip(sizes, dims, strict=True))
    ]
    boxed = _taken(form, source, cut)
    found = _slices(form, boxed, starts, sizes)
    offsets = numbers(made, "offset_dims", ())
    kept = dict(zip(_kept(len(dims), dropped), offsets, strict=True))
    return _put_in_order(form, found, starts, kept, made.array)


def _kept(rank: int, dropped: Sequence[int]) -> list[int]:
    return [d for d in range(rank) if d not in dropped]


def _slices(
    form: ModelForm, source: ModelValue, starts: _Starts, sizes: Sequence[int]
) -> ModelView:
    """Return [own..., free..., slice along `along`..., the rest of the operand...]."""
    shape = form.shape(source)
    rest = [d for d in range(shape.rank) if d not in (*starts.along, *starts.batch)]
    front = [shape.dims[d] for d in starts.batch]
    indexed, others = [shape.dims[d] for d in starts.along], [shape.dims[d] for d in rest]
    moved = form.transpose(source, [*starts.batch, *starts.along, *rest])
    window = [sizes[d] for d in starts.along]
    free = [starts.dims[d] for d in starts.free]
    out = Shape(shape.element_type, [*front, *free, *window, *others])
    if starts.is_known:
        flat = _known_numbers(starts, front, indexed, window)
        lines = Shape(shape.element_type, [math.prod(front) * math.prod(indexed), *others])
        found = form.take(form.reshape(moved, lines), 0, [int(each) for each in flat.reshape(-1)])
        return form.reshape(found, out)
    lines = Shape(shape.element_type, [*front, math.prod(indexed), *others])
    places = _running_numbers(form, starts, indexed, window)
    found = at_places(form, form.reshape(moved, lines), places, len(front))
    return form.reshape(found, out)


def _known_numbers(
    starts: _Starts, front: Sequence[int], indexed: Sequence[int], window: Sequence[int]
) -> Integers:
    """Return the number of each element that is taken, [own..., free..., window...]."""
    order = (*starts.own, *starts.free)
    total = np.zeros([*(starts.dims[d] for d in order), *(1 for _ in window)], np.int64)
    for n in range(len(front)):
        sizes = [-1 if d == n else 1 for d in range(total.ndim)]
        total = total * front[n] + np.arange(front[n]).reshape(sizes)
    for n, (each, whole, size) in enumerate(zip(starts.components, indexed, window, strict=True)):
        assert isinstance(each, np.ndarray)
        start = np.clip(each.astype(np.int64), 0, whole - size).transpose(order)
        shape = [*start.shape, *(size if d == n else 1 for d in range(len(window)))]
        inside = np.arange(size).reshape([size if d == n else 1 for d in range(len(window))])
        start = start.reshape([*start.shape, *(1 for _ in window)])
        total = total * whole + np.broadcast_to(start + inside, shape)
    return total


def _running_numbers(
    form: ModelForm, starts: _Starts, indexed: Sequence[int], window: Sequence[int]
) -> ModelView:
    """Return the number of each element that is taken, in s32, [own..., free and window]."""
    if math.prod(indexed) > MOST_PLACES:
        raise CannotLowerError(f"places among {math.prod(indexed):,} elements")
    order = (*starts.own, *starts.free)
    shape = Shape("s32", [starts.dims[d] for d in order])
    total: ModelValue = None
    for each, whole, size in zip(starts.components, indexed, window, strict=True):
        start = clamped(form, form.transpose(each, order), whole - size)
        if total is not None:
            factor = np.broadcast_to(np.array(whole, np.int32), shape.dims)
            start = form.binary("add", form.binary("multiply", total, factor, shape), start, shape)
        total = start
    inside = np.zeros((), np.int64)
    for whole, size in zip(indexed, window, strict=True):
        inside = inside[..., None] * whole + np.arange(size)
    offsets = inside.reshape(-1).astype(np.int32)
    own = [starts.dims[d] for d in starts.own]
    many = math.prod(starts.dims[d] for d in starts.free)
    assert total is not None
    flat = form.reshape(total, Shape("s32", [*own, many]))
    if len(offsets) == 1:
        return flat
    wide = Shape("s32", [*own, many, len(offsets)])
    lines = range(len(own) + 1)
    spread = form.view(offsets).spread(wide.dims, (len(own) + 1,))
    each = form.binary("add", flat.spread(wide.dims, tuple(lines)), spread, wide)
    return form.reshape(each, Shape("s32", [*own, many * len(offsets)]))


def _put_in_order(
    form: ModelForm, found: ModelView, starts: _Starts, where: Mapping[int, int], out: Shape
) -> ModelView:
    """Put the dimensions of slices where a gather's result has them.

    where: the dimension of the result for each dimension of the operand that slices keep.
    """
    first = [d for d in range(out.rank) if d not in where.values()]
    rest = [d for d in sorted(where) if d not in (*starts.along, *starts.batch)]
    target = [
        *(first[d] for d in (*starts.own, *starts.free)),
        *(where[d] for d in (*starts.along, *rest) if d in where),
    ]
    order = sorted(range(len(target)), key=lambda n: target[n])
    seen = form.reshape(found, Shape(out.element_type, [out.dims[d] for d in target]))
    # a dimension of 1 that was seen as a batch is missing
    return form.reshape(form.transpose(seen, order), out)


# scatter


def _scatter(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """Put slices at places into a tensor, or combine them with what is there.

    Slices that reach beyond the tensor are left out. Each element of the result takes one element
    of the updates at a time; elements that several updates meet take them in their order.
    """
    if len(operands) != 3:
        raise CannotLowerError("a scatter of several arrays at once")
    source, places, updates = operands
    if not isinstance(places, np.ndarray):
        return _at_running_places(at, made, (source, places, updates))
    form, shape = at.form, at.form.shape(source)
    targets = _targets(made, shape.dims, places, form.shape(updates).dims)
    reduction = _combined(at, made)
    flat = Shape(shape.element_type, [math.prod(shape.dims)])
    lines = form.reshape(updates, Shape(shape.element_type, [targets.size]))
    found: ModelValue = form.reshape(source, flat)
    for turn in _turns(targets.reshape(-1), last_only=reduction is None):
        found = _met(form, found, lines, turn, reduction)
    return form.reshape(found, shape)


def _at_running_places(
    at: HloContext, made: HloInstruction, operands: tuple[ModelValue, ModelValue, ModelValue]
) -> ModelValue:
    """Put slices at places that are known only when running, one element along each of them."""
    source, places, updates = operands
    form, shape, new = at.form, at.form.shape(source), at.form.shape(updates).dims
    batching = numbers(made, "input_batching_dims", ())
    starts = _starts(
        form,
        places,
        numbers(made, "scatter_dims_to_operand_dims"),
        number(made, "index_vector_dim"),
        batch=batching,
        own=numbers(made, "scatter_indices_batching_dims", ()),
    )
    window = numbers(made, "update_window_dims", ())
    dropped = (*numbers(made, "inserted_window_dims", ()), *batching)
    where = dict(zip(_kept(shape.rank, dropped), window, strict=True))
    indexed = (*batching, *starts.along)
    rest = [d for d in range(shape.rank) if d not in indexed]
    whole = all(new[where[d]] == shape.dims[d] for d in rest if d in where)
    if not whole or any(new[where[d]] > 1 for d in starts.along if d in where):
        raise CannotLowerError("slices of several places that are known only when running")
    scattered = [d for d in range(len(new)) if d not in window]
    many, size = math.prod(new[d] for d in scattered), math.prod(shape.dims[d] for d in rest)
    if not 1 <= many <= MOST_UPDATES:
        raise CannotLowerError(f"{many:,} updates at places that are known only when running")
    order = (*indexed, *rest)
    rows = Shape(shape.element_type, [math.prod(shape.dims[d] for d in indexed), size])
    lines = form.transpose(updates, [*scattered, *(where[d] for d in order if d in where)])
    reduction = _combined(at, made)
    found = form.node(
        "dynamic_scatter",
        (
            form.whole(form.reshape(form.transpose(source, order), rows)),
            form.whole(form.reshape(lines, Shape(shape.element_type, [many, size]))),
            form.whole(_scattered_numbers(form, starts, [shape.dims[d] for d in indexed])),
        ),
        rows,
        axis=0,
        combiner=None if reduction is None else OPERATORS[reduction],
    )
    moved = Shape(shape.element_type, [shape.dims[d] for d in order])
    seen = form.reshape(ModelView(found, rows.dims, (0, 1)), moved)
    return form.transpose(seen, [order.index(d) for d in range(shape.rank)])


def _scattered_numbers(form: ModelForm, starts: _Starts, sizes: Sequence[int]) -> ModelView:
    """Return which line of elements each update meets, in s32; -1 where a place is outside."""
    shape = Shape("s32", starts.dims)
    own = [
        np.broadcast_to(
            np.arange(starts.dims[d], dtype=np.int32).reshape(
                [-1 if n == d else 1 for n in range(len(starts.dims))]
            ),
            starts.dims,
        )
        for d in starts.own
    ]
    total: ModelView | None = None
    met: ModelView | None = None
    for each, size in zip((*own, *starts.components), sizes, strict=True):
        place = form.view(each)
        if form.shape(place).element_type != "s32":
            place = form.unary(place, "cast", "s32")
        inside = form.binary(
            "equal", place, clamped(form, place, size - 1), Shape("pred", shape.dims)
        )
        if total is not None and met is not None:
            factor = np.broadcast_to(np.array(size, np.int32), shape.dims)
            place = form.binary("add", form.binary("multiply", total, factor, shape), place, shape)
            inside = form.binary("and", met, inside, Shape("pred", shape.dims))
        total, met = place, inside
    assert total is not None
    assert met is not None
    none = np.broadcast_to(np.array(-1, np.int32), shape.dims)
    found = form.select(met, total, none, shape)
    return form.reshape(found, Shape("s32", [math.prod(shape.dims)]))


def _targets(
    made: HloInstruction, dims: tuple[int, ...], places: Array, updates: tuple[int, ...]
) -> Integers:
    """Return for each element of the updates the number of the element that it meets, or -1."""
    along = numbers(made, "scatter_dims_to_operand_dims")
    window = numbers(made, "update_window_dims", ())
    inserted = numbers(made, "inserted_window_dims", ())
    batching = numbers(made, "input_batching_dims", ())
    own = numbers(made, "scatter_indices_batching_dims", ())
    vector = number(made, "index_vector_dim")
    lines = places[..., None] if vector == places.ndim else np.moveaxis(places, vector, -1)
    scattered = [d for d in range(len(updates)) if d not in window]
    index = np.indices(updates) if updates else np.zeros((0,), np.int64)
    starts = lines[tuple(index[d] for d in scattered)] if updates else lines
    where = [np.zeros(updates, np.int64) for _ in dims]
    kept = [d for d in range(len(dims)) if d not in (*inserted, *batching)]
    for axis, d in zip(kept, window, strict=True):
        where[axis] = where[axis] + index[d]
    for axis, d in zip(batching, own, strict=True):
        where[axis] = where[axis] + index[scattered[d - (d > vector)]]
    size = {axis: updates[d] for axis, d in zip(kept, window, strict=True)}
    inside = np.ones(updates, bool)
    for n, axis in enumerate(along):
        start = starts[..., n].astype(np.int64)
        inside &= (start >= 0) & (start + size.get(axis, 1) <= dims[axis])
        where[axis] = where[axis] + start
    flat = np.zeros(updates, np.int64)
    for axis, whole in enumerate(dims):
        flat = flat * whole + where[axis]
    return np.where(inside, flat, -1)


def _combined(at: HloContext, made: HloInstruction) -> str | None:
    """Return the reduction by which a scatter combines; None if updates take the place."""
    region = at.named(made, "to_apply")
    if len(region.parameters) == 2 and region.root.name == region.parameters[1].name:
        return None
    return reducer(at, region)


def _turns(targets: Integers, *, last_only: bool) -> list[Integers]:
    """Return rounds of updates in which no element is met twice, the n-th meetings in round n."""
    if last_only:
        _, last = np.unique(targets[::-1], return_index=True)
        keep = np.zeros(len(targets), bool)
        keep[len(targets) - 1 - last] = True
        return [np.where(keep, targets, -1)]
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    first = np.searchsorted(ordered, ordered)
    turn = np.empty(len(targets), np.int64)
    turn[order] = np.arange(len(targets)) - first
    met = turn[targets >= 0]
    return [np.where(turn == n, targets, -1) for n in range(int(met.max(initial=-1)) + 1)]


def _met(
    form: ModelForm,
    source: ModelValue,
    updates: ModelView,
    targets: Integers,
    reduction: str | None,
) -> ModelValue:
    """Return a line of elements that one round of updates has met."""
    flat = form.shape(source)
    met = np.flatnonzero(targets >= 0)
    if not len(met):
        return source
    total = flat.dims[0]
    taken = [int(each) for each in met]
    some = form.take(updates, 0, taken)
    which = np.full(total, -1, np.int64)
    which[targets[met]] = np.arange(len(met))
    mine = form.reshape(some, Shape(flat.element_type, [len(met)]))
    if reduction is not None and not (reduction == "sum" and one_number(source) == 0):
        old = form.take(source, 0, [int(each) for each in targets[met]])
        mine = form.binary(OPERATORS[reduction], old, mine, Shape(flat.element_type, [len(met)]))
    if len(met) == total:
        return form.take(mine, 0, [int(each) for each in which])
    both = form.node(
        "concat",
        (form.whole(source), form.whole(mine)),
        Shape(flat.element_type, [total + len(met)]),
        axis=0,
    )
    places = np.where(which < 0, np.arange(total), total + which)
    joined = ModelView(both, (total + len(met),), (0,))
    return form.take(joined, 0, [int(each) for each in places])


GATHERS: dict[str, HloRow] = {"gather": _gather, "scatter": _scatter}
