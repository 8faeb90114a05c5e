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
from systolic.workload.operations.constant import ConstantAttributes
from systolic.workload.operations.expand import ExpandAttributes
from systolic.workload.operations.iota import IotaAttributes
from systolic.workload.operations.pad import PadAttributes
from systolic.workload.operations.reduce import ReduceAttributes, ReductionName, kept_axes
from systolic.workload.operations.reverse import ReverseAttributes
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
        """Return the parts without those in vain; the last one makes the result `out`."""
        last = self.parts[-1]
        assert last.shape.dims == out.dims, "the last part makes the result"
        found, wanted = [replace(last, name=OUT, shape=out)], {*last.inputs}
        for part in reversed(self.parts[:-1]):
            if part.name in wanted:
                found.append(part)
                wanted.update(part.inputs)
        return found[::-1]

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

    def combined(
        self, operator: OperatorName, lhs: str, rhs: str, to: str, matched: Sequence[int] = ()
    ) -> str:
        """Return lhs operator rhs in a type. matched: dimensions of the operand of less rank."""
        dims = [self._shapes[name].dims for name in (lhs, rhs)]
        ranks = {*map(len, dims)}
        size = max(dims, key=len)
        if len(ranks) == 1:
            size = tuple(map(max, zip(*dims, strict=True)))
        given = tuple(matched) if len(ranks) > 1 and 0 not in ranks else None
        return self.add("binary", (lhs, rhs), Shape(to, size), BinaryAttributes(operator, given))

    def function(
        self, function: FunctionName, source: str, scale: float = 1.0, bias: float = -0.0
    ) -> str:
        """Return function(x * scale + bias) in f32."""
        shape = Shape("f32", self._shapes[source].dims)
        return self.add("activation", (source,), shape, ActivationAttributes(function, scale, bias))

    def select(self, predicate: str, on_true: str, on_false: str) -> str:
        """Return one tensor where another is not 0, else a third; predicate, third: or a scalar."""
        return self.add("select", (predicate, on_true, on_false), self._shapes[on_true])

    def matmul(self, lhs: str, rhs: str, to: str = "f32") -> str:
        """Return the product of two matrices in a type."""
        dims = self._shapes[lhs].dims[0], self._shapes[rhs].dims[1]
        return self.add("matmul", (lhs, rhs), Shape(to, dims))

    # of places alone

    def constant(self, value: float, element_type: str, dims: Sequence[int] = ()) -> str:
        """Return a tensor of one value."""
        shape = Shape(element_type, tuple(dims))
        return self.add("constant", (), shape, ConstantAttributes(value))

    def numbers(self, count: int, base: int = 0, each: int = 1) -> str:
        """Return s32[count]: base, base + each, ..."""
        return self.add("iota", (), Shape("s32", (count,)), IotaAttributes(base, each))

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

    def transpose(self, source: str, permutation: Sequence[int], *, lies: bool = False) -> str:
        """Return the axes in another order. lies: the elements stay where they lie in memory."""
        shape = self._shapes[source]
        if list(permutation) == sorted(permutation):
            return source
        made = Shape(shape.element_type, tuple(shape.dims[axis] for axis in permutation))
        if lies and not shape.layout.tiles:
            places = {axis: n for n, axis in enumerate(permutation)}
            order = tuple(places[axis] for axis in shape.layout.minor_to_major)
            made = Shape(made.element_type, made.dims, Layout(order))
        attributes = TransposeAttributes(tuple(permutation))
        return self.add("transpose", (source,), made, attributes)

    def box(
        self, source: str, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]
    ) -> str:
        """Return elements of a box at steps; the tensor itself if that is all of them."""
        shape = self._shapes[source]
        if (*starts, *stops, *steps) == (*[0] * shape.rank, *shape.dims, *[1] * shape.rank):
            return source
        dims = tuple(len(range(*each)) for each in zip(starts, stops, steps, strict=True))
        attributes = SliceAttributes(tuple(starts), tuple(stops), tuple(steps))
        return self.add("slice", (source,), Shape(shape.element_type, dims), attributes)

    def slice(self, source: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        """Return some of the elements along an axis."""
        shape = self._shapes[source]
        starts, stops, steps = [0] * shape.rank, list(shape.dims), [1] * shape.rank
        starts[axis], stops[axis], steps[axis] = start, stop, step
        return self.box(source, starts, stops, steps)

    def pad(
        self,
        source: str,
        sides: Sequence[tuple[int, int]],
        value: float = 0.0,
        *,
        between: Sequence[int] = (),
    ) -> str:
        """Return a tensor with elements of a value before, behind and between, along each axis.

        Fewer than none before or behind take some away.
        """
        shape = self._shapes[source]
        inside = tuple(between) or (0,) * shape.rank
        if not any((*inside, *(n for pair in sides for n in pair))):
            return source
        dims = tuple(
            low + size + (size - 1) * inner + high
            for (low, high), inner, size in zip(sides, inside, shape.dims, strict=True)
        )
        low, high = (tuple(each) for each in zip(*sides, strict=True))
        attributes = PadAttributes(low, high, value, inside if any(inside) else None)
        return self.add("pad", (source,), Shape(shape.element_type, dims), attributes)

    def reverse(self, source: str, axes: Sequence[int]) -> str:
        """Return a tensor with some axes backwards."""
        shape = self._shapes[source]
        turned = tuple(axis for axis in axes if shape.dims[axis] > 1)
        if not turned:
            return source
        return self.add("reverse", (source,), shape, ReverseAttributes(turned))

    def take(self, source: str, axis: int, indices: Sequence[int]) -> str:
        """Return places along an axis."""
        shape = self._shapes[source]
        if list(indices) == list(range(shape.dims[axis])):
            return source
        dims = (*shape.dims[:axis], len(indices), *shape.dims[axis + 1 :])
        attributes = TakeAttributes(tuple(indices), axis)
        return self.add("take", (source,), Shape(shape.element_type, dims), attributes)

    def expand(self, source: str, dims: Sequence[int]) -> str:
        """Return a tensor spread along the dimensions in which its size is 1."""
        shape = self._shapes[source]
        if shape.dims == tuple(dims):
            return source
        made = Shape(shape.element_type, tuple(dims))
        return self.add("expand", (source,), made, ExpandAttributes())

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
