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
from systolic.workload.operations.reduce import REDUCE, ReduceAttributes, ReductionName, kept_axes
from systolic.workload.operations.row import NO_ATTRIBUTES, AnyRow, Attributes, Rules

PARTS: dict[str, AnyRow] = {
    "cast": CAST,
    "activation": ACTIVATION,
    "binary": BINARY,
    "reduce": REDUCE,
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
