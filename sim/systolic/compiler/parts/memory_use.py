"""Which memory a program uses, and which of its instructions use it first and last, by queue.

Memory is named by pages: parts of the state buffer's partitions, banks of the result buffer, and
tensors in DRAM. What comes before or after a program on the same memory has to wait for few of its
instructions: an instruction holds back those behind it in its queue, and an instruction that waits
for others ends after them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from systolic.compiler.ir.drafts import Draft
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Instruction, LoadWeights, MatMul
from systolic.isa.effects import reads, writes
from systolic.spans import Interval

PAGES = 32
"""In how many pages the bytes of a partition are told apart."""


class MemoryPage(NamedTuple):
    """A part of a memory; of DRAM the number of a tensor (-1: what no tensor has)."""

    buffer: Buffer
    number: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Of each page that a program uses: the numbers of its first and of its last users.

    firsts: one of each queue. lasts: those whose ends are the end of all use, by queue. written:
    the tensors in DRAM that it writes.
    """

    firsts: Mapping[MemoryPage, tuple[int, ...]]
    lasts: Mapping[MemoryPage, tuple[tuple[int, ...], ...]]
    written: frozenset[MemoryPage]


class Tensors(NamedTuple):
    """Where tensors lie in DRAM: the bytes of each, by name, in ascending order."""

    spans: tuple[tuple[str, Interval], ...]

    def number(self, at: int) -> int:
        """Return the number of the tensor that has a byte; -1 if none has."""
        place = bisect_right(self.spans, at, key=lambda each: each[1].first) - 1
        return place if place >= 0 and at < self.spans[place][1].stop else -1


def memory_use(drafts: Sequence[Draft], chip: Chip, tensors: Tensors) -> MemoryUse:
    """Return how instructions use memory, whose dependencies the drafts tell."""
    users: dict[MemoryPage, list[int]] = {}
    written: set[MemoryPage] = set()
    for number, draft in enumerate(drafts):
        found: dict[MemoryPage, None] = {}
        for access in writes(draft.instruction):
            found |= dict.fromkeys(_pages(access, chip, tensors))
        written.update(page for page in found if page.buffer is Buffer.DRAM)
        for access in reads(draft.instruction):
            found |= dict.fromkeys(_pages(access, chip, tensors))
        for page in found:
            users.setdefault(page, []).append(number)
    return MemoryUse(
        {page: tuple(_firsts(drafts, numbers)) for page, numbers in users.items()},
        {page: tuple(_lasts(drafts, numbers)) for page, numbers in users.items()},
        frozenset(written),
    )


def _pages(access: Access, chip: Chip, tensors: Tensors) -> Iterator[MemoryPage]:
    if access.buffer is Buffer.DRAM:
        yield MemoryPage(Buffer.DRAM, tensors.number(access.low_and_high[0]))
        return
    state = access.buffer is Buffer.STATE
    page_bytes = max(1, chip.state_buffer.bytes_per_partition // PAGES)
    size = page_bytes if state else chip.result_buffer.bank_bytes
    low, high = access.low_and_high
    for number in range(low // size, (high - 1) // size + 1):
        yield MemoryPage(access.buffer, number)


def _firsts(drafts: Sequence[Draft], users: Sequence[int]) -> Iterator[int]:
    seen: set[str] = set()
    for number in users:
        queue = drafts[number].instruction.queue
        if queue not in seen:
            seen.add(queue)
            yield number


def _lasts(drafts: Sequence[Draft], users: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the users of a page for which no later user waits, by queue."""
    left = dict.fromkeys(users)
    for number in users:
        for ref in drafts[number].needs:
            if not ref.part:
                left.pop(ref.step, None)
    queues: dict[str, list[int]] = {}
    for number in left:
        queues.setdefault(drafts[number].instruction.queue, []).append(number)
    for queue, numbers in queues.items():
        if queue.startswith("dma"):  # copies of a queue end in order
            yield (numbers[-1],)
        elif queue == "pe_array":
            yield tuple(_last_of_array([(n, drafts[n].instruction) for n in numbers]))
        else:
            yield tuple(numbers)


def _last_of_array(users: Sequence[tuple[int, Instruction]]) -> Iterator[int]:
    """Yield the instructions of the array with which all of them end.

    A multiply ends after those before it, unless it has fewer columns, and after all loads.
    """
    wide, behind = 0, False
    for number, each in reversed(users):
        if isinstance(each, MatMul):
            if each.result.partitions > wide:
                wide, behind = each.result.partitions, True
                yield number
        elif not behind or not isinstance(each, LoadWeights):
            yield number
