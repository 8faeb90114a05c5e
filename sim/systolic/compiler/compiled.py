"""What the compiler hands out: a program, and the results of all passes that led to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from systolic.compiler.arithmetic import ProgramArithmetic, arithmetic_of, elements_of_spans
from systolic.compiler.ir.carried import NARROW_BITS, user_shape
from systolic.compiler.ir.nodes import Layers
from systolic.compiler.ir.tasks import Tiled
from systolic.compiler.parts.graph_part import TensorBox
from systolic.compiler.plans import Plan
from systolic.compiler.schedule.schedule import Scheduled
from systolic.compiler.streams.compiled import StreamedGraph
from systolic.compiler.streams.on_chip.homes import ChipHome
from systolic.compiler.sync.semaphores import Saving, Synchronised
from systolic.compiler.turned_elements import TurnedElements, turned_elements
from systolic.hw.spec import Chip
from systolic.isa import MatMul, Program
from systolic.layout import (
    BufferGeometry,
    Decomposition,
    Placement,
    Shape,
    place_in_state_buffer,
)
from systolic.workload import Graph, Operation
from systolic.workload.options import Options


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A program and the results of all passes that led to it.

    blocks: if the graph is a transpose, the blocks of equation 1 and their sub-blocks. parts: of a
    graph that is done in parts, in order; an operation among them moves nothing, for its result has
    the bytes of its operand. divided: the graph of these parts, whose tensors they take and make.
    ticks: what the program takes; None if it was not simulated to choose it.
    """

    graph: Graph
    chip: Chip
    options: Options
    blocks: Decomposition | None
    layers: Layers
    plan: Plan
    synchronised: Synchronised
    streamed: StreamedGraph | None = None
    parts: tuple[PlacedPart | Operation, ...] = ()
    divided: Graph | None = None
    ticks: int | None = None

    @property
    def placed(self) -> tuple[PlacedPart, ...]:
        """Return the parts that have instructions; none of a graph that is done as a whole."""
        return tuple(part for part in self.parts if isinstance(part, PlacedPart))

    @property
    def tiled(self) -> Tiled:
        """Return the tasks on tiles."""
        return self.plan.tiled

    @property
    def scheduled(self) -> Scheduled:
        """Return the instructions with their dependencies, and where tiles lay."""
        return self.plan.scheduled

    @property
    def arithmetic(self) -> ProgramArithmetic:
        """Return what the program calculates; of a graph in parts each part has its own."""
        by_engine = self.scheduled.by_engine
        return arithmetic_of(self.graph, self.chip, self.layers, by_engine, self.streamed)

    def turned_elements(self) -> tuple[TurnedElements, ...]:
        """Return the elements that identity products multiply, in order, as operations read them.

        There are as many numbers as elements are turned.
        """
        if self.streamed is not None:
            return elements_of_spans(self.graph, self.streamed.turned)
        graph, by_engine = self.arithmetic.graph, self.scheduled.by_engine
        return turned_elements(graph, self.layers, self.chip, self.tiled.block, by_engine)

    @property
    def program(self) -> Program:
        """Return the program."""
        return self.synchronised.program

    def placements(self) -> dict[str, Placement]:
        """Return where each tensor lies that its tiles place on the chip."""
        bases, geometry = dict(self.scheduled.bases), self.chip.state_buffer
        room = BufferGeometry(
            "state_buffer", geometry.partitions, geometry.bytes_per_partition, geometry.banks
        )
        if self.streamed is not None:
            return {
                home.tensor: place_in_state_buffer(
                    self._as_given(home),
                    room,
                    base_partition=home.partition,
                    base_byte=home.byte or 0,
                )
                for home in self.streamed.homes
            }
        partitions = {matrix.name: matrix.partition for matrix in self.layers.matrices}
        return {
            home.tensor: place_in_state_buffer(
                home.shape,
                room,
                base_partition=partitions[home.matrix],
                base_byte=bases[home.matrix],
            )
            for home in self.layers.homes
            if home.matrix in bases
        }

    def _as_given(self, home: ChipHome) -> Shape:
        """Return the tiles of a home as a shape of the tensor's own type."""
        dtype = self.graph.shape(home.tensor).element_type
        shape = home.places.shape
        return user_shape(shape, dtype) if dtype in NARROW_BITS else shape

    @property
    def tiles(self) -> int:
        """Return how many tiles the work was cut into."""
        if self.streamed is not None:
            return self.streamed.tiles
        if self.parts:
            return sum(part.compiled.tiles for part in self.placed)
        return len({t for task in self.tiled.tasks for t in (*task.reads, *task.writes)})

    @property
    def turns(self) -> frozenset[int]:
        """Return the numbers of the multiplies that turn a matrix: an identity is their vectors."""
        if self.parts:
            return frozenset(p.first + n for p in self.placed for n in p.compiled.turns)
        spans = [each.span for each in self.scheduled.turned_with]
        return frozenset(
            number
            for number, each in enumerate(self.program.instructions if spans else ())
            if isinstance(each, MatMul)
            and any(span.first <= each.moving.start < span.stop for span in spans)
        )

    @property
    def saving(self) -> Saving:
        """Return what the last pass removed."""
        return self.synchronised.saving


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """A part of a graph where it stands in the joined program.

    compiled: the part, perhaps under the names of an equal one before. first: the number of its
    first instruction. boxes: for each tensor of `compiled`, the graph's tensor and the box of it.
    layers: for each layer of `compiled` the graph's layer.
    """

    compiled: CompiledGraph
    first: int
    boxes: Mapping[str, tuple[str, TensorBox]]
    layers: Mapping[str, str]

    @property
    def stop(self) -> int:
        """Return the number of the instruction behind its last."""
        return self.first + len(self.compiled.program.instructions)
