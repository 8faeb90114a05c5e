"""Operations that are made of others: their parts, and the results that follow from the parts.

A composite is lowered as its parts are, under its own name (`systolic.workload.expand`). Its
result, bit for bit, is the result of the parts in their order; in float64 it has a formula of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from systolic.arrays import Array
from systolic.element_types import ELEMENT_TYPES
from systolic.layout import Shape
from systolic.workload.operations.activation import ACTIVATION
from systolic.workload.operations.binary import BINARY
from systolic.workload.operations.cast import CAST
from systolic.workload.operations.concat import CONCAT
from systolic.workload.operations.constant import CONSTANT
from systolic.workload.operations.conv2d import CONV2D
from systolic.workload.operations.expand import EXPAND
from systolic.workload.operations.iota import IOTA
from systolic.workload.operations.matmul import MATMUL
from systolic.workload.operations.pad import PAD
from systolic.workload.operations.pool import POOL
from systolic.workload.operations.recipe import OUT, CompositePart
from systolic.workload.operations.reduce import REDUCE
from systolic.workload.operations.reshape import RESHAPE
from systolic.workload.operations.reverse import REVERSE
from systolic.workload.operations.row import AnyRow, RowWork, Rules
from systolic.workload.operations.select import SELECT
from systolic.workload.operations.slice import SLICE
from systolic.workload.operations.take import TAKE
from systolic.workload.operations.tensor_scalar import TENSOR_SCALAR
from systolic.workload.operations.transpose import TRANSPOSE
from systolic.workload.operations.whole_rows import WHOLE_ROWS

PARTS: dict[str, AnyRow] = {
    "cast": CAST,
    "activation": ACTIVATION,
    "binary": BINARY,
    "tensor_scalar": TENSOR_SCALAR,
    "select": SELECT,
    "reduce": REDUCE,
    "pool": POOL,
    "matmul": MATMUL,
    "conv2d": CONV2D,
    "reshape": RESHAPE,
    "transpose": TRANSPOSE,
    "slice": SLICE,
    "concat": CONCAT,
    "pad": PAD,
    "take": TAKE,
    "reverse": REVERSE,
    "expand": EXPAND,
    "iota": IOTA,
    "constant": CONSTANT,
    **WHOLE_ROWS,
}
"""The operations that a composite may be made of."""
MakeParts = Callable[[Sequence[Shape], Shape, Any], list[CompositePart]]
MakeRowParts = Callable[[Sequence[Shape], Shape, Any, RowWork], list[CompositePart] | None]


def reference_of(
    make: MakeParts, by_rows: MakeRowParts | None = None
) -> Callable[[Sequence[Array], Shape, Any, Rules], Array]:
    """Return the function that gives a composite's result from its parts' results.

    by_rows: gives its parts by instructions of whole rows, where engines can.
    """

    def reference(arrays: Sequence[Array], out: Shape, attributes: Any, rules: Rules) -> Array:
        values = {str(number): array for number, array in enumerate(arrays)}
        shapes = [_shape_of(array) for array in arrays]
        parts = by_rows(shapes, out, attributes, rules.rows) if by_rows else None
        for part in make(shapes, out, attributes) if parts is None else parts:
            operands = [values[name] for name in part.inputs]
            row = PARTS[part.kind]
            values[part.name] = row.reference(operands, part.shape, part.attributes, rules)
        return values[OUT]

    return reference


def _shape_of(array: Array) -> Shape:
    name = next(name for name, found in ELEMENT_TYPES.items() if found.dtype == array.dtype)
    return Shape(name, array.shape)
