"""Which parts do a group of operations: of several ways the one that takes the fewest ticks.

A group is done as one part; or its product by itself, and what goes element by element over the
result as streams; or a composite operation by operation; or its result is made box by box. A way in
which a part does not fit the chip is none. Equal parts are compiled, and judged, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.compiler.compiled import CompiledGraph
from systolic.compiler.cost.pace import estimated_ticks
from systolic.compiler.parts.bands import bands
from systolic.compiler.parts.cuts import part_for
from systolic.compiler.parts.dense import PRODUCTS
from systolic.compiler.parts.divide import groups
from systolic.compiler.parts.floor import floor_ticks
from systolic.compiler.parts.graph_part import GraphPart, TensorBox
from systolic.compiler.streams.plan import TickJudge
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.workload import Graph, Operation
from systolic.workload.options import Options

CompilePart = Callable[[Graph], CompiledGraph]
"""Compiles a part as one schedule, or as streams."""

MOST_JUDGED = 20_000
"""Programs of more instructions are not simulated: their estimate must do."""


class NoPartError(CompileError):
    """No part of a group fits the chip; smallest: the words that name the last one tried."""

    def __init__(self, refused: CompileError, smallest: str) -> None:
        super().__init__(f"{refused}; {smallest}")
        self.smallest = smallest


class CompiledPart(NamedTuple):
    """A part, and what it was compiled to."""

    part: GraphPart
    compiled: CompiledGraph

    @property
    def are_lines(self) -> bool:
        """Return whether a convolution is done as lines."""
        streamed = self.compiled.streamed
        return streamed is not None and streamed.convolution is not None


class Share(NamedTuple):
    """Some operations of a group, by their numbers, and the boxes of the result, a part each."""

    operations: tuple[int, ...]
    boxes: tuple[TensorBox, ...]


class Division(NamedTuple):
    """What a group is made of, and the ticks of its parts one after another."""

    ticks: int
    shares: tuple[Share, ...]


@dataclass(slots=True)
class EqualParts:
    """Compiles parts, of equal ones only the first."""

    chip: Chip
    options: Options
    compile_part: CompilePart
    known: dict[object, CompiledPart | CompileError] = field(default_factory=dict)

    def of(self, part: GraphPart) -> CompiledPart:
        """Return an equal part that is compiled.

        Raises CompileError if it does not fit the chip.
        """
        key = part.key(self.options)
        if key not in self.known:
            try:
                self.known[key] = CompiledPart(part, self.compile_part(part.graph))
            except CompileError as error:
                self.known[key] = error
        found = self.known[key]
        if isinstance(found, CompileError):
            raise found
        return found


@dataclass(slots=True)
class Chooser:
    """Chooses the parts of groups; equal groups have equal parts."""

    equal: EqualParts
    judge: TickJudge | None
    ticks: dict[int, int] = field(default_factory=dict)
    """The ticks that a program takes alone, by its identity. Equal parts share one program."""
    ways: dict[object, Division] = field(default_factory=dict)

    def parts(self, graph: Graph, group: Sequence[Operation]) -> list[GraphPart]:
        """Return the parts that do a group.

        Raises CompileError if no way fits the chip; the error names the smallest part.
        """
        found = []
        for share in self._best(graph, group).shares:
            operations = [group[n] for n in share.operations]
            found += [_part(graph, operations, box) for box in share.boxes]
        return found

    def _ticks(self, compiled: CompiledGraph) -> int:
        if id(compiled) not in self.ticks:
            if self.judge is not None and len(compiled.program.instructions) <= MOST_JUDGED:
                ticks = compiled.ticks or self.judge(compiled.program, None)
            else:
                ticks = estimated_ticks(compiled.scheduled.drafts, self.equal.chip)
            self.ticks[id(compiled)] = ticks
        return self.ticks[id(compiled)]

    def _best(self, graph: Graph, group: Sequence[Operation]) -> Division:
        """Return the way of the fewest ticks."""
        key = _part(graph, group, None).key(self.equal.options)
        if key not in self.ways:
            refused: CompileError | None = None
            try:
                best: Division | None = self._together(graph, group)
            except CompileError as error:
                best, refused = None, error
            apart = self._apart(graph, group, best)
            if refused is not None and apart is None:
                raise refused
            found = [way for way in (best, apart) if way is not None]
            self.ways[key] = min(found, key=lambda way: way.ticks)
        return self.ways[key]

    def _apart(
        self, graph: Graph, group: Sequence[Operation], best: Division | None
    ) -> Division | None:
        """Return the way in which a product, or each part of a composite, is by itself.

        None if there is none, or if it is slower than the best already when so much is known.
        """
        some = _parts(graph, group)
        if len(some) < 2:
            return None
        ways: list[Division] = []
        left = [floor_ticks(graph, each, self.equal.chip) for each in some]
        for number, each in enumerate(some):
            ticks = sum(way.ticks for way in ways) + sum(left[number:])
            if best is not None and ticks >= best.ticks:
                return None
            ways.append(self._best(graph, each))
        shares = [
            Share(tuple(group.index(each[n]) for n in share.operations), share.boxes)
            for each, way in zip(some, ways, strict=True)
            for share in way.shares
        ]
        return Division(sum(way.ticks for way in ways), tuple(shares))

    def _together(self, graph: Graph, group: Sequence[Operation]) -> Division:
        """Return the way of one part, or of a part for each box, if that takes fewer ticks."""
        best: Division | None = None
        refused: CompileError | None = None
        boxes: tuple[TensorBox, ...] = ()
        was_slower = False
        for boxes in bands(graph.shape(group[-1].output), group, self.equal.chip):
            try:
                made = [self.equal.of(_part(graph, group, box)) for box in boxes]
                ticks = sum(self._ticks(part.compiled) for part in made)
            except CompileError as error:
                refused = error
                continue
            if best is not None and ticks >= best.ticks:
                # Lines have more room than matrices, which may fit smaller boxes only.
                if was_slower or not any(part.are_lines for part in made):
                    break
                was_slower = True
                continue
            was_slower = False
            best = Division(ticks, (Share(tuple(range(len(group))), tuple(boxes)),))
        if best is None:
            assert refused is not None
            if len(boxes) == 1:
                raise refused
            made_of = f"{list(boxes[0].dims)} of {group[-1].output}"
            raise NoPartError(refused, f"the smallest part that was tried makes {made_of}")
        return best


def _parts(graph: Graph, group: Sequence[Operation]) -> Sequence[Sequence[Operation]]:
    """Return the product of a group and the others, or the groups of a composite's parts."""
    heads = [op for op in group if op.kind in PRODUCTS]
    if heads and not group[-1].part_of:
        others = [op for op in group if op not in heads]
        return [each for each in (heads, others) if each]
    return groups(graph, group, composites=False) if group[-1].part_of else [group]


def _part(graph: Graph, group: Sequence[Operation], box: TensorBox | None) -> GraphPart:
    """Return the part that makes a box.

    Raises CompileError if the operations cannot be cut so.
    """
    found = part_for(graph, group, box)
    if found is None:
        last = group[-1]
        raise CompileError(f"{last.name}: no part of {graph.shape(last.output)} is made by itself")
    return found
