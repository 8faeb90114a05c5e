"""What a chip file says of instruction fetch."""

from __future__ import annotations

from pydantic import Field

from systolic.hw.spec.base import Count, Cycles, Spec


class Fetch(Spec):
    """Instruction fetch: one path for all queues, and a buffer for each. Cycles: first clock."""

    buffer_instructions: Count = Field(description="instructions the buffer of a queue holds")
    bytes_per_cycle: Count = Field(description="bytes of instructions the path moves in a cycle")
    latency_cycles: Cycles = Field(
        default=0, description="from the path to the buffer: a pipeline behind the path"
    )
