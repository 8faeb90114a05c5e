"""Rows of HLO opcodes that put elements in order: the first few of each line."""

from __future__ import annotations

from systolic.layout import Shape
from systolic.workload.importers.arithmetic import is_integer
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView
from systolic.workload.importers.hlo.attributes import number
from systolic.workload.importers.hlo.context import HloContext, HloRow
from systolic.workload.importers.hlo.module import HloInstruction
from systolic.workload.importers.places_of import top

MOST_TAKEN = 64
"""Each of the first elements takes a pass over the line."""


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
    shape = at.form.shape(value)
    if is_integer(shape) or count > MOST_TAKEN:
        return _ordered(at.form, value, count, largest=largest)
    return top(at.form, value, count, largest=largest)


def _ordered(form: ModelForm, value: ModelValue, count: int, *, largest: bool) -> ModelValue:
    """Return the first elements of each line and their places by the operation that finds them."""
    shape, source, found = form.shape(value), form.whole(value), list[ModelValue]()
    dims = (*shape.dims[:-1], count)
    for gives, element_type in (("values", shape.element_type), ("indices", "s32")):
        out = Shape(element_type, dims)
        name = form.node("top_k", (source,), out, k=count, largest=largest, gives=gives)
        found.append(ModelView(name, dims, tuple(range(len(dims)))))
    return tuple(found)


ORDERS: dict[str, HloRow] = {"topk": _topk, "custom-call": _custom_call}
