"""The memories as planes [partition, element] of a type, so that one index is one access.

The bytes are those of `sim.machine.memory.Memory`: what is written here is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.hw.datatypes import PSUM_WORD_BYTES, data_type
from sim.isa import Access, Buffer
from sim.machine.memory import Memory

Array = npt.NDArray[Any]


class Planes:
    """Views of each buffer by element type, made once."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._views: dict[tuple[Buffer, str], Array] = {}

    def of(self, access: Access) -> Array:
        """Return the plane the access indexes: [partitions of the buffer, elements]."""
        key = (access.buffer, access.dtype)
        if key not in self._views:
            self._views[key] = self._view(*key)
        return self._views[key]

    def bytes_of(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        """Return the raw bytes, [partitions, bytes]."""
        return self._memory.bytes_of(buffer)

    def result_words(self) -> npt.NDArray[np.int32]:
        """Return all words of the result buffer as bits, flat, partition by partition."""
        return self._memory.bytes_of(Buffer.RESULT).reshape(-1).view(np.int32)

    def _view(self, buffer: Buffer, dtype: str) -> Array:
        raw = self._memory.bytes_of(buffer)
        element = data_type(dtype).numpy
        size = PSUM_WORD_BYTES if buffer is Buffer.RESULT else element.itemsize
        partitions, row_bytes = raw.shape
        shape, strides = (partitions, row_bytes // size), (row_bytes, size)
        return np.ndarray(shape, element, buffer=raw, strides=strides)
