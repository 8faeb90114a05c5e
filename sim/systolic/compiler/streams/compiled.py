"""A graph of streams becomes drafts: each frame by the plan that takes the fewest ticks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from systolic.compiler.cost.engines import engine_cycles, engines_able
from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.ir.drafts import Draft, Drafts
from systolic.compiler.ir.nodes import TensorInDram
from systolic.compiler.lower.dram_places import DramPlaces
from systolic.compiler.places.modes import stretch
from systolic.compiler.streams.convolved import Convolution, ConvolutionEmitter, convolutions
from systolic.compiler.streams.emit import emit
from systolic.compiler.streams.emit_turned import TurnTypes
from systolic.compiler.streams.on_chip.homes import ChipHome
from systolic.compiler.streams.on_chip.moves import ChipMove, chip_move
from systolic.compiler.streams.plan import (
    ALIKE,
    JUDGED_BYTES,
    JUDGED_INSTRUCTIONS,
    EngineTicks,
    Rated,
    TickJudge,
    rated_plans,
)
from systolic.compiler.streams.stage import Stage, StreamPlan
from systolic.compiler.streams.table import lone_chip_move, streams
from systolic.compiler.streams.tiling import Cut, TileShape, TurnCut, tile_count, tiles
from systolic.compiler.streams.turned import TurnedSpans, turned_spans
from systolic.compiler.streams.work import StreamFrame, StreamWork
from systolic.compiler.sync.semaphores import synchronise_drafts
from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.spec import Chip
from systolic.isa import Access, MatMul, OnEngine
from systolic.workload import Graph
from systolic.workload.options import Options

SHARED = 1, 2, 4
"""Among how many queues a copy may be shared where streams that do not depend meet."""


class Planned(NamedTuple):
    """A frame, its plan, about the ticks it takes, and whether these were simulated."""

    frame: StreamFrame
    plan: StreamPlan
    ticks: float
    judged: int


@dataclass(frozen=True, slots=True)
class StreamedGraph:
    """The drafts of a graph, where its tensors lie in DRAM, and what was chosen.

    identities: the matrices that must be in the state buffer at cycle 0; turned_with: those and
    others that are written. turned: what products with an identity turn, where these do not keep
    all bits.
    convolution: the way in which a convolution is done, if there is one. ticks: about what all
    streams take in turn. homes: where tensors lie on the chip.
    """

    drafts: tuple[Draft, ...]
    dram: tuple[TensorInDram, ...]
    choices: tuple[str, ...]
    tiles: int
    identities: tuple[Access, ...] = ()
    turned: tuple[TurnedSpans, ...] = ()
    turned_with: tuple[Access, ...] = ()
    convolution: Convolution | None = None
    ticks: float = 0.0
    homes: tuple[ChipHome, ...] = ()

    @property
    def turned_multiply_adds(self) -> int:
        """Return the multiply-adds of the products with an identity."""
        works = (draft.instruction for draft in self.drafts)
        spans = [each.span for each in self.turned_with]
        turns = (
            work
            for work in works
            if isinstance(work, MatMul)
            and any(span.first <= work.moving.start < span.stop for span in spans)
        )
        return sum(
            work.moving.size_bytes // work.moving.element_bytes * work.result.partitions
            for work in turns
        )


def streamed(
    graph: Graph, chip: Chip, options: Options, judge: TickJudge | None
) -> StreamedGraph | None:
    """Return the drafts of a graph whose operations are all streams; None if some are not.

    Raises CompileError if tensors do not fit DRAM, or no engine does an operation.
    """
    lone = lone_chip_move(graph, options)
    if lone is not None:
        return _on_chip(chip_move(graph, lone, chip, options, judge))
    planner = _Planner(chip, options, judge)
    ways: list[tuple[float, list[StreamWork], list[list[Planned]]]] = []
    for streams_of_way in streams(graph, chip, options):
        way = [_with_holes(stream, streams_of_way) for stream in streams_of_way]
        plans = [planner.best(stream) for stream in way]
        fitting = [each for each in plans if each is not None]
        if len(fitting) == len(way):
            ticks = sum(planned.ticks for each in fitting for planned in each)
            ways.append((ticks, way, fitting))
    if not ways:
        return None
    ticks, found, chosen = min(ways, key=lambda each: each[0])
    places = _places(graph, chip, found)
    bases = {place.name: place.base for place in places.places()}
    best_of = list(zip(found, chosen, strict=True))
    every = [planned for _, best in best_of for planned in best]
    stage = Stage(chip, options, bases, Drafts(chip.access), turned=turned_types(chip, every))
    choices: list[str] = []
    number = 0
    for stream, best in best_of:
        for planned in best:
            emit(stage, planned.frame, planned.plan, stream.layer)
            choices.append(_said(stream, planned))
            cut = planned.plan.cut
            number += 1 if cut is None else sum(1 for _ in tiles(planned.frame, cut))
    identities, turned = tuple(stage.stored), tuple(_spans(chip, best_of))
    return StreamedGraph(
        tuple(stage.drafts.found),
        places.places(),
        tuple(choices),
        number,
        identities,
        turned,
        stage.turned_with,
        ticks=ticks,
    )


def _on_chip(move: ChipMove | None) -> StreamedGraph | None:
    """Return the drafts of a move on the chip."""
    if move is None:
        return None
    stage = move.stage
    return StreamedGraph(
        tuple(stage.drafts.found),
        (),
        (move.said,),
        1,
        tuple(stage.stored),
        move.turned,
        stage.turned_with,
        ticks=move.ticks,
        homes=move.homes,
    )


def convolved(
    graph: Graph, chip: Chip, options: Options, is_worth: Callable[[int], bool]
) -> Iterator[StreamedGraph]:
    """Yield the drafts of each way to do a graph of one convolution or product as lines.

    None if it is another graph, or if a choice asks for tiles of a product or forbids zeros.
    is_worth: is given the ticks for which a way keeps the array busy; returns whether to try it.

    Raises CompileError if tensors do not fit DRAM, or no engine does an operation.
    """
    if not options.structural_zeros or options.asks_for_tiles(graph.operations[0].name):
        return
    for work in convolutions(graph, chip):
        ticks = work.lines.array_cycles(chip, work.dtype) * chip.period("pe_array")
        if not is_worth(ticks):
            continue
        places = DramPlaces(chip)
        for name in (*graph.inputs, work.output):
            places.reserve(name, graph.shape(name))
        bases = {place.name: place.base for place in places.places()}
        stage = Stage(chip, options, bases, Drafts(chip.access))
        emitter, lines = ConvolutionEmitter(stage, work, graph), work.lines
        if emitter.place():
            number = emitter.run()
            said = (
                f"{work.op.name}: {number} tiles of lines of {lines.width} results, "
                f"{lines.stretch} windows at a time, weights move"
            )
            found = tuple(stage.drafts.found)
            yield StreamedGraph(
                found,
                places.places(),
                (said,),
                number,
                turned_with=(emitter.identity,),
                convolution=work,
            )


def _with_holes(stream: StreamWork, every: Sequence[StreamWork]) -> StreamWork:
    """Return a stream that knows which tensors other streams make with padding in them."""
    holes = {
        each.output for each in every if each.shape.padded_elements() > each.shape.num_elements()
    }

    def known(frame: StreamFrame) -> StreamFrame:
        sides = tuple(replace(side, holes=side.tensor in holes) for side in frame.sides)
        return replace(frame, sides=sides)

    return replace(stream, ways=tuple(tuple(map(known, way)) for way in stream.ways))


def _places(graph: Graph, chip: Chip, found: Sequence[StreamWork]) -> DramPlaces:
    places = DramPlaces(chip)
    for name in graph.inputs:
        places.reserve(name, carrier_shape(graph.shape(name)))
    for stream in found:
        places.reserve(stream.output, stream.shape)
    return places


def _said(stream: StreamWork, planned: Planned) -> str:
    """Return a plan in words."""
    frame, plan, cut = planned.frame, planned.plan, planned.plan.cut
    modes = " x ".join(str(mode.extent) for mode in (*frame.modes, *frame.inner)) or "1"
    how = f"{stream.output}: modes {modes}"
    known = "simulated" if planned.judged else "estimated"
    ticks = f"{known}: {round(planned.ticks)} ticks"
    if cut is None:
        return f"{how}, within DRAM through {plan.store_ways} queues ({ticks})"
    number = sum(1 for _ in tiles(frame, cut))
    into, out = cut.lanes
    columns = math.prod(cut.block) // into
    turned = f", turned to {out} partitions" if isinstance(cut, TurnCut) else ""
    return (
        f"{how}, {number} tiles of {into} partitions x {columns} "
        f"columns{turned} in {min(plan.slots, number)} slots, through {plan.load_queues} queues in "
        f"({plan.load_ways} for a copy) and {plan.store_queues} out ({plan.store_ways}); {ticks}"
    )


@dataclass(slots=True)
class _Planner:
    """Chooses plans; equal frames are planned once."""

    chip: Chip
    options: Options
    judge: TickJudge | None
    known: dict[str, list[Planned]] = field(default_factory=dict)

    def best(self, stream: StreamWork) -> list[Planned] | None:
        """Return the frames of the best way of a stream, with their plans; None if no tile fits.

        Frames of one stream do not depend on one another. So several are judged together as well,
        each with plans that leave queues to the others.
        """
        found: list[tuple[float, list[Planned]]] = []
        for way in stream.ways:
            plans = [self._frame(frame) for frame in way]
            if not all(plans):
                continue
            chosen = [each[0]._replace(frame=f) for each, f in zip(plans, way, strict=True)]
            if len(way) == 1 or self.judge is None:
                found.append((sum(planned.ticks for planned in chosen), chosen))
                continue
            tried = {tuple(p.plan for p in chosen): chosen}
            for most in SHARED:
                few = [
                    min(each, key=lambda p: (_copies(p.plan) > most, p.ticks))._replace(frame=f)
                    for each, f in zip(plans, way, strict=True)
                ]
                tried.setdefault(tuple(p.plan for p in few), few)
            for some in tried.values():
                drafts = self._together(some)
                if drafts is not None:
                    least = min((ticks for ticks, _ in found), default=math.inf)
                    found.append((self._ticks(drafts, least), some))
        return min(found, key=lambda each: each[0])[1] if found else None

    def _frame(self, frame: StreamFrame) -> list[Planned]:
        """Return plans of a frame, the best first."""
        key = repr(frame.key())
        if key not in self.known:
            self.known[key] = self._planned(frame)
        return self.known[key]

    def _planned(self, frame: StreamFrame) -> list[Planned]:
        """Return plans of a frame, the best first: of those by estimate the best few are judged."""
        rated = by_kind(rated_plans(self.chip, self.options, frame, self._engine_ticks))
        fitting: list[Planned] = []
        found: list[Planned] = []
        of_cut: Counter[Cut | TurnCut | None] = Counter()
        left = Judging.of(self.options.effort)
        for each in rated:
            planned = Planned(frame, each.plan, each.ticks, 0)
            if self.judge is None:
                if self._together([planned]) is not None:
                    return [planned]
                continue
            of_cut[each.plan.cut] += 1
            if of_cut[each.plan.cut] > ALIKE and each.plan.cut is not None:
                continue
            size = self._bytes(planned)
            if fitting and size > left.bytes:
                continue
            made = [self._together([planned._replace(frame=f)]) for f, _ in shortened(planned)]
            parts = [drafts for drafts in made if drafts is not None]
            if len(parts) < len(made):
                continue
            fitting.append(planned)
            if left.allows(size, sum(map(len, parts))):
                ticks = self._in_full(planned, parts, _least_ticks(found, each.plan))
                found.append(planned._replace(ticks=ticks, judged=1))
            if left.is_over or len(found) == self.options.effort:
                break
        return sorted(found, key=lambda planned: planned.ticks) or fitting[:1]

    def _bytes(self, planned: Planned) -> int:
        """Return the bytes that move in bursts when a plan is judged: each costs the judge time."""
        if self.chip.dram.organisation is None:
            return 0
        return sum(
            _extent(frame, n) * SIZE_BYTES[side.dtype]
            for frame, _ in shortened(planned)
            for n, side in enumerate(frame.sides)
        )

    def _in_full(self, planned: Planned, parts: Sequence[Sequence[Draft]], least: float) -> float:
        """Return the ticks of a frame, extrapolated from shortened frames.

        If the frame takes `least` ticks or more, the result is some number that is not less.

        A shorter frame is taken to last no longer than one with more tiles.
        """
        ticks = self._ticks(parts[0], least)
        if len(parts) == 1 or ticks >= least:
            return ticks
        (_, few), (_, many) = shortened(planned)
        assert planned.plan.cut is not None
        times = (tile_count(planned.frame, planned.plan.cut) - few) / (many - few)
        longer = self._ticks(parts[1], ticks + (least - ticks) / times + 1)
        return ticks + (longer - ticks) * times

    def _ticks(self, drafts: Sequence[Draft], least: float) -> int:
        """Return the ticks that drafts take as a program, but at most `least`, rounded up."""
        assert self.judge is not None
        program = synchronise_drafts("judged", drafts, self.chip).program
        limit = None if least == math.inf else math.ceil(least)
        return self.judge(program, limit)

    def _together(self, planned: Sequence[Planned]) -> tuple[Draft, ...] | None:
        """Return the drafts of frames alone, tensors in turn; None if one does not fit."""
        bases: dict[str, int] = {}
        at = 0
        for frame in (each.frame for each in planned):
            for number, side in enumerate(frame.sides):
                if side.tensor not in bases:
                    bases[side.tensor] = at
                    at += -(-_extent(frame, number) * SIZE_BYTES[side.dtype] // 64) * 64
        turned = turned_types(self.chip, planned)
        stage = Stage(self.chip, self.options, bases, Drafts(self.chip.access), turned=turned)
        for frame, plan, _, _ in planned:
            if not emit(stage, frame, plan, "judged"):
                return None
        return tuple(stage.drafts.found)

    def _engine_ticks(self, frame: StreamFrame, cut: Cut, shape: TileShape) -> EngineTicks | None:
        """Return for how long engines are busy with a tile; None if it does not fit."""
        bases = {side.tensor: 0 for side in frame.sides}
        stage = Stage(self.chip, self.options, bases, Drafts(self.chip.access))
        one = replace(
            frame,
            modes=tuple(
                m._replace(extent=n) for m, n in zip(frame.modes, shape.counts, strict=True)
            ),
        )
        if not emit(stage, one, StreamPlan(cut), "estimate"):
            return None
        busy: dict[str, int] = {}
        able = 2
        for draft in stage.drafts.found:
            work = draft.instruction
            if isinstance(work, OnEngine):
                ticks = engine_cycles(self.chip, work.engine, work) * self.chip.period(work.engine)
                busy[work.engine] = busy.get(work.engine, 0) + ticks
                able = min(able, len(engines_able(self.chip, work)))
        most = max(busy.values(), default=0)
        in_turn = sum(busy.values()) if frame.has_several_steps else most
        return EngineTicks(most, in_turn, able if busy else 1)


def by_kind(rated: Sequence[Rated]) -> list[Rated]:
    """Return plans with the best of each kind first: within DRAM, through columns, turned.

    An estimate that is wrong is about as wrong for others of its kind.
    """
    first: dict[type, Rated] = {}
    for each in rated:
        first.setdefault(type(each.plan.cut), each)
    best = list(first.values())
    return [*best, *(each for each in rated if not any(each is one for one in best))]


@dataclass(slots=True)
class Judging:
    """What may be simulated still for a frame, counted in plans, bytes and instructions."""

    plans: int
    bytes: int
    instructions: int

    @classmethod
    def of(cls, effort: int) -> Judging:
        """Return what may be simulated by effort; as many plans again may be too large for it."""
        return cls(2 * effort, effort * JUDGED_BYTES, effort * JUDGED_INSTRUCTIONS)

    def allows(self, size: int, instructions: int) -> bool:
        """Return whether a program may be simulated, and count it if so."""
        self.plans -= 1
        if size > self.bytes or instructions > self.instructions:
            return False
        self.bytes -= size
        self.instructions -= instructions
        return True

    @property
    def is_over(self) -> bool:
        """Return whether enough plans have been asked for."""
        return self.plans <= 0


def shortened(planned: Planned) -> list[tuple[StreamFrame, int]]:
    """Return a frame and its tiles, or two shorter frames whose times give the frame's time.

    The times of many equal tiles grow evenly once all slots are in use.
    """
    frame, plan, cut = planned.frame, planned.plan, planned.plan.cut
    if cut is None or not frame.modes:
        return [(frame, 1)]
    first, *others = frame.modes
    block = cut.block[0]
    blocks, number = -(-first.extent // block), tile_count(frame, cut)
    each = number // blocks
    few, many = (times * -(-(plan.slots + 1) // each) for times in (1, 2))
    if many >= blocks:
        return [(frame, number)]
    return [
        (replace(frame, modes=(first._replace(extent=n * block), *others)), n * each)
        for n in (few, many)
    ]


def _least_ticks(found: Sequence[Planned], plan: StreamPlan) -> float:
    """Return the fewest ticks of plans that are taken before this one if it takes as many.

    They leave as many queues to others (`_Planner.best`).
    """
    most = next((n for n in SHARED if _copies(plan) <= n), math.inf)
    return min((each.ticks for each in found if _copies(each.plan) <= most), default=math.inf)


def _spans(
    chip: Chip, best_of: Sequence[tuple[StreamWork, list[Planned] | None]]
) -> Iterator[TurnedSpans]:
    """Yield what products with an identity turn of all frames, where these do not keep all bits."""
    for stream, best in best_of:
        for frame, plan, _, _ in best or ():
            if isinstance(plan.cut, TurnCut):
                types = TurnTypes.on(chip, frame.sides[0].dtype)
                if types is not None and not types.keeps_bits(chip):
                    yield from turned_spans(frame, plan.cut, stream.layer)


def turned_types(chip: Chip, planned: Sequence[Planned]) -> list[str]:
    """Return the types that the array turns in some plans."""
    made = [
        TurnTypes.on(chip, each.frame.sides[0].dtype)
        for each in planned
        if isinstance(each.plan.cut, TurnCut)
    ]
    return list(dict.fromkeys(types.taken for types in made if types is not None))


def _copies(plan: StreamPlan) -> int:
    """Return among how many queues the copies of a plan are shared."""
    return max(plan.load_ways, plan.store_ways)


def _extent(frame: StreamFrame, side: int) -> int:
    """Return the elements of a side from its tensor's first to the last that the frame names."""
    reach = [
        stretch([*frame.modes, *part.inner], side) + (part.at[side] if part.at else 0)
        for part in frame.parts
    ]
    return frame.at[side] + max(reach) + frame.sides[side].gap - 1
