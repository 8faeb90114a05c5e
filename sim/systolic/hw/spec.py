"""Frozen specifications of every unit: exactly what a chip file says, one class per table.

A specification is plain data, validated on construction, and prints back as the table that made
it (`systolic.config.to_toml`). Cycle counts are in cycles of the unit's own clock. Nothing here
acts.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from systolic.hw.datatypes import DATA_TYPES, PSUM_WORD_BYTES
from systolic.hw.units import (
    CLIENTS,
    ENGINES,
    UNITS,
    Client,
    EngineName,
    UnitName,
    queue_names,
    unit_of,
)

Count = Annotated[int, Field(ge=1, le=1 << 40)]
Cycles = Annotated[int, Field(ge=0, le=1 << 40)]
Side = Annotated[int, Field(ge=1, le=4096)]
DispatchKind = Literal["overlapped", "serial"]
DISPATCH = "behind the instruction before it, from its start on, or when it could start otherwise"


class Spec(BaseModel):
    """Base: frozen, strict (no silent conversion), unknown keys refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


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


class PEArray(Spec):
    """The grid of processing elements (timing contract, section 1)."""

    rows: Side = Field(description="PE rows R; row r is fed by state-buffer partition r")
    cols: Side = Field(description="PE columns C; column c writes result-buffer partition c")
    weight_path: Literal["left", "top"] = Field(
        default="left", description="side on which weights enter"
    )
    weight_buffer: Literal["double", "single", "serial"] = Field(
        default="double", description="shadow register per PE, none, or no overlap at all"
    )
    fast_load: Side = Field(default=1, description="weight elements per lane and cycle (f)")
    hop: tuple[Count, Count] = Field(
        default=(1, 1), strict=False, description="cycles per register hop [down, right]"
    )
    cell: tuple[Count, Count] = Field(
        default=(1, 1), strict=False, description="PEs between registers [rows, cols]"
    )
    entry_cycles: Cycles = Field(default=0, description="registers before the first PE")
    fused_multiply_add: bool = Field(
        default=False, description="round once per multiply-add instead of twice"
    )
    min_interval_cycles: Cycles = Field(
        default=0, description="least distance between the starts of two multiplies"
    )
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")
    cycles_per_vector: dict[str, Count] = Field(
        description="cycles each moving vector takes, by operand type; other types are refused"
    )

    @model_validator(mode="after")
    def _consistent(self) -> PEArray:
        for name in self.cycles_per_vector:
            if name not in DATA_TYPES:
                raise ValueError(
                    f'cycles_per_vector: unknown data type "{name}" '
                    f"(known: {', '.join(DATA_TYPES)})"
                )
        if not self.cycles_per_vector:
            raise ValueError("cycles_per_vector: needs at least one data type")
        for side, size, cell in (
            ("rows", self.rows, self.cell[0]),
            ("cols", self.cols, self.cell[1]),
        ):
            if size % cell:
                raise ValueError(f"{side} ({size}) must be a multiple of its cell size ({cell})")
        return self


class ResultBuffer(Spec):
    """The result buffer (PSUM): one partition per PE column, 32-bit words, banks per partition."""

    banks: Count = Field(description="banks per partition, one read and one write port each")
    bank_bytes: Count = Field(description="bytes of one bank of one partition")
    write_latency_cycles: Cycles = Field(
        default=0, description="cycles from the last PE row's adder to the written word"
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


class Engine(Spec):
    """The activation or the pooling engine: one lane per partition."""

    latency_cycles: Count = Field(default=1, description="from reading an element to writing it")
    elements_per_cycle: Side = Field(default=1, description="elements per lane and cycle (rate)")
    min_interval_cycles: Cycles = Field(
        default=0, description="least distance between the starts of two instructions"
    )
    fixed_cycles: Cycles = Field(
        default=0, description="cycles an instruction holds its lanes before its first read"
    )
    independent_lanes: bool = Field(
        default=False, description="instructions on disjoint lanes overlap (patent, para 43-44)"
    )
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")


class Dma(Spec):
    """The DMA engine: queues of descriptors, each queue serial."""

    queues: Annotated[int, Field(ge=1, le=256)] = Field(default=2, description="queues")
    latency_cycles: Cycles = Field(default=0, description="fixed cost of each DmaCopy")
    descriptor_cycles: Cycles = Field(default=0, description="cost of each descriptor")
    bytes_per_cycle: Count = Field(description="most bytes one queue moves in a cycle")
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")


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
        """Refuse timings of which one contradicts another. A timing of 0 is not there."""
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


class Fetch(Spec):
    """Instruction fetch: one path for all queues, and a buffer for each. Cycles: first clock."""

    buffer_instructions: Count = Field(description="instructions the buffer of a queue holds")
    bytes_per_cycle: Count = Field(description="bytes of instructions the path moves in a cycle")
    latency_cycles: Cycles = Field(
        default=0, description="from the path to the buffer: a pipeline behind the path"
    )


class Chip(Spec):
    """A whole chip file. `clock` maps names to MHz; the first is the default of every unit."""

    name: str = Field(description="name of the chip")
    description: str = Field(default="", description="what it is, and where its figures come from")
    semaphore_cycles: Count = Field(default=1, description="from a post to its being visible")
    port_priority: tuple[Client, ...] = Field(
        default=CLIENTS, strict=False, description="which client wins a memory port, first to last"
    )
    clock: dict[str, Count] = Field(description="clocks in MHz, by name")
    state_buffer: StateBuffer
    pe_array: PEArray
    result_buffer: ResultBuffer
    activation: Engine = Engine()
    pooling: Engine = Engine()
    dma: Dma
    dram: Dram
    fetch: Fetch | None = Field(
        default=None, description="how queues get instructions (default: they are there)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Chip:
        if not self.clock:
            raise ValueError("clock: needs at least one clock")
        for unit in UNITS:
            clock = self.unit(unit).clock
            if clock and clock not in self.clock:
                raise ValueError(
                    f'{unit}.clock: no clock "{clock}" (there are: {", ".join(self.clock)})'
                )
        if sorted(self.port_priority) != sorted(CLIENTS):
            raise ValueError(f"port_priority: must name each of {', '.join(CLIENTS)} once")
        self._ports_wide_enough()
        return self

    def _ports_wide_enough(self) -> None:
        """Refuse a port that no element fits, and rates that no type could reach."""
        port = self.state_buffer.port_bytes
        if port is None:
            return
        sizes = {name: DATA_TYPES[name].size_bytes for name in self.pe_array.cycles_per_vector}
        widest = max(sizes, key=sizes.__getitem__)
        if port < sizes[widest]:
            raise ValueError(
                f"state_buffer.port_bytes ({port}) is narrower than an element of {widest} "
                f"({sizes[widest]} bytes)"
            )
        least = min(sizes.values())
        rates = {f"{unit}.elements_per_cycle": self.engine(unit).elements_per_cycle
                 for unit in ENGINES}  # fmt: skip
        if self.pe_array.weight_path == "left":
            rates = {"pe_array.fast_load": self.pe_array.fast_load} | rates
        for key, rate in rates.items():
            if rate * least > port:
                raise ValueError(
                    f"{key} ({rate}) could never be reached: {rate} of the smallest elements "
                    f"({least} bytes) are more than state_buffer.port_bytes ({port})"
                )

    @cached_property
    def port_width_bytes(self) -> int:
        """Return the most bytes a unit moves in a cycle of one bank of one partition."""
        if self.state_buffer.port_bytes is not None:
            return self.state_buffer.port_bytes
        rates = (self.engine(unit).elements_per_cycle for unit in ENGINES)
        elements = max(self.pe_array.cols, self.pe_array.fast_load, *rates)
        widest = max(each.size_bytes for each in DATA_TYPES.values())
        return max(elements * widest, self.dma.bytes_per_cycle)

    @property
    def burst_cycles(self) -> tuple[int, int]:
        """Return the bytes a queue moves in a cycle of a burst, and the cycles of a burst."""
        parts = self.dram.organisation
        assert parts is not None
        width = min(self.dram.bytes_per_cycle // parts.channels, self.dma.bytes_per_cycle)
        return width, -(-parts.burst_bytes // width)

    def engine(self, name: EngineName) -> Engine:
        """Return the specification of an engine."""
        return {"activation": self.activation, "pooling": self.pooling}[name]

    def unit(self, name: UnitName) -> PEArray | Engine | Dma:
        """Return the specification of a unit that has a clock."""
        units: dict[UnitName, PEArray | Engine | Dma] = {
            "pe_array": self.pe_array,
            "activation": self.activation,
            "pooling": self.pooling,
            "dma": self.dma,
        }
        return units[name]

    def clock_mhz(self, unit: UnitName) -> int:
        """Return the frequency of a unit in MHz."""
        name = self.unit(unit).clock or next(iter(self.clock))
        return self.clock[name]

    @cached_property
    def ticks_mhz(self) -> int:
        """Return the tick rate: the least common multiple of the frequencies of the units.

        Fetch, if the chip has it, is one of them and has the first clock.
        """
        rates = [self.clock_mhz(unit) for unit in UNITS]
        return math.lcm(*rates, *([self._first_mhz] if self.fetch else []))

    @property
    def _first_mhz(self) -> int:
        return next(iter(self.clock.values()))

    @property
    def fetch_period(self) -> int:
        """Return the cycle of instruction fetch, one of the first clock, in ticks."""
        return self.ticks_mhz // self._first_mhz

    def period(self, unit: str) -> int:
        """Return the cycle of `unit` in ticks."""
        return self._periods[unit]

    @cached_property
    def _periods(self) -> dict[str, int]:
        return {unit: self.ticks_mhz // self.clock_mhz(unit) for unit in UNITS}

    @cached_property
    def queue_periods(self) -> dict[str, int]:
        """Return, by queue, the cycle of its unit in ticks."""
        return {queue: self._periods[unit_of(queue)] for queue in self.units}

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Return the names of the queues, which carry labels, in the order of the reports."""
        return queue_names(self.dma.queues)
