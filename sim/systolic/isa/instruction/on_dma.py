"""Instructions of the DMA queues."""

from __future__ import annotations

from dataclasses import dataclass

from systolic.hw.units import dma_queue
from systolic.isa.access import Access
from systolic.isa.instruction.posts import Post, Wait

CODE = "code"
"""Where a core of several holds its program: ``core1.code``. Processors bring it there."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaMove(DmaCopy):
    """A copy that names places of other cores, adds to its target, or writes a second one.

    Args:
        source_at: the core whose buffer `source` is in; "" is the program's core. DRAM has none.
        target_at: the core of `target`; ``core1.code`` if it brings a core its code, whose access
        is
            one row of bytes, as in DRAM.
        accumulate: add to the target, one rounding, instead of replacing it.
        duplicate: a second target; what was read once is written there too.
        duplicate_at: the core of `duplicate`.

    """

    source_at: str = ""
    target_at: str = ""
    accumulate: bool = False
    duplicate: Access | None = None
    duplicate_at: str = ""

    @property
    def brings_code(self) -> bool:
        """Return whether the target is the code of a core."""
        return self.target_at.endswith(f".{CODE}")
