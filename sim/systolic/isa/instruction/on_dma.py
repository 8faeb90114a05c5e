"""Instructions of the DMA queues."""

from __future__ import annotations

from dataclasses import dataclass

from systolic.hw.units import dma_queue
from systolic.isa.access import Access
from systolic.isa.instruction.posts import Post, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaCopy:
    """Copy element by element, in the order of both accesses, through one DMA queue."""

    dma_queue: int
    source: Access
    target: Access
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return dma_queue(self.dma_queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaTranspose(DmaCopy):
    """Copy a matrix to the state buffer, turned: its rows become elements, its columns partitions.

    The target has a partition for each of the C columns of the source, and in it an element for
    each of the R rows: element r of partition c is number r * C + c of the source, in the order of
    its access. So a source in the state buffer has R partitions of C elements.
    """
