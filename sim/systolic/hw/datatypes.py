"""The element types the datapaths know: rows of `systolic.element_types`, with accumulators.

Every type is multiplied and accumulated in one of two 32-bit accumulators, as in the real array:
float32 for floating types, int32 (wrapping) for integers. A PSUM word holds one accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.element_types import ELEMENT_TYPES
from systolic.errors import ProgramError, perhaps, shortened

PSUM_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class DataType:
    """An element type: XLA name, numpy dtype, size in bytes, and its accumulator's name."""

    name: str
    numpy: np.dtype[Any]
    accumulator: str

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


class _Sizes(dict[str, int]):
    """Bytes by name; a name not known is refused as `data_type` refuses it."""

    def __missing__(self, name: str) -> int:
        return data_type(name).size_bytes


SIZE_BYTES = _Sizes((name, dtype.size_bytes) for name, dtype in DATA_TYPES.items())
"""The bytes of an element, for the many times nothing else is asked."""


def data_type(name: str) -> DataType:
    """Return the type of that XLA name; ProgramError names the nearest known one."""
    try:
        return DATA_TYPES[name]
    except KeyError:
        known = f"({', '.join(DATA_TYPES)}){perhaps(name, DATA_TYPES)}"
        raise ProgramError(
            f'data type "{shortened(name)}" is not one the machine has {known}'
        ) from None
