"""Numbers that left the range of their type: they wrapped, saturated, or became infinite.

Such a result is right by the rules of the hardware, and numpy gives the same in that type; but it
is not the number that the operation means. Each operation is looked at alone, with the inputs that
it has on the chip. Not here: rounding within the range, and whether the chip was right
(`systolic.run.verdict`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.graph import Graph
from systolic.workload.operation import Operation


@dataclass(frozen=True, slots=True)
class RangeLoss:
    """`elements` of the `of` elements of a tensor do not fit its type; `how` they ended."""

    tensor: str
    type: str
    elements: int
    of: int
    how: str


def range_losses(graph: Graph, values: Mapping[str, Array]) -> Iterator[RangeLoss]:
    """Yield the tensors that lost numbers; `values`: as from `reference_values`."""
    for op in graph.operations:
        shape = graph.shape(op.output)
        lost = _lost(op, graph, values)
        if lost:
            kinds = _is_whole(graph.shape(op.inputs[0])), _is_whole(shape)
            yield RangeLoss(op.output, shape.element_type, lost, shape.num_elements(), _HOW[kinds])


_HOW = {
    (True, True): "wrapped",
    (False, True): "saturated",
    (True, False): "became infinite or NaN",
    (False, False): "became infinite or NaN",
}
"""Whether (operands, result) are whole numbers: how a number ends (timing model, "Values")."""


def _lost(op: Operation, graph: Graph, values: Mapping[str, Array]) -> int:
    """Return how many elements of an operation's result are outside the range of their type."""
    arrays, found = [values[name] for name in op.inputs], values[op.output]
    shape = graph.shape(op.output)
    whole = _is_whole(shape)
    if shape.element_type == "pred":  # it says of every number whether it is 0
        return 0
    if whole and _surely_held(op, arrays, found.dtype):
        return 0
    if not whole and (_finite(found).all() or _only_moves(op, arrays, found.dtype)):
        return 0
    exact = op.row.exact(arrays, shape, op.attributes)
    if not whole:
        lost = np.isfinite(exact) & ~_finite(found)
        if not all(_finite(array).all() for array in arrays if array.dtype.kind not in "iub"):
            lost &= ~np.isnan(found)  # zero times an infinity beside it, which no range would hold
        return int(np.count_nonzero(lost))
    limits = shape.type.integer_range
    assert limits is not None
    held = exact if exact.dtype.kind in "iu" else np.trunc(exact.astype(np.float64))
    # NaN fails both comparisons, so it counts as lost: no whole number is NaN.
    return int(np.count_nonzero(~((held >= limits[0]) & (held <= limits[1]))))


def _finite(values: Array) -> Array:
    """Return which floats are finite; the host warns of a NaN that signals, and it is none."""
    with np.errstate(invalid="ignore"):
        found: Array = np.isfinite(values)
    return found


def _is_whole(shape: Shape) -> bool:
    """Return whether a type has whole numbers only."""
    return shape.type.integer_range is not None


def _only_moves(op: Operation, arrays: Sequence[Array], dtype: np.dtype[Any]) -> bool:
    return not op.row.computes and arrays[0].dtype == dtype


def _surely_held(op: Operation, arrays: Sequence[Array], dtype: np.dtype[Any]) -> bool:
    """Return whether the result of whole numbers as large as these surely fits the type."""
    if _only_moves(op, arrays, dtype):
        return True
    if op.kind != "matmul" or arrays[0].dtype.kind not in "iu":
        return False
    largest = [max(abs(int(a.min())), abs(int(a.max()))) for a in arrays]
    return arrays[0].shape[-1] * largest[0] * largest[1] <= np.iinfo(dtype).max and (
        np.iinfo(dtype).min < 0 or all(int(a.min()) >= 0 for a in arrays)
    )
