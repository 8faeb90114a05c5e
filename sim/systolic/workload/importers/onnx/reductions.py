"""Rows of ONNX operators that reduce lines to one element, or find the largest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from systolic.workload.importers.arithmetic import is_integer
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow, axis_of
from systolic.workload.importers.onnx.model import OnnxNode
from systolic.workload.importers.places_of import first_in_order, place_of_extreme


def reduced_axes(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> tuple[int, ...]:
    """Return the axes of a reduction: an attribute, or an operand in newer opsets; all if none."""
    rank = len(at.dims(given[0]))
    if "axes" in node.attributes:
        axes = node.numbers("axes")
    else:
        axes = () if given[1] is None else at.numbers(given[1], "axes")
    if not axes and node.number("noop_with_empty_axes"):
        return ()
    return tuple(sorted({axis_of(axis, rank) for axis in axes})) or tuple(range(rank))


ValueStep = Callable[[OnnxContext, ModelValue], ModelValue]


def _as_it_is(at: OnnxContext, value: ModelValue) -> ModelValue:
    return at.plain(value)


def _reduction(
    reduction: str,
    before: ValueStep = _as_it_is,
    behind: ValueStep = _as_it_is,
    *,
    integers: bool = True,
) -> OnnxRow:
    """Return the row of a reduction with a function of each element before, and one behind it."""

    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        shape = at.shape(given[0])
        if is_integer(shape) and not integers:
            raise CannotLowerError(f"of {shape.element_type}")
        axes = reduced_axes(at, node, given)
        keep = bool(node.number("keepdims", 1))
        return behind(at, at.reduce(reduction, before(at, given[0]), axes, keep=keep))

    return row


def _square(at: OnnxContext, value: ModelValue) -> ModelValue:
    if is_integer(at.shape(value)):
        return at.binary("multiply", value, value)
    return at.unary(value, "square")


def _absolute(at: OnnxContext, value: ModelValue) -> ModelValue:
    if is_integer(at.shape(value)):
        return at.binary("max", value, at.binary("subtract", at.like(0, value), value))
    return at.unary(value, "abs")


def _log(at: OnnxContext, value: ModelValue) -> ModelValue:
    return at.unary(value, "log")


def _root(at: OnnxContext, value: ModelValue) -> ModelValue:
    return at.unary(value, "square_root")


def _log_sum_exp(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    axes = reduced_axes(at, node, given)
    return log_sum_exp(at, given[0], axes, keep=bool(node.number("keepdims", 1)))


def log_sum_exp(
    at: OnnxContext, value: ModelValue, axes: tuple[int, ...], *, keep: bool
) -> ModelValue:
    """Return the logarithm of the sum of powers, which are at most 1 when they are added."""
    if not axes:
        return at.plain(value)
    least = float(np.finfo(np.float32).min)
    most = at.reduce("max", value, axes, keep=True)
    most = at.binary("max", most, at.like(least, most))  # minus infinity has no difference
    powers = at.unary(at.binary("subtract", value, most), "exponential")
    total = at.unary(at.reduce("sum", powers, axes, keep=True), "log")
    found = at.binary("add", total, most)
    if keep:
        return found
    return at.reshape(found, [n for d, n in enumerate(at.dims(found)) if d not in axes])


def _place(*, largest: bool) -> OnnxRow:
    """Return the row of argmax or argmin."""

    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        shape = at.shape(given[0])
        axis = axis_of(node.number("axis"), shape.rank)
        last = bool(node.number("select_last_index"))
        value = at.plain(given[0])
        found = place_of_extreme(at.form, value, axis, largest=largest, last=last)
        if node.number("keepdims", 1):
            return at.reshape(found, [1 if d == axis else n for d, n in enumerate(shape.dims)])
        return found

    return row


def _top(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    shape = at.shape(given[0])
    axis = axis_of(node.number("axis", -1), shape.rank)
    count = node.number("k") if given[1] is None else at.numbers(given[1], "k")[0]
    largest = bool(node.number("largest", 1))
    return first_in_order(at.form, at.plain(given[0]), axis, count, largest=largest)


REDUCTIONS: dict[str, OnnxRow] = {
    "ReduceMax": _reduction("max"),
    "ReduceMin": _reduction("min"),
    "ReduceMean": _reduction("mean", integers=False),
    "ReduceSum": _reduction("sum"),
    "ReduceProd": _reduction("product"),
    "ReduceL1": _reduction("sum", _absolute),
    "ReduceL2": _reduction("sum", _square, _root, integers=False),
    "ReduceSumSquare": _reduction("sum", _square),
    "ReduceLogSum": _reduction("sum", behind=_log, integers=False),
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": _place(largest=True),
    "ArgMin": _place(largest=False),
    "TopK": _top,
}
