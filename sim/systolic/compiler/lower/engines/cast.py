"""Lowering of a cast: one instruction of an engine, or two, that give the value in another type.

Narrow types are carried as u8 (`systolic.compiler.ir.carried`), so their casts are more than
copies: a sign is extended, numbers are brought into range, or bits are cut off. The rules are those
of `systolic.workload.operations.cast.convert`.
"""

from __future__ import annotations

from systolic.compiler.ir.carried import CARRIER, NARROW_BITS
from systolic.compiler.ir.lane_step import COPY, LaneStep
from systolic.compiler.ir.nodes import ConvertNode
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.engines.elementwise import each_element
from systolic.element_types import ELEMENT_TYPES
from systolic.hw.datatypes import data_type
from systolic.isa import TensorScalar
from systolic.workload import Operation

WORD_BITS = 32
Steps = tuple[tuple[LaneStep, str], ...]
"""Steps, and the type that the machine has behind each."""


def lower_cast(builder: LayerBuilder, op: Operation) -> None:
    """Lower a cast, of types as the user has them."""
    (source,) = op.inputs
    before, after = builder.user_type(source), builder.user_type(op.output)
    *first, (last, _) = cast_steps(before, after)
    if not first:
        each_element(lambda _: last)(builder, op)
        return
    matrix, axes = builder.any_view(source)
    for step, dtype in first:
        made = builder.temporary(matrix, dtype, matrix.cols)
        builder.node(ConvertNode, (matrix,), made, step=step)
        matrix = made
    builder.node(ConvertNode, (matrix,), builder.result(op.output, axes), step=last)


def cast_steps(before: str, after: str) -> Steps:
    """Return the steps of a cast between types as the user has them."""
    if before == after:
        return ((COPY, after),)
    if after == "pred":
        return ((_compared(before), CARRIER),)
    if after in NARROW_BITS:
        return _to_narrow(before, after)
    return ((_extended(before) if _is_signed(before) else COPY, after),)


def _to_narrow(before: str, after: str) -> Steps:
    bits = NARROW_BITS[after]
    cut = (_cut(bits), CARRIER)
    if before in NARROW_BITS:
        if NARROW_BITS[before] >= bits:
            return (cut,)
        return ((_extended(before), "s8"), cut) if _is_signed(before) else ((COPY, CARRIER),)
    if data_type(before).accumulator == "s32":
        return (cut,)
    if _is_signed(after):
        return ((_in_range(after), "s8"), cut)
    return ((_in_range(after), CARRIER),)


def _is_signed(name: str) -> bool:
    return name in NARROW_BITS and name[0] == "s"


def _extended(name: str) -> LaneStep:
    """Return the step that copies the sign to all bits above it."""
    shift = WORD_BITS - NARROW_BITS[name]
    return LaneStep(
        TensorScalar,
        {"op": "shift_left", "scalar": shift, "then": "shift_right_arithmetic", "other": shift},
    )


def _cut(bits: int) -> LaneStep:
    return LaneStep(TensorScalar, {"op": "and", "scalar": (1 << bits) - 1})


def _in_range(name: str) -> LaneStep:
    """Return the step that brings floats into the range of an integer type."""
    limits = ELEMENT_TYPES[name].integer_range
    assert limits is not None
    low, high = map(float, limits)
    return LaneStep(TensorScalar, {"op": "max", "scalar": low, "then": "min", "other": high})


def _compared(before: str) -> LaneStep:
    """Return the step that gives 1 for what is not 0 (a NaN is not), else 0."""
    whole = before in NARROW_BITS or data_type(before).accumulator == "s32"
    return LaneStep(TensorScalar, {"op": "not_equal", "scalar": 0 if whole else 0.0})
