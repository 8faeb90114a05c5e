"""What a chip file says of the DMA engines and their queues."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from systolic.hw.spec.base import DISPATCH, Count, Cycles, DispatchKind, Side, Spec


class Dma(Spec):
    """The DMA engines: queues of descriptors, each queue serial, dealt out to the engines in turn.

    Queue q belongs to engine q mod engines.
    """

    queues: Annotated[int, Field(ge=1, le=256)] = Field(default=2, description="queues")
    engines: Annotated[int, Field(ge=1, le=256)] | None = Field(
        default=None, description="engines that the queues belong to in turn (default: one each)"
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
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")

    @property
    def engine_count(self) -> int:
        """Return how many engines there are."""
        return self.engines or self.queues

    @property
    def queues_per_engine(self) -> int:
        """Return how many queues share an engine."""
        return self.queues // self.engine_count

    @property
    def queue_bytes_per_cycle(self) -> int:
        """Return a queue's equal part of its engine's bytes per cycle, rounded down."""
        return self.bytes_per_cycle // self.queues_per_engine

    @model_validator(mode="after")
    def _engines_divide(self) -> Dma:
        if self.queues % self.engine_count:
            raise ValueError(
                f"queues ({self.queues}) must be a multiple of engines ({self.engines})"
            )
        if self.bytes_per_cycle < self.queues_per_engine:
            raise ValueError(
                f"bytes_per_cycle ({self.bytes_per_cycle}) is less than the queues of an engine "
                f"({self.queues_per_engine}): each must get a byte in every cycle"
            )
        return self
