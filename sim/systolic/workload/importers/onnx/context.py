"""What a row of an ONNX operator sees: the form that it adds to, with numpy's rules of shapes.

Values are known arrays in ONNX's own types, or views of tensors in types that chips have. Methods
take either, spread operands as numpy broadcasts, and find the shape of what they make.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError, shortened
from systolic.layout import Shape
from systolic.workload.importers.arithmetic import compared, paired, selected
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView
from systolic.workload.importers.onnx.kinds import in_memory
from systolic.workload.importers.onnx.model import OnnxGraph, OnnxNode

MOST_ELEMENTS = 1 << 31
"""The most elements of a value."""

NodeOperands: TypeAlias = Sequence[ModelValue]
"""The operands of a node, None for one that is left out, many None behind the last."""


@dataclass(slots=True)
class OnnxContext:
    """The form, and how the nodes of a graph inside a node are gone through."""

    form: ModelForm = field(default_factory=ModelForm)
    run: Callable[[OnnxGraph, Mapping[str, ModelValue]], list[ModelValue]] | None = None

    # values

    def known(self, value: ModelValue, what: str) -> Array:
        """Return the array of an operand that must be known; CannotLowerError if it is not."""
        if not isinstance(value, np.ndarray):
            raise CannotLowerError(f"{what} known only when running")
        return value

    def numbers(self, value: ModelValue, what: str) -> tuple[int, ...]:
        """Return the whole numbers of an operand that must be known."""
        return tuple(int(each) for each in self.known(value, what).reshape(-1))

    def plain(self, value: ModelValue) -> ModelValue:
        """Return a value whose elements are of a type that chips have."""
        return in_memory(value) if isinstance(value, np.ndarray) else value

    def shape(self, value: ModelValue) -> Shape:
        """Return the shape of a value, in a type that chips have."""
        return self.form.shape(self.plain(value))

    def dims(self, value: ModelValue) -> tuple[int, ...]:
        """Return the dimensions of a value."""
        return value.shape if isinstance(value, np.ndarray) else self.form.shape(value).dims

    def kind(self, value: ModelValue) -> str:
        """Return the element type of a value."""
        return self.shape(value).element_type

    def like(self, number: float, value: ModelValue) -> Array:
        """Return a number as an array of the dimensions and the type of a value, without a copy."""
        shape = self.shape(value)
        return np.broadcast_to(np.array(number).astype(shape.dtype), shape.dims)

    def whole(self, value: ModelValue) -> str:
        """Return the tensor that has all elements of a value."""
        return self.form.whole(self.plain(value))

    def spread(self, value: ModelValue, dims: Sequence[int]) -> ModelValue:
        """Return a value in more dimensions, as numpy broadcasts; nothing is moved."""
        own = self.dims(value)
        if own == tuple(dims):
            return value
        if isinstance(value, np.ndarray):
            return np.broadcast_to(value, dims)
        given = self.form.view(value)
        behind = len(dims) - len(own)
        kept = [axis for axis, size in enumerate(own) if size == dims[behind + axis]]
        seen = self.form.reshape(given, Shape(self.kind(given), [own[axis] for axis in kept]))
        return seen.spread(dims, [behind + axis for axis in kept])

    def common(self, *values: ModelValue) -> tuple[int, ...]:
        """Return the dimensions to which values are spread; WorkloadError if there are none."""
        try:
            dims = np.broadcast_shapes(*(self.dims(value) for value in values))
        except ValueError:
            found = " and ".join(str(list(self.dims(value))) for value in values)
            raise WorkloadError(f"dimensions {found} do not go together") from None
        return self.sized(dims)

    def sized(self, dims: Sequence[int]) -> tuple[int, ...]:
        """Return dimensions; WorkloadError if there are too many elements."""
        if math.prod(dims) > MOST_ELEMENTS:
            raise WorkloadError(f"{list(dims)}: more than {MOST_ELEMENTS:,} elements")
        return tuple(int(each) for each in dims)

    # element by element

    def unary(
        self, value: ModelValue, function: str, scale: float | None = None,
        bias: float | None = None,
    ) -> ModelView:  # fmt: skip
        """Add a function of each element."""
        return self.form.unary(
            self.plain(value), "activation", function=function, scale=scale, bias=bias
        )

    def scaled(self, value: ModelValue, scale: float, bias: float | None = None) -> ModelView:
        """Add a factor, and a term, of each element."""
        return self.unary(value, "identity", scale, bias)

    def binary(self, operator: str, lhs: ModelValue, rhs: ModelValue) -> ModelValue:
        """Add an operator of two values of one type."""
        dims = self.common(lhs, rhs)
        one, other = (self.plain(self.spread(each, dims)) for each in (lhs, rhs))
        kinds = self.kind(one), self.kind(other)
        if kinds[0] != kinds[1]:
            raise WorkloadError(f"{operator} of {kinds[0]} and {kinds[1]}, two types")
        return paired(self.form, operator, (one, other), Shape(kinds[0], dims))

    def compared(self, operator: str, lhs: ModelValue, rhs: ModelValue) -> ModelView:
        """Add a comparison of two values of one type."""
        dims = self.common(lhs, rhs)
        one, other = (self.plain(self.spread(each, dims)) for each in (lhs, rhs))
        return compared(self.form, operator, (one, other), Shape("pred", dims))

    def select(
        self, predicate: ModelValue, on_true: ModelValue, on_false: ModelValue
    ) -> ModelValue:
        """Add a choice between two values of one type, element by element."""
        dims = self.common(predicate, on_true, on_false)
        kind = self.kind(on_true)
        chosen, one, other = (
            self.plain(self.spread(each, dims)) for each in (predicate, on_true, on_false)
        )
        return selected(self.form, chosen, (one, other), Shape(kind, dims))

    def cast(self, value: ModelValue, kind: str) -> ModelValue:
        """Add a change of type."""
        given = self.plain(value)
        return given if self.kind(given) == kind else self.form.unary(given, "cast", kind)

    # in other places

    def reshape(self, value: ModelValue, dims: Sequence[int]) -> ModelValue:
        """See the same elements in other dimensions; WorkloadError if there are more or fewer."""
        if math.prod(self.dims(value)) != math.prod(dims):
            sizes = shortened(str(list(dims)))
            raise WorkloadError(f"{list(self.dims(value))} has other elements than {sizes}")
        if isinstance(value, np.ndarray):
            return value.reshape(dims)
        return self.form.reshape(value, Shape(self.kind(value), dims))

    def transpose(self, value: ModelValue, order: Sequence[int]) -> ModelValue:
        """Put the dimensions into another order; WorkloadError if there are more or fewer."""
        if len(self.dims(value)) != len(order):
            raise WorkloadError(f"{list(self.dims(value))}: needs {len(order)} dimensions")
        if isinstance(value, np.ndarray):
            return value.transpose(order)
        return self.form.transpose(value, order)

    def part(
        self, value: ModelValue, axis: int, first: int, stop: int, step: int = 1
    ) -> ModelValue:
        """Take some places along an axis, one behind another; `step` is at least 1."""
        cut = [slice(0, size, 1) for size in self.dims(value)]
        cut[axis] = slice(first, stop, step)
        return value[tuple(cut)] if isinstance(value, np.ndarray) else self.form.box(value, cut)

    def joined(self, values: Sequence[ModelValue], axis: int) -> ModelValue:
        """Put values side by side along an axis."""
        if len(values) == 1:
            return values[0]
        shapes = [self.shape(value) for value in values]
        dims = list(shapes[0].dims)
        dims[axis] = sum(shape.dims[axis] for shape in shapes)
        out = Shape(shapes[0].element_type, self.sized(dims))
        return self.made("concat", [self.whole(value) for value in values], out, axis=axis)

    def made(self, kind: str, inputs: Sequence[str], out: Shape, **attributes: object) -> ModelView:
        """Add an operation of whole tensors."""
        name = self.form.node(kind, inputs, out, **attributes)
        return ModelView(name, out.dims, tuple(range(out.rank)))

    # sums

    def reduce(
        self, reduction: str, value: ModelValue, axes: Sequence[int], *, keep: bool = False
    ) -> ModelValue:
        """Reduce over axes. keep: these stay, with one element each."""
        shape = self.shape(value)
        kept = [axis for axis in range(shape.rank) if axis not in axes]
        out = Shape(shape.element_type, [shape.dims[axis] for axis in kept])
        found: ModelValue = self.plain(value)
        if axes:
            found = self.form.reduce(reduction, found, axes, out)
        if not keep:
            return found
        return self.reshape(found, [1 if d in axes else n for d, n in enumerate(shape.dims)])

    def product(self, lhs: ModelValue, rhs: ModelValue, kind: str | None = None) -> ModelView:
        """Add a product [batch..., M, K] times [batch..., K, N]; batches are spread."""
        one, other = self.shape(lhs), self.shape(rhs)
        if one.dims[-1] != other.dims[-2]:
            raise WorkloadError(
                f"a product of {list(one.dims)} and {list(other.dims)}: {one.dims[-1]} columns, "
                f"{other.dims[-2]} rows"
            )
        try:
            batch = np.broadcast_shapes(one.dims[:-2], other.dims[:-2])
        except ValueError:
            raise WorkloadError(
                f"products of {list(one.dims)} and {list(other.dims)} do not go together"
            ) from None
        rank = len(batch) + 2
        names = [
            self.whole(self.reshape(each, (*(1,) * (rank - shape.rank), *shape.dims)))
            for each, shape in ((lhs, one), (rhs, other))
        ]
        out = Shape(kind or one.element_type, self.sized((*batch, one.dims[-2], other.dims[-1])))
        return self.made("matmul", names, out)


OnnxRow: TypeAlias = Callable[[OnnxContext, OnnxNode, NodeOperands], "ModelValue"]
"""What makes the results of a node: one, or a tuple of them."""


def axis_of(axis: int, rank: int) -> int:
    """Return an axis that may be counted from the last one on; WorkloadError if there is none."""
    found = axis + rank if axis < 0 else axis
    if not 0 <= found < max(rank, 1):
        raise WorkloadError(f"axis {axis} of {rank} dimensions")
    return found
