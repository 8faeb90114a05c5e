"""What the lanes of the engines compute: pure functions of arrays [lanes, elements]. No time.

Operands are taken to float32, integers to int32 where an instruction says so; each step rounds as
`systolic.machine.values.activation_functions` and `systolic.machine.values.arithmetic` say; a NaN
that was computed is 0x7FC00000; the result is cast to the target's type. Copy and Select keep the
bits of what they do not cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.isa import (
    Access,
    Activate,
    Copy,
    Iota,
    Memset,
    OnEngine,
    Pool,
    Select,
    TensorScalar,
    TensorTensor,
)
from systolic.isa.effects import writes
from systolic.isa.opcodes import engine_instructions, require_rows
from systolic.machine.memory import cast
from systolic.machine.values.activation_functions import apply
from systolic.machine.values.arithmetic import COMPARISONS, REDUCTIONS, operate


@dataclass(frozen=True, slots=True)
class OperandValues:
    """What was read for some consecutive elements of the target.

    elements: [lanes, read] for each operand that is read element by element; per_lane: [lanes, 1]
    for each operand that is not; first, count: which elements of the target.
    """

    elements: Sequence[Array]
    per_lane: Sequence[Array]
    first: int
    count: int


def compute(instruction: OnEngine, operands: OperandValues) -> Array:
    """Return the values to be written, [lanes, count], in the type of the target."""
    (target,) = writes(instruction)
    with np.errstate(all="ignore"):
        values = _COMPUTE[type(instruction)](instruction, operands)
        if not isinstance(instruction, Copy | Select) and values.dtype == np.float32:
            values = np.where(np.isnan(values), np.float32(np.nan), values)
        return cast(values, target.dtype)


def constant(value: float) -> Array:
    """Return a number as the engines hold it: int32 if it is an int, else float32."""
    return np.asarray(value, np.int32 if isinstance(value, int) else np.float32)


def _plain(values: Array) -> Array:
    """Return the values in their accumulator's type, int32 or float32."""
    return values.astype(np.int32 if np.issubdtype(values.dtype, np.integer) else np.float32)


def _filled(values: Array, instruction: Any, operands: OperandValues) -> Array:
    return np.broadcast_to(values, (instruction.target.partitions, operands.count))


def _copy(_: Copy, operands: OperandValues) -> Array:
    return operands.elements[0]


def _memset(memset: Memset, operands: OperandValues) -> Array:
    return _filled(constant(memset.value), memset, operands)


def _activate(activate: Activate, operands: OperandValues) -> Array:
    bias = operands.per_lane[0] if operands.per_lane else constant(activate.bias)  # type: ignore[arg-type]
    scaled = operands.elements[0].astype(np.float32) * np.float32(activate.scale)
    return apply(activate.function, scaled + bias.astype(np.float32))


def _pool(pool: Pool, operands: OperandValues) -> Array:
    values = _plain(operands.elements[0])
    windows = values.reshape(len(values), operands.count, pool.window)
    return REDUCTIONS[pool.function](windows)


def _tensor_tensor(both: TensorTensor, operands: OperandValues) -> Array:
    left, right = operands.elements
    return operate(both.op, _plain(left), _plain(right))


def _tensor_scalar(one: TensorScalar, operands: OperandValues) -> Array:
    per_lane = iter(operands.per_lane)
    stages = [(one.op, one.scalar, one.reverse)]
    if one.then is not None:
        stages.append((one.then, one.other, one.then_reverse))
    values = _plain(operands.elements[0])
    for op, scalar, reverse in stages:
        second = _plain(next(per_lane)) if isinstance(scalar, Access) else constant(scalar)
        values = operate(op, second, values) if reverse else operate(op, values, second)
    return values


def _affine(instruction: Iota | Select, operands: OperandValues) -> Array:
    """Return base + per_partition * lane + per_element * element, int64."""
    lane = np.arange(instruction.target.partitions, dtype=np.int64)[:, None]
    element = operands.first + np.arange(operands.count, dtype=np.int64)[None, :]
    steps = instruction.per_partition * lane + instruction.per_element * element
    affine: Array = instruction.base + steps
    return affine


def _iota(iota: Iota, operands: OperandValues) -> Array:
    return _affine(iota, operands).astype(np.int32)


def _select(select: Select, operands: OperandValues) -> Array:
    holds = COMPARISONS[select.compare](_affine(select, operands), 0)
    value = operands.elements[0] if operands.elements else constant(select.value)  # type: ignore[arg-type]
    dtype = select.target.dtype
    return np.where(holds, cast(value, dtype), cast(constant(select.other), dtype))


_COMPUTE: dict[type, Callable[[Any, OperandValues], Array]] = {
    Copy: _copy,
    Memset: _memset,
    Activate: _activate,
    Pool: _pool,
    TensorTensor: _tensor_tensor,
    TensorScalar: _tensor_scalar,
    Iota: _iota,
    Select: _select,
}
require_rows("values.lanes._COMPUTE", _COMPUTE, engine_instructions())
