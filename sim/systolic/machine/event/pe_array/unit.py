"""Twin of `register.pe_array.unit`: two events for a load or a multiply of any size.

The history of the grid is its injection schedule; results reach PSUM at fixed distances behind it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from systolic.hw.datatypes import data_type
from systolic.isa import (
    Access,
    Instruction,
    LoadWeights,
    MatMul,
    MatMulDoubleRow,
    MatMulMx,
    PassThrough,
)
from systolic.isa.array_tile import ArrayTile
from systolic.isa.effects import scales_of
from systolic.machine.array_shape import placed
from systolic.machine.event.pe_array.last_on_tile import (
    LastOnTile,
    MultiplyPlan,
    StreamedMultiply,
)
from systolic.machine.event.pe_array.operand import (
    ArrayOperand,
    planes_of,
    read_operand,
    rows_apart,
)
from systolic.machine.event.pe_array.pass_through import passed_through, words_of
from systolic.machine.event.pe_array.row_order import row_order_product
from systolic.machine.event.pe_array.warm_up import WarmUp
from systolic.machine.event.ports.hold import Hold
from systolic.machine.event.ports.ports import (
    Need,
    Needs,
    Port,
    Stretch,
    Timeline,
    group_stretches,
    in_bank,
    merge,
    needs,
    steady,
    with_scales,
)
from systolic.machine.event.ports.stream import Stream
from systolic.machine.event.semaphores import PostTicks
from systolic.machine.event.unit import Context, Unit
from systolic.spans import Interval
from systolic.trace.grid import LoadPass, MatMulPass
from systolic.trace.records import InstructionTimes
from systolic.trace.words import Words

PLANS_KEPT = 1024
_Plan = TypeVar("_Plan")


class PEArrayUnit(Unit):
    """Loads weights and streams vectors, as early as ports, weights and the queue allow."""

    def __init__(self, context: Context, queue: Sequence[int]) -> None:
        spec = context.chip.pe_array
        super().__init__(context, "pe_array", "pe_array", queue, spec)
        self._spec = spec
        self._port_bytes = context.chip.port_width_bytes
        self._bank_bytes = context.chip.state_buffer.bank_bytes
        self._result_bank_bytes = context.chip.result_buffer.bank_bytes
        self._interval_ticks = spec.min_interval_cycles * self.period
        down = spec.hop[0] * (spec.rows // spec.cell[0])
        latency = context.chip.result_buffer.write_latency_cycles
        self._depth = spec.entry_cycles + down - 1 + latency
        self._whole = ArrayTile(0, 0, spec.rows, spec.cols)
        self._has_tiles = bool(spec.tile_sizes)
        self._tiles: dict[ArrayTile, LastOnTile] = {}
        self._multiply_start = 0
        self._warm_up = WarmUp(spec.warm_up_cycles)
        rank = context.chip.port_priority.index
        self._ranks = {"moving": rank("moving"), "weights": rank("weights")}
        self._load_timelines: dict[Hashable, Timeline] = {}
        self._multiply_plans: dict[Hashable, MultiplyPlan] = {}

    def _right(self, column: int) -> int:
        return self._spec.hop[1] * (column // self._spec.cell[1])

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
        is_below = tile.columns.meets(columns)
        return is_below and self._bank(before.multiply) == self._bank(multiply)

    def _bank(self, multiply: MatMul) -> int:
        return multiply.result.span.first // self._result_bank_bytes

    def _load_after_multiply(self, tile: ArrayTile, multiply: StreamedMultiply) -> int:
        if self._spec.weight_buffer == "double":
            return multiply.stream.tick_of(0)
        if self._spec.weight_buffer == "single":
            return multiply.last
        return multiply.last + self._drained(tile) * self.period

    def _drained(self, tile: ArrayTile) -> int:
        """Return the cycles from an injection until it has left the PEs of a tile."""
        down = self._spec.hop[0] * ((tile.row + tile.rows) // self._spec.cell[0])
        return self._spec.entry_cycles + down + self._right(tile.columns.stop - 1)

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
        stream = self._stream(index, "weights", self._load_timeline(load))
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

    def _load_timeline(self, load: LoadWeights) -> Timeline:
        """Return what a load needs: as one before that was alike."""
        weights = in_bank(load.weights, self._bank_bytes)
        key = type(load), weights, self._scales(load)
        found = self._load_timelines.get(key)
        if found is None:
            found = _keep(self._load_timelines, key, self._make_load_timeline(load))
        return found

    def _scales(self, instruction: Instruction) -> Hashable:
        """Return the access to the scales of an instruction by its bank, if it has some."""
        scales = scales_of(instruction)
        return None if scales is None else in_bank(scales, self._bank_bytes)

    def _make_load_timeline(self, load: LoadWeights) -> Timeline:
        bank_bytes, weights = self._bank_bytes, load.weights
        parts = self._parts(load)
        groups = weights.partitions if self._spec.weight_path == "top" else 1
        reads = -(-groups // self._spec.fast_load) * parts
        bank = weights.bank(bank_bytes)
        is_parted = self.chip.state_buffer.is_split or bool(self._spec.tile_sizes)
        if self._spec.weight_path == "top" and is_parted:
            return self._row_timeline(weights, parts)
        scales = scales_of(load)
        if bank is not None and scales is None:
            return steady(needs(weights, (bank,), "read"), reads)
        together = self._columns_per_read(load)
        of_weights = group_stretches(weights, together * load.elements_per_pe, bank_bytes, "read")
        if scales is None:
            return Timeline(of_weights, reads)
        of_scales = group_stretches(scales, together, bank_bytes, "read")
        return Timeline(with_scales(of_weights, of_scales, reads), reads)

    def _columns_per_read(self, load: LoadWeights) -> int:
        """Return the columns that a read brings: of all rows from the left, of f from the top."""
        fitting = self._port_bytes // (load.weights.element_bytes * load.elements_per_pe)
        most = self._spec.fast_load if self._spec.weight_path == "left" else load.columns
        return min(most, fitting)

    def _parts(self, load: LoadWeights) -> int:
        """Return the reads that bring a row whole."""
        return -(-load.columns // self._columns_per_read(load))

    def _row_timeline(self, weights: Access, parts: int) -> Timeline:
        """Return what a load on the top path needs where partitions keep reads apart."""
        fast, stop = self._spec.fast_load, weights.partition + weights.partitions
        bank = weights.span.first // self._bank_bytes  # legality: there is but one
        port = Port(weights.buffer.value, bank, "read")
        firsts = range(weights.partition, stop, fast)
        rows = [(Need(port, first, min(first + fast, stop)),) for first in firsts]
        stretches = [Stretch(n * parts, (n + 1) * parts, each) for n, each in enumerate(rows)]
        return Timeline(stretches, len(rows) * parts)

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
            nothing = np.zeros((0, 0), np.float32)
            columns, cycles = self._columns_per_read(load), stream.ticks() // self.period
            held, *further = planes_of(weights.values if weights else nothing, load.rows_per_pe)
            one = LoadPass(index, cycles, held, columns, placed(load), further=tuple(further))
            recorder.loads.append(one)
        if recorder.wants("load") and weights is not None:
            self._record_load(index, load, stream.ticks(), weights)

    def _record_load(
        self,
        index: int,
        load: LoadWeights,
        ticks: npt.NDArray[np.int64],
        weights: ArrayOperand,
    ) -> None:
        K, elements = weights.elements.shape
        together = self._columns_per_read(load)
        number = np.arange(elements)[None, :] // load.elements_per_pe // together
        if self._spec.weight_path == "top":
            row = np.arange(K)[:, None] // self._spec.fast_load
            number = row * self._parts(load) + number
        self._record("load", index, load.weights, ticks[number], weights.elements)
        for part, scales in weights.scales:
            self._record("load", index, part, ticks[np.arange(load.columns) // together], scales)

    def _record(
        self, kind: str, index: int, access: Access, ticks: npt.NDArray[np.int64], values: Any
    ) -> None:
        """Record the words of an access, [partitions, elements]; ticks broadcast to that shape."""
        shape = values.shape
        partitions = access.partition + np.arange(shape[0])[:, None]
        self.context.recorder.words(
            kind,
            self.name,
            index,
            Words(
                ticks=np.broadcast_to(ticks, shape).ravel(),
                partitions=np.broadcast_to(partitions, shape).ravel(),
                addresses=np.broadcast_to(access.offsets(), shape).ravel(),
                dtype=access.dtype,
                values=values.ravel(),
            ),
        )

    # Multiplies

    def _start_multiply(self, index: int, multiply: MatMul) -> None:
        plan = self._multiply_plan(multiply)
        slower = self._slower()
        spacing, start = slower * plan.spacing, self.env.tick
        stream = self._stream(index, "moving", plan.timeline, spacing)
        over = start + self._least_ticks(multiply, spacing * plan.passes)
        exchange = self._on_tile(multiply).begin_multiply(
            StreamedMultiply(multiply, stream, plan.timeline.slots, over)
        )
        values = self._multiply_values(multiply) if self.context.values else None
        hold = Hold(stream, plan.needs, plan.behind, plan.width, silent=plan.silent)
        self.context.arbiter.add(stream, hold=hold)

        sources = self.announce(
            multiply.posts, lambda on: self._visible(on, multiply, stream, plan.silent)
        )
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
        """Return the time from the start of a multiply to that of the next, at least."""
        if not self._spec.min_vectors:
            return self._interval_ticks
        vectors = min(self._spec.min_vectors, multiply.result.partitions)
        return max(self._interval_ticks, vectors * vector_cycles * self.period)

    def _spacing(self, multiply: MatMul) -> int:
        """Return the cycles from a vector to the next."""
        if isinstance(multiply, PassThrough):
            return self._spec.pass_through[multiply.moving.dtype]
        if isinstance(multiply, MatMulDoubleRow):
            return self._spec.double_row[multiply.moving.dtype]
        if isinstance(multiply, MatMulMx):
            return self._spec.mx[multiply.moving.dtype]
        return self._spec.cycles_per_vector[multiply.moving.dtype]

    def _passes(self, multiply: MatMul) -> int:
        """Return how often the vectors are streamed."""
        if isinstance(multiply, PassThrough | MatMulDoubleRow | MatMulMx):
            return 1
        return self._spec.passes.get(multiply.moving.dtype, 1)

    def _silent(self, multiply: MatMul) -> int:
        """Return how many injections leave no sums: those of all passes but the last."""
        passes = self._passes(multiply)
        return (passes - 1) * multiply.vectors if passes > 1 else 0

    def _visible(self, on: str, multiply: MatMul, stream: Stream, silent: int) -> PostTicks:
        """Return when others see that rows, partitions, or all of the result are complete."""
        written = multiply.result.lanes
        last = silent + multiply.vectors - 1
        columns = range(*written) if on == "partition" else (written.stop - 1,)
        behind = [(self._depth + self._right(c)) * self.period + self.post_delay for c in columns]
        if on == "row":
            return lambda: (stream.ticks()[silent:] + behind[0]).tolist()
        if on == "partition":
            return lambda: [stream.tick_of(last) + ticks for ticks in behind]
        return lambda: (stream.tick_of(last) + behind[0],)

    def _multiply_plan(self, multiply: MatMul) -> MultiplyPlan:
        """Return what a multiply asks of the ports: as one before that was alike."""
        moving = in_bank(multiply.moving, self._bank_bytes)
        result = in_bank(multiply.result, self._result_bank_bytes)
        key = type(multiply), moving, result, self._scales(multiply), multiply.accumulate
        found = self._multiply_plans.get(key)
        if found is None:
            found = _keep(self._multiply_plans, key, self._make_multiply_plan(multiply))
        return found

    def _make_multiply_plan(self, multiply: MatMul) -> MultiplyPlan:
        written = multiply.result.lanes
        first = self._right(written.first)
        width = self._right(written.stop - 1) + 1 - first
        depth = self._depth + first
        behind, width = (depth, width) if depth else (1, width - 1)
        return MultiplyPlan(
            timeline=self._multiply_timeline(multiply),
            spacing=self._spacing(multiply),
            passes=self._passes(multiply),
            silent=self._silent(multiply),
            needs=self._result_needs(multiply),
            behind=behind,
            width=width,
        )

    def _multiply_timeline(self, multiply: MatMul) -> Timeline:
        bank_bytes, moving = self._bank_bytes, multiply.moving
        silent = self._silent(multiply)
        injections = silent + multiply.vectors
        bank = moving.bank(bank_bytes)
        depth, scales = self._depth + self._right(multiply.result.partition), scales_of(multiply)
        if depth and bank is not None and scales is None:
            return steady(needs(moving, (bank,), "read"), injections)
        together = multiply.elements_per_pe
        reads = [
            stretch
            for first in range(0, injections, multiply.vectors)
            for stretch in group_stretches(moving, together, bank_bytes, "read", first)
        ]
        if scales is not None:
            of_scales = group_stretches(scales, 1, bank_bytes, "read")
            reads = with_scales(reads, of_scales, injections)
        if depth:
            return Timeline(reads, injections)
        result = [Stretch(silent, injections, self._result_needs(multiply))]
        return merge(reads, result, injections)

    def _result_needs(self, multiply: MatMul) -> Needs:
        bank = self._bank(multiply)
        want = needs(multiply.result, (bank,), "write")
        return needs(multiply.result, (bank,), "read") + want if multiply.accumulate else want

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
        entered = (stream.tick_of(silent) if silent else first) + self._depth * period
        first_write = entered + self._right(written.first) * period
        done = last + (self._depth + self._right(written.stop - 1)) * period
        for run in stream.progress:
            self.claim("streaming", run.tick, run.tick + run.slots * period)
        self.claim_filling(first, first_write, stream, stream.slots)
        self.claim("draining", first_write, done + period)
        self.settle(sources)
        self.finish(InstructionTimes(index, self.name, start, first, last, done), stream)
        recorder = self.context.recorder
        if recorder.keep_grid:
            self._record_passes(index, multiply, stream.ticks() // period, values, exchange)
        if values and recorder.kinds:
            self._record_multiply(index, multiply, stream.ticks(), *values)

    def _record_passes(
        self,
        index: int,
        multiply: MatMul,
        e: npt.NDArray[np.int64],
        values: tuple[ArrayOperand, npt.NDArray[Any]] | None,
        exchange: bool,
    ) -> None:
        """Note the injections of all passes."""
        silent, N = self._silent(multiply), multiply.result.partitions
        nothing = np.zeros((0, (len(e) - silent)), np.float32)
        operand, rows = (values[0].values, multiply.rows_per_pe) if values else (nothing, 1)
        first, *further = planes_of(operand, rows)
        through = isinstance(multiply, PassThrough)
        one = MatMulPass(
            index,
            e[silent:],
            first.T,
            N,
            exchange,
            silent=e[:silent],
            is_pass_through=through,
            place=placed(multiply),
            further=tuple(plane.T for plane in further),
        )
        self.context.recorder.matmuls.append(one)

    def _record_multiply(
        self,
        index: int,
        multiply: MatMul,
        e: npt.NDArray[np.int64],
        moving: ArrayOperand,
        sums: npt.NDArray[Any],
    ) -> None:
        recorder, vectors = self.context.recorder, multiply.vectors
        if recorder.wants("inject"):
            for first in range(0, len(e), vectors):
                part = e[first : first + vectors]
                each = np.repeat(part, multiply.elements_per_pe)
                self._record("inject", index, multiply.moving, each, moving.elements)
                for scales, read in moving.scales:
                    self._record("inject", index, scales, part, read)
        e = e[-vectors:]
        if recorder.wants("psum_write"):
            right = np.array([self._right(c) for c in range(*multiply.result.lanes)])
            ticks = e[None, :] + (self._depth + right[:, None]) * self.period
            self._record("psum_write", index, multiply.result, ticks, sums)

    def _stream(self, index: int, client: str, timeline: Timeline, spacing: int = 1) -> Stream:
        return Stream(
            self.env,
            unit=self.name,
            client=client,
            instruction=index,
            rank=(self._ranks[client], index),
            period=self.period,
            timeline=timeline,
            spacing=spacing,
        )


def _keep(plans: dict[Hashable, _Plan], key: Hashable, plan: _Plan) -> _Plan:
    """Keep a plan, and forget the oldest if there are many."""
    plans[key] = plan
    if len(plans) > PLANS_KEPT:
        del plans[next(iter(plans))]
    return plan
