"""Element types: the one table from XLA's names to bits and numpy dtypes. A leaf.

The datapath's eight (`systolic.hw.datatypes`), those that words of a trace have
(`systolic.trace.words`) and of layouts (`systolic.layout.element_types`) are rows of it. Not
here: conversions between types, or arithmetic on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

BYTE_BITS = 8


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type.

    ``bits`` are the bits a value needs (``pred`` 1, ``s4`` 4); ``dtype`` is how numpy holds one.
    """

    name: str
    bits: int
    dtype: np.dtype[Any]

    @property
    def storage_bits(self) -> int:
        """Bits one element takes in memory unless a layout says ``E(n)``: whole bytes."""
        return 8 * self.dtype.itemsize

    @property
    def integer_range(self) -> tuple[int, int] | None:
        """The least and the largest value of an integer type or ``pred``; None for the others."""
        if self.name[0] == "s":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return (0, (1 << self.bits) - 1) if self.name[0] == "u" or self.name == "pred" else None

    @property
    def is_narrow(self) -> bool:
        """Whether it is pred or an integer of less than a byte, so that bytes can carry it."""
        return self.bits < BYTE_BITS and self.integer_range is not None

    def __str__(self) -> str:
        return self.name


def _small(name: str, instead: type[np.generic]) -> Any:
    # int1 and uint1 came with ml_dtypes 0.6; older releases hold the value in a plain byte.
    return getattr(ml_dtypes, name, instead)


_ROWS: tuple[tuple[str, int, Any], ...] = (
    ("pred", 1, np.bool_),
    ("s1", 1, _small("int1", np.int8)),
    ("s2", 2, ml_dtypes.int2),
    ("s4", 4, ml_dtypes.int4),
    ("s8", 8, np.int8),
    ("s16", 16, np.int16),
    ("s32", 32, np.int32),
    ("s64", 64, np.int64),
    ("u1", 1, _small("uint1", np.uint8)),
    ("u2", 2, ml_dtypes.uint2),
    ("u4", 4, ml_dtypes.uint4),
    ("u8", 8, np.uint8),
    ("u16", 16, np.uint16),
    ("u32", 32, np.uint32),
    ("u64", 64, np.uint64),
    ("f4e2m1fn", 4, ml_dtypes.float4_e2m1fn),
    ("f8e3m4", 8, ml_dtypes.float8_e3m4),
    ("f8e4m3", 8, ml_dtypes.float8_e4m3),
    ("f8e4m3fn", 8, ml_dtypes.float8_e4m3fn),
    ("f8e4m3b11fnuz", 8, ml_dtypes.float8_e4m3b11fnuz),
    ("f8e4m3fnuz", 8, ml_dtypes.float8_e4m3fnuz),
    ("f8e5m2", 8, ml_dtypes.float8_e5m2),
    ("f8e5m2fnuz", 8, ml_dtypes.float8_e5m2fnuz),
    ("f8e8m0fnu", 8, ml_dtypes.float8_e8m0fnu),
    ("f16", 16, np.float16),
    ("bf16", 16, ml_dtypes.bfloat16),
    ("f32", 32, np.float32),
    ("f64", 64, np.float64),
    ("c64", 64, np.complex64),
    ("c128", 128, np.complex128),
)

PACKED_TYPES = MappingProxyType(
    {"f4e2m1fn_x4": ElementType("f4e2m1fn_x4", 16, np.dtype(np.uint16))}
)
"""Types whose element holds several values, as the bits of an integer; XLA does not name them.

f4e2m1fn_x4: four of f4e2m1fn, the first in the lowest bits.
"""

ELEMENT_TYPES = MappingProxyType(
    {name: ElementType(name, bits, np.dtype(dtype)) for name, bits, dtype in _ROWS}
)
"""Every element type by its XLA name (source: the HLO parser's table, jaxlib 0.4.30 and 0.10.2)."""
