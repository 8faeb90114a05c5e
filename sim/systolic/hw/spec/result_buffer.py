"""What a chip file says of the result buffer (PSUM)."""

from __future__ import annotations

from pydantic import Field, model_validator

from systolic.hw.datatypes import PSUM_WORD_BYTES
from systolic.hw.spec.base import Count, Cycles, Spec


class ResultBuffer(Spec):
    """The result buffer (PSUM): one partition per PE column, 32-bit words, banks per partition."""

    banks: Count = Field(description="banks per partition, one read and one write port each")
    bank_bytes: Count = Field(description="bytes of one bank of one partition")
    write_latency_cycles: Cycles = Field(
        default=0, description="cycles from the last PE row's adder to the written word"
    )
    groups_per_bank: Count | None = Field(
        default=None,
        description="accumulation groups that a bank keeps open at once (default: any number)",
    )
    dma_readable: bool = Field(
        default=False, description="a DMA queue may read it, past both engines"
    )

    @property
    def bank_words(self) -> int:
        """Return the 32-bit words of one bank of one partition."""
        return self.bank_bytes // PSUM_WORD_BYTES

    @property
    def bytes_per_partition(self) -> int:
        """Return the bytes of all banks of one partition."""
        return self.banks * self.bank_bytes

    @model_validator(mode="after")
    def _whole_words(self) -> ResultBuffer:
        if self.bank_bytes % PSUM_WORD_BYTES:
            raise ValueError(f"bank_bytes ({self.bank_bytes}) must be a multiple of 4")
        return self
