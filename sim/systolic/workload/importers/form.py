"""The form that every reader of foreign models makes: operations of our table, and values.

A value is known (an array: a constant, or what follows from constants), or a *view* of a tensor of
the form, or a tuple of values. A view spreads a tensor over more dimensions without a copy: a
broadcast moves nothing, and what takes the view is told along which dimensions it lies. Operations
are rows of `systolic.workload.operations.table`, kept with the name that users know and the place
in the file. Equal operations on equal operands are made once.

Not here: the grammar of any file, and how operations that are pieces of a larger one are recognised
(`recognise`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Layout, Shape
from systolic.layout.element_types import element_type_of

MOST_PLACES = 1 << 24
"""The most places along an axis that are taken one by one."""


@dataclass(frozen=True, slots=True)
class ModelView:
    """A tensor seen with the dimensions `dims`.

    axes: for each of them the dimension of the tensor that lies along it, in ascending order; None
    where all elements are one and the same.
    """

    tensor: str
    dims: tuple[int, ...]
    axes: tuple[int | None, ...]

    @property
    def is_whole(self) -> bool:
        """Return whether the view is the tensor itself."""
        return None not in self.axes

    def spread(self, dims: Sequence[int], along: Sequence[int]) -> ModelView:
        """Return the view with more dimensions: its n-th lies along the new one `along[n]`."""
        places = {new: self.axes[old] for old, new in enumerate(along)}
        return ModelView(self.tensor, tuple(dims), tuple(places.get(d) for d in range(len(dims))))


ModelValue: TypeAlias = "Array | ModelView | tuple[ModelValue, ...] | None"
"""A known array, a view of a tensor, a tuple of values; None is a token, which orders effects."""


@dataclass(frozen=True, slots=True)
class ModelNode:
    """An operation of the form. title: the name in the file. offset: its place there."""

    kind: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    offset: int = 0


@dataclass(slots=True)
class ModelForm:
    """Tensors, constants among them, and operations in an order in which they can be done.

    reserved: names that results get at the end, and no other tensor before.
    """

    shapes: dict[str, Shape] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    nodes: list[ModelNode] = field(default_factory=list)
    title: str = ""
    offset: int = 0
    reserved: set[str] = field(default_factory=set)
    _made: dict[Any, str] = field(default_factory=dict)
    _maker: dict[str, ModelNode] = field(default_factory=dict)

    def begin(self, title: str, offset: int) -> None:
        """Begin an operation of the file, to which the following nodes belong."""
        self.title, self.offset = title, offset

    def maker(self, tensor: str) -> ModelNode | None:
        """Return the node that makes a tensor; None of an input or a constant."""
        return self._maker.get(tensor)

    def replaced(self, node: ModelNode) -> None:
        """Note that a node, which is in its place already, makes what others made before."""
        self._maker[node.output] = node

    def without_nodes(self) -> ModelForm:
        """Return a form with the same inputs and constants, in which no other name is taken."""
        kept = [*self.inputs, *self.constants]
        shapes = {name: self.shapes[name] for name in kept}
        return ModelForm(
            shapes, dict(self.constants), list(self.inputs), reserved={*self.shapes, *self.reserved}
        )

    def put(self, node: ModelNode, shape: Shape) -> None:
        """Add a node whose result has a name already."""
        self.shapes[node.output] = shape
        self.nodes.append(node)
        self._maker[node.output] = node

    def free_name(self, wanted: str) -> str:
        """Return a name that no tensor has yet."""
        return self._free(wanted)

    def renamed(self, tensor: str, name: str, shape: Shape) -> str:
        """Give a tensor that nothing takes another name, and the layout of `shape`."""
        at = next(n for n, node in enumerate(self.nodes) if node.output == tensor)
        del self.shapes[tensor], self._maker[tensor]
        self.reserved.discard(name)
        self.nodes[at] = replace(self.nodes[at], output=self._free(name))
        self.shapes[self.nodes[at].output] = shape
        self.replaced(self.nodes[at])
        return self.nodes[at].output

    def named(self, wanted: str, shape: Shape) -> str:
        """Return the name of a new tensor, which is as near to the wanted one as can be."""
        name = self._free(wanted)
        self.shapes[name] = shape
        return name

    # values

    def input(self, name: str, shape: Shape) -> ModelView:
        """Add a tensor that the user gives."""
        _check_elements(shape.dims)
        tensor = self._free(name)
        self.shapes[tensor] = shape
        self.inputs.append(tensor)
        return _whole(tensor, shape)

    def constant(self, array: Array) -> ModelView:
        """Return a known array as a tensor; dimensions along which it is one number have none."""
        _check_elements(array.shape)
        axes = [axis for axis in range(array.ndim) if not _is_flat(array, axis)]
        small = array[tuple(slice(None) if axis in axes else 0 for axis in range(array.ndim))]
        small = np.array(small, order="C")
        key = (small.dtype.name, small.shape, small.tobytes())
        if key not in self._made:
            shape = Shape(element_type_of(small.dtype).name, small.shape)
            self._made[key] = self._free(f"constant{len(self.constants)}")
            self.shapes[self._made[key]], self.constants[self._made[key]] = shape, small
        name = self._made[key]
        places = {axis: n for n, axis in enumerate(axes)}
        return ModelView(name, array.shape, tuple(places.get(d) for d in range(array.ndim)))

    def view(self, value: ModelValue) -> ModelView:
        """Return a value, which is no tuple, as a view."""
        if isinstance(value, np.ndarray):
            return self.constant(value)
        assert isinstance(value, ModelView), "a tuple is taken apart by its elements"
        return value

    def known(self, value: ModelValue) -> ModelValue:
        """Return the array of a value that is a constant, and other values as they are."""
        if not isinstance(value, ModelView) or value.tensor not in self.constants:
            return value
        return _spread(self.constants[value.tensor], value)

    def shape(self, value: ModelValue) -> Shape:
        """Return the shape of a value that is no tuple: the type, and the dimensions seen."""
        if isinstance(value, np.ndarray):
            return Shape(element_type_of(value.dtype).name, value.shape)
        assert isinstance(value, ModelView)
        own = self.shapes[value.tensor]
        return own if value.is_whole else Shape(own.element_type, value.dims)

    def whole(self, value: ModelValue) -> str:
        """Return a tensor that has all elements of a value; a spread one is made so."""
        view = self.view(value)
        if view.is_whole:
            return view.tensor
        if view.tensor in self.constants:
            array = np.array(_spread(self.constants[view.tensor], view), order="C")
            return self._whole_constant(array)
        source = self._own(view)
        if all(a is not None or n == 1 for a, n in zip(view.axes, view.dims, strict=True)):
            return self.reshaped(view.tensor, view.dims)
        zero = self._whole_constant(np.zeros(view.dims, source.dtype))
        # -0.0 + 0.0 would be +0.0, so floats are multiplied with ones
        floats = source.dtype.kind not in "iu"
        one = self._whole_constant(np.ones(view.dims, source.dtype)) if floats else zero
        operator = "multiply" if floats else "or"
        return self.node(
            "binary",
            (one, view.tensor),
            Shape(source.element_type, view.dims),
            operator=operator,
            **_matched(view),
        )

    def _whole_constant(self, array: Array) -> str:
        _check_elements(array.shape)
        key = ("whole", array.dtype.name, array.shape, array.tobytes())
        if key not in self._made:
            name = self._made[key] = self._free(f"constant{len(self.constants)}")
            self.shapes[name] = Shape(element_type_of(array.dtype).name, array.shape)
            self.constants[name] = array
        return self._made[key]

    def _own(self, view: ModelView) -> Shape:
        return self.shapes[view.tensor]

    # nodes

    def node(self, kind: str, inputs: Sequence[str], out: Shape, **attributes: Any) -> str:
        """Add an operation, or find the equal one that is there; return its result."""
        given = {key: value for key, value in attributes.items() if value is not None}
        _check_elements(out.dims)
        key = (kind, tuple(inputs), str(out), tuple(sorted(given.items())))
        if key not in self._made:
            output = self._free(self._name_of(kind))
            self.shapes[output] = out
            made = ModelNode(kind, tuple(inputs), output, given, self.title, self.offset)
            self.nodes.append(made)
            self._maker[output], self._made[key] = made, output
        return self._made[key]

    def _name_of(self, kind: str) -> str:
        """Return the name of a node; a change of shape leaves the plain one to what follows it."""
        if self.title and kind in ("transpose", "reshape") and kind not in self.title.lower():
            return f"{self.title}.{kind}"
        return self.title or kind

    def _free(self, wanted: str) -> str:
        """Return a name that no tensor has yet."""
        name, number = wanted, 1
        while name in self.shapes or name in self.reserved:
            number += 1
            name = f"{wanted}.{number}"
        return name

    # operations whose operands may be spread

    def unary(
        self, operand: ModelValue, kind: str, element_type: str | None = None, **attributes: Any
    ) -> ModelView:
        """Add an operation of each element; a spread operand is calculated before it is spread."""
        view = self.view(operand)
        own = self._own(view)
        out = Shape(element_type or own.element_type, own.dims, own.layout)
        return ModelView(self.node(kind, (view.tensor,), out, **attributes), view.dims, view.axes)

    def binary(self, operator: str, lhs: ModelValue, rhs: ModelValue, out: Shape) -> ModelView:
        """Add an operation of two operands element by element, which may be spread."""
        return self._each("binary", (lhs, rhs), out, operator=operator)

    def select(
        self, predicate: ModelValue, on_true: ModelValue, on_false: ModelValue, out: Shape
    ) -> ModelView:
        """Add a select; its operands may be spread."""
        return self._each("select", (predicate, on_true, on_false), out)

    def _each(
        self, kind: str, values: Sequence[ModelValue], out: Shape, **attributes: Any
    ) -> ModelView:
        views = [self._spread_scalar(self.view(value), out) for value in values]
        used = [d for d in range(out.rank) if any(view.axes[d] is not None for view in views)]
        if not used and out.rank:
            used = [out.rank - 1]  # all operands are single numbers
        dims = tuple(out.dims[d] for d in used)
        inner = out if len(used) == out.rank else Shape(out.element_type, dims)
        seen = [ModelView(view.tensor, dims, tuple(view.axes[d] for d in used)) for view in views]
        name = self._spread_node(kind, seen, inner, attributes)
        return _whole(name, inner).spread(out.dims, used)

    def _spread_scalar(self, view: ModelView, out: Shape) -> ModelView:
        return view if view.dims or not out.rank else view.spread(out.dims, ())

    def _spread_node(
        self, kind: str, views: Sequence[ModelView], out: Shape, attributes: Mapping[str, Any]
    ) -> str:
        """Add an operation on views whose spread dimensions are told, or of size 1."""
        views = [self._squeezed(view) for view in views]
        lower = {view.axes for view in views if not view.is_whole and self._own(view).rank}
        full = any(view.is_whole for view in views)
        if len(lower) <= 1 and full:
            found = next((view for view in views if view.axes in lower), None)
            return self.node(
                kind, [view.tensor for view in views], out, **attributes, **_matched(found)
            )
        names = [self._with_ones(view) for view in views]
        return self.node(kind, names, out, **attributes)

    def _squeezed(self, view: ModelView) -> ModelView:
        """Return a spread view of a tensor without dimensions of 1."""
        own = self._own(view)
        if view.is_whole or 1 not in own.dims:
            return view
        kept = [axis for axis, size in enumerate(own.dims) if size > 1]
        tensor = self.reshaped(view.tensor, tuple(own.dims[axis] for axis in kept))
        places = {axis: n for n, axis in enumerate(kept)}
        axes = tuple(None if a is None or a not in places else places[a] for a in view.axes)
        return ModelView(tensor, view.dims, axes)

    def _with_ones(self, view: ModelView) -> str:
        """Return the tensor of a view with a dimension of 1 wherever it is spread."""
        own = self._own(view)
        if view.is_whole or not own.rank:
            return view.tensor
        dims = tuple(1 if axis is None else own.dims[axis] for axis in view.axes)
        return self.reshaped(view.tensor, dims)

    # changes of shape

    def reshape(self, value: ModelValue, out: Shape) -> ModelView:
        """See the same elements, in logical order, in other dimensions."""
        view = self.view(value)
        seen = [(size, axis) for size, axis in zip(view.dims, view.axes, strict=True) if size > 1]
        if view.is_whole or [size for size, _ in seen] != [size for size in out.dims if size > 1]:
            return _whole(self.reshaped(self.whole(view), out.dims, out), out)
        kept, own = [axis for _, axis in seen if axis is not None], self._own(view)
        tensor = self.reshaped(view.tensor, tuple(own.dims[axis] for axis in kept))
        order, places = {axis: n for n, axis in enumerate(kept)}, iter(seen)
        axes = [next(places)[1] if size > 1 else None for size in out.dims]
        return ModelView(tensor, out.dims, tuple(None if a is None else order[a] for a in axes))

    def reshaped(self, tensor: str, dims: tuple[int, ...], out: Shape | None = None) -> str:
        """Return a tensor in other dimensions; reshapes of reshapes are one."""
        made = self._maker.get(tensor)
        while made is not None and made.kind == "reshape":
            tensor = made.inputs[0]
            made = self._maker.get(tensor)
        own = self.shapes[tensor]
        if own.dims == dims:
            return tensor
        if tensor in self.constants:
            return self._whole_constant(self.constants[tensor].reshape(dims))
        wanted = out if out is not None and out.dims == dims else Shape(own.element_type, dims)
        return self.node("reshape", (tensor,), wanted)

    def transpose(
        self, value: ModelValue, order: Sequence[int], out: Shape | None = None
    ) -> ModelView:
        """Put the dimensions into another order; if it can be, by the layout alone.

        out: how the result is to lie (None: as the bytes lie already, so that nothing is moved).
        """
        view = self.view(value)
        dims = tuple(view.dims[axis] for axis in order)
        axes = tuple(view.axes[axis] for axis in order)
        kept = [axis for axis in axes if axis is not None]
        if kept == sorted(kept):
            return ModelView(view.tensor, dims, axes)
        ranks = {axis: n for n, axis in enumerate(sorted(kept))}
        turned = self._turned(view.tensor, kept, out if view.is_whole else None)
        places = iter(range(len(ranks)))
        return ModelView(turned, dims, tuple(None if a is None else next(places) for a in axes))

    def _turned(self, tensor: str, order: Sequence[int], out: Shape | None) -> str:
        made = self._maker.get(tensor)
        if made is not None and made.kind == "transpose":
            before = made.attributes["permutation"]
            order = [before[axis] for axis in order]
            tensor = made.inputs[0]
            if list(order) == sorted(order):
                return tensor
        own = self.shapes[tensor]
        if tensor in self.constants:
            return self._whole_constant(self.constants[tensor].transpose(order))
        return self.node(
            "transpose", (tensor,), out or as_it_lies(own, order), permutation=tuple(order)
        )

    def box(self, value: ModelValue, found: Sequence[slice]) -> ModelView:
        """Take a box of a tensor, or every n-th element of it along a dimension."""
        shape = self.shape(value)
        if [(s.start, s.stop, s.step) for s in found] == [(0, n, 1) for n in shape.dims]:
            return self.view(value)
        if (part := self._joined_part(value, found)) is not None:
            return self.box(*part)
        dims = [-(-(s.stop - s.start) // s.step) for s in found]
        out, steps = Shape(shape.element_type, dims), tuple(s.step for s in found)
        name = self.node(
            "slice",
            (self.whole(value),),
            out,
            start=tuple(s.start for s in found),
            stop=tuple(s.stop for s in found),
            step=steps if any(step > 1 for step in steps) else None,
        )
        return _whole(name, out)

    def _joined_part(
        self, value: ModelValue, found: Sequence[slice]
    ) -> tuple[ModelView, list[slice]] | None:
        """Return the one of several joined tensors that a box lies in, and the box there."""
        made = self._maker.get(value.tensor) if isinstance(value, ModelView) else None
        if made is None or made.kind != "concat" or not self.view(value).is_whole:
            return None
        axis, before = made.attributes["axis"], 0
        for name in made.inputs:
            behind = before + self.shapes[name].dims[axis]
            if before <= found[axis].start and found[axis].stop <= behind:
                within = list(found)
                start, stop, step = found[axis].start, found[axis].stop, found[axis].step
                within[axis] = slice(start - before, stop - before, step)
                return _whole(name, self.shapes[name]), within
            before = behind
        return None

    def padded(
        self, value: ModelValue, sides: Sequence[tuple[int, int, int]], fill: float = 0.0
    ) -> ModelView:
        """Put elements of one number around a tensor and between its elements.

        sides: for each dimension how many there are before, behind and between. Less than 0 before
        or behind takes elements away.
        """
        found = self.view(value)
        for axis, (_, _, between) in enumerate(sides):
            if between and found.dims[axis] > 1:
                found = self._with_gaps(found, axis, between, fill)
        dims = found.dims
        cut = [
            slice(max(-low, 0), size - max(-high, 0), 1)
            for size, (low, high, _) in zip(dims, sides, strict=True)
        ]
        found = self.box(found, cut)
        low = tuple(max(each, 0) for each, _, _ in sides)
        high = tuple(max(each, 0) for _, each, _ in sides)
        if not any((*low, *high)):
            return found
        shape = self.shape(found)
        sizes = [sum(each) for each in zip(low, shape.dims, high, strict=True)]
        out = Shape(shape.element_type, sizes)
        name = self.node("pad", (self.whole(found),), out, low=low, high=high, value=fill or None)
        return _whole(name, out)

    def _with_gaps(self, value: ModelView, axis: int, between: int, fill: float) -> ModelView:
        """Put elements between those along an axis: one is put behind them, and taken for each."""
        size = value.dims[axis]
        one = [(0, int(d == axis), 0) for d in range(len(value.dims))]
        if size * (between + 1) > MOST_PLACES:
            raise WorkloadError(f"{size:,} elements, {between} apart, are too many")
        places = [
            n // (between + 1) if n % (between + 1) == 0 else size
            for n in range((size - 1) * (between + 1) + 1)
        ]
        return self.take(self.padded(value, one, fill), axis, places)

    def take(self, value: ModelValue, axis: int, places: Sequence[int]) -> ModelView:
        """Take places along an axis; along one over which a value is spread, all are the same."""
        view = self.view(value)
        dims = (*view.dims[:axis], len(places), *view.dims[axis + 1 :])
        if len(places) > MOST_PLACES:
            raise WorkloadError(f"{len(places):,} places at once, more than {MOST_PLACES:,}")
        along = view.axes[axis]
        if along is None:
            return ModelView(view.tensor, dims, view.axes)
        own = self._own(view)
        if list(places) == list(range(own.dims[along])):
            return view
        out = Shape(own.element_type, (*own.dims[:along], len(places), *own.dims[along + 1 :]))
        name = self.node("take", (view.tensor,), out, axis=along, indices=tuple(places))
        return ModelView(name, dims, view.axes)

    # reductions

    def reduce(
        self, reduction: str, value: ModelValue, axes: Sequence[int], out: Shape
    ) -> ModelView:
        """Reduce over axes; along an axis over which a value is spread, the largest is itself."""
        view = self.view(value)
        if reduction in ("max", "min") and any(view.axes[a] is not None for a in axes):
            kept = [a for a in range(len(view.dims)) if a not in axes or view.axes[a] is not None]
            view = ModelView(
                view.tensor,
                tuple(view.dims[a] for a in kept),
                tuple(view.axes[a] for a in kept),
            )
            axes = [n for n, a in enumerate(kept) if a in axes]
        tensor = self.whole(view)
        name = self.node("reduce", (tensor,), out, reduction=reduction, axes=tuple(sorted(axes)))
        return _whole(name, out)


def _check_elements(dims: Sequence[int]) -> None:
    """Raise WorkloadError for dimensions of a tensor that would have no elements."""
    if 0 in dims:
        raise WorkloadError(f"[{','.join(map(str, dims))}] is a tensor without elements")


def _whole(tensor: str, shape: Shape) -> ModelView:
    return ModelView(tensor, shape.dims, tuple(range(shape.rank)))


def _is_flat(array: Array, axis: int) -> bool:
    """Return whether an array is one number along an axis; a size of 1 is an axis all the same."""
    return array.shape[axis] > 1 and array.strides[axis] == 0


def _spread(array: Array, view: ModelView) -> Array:
    """Return the elements of a constant as a view shows them."""
    sizes = tuple(1 if axis is None else array.shape[axis] for axis in view.axes)
    return np.broadcast_to(array.reshape(sizes), view.dims)


def _matched(view: ModelView | None) -> dict[str, tuple[int, ...]]:
    """Return the attribute that says along which dimensions an operand of a lower rank lies."""
    if view is None or view.is_whole:
        return {}
    found = tuple(d for d, axis in enumerate(view.axes) if axis is not None)
    return {"broadcast_dimensions": found} if found else {}


def as_it_lies(own: Shape, order: Sequence[int]) -> Shape:
    """Return the shape of a transpose whose layout puts every element where it is already."""
    dims = tuple(own.dims[axis] for axis in order)
    if own.layout.tiles:
        return Shape(own.element_type, dims)
    places = {axis: n for n, axis in enumerate(order)}
    minor = tuple(places[axis] for axis in own.layout.minor_to_major)
    return Shape(own.element_type, dims, Layout(minor))
