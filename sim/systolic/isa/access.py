"""Access patterns: which bytes of a buffer an instruction reads or writes, and in what order.

An access names partitions, a first byte, and up to four [step, count] pairs, the same in every
partition. It knows nothing of tensors. Elements are enumerated partition by partition, and inside
a partition with the last pair fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from systolic.hw.datatypes import PSUM_WORD_BYTES, SIZE_BYTES
from systolic.spans import Interval

MAX_PAIRS = 4


class Buffer(StrEnum):
    """The memories an access can name."""

    __hash__ = str.__hash__  # accesses are keys of many tables, and enum's own is Python code

    STATE = "state_buffer"
    RESULT = "result_buffer"
    DRAM = "dram"


Pattern = tuple[tuple[int, int], ...]


# A program repeats few patterns many times, so what follows from one alone is kept.


@lru_cache(maxsize=4096)
def _elements(pattern: Pattern) -> int:
    return math.prod(count for _, count in pattern)


@lru_cache(maxsize=4096)
def _reach(pattern: Pattern) -> tuple[int, int]:
    """Return the lowest and the highest element touched, relative to the first."""
    low = sum(step * (count - 1) for step, count in pattern if step < 0)
    high = sum(step * (count - 1) for step, count in pattern if step > 0)
    return low, high


@lru_cache(maxsize=4096)
def _end_bytes(pattern: Pattern, size: int) -> tuple[int, int]:
    """Return the lowest byte touched, and that behind the highest, relative to the first."""
    low, high = _reach(pattern)
    return low * size, (high + 1) * size


_interval = lru_cache(maxsize=8192)(Interval)
"""Partitions, or bytes, first <= n < stop: few in a program, and asked for again and again."""


@lru_cache(maxsize=256)
def _steps(pattern: Pattern) -> npt.NDArray[np.int64]:
    """Return the elements touched, relative to the first, in order; not to be written to."""
    index = np.zeros(1, np.int64)
    for step, count in pattern:
        index = (index[:, None] + step * np.arange(count, dtype=np.int64)).reshape(-1)
    index.setflags(write=False)
    return index


@lru_cache(maxsize=4096)
def coalesced(pattern: Pattern) -> Pattern:
    """Return the same elements in the same order with as few pairs as can be."""
    found: list[tuple[int, int]] = []
    for step, count in reversed(pattern):
        if found and found[-1][0] * found[-1][1] == step:
            found[-1] = found[-1][0], found[-1][1] * count
        elif count > 1:
            found.append((step, count))
    return tuple(reversed(found)) or ((1, 1),)


@lru_cache(maxsize=4096)
def _in_wider(pattern: Pattern, times: int) -> Pattern | None:
    """Return the pattern in elements wider by a factor; None if it has none."""
    *outer, (step, count) = coalesced(pattern)
    if step != 1 or count % times or any(far % times for far, _ in outer):
        return None
    return coalesced((*((far // times, many) for far, many in outer), (1, count // times)))


@lru_cache(maxsize=4096)
def _in_narrower(pattern: Pattern, times: int) -> Pattern | None:
    """Return the pattern in elements that are each several of these; None if those lie apart."""
    *outer, (step, count) = coalesced(pattern)
    if step != 1 or count == 1:
        return None
    return (*((far * times, many) for far, many in outer), (1, count * times))


@dataclass(frozen=True, slots=True)
class Access:
    """A strided region of one buffer.

    Args:
        buffer: the memory.
        dtype: XLA name of the element type. In the result buffer every element takes one 32-bit
            word and dtype is the accumulator's ("f32" or "s32"), or the type of what passed through
            the array, whose bytes are the lowest of the word.
        partition: first partition (0 in DRAM).
        partitions: number of consecutive partitions (1 in DRAM).
        start: byte offset of the first element in its partition (in DRAM: the address).
        pattern: (step, count) pairs, outermost first; steps in elements, may be negative.

    """

    buffer: Buffer
    dtype: str
    partition: int
    partitions: int
    start: int
    pattern: tuple[tuple[int, int], ...]

    @property
    def element_bytes(self) -> int:
        """Return the bytes from one element to the next."""
        if self.buffer is Buffer.RESULT:
            return PSUM_WORD_BYTES
        return SIZE_BYTES[self.dtype]

    @property
    def elements(self) -> int:
        """Return the number of elements in each partition."""
        return _elements(self.pattern)

    @property
    def size_bytes(self) -> int:
        """Return the bytes the access moves, over all its partitions."""
        return self.partitions * self.elements * self.element_bytes

    @property
    def low_and_high(self) -> tuple[int, int]:
        """Return the first byte of each partition that is touched, and that behind the last.

        They are the bytes of `span`, for what is asked of every instruction.
        """
        size = PSUM_WORD_BYTES if self.buffer is Buffer.RESULT else SIZE_BYTES[self.dtype]
        low, high = _end_bytes(self.pattern, size)
        return self.start + low, self.start + high

    @property
    def span(self) -> Interval:
        """Return the bytes of each partition from the first touched to the last."""
        return _interval(*self.low_and_high)

    def bank(self, bank_bytes: int) -> int | None:
        """Return the bank, of a size in bytes, that has all of it; None if no single one has."""
        low, high = self.low_and_high
        bank = low // bank_bytes
        return bank if bank == (high - 1) // bank_bytes else None

    @property
    def lanes(self) -> Interval:
        """Return the partitions."""
        return _interval(self.partition, self.partition + self.partitions)

    @property
    def first_element(self) -> int:
        """Return the first element's index in its partition."""
        return self.start // self.element_bytes

    def offsets(self) -> npt.NDArray[np.int64]:
        """Return the element indices in the partition, int64, in the order of the accesses."""
        return _steps(self.pattern) + self.first_element

    def seen_as(self, dtype: str) -> Access | None:
        """Return the access to the same bytes, in the same order, as elements of another type.

        None if there is none: elements that lie apart make none of another size, nor do wider ones
        begin anywhere, and a word of the result buffer holds one element.
        """
        if self.buffer is Buffer.RESULT:
            return None
        size, wanted = self.element_bytes, SIZE_BYTES[dtype]
        pattern: Pattern | None = self.pattern
        if wanted > size:
            pattern = None if self.start % wanted else _in_wider(self.pattern, wanted // size)
        elif wanted < size:
            pattern = _in_narrower(self.pattern, size // wanted)
        return replace(self, dtype=dtype, pattern=pattern) if pattern else None

    def __str__(self) -> str:
        """Return the text form, such as ``state_buffer[0:4]+16 f32 (1x4)``."""
        last = self.partition + self.partitions
        pairs = " ".join(f"{step}x{count}" for step, count in self.pattern)
        return f"{self.buffer}[{self.partition}:{last}]+{self.start} {self.dtype} ({pairs})"
