"""A whole chip file: its units, its clocks, and what must agree between two units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pydantic import Field, PrivateAttr, field_validator, model_validator

from systolic.errors import perhaps, shortened
from systolic.hw.datatypes import DATA_TYPES, data_type
from systolic.hw.spec.access_rules import AccessRules
from systolic.hw.spec.base import Count, Spec
from systolic.hw.spec.dma import Dma
from systolic.hw.spec.dram import Dram
from systolic.hw.spec.engine import ActivationEngine, Engine, PoolingEngine
from systolic.hw.spec.exclusion import Exclusion
from systolic.hw.spec.fetch import Fetch
from systolic.hw.spec.pe_array import PEArray
from systolic.hw.spec.provenance import Provenance, check_keys
from systolic.hw.spec.result_buffer import ResultBuffer
from systolic.hw.spec.state_buffer import StateBuffer
from systolic.hw.units import (
    PATENT_ENGINES,
    EngineName,
    clients_of,
    name_fault,
    queue_names,
    unit_of,
    units_of,
)

WIDE_ENOUGH_BYTES = 1 << 62
"""More than any unit moves in a cycle."""


class Chip(Spec):
    """A whole chip file. `clock` maps names to MHz; the first is the default of every unit.

    `engines` lists the engines by name. A chip that does not list any has the patent's two, whose
    tables are `activation` and `pooling`; `lane_engines` has the engines of either kind of chip.
    """

    name: str = Field(description="name of the chip")
    description: str = Field(default="", description="what it is, and where its figures come from")
    semaphore_cycles: Count = Field(default=1, description="from a post to its being visible")
    handoff_cycles: dict[str, Count] = Field(
        default={},
        description="from a post of these units to its being visible, instead of semaphore_cycles",
    )
    clock: dict[str, Count] = Field(description="clocks in MHz, by name")
    state_buffer: StateBuffer = Field(description="the memory that the PE array reads")
    pe_array: PEArray = Field(description="the systolic array")
    result_buffer: ResultBuffer = Field(description="the memory that the PE array writes")
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
    access: AccessRules = Field(
        default=AccessRules.model_construct(),  # the defaults need no validator
        description="where an access may begin, and how it may step",
    )
    exclusions: tuple[Exclusion, ...] = Field(
        default=(),
        strict=False,
        description="engines that cannot use a buffer in the same cycle (default: banks decide)",
    )
    dma: Dma = Field(description="the queues that copy between memories")
    dram: Dram = Field(description="the memory outside the chip")
    fetch: Fetch | None = Field(
        default=None, description="how queues get instructions (default: they are there)"
    )
    metrics: bool = Field(
        default=False,
        description="the summary has the figures of a NeuronCore's profiler, and timelines show "
        "loads and multiplies of the array apart",
    )
    port_priority: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="which client wins a memory port, first to last: moving, weights, the engines "
        "and dma, each once (default: in this order)",
    )
    provenance: Provenance | None = Field(
        default=None, description="where the values come from, and which sources disagree"
    )
    _common_mhz: int | None = PrivateAttr(default=None)

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
        units = units_of(self.lane_engines)
        for unit in self.handoff_cycles:
            if unit not in units:
                raise ValueError(
                    f'handoff_cycles: no unit "{shortened(unit)}" (there are: {", ".join(units)})'
                    f"{perhaps(unit, units)}"
                )
        for number, exclusion in enumerate(self.exclusions, 1):
            for name in exclusion.engines:
                if name not in self.lane_engines:
                    raise ValueError(
                        f'exclusions: entry {number}: no engine "{shortened(name)}" '
                        f"(there are: {', '.join(self.lane_engines)})"
                        f"{perhaps(name, self.lane_engines)}"
                    )
        clients = clients_of(self.lane_engines)
        if sorted(self.port_priority) != sorted(clients):
            strange = next((name for name in self.port_priority if name not in clients), "")
            meant = f', found "{shortened(strange)}"{perhaps(strange, clients)}' if strange else ""
            raise ValueError(f"port_priority: must name each of {', '.join(clients)} once{meant}")
        self._ports_wide_enough()
        self._can_spread()
        self._can_transpose()
        if self.provenance is not None:
            check_keys(self.provenance, self.model_dump(exclude={"provenance"}))
        return self

    def _can_spread(self) -> None:
        """Refuse copies that are spread over engines where that would need more of a model."""
        if not self.dma.is_spread:
            return
        if self.state_buffer.is_split:
            raise ValueError(
                "dma.partitions_per_engine: the engines' descriptors lie in partitions apart from "
                'one another, which needs state_buffer.port_scope = "bank"'
            )
        if self.dram.organisation is not None:
            raise ValueError(
                "dma.partitions_per_engine: copies spread over engines have no order of bursts, so "
                "that dram cannot have an organisation"
            )

    def _can_transpose(self) -> None:
        """Refuse transposes by DMA where bursts would need an order, or a byte might never move."""
        if self.dma.transposes is None:
            return
        if self.dram.organisation is not None:
            raise ValueError(
                "dma.transposes: what is transposed has no order of bursts, so that dram cannot "
                "have an organisation"
            )
        shares = 2 * self.dma.queues
        if self.dram.bytes_per_cycle < shares:
            raise ValueError(
                f"dma.transposes: each of up to {shares} shares of DRAM (two for each queue) needs "
                f"a byte in every cycle, but dram.bytes_per_cycle is {self.dram.bytes_per_cycle}"
            )

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
        for name in self.pe_array.double_row:
            if port < 2 * sizes[name]:
                raise ValueError(
                    f"state_buffer.port_bytes ({port}) is narrower than the two elements of {name} "
                    f"({2 * sizes[name]} bytes) that a PE takes together (pe_array.double_row)"
                )
        for name in self.pe_array.mx:
            if port < (four := 4 * data_type(name).size_bytes // data_type(name).packed):
                raise ValueError(
                    f"state_buffer.port_bytes ({port}) is narrower than the four values of {name} "
                    f"({four} bytes) that a PE takes together (pe_array.mx)"
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
                    targets = ()  # one element of the target comes from any number of others
                smallest = min((DATA_TYPES[n].size_bytes for n in row.types), default=least)
                if "state_buffer" in operands + targets:
                    yield f"{table}.rates entry {number}", row.elements, row.cycles, smallest

    @property
    def port_width_bytes(self) -> int:
        """Return the most bytes a unit moves in a cycle of one bank of one partition.

        Where the chip names no width, whatever a unit asks for passes.
        """
        return self.state_buffer.port_bytes or WIDE_ENOUGH_BYTES

    @property
    def multiply_vectors(self) -> int:
        """Return the most vectors of a multiply: their results lie in one bank, as one pair."""
        words = self.result_buffer.bank_words
        return min(words, self.pe_array.moving_max or words, self.access.max_count or words)

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

    @property
    def has_plain_priority(self) -> bool:
        """Return whether `port_priority` is what a chip file that leaves it out gets."""
        return self.port_priority == clients_of(self.lane_engines)

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
        if self._common_mhz is not None:
            return self._common_mhz
        rates = [self.clock_mhz(unit) for unit in units_of(self.lane_engines)]
        return math.lcm(*rates, *([self.first_mhz] if self.fetch else []))

    def on_chip(self, dram: Dram, ticks_mhz: int) -> Chip:
        """Return this chip as a core of a larger one: with its DRAM, and its ticks."""
        found = self.model_copy(update={"dram": dram})
        for name in ("ticks_mhz", "_periods", "queue_periods"):  # they depend on the ticks
            found.__dict__.pop(name, None)
        found._common_mhz = ticks_mhz
        return found

    @property
    def first_mhz(self) -> int:
        """Return the frequency of the first clock in MHz."""
        return next(iter(self.clock.values()))

    @property
    def fetch_period(self) -> int:
        """Return the cycle of instruction fetch, one of the first clock, in ticks."""
        return self.ticks_mhz // self.first_mhz

    def period(self, unit: str) -> int:
        """Return the cycle of `unit` in ticks."""
        return self._periods[unit]

    @cached_property
    def _periods(self) -> dict[str, int]:
        return {
            unit: self.ticks_mhz // self.clock_mhz(unit) for unit in units_of(self.lane_engines)
        }

    def post_cycles(self, unit: str) -> int:
        """Return the cycles of a unit from its post to its being visible."""
        return self.handoff_cycles.get(unit, self.semaphore_cycles)

    @cached_property
    def queue_periods(self) -> dict[str, int]:
        """Return, by queue, the cycle of its unit in ticks."""
        return {queue: self._periods[unit_of(queue)] for queue in self.units}

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Return the names of the queues, which carry labels, in the order of the reports."""
        return queue_names(self.lane_engines, self.dma.queues)
