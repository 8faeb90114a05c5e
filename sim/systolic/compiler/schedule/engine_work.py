"""Work that engines do on tiles: a step makes rows and columns of a result from its operands.

The engine that is done with a piece first does it. So engines take sums out of the result buffer,
and convert tiles. Copies of one node are put off until all are known: several engines may share
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial

from systolic.compiler.cost.engines import (
    cheapest_engine,
    drain_engine,
    engine_cycles,
    engines_able,
    on_cheapest,
    some_engine_does,
)
from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.lane_step import COPY, select
from systolic.compiler.ir.masks import SelectAccesses, mask_steps
from systolic.compiler.ir.nodes import ConvertNode, Layers, Matrix, MultiplyNode, operand_number
from systolic.compiler.ir.tasks import Task
from systolic.compiler.place.tiles import OnChip
from systolic.isa import Access, Buffer, Copy, CopyPredicated, Memset, OnEngine
from systolic.spans import Span
from systolic.workload.options import Options

HeldAccess = tuple[Access, Region]
"""A place in a buffer, and the region that notes the instructions that use it."""
MadeMatrix = tuple[Matrix, int]
"""A matrix that is made: the tensor whose view it belongs to, and its number there."""
AS_FAST = 1.1
"""One engine takes sums out beside another that goes over them if it takes at most so much longer.

An operand of one number for each lane is a cycle more.
"""


class EngineWork:
    """Makes the instructions of engines.

    engine: the one that the task at hand names ("": none). given: the ticks of work that each
    engine has been given.
    """

    def __init__(self, drafts: Drafts, tiles: OnChip, layers: Layers, options: Options) -> None:
        """Begin with idle engines."""
        self._drafts, self._tiles, self._options = drafts, tiles, options
        self._nodes, self._chip = layers.nodes, tiles.chip
        self._matrices = tiles.matrices
        self._busy: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.engine = ""
        self._goes_over: dict[str, str] = {}

    @cached_property
    def drain_engine(self) -> str:
        """The engine that copies sums out."""
        return drain_engine(self._chip, self._options)

    @cached_property
    def _selects_by_masks(self) -> bool:
        return not some_engine_does(self._chip, select(), Buffer.STATE)

    def begin(self, task: Task) -> None:
        """Begin a task: the engine that it names does an engine's part of it, if it can."""
        self.engine = task.engine

    def do(
        self,
        step: Callable[..., OnEngine],
        reads: Iterable[Region],
        writes: Iterable[Region],
        wanted: str = "",
        **fields: Access,
    ) -> None:
        """Let the engine that is done first with a step do it. wanted: the one that should."""
        work = on_cheapest(self._chip, self._options, step, self._busy, wanted, **fields)
        self.add(work, reads, writes)

    def fill(self, task: Task, out: Matrix, value: float) -> None:
        """Write one value to a part of a result where no sums are wanted."""
        (rows,), (cols,) = task.cols, task.moving
        target, made = self._tiles.make_reach(out, task.number, rows, cols)
        step = partial(Memset, value=value)
        self.do(step, (), (target.region,), target=made)

    def take_out(
        self, node: MultiplyNode, held: HeldAccess, out: MadeMatrix, where: tuple[Span, Span]
    ) -> None:
        """Take finished sums out of the result buffer by the step of a product."""
        if node.step == COPY:
            self.drain(held, out, *where)
        else:
            self.lane_step(node, held, out, where)

    def drain(
        self, held: HeldAccess, out: MadeMatrix, rows: Span, cols: Span, *, part: int = 0
    ) -> None:
        """Copy finished sums from column partitions to row partitions, cast on the way."""
        sums, region = held
        target, made = self._tiles.make_reach(*out, rows, cols)
        self.add(self.copy_of_sums(sums, made), (region,), (target.region,), part=part)

    def copy_of_sums(self, sums: Access, made: Access) -> Copy:
        """Return the copy that takes finished sums out, on the engine that the task names."""
        copy = Copy(engine=self.drain_engine, source=sums, target=made)
        if self.engine not in ("", copy.engine):
            name = cheapest_engine(self._chip, self._options, copy, wanted=self.engine)
            copy = replace(copy, engine=name)
        return copy

    def lane_step(
        self,
        node: MultiplyNode | ConvertNode,
        first: HeldAccess,
        out: MadeMatrix,
        where: tuple[Span, Span],
        *,
        busy: dict[str, int] | None = None,
    ) -> None:
        """Let an engine write rows and columns of a result of its operands there.

        busy: what engines have been given before, if not all work of this kind counts.
        """
        source, region = first
        fields, regions = {node.step.first: source}, [region]
        matrix, number = out
        for name, other in node.others:
            operand, per_lane = self._matrices[other], node.step.per_lane(name)
            there = operand_number(operand, matrix, number)
            place, fields[name] = self._tiles.spread(operand, there, *where, per_lane=per_lane)
            regions.append(place.region)
        target, made = self._tiles.make_reach(*out, *where)
        busy = self._busy if busy is None else busy
        if self._selects_by_masks and node.step.cls is CopyPredicated:
            operands = (source, *(fields[name] for name in node.step.others), made)
            self._by_masks(operands, [*regions, target.region], busy)
            return
        if node.step.onto:
            fields.pop(node.step.first)
            self._beneath((source, regions.pop(0)), (made, target.region), busy)
            regions.append(target.region)
        step = node.step.at(*(span.first for span in where))
        wrote = [target.region]
        if isinstance(node, ConvertNode) and node.reduced:
            fields["reduced"], sums = self._sums_of(node, number, *where)
            wrote.append(sums)
        wanted = self.engine or self._left_to(node, step(engine="", target=made, **fields), made)
        written = on_cheapest(self._chip, self._options, step, busy, wanted, target=made, **fields)
        self.add(written, regions, wrote)

    def _left_to(self, node: MultiplyNode | ConvertNode, work: OnEngine, made: Access) -> str:
        """Return the engine that takes sums of images out, as another one goes over them ("": any).

        If one engine alone can go over the result, it does that while the other takes out the next
        sums. If it took out sums too, the first result would wait behind the last of these.
        """
        if not isinstance(node, MultiplyNode):
            return ""
        if node.output not in self._goes_over:
            self._goes_over[node.output] = self._engine_beside(node, work, made)
        return self._goes_over[node.output]

    def _engine_beside(self, node: MultiplyNode, work: OnEngine, made: Access) -> str:
        """Return the engine of `_left_to`, if it is as fast as the one that goes over the sums."""
        out = self._matrices[node.output]
        if out.block is None or out.window is not None:
            return ""
        after = [each for each in self._nodes if each.inputs[:1] == (out.name,)]
        if len(after) != 1:
            return ""
        (then,) = after
        if not isinstance(then, ConvertNode) or then.others:
            return ""
        target = replace(made, dtype=self._matrices[then.output].dtype)
        goes_over = then.step(engine="", target=target, **{then.step.first: made})
        able = engines_able(self._chip, goes_over)
        others = [name for name in engines_able(self._chip, work) if name not in able]
        if len(able) != 1 or len(others) != 1:
            return ""
        takes_out = engine_cycles(self._chip, others[0], work) * self._chip.period(others[0])
        goes = engine_cycles(self._chip, able[0], goes_over) * self._chip.period(able[0])
        return others[0] if takes_out <= goes * AS_FAST else ""

    def _sums_of(self, node: ConvertNode, number: int, rows: Span, cols: Span) -> HeldAccess:
        """Return the place of the sums of a segment of columns."""
        made = Span(cols.first // self._tiles.p, 1)
        place, access = self._tiles.make_reach(self._matrices[node.reduced], number, rows, made)
        return access, place.region

    def _by_masks(
        self, operands: SelectAccesses, regions: Sequence[Region], busy: dict[str, int]
    ) -> None:
        """Let engines select by operations on bits."""
        for step, fields, read in mask_steps(operands):
            work = on_cheapest(self._chip, self._options, step, busy, self.engine, **fields)
            self.add(work, [regions[n] for n in read], (regions[-1],))

    def _beneath(self, held: HeldAccess, out: HeldAccess, busy: dict[str, int]) -> None:
        """Let an engine copy what the next instruction keeps some of to that one's target."""
        (source, read), (target, made) = held, out
        copy = on_cheapest(self._chip, self._options, COPY, busy, source=source, target=target)
        self.add(copy, (read,), (made,))

    def add(
        self, work: OnEngine, reads: Iterable[Region], writes: Iterable[Region], *, part: int = 0
    ) -> None:
        """Add an engine's instruction, and note the ticks that the engine is given."""
        ticks = engine_cycles(self._chip, work.engine, work) * self._chip.period(work.engine)
        self.given[work.engine] = self.given.get(work.engine, 0) + ticks
        self._drafts.add(work, reads, writes, part=part)
