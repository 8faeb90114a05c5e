"""A tile of the array, or all of it: its registers, what it has in hand, and whom it holds back.

Tiles have weights, moving and sum registers of their own. When an instruction may start is decided
from their states in `register.pe_array.unit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from systolic.isa import LoadWeights, MatMul, PassThrough, Program
from systolic.isa.array_tile import ArrayTile
from systolic.machine.register.context import Context
from systolic.machine.register.pe_array.grid import Grid
from systolic.machine.register.pe_array.jobs import LoadJob, MatMulJob
from systolic.machine.register.pe_array.notes import Notes
from systolic.machine.register.pe_array.results import Results


class Verdict(Enum):
    """Whether the head may start: no, yes, or if the multiply before it injects in this cycle."""

    NO = 0
    YES = 1
    LAST = 2


class TileRegisters:
    """At most one load reads and one multiply injects at a time. Cycles are the array's.

    gate: the last multiply; loaded: the cycle of the first read of the last load, -1 without one.
    """

    def __init__(
        self, context: Context, tile: ArrayTile, *, is_mixed: bool, is_noted: bool, period: int
    ) -> None:
        chip, program = context.chip, context.program
        self.tile = tile
        self.grid = Grid(
            chip,
            tile,
            is_mixed,
            program.products(),
            has_pass_through=any(isinstance(each, PassThrough) for each in program.instructions),
            rows_per_pe=_rows_per_pe(program),
        )
        self.results = Results(context, self.grid, period, tile.col)
        self.notes = Notes(context.recorder, period) if is_noted else None
        self.load: LoadJob | None = None
        self.multiply: MatMulJob | None = None
        self.gate: MatMulJob | None = None
        self.loaded = -1
        self._buffer = chip.pe_array.weight_buffer
        self._next_multiply = self._interval_over = 0
        self._is_reloaded = False

    @property
    def is_still(self) -> bool:
        """Return whether nothing reads or injects, and no sum is on its way."""
        return self.load is None and self.multiply is None and not self.results.jobs

    def is_resting(self, cycle: int) -> bool:
        """Return whether no register will change."""
        return self.is_still and cycle >= self.grid.quiet and self.grid.weights.are_still

    def is_over(self, cycle: int) -> bool:
        """Return whether a multiply may follow the last one in this cycle."""
        return self.multiply is None and cycle >= max(self._next_multiply, self._interval_over)

    def load_verdict(self, cycle: int) -> Verdict:
        """Return whether weights may follow the last multiply in this cycle."""
        gate = self.gate
        if gate is None:
            return Verdict.YES
        if self._buffer == "serial":
            stages = self.grid.stages
            last = gate.arrivals[-1] - stages.to_result if gate.is_injected else cycle
            return Verdict.YES if cycle >= last + stages.drained else Verdict.NO
        needed = 1 if self._buffer == "double" else gate.injections
        if gate.sent >= needed:
            return Verdict.YES
        return Verdict.LAST if gate.sent + 1 == needed and cycle >= gate.due else Verdict.NO

    def take_exchange(self) -> bool:
        """Return whether a multiply that is made now is the first since a load."""
        is_first, self._is_reloaded = self._is_reloaded, False
        return is_first

    def begin_load(self, job: LoadJob) -> None:
        """A load begins to read."""
        self.load, self._is_reloaded = job, True

    def note_read(self, job: LoadJob, cycle: int) -> None:
        """Weights are read."""
        if job.sent == 0:
            self.loaded = cycle

    def end_load(self) -> None:
        """All weights have been read."""
        self.load = None

    def begin_multiply(self, job: MatMulJob, cycle: int) -> None:
        """A multiply begins to inject, at the pace that it has now."""
        self.multiply = self.gate = job
        self._interval_over = cycle + job.least_cycles
        self.results.jobs.append(job)

    def end_multiply(self, job: MatMulJob) -> None:
        """All vectors have been injected."""
        self.multiply = None
        self._next_multiply = job.due


def _rows_per_pe(program: Program) -> int:
    """Return how many rows of the contraction a PE has at most."""
    loads = (each for each in program.instructions if isinstance(each, LoadWeights))
    return max((load.rows_per_pe for load in loads), default=1)


def tiles_of(instructions: Sequence[LoadWeights | MatMul], whole: ArrayTile) -> list[ArrayTile]:
    """Return the tiles that instructions of the array have, each once; all of it without any."""
    return sorted({each.tile or whole for each in instructions}) or [whole]
