"""What a run file says, one frozen class per table. Validation of each key on its own.

Not here: loading, the chip, and checks across tables (`load`); what the operation means
(`sim.workload`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sim.hw.spec import Count, Spec

EngineKind = Literal["event", "register"]
Axes = Annotated[tuple[Annotated[int, Field(ge=0, le=63)], ...], Field(strict=False)]
Block = Annotated[tuple[Count, Count], Field(strict=False)]


class WorkloadTable(Spec):
    """[workload]: the operation, its tensors and its data."""

    op: Literal["transpose"] = Field(description="operation")
    shape: str = Field(description='XLA shape of the source, such as "f32[128,64]"')
    out: str | None = Field(
        default=None, description="XLA shape of the result, for its layout (default: row major)"
    )
    permutation: Axes | None = Field(
        default=None, description="source axis of each result axis (a matrix needs none)"
    )
    home: Literal["state_buffer", "dram"] = Field(
        default="state_buffer", description="memory in which source and result live"
    )
    data: str = Field(
        default="arange", description='"arange", "random", or a .npy or .csv file beside the run'
    )
    seed: Annotated[int, Field(ge=0, le=1 << 63)] | None = Field(
        default=None, description='seed of data = "random" (default 0)'
    )


class CompileTable(Spec):
    """[compile]: choices the compiler leaves to the user."""

    drain: Literal["row", "partition", "block"] = Field(
        default="block", description="when results leave the result buffer"
    )
    drain_engine: Literal["activation", "pooling"] = Field(
        default="activation", description="engine that copies results back"
    )
    identity: Literal["stored", "built"] = Field(
        default="stored", description="identity matrix: there at cycle 0, or written by memsets"
    )
    via: Literal["pe", "dram"] = Field(
        default="pe", description="through the array, or out to DRAM and back by DMA"
    )
    block: Block | None = Field(
        default=None, description="block [p, q] of equation 1 (default: partitions x partitions)"
    )


class SweepTable(Spec):
    """[[sweep]]: the run once for every combination of values (the last key varies fastest)."""

    name: str = Field(description="name of the sweep")
    description: str = Field(default="", description="what it shows")
    vary: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        min_length=1, description='dotted key of the run file, or of the chip as "chip.", to values'
    )


class RunFile(Spec):
    """A whole run file."""

    name: str = Field(default="", description="name of the run (default: the file's)")
    description: str = Field(default="", description="what the run shows")
    chip: str = Field(description="chip file (path from this file), or the name of a shipped chip")
    workload: WorkloadTable
    compile: CompileTable = CompileTable()
    engine: EngineKind = Field(default="event", description="engine that steps the machine")
    sweep: tuple[SweepTable, ...] = Field(
        default=(), strict=False, description="sweeps over values of this file or its chip"
    )
