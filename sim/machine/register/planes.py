"""The memories as planes [partition, element] of a type, so that one index is one access.

What the program touches of state and result buffer is copied for the run and stored back at its
end: rows a power of two apart would share cache sets, and an access takes a word of many rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.hw.datatypes import PSUM_WORD_BYTES, data_type
from sim.isa import Access, Buffer, Program
from sim.isa.effects import reads, writes
from sim.machine.memory import Memory

Array = npt.NDArray[Any]
LINE_BYTES = 64


class Planes:
    """Views of each buffer by element type, made once."""

    def __init__(self, memory: Memory, program: Program) -> None:
        self._memory = memory
        self._rows = {Buffer.DRAM: memory.bytes_of(Buffer.DRAM)}
        for buffer in (Buffer.STATE, Buffer.RESULT):
            self._rows[buffer] = _apart(memory.bytes_of(buffer), _extent(program, buffer))
        self._views: dict[tuple[Buffer, str], Array] = {}

    def store(self) -> None:
        """Bring what was written back to the memory."""
        for buffer in (Buffer.STATE, Buffer.RESULT):
            rows = self._rows[buffer]
            self._memory.bytes_of(buffer)[:, : rows.shape[1]] = rows

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
        return used.view(element)


def _extent(program: Program, buffer: Buffer) -> int:
    """Return how many bytes of each partition the program touches, in whole lines."""
    accesses = (a for i in program.instructions for a in (*reads(i), *writes(i)))
    last = max((a.span[1] for a in accesses if a.buffer is buffer), default=0)
    return -(-last // LINE_BYTES) * LINE_BYTES


def _apart(rows: npt.NDArray[np.uint8], extent: int) -> npt.NDArray[np.uint8]:
    """Return a copy of the first bytes of each row, an odd number of lines apart."""
    partitions, size = len(rows), min(extent, rows.shape[1])
    lines = extent // LINE_BYTES | 1
    copy = np.zeros((partitions, lines * LINE_BYTES), np.uint8)[:, :size]
    copy[:] = rows[:, :size]
    return copy
