"""Twin of `register.chip.machine`: all cores of a chip, those that depend on none by themselves.

Cores that share something, or talk, have one simpy environment and one arbiter, whose groups keep
apart what never meets. Cores that do not are run one after the other, as if each were alone.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import simpy

from systolic.errors import SimulationError
from systolic.hw.spec.places import ChipPlace, core, joined
from systolic.hw.units import dma_queue
from systolic.isa.instruction import Command
from systolic.isa.instruction.on_processor import OWN_QUEUE
from systolic.isa.joint import JointProgram
from systolic.machine.array_shape import grid_shape
from systolic.machine.event.chip.arbiter import ChipArbiter
from systolic.machine.event.chip.bursts import BankedControllers
from systolic.machine.event.chip.core import CoreOnChip
from systolic.machine.event.chip.dma import ChipDmaUnit, Plans
from systolic.machine.event.chip.islands import islands
from systolic.machine.event.chip.ports import core_of, own_bank
from systolic.machine.event.chip.processor import CopySupply, ProcessorUnit
from systolic.machine.event.chip.semaphores import ChipSemaphores, joint_order
from systolic.machine.event.chip.ways import Ways
from systolic.machine.event.dram.channels import Channels, is_large, wants_ends
from systolic.machine.event.fetch import InstructionFetch, Supply
from systolic.machine.event.lane_engine.unit import EngineUnit
from systolic.machine.event.pe_array.row_order import form_for, in_numpy
from systolic.machine.event.pe_array.unit import PEArrayUnit
from systolic.machine.event.ports.beats import Beats
from systolic.machine.event.ports.ports import Port, Timeline
from systolic.machine.event.ticks import SETTLED, TickEnvironment
from systolic.machine.event.unit import Context, Unit
from systolic.machine.values.chip_memory import ChipMemory
from systolic.progress import Progress
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace


def run_event_chip(
    joint: JointProgram,
    memory: ChipMemory,
    recorder: Recorder,
    *,
    values: bool = True,
    progress: Progress | None = None,
    shuffle: random.Random | None = None,
) -> Trace:
    """Run the programs of a chip and return its Trace; `memory` is changed in place.

    `shuffle` builds cores and units in a random order, which must not matter (a test says so).
    Raises SimulationError on deadlock.
    """
    retired = _counter(len(joint.program.instructions), progress)
    ends = []
    groups = islands(joint)
    if shuffle:
        shuffle.shuffle(groups)
    for places in groups:
        island = _Island(joint, memory, recorder, places, values=values, retired=retired)
        ends.append(island.run(shuffle))
    _name_cores(recorder)
    chip = joint.chip
    return recorder.finish(max(ends, default=0), chip.queue_periods, grid_shape(chip.core_chips[0]))


def _counter(total: int, progress: Progress | None) -> Callable[[int], None]:
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        if progress:
            progress(done, total)

    return count


def _name_cores(recorder: Recorder) -> None:
    """Name the cores of ports in the records, where banks are numbered through over them."""
    used = [*recorder.port_cycles.items()]
    recorder.port_cycles.clear()
    for (buffer, bank, direction), ticks in used:
        name = joined(core(core_of(bank)), buffer)
        recorder.port_cycles[name, own_bank(bank), direction] += ticks
    recorder.stalls[:] = [
        stall._replace(
            buffer=joined(core(core_of(stall.bank)), stall.buffer),
            bank=own_bank(stall.bank),
            winner=joined(core(core_of(stall.bank)), stall.winner),
        )
        for stall in recorder.stalls
    ]


class _Island:
    """Cores and processors that depend on one another, in an environment of their own."""

    def __init__(
        self,
        joint: JointProgram,
        memory: ChipMemory,
        recorder: Recorder,
        places: Sequence[ChipPlace],
        *,
        values: bool,
        retired: Callable[[int], None],
    ) -> None:
        self._joint, self._memory, self._recorder = joint, memory, recorder
        self._values, self._retired = values, retired
        self._env = TickEnvironment()
        self._chips = joint.chip.feeder_chips
        self._launches = [
            n for n, each in enumerate(joint.launches) if each.section.place in places
        ]
        self._starts_cores = any(joint.launches[n].by is not None for n in self._launches)
        self.semaphores = ChipSemaphores(self._env, joint_order(joint), joint)
        splits = [chip.state_buffer.is_split for chip in joint.chip.core_chips]
        self._arbiter = ChipArbiter(self._env, splits, places)
        self._channels = _channels_of(joint, recorder)
        self._ways: dict[ChipPlace, Ways] = {}
        self._plans: dict[ChipPlace, Plans] = {}
        self._port_use: dict[Port, list[Beats]] = {}
        self._timeline_use: dict[Timeline, int] = {}
        self._contexts: list[Context] = []
        self._units: list[Unit] = []
        self._left: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._ended: set[int] = set()
        self._running: dict[str, int] = {}
        self._code_awaited: Counter[str] = Counter()
        self._code_there: dict[str, int] = {}
        self._news: list[simpy.Event] = []
        self._asking: dict[tuple[str, int], list[int]] = {}
        self._shuffle: random.Random | None = None

    def run(self, shuffle: random.Random | None) -> int:
        """Run all programs to their ends; return the tick of the last."""
        self._shuffle = shuffle
        joint, order = self._joint, list(self._launches)
        if shuffle:
            shuffle.shuffle(order)
        for number in order:
            if joint.launches[number].by is None:
                self._begin(number)
        self._env.run()
        self._arbiter.conclude()
        self._refuse_deadlock()
        if self._channels is not None:
            self._channels.account(self._recorder)
        for context in self._contexts[:1]:
            if self._channels is not None:
                context.use_result_ports(self._channels.result_use())
            context.account_ports()
        self.semaphores.hand_over(self._recorder)
        return max((context.end for context in self._contexts), default=0)

    # -- programs ---------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        """Begin a program in the present tick."""
        launch = self._joint.launches[number]
        self.semaphores.begin(number, self._env.tick)
        self._running[launch.at] = number
        self._left[number] = len(launch.program.instructions)
        self._ends[number] = self._env.tick
        is_core = launch.section.place.kind == "core"
        units = self._core_units(number) if is_core else self._processor_units(number)
        if self._shuffle:
            self._shuffle.shuffle(units)
        self._units += units
        for unit in units:
            self._env.process(unit.process())
        if not self._left[number]:
            self._tell()

    def _context(self, number: int, supply: Supply | None) -> Context:
        launch, joint = self._joint.launches[number], self._joint
        place = launch.section.place
        chip = self._chips[place]
        products = launch.program.products()
        context = Context(
            env=self._env,
            chip=chip,
            program=joint.program,
            memory=self._memory.of(launch.at),
            recorder=self._recorder,
            semaphores=self.semaphores,
            arbiter=self._arbiter,
            is_split=chip.state_buffer.is_split,
            posters=joint.posters,
            values=self._values,
            product_form=form_for(products) if self._values else in_numpy,
            on_done=lambda: self._retired(1),
            fetch=supply,
            port_use=self._port_use,
            timeline_use=self._timeline_use,
            shared=CoreOnChip(
                joint,
                place,
                ends_matter=self._starts_cores,
                semaphores=self.semaphores,
                on_end=lambda index, end: self._note_end(number, index, end),
            ),
        )
        self._contexts.append(context)
        return context

    def _core_units(self, number: int) -> list[Unit]:
        launch = self._joint.launches[number]
        chip = self._chips[launch.section.place]
        queues = defaultdict[str, list[int]](list, self._joint.queues[number])
        fetch: InstructionFetch | None = None
        if chip.fetch is not None:
            fetch = InstructionFetch(
                self._env,
                chip,
                launch.program,
                self._recorder,
                queues=dict(queues),
                place=f"{launch.at}.",
                before=launch.first_instruction,
            )
            self._env.process(fetch.process())
        context = self._context(number, fetch)
        units: list[Unit] = [PEArrayUnit(context, queues["pe_array"])]
        units += [EngineUnit(context, name, queues[name]) for name in chip.lane_engines]
        return [*units, *self._queues(context, launch.section.place, queues)]

    def _queues(
        self, context: Context, place: ChipPlace, queues: dict[str, list[int]]
    ) -> list[Unit]:
        if place not in self._ways:
            self._ways[place] = Ways(self._joint.chip, place, context.chip)
            self._plans[place] = {}
        numbers = self._joint.chip.queue_numbers
        return [
            ChipDmaUnit(
                context,
                place,
                q,
                numbers[joined(place, dma_queue(q))],
                queues[dma_queue(q)],
                ways=self._ways[place],
                channels=self._channels,
                plans=self._plans[place],
                memory=self._memory,
                on_code=self._code_came,
            )
            for q in range(context.chip.dma.queues)
        ]

    def _processor_units(self, number: int) -> list[Unit]:
        launch, chip = self._joint.launches[number], self._joint.chip
        place = launch.section.place
        spec = chip.processor_specs[place.number]
        supply = CopySupply(self._env, launch.at)
        own = self._context(number, None)
        first, many = launch.first_instruction, len(launch.program.instructions)
        units: list[Unit] = [
            ProcessorUnit(
                own,
                spec,
                range(first, first + many),
                period=chip.queue_periods[launch.at],
                place=launch.at,
                supply=supply,
                starter=_Starter(self, number),
                on_stop=lambda rest: self._leave_out(number, rest),
            )
        ]
        if spec.dma is None:
            return units
        queues = defaultdict[str, list[int]](list, self._joint.queues[number])
        queues.pop(OWN_QUEUE, None)
        stop = self._stop_of(number)
        kept = {name: [i for i in of if i < stop] for name, of in queues.items()}
        return [
            *units,
            *self._queues(self._context(number, supply), place, defaultdict(list, kept)),
        ]

    def _stop_of(self, number: int) -> int:
        """Return the instruction at which a processor's program stops."""
        launch = self._joint.launches[number]
        for place, each in enumerate(launch.program.instructions):
            if isinstance(each, Command) and each.word == "stop":
                return launch.first_instruction + place
        return launch.first_instruction + len(launch.program.instructions)

    def _leave_out(self, number: int, rest: Sequence[int]) -> None:
        """Count what stands behind a stop, which nothing carries out."""
        self._left[number] -= len(rest)
        self._retired(len(rest))

    def _note_end(self, number: int, index: int, end: int) -> None:
        if index in self._ended:
            return
        self._ended.add(index)
        self._left[number] -= 1
        self._ends[number] = max(self._ends[number], end)
        if self._left[number] == 0:
            self._tell()

    def _tell(self) -> None:
        """Tell processors that wait for a core that something has changed."""
        news, self._news = self._news, []
        for event in news:
            event.succeed()

    # -- starts -----------------------------------------------------------------------------------

    def awaited(self, at: str) -> str:
        """Return what keeps a core from being started, whose end is not known; "" if nothing."""
        number = self._running.get(at)
        if number is not None and self._left[number] > 0:
            return at
        return f"{at}.code" if self._code_awaited[at] else ""

    def news(self, at: str) -> simpy.Event | None:
        """Return an event before which a core cannot be started; None if that is not known."""
        if not self.awaited(at):
            return None
        event = simpy.Event(self._env)
        self._news.append(event)
        return event

    def stopped(self, at: str) -> tuple[int, int]:
        """Return the ticks from which a core has stopped, and from which it has its code."""
        number = self._running.get(at)
        return 0 if number is None else self._ends[number], self._code_there.get(at, 0)

    def ask(self, at: str, processor: int) -> simpy.Event:
        """Ask to start a core in the present tick; the lowest of the processors has it."""
        asking = self._asking.setdefault((at, self._env.tick), [])
        asking.append(processor)
        return self._env.at_end_of_tick(SETTLED)

    def has_won(self, at: str, processor: int) -> bool:
        """Return whether a core is a processor's to start, of those that asked in this tick."""
        return min(self._asking[at, self._env.tick]) == processor

    def start(self, number: int, command: int, tick: int) -> None:
        """Start the program of a processor's command at a tick."""
        by = self._joint.launches[number]
        started = by.section.place, command - by.first_instruction
        which = next(n for n in self._launches if self._joint.launches[n].by == started)
        at = self._joint.launches[which].at
        self._running[at], self._left[which] = which, 1  # until it has begun
        delay = simpy.Timeout(self._env, tick - self._env.tick)
        delay.callbacks.append(lambda _: self._begin(which))

    def code_put(self, at: str) -> None:
        """Note that a copy to the code of a core stands in its queue."""
        self._code_awaited[at] += 1

    def _code_came(self, at: str, tick: int) -> None:
        self._code_awaited[at] -= 1
        self._code_there[at] = max(self._code_there.get(at, 0), tick)
        self._tell()

    # -- deadlock ---------------------------------------------------------------------------------

    def _refuse_deadlock(self) -> None:
        stuck = [unit for unit in self._units if unit.place < len(unit.queue)]
        if stuck:
            raise SimulationError("deadlock: " + "; ".join(sorted(map(self._who_waits, stuck))))

    def _who_waits(self, unit: Unit) -> str:
        program = self._joint.program
        index = unit.queue[unit.place]
        instruction = program.instructions[index]
        launch = self._joint.launches[self._joint.launch_of[index]]
        what = f"instruction {index - launch.first_instruction} ({type(instruction).__name__})"
        if isinstance(instruction, Command):
            what = f"command {index - launch.first_instruction} ({instruction.word})"
        head = f"{unit.name} waits since cycle {unit.cycle(unit.head_since)} with {what}"
        for wait in instruction.waits:
            if self.semaphores.tick_of(wait) is None:
                number = wait.semaphore - launch.first_semaphore
                count = self.semaphores.count(wait.semaphore, self._env.tick)
                return (
                    f"{head} for semaphore {number} ({program.semaphores[wait.semaphore]}) to "
                    f"reach {wait.value}; it stands at {count}"
                )
        if isinstance(instruction, Command) and instruction.word == "start":
            return f"{head} for {self.awaited(instruction.at)}"
        return f"{head} for {launch.at}"


def _channels_of(joint: JointProgram, recorder: Recorder) -> Channels | None:
    """Return the channels of controllers whose DRAM has an organisation, if there are some."""
    chip = joint.chip
    banked = BankedControllers.of(chip)
    if banked is None:
        return None
    queues = [*chip.queue_numbers]
    return Channels(
        banked.dram,
        chip.core_chips,
        queues,
        chip.queue_periods[queues[0]],
        controllers=len(banked.numbers),
        ends=wants_ends(recorder),
        large=is_large(joint.program),
    )


class _Starter:
    """What a processor's unit may ask of the chip."""

    def __init__(self, island: _Island, number: int) -> None:
        self._island, self._number = island, number

    def awaited(self, command: Command) -> str:
        """Return what keeps the core from being started, whose end is not known; "" if nothing."""
        return self._island.awaited(command.at)

    def news(self, command: Command) -> simpy.Event | None:
        """Return an event before which the core cannot be started; None if that is not known."""
        return self._island.news(command.at)

    def stopped(self, command: Command) -> tuple[int, int]:
        """Return the ticks from which the core has stopped, and from which it has its code."""
        return self._island.stopped(command.at)

    def ask(self, command: Command) -> simpy.Event:
        """Ask to start a core in the present tick; return an event at which that is decided."""
        return self._island.ask(command.at, self._number)

    def has_won(self, command: Command) -> bool:
        """Return whether the core is this processor's to start."""
        return self._island.has_won(command.at, self._number)

    def start(self, by: int, tick: int) -> None:
        """Start the program of a command (by its number) at a tick."""
        self._island.start(self._number, by, tick)

    def code_put(self, at: str) -> None:
        """Note that a copy to the code of a core stands in its queue."""
        self._island.code_put(at)
