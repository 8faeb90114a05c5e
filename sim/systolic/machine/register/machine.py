"""Twin of `event.machine`: all units on their clock edges, tick by tick, until queues are empty.

In every tick instructions are fetched, then all units begin their cycles, then they ask for ports
in the order of the chip's priorities, then the array steps its registers. Nothing depends on the
order of anything else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from systolic.errors import SimulationError
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.machine.array_shape import grid_shape
from systolic.machine.memory import Memory
from systolic.machine.register.context import Context
from systolic.machine.register.dma.bursts import dma_queues
from systolic.machine.register.fetch import Fetcher
from systolic.machine.register.lane_engine.unit import LaneEngine
from systolic.machine.register.pe_array.unit import ArrayUnit, Observer
from systolic.machine.register.unit import Unit
from systolic.progress import Progress
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace

Request = tuple[Unit, Callable[[int], None]]


def run_register(
    chip: Chip,
    program: Program,
    memory: Memory,
    recorder: Recorder,
    *,
    progress: Progress | None = None,
    observer: Observer | None = None,
) -> Trace:
    """Run the program to its end on `memory`, cycle by cycle, and return what was observed.

    Args:
        chip: the hardware.
        program: legal on the chip (`systolic.isa.check_program`).
        memory: contents at cycle 0; changed as the program says.
        recorder: collects the records.
        progress: called with instructions done and instructions in all.
        observer: called at the end of each cycle of the array with its number and the grid.

    Raises:
        SimulationError: deadlock.

    """
    context = Context.of(chip, program, memory, recorder, progress)
    with np.errstate(all="ignore"):
        Machine(context, observer).run()
    ports = context.ports
    used = {ports.key(port): ticks for port, ticks in sorted(ports.used.items()) if ticks}
    recorder.port_cycles.update(used)
    if context.dram is not None:
        context.dram.account(recorder.transfers)
    return recorder.finish(context.end, chip.queue_periods, grid_shape(chip))


class Machine:
    """The units that have instructions, and the loop that drives them."""

    def __init__(self, context: Context, observer: Observer | None) -> None:
        self._context = context
        self._fetch = context.fetch if isinstance(context.fetch, Fetcher) else None
        self._array = ArrayUnit(context, observer)
        self._is_watched = observer is not None
        self._engines = [LaneEngine(context, name) for name in context.chip.lane_engines]
        self._queues = dma_queues(context)
        self._units: list[Unit] = [self._array, *self._engines, *self._queues]
        self._units = [u for u in self._units if u.head is not None or self._is_kept(u)]
        self._requests = self._in_priority()

    def run(self) -> None:
        """Run until all instructions are done."""
        context = self._context
        semaphores, total = context.semaphores, len(context.program.instructions)
        tick = 0
        while context.retired < total:
            if semaphores.pending and semaphores.pending[0][0] <= tick:
                semaphores.advance(tick)
                if self._is_asleep():
                    context.note_change_of_awake()
            if context.awake_changed:
                self._list_awake(tick)
            tick = self._cycle(tick)
        for unit in self._units:
            unit.land()
        context.planes.store()

    def _is_asleep(self) -> bool:
        return all(unit.asleep for unit in self._units)

    def _is_kept(self, unit: Unit) -> bool:
        return unit is self._array and self._is_watched

    def _in_priority(self) -> list[Request]:
        """Return all requests, first the client that wins against all others."""
        clients: dict[str, list[Request]] = {
            "moving": [(self._array, self._array.inject)],
            "weights": [(self._array, self._array.read_weights)],
            **{engine.name: [(engine, engine.request)] for engine in self._engines},
            "dma": [(queue, queue.request) for queue in self._queues],
        }
        requests = [r for name in self._context.chip.port_priority for r in clients[name]]
        return [request for request in requests if request[0] in self._units]

    def _list_awake(self, tick: int) -> None:
        """List the units that are awake."""
        self._context.note_awake_listed()
        self._awake = [u for u in self._units if not u.asleep or self._is_kept(u)]
        self._asking = [(u, ask) for u, ask in self._requests if u in self._awake]
        self._asks = [ask for _, ask in self._asking]
        self._periods = sorted({u.period for u in self._awake} | self._fetch_periods())
        self._is_single = self._periods == [1]
        if self._is_asleep() and not self._context.semaphores.pending:
            raise SimulationError(self._deadlock(tick))

    def _fetch_periods(self) -> set[int]:
        fetch = self._fetch
        return {fetch.period} if fetch is not None and fetch.is_at_work else set()

    def _step_fetch(self, tick: int) -> None:
        fetch = self._fetch
        if fetch is not None and tick % fetch.period == 0 and fetch.is_at_work:
            fetch.step(tick)
            if not fetch.is_at_work:
                self._context.note_change_of_awake()

    def _cycle(self, tick: int) -> int:
        """Let every unit that has an edge do its cycle; return the next tick that has one."""
        self._step_fetch(tick)
        awake, asks = self._awake, self._asks
        if not self._is_single:
            awake = [u for u in awake if tick % u.period == 0]
            asks = [ask for u, ask in self._asking if tick % u.period == 0]
        for unit in awake:
            unit.begin(tick)
        for ask in asks:
            ask(tick)
        if self._array in awake:
            self._array.end(tick)
        return tick + 1 if self._is_single else self._next_edge(tick)

    def _next_edge(self, tick: int) -> int:
        edges = [(tick // period + 1) * period for period in self._periods]
        if self._context.semaphores.pending:
            edges.append(max(tick + 1, self._context.semaphores.pending[0][0]))
        return min(edges, default=tick + 1)

    def _deadlock(self, tick: int) -> str:
        """Say which unit waits for what, and since when."""
        program = self._context.program
        lines = []
        for unit in self._units:
            wait = unit.first_unsatisfied()
            if wait is not None:
                kind = type(program.instructions[unit.head_index]).__name__
                count = self._context.semaphores.visible[wait.semaphore]
                lines.append(
                    f"{unit.name}: instruction {unit.head_index} ({kind}) waits for semaphore "
                    f"{wait.semaphore} ({program.semaphores[wait.semaphore]}) to reach "
                    f"{wait.value}, it is at {count}, since cycle {unit.wait_since}"
                )
        cycle = tick // self._array.period
        return f"{program.name}: deadlock in cycle {cycle}: " + "; ".join(lines)
