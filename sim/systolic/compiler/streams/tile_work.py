"""What engines do with a tile: the steps of its kernels, fills, and reductions level by level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count as natural_numbers
from typing import NamedTuple

from systolic.compiler.cost.engines import some_engine_does
from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.lane_step import COPY, LaneStep, select, with_each, with_lane
from systolic.compiler.ir.masks import SelectAccesses, mask_steps
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.streams.lying import ColumnOrder, Lying, pattern_access, shared
from systolic.compiler.streams.reductions import ReducedPairs, levels, segments
from systolic.compiler.streams.stage import Stage, TileBuffer
from systolic.compiler.streams.tiling import TileShape, pairs_of
from systolic.compiler.streams.work import FramePart, KernelStep
from systolic.errors import CompileError
from systolic.hw.datatypes import SIZE_BYTES, data_type
from systolic.isa import (
    Activate,
    Buffer,
    Memset,
    Pool,
    Requantise,
    TensorScalar,
    TensorTensor,
)

BufferKey = tuple[str, int, int]
"""A buffer of a tile: its use, then the number of its side, or of its part and of its step."""
OUT: BufferKey = ("out", 0, 0)
INTEGERS = ("s8", "u8", "s32")


def input_key(side: int) -> BufferKey:
    """Return the buffer of an operand."""
    return ("in", side, 0)


class HeldColumns(NamedTuple):
    """Columns, and the region that they lie in."""

    lying: Lying
    region: Region


def buffer_sizes(shape: TileShape, segment: int) -> Iterator[tuple[BufferKey, int]]:
    """Yield the buffers that a tile of a shape needs, with their bytes in each partition.

    segment: the most elements that an engine reduces at once.
    """
    frame = shape.frame
    for number, part in enumerate(frame.parts):
        for side in part.kernel.inputs:
            yield input_key(side), shape.held(part, side).elements * _size(shape, side)
        kept, whole = (math.prod(n for _, n in order) for order in _orders(shape, part))
        inputs, keys = len(part.kernel.inputs), result_keys(part, number)
        types = [frame.sides[side].dtype for side in part.kernel.inputs]
        for at, step in enumerate(part.kernel.steps):
            elements = kept if part.kept()[inputs + at] else whole
            if at < len(part.kernel.steps) - 1:
                yield keys[at], elements * SIZE_BYTES[step.dtype]
            if step.lane.cls is Requantise:
                yield ("scaled", number, at), elements * SIZE_BYTES["f32"]
            if step.lane.cls is Pool:
                yield from _reduced_sizes(shape, number, types[step.operands[0]], segment)
            types.append(step.dtype)
    if not shape.passes:
        yield OUT, shape.held(None, 0).elements * _size(shape, 0)


def result_keys(part: FramePart, number: int) -> list[BufferKey]:
    """Return the buffer of each step's result: the first whose results are of no use any more.

    Results that have lost the inner modes are small, and have buffers of their own.
    """
    inputs, kept = len(part.kernel.inputs), part.kept()
    last_use = {n: at for at, each in enumerate(part.kernel.steps) for n in each.operands}
    used: dict[BufferKey, int] = {}
    found: list[BufferKey] = []
    for at in range(len(part.kernel.steps)):
        use = "kept" if kept[inputs + at] else "step"
        keys = ((use, n, number) for n in natural_numbers())
        key = next(key for key in keys if used.get(key, -1) < at)
        used[key] = last_use.get(inputs + at, at)
        found.append(key)
    return found


def _orders(shape: TileShape, part: FramePart) -> tuple[ColumnOrder, ColumnOrder]:
    """Return the columns that are kept when inner modes are reduced, and all columns."""
    return shape.kept_and_reduced(part)[0], shape.order(part)


def _reduced_sizes(
    shape: TileShape, number: int, dtype: str, segment: int
) -> Iterator[tuple[BufferKey, int]]:
    """Yield the buffers of a reduction that takes more than one level."""
    kept, reduced = shape.kept_and_reduced(shape.frame.parts[number])
    count, results = (math.prod(n for _, n in order) for order in (reduced, kept))
    if count > segment:
        yield ("compact", number, 0), results * count * SIZE_BYTES[dtype]
        for level, left in enumerate(segments(count, segment)):
            yield ("level", number, level), results * left * SIZE_BYTES["f32"]


def _size(shape: TileShape, side: int) -> int:
    return SIZE_BYTES[shape.frame.sides[side].dtype]


def load_table(stage: Stage, step: KernelStep, buffer: TileBuffer) -> None:
    """Run a function that needs a table on one element, before there are any to run it on."""
    tables = (table for engine in stage.chip.lane_engines.values() for table in engine.tables)
    function = str(step.lane.settings.get("function"))
    known = step.lane.cls is not Activate or function in stage.tables
    if known or not any(function in table for table in tables):
        return
    stage.tables.add(function)
    one = Lying(step.dtype, buffer.first, 1, (), 1).one()
    try:
        stage.on_engine(step.layer, _memset(0), {"target": one}, [], buffer.region)
    except CompileError:
        return  # no engine writes a first element
    named = {step.lane.first: one, "target": one}
    stage.on_engine(step.layer, step.lane, named, [buffer.region], buffer.region)
    buffer.region.end_phase()


@dataclass(frozen=True, slots=True)
class TileWork:
    """The work of engines on the tile that lies in some buffers.

    shares: among how many engines the columns of each step are shared.
    """

    stage: Stage
    shape: TileShape
    buffers: Mapping[BufferKey, TileBuffer]
    shares: int
    layer: str

    def fill(self, part: FramePart) -> None:
        """Write one value to all elements of a part."""
        value = part.kernel.fill
        assert value is not None
        target = self._out(part)
        if target.lying.dtype in INTEGERS:
            value = int(value)
        self._elements(self.layer, _memset(value), [], target, self.shape.order(part))

    def steps(self, number: int) -> Iterator[None]:
        """Do the steps of a part, by its number, one by one; without any it is copied."""
        part = self.shape.frame.parts[number]
        steps = part.kernel.steps or (
            KernelStep(COPY, (0,), self._out(part).lying.dtype, self.layer),
        )
        orders = _orders(self.shape, part)
        kept, keys = part.kept(), result_keys(part, number)
        operands = [self._input(part, side) for side in part.kernel.inputs]
        for at, step in enumerate(steps):
            taken = [operands[n] for n in step.operands]
            order = orders[0] if kept[len(operands) : len(operands) + 1] == [True] else orders[1]
            last = at == len(steps) - 1
            target = self._out(part) if last else self._compact(part, keys[at], step.dtype, order)
            if step.lane.cls is Pool:
                self._reduce(step, number, taken[0], target)
            elif step.lane.cls is Requantise and taken[1].lying.elements > 1:
                scaled = self._compact(part, ("scaled", number, at), "f32", order)
                self._elements(step.layer, with_each("multiply"), taken, scaled, order)
                lane = step.lane.with_number("scale", 1.0)
                self._elements(step.layer, lane, [scaled], target, order)
            else:
                self._elements(step.layer, step.lane, taken, target, order)
            operands.append(target)
            yield

    # -- columns

    def _input(self, part: FramePart, side: int) -> HeldColumns:
        first, region = self.buffers[input_key(side)]
        steps, elements = self.shape.held(part, side)
        dtype = self.shape.frame.sides[side].dtype
        lying = Lying(dtype, first, self.shape.lanes, steps, elements)
        return HeldColumns(lying.moved(self.shape.first_held(part, side)), region)

    def _out(self, part: FramePart) -> HeldColumns:
        first, region = self.buffers[OUT]
        steps, elements = self.shape.held(None, 0)
        lying = Lying(self.shape.frame.sides[0].dtype, first, self.shape.lanes, steps, elements)
        return HeldColumns(lying.moved(self.shape.first_column(part)), region)

    def _compact(
        self, part: FramePart, key: BufferKey, dtype: str, order: ColumnOrder
    ) -> HeldColumns:
        """Return columns that follow one another in the order in which engines take them."""
        first, region = self.buffers[key]
        steps, size = [0] * len(self.shape.modes(part)), 1
        for number, count in reversed(order):
            steps[number] = size
            size *= count
        return HeldColumns(Lying(dtype, first, self.shape.lanes, tuple(steps), size), region)

    # -- instructions

    def _elements(
        self,
        layer: str,
        lane: LaneStep,
        taken: list[HeldColumns],
        target: HeldColumns,
        order: ColumnOrder,
    ) -> None:
        """Add the instruction of a step, or several where four pairs do not name its elements."""
        lane, taken = _by_lane(lane, taken)
        regions = [each.region for each in taken]
        fields = [lane.first, *lane.others][: len(taken)]
        masks = lane == select() and not some_engine_does(self.stage.chip, lane, Buffer.STATE)
        if lane.onto and not masks:  # it changes some of what its target has
            self._elements(layer, COPY, taken[:1], target, order)
            fields, taken, regions = list(lane.others), taken[1:], [*regions[1:], target.region]
        each = [h.lying for f, h in zip(fields, taken, strict=True) if not lane.per_lane(f)]
        for *read, written in shared([*each, target.lying], order, self.shares):
            accesses = iter(read)
            named = {
                name: held.lying.one() if lane.per_lane(name) else next(accesses)
                for name, held in zip(fields, taken, strict=True)
            }
            if masks:
                self._by_masks(layer, (*named.values(), written), [*regions, target.region])
                continue
            self.stage.on_engine(layer, lane, {**named, "target": written}, regions, target.region)

    def _by_masks(self, layer: str, operands: SelectAccesses, regions: list[Region]) -> None:
        """Add the instructions of a select by operations on bits."""
        for step, fields, read in mask_steps(operands):
            self.stage.on_engine(layer, step, fields, [regions[n] for n in read], regions[-1])

    def _reduce(
        self, step: KernelStep, number: int, source: HeldColumns, target: HeldColumns
    ) -> None:
        """Reduce the modes in which the result does not move, level by level."""
        part, most = self.shape.frame.parts[number], block_rows(self.stage.chip)
        kept, reduced = self.shape.kept_and_reduced(part)
        count = math.prod(n for _, n in reduced)
        pairs = list(pairs_of([(source.lying.steps[n], many) for n, many in reduced]))
        if count > most and len(pairs) > 1:
            whole = [*kept, *reduced]
            made = self._compact(part, ("compact", number, 0), source.lying.dtype, whole)
            self._elements(step.layer, COPY, [source], made, whole)
            source, pairs = made, [(1, count)]
        here, left = [source.lying.steps[n] for n, _ in kept], segments(count, most)
        there = [target.lying.steps[n] for n, _ in kept]
        counts = [n for _, n in kept]
        function, divides = str(step.lane.settings["function"]), False
        if len(left) > 1 and function == "mean":
            function, divides = "sum", True
        for level, many in enumerate(left):
            goal, steps = target, there
            if divides or level < len(left) - 1:
                goal = self._level(number, level, source.lying)
                steps = [many * math.prod(counts[at + 1 :]) for at in range(len(counts))]
            self._level_of(step.layer, function, (source, goal), (here, steps, counts), pairs)
            source, here, pairs = goal, steps, [(1, many)]
        if divides:
            lane = LaneStep(TensorScalar, {"op": "divide", "scalar": float(count)})
            named = {
                "source": pattern_access(source.lying, list(zip(here, counts, strict=True))),
                "target": pattern_access(target.lying, list(zip(there, counts, strict=True))),
            }
            self.stage.on_engine(step.layer, lane, named, [source.region], target.region)

    def _level(self, number: int, level: int, like: Lying) -> HeldColumns:
        """Return where the results of a level lie: one behind the other."""
        first, region = self.buffers["level", number, level]
        return HeldColumns(
            Lying(data_type(like.dtype).accumulator, first, like.lanes, (), 0), region
        )

    def _level_of(
        self,
        layer: str,
        function: str,
        ends: tuple[HeldColumns, HeldColumns],
        kept: tuple[list[int], list[int], list[int]],
        reduced: ReducedPairs,
    ) -> None:
        """Add the instructions of one level; kept: steps of the source, of the target, counts."""
        source, target = ends
        most = block_rows(self.stage.chip)
        modes = list(zip(*kept, strict=True))
        for each in levels(source.lying, target.lying, modes, reduced, most):
            lane = LaneStep(Pool, {"function": function, "window": each.window})
            named = {"source": each.source, "target": each.target}
            self.stage.on_engine(layer, lane, named, [source.region], target.region)


def _by_lane(lane: LaneStep, taken: list[HeldColumns]) -> tuple[LaneStep, list[HeldColumns]]:
    """Return a step of two tensors as one of a tensor and a number per lane, if one is that."""
    if lane.cls is not TensorTensor:
        return lane, taken
    left, right = taken
    if right.lying.elements == 1:
        return with_lane(lane.settings["op"]), taken
    if left.lying.elements == 1:
        return with_lane(lane.settings["op"], reverse=True), [right, left]
    return lane, taken


def _memset(value: float) -> LaneStep:
    """Return the step that writes a value."""
    return LaneStep(Memset, {"value": value}, first="target")
