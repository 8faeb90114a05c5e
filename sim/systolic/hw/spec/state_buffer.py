"""What a chip file says of the state buffer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from systolic.hw.spec.base import Count, Side, Spec


class StateBuffer(Spec):
    """The state buffer: partitions are rows; each partition is cut into equal banks."""

    partitions: Side = Field(description="row partitions")
    bytes_per_partition: Count = Field(description="bytes in each partition")
    banks: Count = Field(default=1, description="banks per partition, one read and one write each")
    port_bytes: Count | None = Field(
        default=None,
        description="most bytes a unit moves in a cycle of one bank of one partition "
        "(default: enough for every unit)",
    )
    port_scope: Literal["bank", "partition"] = Field(
        default="bank",
        description="what an access takes: its bank in every partition, or in those it touches",
    )

    @property
    def bank_bytes(self) -> int:
        """Return the bytes of one bank of one partition."""
        return self.bytes_per_partition // self.banks

    @property
    def is_split(self) -> bool:
        """Return whether each partition is a memory of its own, with ports of its own."""
        return self.port_scope == "partition"

    @model_validator(mode="after")
    def _banks_divide(self) -> StateBuffer:
        if self.bytes_per_partition % self.banks:
            raise ValueError(
                f"bytes_per_partition ({self.bytes_per_partition}) must be a multiple of "
                f"banks ({self.banks})"
            )
        return self
