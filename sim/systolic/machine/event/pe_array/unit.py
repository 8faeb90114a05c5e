"""Twin of `register.pe_array.unit`: two events for a load or a multiply of any size.

The history of the grid is its injection schedule; results reach PSUM at fixed distances behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Instruction, LoadWeights, MatMul, PassThrough
from systolic.isa.array_tile import ArrayTile
from systolic.machine.event.pe_array.last_on_tile import LastOnTile, StreamedMultiply
from systolic.machine.event.pe_array.operand import ArrayOperand, read_operand, rows_apart
from systolic.machine.event.pe_array.pass_through import passed_through, words_of
from systolic.machine.event.pe_array.plans import ArrayPlans
from systolic.machine.event.pe_array.records import ArrayRecords
from systolic.machine.event.pe_array.row_order import row_order_product
from systolic.machine.event.pe_array.warm_up import WarmUp
from systolic.machine.event.ports.hold import Hold
from systolic.machine.event.ports.ports import Timeline
from systolic.machine.event.ports.stream import Asker, Stream
from systolic.machine.event.semaphores import PostTicks
from systolic.machine.event.unit import Context, CoreOfSeveral, Process, Unit
from systolic.spans import Interval
from systolic.trace.records import InstructionTimes


class PEArrayUnit(Unit):
    """Loads weights and streams vectors, as early as ports, weights and the queue allow."""

    def __init__(self, context: Context, queue: Sequence[int]) -> None:
        spec = context.chip.pe_array
        super().__init__(context, "pe_array", "pe_array", queue, spec)
        self._spec = spec
        self._plans = self._plans_for(context.chip)
        self._records = ArrayRecords(context.recorder, self._plans, self.name, self.period)
        self._interval_ticks = spec.min_interval_cycles * self.period
        self._whole = ArrayTile(0, 0, spec.rows, spec.cols)
        self._has_tiles = bool(spec.tile_sizes)
        self._tiles: dict[ArrayTile, LastOnTile] = {}
        self._multiply_start = 0
        self._warm_up = WarmUp(spec.warm_up_cycles)
        self._ranks = {"moving": context.rank("moving"), "weights": context.rank("weights")}

    def _plans_for(self, chip: Chip) -> ArrayPlans:
        """Return what its loads and multiplies ask of the ports."""
        return ArrayPlans(chip)

    def _tile(self, instruction: LoadWeights | MatMul) -> ArrayTile:
        return (instruction.tile or self._whole) if self._has_tiles else self._whole

    def _on_tile(self, instruction: LoadWeights | MatMul) -> LastOnTile:
        """Return what the tile of an instruction has done, to be changed as it starts."""
        tile = self._tile(instruction)
        found = self._tiles.get(tile)
        if found is None:
            found = self._tiles[tile] = LastOnTile()
        return found

    def earliest(self, instruction: Instruction) -> int:
        """Return the first tick the rules of the weight buffer allow, as now known.

        They hold between instructions whose tiles meet.
        """
        assert isinstance(instruction, (LoadWeights, MatMul))  # a union is made at every call
        tile, is_load = self._tile(instruction), isinstance(instruction, LoadWeights)
        tick = self.after_multiplies(instruction) if isinstance(instruction, MatMul) else 0
        for other, last in self._tiles.items():
            if not (other is tile or other.meets(tile)):
                continue
            if last.load is not None:
                free = last.load.tick_of(last.load.timeline.slots - 1) + self.period
                if free > tick:
                    tick = free
            if is_load and last.multiply is not None:
                tick = max(tick, self._load_after_multiply(other, last.multiply))
        return tick

    def after_multiplies(self, multiply: MatMul) -> int:
        """Return the first tick at which the multiplies before let this one start, as now known.

        It follows those whose tiles have a PE of its own, and those that write to its bank of its
        columns; beside all others it may start at once.
        """
        tile, tick = self._tile(multiply), 0
        for other, last in self._tiles.items():
            before = last.multiply
            if before is None:
                continue
            if other is tile or other.meets(tile) or self._share_bank(other, before, multiply):
                spacing = before.stream.spacing * self.period
                tick = max(tick, before.last + spacing, before.over)
        return tick

    def _share_bank(self, tile: ArrayTile, before: StreamedMultiply, multiply: MatMul) -> bool:
        """Return whether two multiplies have a column, and a bank of results, in common."""
        columns = self._tile(multiply).columns
        bank_of = self._plans.result_bank
        return tile.columns.meets(columns) and bank_of(before.multiply) == bank_of(multiply)

    def _load_after_multiply(self, tile: ArrayTile, multiply: StreamedMultiply) -> int:
        if self._spec.weight_buffer == "double":
            return multiply.stream.tick_of(0)
        if self._spec.weight_buffer == "single":
            return multiply.last
        return multiply.last + self._drained(tile) * self.period

    def _drained(self, tile: ArrayTile) -> int:
        """Return the cycles from an injection until it has left the PEs of a tile."""
        down = self._spec.hop[0] * ((tile.row + tile.rows) // self._spec.cell[0])
        return self._spec.entry_cycles + down + self._plans.right(tile.columns.stop - 1)

    def release(self, instruction: Instruction) -> Sequence[tuple[Stream, int]]:
        """Return the injections in whose cycle a load may already start."""
        if isinstance(instruction, MatMul) or self._spec.weight_buffer == "serial":
            return ()
        assert isinstance(instruction, LoadWeights)
        tile, is_double = self._tile(instruction), self._spec.weight_buffer == "double"
        return [
            (multiply.stream, 0 if is_double else multiply.injections - 1)
            for other, last in self._tiles.items()
            if (multiply := last.multiply) is not None and other.meets(tile)
        ]

    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin a load or a multiply in the present tick."""
        if isinstance(instruction, LoadWeights):
            self._start_load(index, instruction, asks_last)
        else:
            assert isinstance(instruction, MatMul)
            self._start_multiply(index, instruction)

    # Loads

    def _start_load(self, index: int, load: LoadWeights, asks_last: bool) -> None:
        stream = self._stream(index, "weights", self._plans.of_load(load))
        read = read_operand(self.context.memory, load) if self.context.values else None
        held = None if read is None else np.asfortranarray(read.values)
        self._on_tile(load).begin_load(stream, held)
        self.context.arbiter.add(stream, asks_last=asks_last)
        last = stream.timeline.slots - 1
        delay = self.post_delay
        sources = self.announce(load.posts, lambda _: lambda: (stream.tick_of(last) + delay,))
        start = self.env.tick
        stream.then(
            lambda: self._finish_load(index, load, stream, start, weights=read, sources=sources)
        )

    def _finish_load(
        self,
        index: int,
        load: LoadWeights,
        stream: Stream,
        start: int,
        *,
        weights: ArrayOperand | None,
        sources: Any,
    ) -> None:
        for run in stream.progress:
            self.claim("loading", run.tick, run.tick + run.slots * self.period)
        self.settle(sources)
        first, last = stream.tick_of(0), stream.tick_of(stream.timeline.slots - 1)
        self.finish(InstructionTimes(index, self.name, start, first, last, last), stream)
        recorder = self.context.recorder
        if recorder.keep_grid:
            self._records.load_pass(index, load, stream.ticks(), weights)
        if recorder.wants("load") and weights is not None:
            self._records.load_words(index, load, stream.ticks(), weights)

    # Multiplies

    def _start_multiply(self, index: int, multiply: MatMul) -> None:
        plan = self._plans.of_multiply(multiply)
        slower = self._slower()
        spacing, start = slower * plan.spacing, self.env.tick
        stream = self._stream(index, "moving", plan.timeline, spacing)
        over = start + self._least_ticks(multiply, spacing * plan.passes)
        exchange = self._on_tile(multiply).begin_multiply(
            StreamedMultiply(multiply, stream, plan.timeline.slots, over)
        )
        values = self._multiply_values(multiply) if self.context.values else None
        needs = self.context.needs(plan.needs)
        hold = Hold(stream, needs, plan.behind, plan.width, silent=plan.silent)
        self.context.arbiter.add(stream, hold=hold)

        sources = self.announce(
            multiply.posts, lambda on: self._visible(on, multiply, stream, plan.silent)
        )
        shared = self.context.shared
        if shared is not None and shared.ends_matter:
            self.env.process(self._tell_end(shared, index, multiply, stream, plan.silent))
        stream.then(
            lambda: self._finish_multiply(
                index,
                multiply,
                stream,
                start,
                values=values,
                sources=sources,
                exchange=exchange,
                hold=hold,
                silent=plan.silent,
            )
        )

    def _tell_end(
        self, shared: CoreOfSeveral, index: int, multiply: MatMul, stream: Stream, silent: int
    ) -> Process:
        """Say when a multiply is done: its stream has cycles behind its last vector, too."""
        last = silent + multiply.vectors - 1
        behind = (self._plans.behind(multiply.result.lanes.stop - 1) + 1) * self.period
        while (end := stream.tick_of(last) + behind) > self.env.tick:
            yield simpy.Timeout(self.env, end - self.env.tick)
        shared.end(index, end)

    def _slower(self) -> int:
        """Return how many times as long a vector takes in a multiply that starts now."""
        if not self._spec.warm_up_cycles:
            return 1
        now = self.env.tick // self.period
        before = [last.multiply for last in self._tiles.values() if last.multiply is not None]
        stops = [m.last // self.period + m.stream.spacing for m in before]
        if stops:  # of those side by side at least one is at work from the start before until then
            self._warm_up.note(Interval(self._multiply_start, min(max(stops), now)))
        self._multiply_start = now
        is_cold = self._warm_up.is_cold(now)
        return self._spec.warm_up_factor if is_cold else 1

    def _least_ticks(self, multiply: MatMul, vector_cycles: int) -> int:
        """Return the least time from the start of a multiply to the next one's."""
        if not self._spec.min_vectors:
            return self._interval_ticks
        vectors = min(self._spec.min_vectors, multiply.result.partitions)
        return max(self._interval_ticks, vectors * vector_cycles * self.period)

    def _visible(self, on: str, multiply: MatMul, stream: Stream, silent: int) -> PostTicks:
        """Return when others see that rows, partitions, or all of the result are complete."""
        written = multiply.result.lanes
        last = silent + multiply.vectors - 1
        columns = range(*written) if on == "partition" else (written.stop - 1,)
        behind = [self._plans.behind(c) * self.period + self.post_delay for c in columns]
        if on == "row":
            return lambda: (stream.ticks()[silent:] + behind[0]).tolist()
        if on == "partition":
            return lambda: [stream.tick_of(last) + ticks for ticks in behind]
        return lambda: (stream.tick_of(last) + behind[0],)

    def _multiply_values(self, multiply: MatMul) -> tuple[ArrayOperand, npt.NDArray[Any]]:
        """Do the arithmetic and store it; race-free programs cannot tell when."""
        memory = self.context.memory
        read = read_operand(memory, multiply)
        moving = read.values
        loaded = self._on_tile(multiply).weights
        assert loaded is not None
        used = multiply.result.partitions * multiply.rows_per_pe
        weights = loaded[: moving.shape[0], :used]
        if isinstance(multiply, PassThrough):
            found = passed_through(moving, weights)
            memory.write(replace(multiply.result, dtype="s32"), words_of(found))
            return read, found
        accumulator = data_type(multiply.moving.dtype).accumulator
        sums = row_order_product(
            rows_apart(moving, multiply.rows_per_pe),
            rows_apart(weights, multiply.rows_per_pe),
            accumulator,
            fused=self._spec.fused_multiply_add,
            form=self.context.product_form,
        )
        if multiply.accumulate:
            with np.errstate(all="ignore"):
                sums = memory.read(multiply.result) + sums
        if accumulator == "f32" and (unlike := np.isnan(sums)).any():
            sums[unlike] = np.float32(np.nan)
        memory.write(multiply.result, sums)
        return read, sums

    def _finish_multiply(
        self,
        index: int,
        multiply: MatMul,
        stream: Stream,
        start: int,
        *,
        values: tuple[ArrayOperand, npt.NDArray[Any]] | None,
        sources: Any,
        exchange: bool,
        hold: Hold,
        silent: int,
    ) -> None:
        for uses in hold.uses():
            for need in hold.needs:
                self.context.use_port(need, uses)
        period, written = self.period, multiply.result.lanes
        first, last = stream.tick_of(0), stream.tick_of(silent + multiply.vectors - 1)
        first_sum = stream.tick_of(silent) if silent else first
        first_write = first_sum + self._plans.behind(written.first) * period
        done = last + self._plans.behind(written.stop - 1) * period
        for run in stream.progress:
            self.claim("streaming", run.tick, run.tick + run.slots * period)
        self.claim_filling(first, first_write, stream, stream.slots)
        self.claim("draining", first_write, done + period)
        self.settle(sources)
        self.finish(InstructionTimes(index, self.name, start, first, last, done), stream)
        recorder = self.context.recorder
        if recorder.keep_grid:
            moving = values[0] if values else None
            self._records.multiply_passes(
                index, multiply, stream.ticks(), moving, silent=silent, exchange=exchange
            )
        if values and recorder.kinds:
            self._records.multiply_words(index, multiply, stream.ticks(), *values)

    def _stream(self, index: int, client: str, timeline: Timeline, spacing: int = 1) -> Stream:
        asker = Asker(self.name, client, index, (self._ranks[client], index), self.period)
        return self.stream(asker, timeline, spacing)
