"""A graph of streams becomes drafts: each frame by the plan that takes the fewest ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from systolic.compiler.cost.engines import engine_cycles
from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.ir.dma_posts import waits_for_engines
from systolic.compiler.ir.drafts import Draft, Drafts
from systolic.compiler.ir.nodes import TensorInDram
from systolic.compiler.lower.dram_places import DramPlaces
from systolic.compiler.places.modes import stretch
from systolic.compiler.streams.emit import Plan, Stage, emit
from systolic.compiler.streams.plan import JUDGED, LARGEST_JUDGED, Judge, Rated, rated_plans
from systolic.compiler.streams.table import streams
from systolic.compiler.streams.tiling import Cut, Shape, tiles
from systolic.compiler.streams.work import Frame, Stream
from systolic.compiler.sync.semaphores import synchronise_drafts
from systolic.errors import CompileError
from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.spec import Chip
from systolic.isa import OnEngine, Program
from systolic.workload import Graph
from systolic.workload.options import Options


class Planned(NamedTuple):
    """A frame, its plan, about the ticks it takes, and whether these were simulated."""

    frame: Frame
    plan: Plan
    ticks: float
    judged: int


@dataclass(frozen=True, slots=True)
class Streamed:
    """The drafts of a graph, where its tensors lie in DRAM, and what was chosen."""

    drafts: tuple[Draft, ...]
    dram: tuple[TensorInDram, ...]
    choices: tuple[str, ...]
    tiles: int


def streamed(graph: Graph, chip: Chip, options: Options, judge: Judge | None) -> Streamed | None:
    """Return the drafts of a graph whose operations are all streams; None if some are not.

    Raises CompileError if tensors do not fit DRAM, or no engine does an operation.
    """
    found = streams(graph)
    if found is None:
        return None
    places = _places(graph, chip, found)
    bases = {place.name: place.base for place in places.places()}
    planner = _Planner(chip, options, judge)
    stage = Stage(chip, options, bases, Drafts(chip.access))
    choices: list[str] = []
    number = 0
    for stream in found:
        for planned in planner.best(stream):
            emit(stage, planned.frame, planned.plan, stream.layer)
            choices.append(_said(stream, planned))
            cut = planned.plan.cut
            number += 1 if cut is None else sum(1 for _ in tiles(planned.frame, cut))
    return Streamed(tuple(stage.drafts.found), places.places(), tuple(choices), number)


def _places(graph: Graph, chip: Chip, found: Sequence[Stream]) -> DramPlaces:
    places = DramPlaces(chip)
    named = [*graph.inputs, *(stream.output for stream in found)]
    for name in named:
        places.reserve(name, carrier_shape(graph.shape(name)))
        places.put(name, name)
    return places


def _said(stream: Stream, planned: Planned) -> str:
    """Return a plan in words."""
    frame, plan, cut = planned.frame, planned.plan, planned.plan.cut
    modes = " x ".join(str(mode.count) for mode in (*frame.modes, *frame.inner)) or "1"
    how = f"{stream.output}: modes {modes}"
    known = "simulated" if planned.judged else "estimated"
    ticks = f"{known}: {round(planned.ticks)} ticks"
    if cut is None:
        return f"{how}, within DRAM through {plan.store_queues} queues ({ticks})"
    first = next(tiles(frame, cut))
    shape = Shape(frame, cut, first.counts)
    number = sum(1 for _ in tiles(frame, cut))
    return (
        f"{how}, {number} tiles of {shape.lanes} partitions x {shape.held(None, 0).elements} "
        f"columns in {min(plan.slots, number)} slots, through {plan.load_queues} queues in "
        f"({plan.load_ways} for a copy) and {plan.store_queues} out ({plan.store_ways}); {ticks}"
    )


@dataclass(slots=True)
class _Planner:
    """Chooses plans; equal frames are planned once."""

    chip: Chip
    options: Options
    judge: Judge | None
    known: dict[str, list[Planned]] = field(default_factory=dict)

    def best(self, stream: Stream) -> list[Planned]:
        """Return the frames of the best way of a stream, with their plans."""
        ways = [[self._frame(frame) for frame in way] for way in stream.ways]
        fitting = [way for way in ways if all(planned is not None for planned in way)]
        if not fitting:
            raise CompileError(
                f'operation "{stream.layer}": no tile of {stream.output} fits {self.chip.name}'
            )
        return min(fitting, key=lambda way: sum(p.ticks for p in way if p))  # type: ignore[return-value]

    def _frame(self, frame: Frame) -> Planned | None:
        key = repr(frame.key())
        if key not in self.known:
            self.known[key] = self._planned(frame)
        found = self.known[key]
        return found[0]._replace(frame=frame) if found else None

    def _planned(self, frame: Frame) -> list[Planned]:
        rated = rated_plans(self.chip, frame, self._engine_ticks)
        if self.judge is None:
            for each in rated:
                if self._drafts(frame, each.plan) is not None:
                    return [Planned(frame, each.plan, each.ticks, 0)]
            return []
        found: list[Planned] = []
        work = 0
        for each in self._unlike(rated):
            drafts = self._drafts(frame, each.plan)
            if drafts is None:
                continue
            work += len(drafts)
            program = synchronise_drafts("judged", drafts).program
            ticks = self.judge(waits_for_engines(program, self.chip))
            found.append(Planned(frame, each.plan, ticks, len(found) + 1))
            if len(found) >= JUDGED or work > LARGEST_JUDGED * JUDGED:
                break
        return sorted(found, key=lambda planned: planned.ticks)[:1]

    def _unlike(self, rated: list[Rated]) -> list[Rated]:
        """Return the plans, those that are worse by far left out, some of each cut first."""
        if not rated:
            return []
        return rated

    def _drafts(self, frame: Frame, plan: Plan) -> tuple[Draft, ...] | None:
        """Return the drafts of a frame alone, its tensors one after another; None if it fits not."""
        bases: dict[str, int] = {}
        at = 0
        for number, side in enumerate(frame.sides):
            if side.tensor not in bases:
                bases[side.tensor] = at
                at += -(-_extent(frame, number) * SIZE_BYTES[side.dtype] // 64) * 64
        stage = Stage(self.chip, self.options, bases, Drafts(self.chip.access))
        if not emit(stage, frame, plan, "judged"):
            return None
        return tuple(stage.drafts.found)

    def _engine_ticks(self, frame: Frame, cut: Cut, shape: Shape) -> float | None:
        """Return the ticks for which engines are busy with a tile, shared among them."""
        bases = {side.tensor: 0 for side in frame.sides}
        stage = Stage(self.chip, self.options, bases, Drafts(self.chip.access))
        one = replace(frame, modes=tuple(
            m._replace(count=n) for m, n in zip(frame.modes, shape.counts, strict=True)))
        try:
            if not emit(stage, one, Plan(cut), "estimate"):
                return None
        except CompileError:
            raise
        busy: dict[str, int] = {}
        for draft in stage.drafts.found:
            work = draft.instruction
            if isinstance(work, OnEngine):
                ticks = engine_cycles(self.chip, work.engine, work) * self.chip.period(work.engine)
                busy[work.engine] = busy.get(work.engine, 0) + ticks
        return float(max(busy.values(), default=0))


def _extent(frame: Frame, side: int) -> int:
    """Return the elements of a side from its tensor's first to the last that the frame names."""
    reach = [
        stretch([*frame.modes, *part.inner], side) + (part.at[side] if part.at else 0)
        for part in frame.parts
    ]
    return frame.at[side] + max(reach)
