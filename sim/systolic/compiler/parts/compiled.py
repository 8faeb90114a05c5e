"""A graph in parts becomes one program: its parts are chosen, placed in DRAM, and joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.compiler.compiled import CompiledGraph, PlacedPart
from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.ir.dram_tensor import whole_bursts
from systolic.compiler.ir.nodes import Layers, TensorInDram
from systolic.compiler.ir.tasks import Tiled
from systolic.compiler.parts.choose import Chooser, EqualParts
from systolic.compiler.parts.divide import Divided
from systolic.compiler.parts.dram import DramRoom
from systolic.compiler.parts.graph_part import GraphPart, TensorBox, layers_between, names_between
from systolic.compiler.parts.join import Joiner, Users, scratch_span
from systolic.compiler.parts.memory_use import MemoryPage
from systolic.compiler.plans import Plan
from systolic.compiler.schedule.schedule import Scheduled
from systolic.isa import Buffer
from systolic.layout import Shape
from systolic.workload import Graph, Operation


def in_parts(name: str, graph: Graph, plan: Divided, chooser: Chooser) -> CompiledGraph:
    """Return the program of a graph whose tensors all live in DRAM, in parts.

    plan: how it is divided, its composites by their parts.

    Raises CompileError if a part does not fit the chip however it is cut, or tensors do not fit
    DRAM.
    """
    steps: list[GraphPart | Operation] = []
    for group in plan.steps:
        if group[-1].output in plan.same:
            steps.append(group[-1])
        else:
            steps += chooser.parts(plan.graph, group)
    return _Assembly(plan.graph, plan.same, chooser.equal, steps).compiled(name, graph)


def joined(name: str, graph: Graph, parts: Sequence[GraphPart], equal: EqualParts) -> CompiledGraph:
    """Return the program of a graph whose tensors all live in DRAM, from parts in order.

    Raises CompileError if a part does not fit the chip, or tensors do not fit DRAM.
    """
    return _Assembly(graph, {}, equal, parts).compiled(name, graph)


class _Use(NamedTuple):
    """A part read or wrote a box of a tensor; its last users of that."""

    tensor: str
    box: TensorBox
    lasts: list[Users]
    writes: bool

    def makes(self, tensor: str, box: TensorBox) -> bool:
        """Return whether it wrote elements of a box; of bytes seen as another tensor it may."""
        return self.writes and (tensor != self.tensor or box.meets(self.box))


@dataclass(slots=True)
class _Place:
    """Bytes in DRAM: the first one, the owners of some of them before, and their uses so far."""

    base: int
    before: list[str]
    uses: list[_Use] = field(default_factory=list)


class _Assembly:
    """Puts parts side by side."""

    def __init__(
        self,
        graph: Graph,
        same: Mapping[str, str],
        equal: EqualParts,
        steps: Sequence[GraphPart | Operation],
    ) -> None:
        self._graph, self._equal, self._steps = graph, equal, steps
        self._same = {name: _root(name, same) for name, _ in graph.tensors}
        self._room, self._join = DramRoom(equal.chip), Joiner(equal.chip)
        self._places: dict[str, _Place] = {}
        self._left = Counter(name for step in steps for name in self._taken(step))
        self._left.update(self._same[name] for name in (*graph.inputs, *graph.outputs))
        self._lies: dict[str, Shape] = {}

    def _taken(self, step: GraphPart | Operation) -> list[str]:
        """Return the tensors that a step reads or writes box by box."""
        if not isinstance(step, GraphPart):
            return []
        return [self._same[name] for name in (*step.graph.inputs, *step.graph.outputs)]

    def compiled(self, name: str, graph: Graph) -> CompiledGraph:
        """Return the graph with all parts in one program."""
        for each in dict.fromkeys(self._same[n] for n in (*graph.inputs, *graph.outputs)):
            self._place(each)
        placed = [
            self._added(step) if isinstance(step, GraphPart) else step for step in self._steps
        ]
        known = {id(p.compiled): p.compiled for p in placed if isinstance(p, PlacedPart)}
        every = [p.compiled for p in placed if isinstance(p, PlacedPart)]
        chip = self._equal.chip
        whole = Plan(
            chip.state_buffer.bytes_per_partition,
            Tiled((chip.state_buffer.partitions,) * 2, (), ()),
            Scheduled(
                (), (), (), (), (),
                sum(each.scheduled.spilled_bytes for each in every),
                max(span.stop for span, _ in self._room.owners),
                sum(each.scheduled.evictions for each in every),
                turned=sum(each.scheduled.turned for each in every),
            ),
        )  # fmt: skip
        dram = tuple(self._outside(n) for n in (*graph.inputs, *graph.outputs))
        choices = tuple(text for each in known.values() for text in each.layers.choices)
        synchronised = self._join.program(name, [each.saving for each in every])
        return CompiledGraph(
            graph, chip, self._equal.options, None, Layers((), (), dram, (), choices), whole,
            synchronised, parts=tuple(placed), divided=self._graph,
        )  # fmt: skip

    def _outside(self, name: str) -> TensorInDram:
        """Return the place of an input or an output."""
        shape = self._lies.get(name, carrier_shape(self._graph.shape(name)))
        base = self._places[self._same[name]].base
        return TensorInDram(name, shape, base, whole_bursts(shape.size_bytes()), base)

    def _place(self, name: str) -> _Place:
        """Return the place of a tensor, which gets one if it has none."""
        if name not in self._places:
            size = max(
                self._graph.shape(each).size_bytes()
                for each, root in self._same.items()
                if root == name
            )
            self._places[name] = _Place(*self._room.take(name, size))
        return self._places[name]

    def _added(self, part: GraphPart) -> PlacedPart:
        """Add a part to the program."""
        known, join = self._equal.of(part), self._join
        names = names_between(known.part, part)
        boxes = {theirs: (mine, part.boxes[mine]) for theirs, mine in names.items()}
        layers = layers_between(known.part, part)
        placed = PlacedPart(known.compiled, len(join.instructions), boxes, layers)
        places = [
            self._place(self._same[boxes[theirs][0]])
            for theirs, _ in join.known(known.compiled)[0].spans
        ]
        scratch = self._scratch(known.compiled, placed.first)
        bases = [
            place.base + self._first_byte(*boxes[theirs])
            for place, (theirs, _) in zip(places, join.known(known.compiled)[0].spans, strict=True)
        ]
        join.add(placed, [*bases, scratch.base])
        self._order(placed, [*places, scratch])
        for name in self._taken(part):
            self._left[name] -= 1
            if not self._left[name]:
                self._room.give(name)
        for place in known.compiled.layers.dram:
            mine, box = boxes.get(place.name, ("", None))
            if box == TensorBox.whole(self._graph.shape(mine)) if mine else False:
                self._lies[mine] = place.shape
        return placed

    def _scratch(self, compiled: CompiledGraph, first: int) -> _Place:
        """Return a place for what a part uses of DRAM for itself, until it ends."""
        name, span = f"scratch of {first}", scratch_span(compiled)
        if not span.count:
            return _Place(0, [])
        self._places[name] = _Place(*self._room.take(name, span.count))
        self._room.give(name)
        return self._places[name]

    def _order(self, placed: PlacedPart, places: Sequence[_Place]) -> None:
        """Let a part wait for those that wrote what it reads, or used what it overwrites."""
        tensors, found = self._join.known(placed.compiled)
        named = [placed.boxes[theirs] for theirs, _ in tensors.spans]
        for number, place in enumerate(places):
            own = number < len(named)
            page = MemoryPage(Buffer.DRAM, number if own else -1)
            if page not in found.firsts:
                continue
            tensor, box = named[number] if own else ("", TensorBox((), ()))
            firsts = [placed.first + n for n in found.firsts[page]]
            lasts = [tuple(placed.first + n for n in users) for users in found.lasts[page]]
            writes = page in found.written
            uses = [use for use in place.uses if own and use.makes(tensor, box)]
            if writes:
                uses += [use for owner in place.before for use in self._places[owner].uses]
            for use in uses:
                self._join.wait_for(use.lasts, firsts)
            place.uses.append(_Use(tensor, box, lasts, writes))

    def _first_byte(self, tensor: str, box: TensorBox) -> int:
        """Return the byte of a tensor with which a box begins."""
        shape = carrier_shape(self._graph.shape(tensor))
        return int(shape.linear_index(box.start)) * shape.dtype.itemsize if any(box.start) else 0


def _root(name: str, same: Mapping[str, str]) -> str:
    """Return the tensor that first had the bytes of another."""
    while name in same:
        name = same[name]
    return name
