"""A chip file with several cores: what is the chip's, and what is each core's.

A core is a `Chip` of its own, with the units that a file of one core describes. DRAM controllers,
DMA engines, the interconnect and management processors are the chip's.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from systolic.hw.datatypes import DATA_TYPES
from systolic.hw.spec.base import Count, Cycles, Spec
from systolic.hw.spec.chip import Chip
from systolic.hw.spec.dma import Dma
from systolic.hw.spec.dram import Dram
from systolic.hw.spec.interconnect import NO_WAY, ChipWay, Interconnect
from systolic.hw.spec.places import ChipPlace, controller, core, joined, processor
from systolic.hw.spec.provenance import Provenance
from systolic.hw.units import dma_queue

PROCESSOR_CLOCK = "of processors:"
MOST_CORES, MOST_MHZ = 64, 10**7
"""At most this number of cores, and ticks of at most 10^13 per second."""
WIDEST_BYTES = max(each.size_bytes for each in DATA_TYPES.values())
PAGE_BYTES = 4096
"""The block of addresses that goes to one controller where a chip file names none."""

CommandKind = Literal["copy", "wait", "post", "start", "ring", "notify", "stop"]
CoreNode = Annotated[int, Field(ge=0, lt=MOST_CORES)]
Few = Annotated[int, Field(ge=1, le=MOST_CORES)]


class CoreEntry(Spec):
    """Some equal cores: a table of [[cores]]."""

    count: Few = Field(default=1, description="cores of this kind")
    core: Chip = Field(description="a table as a chip file has it, or the name of a chip file")


class Controllers(Spec):
    """Some equal DRAM controllers: a table of [[controllers]]."""

    count: Few = Field(default=1, description="controllers of this kind")
    dram: Dram = Field(
        description="a table as a chip file has it, or the name of a chip whose [dram] it takes"
    )
    at: CoreNode | None = Field(
        default=None, description="core at whose node it hangs (default: spread over the cores)"
    )
    interleave_bytes: Count | None = Field(
        default=None, description="consecutive bytes of one controller before the next follows"
    )
    range: tuple[Cycles, Count] | None = Field(
        default=None, strict=False, description="its first address and the one behind its last"
    )


class Processor(Spec):
    """A management processor: it runs commands one after the other."""

    count: Few = Field(default=1, description="processors of this kind")
    feeds: tuple[CoreNode, ...] | None = Field(
        default=None, strict=False, description="cores that it may start (default: all)"
    )
    at: CoreNode | None = Field(
        default=None, description="core at whose node it hangs (default: spread over the cores)"
    )
    command_cycles: dict[CommandKind, Count] = Field(
        default={}, description="cycles of a command, by its kind (default: 1 of each)"
    )
    start_cycles: Count = Field(default=1, description="from a start to the first cycle of a core")
    semaphore_cycles: Count = Field(default=1, description="from a post to its being visible")
    clock: str = Field(default="", description="clock of the processor (default: the first)")
    dma: Dma | None = Field(default=None, description="DMA queues that it feeds (default: none)")

    def cycles_of(self, kind: CommandKind) -> int:
        """Return the cycles that a command takes."""
        return self.command_cycles.get(kind, 1)


class CodeStore(Spec):
    """Where the code of cores lies."""

    code_bytes: Count = Field(description="bytes of code that a core holds")


class AddressStretch(NamedTuple):
    """A stretch of DRAM that one controller has: `local` is its first address there."""

    controller: int
    first: int
    stop: int
    local: int


class MultiCoreChip(Spec):
    """A whole chip file with [[cores]].

    `core_chips` has the cores, in the order of their numbers, each with the clock of the chip.
    """

    name: str = Field(description="name of the chip")
    description: str = Field(default="", description="what it is, and where its figures come from")
    clock: dict[str, Count] = Field(
        default={}, description="clocks in MHz of what is the chip's (default: the first core's)"
    )
    cores: tuple[CoreEntry, ...] = Field(
        min_length=1, strict=False, description="the cores, alike or different"
    )
    interconnect: Interconnect | None = Field(
        default=None, description="ways between cores (default: none, and DRAM is at each core)"
    )
    controllers: tuple[Controllers, ...] = Field(
        default=(), strict=False, description="DRAM controllers (default: the [dram] of one core)"
    )
    interleave_bytes: Count | None = Field(
        default=None, description="consecutive bytes of one controller before the next follows"
    )
    processors: tuple[Processor, ...] = Field(
        default=(), strict=False, description="management processors (default: all cores start)"
    )
    code: Literal["there", "dram"] = Field(
        default="there", description="programs are in the cores, or come by copies to core0.code"
    )
    fetch: CodeStore | None = Field(default=None, description="where cores hold code")
    provenance: Provenance | None = Field(
        default=None, description="where the values come from, and which sources disagree"
    )

    @model_validator(mode="after")
    def _consistent(self) -> MultiCoreChip:
        many = self.core_count
        if many > MOST_CORES:
            raise ValueError(f"cores: at most {MOST_CORES}, found {many}")
        if not self.controllers and many > 1:
            raise ValueError(
                "controllers: needs a table [[controllers]]: the [dram] of a core counts only on a "
                f"chip of one core, and there are {many}"
            )
        if self.code == "dram" and (self.fetch is None or not self.processors):
            raise ValueError(
                'code: "dram" needs [fetch] code_bytes, and [[processors]] that bring the code'
            )
        self._clocks_known()
        self._nodes_known()
        self._mesh_fits()
        self._map_is_whole()
        if self.ticks_mhz > MOST_MHZ:
            raise ValueError(
                f"clock: a tick, the common period of all clocks, is at most 10^13 per second, "
                f"found {self.ticks_mhz} x 10^6"
            )
        self._pools_wide_enough()
        self._bursts_agree()
        return self

    # -- what is there ----------------------------------------------------------------------------

    @property
    def core_count(self) -> int:
        """Return how many cores there are."""
        return sum(each.count for each in self.cores)

    @cached_property
    def ticks_mhz(self) -> int:
        """Return the tick rate: the least common multiple of all clocks in use."""
        rates = [each.core.ticks_mhz for each in self.cores]
        rates += [self._mhz(each.clock) for each in self.processors]
        rates += [self._mhz(each.dma.clock) for each in self.processors if each.dma]
        rates += [self._mhz(self.interconnect.clock)] if self.interconnect else []
        return math.lcm(*rates)

    @cached_property
    def core_chips(self) -> tuple[Chip, ...]:
        """Return the cores: chips of one core in front of all DRAM, with the ticks of the chip."""
        dram = self.controller_drams[0].model_copy(update={"size_bytes": self.dram_bytes})
        kinds = [each.core.on_chip(dram, self.ticks_mhz) for each in self.cores]
        return tuple(
            kind for each, kind in zip(self.cores, kinds, strict=True) for _ in range(each.count)
        )

    @cached_property
    def controller_drams(self) -> tuple[Dram, ...]:
        """Return the DRAM behind each controller."""
        if not self.controllers:
            return (self.cores[0].core.dram,)
        return tuple(each.dram for each in self.controllers for _ in range(each.count))

    @cached_property
    def processor_specs(self) -> tuple[Processor, ...]:
        """Return the processors, in the order of their numbers."""
        return tuple(each for each in self.processors for _ in range(each.count))

    @cached_property
    def feeders(self) -> tuple[tuple[ChipPlace, Dma], ...]:
        """Return who feeds DMA queues, and the queues: cores, then processors."""
        found = [(core(number), chip.dma) for number, chip in enumerate(self.core_chips)]
        found += [
            (processor(number), each.dma)
            for number, each in enumerate(self.processor_specs)
            if each.dma is not None
        ]
        return tuple(found)

    @cached_property
    def feeder_chips(self) -> dict[ChipPlace, Chip]:
        """Return, by core and processor, the units that it has, as a chip of one core has them.

        A processor has DMA queues only; what else stands there is the first core's.
        """
        found = {core(number): chip for number, chip in enumerate(self.core_chips)}
        for number, each in enumerate(self.processor_specs):
            found[processor(number)] = self._of_processor(each)
        return found

    def _of_processor(self, spec: Processor) -> Chip:
        first = self.core_chips[0]
        dma = spec.dma or first.dma
        name = f"{PROCESSOR_CLOCK} {dma.clock}"
        clock = {**first.clock, name: self._mhz(dma.clock) if spec.dma else first.clock_mhz("dma")}
        update = {
            "clock": clock,
            "dma": dma.model_copy(update={"clock": name}),
            "semaphore_cycles": spec.semaphore_cycles,
            "handoff_cycles": {},
            "fetch": None,
        }
        return first.model_copy(update=update).on_chip(first.dram, self.ticks_mhz)

    @cached_property
    def queue_numbers(self) -> dict[str, int]:
        """Return, by name, the number of each DMA queue of the chip: in the order of feeders."""
        names = [
            joined(place, dma_queue(q)) for place, dma in self.feeders for q in range(dma.queues)
        ]
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Return the names of all queues of the chip: of cores, then of processors."""
        return tuple(self.queue_periods)

    @cached_property
    def queue_periods(self) -> dict[str, int]:
        """Return, by queue, the cycle of its unit in ticks."""
        found: dict[str, int] = {}
        for number, chip in enumerate(self.core_chips):
            for queue, period in chip.queue_periods.items():
                found[joined(core(number), queue)] = period
        for number, each in enumerate(self.processor_specs):
            found[str(processor(number))] = self.period_of(each.clock)
            for q in range(each.dma.queues if each.dma else 0):
                assert each.dma is not None
                found[joined(processor(number), dma_queue(q))] = self.period_of(each.dma.clock)
        return found

    @property
    def dram_bytes(self) -> int:
        """Return the bytes of all DRAM."""
        if self.ranges is not None:
            return max(stop for _, stop in self.ranges)
        drams = self.controller_drams
        return drams[0].size_bytes * len(drams)

    def period_of(self, clock: str) -> int:
        """Return the cycle, in ticks, of one of the chip's clocks ("": the first)."""
        return self.ticks_mhz // self._mhz(clock)

    @property
    def interconnect_period(self) -> int:
        """Return the cycle of the interconnect in ticks; 1 if there is none."""
        return self.period_of(self.interconnect.clock) if self.interconnect else 1

    def _mhz(self, clock: str) -> int:
        if not clock:
            return next(iter(self.clock.values()), self.cores[0].core.first_mhz)
        return self.clock[clock]

    # -- where it is ------------------------------------------------------------------------------

    def node_of(self, place: ChipPlace) -> int:
        """Return the node of a core that a place is, or hangs at."""
        return self._nodes[place]

    @cached_property
    def _nodes(self) -> dict[ChipPlace, int]:
        many = self.core_count
        found = {core(number): number for number in range(many)}
        at = [each.at for each in self.controllers for _ in range(each.count)] or [None]
        for number, node in enumerate(at):
            found[controller(number)] = number * many // len(at) if node is None else node
        at = [each.at for each in self.processor_specs]
        for number, node in enumerate(at):
            found[processor(number)] = number * many // len(at) if node is None else node
        return found

    def way(self, source: ChipPlace, target: ChipPlace) -> ChipWay | None:
        """Return the way from one place to another; None if the chip has none.

        Without an interconnect every core is at every controller, and not at other cores.
        """
        if source == target:
            return NO_WAY
        if self.interconnect is None:
            return None if source.kind == target.kind == "core" else NO_WAY
        nodes = self.core_count
        ends = (source, self.node_of(source)), (target, self.node_of(target))
        return self.interconnect.way(*ends, nodes)

    def post_hops(self, source: ChipPlace, target: ChipPlace) -> int | None:
        """Return the hops of a post from one place to another; None if there is no way.

        Without an interconnect processors post to cores, and cores to processors, at no hop.
        """
        way = self.way(source, target)
        return None if way is None else way.hops

    @property
    def post_hop_ticks(self) -> int:
        """Return the ticks that a hop adds to a post's way."""
        if self.interconnect is None:
            return 0
        return self.interconnect.post_cycles * self.interconnect_period

    @property
    def copy_hop_ticks(self) -> int:
        """Return the ticks that a hop adds to a copy's latency."""
        if self.interconnect is None:
            return 0
        return self.interconnect.hop_cycles * self.interconnect_period

    # -- the map of addresses ---------------------------------------------------------------------

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...] | None:
        """Return the addresses of each controller, first and behind the last; None if dealt out."""
        given = [each.range for each in self.controllers for _ in range(each.count)]
        if given in ([], [None]):
            return ((0, self.controller_drams[0].size_bytes),)
        found = tuple(each for each in given if each is not None)
        return found or None

    @property
    def block_bytes(self) -> int:
        """Return the bytes dealt to one controller before the next follows."""
        given = [each.interleave_bytes for each in self.controllers if each.interleave_bytes]
        return self.interleave_bytes or next(iter(given), PAGE_BYTES)

    def piece(self, address: int) -> AddressStretch:
        """Return the stretch of addresses of one controller that an address lies in."""
        if self.ranges is not None:
            for number, (first, stop) in enumerate(self.ranges):
                if first <= address < stop:
                    return AddressStretch(number, first, stop, 0)
            raise ValueError(f"address {address} is no controller's")
        block, many = address // self.block_bytes, len(self.controller_drams)
        first = block * self.block_bytes
        local = block // many * self.block_bytes
        return AddressStretch(block % many, first, first + self.block_bytes, local)

    # -- what must agree --------------------------------------------------------------------------

    def _clocks_known(self) -> None:
        named = [("interconnect.clock", self.interconnect.clock)] if self.interconnect else []
        for each in self.processors:
            named.append(("processors.clock", each.clock))
            named += [("processors.dma.clock", each.dma.clock)] if each.dma else []
        for key, name in named:
            if name and name not in self.clock:
                known = ", ".join(self.clock) or "none"
                raise ValueError(f'{key}: no clock "{name}" (there are: {known})')

    def _nodes_known(self) -> None:
        many = self.core_count
        at = [("controllers.at", each.at) for each in self.controllers]
        at += [("processors.at", each.at) for each in self.processors]
        at += [("processors.feeds", n) for each in self.processors for n in each.feeds or ()]
        for key, node in at:
            if node is not None and node >= many:
                raise ValueError(f"{key}: no core {node} (there are {many}, from 0)")

    def _mesh_fits(self) -> None:
        wires = self.interconnect
        if wires is not None and wires.shape is not None:
            nodes = wires.shape[0] * wires.shape[1]
            if nodes != self.core_count:
                raise ValueError(
                    f"interconnect.shape: {wires.shape[0]} x {wires.shape[1]} nodes, but there are "
                    f"{self.core_count} cores"
                )

    def _map_is_whole(self) -> None:
        """Refuse a map of controllers that has a gap or an overlap, or two kinds of map.

        An element lies with one controller.
        """
        bounds = [("interleave_bytes", self.block_bytes)]
        bounds += [("range", end) for each in self.controllers for end in each.range or ()]
        for key, place in bounds:
            if place % WIDEST_BYTES:
                raise ValueError(
                    f"controllers: {key} must be a multiple of {WIDEST_BYTES} bytes, those of the "
                    f"widest element, found {place}"
                )
        given = [each.range for each in self.controllers for _ in range(each.count)]
        dealt = {each.interleave_bytes for each in self.controllers} | {self.interleave_bytes}
        dealt -= {None}
        if not any(given):
            self._dealt_is_whole(dealt)
            return
        if not all(given):
            raise ValueError(
                f"controllers: {given.count(None)} of {len(given)} have no range: give each of "
                "them one, or none"
            )
        if dealt:
            raise ValueError("controllers: ranges and interleave_bytes are two maps; needed one")
        stretches = sorted(zip((r for r in given if r), self.controller_drams, strict=True))
        end = 0
        for (first, stop), dram in stretches:
            if stop <= first:
                raise ValueError(f"controllers: range [{first}, {stop}] is empty")
            if first != end:
                what = "a gap" if first > end else "an overlap"
                low, high = min(first, end), max(first, end)
                raise ValueError(f"controllers: the ranges have {what}: bytes {low} to {high - 1}")
            if stop - first > dram.size_bytes:
                raise ValueError(
                    f"controllers: range [{first}, {stop}] has {stop - first} bytes, its DRAM "
                    f"{dram.size_bytes}"
                )
            end = stop

    def _dealt_is_whole(self, dealt: set[Any]) -> None:
        if len(dealt) > 1:
            sizes = " and ".join(map(str, sorted(dealt)))
            raise ValueError(f"controllers: interleave_bytes is {sizes}; needed one for all")
        each = {dram.size_bytes for dram in self.controller_drams}
        if len(each) > 1:
            raise ValueError(
                "controllers: addresses dealt out to all need DRAM of one size, found "
                f"{' and '.join(map(str, sorted(each)))}; or give each a range"
            )
        if len(self.controller_drams) > 1 and next(iter(each)) % self.block_bytes:
            raise ValueError(
                f"controllers: size_bytes ({next(iter(each))}) must be a multiple of "
                f"interleave_bytes ({self.block_bytes})"
            )

    def _pools_wide_enough(self) -> None:
        """Refuse pools that would leave a holder without a byte.

        Every DMA queue may hold a share of every pool: it may copy between any two places. Of a
        controller it may hold two, which counts where a cycle without a byte could meet another.
        """
        queues = sum(dma.queues for _, dma in self.feeders)
        wires = self.interconnect
        if wires is not None and wires.bytes_per_cycle < queues:
            raise ValueError(
                f"interconnect.bytes_per_cycle ({wires.bytes_per_cycle}) is less than the "
                f"{queues} DMA queues that may hold a share of a pool: each needs a byte in every "
                "cycle"
            )
        if wires is None and len(self.controller_drams) == 1:
            return
        for number, dram in enumerate(self.controller_drams):
            if dram.organisation is None and dram.bytes_per_cycle < 2 * queues:
                raise ValueError(
                    f"controllers: controller{number} has dram.bytes_per_cycle = "
                    f"{dram.bytes_per_cycle}, less than the {2 * queues} shares that {queues} DMA "
                    "queues may hold: each needs a byte in every cycle"
                )

    def _bursts_agree(self) -> None:
        """Refuse DRAM with organisations that differ, and queues whose copies have no bursts."""
        banked = {n: d for n, d in enumerate(self.controller_drams) if d.organisation is not None}
        if not banked:
            return
        first, *others = banked
        for number in others:
            if (
                banked[number].model_copy(update={"latency_cycles": banked[first].latency_cycles})
                != banked[first]
            ):
                raise ValueError(
                    f"controllers: controller{number} has a dram.organisation, or a size or rate "
                    f"with it, that is not that of controller{first}; needed the same but for "
                    "latency_cycles"
                )
        rates = set[int]()
        for place, dma in self.feeders:
            chip = self.feeder_chips[place]
            rates.add(chip.clock_mhz("dma"))
            for key, there in (
                ("partitions_per_engine", dma.is_spread),
                ("transposes", dma.transposes is not None),
            ):
                if there:
                    raise ValueError(
                        f"controllers: controller{first} has dram.organisation, and {place} "
                        f"dma.{key}, whose copies have no order of bursts; needed one without the "
                        "other"
                    )
        if len(rates) > 1:
            raise ValueError(
                f"controllers: the timings of controller{first} (dram.organisation) are cycles of "
                f"the DMA queues, which have clocks of {' and '.join(map(str, sorted(rates)))} "
                "MHz; needed one for all"
            )
