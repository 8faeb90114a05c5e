"""The element types the datapaths know: rows of `systolic.element_types`, with accumulators.

Every type is multiplied and accumulated in one of two 32-bit accumulators, as in the real array:
float32 for floating types, int32 (wrapping) for integers. A PSUM word holds one accumulator.
The types of numbers that share scales (OCP Microscaling, MX) stand apart: memories hold them, DMA
moves them, the array takes them with their scales; the engines calculate with none of them. u16
stands apart too: memories hold it, DMA moves it, and engines copy it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.element_types import ELEMENT_TYPES, PACKED_TYPES
from systolic.errors import ProgramError, perhaps, shortened

PSUM_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class DataType:
    """An element type: name, numpy dtype, its accumulator's name, and how many values it packs."""

    name: str
    numpy: np.dtype[Any]
    accumulator: str
    packed: int = 1

    @property
    def size_bytes(self) -> int:
        """Return the bytes one element takes in the state buffer or DRAM."""
        return int(self.numpy.itemsize)


DATA_TYPES: dict[str, DataType] = {
    name: DataType(name, ELEMENT_TYPES[name].dtype, accumulator)
    for name, accumulator in (
        ("f32", "f32"),
        ("bf16", "f32"),
        ("f16", "f32"),
        ("f8e4m3fn", "f32"),
        ("f8e5m2", "f32"),
        ("s8", "s32"),
        ("u8", "s32"),
        ("s32", "s32"),
    )
}
"""What the engines calculate with, and the array multiplies."""

MX_TYPES: dict[str, DataType] = {
    "f8e8m0fnu": DataType("f8e8m0fnu", ELEMENT_TYPES["f8e8m0fnu"].dtype, "f32"),
    "f4e2m1fn_x4": DataType("f4e2m1fn_x4", PACKED_TYPES["f4e2m1fn_x4"].dtype, "f32", packed=4),
}
"""Of MX alone: scales, and elements of four bits, four in an element of the memories."""

COPIED_TYPES: dict[str, DataType] = {
    "u16": DataType("u16", ELEMENT_TYPES["u16"].dtype, "s32"),
}
"""What engines copy, to other types too, and calculate nothing with: halves of 32-bit words."""

KNOWN_TYPES = DATA_TYPES | MX_TYPES | COPIED_TYPES
"""All that lies in a memory."""

MX_ELEMENTS = ("f8e4m3fn", "f8e5m2", "f4e2m1fn_x4")
"""The types of the numbers that share scales."""

SCALE_TYPES = ("f8e8m0fnu", "u8")
"""The types of scales: 2^(b - 127) for the byte b, and a NaN for 255 (OCP MX 1.0, E8M0)."""


class _Sizes(dict[str, int]):
    """Bytes by name; a name not known is refused as `data_type` refuses it."""

    def __missing__(self, name: str) -> int:
        return data_type(name).size_bytes


SIZE_BYTES = _Sizes((name, dtype.size_bytes) for name, dtype in KNOWN_TYPES.items())
"""The bytes of an element, for the many times nothing else is asked."""


def data_type(name: str) -> DataType:
    """Return the type of that XLA name; ProgramError names the nearest known one."""
    try:
        return KNOWN_TYPES[name]
    except KeyError:
        known = f"({', '.join(KNOWN_TYPES)}){perhaps(name, KNOWN_TYPES)}"
        raise ProgramError(
            f'data type "{shortened(name)}" is not one the machine has {known}'
        ) from None
