"""All cores of a chip in one loop, tick by tick, until every program has ended.

In every tick posts become visible, cores start, processors act, instructions are fetched, then all
units begin their cycles, then they ask for ports, then the arrays step their registers. Each core
asks in its own order of priority; DMA queues ask in one order for all cores, and each queue asks
for the ports of all cores that it needs at once. Since the queues are one client of every core, all
that precedes a queue at any core has been decided then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np

from systolic.errors import SimulationError
from systolic.hw.spec import MultiCoreChip
from systolic.hw.spec.places import ChipPlace, core, joined
from systolic.hw.units import dma_queue
from systolic.isa import Program
from systolic.isa.instruction import Command
from systolic.isa.instruction.on_dma import CODE
from systolic.isa.joint import JointProgram
from systolic.isa.launches import Launch
from systolic.machine.array_shape import grid_shape
from systolic.machine.register.chip.banks import BankedControllers
from systolic.machine.register.chip.bursts import queue_kind
from systolic.machine.register.chip.processor import FedSupply, ManagementProcessor
from systolic.machine.register.chip.queue import ChipQueue, Surroundings
from systolic.machine.register.chip.recorder import PlacedRecorder
from systolic.machine.register.chip.semaphores import NOT_YET, ChipSemaphores, PlacedSemaphores
from systolic.machine.register.chip.shares import SharesHeld
from systolic.machine.register.context import Context
from systolic.machine.register.fetch import Fetcher
from systolic.machine.register.lane_engine.unit import LaneEngine
from systolic.machine.register.pe_array.unit import ArrayUnit
from systolic.machine.register.planes import Planes
from systolic.machine.register.ports.ports import Ports
from systolic.machine.register.unit import Unit
from systolic.machine.values.chip_memory import ChipMemory
from systolic.progress import Progress
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace

Ask = tuple[Unit, Callable[[int], None]]


def run_register_chip(
    joint: JointProgram,
    memory: ChipMemory,
    recorder: Recorder,
    *,
    progress: Progress | None = None,
    shuffle: Random | None = None,
) -> Trace:
    """Run the programs of a chip to their end on `memory`, and return what was observed.

    `shuffle` steps cores and units in a random order, which must not matter (a test says so).

    Raises:
        SimulationError: deadlock.

    """
    with np.errstate(all="ignore"):
        machine = ChipMachine(joint, memory, recorder, progress, shuffle)
        end = machine.run()
    chip = joint.chip
    if machine.around.banks is not None:
        machine.around.banks.channels.account(recorder.transfers)
    for number, ports in enumerate(machine.around.ports):
        for port, ticks in sorted(ports.used.items()):
            if ticks:
                buffer, bank, direction = ports.key(port)
                recorder.port_cycles[joined(core(number), buffer), bank, direction] += ticks
    return recorder.finish(end, chip.queue_periods, grid_shape(chip.core_chips[0]))


class CoreLaunch:
    """A program that runs on a core: the units of the core, from a tick on.

    before, behind: what asks for ports before all DMA queues, and what asks behind them.
    """

    def __init__(self, launch: Launch, start: int, machine: ChipMachine) -> None:
        joint, place = machine.joint, launch.section.place
        chip = joint.chip.core_chips[place.number]
        local = _context(launch, start, machine, names_winners=False)
        full = _context(launch, start, machine, names_winners=True)
        self.launch, self.start, self.contexts = launch, start, (local, full)
        self.fetch: Fetcher | None = None
        if chip.fetch is not None:
            self.fetch = Fetcher(chip, chip.fetch, launch.program, local.recorder)
            local.fetch = full.fetch = self.fetch
        self.array = ArrayUnit(local, None)
        engines = [LaneEngine(local, name) for name in chip.lane_engines]
        self.queues = [
            queue_kind(machine.around)(
                full,
                number,
                place,
                spec=chip.dma,
                period=chip.period("dma"),
                around=machine.around,
            )
            for number in range(chip.dma.queues)
        ]
        self.units: list[Unit] = [self.array, *engines, *self.queues]
        clients: dict[str, list[Ask]] = {
            "moving": [(self.array, self.array.inject)],
            "weights": [(self.array, self.array.read_weights)],
            **{engine.name: [(engine, engine.request)] for engine in engines},
        }
        names = list(chip.port_priority)
        at = names.index("dma")
        self.before = [ask for name in names[:at] for ask in clients[name]]
        self.behind = [ask for name in names[at + 1 :] for ask in clients[name]]

    @property
    def retired(self) -> int:
        """Return how many of its instructions are done."""
        return sum(context.retired for context in self.contexts)

    @property
    def end(self) -> int:
        """Return the tick after its last act so far."""
        return max(context.end for context in self.contexts)

    def has_stopped(self, tick: int) -> bool:
        """Return whether all of its instructions are done and over by a tick."""
        return self.retired == len(self.launch.program.instructions) and tick >= self.end

    def land(self) -> None:
        """Make its last writes visible, and hand on its records."""
        for unit in self.units:
            unit.land()
        for context in self.contexts:
            assert isinstance(context.recorder, PlacedRecorder)
            context.recorder.hand_on()


class ChipMachine:
    """The cores, the processors, and the loop that drives them."""

    def __init__(
        self,
        joint: JointProgram,
        memory: ChipMemory,
        recorder: Recorder,
        progress: Progress | None,
        shuffle: Random | None = None,
    ) -> None:
        chip = joint.chip
        self.joint, self.recorder, self._progress = joint, recorder, progress
        self._shuffle = shuffle
        self.semaphores = ChipSemaphores(joint, recorder)
        self.around = Surroundings(
            chip,
            tuple(Ports(each) for each in chip.core_chips),
            tuple(Planes(each, joint.program) for each in memory.cores),
            SharesHeld(chip),
            BankedControllers.of(chip),
        )
        self._running: list[CoreLaunch] = []
        self._over: list[CoreLaunch] = []
        self._starting: list[tuple[int, Launch]] = []
        self._processors: list[ManagementProcessor] = []
        self._fed: list[Context] = []
        self._fed_queues: list[ChipQueue] = []
        for number, launch in enumerate(joint.launches):
            if launch.section.place.kind == "processor":
                self.semaphores.started[number] = 0
                self._add_processor(launch)
            elif launch.by is None:
                self._starting.append((0, launch))
                self.semaphores.started[number] = 0
        self._code: dict[str, list[int]] = {}
        self._quiet_since = 0
        self._periods = sorted({*chip.queue_periods.values(), *_fetch_periods(chip)})

    def run(self) -> int:
        """Run until all is done; return the tick after the last act."""
        tick = 0
        while True:
            self.semaphores.advance(tick)
            self._end_launches(tick)
            self._begin_launches(tick)
            self._step_processors(tick)
            if self._is_over():
                break
            self._cycle(tick)
            self._refuse_deadlock(tick)
            tick = self._next(tick)
        for context in self._fed:
            assert isinstance(context.recorder, PlacedRecorder)
        self.semaphores.advance(NOT_YET - 1)
        for queue in self._fed_queues:
            queue.land()
        for context in self._fed:
            assert isinstance(context.recorder, PlacedRecorder)
            context.recorder.hand_on()
        for planes in self.around.planes:
            planes.store()
        ends = [each.end for each in self._over] + [each.end for each in self._processors]
        return max([*ends, *(each.end for each in self._fed)], default=0)

    # -- cores as processors see them -------------------------------------------------------------

    def blocked_by(self, place: ChipPlace, tick: int) -> str:
        """Return the core if it runs a program, or is about to; else ""."""
        runs = [each.launch for each in self._running if not each.has_stopped(tick)]
        runs += [launch for _, launch in self._starting]
        if any(each.section.place == place for each in runs):
            return str(place)
        code = self._code.get(str(place), [])
        return "" if all(self._has_come(copy, tick) for copy in code) else f"{place}.{CODE}"

    def bring_code(self, at: str, index: int) -> None:
        """Note that a copy to the code of a core stands in its queue."""
        self._code.setdefault(at, []).append(index)

    def _has_come(self, copy: int, tick: int) -> bool:
        """Return whether a copy of a processor's queue has ended by a tick."""
        launch = self.joint.launches[self.joint.launch_of[copy]]
        period = self.joint.chip.queue_periods[self.joint.units[copy]]
        done = [
            times.done + period
            for context in self._fed
            if context.recorder.place == str(launch.section.place)  # type: ignore[attr-defined]
            for times in context.recorder.times
            if times.instruction == copy - launch.first_instruction
        ]
        return bool(done) and tick >= done[0]

    def start(self, by: tuple[ChipPlace, int], tick: int) -> None:
        """Start the program of a command at a tick."""
        for number, launch in enumerate(self.joint.launches):
            if launch.by == by:
                self.semaphores.started[number] = tick
                self._starting.append((tick, launch))

    # -- a tick -----------------------------------------------------------------------------------

    def _add_processor(self, launch: Launch) -> None:
        chip, place = self.joint.chip, launch.section.place
        spec = chip.processor_specs[place.number]
        context = _context(launch, 0, self, names_winners=True)
        context.fetch = supply = FedSupply(place)
        queues: dict[str, ChipQueue] = {}
        if spec.dma is not None:
            period = chip.period_of(spec.dma.clock)
            for number in range(spec.dma.queues):
                name = dma_queue(number)
                queues[name] = queue_kind(self.around)(
                    context, number, place, spec=spec.dma, period=period, around=self.around
                )
        self._fed.append(context)
        self._fed_queues += queues.values()
        self._processors.append(
            ManagementProcessor(
                self.joint,
                launch,
                spec,
                queues=queues,
                supply=supply,
                semaphores=self.semaphores,
                recorder=self.recorder,
                cores=self,
            )
        )

    def _step_processors(self, tick: int) -> None:
        acting = [each for each in self._processors if tick % each.period == 0]
        for each in acting:
            each.conclude(tick)
        for each in acting:
            each.begin(tick)

    def _begin_launches(self, tick: int) -> None:
        due = [launch for start, launch in self._starting if start <= tick]
        self._starting = [each for each in self._starting if each[0] > tick]
        self._running += [CoreLaunch(launch, tick, self) for launch in due]

    def _end_launches(self, tick: int) -> None:
        for each in self._running:
            if each.has_stopped(tick):
                each.land()
                self._over.append(each)
        self._running = [each for each in self._running if not each.has_stopped(tick)]

    def _cycle(self, tick: int) -> None:
        for each in self._running:
            if each.fetch is not None and tick % each.fetch.period == 0 and each.fetch.is_at_work:
                each.fetch.step(tick)
        units = [unit for each in self._running for unit in each.units] + self._fed_queues
        if self._shuffle is not None:
            self._shuffle.shuffle(units)
            self._shuffle.shuffle(self._running)
        awake = {id(unit) for unit in units if not unit.asleep and tick % unit.period == 0}
        for unit in units:
            if id(unit) in awake:
                unit.begin(tick)
        queues = [queue for each in self._running for queue in each.queues] + self._fed_queues
        asks: list[Ask] = [ask for each in self._running for ask in each.before]
        asks += [(queue, queue.request) for queue in sorted(queues, key=_rank)]
        asks += [ask for each in self._running for ask in each.behind]
        for unit, ask in asks:
            if id(unit) in awake:
                ask(tick)
        for each in self._running:
            if id(each.array) in awake:
                each.array.end(tick)
        self._tell_progress()

    def _next(self, tick: int) -> int:
        """Return the next tick that has an edge of any clock."""
        return min((tick // period + 1) * period for period in self._periods)

    def _is_over(self) -> bool:
        if self._running or self._starting:
            return False
        if not all(each.is_over for each in self._processors):
            return False
        fed = sum(context.retired for context in self._fed)
        return fed == sum(each.fed for each in self._processors)

    def _tell_progress(self) -> None:
        if self._progress is not None:
            done = sum(each.retired for each in [*self._running, *self._over])
            done += sum(each.retired for each in self._fed)
            done += sum(each.retired for each in self._processors)
            self._progress(done, len(self.joint.program.instructions))

    def _refuse_deadlock(self, tick: int) -> None:
        """Raise SimulationError if nothing has been able to go on for two cycles of every clock."""
        if self._goes_on():
            self._quiet_since = tick
        if tick - self._quiet_since <= 2 * self._periods[-1]:
            return
        lines = [line for each in self._running for line in self._stuck(each)]
        lines += [each.what_for() for each in self._processors if not each.is_over]
        raise SimulationError(
            f"{self.joint.program.name}: deadlock at tick {tick}: " + "; ".join(lines)
        )

    def _goes_on(self) -> bool:
        """Return whether something has happened, or will without anything else.

        A unit that waits for its bytes is awake.
        """
        units = [unit for each in self._running for unit in each.units] + self._fed_queues
        return (
            not all(unit.asleep for unit in units)
            or bool(self.semaphores.pending or self._starting)
            or any(each.has_stopped(each.end) for each in self._running)
            or not all(each.is_over or each.is_blocked for each in self._processors)
        )

    def _stuck(self, each: CoreLaunch) -> list[str]:
        program, lines = each.launch.program, []
        for unit in each.units:
            wait = unit.first_unsatisfied()
            if wait is not None:
                name = self.joint.program.semaphores[wait.semaphore]
                kind = type(program.instructions[unit.head_index]).__name__
                count = self.semaphores.visible[wait.semaphore]
                lines.append(
                    f"{joined(each.launch.at, unit.name)}: instruction {unit.head_index} ({kind}) "
                    f"waits for semaphore {name} to reach {wait.value}, it is at {count}, since "
                    f"cycle {unit.wait_since}"
                )
        return lines


def _rank(queue: ChipQueue) -> int:
    return queue.rank


def _fetch_periods(chip: MultiCoreChip) -> set[int]:
    return {each.fetch_period for each in chip.core_chips if each.fetch is not None}


def _before_stop(program: Program) -> dict[str, list[int]]:
    """Return the queues of a processor's program without what stands behind a `stop`."""
    stops = [
        index
        for index, each in enumerate(program.instructions)
        if isinstance(each, Command) and each.word == "stop"
    ]
    stop = min(stops, default=len(program.instructions))
    return {name: [i for i in of if i < stop] for name, of in program.queues().items()}


def _context(launch: Launch, start: int, machine: ChipMachine, *, names_winners: bool) -> Context:
    """Return the surroundings of the units of a launch. Instructions are numbered from 0 in it."""
    joint, place = machine.joint, launch.section.place
    chip = joint.chip.core_chips[place.number if place.kind == "core" else 0]
    first = launch.first_instruction
    own = joint.program.instructions[first : first + len(launch.program.instructions)]
    program = replace(joint.program, name=joint.program.name, instructions=own)
    recorder = PlacedRecorder(machine.recorder, place, first, names_winners=names_winners)
    if place.kind == "processor":
        cycles, handoff = joint.chip.processor_specs[place.number].semaphore_cycles, {}
        queues = _before_stop(program)
    else:
        cycles, handoff, queues = chip.semaphore_cycles, chip.handoff_cycles, program.queues()
    number = place.number if place.kind == "core" else 0
    return Context(
        chip=chip,
        program=program,
        recorder=recorder,
        ports=machine.around.ports[number],
        semaphores=PlacedSemaphores(machine.semaphores, place, cycles, handoff),
        planes=machine.around.planes[number],
        posters=joint.posters,
        queues=queues,
        start=start,
    )
