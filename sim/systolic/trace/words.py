"""The word table: a row for each word that moved, with its exact bits, in numpy columns.

`WordTable.join` sorts the rows, so that tables of both engines compare bit for bit. `csv` writes
them as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.element_types import ELEMENT_TYPES, PACKED_TYPES

KINDS = ("load", "inject", "read", "write", "psum_write")
"""load: weights read; inject: moving words read; read, write: engines and DMA; psum_write: results
taken by the result buffer."""

BUFFERS = ("state_buffer", "result_buffer", "dram")
"""The memories in the order of their numbers in column `buffer`."""

VALUE_TYPES: tuple[tuple[str, np.dtype[Any]], ...] = tuple(
    (name, (ELEMENT_TYPES | PACKED_TYPES)[name].dtype)
    for name in (
        "f32", "s32", "bf16", "f16", "f8e4m3fn", "f8e5m2", "s8", "u8", "f8e8m0fnu", "f4e2m1fn_x4",
        "u16",
    )
)  # fmt: skip
"""The types in the order of their numbers in column `type`; a new type goes to the end."""
_CODE = {name: code for code, (name, _) in enumerate(VALUE_TYPES)}

ORDER = (
    "tick", "kind", "unit", "core", "buffer", "partition", "address", "instruction", "type", "bits",
)  # fmt: skip
"""The columns by which rows are sorted: the last two for what is read of one place as several
types, and for what is written to one address of two places.
"""
NO_CORE = -1
"""In column `core`: the word lies in DRAM, or on a chip of one core."""

HEADER = "cycle,unit,buffer,partition,address,value"
"""The columns of words, and of events, as CSV."""

ROW = np.dtype(
    [
        ("tick", np.int64),
        ("kind", np.uint8),
        ("unit", np.uint16),
        ("core", np.int8),
        ("buffer", np.uint8),
        ("partition", np.int32),
        ("address", np.int64),
        ("instruction", np.int32),
        ("type", np.uint8),
        ("bits", np.uint32),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """Words of one instruction, as 1-D columns of equal length.

    values: in the numpy type of `dtype`; addresses: element indices in the partition. buffer: one
    of BUFFERS, that they were read from or written to. core: that has the buffer (None: the core of
    the unit).
    """

    buffer: str
    ticks: npt.NDArray[np.int64]
    partitions: npt.NDArray[Any]
    addresses: npt.NDArray[Any]
    dtype: str
    values: npt.NDArray[Any]
    core: int | None = None

    def rows(self, kind: str, unit: int, instruction: int, core: int) -> npt.NDArray[np.void]:
        """Return them as rows of the word table; core: of the unit, or NO_CORE."""
        rows = np.empty(self.values.shape, ROW)
        own = core if self.core is None else self.core
        rows["core"] = own if self.buffer != "dram" else NO_CORE
        rows["kind"], rows["unit"], rows["instruction"] = KINDS.index(kind), unit, instruction
        rows["tick"], rows["partition"] = self.ticks, self.partitions
        rows["buffer"] = BUFFERS.index(self.buffer)
        rows["address"] = self.addresses
        rows["type"] = _CODE[self.dtype]
        rows["bits"] = self.values.view(f"u{self.values.dtype.itemsize}")
        return rows


@dataclass(frozen=True, eq=False)
class WordTable:
    """All recorded words of a run: `rows` (dtype ROW) and the names of the units."""

    rows: npt.NDArray[np.void]
    units: tuple[str, ...]

    @classmethod
    def join(cls, chunks: list[npt.NDArray[np.void]], units: tuple[str, ...]) -> WordTable:
        """Return the table of all chunks, sorted by ORDER."""
        rows = np.concatenate(chunks) if chunks else np.empty(0, ROW)
        order = np.lexsort([rows[column] for column in reversed(ORDER)])
        return cls(rows[order], units)

    def of(self, kind: str) -> WordTable:
        """Return only the words of that kind."""
        return WordTable(self.rows[self.rows["kind"] == KINDS.index(kind)], self.units)

    def within(self, buffer: str) -> WordTable:
        """Return only the words of that buffer, one of BUFFERS."""
        return WordTable(self.rows[self.rows["buffer"] == BUFFERS.index(buffer)], self.units)

    def values(self) -> list[str]:
        """Return the values as shortest decimal text, integers without a point."""
        text = np.empty(len(self.rows), object)
        for code, (_, dtype) in enumerate(VALUE_TYPES):
            mask = self.rows["type"] == code
            if mask.any():
                bits = self.rows["bits"][mask].astype(f"u{dtype.itemsize}")
                text[mask] = [decimal(v) for v in bits.view(dtype)]
        return list(text)

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the values as float64."""
        found = np.empty(len(self.rows))
        for code, (_, dtype) in enumerate(VALUE_TYPES):
            mask = self.rows["type"] == code
            bits = self.rows["bits"][mask].astype(f"u{dtype.itemsize}")
            found[mask] = bits.view(dtype).astype(np.float64)
        return found

    def csv(self, ticks_per_cycle: dict[str, int]) -> Iterator[str]:
        """Yield CSV lines, HEADER first; cycles are the unit's own."""
        yield HEADER
        for row, value in zip(self.rows, self.values(), strict=True):
            unit = self.units[row["unit"]]
            cycle = row["tick"] // ticks_per_cycle[unit]
            core = "" if row["core"] == NO_CORE else f"core{row['core']}."
            buffer = core + BUFFERS[row["buffer"]]
            yield f"{cycle},{unit},{buffer},{row['partition']},{row['address']},{value}"


def decimal(value: Any) -> str:
    """Return a scalar as decimal text that reads back to the same value in its type."""
    text = str(value)
    if "e" in text and "n" not in text:
        text = np.format_float_positional(value, unique=True, trim="-")
    return text.removesuffix(".0")
