"""Twin of `event.pe_array.unit`: the cycles of reads and injections, decided from the state."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from systolic.arrays import Array
from systolic.isa import LoadWeights, MatMul, PassThrough
from systolic.machine.register.context import Context
from systolic.machine.register.pe_array.grid import Grid
from systolic.machine.register.pe_array.jobs import NARROW, LoadJob, MatMulJob
from systolic.machine.register.pe_array.notes import Notes
from systolic.machine.register.pe_array.results import CLIENT, UNIT, Results
from systolic.machine.register.pe_array.state import GridStates
from systolic.machine.register.pe_array.thermometer import Thermometer
from systolic.machine.register.ports.ports import Refused
from systolic.machine.register.unit import Job, Unit
from systolic.trace.grid import GridState

Observer = Callable[[int, GridState], None]
WEIGHTS = "weights"


class Verdict(Enum):
    """Whether the head may start: no, yes, or if the multiply before it injects in this cycle."""

    NO = 0
    YES = 1
    LAST = 2


class ArrayUnit(Unit):
    """The array: at most one load reads and one multiply injects at a time."""

    def __init__(self, context: Context, observer: Observer | None) -> None:
        chip, recorder = context.chip, context.recorder
        self._buffer = chip.pe_array.weight_buffer
        states = GridStates(context.program)
        instructions = context.program.instructions
        self._grid = Grid(
            chip,
            states.is_mixed,
            context.program.products(),
            has_pass_through=any(isinstance(each, PassThrough) for each in instructions),
        )
        period = chip.period(UNIT)
        self._results = Results(context, self._grid, period)
        self._look: Callable[[int], None] | None = None
        if observer is not None:
            self._look = lambda cycle: observer(cycle, states.of(self._grid))
        is_noted = recorder.keep_grid or recorder.kinds or observer is not None
        self._notes = Notes(recorder, period) if is_noted else None
        self._load: LoadJob | None = None
        self._multiply: MatMulJob | None = None
        self._gate: MatMulJob | None = None
        self._next_multiply = 0
        self._interval_over = 0
        self._began = 0
        self._thermometer = Thermometer(chip.pe_array.warm_up_cycles)
        self._cold_factor = chip.pe_array.warm_up_factor
        self._is_reloaded = False
        self._asks_last = False
        self._refusals: list[tuple[int, str]] = []
        super().__init__(context, UNIT, period, chip.pe_array)

    def begin(self, tick: int) -> None:
        """Start a cycle: land results, start what can start, take the result buffer's ports."""
        self.now = cycle = tick // self.period
        self._results.land()
        if self._dispatched is not None:
            self._begin_dispatched(cycle)
        if self._load is None and not self.asleep and not self._is_engaged():
            self._start_ready(cycle)
        self._results.hold_ports(cycle, tick)
        if cycle < self._grid.quiet or self._multiply is not None:
            self._grid.advance()

    def inject(self, tick: int) -> None:
        """Read the next moving vector, if it is due and its ports are free."""
        job = self._multiply
        if job is None or self.now < job.due:
            return
        ports = self._ports
        needed = job.ports[job.sent]
        for want in needed:
            refused = ports.refused(want, tick)
            if refused and not self._is_own(refused.port, job, tick):
                self._refusals.append((job.index, self._record_stall(job, refused)))
                self._end_run(job)
                return
        for want in needed:
            ports.take(want, tick, self.period, CLIENT)
        self._inject(job, tick)

    def read_weights(self, tick: int) -> None:
        """Read the next weights of the load in hand, if their ports are free."""
        job = self._load
        if job is None:
            return
        ports = self._ports
        needed = job.ports[job.sent]
        for want in needed:
            if refused := ports.refused(want, tick):
                self._refusals.append((job.index, self._record_stall(job, refused)))
                self._end_run(job)
                return
        for want in needed:
            ports.take(want, tick, self.period, WEIGHTS)
        self._read(job, tick)

    def end(self, tick: int) -> None:
        """End a cycle: the load that asks last, all registers, results, posts."""
        cycle = self.now
        if self._asks_last:
            self._ask_last(cycle, tick)
        grid = self._grid
        if cycle < grid.quiet:
            grid.step(cycle)
            self._results.write(tick)
        if not grid.weights.are_still:
            grid.write_weights(cycle)
        if self._results.jobs:
            for done in self._results.post(cycle, tick):
                self._finish(done, tick)
        if self._refusals:
            _, winner = min(self._refusals)
            self.claims.mark(f"stalled by {winner}", cycle, cycle + 1)
            self._refusals.clear()
        if self._look is not None:
            self._look(cycle)

    def _is_engaged(self) -> bool:
        """Return whether the head, a multiply, waits for the one that injects."""
        return self._multiply is not None and isinstance(self.head, MatMul)

    def _end_run(self, job: LoadJob | MatMulJob) -> None:
        """Claim the cycles since `run`, in which the job was not held back."""
        if job.run >= 0:
            label = "loading" if isinstance(job, LoadJob) else "streaming"
            self.claims.mark(label, job.run, job.due)
            job.hold_back()

    def _start_ready(self, cycle: int) -> None:
        """Start as many instructions as the state allows."""
        while self._dispatched is None:
            if self.head is None or not self._waits_met(cycle):
                if self._may_sleep():
                    self._sleep()
                return
            verdict = self._verdict(cycle)
            if verdict is not Verdict.YES:
                self._asks_last = verdict is Verdict.LAST
                return
            self._issue(cycle)

    def _verdict(self, cycle: int) -> Verdict:
        if self._load is not None or cycle < self._decoded:
            return Verdict.NO
        if isinstance(self.head, LoadWeights):
            return self._load_verdict(cycle)
        may = self._multiply is None and cycle >= max(self._next_multiply, self._interval_over)
        return Verdict.YES if may else Verdict.NO

    def _load_verdict(self, cycle: int) -> Verdict:
        gate = self._gate
        if gate is None:
            return Verdict.YES
        if self._buffer == "serial":
            stages = self._grid.stages
            last = gate.arrivals[-1] - stages.to_result if gate.is_injected else cycle
            return Verdict.YES if cycle >= last + stages.drained else Verdict.NO
        needed = 1 if self._buffer == "double" else gate.injections
        if gate.sent >= needed:
            return Verdict.YES
        return Verdict.LAST if gate.sent + 1 == needed and cycle >= gate.due else Verdict.NO

    def _ask_last(self, cycle: int, tick: int) -> None:
        self._asks_last = False
        if self._load_verdict(cycle) is Verdict.YES:
            self._issue(cycle)
            self.read_weights(tick)

    def _make_job(self) -> Job:
        head, context, stages = self.head, self.context, self._grid.stages
        if isinstance(head, LoadWeights):
            self._is_reloaded = True
            return LoadJob(self.head_index, head, context, stages)
        assert isinstance(head, MatMul)
        is_first, self._is_reloaded = self._is_reloaded, False
        return MatMulJob(self.head_index, head, context, stages, is_first=is_first)

    def _launch(self, job: Job, cycle: int) -> None:
        if isinstance(job, LoadJob):
            self._load = job
        elif isinstance(job, MatMulJob):
            self._multiply = self._gate = job
            job.make_due(cycle)
            self._began = cycle
            if self._thermometer.begin(cycle):
                job.slow_down(self._cold_factor)
            self._interval_over = cycle + job.least_cycles
            self._results.jobs.append(job)

    def _is_own(self, port: int, job: MatMulJob, tick: int) -> bool:
        """Return whether only the array itself holds this port of the result buffer (D = 0)."""
        return port in job.result_ports and self._ports.is_held_by_sums_alone(port, tick)

    def _winner(self, refused: Refused) -> str:
        """Return the client that has a port: sums do not keep the array from it."""
        return self._ports.accessor(refused, self.now * self.period)

    def _inject(self, job: MatMulJob, tick: int) -> None:
        cycle, grid = self.now, self._grid
        operand = job.rows[:, job.offsets[job.sent % job.vectors]]
        is_silent = job.sent < job.silent
        grid.inject(cycle, operand[:0] if is_silent else operand, job.is_integer)
        if job.is_pass_through:
            grid.let_pass()
        if job.sent == 0 and job.is_first:
            grid.begin_exchange(cycle)
        if is_silent and self._notes is not None:
            self._notes.silent_vector(job, operand, cycle)
        elif not is_silent:
            self._accompany(job, operand)
        job.send(cycle, tick, job.vector_cycles)
        if not is_silent and grid.stages.to_result == 0:
            self._results.enter_at_once(job)
        if job.is_injected:
            self._end_injection(job, tick)

    def _accompany(self, job: MatMulJob, operand: Array) -> None:
        """Send the control words along with a vector that takes part."""
        cycle, grid = self.now, self._grid
        control, base = grid.control, grid.base
        control.code[base], control.word[base] = job.code, job.words[job.sent - job.silent]
        if job.full_kind == NARROW:
            grid.narrow(job.cols, cycle)
        if self._notes is not None:
            self._notes.vector(job, operand, cycle, base, control)
        job.arrivals.append(cycle + grid.stages.to_result)

    def _end_injection(self, job: MatMulJob, tick: int) -> None:
        job.end_work(tick)
        self._multiply = None
        self._next_multiply = job.due
        self._thermometer.end(self._began, job.due)
        self._end_run(job)
        if self._notes is not None:
            self._notes.end_multiply(job)

    def _read(self, job: LoadJob, tick: int) -> None:
        cycle, rows, send = self.now, job.rows, self._grid.send
        for lane, part, pe, delay in job.routes[job.sent]:
            left = job.is_left
            operand = rows[:, job.columns[lane]] if left else rows[lane, job.offsets[part]]
            send(operand, job.is_integer, pe, cycle + delay)
            if self._notes is not None:
                self._notes.lane(job, lane, part, operand, cycle)
        job.send(cycle, tick, 1)
        if job.sent == job.reads:
            self._end_load(job, tick)

    def _end_load(self, job: LoadJob, tick: int) -> None:
        job.end_work(tick)
        self._load = None
        self._end_run(job)
        if self._notes is not None:
            self._notes.end_load(job)
        self._retire(job, tick)

    def _finish(self, job: MatMulJob, tick: int) -> None:
        recorder = self.context.recorder
        recorder.claim(UNIT, "filling", job.first // self.period, job.arrivals[0])
        recorder.claim(UNIT, "draining", job.arrivals[0], self.now + 1)
        self._retire(job, tick)

    def _land(self) -> None:
        self._results.land()

    def _is_resting(self) -> bool:
        if self._load is not None or self._dispatched is not None or self._results.jobs:
            return False
        return self.now >= self._grid.quiet and self._grid.weights.are_still
