"""Two runs must leave the same trace and the same bytes: where do they first differ?"""

from __future__ import annotations

import numpy as np

from systolic.isa import Buffer
from systolic.machine import Outcome
from systolic.trace.records import Trace
from systolic.trace.words import VALUE_TYPES, WordTable

FIELDS = (
    "ticks", "periods", "times", "stalls", "semaphores", "labels", "port_cycles", "transfers",
    "fetches",
)  # fmt: skip


def assert_same(one: Outcome, other: Outcome) -> None:
    """Fail with the first difference between two outcomes, field by field, word by word."""
    assert_same_traces(one.trace, other.trace)
    for buffer in Buffer:
        mine, theirs = one.memory.bytes_of(buffer), other.memory.bytes_of(buffer)
        if not np.array_equal(mine, theirs):
            where = np.argwhere(mine != theirs)[0]
            raise AssertionError(f"{buffer}: partition and byte {where.tolist()}")


def assert_same_traces(one: Trace, other: Trace) -> None:
    """Fail with the first difference between two traces, field by field, word by word."""
    for field in FIELDS:
        mine, theirs = getattr(one, field), getattr(other, field)
        if mine != theirs:
            raise AssertionError(f"{field}: {_first_difference(mine, theirs)}")
    _same_words(one.words, other.words)


def _first_difference(mine: object, theirs: object) -> str:
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        for a, b in zip(mine, theirs, strict=False):
            if a != b:
                return f"\n  {a}\n  {b}"
        longer = mine if len(mine) > len(theirs) else theirs
        return f"{len(mine)} and {len(theirs)} entries, next {longer[min(len(mine), len(theirs))]}"
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted({*mine, *theirs}, key=str):
            if mine.get(key) != theirs.get(key):
                return f"{key}: {_first_difference(mine.get(key), theirs.get(key))}"
    return f"{mine} and {theirs}"


def _same_words(mine: WordTable, theirs: WordTable) -> None:
    a, b = _canonical(mine), _canonical(theirs)
    for row, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            raise AssertionError(f"word {row}: {mine.rows.dtype.names}\n  {x}\n  {y}")
    assert len(a) == len(b), f"{len(a)} and {len(b)} words"


def _canonical(table: WordTable) -> np.ndarray:
    """Return the rows with every NaN as the canonical one: payloads are not in the contract."""
    rows = table.rows.copy()
    for code, (_, dtype) in enumerate(VALUE_TYPES):
        mask = rows["type"] == code
        if mask.any() and dtype.kind != "i" and dtype.kind != "u":
            bits = rows["bits"][mask].astype(f"u{dtype.itemsize}")
            values = bits.view(dtype)
            with np.errstate(invalid="ignore"):  # ml_dtypes warns of the NaNs of eight bits
                missing = np.isnan(values)
            bits[missing] = np.asarray(np.nan, dtype).view(f"u{dtype.itemsize}")
            rows["bits"][mask] = bits
    return rows
