"""Dependencies: read after write, write after read, write after write, region by region.

A region is a piece of memory that is written in phases. Instructions that write in one phase write
disjoint parts, or their queue keeps them in order. Instructions that read come between two phases.
A region that takes over bytes of other regions begins when every user of those regions is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """An instruction that others may depend on, and the key of the semaphore that it posts.

    part: how many of the rows or partitions it posts one by one suffice (0: all).
    """

    step: int
    queue: str
    key: Key
    part: int = 0


@dataclass(slots=True)
class Region:
    """A piece of memory and the instructions that use it; `name` is in its semaphores' keys."""

    name: str
    before: list[Ref] = field(default_factory=list)
    writers: list[Ref] = field(default_factory=list)
    readers: list[Ref] = field(default_factory=list)

    def users(self) -> list[Ref]:
        """Return the instructions that the next owner of this memory must wait for."""
        return [*self.readers, *self.writers] if self.writers or self.readers else self.before

    def read(self, step: int, queue: str, *, streams: bool = False) -> list[Ref]:
        """Note a reader; return the writers of this phase, for which it must wait.

        streams: a multiply; when it is done, every load and multiply before it has read.
        """
        ref = Ref(step, queue, _key(queue, "read", self.name))
        if streams:
            self.readers = [r for r in self.readers if r.queue != queue]
        self.readers.append(ref)
        return list(self.writers)

    def write(self, step: int, queue: str, *, accumulates: bool = False) -> list[Ref]:
        """Note a writer; return all users of the phase before, for which it must wait."""
        if self.readers:
            self.before = [*self.readers, *self.writers]
            self.writers, self.readers = [], []
        if accumulates:
            self.writers = []
        self.writers.append(Ref(step, queue, _key(queue, "written", self.name)))
        return list(self.before)

    def end_phase(self) -> None:
        """End the phase: what writes next waits for all users so far, though nothing is read."""
        self.before, self.writers, self.readers = self.users(), [], []


def _key(queue: str, what: str, name: str) -> Key:
    """Return the key of a semaphore: the copies of a DMA queue, which end in order, share one."""
    return (queue,) if queue.startswith("dma") else (what, name, queue)


def ordered_by_queue(first: Ref, queue: str) -> bool:
    """Return whether a queue by itself keeps the order of its instructions' accesses."""
    return first.queue == queue and (queue == "pe_array" or queue.startswith("dma"))


def needed(refs: Iterable[Ref], queue: str) -> list[Ref]:
    """Return the references that need a semaphore."""
    return [ref for ref in refs if not ordered_by_queue(ref, queue)]
