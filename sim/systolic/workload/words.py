"""Integers that the machine has no type for: s64 and u32, which are s32 on the chip.

An s64 is an s32 if its numbers fit: inputs' numbers are checked before a run, numbers that are
computed behind it; results are given back as int64. A u32 has the bits of an s32, so operations by
bits, sums and products modulo 2^32 are the same; an operation for which they are not is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operation import Operation
from systolic.workload.operations.binary import BinaryAttributes
from systolic.workload.operations.reduce import ReduceAttributes
from systolic.workload.operations.tensor_scalar import TensorScalarAttributes
from systolic.workload.tensor import Tensor

WORD = "s32"
WIDE = ("s64", "u32")
OF_WORDS = (
    "add", "subtract", "multiply", "and", "or", "xor", "shift_left", "shift_right_logical",
    "equal", "not_equal",
)  # fmt: skip
"""Operators whose results for u32 have the bits of those for s32."""
SUMS = ("sum", "product")
INTEGERS = ("s32", "s64", "u32", "s8", "u8", "pred", "s4", "s2", "s1", "u4", "u2", "u1")


def in_words(
    tensors: Mapping[str, Tensor], operations: Iterable[Operation]
) -> tuple[dict[str, Tensor], tuple[tuple[str, str], ...]]:
    """Return the tensors with s32 for s64 and u32, and the names and types of what was replaced.

    Raises:
        WorkloadError: an operation of u32 gives other bits than one of s32.

    """
    kinds = {name: tensor.shape.element_type for name, tensor in tensors.items()}
    found = tuple((name, kind) for name, kind in kinds.items() if kind in WIDE)
    if not found:
        return dict(tensors), ()
    for op in operations:
        with op.blamed():
            _check(op, kinds)
    made = dict(tensors)
    for name, _ in found:
        shape = made[name].shape
        made[name] = replace(made[name], shape=Shape(WORD, shape.dims, shape.layout))
    return made, found


def _check(op: Operation, kinds: Mapping[str, str]) -> None:
    """Raise WorkloadError if an operation takes or gives u32 and does not go by bits."""
    types = [kinds[name] for name in (*op.inputs, op.output) if name in kinds]
    if "u32" not in types:
        return
    what = op.kind
    match op.attributes:
        case BinaryAttributes(operator=operator) | TensorScalarAttributes(operator=operator):
            what = operator
            right = operator in OF_WORDS
        case ReduceAttributes(reduction=reduction):
            what = f"reduce {reduction}"
            right = reduction in SUMS
        case _:
            right = not op.row.computes or op.kind in ("select", "popcount")
            right = right and (op.kind != "cast" or {*types} <= {*INTEGERS})
    if not right:
        raise WorkloadError(
            f"{what} of u32: the machine has s32, whose bits u32 shares for {', '.join(OF_WORDS)}, "
            f"sums, products and what moves elements; cast to s32 where numbers fit"
        )


def as_word(name: str, kind: str, array: Array) -> Array:
    """Return the elements of an s64 or a u32 as s32.

    Raises:
        WorkloadError: numbers of an s64 do not fit.

    """
    if kind == "u32":
        return array.view(np.int32) if array.ndim else array.astype(np.uint32).view(np.int32)
    limits = np.iinfo(np.int32)
    wrong = array[(array < limits.min) | (array > limits.max)]
    if wrong.size:
        raise WorkloadError(
            f'input "{name}": s64 is s32 on the chip, which holds {limits.min} to {limits.max}, '
            f"found {wrong.flat[0]}"
        )
    return array.astype(np.int32)


def as_given(kind: str, array: Array) -> Array:
    """Return the elements of an s32 in the type that the user gave."""
    return array.astype(np.int64) if kind == "s64" else array.view(np.uint32)
