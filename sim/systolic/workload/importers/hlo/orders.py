"""Rows of HLO opcodes that put elements in order: the first few of each line."""

from __future__ import annotations

import numpy as np

from systolic.layout import Shape
from systolic.workload.importers.arithmetic import is_integer
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.hlo.attributes import number, numbers
from systolic.workload.importers.hlo.context import HloContext, HloRow
from systolic.workload.importers.hlo.module import Computation, HloInstruction
from systolic.workload.importers.hlo.reductions import is_counted
from systolic.workload.importers.places_of import first_in_order


def _topk(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    largest = made.attributes.get("largest", "true") == "true"
    return _first(at, operands[0], number(made, "k"), largest=largest)


def _custom_call(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """Return what a call of a known target gives; of others nothing is known but their name."""
    target = made.attributes.get("custom_call_target", "").strip('"')
    if target != "TopK" or not isinstance(made.shape, tuple):
        raise CannotLowerError(f'a call of "{target[:60]}", of which only the name is known')
    values = made.shape[0]
    assert isinstance(values, Shape)
    return _first(at, operands[0], values.dims[-1], largest=True)


def _first(at: HloContext, value: ModelValue, count: int, *, largest: bool) -> ModelValue:
    axis = at.form.shape(value).rank - 1
    return first_in_order(at.form, value, axis, count, largest=largest)


def _sort(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """Return a line in order, and the places of its elements if these are the second operand.

    An ascending order ends with NaN, a descending one begins with it; of equal elements the first
    is in front.
    """
    (axis,) = numbers(made, "dimensions")
    shape, form = at.form.shape(operands[0]), at.form
    if shape.type.is_narrow or len(operands) > 2:
        raise CannotLowerError(f"a sort of {len(operands)} arrays, the first of {shape}")
    if len(operands) == 2 and not _is_counted_either_way(operands[1], axis):
        raise CannotLowerError("a sort of an array by another one")
    ascending = _is_ascending(at, at.named(made, "to_apply"))
    count = shape.dims[axis]
    values, places = first_in_order(
        form, operands[0], axis, count, largest=not ascending,
        nan_last=ascending and not is_integer(shape),
    )  # fmt: skip
    if len(operands) == 1:
        return (values,) if isinstance(made.shape, tuple) else values
    if not is_counted(operands[1], axis):  # it counts from behind
        places = form.unary(
            places, "tensor_scalar", operator="subtract", number=float(count - 1), reverse=True
        )
    return values, places


def _is_counted_either_way(value: ModelValue, axis: int) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    return is_counted(value, axis) or is_counted(np.flip(value, axis), axis)


def _is_ascending(at: HloContext, region: Computation) -> bool:
    """Return whether a comparison puts the less element in front, else the larger.

    It is tried on some pairs: what it does to these, not how it is written, says which one it is.
    """
    kinds = [each.shape for each in region.parameters if isinstance(each.shape, Shape)]
    dtype = kinds[0].dtype
    pairs, nan = [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)], float("nan")
    if dtype.kind not in "iu":
        pairs += [(1.0, nan), (nan, 1.0), (-0.0, 0.0), (0.0, -0.0)]
    others: list[ModelValue] = [np.zeros((), kind.dtype) for kind in kinds[2:]]
    answers = tuple(
        bool(at.tried(region, [*(np.array(n, dtype) for n in pair), *others])) for pair in pairs
    )
    orders = {
        (True, False, False, True, False, False, False): True,
        (False, True, False, False, True, False, False): False,
    }
    for order, ascending in orders.items():
        if answers == order[: len(answers)]:
            return ascending
    raise CannotLowerError("a sort by a comparison of its own")


ORDERS: dict[str, HloRow] = {"topk": _topk, "custom-call": _custom_call, "sort": _sort}
