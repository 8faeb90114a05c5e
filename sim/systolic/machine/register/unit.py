"""Twin of `event.unit`: every unit's queue in order, its waiting head, dispatch, refused ports.

A unit's cycle has three parts, called by the machine: `begin` (writes of its last cycle land, the
head may start), then its requests in the order of the port priorities, then, for the array, `end`.
"""

from __future__ import annotations

from collections import deque

from systolic.hw.spec import Dma, Engine, PEArray
from systolic.isa import Instruction, Wait
from systolic.machine.register.context import Context
from systolic.machine.register.ports.ports import Refused
from systolic.trace.recorder import Recorder
from systolic.trace.records import InstructionTimes, Stall

ISSUE = "waiting for issue"
NEVER = 1 << 62


class Claims:
    """Labels of a unit, claimed cycle by cycle and merged into runs before they are recorded.

    Cycles are the unit's own.
    """

    def __init__(self, recorder: Recorder, unit: str) -> None:
        self._recorder = recorder
        self._unit = unit
        self._open: dict[str, list[int]] = {}

    def mark(self, label: str, first: int, stop: int) -> None:
        """Claim first <= cycle < stop; calls for one label come about in the order of `first`."""
        run = self._open.get(label)
        if run is not None and run[0] <= first <= run[1]:
            if stop > run[1]:
                run[1] = stop
            return
        if run is not None:
            self._recorder.claim(self._unit, label, *run)
        self._open[label] = [first, stop]

    def flush(self) -> None:
        """Record every open run."""
        for label, run in self._open.items():
            self._recorder.claim(self._unit, label, *run)
        self._open.clear()


class Job:
    """An instruction that has been issued. Times in ticks, cycles in cycles of its unit."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.start = -1
        self.first = -1
        self.last = -1
        self.stall_port: Refused | None = None
        self.stall_winner = ""
        self.stall_first = 0
        self.stall_stop = -1

    def begin_work(self, tick: int) -> None:
        """Note the tick of the first read or move; later calls change nothing."""
        if self.first < 0:
            self.first = tick

    def end_work(self, tick: int) -> None:
        """Note the tick of the last read or move so far."""
        self.last = tick


class Unit:
    """A queue and its head. Subclasses say when the head may start and what an instruction does.

    now: the unit's current cycle; asleep: nothing in flight, and the head (if any) waits for a
    semaphore. Dispatch is either a stage that each head passes when it could start (serial), or it
    goes on behind the instruction before: then the head is decoded from cycle `_decoded` on.
    """

    def __init__(
        self, context: Context, name: str, period: int, spec: PEArray | Engine | Dma
    ) -> None:
        self.context = context
        self.name = name
        self.period = period
        self.now = -(-context.start // period)
        self.asleep = False
        self.head: Instruction | None = None
        self.head_index = -1
        self.wait_since = 0
        self.claims = Claims(context.recorder, name)
        self._is_serial = spec.dispatch == "serial" and spec.dispatch_cycles > 0
        self._dispatch = spec.dispatch_cycles
        self._posts = spec.posts_per_copy if isinstance(spec, Dma) else 1
        self._decoded = 0
        self._dispatched: Job | None = None
        self._begins = NEVER
        self._queue = deque(context.queues.get(name, ()))
        self._semaphores = context.semaphores
        self._ports = context.ports
        self._fetch = context.fetch
        self._was_fetched = False
        self._awaits_supply = False
        self._wait_label = ""
        self._seen = -1
        self._next_head(self.now)

    def begin(self, tick: int) -> None:
        """Start a cycle: land what the last one wrote, then start what can start."""
        self.now = cycle = tick // self.period
        self._land()
        if self._dispatched is not None:
            self._begin_dispatched(cycle)
        elif self.head is not None and self._waits_met(cycle):
            if cycle >= self._decoded and self._can_start(cycle):
                self._issue(cycle)
        elif self._may_sleep():
            self._sleep()

    def land(self) -> None:
        """Make the writes of the last cycle visible (called at the end of a run)."""
        self._land()
        self._close_wait(self.now)
        self.claims.flush()

    def wake(self) -> None:
        """Take part in the machine's cycles again."""
        self.asleep = False
        self.context.note_change_of_awake()

    def first_unsatisfied(self) -> Wait | None:
        """Return the wait that holds the head back, the first in the instruction's order."""
        visible = self._semaphores.visible
        waits = () if self.head is None else self.head.waits
        return next((wait for wait in waits if visible[wait.semaphore] < wait.value), None)

    def _land(self) -> None:
        raise NotImplementedError

    def _can_start(self, cycle: int) -> bool:
        raise NotImplementedError

    def _is_resting(self) -> bool:
        raise NotImplementedError

    def _make_job(self) -> Job:
        raise NotImplementedError

    def _launch(self, job: Job, cycle: int) -> None:
        raise NotImplementedError

    def _may_sleep(self) -> bool:
        """Return whether nothing is in flight and only a semaphore can change that."""
        return self._is_resting() and not self._awaits_supply

    def _sleep(self) -> None:
        wait = self.first_unsatisfied()
        if wait is not None:
            self._semaphores.sleep(wait.semaphore, wait.value, self)
        self.asleep = True
        self.context.note_change_of_awake()

    def _next_head(self, cycle: int) -> None:
        self._seen, self.wait_since, self._wait_label = -1, cycle, ""
        self.head, self.head_index = None, -1
        if self._queue:
            self.head_index = self._queue.popleft()
            self.head = self.context.program.instructions[self.head_index]

    def _waits_met(self, cycle: int) -> bool:
        fetch = self._fetch
        fetched = fetch is None or fetch.has_head(self.name)
        if self._seen != self._semaphores.version or self._was_fetched != fetched:
            self._seen, self._was_fetched = self._semaphores.version, fetched
            wait = self.first_unsatisfied()
            label = ISSUE if fetch is None or fetched else fetch.label
            self._awaits_supply = wait is None and not fetched
            if wait is not None:
                label = f"waiting for {self.context.posters[wait.semaphore]}"
            if label != self._wait_label:
                self._close_wait(cycle)
                self._wait_label = label
        return self._wait_label is ISSUE

    def _close_wait(self, cycle: int) -> None:
        if self._wait_label:
            self.claims.mark(self._wait_label, self.wait_since, cycle)
            self.wait_since = cycle

    def _issue(self, cycle: int) -> None:
        self._close_wait(cycle)
        job = self._make_job()
        if self._is_serial:
            self.claims.mark(ISSUE, cycle, cycle + self._dispatch)
            self._dispatched, self._begins = job, cycle + self._dispatch
            self._wait_label = ""
        else:
            self._start(job, cycle)

    def _begin_dispatched(self, cycle: int) -> None:
        if cycle >= self._begins and self._dispatched is not None:
            job, self._dispatched = self._dispatched, None
            self._start(job, cycle)

    def _start(self, job: Job, cycle: int) -> None:
        assert self.head is not None
        job.start = cycle * self.period
        if not self._is_serial:
            self._decoded = cycle + self._dispatch
        if self._fetch is not None:
            self._fetch.start_head(self.name)
        for wait in self.head.waits:
            self.context.recorder.wait(job.start, self.name, wait.semaphore, wait.value)
        self._next_head(cycle)
        self._launch(job, cycle)

    def _key(self, refused: Refused) -> tuple[str, int, str]:
        """Return buffer, bank and direction of a port that was refused."""
        return self._ports.key(refused.port)

    def _winner(self, refused: Refused) -> str:
        """Return the client that has a port refused in this cycle."""
        return self._ports.winner(refused, self.now * self.period)

    def _record_stall(self, job: Job, refused: Refused) -> str:
        """Note that a port was refused to the job in this cycle; return the winner."""
        winner = self._winner(refused)
        if (job.stall_port, job.stall_winner, job.stall_stop) != (refused, winner, self.now):
            self._flush_stall(job)
            job.stall_port, job.stall_winner, job.stall_first = refused, winner, self.now
        job.stall_stop = self.now + 1
        return winner

    def _flush_stall(self, job: Job) -> None:
        if job.stall_port is None:
            return
        buffer, bank, direction = self._key(job.stall_port)
        cycles = job.stall_stop - job.stall_first
        tick, partition = job.stall_first * self.period, job.stall_port.partition
        self.context.recorder.stalls.append(
            Stall(
                tick,
                self.name,
                job.index,
                cycles,
                buffer,
                bank,
                direction,
                job.stall_winner,
                partition,
            )
        )
        job.stall_port = None

    def _retire(self, job: Job, tick: int) -> None:
        """The instruction is done in the cycle that begins at `tick`."""
        self._flush_stall(job)
        self.context.recorder.times.append(
            InstructionTimes(job.index, self.name, job.start, job.first, job.last, tick)
        )
        for post in self.context.program.instructions[job.index].posts:
            if post.on == "done":
                for _ in range(self._posts):
                    self._semaphores.post(tick, self.name, self.period, post.semaphore)
        self.context.retire(tick + self.period)
