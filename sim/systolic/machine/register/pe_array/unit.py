"""Twin of `event.pe_array.unit`: the cycles of reads and injections, decided from the state."""

from __future__ import annotations

from collections.abc import Callable

from systolic.arrays import Array
from systolic.isa import Buffer, LoadWeights, MatMul
from systolic.isa.array_tile import ArrayTile
from systolic.machine.register.context import Context
from systolic.machine.register.pe_array.jobs import NARROW, LoadJob, MatMulJob
from systolic.machine.register.pe_array.results import CLIENT, UNIT
from systolic.machine.register.pe_array.state import GridStates
from systolic.machine.register.pe_array.thermometer import Thermometer
from systolic.machine.register.pe_array.tile import TileRegisters, Verdict, tiles_of
from systolic.machine.register.ports.ports import Refused
from systolic.machine.register.unit import Job, Unit
from systolic.trace.grid import GridState

Observer = Callable[[int, GridState], None]
WEIGHTS = "weights"


class ArrayUnit(Unit):
    """The array: its tiles; a program without tiles has one, the whole array."""

    def __init__(self, context: Context, observer: Observer | None) -> None:
        chip, recorder = context.chip, context.recorder
        states = GridStates(context.program)
        period = chip.period(UNIT)
        is_noted = bool(recorder.keep_grid or recorder.kinds or observer is not None)
        whole = ArrayTile(0, 0, chip.pe_array.rows, chip.pe_array.cols)
        work = [i for i in context.program.instructions if isinstance(i, LoadWeights | MatMul)]
        self._whole = whole
        is_mixed = states.is_mixed
        self._tiles = {
            tile: TileRegisters(context, tile, is_mixed=is_mixed, is_noted=is_noted, period=period)
            for tile in tiles_of(work, whole)
        }
        self._all = list(self._tiles.values())
        self._is_tiled = len(self._all) > 1
        self._look: Callable[[int], None] | None = None
        if observer is not None:
            self._look = lambda cycle: observer(cycle, states.of_all(self._all, chip))
        self._met: dict[int, tuple[list[TileRegisters], list[TileRegisters]]] = {}
        self._thermometer = Thermometer(chip.pe_array.warm_up_cycles)
        self._cold_factor = chip.pe_array.warm_up_factor
        self._asks_last = False
        self._refusals: list[tuple[int, str]] = []
        super().__init__(context, UNIT, period, chip.pe_array)

    def begin(self, tick: int) -> None:
        """Start a cycle: land results, start what can start, take the result buffer's ports."""
        self.now = cycle = tick // self.period
        for tile in self._all:
            tile.results.land()
        if self._dispatched is not None:
            self._begin_dispatched(cycle)
        if not self.asleep and not self._is_engaged():
            self._start_ready(cycle)
        for tile in self._all:
            tile.results.hold_ports(cycle, tick)
            if cycle < tile.grid.quiet or tile.multiply is not None:
                tile.grid.advance()

    def inject(self, tick: int) -> None:
        """Read the next moving vectors that are due and whose ports are free."""
        if not self._is_tiled:
            self._inject_of(self._all[0], tick)
            return
        at_work = [(tile.multiply.index, tile) for tile in self._all if tile.multiply is not None]
        for _, tile in sorted(at_work, key=_earliest):
            self._inject_of(tile, tick)

    def _inject_of(self, tile: TileRegisters, tick: int) -> None:
        job = tile.multiply
        if job is None or self.now < job.due:
            return
        ports = self._ports
        needed = job.ports[job.sent]
        for want in needed:
            refused = ports.refused(want, tick, CLIENT)
            if refused and not self._is_own(refused.port, job, tick):
                self._refusals.append((job.index, self._record_stall(job, refused)))
                self._end_run(job)
                return
        for want in needed:
            ports.take(want, tick, self.period, CLIENT, is_engine=self._is_tiled)
        self._inject(tile, job, tick)

    def read_weights(self, tick: int) -> None:
        """Read the next weights of the loads in hand, if their ports are free."""
        if not self._is_tiled:
            self._read_of(self._all[0], tick)
            return
        at_work = [(tile.load.index, tile) for tile in self._all if tile.load is not None]
        for _, tile in sorted(at_work, key=_earliest):
            self._read_of(tile, tick)

    def _read_of(self, tile: TileRegisters, tick: int) -> None:
        job = tile.load
        if job is None:
            return
        ports = self._ports
        needed = job.ports[job.sent]
        for want in needed:
            if refused := ports.refused(want, tick, WEIGHTS):
                self._refusals.append((job.index, self._record_stall(job, refused)))
                self._end_run(job)
                return
        for want in needed:
            ports.take(want, tick, self.period, WEIGHTS, is_engine=self._is_tiled)
        self._read(tile, job, tick)

    def end(self, tick: int) -> None:
        """End a cycle: the load that asks last, all registers, results, posts."""
        cycle = self.now
        if self._asks_last:
            self._ask_last(cycle, tick)
        for tile in self._all:
            self._end_of(tile, cycle, tick)
        if self._refusals:
            _, winner = min(self._refusals)
            self.claims.mark(f"stalled by {winner}", cycle, cycle + 1)
            self._refusals.clear()
        if self._look is not None:
            self._look(cycle)

    def _end_of(self, tile: TileRegisters, cycle: int, tick: int) -> None:
        grid = tile.grid
        if cycle < grid.quiet:
            grid.step(cycle)
            tile.results.write(tick)
        if not grid.weights.are_still:
            grid.write_weights(cycle)
        if tile.results.jobs:
            for done in tile.results.post(cycle, tick):
                self._finish(done, tick)

    def _is_engaged(self) -> bool:
        """Return whether the head waits for a load that reads, or a multiply that injects."""
        if self._is_tiled:
            return False
        (tile,) = self._all
        return tile.load is not None or (
            tile.multiply is not None and isinstance(self.head, MatMul)
        )

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

    def _tile_of(self, instruction: LoadWeights | MatMul) -> TileRegisters:
        return self._tiles[instruction.tile or self._whole]

    def _verdict(self, cycle: int) -> Verdict:
        if cycle < self._decoded:
            return Verdict.NO
        met, below = self._met_by_head()
        if any(tile.load is not None for tile in met):
            return Verdict.NO
        if isinstance(self.head, LoadWeights):
            return self._load_verdict(met, cycle)
        may = all(tile.is_over(cycle) for tile in met)
        may = may and not any(self._writes_there(tile, cycle) for tile in below)
        return Verdict.YES if may else Verdict.NO

    def _met_by_head(self) -> tuple[list[TileRegisters], list[TileRegisters]]:
        """Return the tiles that have a PE of the head's, and those that only share its columns."""
        head = self.head
        assert isinstance(head, LoadWeights | MatMul)
        if self.head_index not in self._met:
            self._met.clear()
            mine = self._tile_of(head).tile
            met = [tile for tile in self._all if tile.tile.meets(mine)]
            others = [tile for tile in self._all if tile not in met]
            below = [tile for tile in others if tile.tile.columns.meets(mine.columns)]
            self._met[self.head_index] = met, below
        return self._met[self.head_index]

    def _writes_there(self, tile: TileRegisters, cycle: int) -> bool:
        """Return whether the last multiply of a tile holds back the head for the bank of both."""
        head, gate = self.head, tile.gate
        if gate is None or tile.is_over(cycle):
            return False
        assert isinstance(head, MatMul)
        low, high = head.result.span
        bank = self._ports.of_bytes(Buffer.RESULT, low, high, "write")[-1]
        return bank in gate.result_ports

    @staticmethod
    def _load_verdict(met: list[TileRegisters], cycle: int) -> Verdict:
        verdicts = {tile.load_verdict(cycle) for tile in met}
        for worst in (Verdict.NO, Verdict.LAST):
            if worst in verdicts:
                return worst
        return Verdict.YES

    def _ask_last(self, cycle: int, tick: int) -> None:
        self._asks_last = False
        met, _ = self._met_by_head()
        if self._load_verdict(met, cycle) is Verdict.YES:
            assert isinstance(self.head, LoadWeights)
            tile = self._tile_of(self.head)
            self._issue(cycle)
            self._read_of(tile, tick)

    def _make_job(self) -> Job:
        head, context = self.head, self.context
        assert isinstance(head, LoadWeights | MatMul)
        tile = self._tile_of(head)
        stages = tile.grid.stages
        if isinstance(head, LoadWeights):
            return LoadJob(self.head_index, head, context, stages)
        is_first = tile.take_exchange()
        return MatMulJob(self.head_index, head, context, stages, is_first=is_first)

    def _launch(self, job: Job, cycle: int) -> None:
        started = self.context.program.instructions[job.index]
        assert isinstance(started, LoadWeights | MatMul)
        tile = self._tile_of(started)
        if isinstance(job, LoadJob):
            tile.begin_load(job)
        elif isinstance(job, MatMulJob):
            job.make_due(cycle)
            if self._thermometer.begin(cycle):
                job.slow_down(self._cold_factor)
            tile.begin_multiply(job, cycle)

    def _is_own(self, port: int, job: MatMulJob, tick: int) -> bool:
        """Return whether only the array itself holds this port of the result buffer (D = 0)."""
        return port in job.result_ports and self._ports.is_held_by_sums_alone(port, tick)

    def _winner(self, refused: Refused) -> str:
        """Return the client that has a port: sums do not keep the array from it."""
        return self._ports.accessor(refused, self.now * self.period)

    def _inject(self, tile: TileRegisters, job: MatMulJob, tick: int) -> None:
        cycle, grid, notes = self.now, tile.grid, tile.notes
        operand, *further = job.take(job.sent % job.vectors)
        is_silent = job.sent < job.silent
        grid.inject(cycle, operand[:0] if is_silent else operand, job.is_integer)
        if further:
            grid.inject_further(further, job.is_integer)
            if notes is not None:
                notes.further_values(job, further, cycle)
        if job.is_pass_through:
            grid.let_pass()
        if job.sent == 0 and job.is_first:
            grid.begin_exchange(cycle)
        if is_silent and notes is not None:
            notes.silent_vector(job, operand, cycle)
        elif not is_silent:
            self._accompany(tile, job, operand)
        job.send(cycle, tick, job.vector_cycles)
        if not is_silent and grid.stages.to_result == 0:
            tile.results.enter_at_once(job)
        if job.is_injected:
            self._end_injection(tile, job, tick)

    def _accompany(self, tile: TileRegisters, job: MatMulJob, operand: Array) -> None:
        """Send the control words along with a vector that takes part."""
        cycle, grid, notes = self.now, tile.grid, tile.notes
        control, base = grid.control, grid.base
        control.code[base], control.word[base] = job.code, job.words[job.sent - job.silent]
        if job.full_kind == NARROW:
            grid.narrow(job.cols, cycle)
        if notes is not None:
            notes.vector(job, operand, cycle, base, control)
        job.arrivals.append(cycle + grid.stages.to_result)

    def _end_injection(self, tile: TileRegisters, job: MatMulJob, tick: int) -> None:
        job.end_work(tick)
        tile.end_multiply(job)
        self._thermometer.end(job.due)
        self._end_run(job)
        if tile.notes is not None:
            tile.notes.end_multiply(job)

    def _read(self, tile: TileRegisters, job: LoadJob, tick: int) -> None:
        cycle, send, notes = self.now, tile.grid.send, tile.notes
        tile.note_read(job, cycle)
        for lane, part, pe, delay in job.routes[job.sent]:
            operand, *further = job.take(lane, part)
            send(operand, job.is_integer, pe, cycle + delay)
            if further:
                tile.grid.send_further(further, job.is_integer, pe, cycle + delay)
                if notes is not None:
                    notes.further_lanes(job, lane, part, further, cycle)
            if notes is not None:
                notes.lane(job, lane, part, operand, cycle)
        job.send(cycle, tick, 1)
        if job.sent == job.reads:
            self._end_load(tile, job, tick)

    def _end_load(self, tile: TileRegisters, job: LoadJob, tick: int) -> None:
        job.end_work(tick)
        tile.end_load()
        self._end_run(job)
        if tile.notes is not None:
            tile.notes.end_load(job)
        self._retire(job, tick)

    def _finish(self, job: MatMulJob, tick: int) -> None:
        recorder = self.context.recorder
        recorder.claim(UNIT, "filling", job.first // self.period, job.arrivals[0])
        recorder.claim(UNIT, "draining", job.arrivals[0], self.now + 1)
        self._retire(job, tick)

    def _land(self) -> None:
        for tile in self._all:
            tile.results.land()

    def _is_resting(self) -> bool:
        return self._dispatched is None and all(tile.is_resting(self.now) for tile in self._all)


def _earliest(work: tuple[int, TileRegisters]) -> int:
    return work[0]
