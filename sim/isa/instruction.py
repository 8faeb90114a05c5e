"""The whole instruction set on one screen. Nothing here acts; units in `sim.machine` do.

Every instruction belongs to one queue. It starts when its waits are satisfied (the count of
posts visible on a semaphore has reached a value) and its unit can take it; queues are in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sim.isa.access import Access

EngineName = Literal["activation", "pooling"]
Event = Literal["done", "row", "partition"]


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the instruction back until `semaphore` has been posted `value` times."""

    semaphore: int
    value: int


@dataclass(frozen=True, slots=True)
class Post:
    """Add 1 to `semaphore` when done, or (MatMul) per completed PSUM row or partition."""

    semaphore: int
    on: Event = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWeights:
    """Load a K x N tile of stationary weights: K partitions, N elements each (state buffer)."""

    weights: Access
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return "pe_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul:
    """Stream M moving vectors (K partitions, M elements each) through the loaded weights.

    result: N partitions of the result buffer, M words each, in one bank. With accumulate, the
    column sum is added to the stored word. Without a LoadWeights since the MatMul before, the
    weights are reused.
    """

    moving: Access
    result: Access
    accumulate: bool = False
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return "pe_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy lane by lane, casting to the target's type; lanes are the source's partitions."""

    engine: EngineName
    source: Access
    target: Access
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return self.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Memset:
    """Write one value to every element of the target; lanes are the target's partitions."""

    engine: EngineName
    target: Access
    value: int | float
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return self.engine


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
        return f"dma{self.dma_queue}"


Instruction: TypeAlias = LoadWeights | MatMul | Copy | Memset | DmaCopy
