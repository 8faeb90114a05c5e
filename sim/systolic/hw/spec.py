"""Frozen specifications of every unit: exactly what a chip file says, one class per table.

A specification is plain data, validated on construction, and prints back as the table that made
it (`systolic.config.to_toml`). Cycle counts are in cycles of the unit's own clock. Nothing here
acts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from systolic.errors import perhaps, shortened
from systolic.hw.datatypes import DATA_TYPES, PSUM_WORD_BYTES
from systolic.hw.units import (
    BUFFERS,
    CAPABILITIES,
    PATENT_ENGINES,
    BufferName,
    Capability,
    EngineName,
    clients_of,
    name_fault,
    queue_names,
    unit_of,
    units_of,
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


class Rate(Spec):
    """How fast an engine executes some of its instructions: all that fit every key given here.

    Of an instruction, the operands that are read element by element and the target count.
    """

    does: tuple[Capability, ...] = Field(
        default=(), strict=False, description="these instructions (default: all of the engine's)"
    )
    types: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="operands and target are of these types (default: any)",
    )
    operands: tuple[BufferName, ...] | None = Field(
        default=None,
        strict=False,
        description="the buffer of each operand, in any order (default: any number, anywhere)",
    )
    target: BufferName | None = Field(
        default=None, description="the buffer of the target (default: any)"
    )
    stride_bytes: Cycles | None = Field(
        default=None,
        description="most bytes from an element to the next, in the innermost pair of more than "
        "one element (default: any)",
    )
    elements: Side = Field(description="elements per lane that the engine takes together")
    cycles: Count = Field(default=1, description="cycles it takes for them")
    fixed_cycles: Cycles | None = Field(
        default=None, description="instead of the engine's fixed_cycles (default: those)"
    )

    @field_validator("types")
    @classmethod
    def _known_types(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        for name in types:
            if name not in DATA_TYPES:
                known = ", ".join(DATA_TYPES)
                raise ValueError(f'unknown data type "{shortened(name)}" (known: {known})')
        return types


class Engine(Spec):
    """An engine: one lane per partition, which reads elements and writes them some cycles later."""

    does: tuple[Capability, ...] = Field(
        default=(),
        strict=False,
        validate_default=True,
        description="instructions it executes, by the mnemonics of the text form",
    )
    reads: tuple[BufferName, ...] = Field(
        default=BUFFERS, strict=False, description="buffers its operands may lie in"
    )
    writes: tuple[BufferName, ...] = Field(
        default=BUFFERS, strict=False, description="buffers its targets may lie in"
    )
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
    rates: tuple[Rate, ...] = Field(
        default=(),
        strict=False,
        description="tables of other rates: the first that fits an instruction holds, without one "
        "elements_per_cycle",
    )

    @field_validator("does")
    @classmethod
    def _does_something(cls, does: tuple[Capability, ...]) -> tuple[Capability, ...]:
        if not does:
            raise ValueError(f"needs at least one of {', '.join(CAPABILITIES)}")
        return _each_once(does)

    @field_validator("reads")
    @classmethod
    def _reads_once(cls, reads: tuple[BufferName, ...]) -> tuple[BufferName, ...]:
        return _each_once(reads)

    @field_validator("writes")
    @classmethod
    def _writes_somewhere(cls, writes: tuple[BufferName, ...]) -> tuple[BufferName, ...]:
        if not writes:
            raise ValueError(f"needs at least one of {', '.join(BUFFERS)}")
        return _each_once(writes)

    @model_validator(mode="after")
    def _rates_possible(self) -> Engine:
        for number, rate in enumerate(self.rates, 1):
            for key, found, known in (
                ("does", rate.does, self.does),
                ("operands", rate.operands or (), self.reads),
                ("target", (rate.target,) if rate.target else (), self.writes),
            ):
                for word in found:
                    if word not in known:
                        raise ValueError(
                            f'rates: entry {number}: {key}: the engine has no "{word}" '
                            f"(it has: {', '.join(known)})"
                        )
        return self


def _each_once(words: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the words; raise ValueError if one of them stands there twice."""
    for word in words:
        if words.count(word) > 1:
            raise ValueError(f'names "{word}" more than once')
    return words


class ActivationEngine(Engine):
    """The patent's activation engine: it executes every instruction of an engine but `pool`."""

    does: tuple[Capability, ...] = Field(
        default=tuple(word for word in CAPABILITIES if word != "pool"),
        strict=False,
        description="instructions it executes, by the mnemonics of the text form",
    )


class PoolingEngine(Engine):
    """The patent's pooling engine: it executes every instruction of an engine but `activate`."""

    does: tuple[Capability, ...] = Field(
        default=tuple(word for word in CAPABILITIES if word != "activate"),
        strict=False,
        description="instructions it executes, by the mnemonics of the text form",
    )


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
    """A whole chip file. `clock` maps names to MHz; the first is the default of every unit.

    `engines` lists the engines by name. A chip that does not list any has the patent's two, whose
    tables are `activation` and `pooling`; `lane_engines` has the engines of either kind of chip.
    """

    name: str = Field(description="name of the chip")
    description: str = Field(default="", description="what it is, and where its figures come from")
    semaphore_cycles: Count = Field(default=1, description="from a post to its being visible")
    clock: dict[str, Count] = Field(description="clocks in MHz, by name")
    state_buffer: StateBuffer
    pe_array: PEArray
    result_buffer: ResultBuffer
    engines: dict[str, Engine] | None = Field(
        default=None,
        description="all engines of the chip, a table for each (default: activation and pooling)",
    )
    activation: ActivationEngine | None = Field(
        default=None,
        description="the patent's activation engine, on a chip without a table engines",
    )
    pooling: PoolingEngine | None = Field(
        default=None, description="the patent's pooling engine, on a chip without a table engines"
    )
    dma: Dma
    dram: Dram
    fetch: Fetch | None = Field(
        default=None, description="how queues get instructions (default: they are there)"
    )
    port_priority: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="which client wins a memory port, first to last: moving, weights, the engines "
        "and dma, each once (default: in this order)",
    )

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, found: Any) -> Any:
        """Add what follows from the list of engines, or from there being none."""
        if not isinstance(found, dict):
            return found
        engines = found.get("engines")
        patents: dict[str, Any] = {name: {} for name in PATENT_ENGINES} if engines is None else {}
        names = engines if isinstance(engines, dict) else PATENT_ENGINES
        return patents | {"port_priority": clients_of(names)} | found

    @field_validator("engines")
    @classmethod
    def _engines_named(cls, engines: dict[str, Engine] | None) -> dict[str, Engine] | None:
        if engines is not None and not engines:
            raise ValueError("needs a table for at least one engine, such as [engines.vector]")
        for name in engines or ():
            if fault := name_fault(name):
                raise ValueError(f"{shortened(name)}: {fault}")
        return engines

    @model_validator(mode="after")
    def _consistent(self) -> Chip:
        if not self.clock:
            raise ValueError("clock: needs at least one clock")
        self._engines_once()
        for unit in units_of(self.lane_engines):
            clock = self.unit(unit).clock
            if clock and clock not in self.clock:
                known = ", ".join(self.clock)
                raise ValueError(
                    f'{self._table_of(unit)}.clock: no clock "{clock}" (there are: {known})'
                )
        clients = clients_of(self.lane_engines)
        if sorted(self.port_priority) != sorted(clients):
            strange = next((name for name in self.port_priority if name not in clients), "")
            meant = f', found "{shortened(strange)}"{perhaps(strange, clients)}' if strange else ""
            raise ValueError(f"port_priority: must name each of {', '.join(clients)} once{meant}")
        self._ports_wide_enough()
        return self

    def _engines_once(self) -> None:
        """Refuse the patent's tables beside a list of engines, and a chip without engines."""
        patents = {"activation": self.activation, "pooling": self.pooling}
        beside = [name for name, engine in patents.items() if engine is not None]
        if self.engines is None and len(beside) < len(patents):
            raise ValueError("engines: needs a table for at least one engine")
        if self.engines is not None and beside:
            raise ValueError(
                f"{beside[0]}: stands beside the table engines, which lists all engines of the "
                f"chip: {', '.join(self.engines)}; [engines.{beside[0]}] adds one of this name"
            )

    def _table_of(self, unit: str) -> str:
        """Return the table of a unit as chip files write it."""
        listed = self.engines is not None and unit in self.engines
        return f"engines.{unit}" if listed else unit

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
        for key, elements, cycles, least in self._rates_through_ports(sizes):
            if elements > cycles * (port // least):
                each = f" in {cycles} cycles" if cycles > 1 else ""
                raise ValueError(
                    f"{key} ({elements}{each}) could never be reached: {elements} of the smallest "
                    f"elements ({least} bytes){each} are more than state_buffer.port_bytes ({port})"
                )

    def _rates_through_ports(self, sizes: dict[str, int]) -> Iterator[tuple[str, int, int, int]]:
        """Yield the name of each rate that ports limit, its elements, its cycles, the least size.

        sizes: bytes of an element, of the types that the chip multiplies.
        """
        least = min(sizes.values())
        if self.pe_array.weight_path == "left":
            yield "pe_array.fast_load", self.pe_array.fast_load, 1, least
        for unit, engine in self.lane_engines.items():
            table = self._table_of(unit)
            if "state_buffer" in engine.reads + engine.writes:
                yield f"{table}.elements_per_cycle", engine.elements_per_cycle, 1, least
            for number, row in enumerate(engine.rates, 1):
                operands = engine.reads if row.operands is None else row.operands
                targets = (row.target,) if row.target else engine.writes
                if row.does == ("pool",):
                    targets = ()  # a window of any number of elements makes one
                smallest = min((DATA_TYPES[n].size_bytes for n in row.types), default=least)
                if "state_buffer" in operands + targets:
                    yield f"{table}.rates entry {number}", row.elements, row.cycles, smallest

    @cached_property
    def port_width_bytes(self) -> int:
        """Return the most bytes a unit moves in a cycle of one bank of one partition."""
        if self.state_buffer.port_bytes is not None:
            return self.state_buffer.port_bytes
        rates = [engine.elements_per_cycle for engine in self.lane_engines.values()]
        rates += [row.elements for engine in self.lane_engines.values() for row in engine.rates]
        elements = max(self.pe_array.cols, self.pe_array.fast_load, *rates)
        widest = max(each.size_bytes for each in DATA_TYPES.values())
        return max(elements * widest, self.dma.bytes_per_cycle)

    def burst_cycles(self, *, in_state: bool = True) -> tuple[int, int]:
        """Return the bytes a queue moves in a cycle of a burst, and the cycles of a burst.

        in_state: of a copy that reads or writes the state buffer, whose ports may be narrower.
        """
        parts = self.dram.organisation
        assert parts is not None
        width = min(self.dram.bytes_per_cycle // parts.channels, self.dma.queue_bytes_per_cycle)
        if in_state:
            width = min(width, self.state_buffer.port_bytes or width)
        return width, -(-parts.burst_bytes // width)

    @property
    def lane_engines(self) -> dict[EngineName, Engine]:
        """Return the engines by name, in the order of the chip file and of the reports."""
        if self.engines is not None:
            return self.engines
        assert self.activation is not None
        assert self.pooling is not None
        return {"activation": self.activation, "pooling": self.pooling}

    def engine(self, name: EngineName) -> Engine:
        """Return the specification of an engine."""
        return self.lane_engines[name]

    def unit(self, name: str) -> PEArray | Engine | Dma:
        """Return the specification of a unit that has a clock."""
        units: dict[str, PEArray | Engine | Dma] = {
            "pe_array": self.pe_array,
            **self.lane_engines,
            "dma": self.dma,
        }
        return units[name]

    def clock_mhz(self, unit: str) -> int:
        """Return the frequency of a unit in MHz."""
        name = self.unit(unit).clock or next(iter(self.clock))
        return self.clock[name]

    @cached_property
    def ticks_mhz(self) -> int:
        """Return the tick rate: the least common multiple of the frequencies of the units.

        Fetch, if the chip has it, is one of them and has the first clock.
        """
        rates = [self.clock_mhz(unit) for unit in units_of(self.lane_engines)]
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
        return {
            unit: self.ticks_mhz // self.clock_mhz(unit) for unit in units_of(self.lane_engines)
        }

    @cached_property
    def queue_periods(self) -> dict[str, int]:
        """Return, by queue, the cycle of its unit in ticks."""
        return {queue: self._periods[unit_of(queue)] for queue in self.units}

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Return the names of the queues, which carry labels, in the order of the reports."""
        return queue_names(self.lane_engines, self.dma.queues)
