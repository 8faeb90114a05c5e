"""May the activation or the pooling engine do this? Shapes, places, types, names and constants.

Static rules of one instruction, as docs/instruction_set.md lists them; not timing, not races.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from systolic.errors import ProgramError, perhaps, shortened
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa.access import Access, Buffer
from systolic.isa.effects import reads_per_lane
from systolic.isa.instruction import (
    Activate,
    Comparison,
    Copy,
    Function,
    Iota,
    Memset,
    OnEngine,
    Operation,
    Pool,
    Reduction,
    Select,
    TensorScalar,
    TensorTensor,
)
from systolic.isa.legality.access import check_access, need
from systolic.isa.opcodes import BY_CLASS

INTEGERS_ONLY = (
    "and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic",
)  # fmt: skip
INT32 = range(-(1 << 31), 1 << 31)


def check_on_engine(instruction: OnEngine, chip: Chip) -> None:
    """Raise ProgramError if no engine of the chip can execute the instruction."""
    _check_engine(instruction)
    for field in BY_CLASS[type(instruction)].fields:
        value = getattr(instruction, field.name)
        if isinstance(value, Access):
            check_access(field.name, value, chip)
            need(field.name, value, value.buffer is not Buffer.DRAM, "on chip")
        elif isinstance(value, int | float):
            _check_number(field.name, value)
    _RULES[type(instruction)](instruction)
    if reads_per_lane(instruction):
        _check_per_lane(instruction)


def _check_engine(instruction: OnEngine) -> None:
    (engine,) = (f for f in BY_CLASS[type(instruction)].fields if f.name == "engine")
    if instruction.engine not in engine.words:
        wanted = " or ".join(engine.words)
        raise ProgramError(f"engine: needed {wanted}, found {instruction.engine}")


def _check_number(name: str, value: float) -> None:
    if isinstance(value, int) and value not in INT32:
        raise ProgramError(f"{name}: a whole number has 32 bits here, found {value}")


def _check_per_lane(instruction: OnEngine) -> None:
    """Hold the operands of one element per lane against the lanes of the instruction."""
    lanes = _target(instruction).partitions
    for name in ("bias", "scalar", "other"):
        access = getattr(instruction, name, None)
        if isinstance(access, Access) and (access.partitions, access.elements) != (lanes, 1):
            raise ProgramError(
                f"{name}: needed one element in each of {lanes} partitions, "
                f"found {access.partitions} x {access.elements}"
            )


def _target(instruction: Any) -> Access:
    target: Access = instruction.target
    return target


def _one_of(name: str, value: str, literal: Any) -> None:
    known = get_args(literal)
    if value not in known:
        there_are = f"(there are: {', '.join(known)}){perhaps(value, known)}"
        raise ProgramError(f'{name}: there is no "{shortened(value)}" {there_are}')


def _same_shape(name: str, access: Access, target: Access) -> None:
    if (access.partitions, access.elements) != (target.partitions, target.elements):
        raise ProgramError(
            f"{name} has {access.partitions} x {access.elements} elements, "
            f"target {target.partitions} x {target.elements}"
        )


def _check_copy(copy: Copy) -> None:
    _same_shape("source", copy.source, copy.target)


def _check_nothing_more(_: Memset | Iota) -> None:
    """A target alone obeys no rule but those of any access."""


def _check_activate(activate: Activate) -> None:
    _one_of("function", activate.function, Function)
    _same_shape("source", activate.source, activate.target)


def _check_pool(pool: Pool) -> None:
    _one_of("function", pool.function, Reduction)
    source, target = pool.source, pool.target
    if pool.window < 1:
        raise ProgramError(f"window: needed at least 1 element, found {pool.window}")
    if (source.partitions, source.elements) != (target.partitions, target.elements * pool.window):
        raise ProgramError(
            f"source has {source.partitions} x {source.elements} elements, "
            f"target {target.partitions} x {target.elements} of {pool.window} each"
        )


def _check_tensor_tensor(both: TensorTensor) -> None:
    _one_of("op", both.op, Operation)
    _same_shape("left", both.left, both.target)
    _same_shape("right", both.right, both.target)
    _check_operation("op", both.op, {"left": both.left, "right": both.right})


def _check_tensor_scalar(one: TensorScalar) -> None:
    _one_of("op", one.op, Operation)
    _same_shape("source", one.source, one.target)
    integers = _check_operation("op", one.op, {"source": one.source, "scalar": one.scalar})
    if one.then is None:
        if one.other != 0 or one.then_reverse:
            raise ProgramError("other and then_reverse mean nothing without then")
        return
    _one_of("then", one.then, Operation)
    first = 0 if integers else 0.0
    _check_operation("then", one.then, {f"the result of {one.op}": first, "other": one.other})


def _check_operation(name: str, op: str, operands: dict[str, Access | float]) -> bool:
    """Return whether the result is an integer; refuse the bits of floating-point numbers."""
    floating = [what for what, operand in operands.items() if not _is_integer(operand)]
    if floating and op in INTEGERS_ONLY:
        raise ProgramError(f"{name}: {op} takes integers, but {floating[0]} is floating-point")
    return not floating and op != "power"


def _is_integer(operand: Access | float) -> bool:
    if isinstance(operand, Access):
        return data_type(operand.dtype).accumulator == "s32"
    return isinstance(operand, int)


def _check_select(select: Select) -> None:
    _one_of("compare", select.compare, Comparison)
    if isinstance(select.value, Access):
        _same_shape("value", select.value, select.target)


_RULES: dict[type, Callable[[Any], None]] = {
    Copy: _check_copy,
    Memset: _check_nothing_more,
    Activate: _check_activate,
    Pool: _check_pool,
    TensorTensor: _check_tensor_tensor,
    TensorScalar: _check_tensor_scalar,
    Iota: _check_nothing_more,
    Select: _check_select,
}
