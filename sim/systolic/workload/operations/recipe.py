"""How an operation is made of others: parts in order, each with its operands, result and settings.

Not here: what the parts give (`systolic.workload.operations.composite`), and which operations are
made of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.layout import Layout, Shape
from systolic.workload.operations.activation import ActivationAttributes, FunctionName
from systolic.workload.operations.binary import BinaryAttributes, OperatorName
from systolic.workload.operations.concat import ConcatAttributes
from systolic.workload.operations.pad import PadAttributes
from systolic.workload.operations.reduce import ReduceAttributes, ReductionName, kept_axes
from systolic.workload.operations.row import NO_ATTRIBUTES, Attributes
from systolic.workload.operations.slice import SliceAttributes
from systolic.workload.operations.take import TakeAttributes
from systolic.workload.operations.tensor_scalar import TensorScalarAttributes
from systolic.workload.operations.transpose import TransposeAttributes

OUT = "out"


@dataclass(frozen=True, slots=True)
class CompositePart:
    """An operation of a composite: its result is `name`; operands of the composite are "0", "1"."""

    kind: str
    inputs: tuple[str, ...]
    name: str
    shape: Shape
    attributes: Attributes = NO_ATTRIBUTES


class Recipe:
    """Collects parts one by one; `done` calls the last one's result `OUT`."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.parts: list[CompositePart] = []
        self._shapes = {str(number): shape for number, shape in enumerate(shapes)}

    def shape(self, name: str) -> Shape:
        """Return the shape of an operand or of a part's result."""
        return self._shapes[name]

    def done(self, out: Shape) -> list[CompositePart]:
        """Return the parts, of which the last makes the result `out`."""
        *before, last = self.parts
        assert last.shape.dims == out.dims, "the last part makes the result"
        return [*before, replace(last, name=OUT, shape=out)]

    def add(
        self,
        kind: str,
        inputs: tuple[str, ...],
        shape: Shape,
        attributes: Attributes = NO_ATTRIBUTES,
        name: str = "",
    ) -> str:
        """Add a part; return its name."""
        made = name or f"{kind}{len(self.parts)}"
        self.parts.append(CompositePart(kind, inputs, made, shape, attributes))
        self._shapes[made] = shape
        return made

    # element by element

    def cast(self, source: str, element_type: str) -> str:
        """Return the tensor in a type: itself, or cast."""
        shape = self._shapes[source]
        if shape.element_type == element_type:
            return source
        return self.add("cast", (source,), Shape(element_type, shape.dims, shape.layout))

    def single(self, source: str) -> str:
        """Return the tensor in f32: itself, or cast."""
        return self.cast(source, "f32")

    def activation(
        self, function: FunctionName, source: str, scale: float = 1.0, bias: float = -0.0
    ) -> str:
        """Return function(x * scale + bias) in the type of x."""
        shape = self._shapes[source]
        attributes = ActivationAttributes(function, scale, bias)
        return self.add("activation", (source,), shape, attributes)

    def scalar(
        self,
        operator: OperatorName,
        source: str,
        number: float,
        *,
        reverse: bool = False,
        element_type: str | None = None,
    ) -> str:
        """Return x operator number, in the accumulator's type of x if no other is given."""
        shape = self._shapes[source]
        kind = element_type or ("s32" if shape.dtype.kind in "iub" else "f32")
        attributes = TensorScalarAttributes(operator, number, reverse)
        out = Shape(kind, shape.dims, _plain(shape.layout))
        return self.add("tensor_scalar", (source,), out, attributes)

    def binary(
        self,
        operator: OperatorName,
        lhs: str,
        rhs: str,
        matched: tuple[int, ...],
        out: Shape | None = None,
    ) -> str:
        """Return lhs operator rhs, which has the dimensions `matched` of lhs; `out`: the result."""
        shape, other = self._shapes[lhs], self._shapes[rhs]
        given = matched if other.rank not in (0, shape.rank) else None
        integer = "s32" if shape.dtype.kind in "iub" else "f32"
        wide = Shape(integer, shape.dims, _plain(shape.layout))
        attributes = BinaryAttributes(operator, given)
        name = OUT if out is not None else ""
        return self.add("binary", (lhs, rhs), out or wide, attributes, name)

    # several elements to one

    def reduce(self, reduction: ReductionName, source: str, *axes: int) -> str:
        """Return a tensor without some of its axes, in its type."""
        shape = self._shapes[source]
        dims = tuple(shape.dims[d] for d in kept_axes(shape.rank, axes))
        attributes = ReduceAttributes(reduction, axes)
        return self.add("reduce", (source,), Shape(shape.element_type, dims), attributes)

    # places

    def reshape(self, source: str, dims: Sequence[int]) -> str:
        """Return the elements in other dimensions; the tensor itself if it has these."""
        shape = self._shapes[source]
        if shape.dims == tuple(dims):
            return source
        return self.add("reshape", (source,), Shape(shape.element_type, tuple(dims)))

    def transpose(self, source: str, permutation: Sequence[int]) -> str:
        """Return the axes in another order."""
        shape = self._shapes[source]
        if list(permutation) == sorted(permutation):
            return source
        dims = tuple(shape.dims[axis] for axis in permutation)
        attributes = TransposeAttributes(tuple(permutation))
        return self.add("transpose", (source,), Shape(shape.element_type, dims), attributes)

    def slice(self, source: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        """Return some of the elements along an axis."""
        shape = self._shapes[source]
        if (start, stop, step) == (0, shape.dims[axis], 1):
            return source
        starts, stops, steps = [0] * shape.rank, list(shape.dims), [1] * shape.rank
        starts[axis], stops[axis], steps[axis] = start, stop, step
        dims = list(shape.dims)
        dims[axis] = len(range(start, stop, step))
        attributes = SliceAttributes(tuple(starts), tuple(stops), tuple(steps))
        return self.add("slice", (source,), Shape(shape.element_type, tuple(dims)), attributes)

    def pad(self, source: str, sides: Sequence[tuple[int, int]], value: float = 0.0) -> str:
        """Return a tensor with elements of a value around it: before and behind each axis."""
        shape = self._shapes[source]
        if not any(map(any, sides)):
            return source
        dims = tuple(low + n + high for (low, high), n in zip(sides, shape.dims, strict=True))
        low, high = zip(*sides, strict=True)
        attributes = PadAttributes(tuple(low), tuple(high), value)
        return self.add("pad", (source,), Shape(shape.element_type, dims), attributes)

    def take(self, source: str, axis: int, indices: Sequence[int]) -> str:
        """Return places along an axis."""
        shape = self._shapes[source]
        if list(indices) == list(range(shape.dims[axis])):
            return source
        dims = (*shape.dims[:axis], len(indices), *shape.dims[axis + 1 :])
        attributes = TakeAttributes(tuple(indices), axis)
        return self.add("take", (source,), Shape(shape.element_type, dims), attributes)

    def concat(self, sources: Sequence[str], axis: int) -> str:
        """Return tensors one behind the other along an axis; a lone one as it is."""
        first = self._shapes[sources[0]]
        if len(sources) == 1:
            return sources[0]
        total = sum(self._shapes[name].dims[axis] for name in sources)
        dims = (*first.dims[:axis], total, *first.dims[axis + 1 :])
        shape = Shape(first.element_type, dims)
        return self.add("concat", tuple(sources), shape, ConcatAttributes(axis))


def _plain(layout: Layout) -> Layout:
    """Return a layout for an intermediate result: its order and tiles, without what is packed."""
    return Layout(layout.minor_to_major, layout.tiles)
