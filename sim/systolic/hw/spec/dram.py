"""What a chip file says of the DRAM, and of the channels and banks it is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from systolic.hw.spec.base import Count, Cycles, Spec

AddressField = Literal["column", "bank_group", "bank", "row"]
ADDRESS_FIELDS: tuple[AddressField, ...] = ("column", "bank_group", "bank", "row")


class DramOrganisation(Spec):
    """What DRAM is made of: channels with banks, each bank with a buffer of one row.

    All cycles are the DMA engine's. The descriptions give the JEDEC symbol of a timing. The default
    of every timing is 0: it costs nothing.
    """

    channels: Annotated[int, Field(ge=1, le=256)] = Field(
        description="channels, each with a controller, banks and a data bus of its own"
    )
    banks: Annotated[int, Field(ge=1, le=1024)] = Field(description="banks of each channel")
    bank_groups: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="groups into which the banks of a channel fall"
    )
    row_bytes: Count = Field(description="bytes of a row: what a bank holds open")
    burst_bytes: Count = Field(description="bytes of a burst: the least a channel moves")
    interleave_bytes: Count = Field(
        description="consecutive bytes in a channel before the next channel follows"
    )
    address_order: tuple[AddressField, ...] = Field(
        default=ADDRESS_FIELDS,
        strict=False,
        description="fields of an address within its channel, from the lowest bits up",
    )
    hash_channels: bool = Field(
        default=False, description="XOR the channel with the address bits above it"
    )
    hash_banks: bool = Field(default=False, description="XOR bank and bank group with row bits")
    outstanding: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=1, description="most bursts that a DMA queue has in hand"
    )
    scheduling: Literal["fcfs", "fr_fcfs"] = Field(
        default="fcfs", description="bursts in order of arrival, or those that can go on first"
    )
    patience_cycles: Cycles = Field(
        default=0,
        description="fr_fcfs: a burst in hand for longer goes before all others (0: never)",
    )
    activate_cycles: Cycles = Field(description="DMA cycles to open a row of a closed bank (tRCD)")
    precharge_cycles: Cycles = Field(
        description="DMA cycles to close an open row before that (tRP)"
    )
    row_active_cycles: Cycles = Field(
        default=0, description="least time from opening a row to closing it (tRAS)"
    )
    row_cycle_cycles: Cycles = Field(
        default=0, description="least time from opening a row to opening another one (tRC)"
    )
    activate_gap_cycles: Cycles = Field(
        default=0, description="least time between openings of rows in a channel (tRRD_S)"
    )
    activate_gap_in_group_cycles: Cycles = Field(
        default=0, description="the same within a bank group (tRRD_L)"
    )
    four_activates_cycles: Cycles = Field(
        default=0, description="window in which a channel opens at most four rows (tFAW)"
    )
    burst_gap_cycles: Cycles = Field(
        default=0, description="least time between starts of bursts in a channel (tCCD_S)"
    )
    burst_gap_in_group_cycles: Cycles = Field(
        default=0, description="the same within a bank group (tCCD_L)"
    )
    write_to_read_cycles: Cycles = Field(
        default=0, description="idle cycles of the bus between a write and a read (CWL + tWTR)"
    )
    read_to_write_cycles: Cycles = Field(
        default=0, description="idle cycles of the bus between a read and a write (tRTW)"
    )
    refresh_interval_cycles: Cycles = Field(
        default=0, description="time from one refresh of a channel to the next (tREFI; 0: none)"
    )
    refresh_cycles: Cycles = Field(
        default=0, description="time in which a refresh takes all banks of a channel (tRFC)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> DramOrganisation:
        for key in ("row_bytes", "interleave_bytes"):
            size = getattr(self, key)
            if size % self.burst_bytes:
                raise ValueError(
                    f"{key} ({size}) must be a multiple of burst_bytes ({self.burst_bytes})"
                )
        if self.banks % self.bank_groups:
            raise ValueError(
                f"banks ({self.banks}) must be a multiple of bank_groups ({self.bank_groups})"
            )
        if sorted(self.address_order) != sorted(ADDRESS_FIELDS):
            raise ValueError(f"address_order: must name each of {', '.join(ADDRESS_FIELDS)} once")
        self._hashes_fit()
        self._timings_agree()
        if self.patience_cycles and self.scheduling == "fcfs":
            raise ValueError(
                f"patience_cycles ({self.patience_cycles}) has no meaning with "
                'scheduling = "fcfs": nothing overtakes'
            )
        return self

    def _hashes_fit(self) -> None:
        hashed = {
            "channels": self.hash_channels,
            "banks": self.hash_banks,
            "bank_groups": self.hash_banks,
        }
        for key, is_hashed in hashed.items():
            count = getattr(self, key)
            if is_hashed and count & (count - 1):
                name = "hash_channels" if key == "channels" else "hash_banks"
                raise ValueError(f"{key} ({count}) must be a power of two with {name} = true")

    def _timings_agree(self) -> None:
        """Refuse timings that contradict one another. A timing of 0 is not there."""
        closing = self.row_active_cycles + self.precharge_cycles
        for key, least, symbols in (
            ("row_active_cycles", "activate_cycles", "tRAS < tRCD"),
            ("row_cycle_cycles", "row_active_cycles", "tRC < tRAS"),
            ("activate_gap_in_group_cycles", "activate_gap_cycles", "tRRD_L < tRRD_S"),
            ("burst_gap_in_group_cycles", "burst_gap_cycles", "tCCD_L < tCCD_S"),
            ("four_activates_cycles", "activate_gap_cycles", "tFAW < tRRD_S"),
        ):
            have, need = getattr(self, key), getattr(self, least)
            if 0 < have < need:
                raise ValueError(f"{key} ({have}) is less than {least} ({need}): {symbols}")
        if 0 < self.row_cycle_cycles < closing:
            raise ValueError(
                f"row_cycle_cycles ({self.row_cycle_cycles}) is less than row_active_cycles + "
                f"precharge_cycles ({closing}): tRC < tRAS + tRP"
            )
        if (self.refresh_cycles > 0) != (self.refresh_interval_cycles > 0):
            raise ValueError(
                f"refresh_cycles ({self.refresh_cycles}) and refresh_interval_cycles "
                f"({self.refresh_interval_cycles}) need one another: give both or neither"
            )
        taken = self.precharge_cycles + self.refresh_cycles
        if 0 < self.refresh_interval_cycles <= taken:
            raise ValueError(
                f"refresh_interval_cycles ({self.refresh_interval_cycles}) must be more than "
                f"precharge_cycles + refresh_cycles ({taken}): tREFI <= tRP + tRFC"
            )


class Dram(Spec):
    """The DRAM behind the DMA engine.

    Without an organisation its bandwidth is shared equally among active queues; with one, the
    queues meet at its channels and banks.
    """

    size_bytes: Annotated[int, Field(ge=1, le=1 << 50)] = Field(description="capacity")
    bytes_per_cycle: Count = Field(description="bytes all queues together move in a DMA cycle")
    latency_cycles: Cycles = Field(
        default=0, description="added to the DMA's latency of a DmaCopy that touches DRAM"
    )
    organisation: DramOrganisation | None = Field(
        default=None, description="channels, banks and row buffers (default: none are modelled)"
    )

    @model_validator(mode="after")
    def _channels_divide(self) -> Dram:
        parts = self.organisation
        if parts is None:
            return self
        if self.bytes_per_cycle % parts.channels:
            raise ValueError(
                f"bytes_per_cycle ({self.bytes_per_cycle}) must be a multiple of "
                f"organisation.channels ({parts.channels}): each has an equal part"
            )
        rows = parts.channels * parts.banks * parts.row_bytes
        if self.size_bytes % rows:
            raise ValueError(
                f"size_bytes ({self.size_bytes}) must be a multiple of channels x banks x "
                f"row_bytes ({rows}): every bank has equally many rows"
            )
        stripe = parts.channels * parts.interleave_bytes
        if parts.address_order[-1] != "row" and self.size_bytes % stripe:
            raise ValueError(
                f"size_bytes ({self.size_bytes}) must be a multiple of channels x "
                f"interleave_bytes ({stripe}) where organisation.address_order does not end in row"
            )
        return self
