"""What the records of several cores say beyond the records of one: places, starts, latencies."""

from __future__ import annotations

from functools import cached_property

from systolic.critical_path.points import Lives
from systolic.critical_path.streamed import streamed
from systolic.hw.spec import Chip
from systolic.hw.spec.places import ChipPlace, controller, place_of, split
from systolic.isa import Access, Buffer, DmaCopy, DmaMove, Program
from systolic.isa.effects import reads, writes
from systolic.isa.instruction import Command
from systolic.isa.joint import JointProgram
from systolic.isa.legality.chip_program import copy_ends
from systolic.isa.streaming import Streaming
from systolic.trace.records import Trace


class JointLives(Lives):
    """What the instructions of a finished run did, on whichever core."""

    def __init__(self, joint: JointProgram, trace: Trace) -> None:
        super().__init__(joint.chip.core_chips[0], joint.program, trace)
        object.__setattr__(self, "joint", joint)

    joint: JointProgram

    def chip_of(self, index: int) -> Chip:
        """Return the core that an instruction runs on; of a processor, its queues."""
        return self.joint.chip.feeder_chips[self.place(index)]

    def chip_with(self, buffer: str) -> Chip:
        """Return the core that has a buffer, by its name."""
        place = place_of(split(buffer)[0])
        return self.chip if place is None else self.joint.chip.feeder_chips[place]

    def place(self, index: int) -> ChipPlace:
        """Return the core or processor whose queue has an instruction."""
        return self.joint.launches[self.joint.launch_of[index]].section.place

    def local(self, unit: str) -> str:
        """Return the name of a unit in its core."""
        return split(unit)[1]

    @cached_property
    def queues(self) -> dict[str, list[int]]:
        """Return the instructions of each queue of the chip that ran, in order."""
        found: dict[str, list[int]] = {}
        for index, unit in enumerate(self.joint.units):
            if index in self.times:
                found.setdefault(unit, []).append(index)
        return {unit: found[unit] for unit in self.joint.chip.units if unit in found}

    @cached_property
    def streaming(self) -> dict[int, Streaming]:
        """Return how the vectors of each multiply were streamed."""
        found: dict[int, Streaming] = {}
        for launch in self.joint.launches:
            if launch.section.place.kind != "core":
                continue
            first = launch.first_instruction
            stop = first + len(launch.program.instructions)
            mine = tuple(
                instruction if first <= index < stop else _NOTHING
                for index, instruction in enumerate(self.program.instructions)
            )
            program = Program(launch.at, mine)
            chip = self.joint.chip.feeder_chips[launch.section.place]
            found |= streamed(program, chip, self.trace, f"{launch.at}.pe_array")
        return found

    def latency_ticks(self, index: int) -> int:
        """Return the ticks from the start of a copy until it may move its first descriptor."""
        copy, chip, joint = self.instruction(index), self.chip_of(index), self.joint.chip
        assert isinstance(copy, DmaCopy)
        period, cycles = self.period(index), chip.dma.latency_cycles
        ends = self.ends(index)
        numbers = {place.number for places in ends for place in places if _is_dram(place)}
        cycles += max((joint.controller_drams[n].latency_cycles for n in numbers), default=0)
        ways = [joint.way(a, b) for a in ends[0] for of in ends[1:] for b in of]
        hops = max((way.hops for way in ways if way is not None), default=0)
        return (cycles + -(-hops * joint.copy_hop_ticks // period)) * period

    def ends(self, index: int) -> list[set[ChipPlace]]:
        """Return the places of each end of a copy: a core, or all controllers that it touches."""
        copy = self.instruction(index)
        assert isinstance(copy, DmaCopy)
        found = []
        for number, (_, at, access) in enumerate(copy_ends(copy)):
            is_code = number == 1 and isinstance(copy, DmaMove) and copy.brings_code
            if access.buffer is Buffer.DRAM and not is_code:
                found.append({controller(n) for n in self._controllers(access)})
            else:
                found.append({place_of(at.removesuffix(".code")) or self.place(index)})
        return found

    def _controllers(self, access: Access) -> set[int]:
        low, high = access.low_and_high
        found, many = set[int](), len(self.joint.chip.controller_drams)
        while low < high and len(found) < many:
            piece = self.joint.chip.piece(low)
            found.add(piece.controller)
            low = piece.stop
        return found

    def way_names(self, index: int) -> list[str]:
        """Return the names of the pools that a copy goes through, and of its controllers."""
        ends, names = self.ends(index), dict[str, None]()
        for first in sorted(ends[0]):
            for last in sorted(place for of in ends[1:] for place in of):
                way = self.joint.chip.way(first, last)
                names |= dict.fromkeys(way.pools if way is not None else ())
        controllers = sorted(str(p) for of in ends for p in of if _is_dram(p))
        return [*names, *dict.fromkeys(controllers)]

    def hop_ticks(self, index: int, semaphore: int) -> int:
        """Return the ticks that a post takes longer than within a core."""
        hops = self.joint.hops(self.place(index), semaphore)
        return hops * self.joint.chip.post_hop_ticks

    def begun(self, launch: int) -> int:
        """Return the tick at which a launch began."""
        by = self.joint.launches[launch].by
        if by is None:
            return 0
        command = self.start_of(launch)
        spec = self.joint.chip.processor_specs[by[0].number]
        return self.end(command).tick + spec.start_cycles * self.period(command)

    def start_of(self, launch: int) -> int:
        """Return the command that started a launch."""
        by = self.joint.launches[launch].by
        assert by is not None
        of = next(each for each in self.joint.launches if each.section.place == by[0])
        return of.first_instruction + by[1]

    def touched(self, index: int, *, is_read: bool) -> list[tuple[str, Access]]:
        """Return what an instruction reads or writes, with the names of the buffers on the chip."""
        instruction, own = self.instruction(index), str(self.place(index))
        if isinstance(instruction, Command):
            return []
        if isinstance(instruction, DmaCopy):
            ends = copy_ends(instruction)
            found = ends[:1] if is_read else ends[1:]
            if is_read and isinstance(instruction, DmaMove) and instruction.accumulate:
                found = ends
            return [(f"{at or own}.{access.buffer}", access) for _, at, access in found]
        every = reads(instruction) if is_read else writes(instruction)
        return [(f"{own}.{access.buffer}", access) for access in every]


_NOTHING = Command(word="stop")


def _is_dram(place: ChipPlace) -> bool:
    return place.kind == "controller"
