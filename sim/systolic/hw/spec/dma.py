"""What a chip file says of the DMA engines and their queues."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from systolic.hw.spec.base import DISPATCH, Count, Cycles, DispatchKind, Side, Spec

Percent = Annotated[int, Field(ge=1, le=100)]


class DmaTransposes(Spec):
    """Transposes on the way (dma_transpose): of which types, and how fast.

    While a matrix is turned, an engine moves bytes in `percent` of its cycles: at 90 in the first 9
    of every 10, at 50 in every other one.
    """

    element_bytes: tuple[Side, ...] = Field(
        strict=False, min_length=1, description="sizes of the elements that can be turned"
    )
    dram_percent: Percent = Field(
        description="cycles, of 100, in which bytes move from DRAM to the state buffer"
    )
    state_buffer_percent: Percent | None = Field(
        default=None,
        description="the same within the state buffer (default: nothing is turned there)",
    )

    def percent(self, *, outside: bool) -> int | None:
        """Return in how many cycles of 100 bytes move; None if nothing is turned there.

        outside: the source lies in DRAM.
        """
        return self.dram_percent if outside else self.state_buffer_percent

    def working(self, *, outside: bool) -> tuple[int, int]:
        """Return (m, n): bytes move in the first m of every n cycles, in lowest terms."""
        percent = self.percent(outside=outside)
        assert percent is not None
        common = math.gcd(percent, 100)
        return percent // common, 100 // common


class Dma(Spec):
    """The DMA engines: queues of descriptors, each queue serial, dealt out to the engines in turn.

    Queue q belongs to engine q mod engines. With `partitions_per_engine` a queue is one queue of
    every engine: each copy is spread over the engines by partition.
    """

    queues: Annotated[int, Field(ge=1, le=256)] = Field(default=2, description="queues")
    engines: Annotated[int, Field(ge=1, le=256)] | None = Field(
        default=None, description="engines that the queues belong to in turn (default: one each)"
    )
    partitions_per_engine: Side | None = Field(
        default=None,
        description="partitions that an engine serves; a queue then runs through all engines, "
        "which share out each of its copies (default: a queue belongs to one engine)",
    )
    latency_cycles: Cycles = Field(default=0, description="fixed cost of each DmaCopy")
    outstanding: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="copies of a queue under way at once: their latencies overlap"
    )
    descriptor_cycles: Cycles = Field(default=0, description="cost of each descriptor")
    descriptor_cost: Literal["sum", "max"] = Field(
        default="sum",
        description="a descriptor takes its cost and then moves its bytes, or the longer of both",
    )
    bytes_per_cycle: Count = Field(
        description="bytes one engine moves in a cycle; its queues share them"
    )
    partitions_per_cycle: Side = Field(
        default=1, description="partitions of which a queue moves descriptors side by side"
    )
    posts: Literal["once", "each_engine"] = Field(
        default="once",
        description="a copy posts once, or once for each engine, whatever part of it the engine "
        "has; all when the copy is done",
    )
    transposes: DmaTransposes | None = Field(
        default=None, description="copies that transpose on the way (default: there are none)"
    )
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")

    @property
    def engine_count(self) -> int:
        """Return how many engines there are."""
        return self.engines or self.queues

    @property
    def is_spread(self) -> bool:
        """Return whether each copy is spread over the engines."""
        return self.partitions_per_engine is not None

    @property
    def posts_per_copy(self) -> int:
        """Return how often a copy makes each of its posts."""
        return self.engine_count if self.posts == "each_engine" else 1

    @property
    def most_beside(self) -> int:
        """Return how many descriptors of a queue move side by side at most."""
        return self.engine_count if self.is_spread else self.partitions_per_cycle

    @property
    def queues_per_engine(self) -> int:
        """Return how many queues share an engine."""
        return self.queues if self.is_spread else self.queues // self.engine_count

    @property
    def useful_queues(self) -> int:
        """Return how many queues add to the rate, or to what is under way at once.

        Where copies are spread each queue has all engines: one for each direction is enough.
        """
        return min(self.queues, 2) if self.is_spread else self.queues

    @property
    def lone_bytes_per_cycle(self) -> int:
        """Return the bytes that a queue moves in a cycle at most."""
        return self.bytes_per_cycle * (self.engine_count if self.is_spread else 1)

    def most_engines(self, partitions: int) -> int:
        """Return how many engines serve that many partitions at once, from the first of one."""
        assert self.partitions_per_engine is not None
        return min(self.engine_count, -(-partitions // self.partitions_per_engine))

    def engine_of(self, partition: int) -> int:
        """Return the engine that serves a partition, where copies are spread."""
        assert self.partitions_per_engine is not None
        return partition // self.partitions_per_engine % self.engine_count

    @property
    def queue_bytes_per_cycle(self) -> int:
        """Return a queue's equal part of its engine's bytes per cycle, rounded down."""
        return self.bytes_per_cycle // self.queues_per_engine

    @model_validator(mode="after")
    def _spread_needs_engines(self) -> Dma:
        if self.is_spread and self.engines is None:
            raise ValueError("partitions_per_engine needs engines, which share out each copy")
        if self.is_spread and self.partitions_per_cycle > 1:
            raise ValueError(
                "partitions_per_cycle stands beside partitions_per_engine, by which each engine "
                "moves one descriptor at a time"
            )
        return self

    @model_validator(mode="after")
    def _posts_need_engines(self) -> Dma:
        if self.posts == "each_engine" and not self.is_spread:
            raise ValueError(
                'posts = "each_engine" needs partitions_per_engine, by which all engines have a '
                "part of each copy"
            )
        return self

    @model_validator(mode="after")
    def _engines_divide(self) -> Dma:
        if not self.is_spread and self.queues % self.engine_count:
            raise ValueError(
                f"queues ({self.queues}) must be a multiple of engines ({self.engines})"
            )
        if self.bytes_per_cycle < self.queues_per_engine:
            raise ValueError(
                f"bytes_per_cycle ({self.bytes_per_cycle}) is less than the queues of an engine "
                f"({self.queues_per_engine}): each must get a byte in every cycle"
            )
        return self
