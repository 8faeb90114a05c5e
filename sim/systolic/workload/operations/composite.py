"""Operations that are made of others: their parts, and the results that follow from the parts.

A composite is lowered as its parts are, under its own name (`systolic.workload.expand`). Its
result, bit for bit, is that of the parts in their order; in float64 it has a formula of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from systolic.arrays import Array
from systolic.element_types import ELEMENT_TYPES
from systolic.layout import Shape
from systolic.workload.operations.activation import ACTIVATION, ActivationAttributes, FunctionName
from systolic.workload.operations.binary import BINARY, BinaryAttributes, OperatorName
from systolic.workload.operations.cast import CAST
from systolic.workload.operations.concat import CONCAT, ConcatAttributes
from systolic.workload.operations.constant import CONSTANT, ConstantAttributes
from systolic.workload.operations.expand import EXPAND, ExpandAttributes
from systolic.workload.operations.iota import IOTA, IotaAttributes
from systolic.workload.operations.matmul import MATMUL
from systolic.workload.operations.pad import PAD
from systolic.workload.operations.reduce import REDUCE, ReduceAttributes, ReductionName, kept_axes
from systolic.workload.operations.reshape import RESHAPE
from systolic.workload.operations.row import NO_ATTRIBUTES, AnyRow, Attributes, Rules
from systolic.workload.operations.select import SELECT
from systolic.workload.operations.slice import SLICE, SliceAttributes
from systolic.workload.operations.take import TAKE, TakeAttributes
from systolic.workload.operations.transpose import TRANSPOSE, TransposeAttributes

PARTS: dict[str, AnyRow] = {
    "matmul": MATMUL,
    "transpose": TRANSPOSE,
    "reshape": RESHAPE,
    "cast": CAST,
    "activation": ACTIVATION,
    "binary": BINARY,
    "select": SELECT,
    "reduce": REDUCE,
    "slice": SLICE,
    "concat": CONCAT,
    "pad": PAD,
    "take": TAKE,
    "expand": EXPAND,
    "iota": IOTA,
    "constant": CONSTANT,
}
"""The operations that a composite may be made of."""
OUT = "out"


@dataclass(frozen=True, slots=True)
class CompositePart:
    """An operation of a composite: its result is `name`; operands of the composite are "0", "1"."""

    kind: str
    inputs: tuple[str, ...]
    name: str
    shape: Shape
    attributes: Attributes = NO_ATTRIBUTES


MakeParts = Callable[[Sequence[Shape], Shape, Any], list[CompositePart]]


class Recipe:
    """Collects parts one by one; the last must be called `OUT`."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.parts: list[CompositePart] = []
        self._shapes = {str(number): shape for number, shape in enumerate(shapes)}

    def add(
        self,
        kind: str,
        inputs: tuple[str, ...],
        shape: Shape,
        attributes: Attributes,
        name: str = "",
    ) -> str:
        """Add a part; return its name."""
        made = name or f"{kind}{len(self.parts)}"
        self.parts.append(CompositePart(kind, inputs, made, shape, attributes))
        self._shapes[made] = shape
        return made

    def shape(self, name: str) -> Shape:
        """Return the shape of an operand or of a part."""
        return self._shapes[name]

    def make(
        self,
        kind: str,
        inputs: Sequence[str],
        made: tuple[str, Sequence[int]] | Shape,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> str:
        """Add a part whose result has a type and dimensions; a shape is that of the composite."""
        whole = isinstance(made, Shape)
        shape = made if isinstance(made, Shape) else Shape(made[0], tuple(made[1]))
        return self.add(kind, tuple(inputs), shape, attributes, OUT if whole else "")

    def cast(self, source: str, to: str) -> str:
        """Return a tensor in a type: itself, or cast."""
        shape = self._shapes[source]
        return (
            source if shape.element_type == to else self.make("cast", (source,), (to, shape.dims))
        )

    def reshape(self, source: str, dims: Sequence[int], out: Shape | None = None) -> str:
        """Return the same elements in other dimensions."""
        shape = self._shapes[source]
        if out is None and shape.dims == tuple(dims):
            return source
        return self.make("reshape", (source,), out or (shape.element_type, dims))

    def transposed(self, source: str, order: Sequence[int], out: Shape | None = None) -> str:
        """Return the axes in another order."""
        shape = self._shapes[source]
        dims = [shape.dims[axis] for axis in order]
        made = TransposeAttributes(tuple(order))
        return self.make("transpose", (source,), out or (shape.element_type, dims), made)

    def taken(self, source: str, axis: int, places: Sequence[int], out: Shape | None = None) -> str:
        """Return places along an axis."""
        shape = self._shapes[source]
        dims = (*shape.dims[:axis], len(places), *shape.dims[axis + 1 :])
        made = TakeAttributes(tuple(int(place) for place in places), axis)
        return self.make("take", (source,), out or (shape.element_type, dims), made)

    def span(self, source: str, axis: int, first: int, count: int, out: Shape | None = None) -> str:
        """Return neighbours along an axis."""
        shape = self._shapes[source]
        start = tuple(first if n == axis else 0 for n in range(shape.rank))
        dims = tuple(count if n == axis else size for n, size in enumerate(shape.dims))
        made = SliceAttributes(start, tuple(map(sum, zip(start, dims, strict=True))))
        return self.make("slice", (source,), out or (shape.element_type, dims), made)

    def joined(self, sources: Sequence[str], axis: int, out: Shape | None = None) -> str:
        """Return tensors one behind the other; at least one."""
        shape = self._shapes[sources[0]]
        total = sum(self._shapes[name].dims[axis] for name in sources)
        dims = (*shape.dims[:axis], total, *shape.dims[axis + 1 :])
        if len(sources) == 1:
            return sources[0] if out is None else self.make("cast", sources, out)
        return self.make(
            "concat", sources, out or (shape.element_type, dims), ConcatAttributes(axis)
        )

    def constant(self, value: float, element_type: str, dims: Sequence[int] = ()) -> str:
        """Return a tensor of one value."""
        return self.make("constant", (), (element_type, dims), ConstantAttributes(value))

    def numbers(self, count: int, base: int = 0, each: int = 1) -> str:
        """Return s32[count]: base, base + each, ..."""
        return self.make("iota", (), ("s32", (count,)), IotaAttributes(base, each))

    def expanded(self, source: str, dims: Sequence[int]) -> str:
        """Return a tensor spread along the dimensions in which its size is 1."""
        shape = self._shapes[source]
        if shape.dims == tuple(dims):
            return source
        return self.make("expand", (source,), (shape.element_type, dims), ExpandAttributes())

    def combined(
        self,
        operator: OperatorName,
        lhs: str,
        rhs: str,
        made: str | Shape,
        matched: Sequence[int] | None = None,
    ) -> str:
        """Return lhs operator rhs in a type. matched: dimensions of the operand of less rank."""
        dims = [self._shapes[name].dims for name in (lhs, rhs)]
        ranks = {*map(len, dims)}
        given = tuple(matched or ()) if len(ranks) > 1 and 0 not in ranks else None
        size = max(dims, key=len)
        if len(ranks) == 1:
            size = tuple(map(max, zip(*dims, strict=True)))
        shape = made if isinstance(made, Shape) else (made, size)
        return self.make("binary", (lhs, rhs), shape, BinaryAttributes(operator, given))

    def function(
        self,
        function: FunctionName,
        source: str,
        scale: float = 1.0,
        bias: float = -0.0,
        out: Shape | str = "f32",
    ) -> str:
        """Return function(x * scale + bias) in a type."""
        made = out if isinstance(out, Shape) else (out, self._shapes[source].dims)
        return self.make("activation", (source,), made, ActivationAttributes(function, scale, bias))

    def folded(
        self, reduction: ReductionName, source: str, axes: Sequence[int], made: str | Shape
    ) -> str:
        """Return a tensor without some axes, in a type."""
        shape = self._shapes[source]
        dims = tuple(shape.dims[d] for d in kept_axes(shape.rank, tuple(axes)))
        given = ReduceAttributes(reduction, tuple(axes))
        return self.make(
            "reduce", (source,), made if isinstance(made, Shape) else (made, dims), given
        )

    def single(self, source: str) -> str:
        """Return the tensor in f32: itself, or cast."""
        shape = self._shapes[source]
        if shape.element_type == "f32":
            return source
        return self.add("cast", (source,), Shape("f32", shape.dims, shape.layout), NO_ATTRIBUTES)

    def activation(
        self, function: FunctionName, source: str, scale: float = 1.0, bias: float = -0.0
    ) -> str:
        """Return function(x * scale + bias) in the type of x."""
        shape = self._shapes[source]
        attributes = ActivationAttributes(function, scale, bias)
        return self.add("activation", (source,), shape, attributes)

    def reduce(self, reduction: ReductionName, source: str, axis: int) -> str:
        """Return a tensor without one of its axes, in its type."""
        shape = self._shapes[source]
        dims = tuple(shape.dims[d] for d in kept_axes(shape.rank, (axis,)))
        attributes = ReduceAttributes(reduction, (axis,))
        return self.add("reduce", (source,), Shape(shape.element_type, dims), attributes)

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
        wide = Shape("f32", shape.dims, shape.layout)
        attributes = BinaryAttributes(operator, given)
        name = OUT if out is not None else ""
        return self.add("binary", (lhs, rhs), out or wide, attributes, name)


def reference_of(make: MakeParts) -> Callable[[Sequence[Array], Shape, Any, Rules], Array]:
    """Return the function that gives a composite's result from those of its parts."""

    def reference(arrays: Sequence[Array], out: Shape, attributes: Any, rules: Rules) -> Array:
        values = {str(number): array for number, array in enumerate(arrays)}
        for part in make([_shape_of(array) for array in arrays], out, attributes):
            operands = [values[name] for name in part.inputs]
            row = PARTS[part.kind]
            values[part.name] = row.reference(operands, part.shape, part.attributes, rules)
        return values[OUT]

    return reference


def _shape_of(array: Array) -> Shape:
    name = next(name for name, found in ELEMENT_TYPES.items() if found.dtype == array.dtype)
    return Shape(name, array.shape)
