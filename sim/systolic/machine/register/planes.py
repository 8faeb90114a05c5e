"""The memories as planes [partition, element] of a type, so that one index is one access.

The bytes of the state and the result buffer that the program touches are copied for the run, and
stored back at its end. An access takes a word of many rows, and rows that lie a power of two apart
in the host's memory would share sets of its cache.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from systolic.arrays import Array
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.isa import Access, Buffer, Program
from systolic.isa.effects import reads, writes
from systolic.machine.memory import Memory

LINE_BYTES = 64


class Planes:
    """Views of each buffer by element type, made once."""

    def __init__(self, memory: Memory, program: Program) -> None:
        self._memory = memory
        self._rows = {Buffer.DRAM: memory.bytes_of(Buffer.DRAM)}
        self._touched = {b: _touched(program, b) for b in (Buffer.STATE, Buffer.RESULT)}
        for buffer, spans in self._touched.items():
            self._rows[buffer] = _apart(memory.bytes_of(buffer), spans)
        self._views: dict[tuple[Buffer, str], Array] = {}

    def store(self) -> None:
        """Bring what was written back to the memory."""
        for buffer, spans in self._touched.items():
            memory, rows = self._memory.bytes_of(buffer), self._rows[buffer]
            for low, high in spans:
                memory[:, low:high] = rows[:, low:high]

    def of(self, access: Access) -> Array:
        """Return the plane the access indexes: [partitions of the buffer, elements]."""
        key = (access.buffer, access.dtype)
        if key not in self._views:
            self._views[key] = self._view(*key)
        return self._views[key]

    def rows_of(self, access: Access) -> Array:
        """Return the rows of that plane that the access names."""
        return self.of(access)[access.partition : access.partition + access.partitions]

    def bytes_of(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        """Return the bytes, [partitions, bytes]."""
        return self._rows[buffer]

    def result_words(self) -> tuple[npt.NDArray[np.int32], int]:
        """Return all words of the result buffer as bits, flat, and how far partitions are apart."""
        whole = self._rows[Buffer.RESULT].base
        assert whole is not None
        return whole.reshape(-1).view(np.int32), whole.shape[1] // PSUM_WORD_BYTES

    def _view(self, buffer: Buffer, dtype: str) -> Array:
        raw = self._rows[buffer]
        element = data_type(dtype).numpy
        size = PSUM_WORD_BYTES if buffer is Buffer.RESULT else element.itemsize
        used = raw[:, : raw.shape[1] // size * size]
        return used.view(element)[:, :: size // element.itemsize]


def _touched(program: Program, buffer: Buffer) -> list[tuple[int, int]]:
    """Return which bytes of each partition the program touches: intervals, in order, disjoint."""
    accesses = (a for i in program.instructions for a in (*reads(i), *writes(i)))
    merged: list[tuple[int, int]] = []
    for low, high in sorted({a.span for a in accesses if a.buffer is buffer}):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def _apart(rows: npt.NDArray[np.uint8], spans: list[tuple[int, int]]) -> npt.NDArray[np.uint8]:
    """Return rows with these bytes, and zeros around them, an odd number of lines apart.

    Only what is copied takes the host's memory: untouched pages of zeros do not.
    """
    extent = -(-spans[-1][1] // LINE_BYTES) * LINE_BYTES if spans else 0
    partitions, size = len(rows), min(extent, rows.shape[1])
    lines = extent // LINE_BYTES | 1
    copy = np.zeros((partitions, lines * LINE_BYTES), np.uint8)[:, :size]
    for low, high in spans:
        copy[:, low:high] = rows[:, low:high]
    return copy
