"""ONNX's element types and what they are here: 64-bit integers are s32 where values allow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from systolic.arrays import Array
from systolic.layout.element_types import element_type_of
from systolic.workload.importers.errors import CannotLowerError

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL = range(1, 10)
FLOAT16, DOUBLE, UINT32, UINT64 = range(10, 14)
BFLOAT16, FLOAT8E4M3FN, FLOAT8E5M2 = 16, 17, 19

TYPES: Mapping[int, str] = {
    FLOAT: "f32",
    FLOAT16: "f16",
    BFLOAT16: "bf16",
    FLOAT8E4M3FN: "f8e4m3fn",
    FLOAT8E5M2: "f8e5m2",
    INT8: "s8",
    UINT8: "u8",
    INT32: "s32",
    INT64: "s32",
    BOOL: "pred",
}
"""The element types that tensors may have, by their numbers in ONNX's table."""

WIDE = {"s64": "s32", "s16": "s32", "u16": "s32", "u32": "s32", "u64": "s32"}
"""Integers of other sizes, which are s32 in memory."""


def element_type(number: int) -> str:
    """Return the element type of a tensor; CannotLowerError if no chip has it."""
    if number not in TYPES:
        raise CannotLowerError(f"elements of {type_name(number)}, which no chip has")
    return TYPES[number]


def type_name(number: int) -> str:
    """Return ONNX's name of an element type, such as double."""
    import onnx

    try:
        return str(onnx.TensorProto.DataType.Name(number)).lower()
    except ValueError:
        return f"type {number}"


def in_memory(array: Array) -> Array:
    """Return a known array in a type that a chip has.

    Raises:
        CannotLowerError: the type has no place on a chip, or an integer is larger than 32 bits.

    """
    kind = element_type_of(array.dtype).name if array.dtype.kind != "O" else "string"
    if kind in WIDE:
        if array.size and not (array.min() >= -(1 << 31) and array.max() < 1 << 31):
            raise CannotLowerError(f"a constant of {kind} with numbers of more than 32 bits")
        return array.astype(np.int32)
    if kind not in TYPES.values():
        raise CannotLowerError(f"a constant of {kind}, which no chip has")
    return array
