"""Dependencies: read after write, write after read, write after write, region by region.

A region is a piece of memory that is written in phases. Instructions that write in one phase write
disjoint parts, or their queue keeps them in order. Instructions that read come between two phases.
A region that takes over bytes of other regions begins when every user of those regions is done.

The bytes of a large tile are cut into pieces, so that an instruction that reads a part of the tile
need not wait until all of it is written. Example: an image of 3136 pixels is written by seven
instructions. What reads its first pixels waits for the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.isa.access import Access, Buffer
from systolic.isa.instruction import Instruction
from systolic.spans import Interval

EVERYWHERE = Interval(0, 1 << 62)
"""Stands for the bytes of an instruction whose bytes are not known."""

Key = tuple[str, ...]


class Ref(NamedTuple):
    """An instruction that others may depend on, and the key of the semaphore that it posts.

    part: how many of the rows or partitions it posts one by one suffice (0: all).
    """

    step: int
    queue: str
    key: Key
    part: int = 0


@dataclass(slots=True)
class Region:
    """Some memory and the instructions that use it; `name` is in its semaphores' keys.

    place: its bytes. piece_bytes: writers that begin in the same piece of `piece_bytes` share a
    key; 0: all do. written: the bytes that each of the writers touches.
    """

    name: str
    before: list[Ref] = field(default_factory=list)
    writers: list[Ref] = field(default_factory=list)
    readers: list[Ref] = field(default_factory=list)
    place: Interval = EVERYWHERE
    piece_bytes: int = 0
    written: list[Interval] = field(default_factory=list)

    def users(self) -> list[Ref]:
        """Return the instructions that the next owner of this memory must wait for."""
        return [*self.readers, *self.writers] if self.writers or self.readers else self.before

    def read(
        self, step: int, queue: str, *, streams: bool = False, touched: Interval = EVERYWHERE
    ) -> list[Ref]:
        """Note a reader; return the writers of this phase for which it must wait.

        If a phase has ended behind the last write, these are all users before.

        streams: a multiply; when it is done, every load and multiply before it has read. touched:
        the bytes that it reads.
        """
        if streams:
            self.readers = [r for r in self.readers if r.queue != queue]
        self.note_reader(step, queue)
        if not self.writers:
            return list(self.before)
        return self._writers_of(touched) if self.piece_bytes else list(self.writers)

    def note_reader(self, step: int, queue: str) -> None:
        """Note a reader, for which the writers of the next phase must wait."""
        self.readers.append(Ref(step, queue, _key(queue, "read", self.name)))

    def _writers_of(self, touched: Interval) -> list[Ref]:
        """Return the writers of some bytes, and those that share a key with one of them.

        Posts of one key may come in any order, so a reader waits for all of them, unless a DMA
        queue posts: its copies end in order. If the bytes were written in an earlier phase, any
        writer of this phase has waited for it: those that begin in the same piece are returned, or
        all if none does.
        """
        found = [
            writer
            for writer, written in zip(self.writers, self.written, strict=True)
            if written.meets(touched)
        ]
        found = found or [
            writer
            for writer, written in zip(self.writers, self.written, strict=True)
            if self._piece(written) == self._piece(touched)
        ]
        keys = {writer.key for writer in found if not _is_in_order(writer.queue)}
        wanted = {writer.step for writer in found}
        return [w for w in self.writers if w.step in wanted or w.key in keys] or list(self.writers)

    def _piece(self, touched: Interval) -> int:
        """Return the number of the piece in which some bytes begin."""
        return (touched.first - self.place.first) // self.piece_bytes

    def write(
        self, step: int, queue: str, *, accumulates: bool = False, touched: Interval = EVERYWHERE
    ) -> list[Ref]:
        """Note a writer of the touched bytes; return all users of the phase before.

        The writer must wait for those.
        """
        if self.readers:
            self.before = [*self.readers, *self.writers]
            self.writers, self.readers, self.written = [], [], []
        if accumulates:
            self.writers, self.written = [], []
        name = self.name
        if self.piece_bytes:
            name = f"{name}+{self._piece(touched)}"
        self.writers.append(Ref(step, queue, _key(queue, "written", name)))
        self.written.append(touched)
        return list(self.before)

    def touched(
        self, instruction: Instruction, accesses: Callable[[Instruction], Iterable[Access]]
    ) -> Interval:
        """Return the bytes of this region that an instruction may touch.

        accesses: returns what it reads, or what it writes. Only that in the state buffer counts,
        and only a region in pieces has to ask.
        """
        if not self.piece_bytes:
            return EVERYWHERE
        spans = [a.span for a in accesses(instruction) if a.buffer is Buffer.STATE]
        found = [span for span in spans if span.meets(self.place)]
        if not found:
            return EVERYWHERE
        return Interval(min(span.first for span in found), max(span.stop for span in found))

    def end_phase(self) -> None:
        """End the phase: what writes next waits for all users so far, though nothing is read."""
        self.before, self.writers, self.readers = self.users(), [], []
        self.written = []


def _key(queue: str, what: str, name: str) -> Key:
    """Return the key of a semaphore: the copies of a DMA queue, which end in order, share one."""
    return (queue,) if _is_in_order(queue) else (what, name, queue)


def _is_in_order(queue: str) -> bool:
    """Return whether the instructions of a queue end in order: DMA instructions do."""
    return queue.startswith("dma")


def needed(refs: Iterable[Ref], queue: str) -> list[Ref]:
    """Return the references that need a semaphore.

    The array's queue and DMA queues by themselves keep the order of their instructions' accesses.
    """
    keeps_order = queue == "pe_array" or _is_in_order(queue)
    return [ref for ref in refs if not (keeps_order and ref.queue == queue)]
