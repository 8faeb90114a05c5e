"""A lone move between homes on the chip: which homes, over which places, by which legs.

A closed form orders the candidates: where tensors without tiles may lie, straight or over places
between, and by which leg each box goes. The best few are simulated, times only. They are counted,
never timed, so that the same program is made on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.on_chip.chip_tiles import whole_banks
from systolic.compiler.places.modes import coalesce, size
from systolic.compiler.streams.buffers import Buffers, BufferSize
from systolic.compiler.streams.emit_turned import TurnTypes
from systolic.compiler.streams.moved import move_groups
from systolic.compiler.streams.on_chip.emit import ChipEmitter, ChipLeg, HeldHome, turned_memory
from systolic.compiler.streams.on_chip.homes import (
    ChipHome,
    boxes_between,
    homes_between,
    homes_of,
    is_still,
)
from systolic.compiler.streams.on_chip.legs import ChipBox, lane_copies, queue_count, turns
from systolic.compiler.streams.plan import TickJudge
from systolic.compiler.streams.stage import Stage
from systolic.compiler.streams.turned import TurnedSpans
from systolic.compiler.sync.semaphores import synchronise_drafts
from systolic.errors import CompileError
from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.spec import Chip
from systolic.workload import Graph, Operation
from systolic.workload.options import Options

ESTIMATED, JUDGED, NEAR = 24, 6, 1.6
"""How many candidates are written out, and how many of these are simulated. A candidate is
simulated if its estimate is at most `NEAR` times the least one."""
MOST_INSTRUCTIONS = 4000
"""The most instructions of a move."""
MOST_ENGINES = 3
"""The most engines that share a copy."""
COPY_CYCLES, QUEUE_CYCLES = 64, 128
"""About what a copy by an engine, or by DMA, takes besides its elements."""


@dataclass(frozen=True, slots=True)
class ChipStep:
    """The boxes of a move from one home to the next, and the leg of each."""

    boxes: tuple[ChipBox, ...]
    legs: tuple[ChipLeg, ...]


@dataclass(frozen=True, slots=True)
class ChipPlan:
    """The homes that a tensor goes through, and how it goes from each to the next."""

    homes: tuple[ChipHome, ...]
    steps: tuple[ChipStep, ...]
    engines: tuple[str, ...] = ()

    @property
    def is_still(self) -> bool:
        """Return whether nothing moves."""
        return not self.steps


@dataclass(frozen=True, slots=True)
class ChipMove:
    """A move written out: where its ends lie, and what products with an identity turn."""

    homes: tuple[ChipHome, ...]
    turned: tuple[TurnedSpans, ...]
    stage: Stage
    said: str
    ticks: float


def chip_move(
    graph: Graph, op: Operation, chip: Chip, options: Options, judge: TickJudge | None
) -> ChipMove | None:
    """Return the best move of a tensor on the chip; None if no leg leads there."""
    planner = _Planner(graph, op, chip, options)
    written = []
    for plan in sorted(planner.plans(), key=lambda each: each[0])[:ESTIMATED]:
        made = planner.written(plan[1])
        if made is not None:
            written.append(made)
    written.sort(key=_by_ticks)
    if judge is None or len(written) < 2 or not written[0].ticks:
        return written[0] if written else None
    judged: list[ChipMove] = []
    limit = None
    for each in (w for w in written[:JUDGED] if w.ticks <= NEAR * written[0].ticks):
        program = synchronise_drafts("judged", tuple(each.stage.drafts.found), chip).program
        ticks = judge(program, limit) if program.instructions else 0
        judged.append(replace(each, ticks=ticks))
        limit = min(ticks + 1, limit or ticks + 1)
    return min(judged, key=_by_ticks)


def _by_ticks(move: ChipMove) -> tuple[float, int]:
    return move.ticks, len(move.stage.drafts.found)


@dataclass(frozen=True, slots=True)
class _Planner:
    graph: Graph
    op: Operation
    chip: Chip
    options: Options

    def plans(self) -> Iterator[tuple[float, ChipPlan]]:
        """Yield candidates, each with about the cycles that it takes."""
        names = self.op.inputs[0], self.op.output
        tensors = [self.graph.tensor(name) for name in names]
        shapes = [carrier_shape(tensor.shape) for tensor in tensors]
        starts, stops = (
            list(homes_of(name, tensor, self.chip, [other], of_result=of_result))
            for name, tensor, other, of_result in zip(
                names, tensors, shapes[::-1], (False, True), strict=True
            )
        )
        found = [plan for start in starts for stop in stops for plan in self._plans((start, stop))]
        yield from found
        if any(plan.is_still for _, plan in found):
            return
        between = [
            home
            for tensor, of_result in zip(tensors, (False, True), strict=True)
            for home in homes_between("", tensor.shape, self.chip, of_result=of_result)
        ]
        for middle in between:
            come = self._best((start, middle) for start in starts)
            go = self._best((middle, stop) for stop in stops)
            if come is not None and go is not None:
                yield (
                    come[0] + go[0],
                    ChipPlan((*come[1].homes, *go[1].homes[1:]), (*come[1].steps, *go[1].steps)),
                )

    def _best(self, ends: Iterator[tuple[ChipHome, ChipHome]]) -> tuple[float, ChipPlan] | None:
        found = [plan for each in ends for plan in self._plans(each) if not plan[1].is_still]
        return min(found, key=lambda each: each[0], default=None)

    def _plans(self, homes: tuple[ChipHome, ChipHome]) -> Iterator[tuple[float, ChipPlan]]:
        """Yield the plan of a move from one home to another, if there is one."""
        source, result = homes
        memory = carrier_shape(self.graph.shape(self.op.inputs[0]))
        boxes = boxes_between((result, source), memory, move_groups(self.graph, self.op))
        if boxes is None:
            return
        if is_still(boxes, (result, source)):
            yield 0.0, ChipPlan(homes, ())
            return
        legs = [self._leg(box, source.dtype) for box in boxes]
        cycles = sum(each for each, _, _ in legs)
        if sum(count for _, count, _ in legs) > MOST_INSTRUCTIONS:
            return
        step = ChipStep(boxes, tuple(leg for *_, leg in legs))
        yield cycles, ChipPlan(homes, (step,))
        if all(leg == "copy" for leg in step.legs):
            names = list(self.chip.lane_engines) if self.options.drain_engine is None else []
            for count in range(2, min(len(names), MOST_ENGINES) + 1):
                for engines in combinations(names, count):
                    yield cycles * 1.1 / count, ChipPlan(homes, (step,), engines)

    def _leg(self, box: ChipBox, dtype: str) -> tuple[float, int, ChipLeg]:
        """Return about the cycles and the instructions of a box by its best leg."""
        total, found = size(box.modes), list[tuple[float, int, ChipLeg]]()
        if copies := lane_copies(box):
            count = len(copies.firsts)
            found.append((count * (COPY_CYCLES + size(copies.columns)), count, "copy"))
        types = TurnTypes.on(self.chip, dtype)
        if types is not None and not found:
            array = self.chip.pe_array
            bank = self.chip.result_buffer.bank_words
            cycles, count = 0.0, 0
            for each in turns(box.in_parts(types.parts), min(array.rows, bank), array.cols) or ():
                rows, cols = size(each.rows), size(each.cols)
                drains = each.count * size(each.apart)
                words = rows // size(each.apart)
                cycles += max(
                    each.count * max(rows, cols) * array.turn_cycles(types.taken),
                    drains * max(words, COPY_CYCLES),
                )
                count += 2 * each.count + drains
            if count:
                found.append((cycles, count, "turn"))
        count = queue_count(box)
        runs = total * SIZE_BYTES[dtype] / max(1, self.chip.dma.queues)
        found.append((count * QUEUE_CYCLES + 4 * runs, count, "queue"))
        return min(found)

    def written(self, plan: ChipPlan) -> ChipMove | None:
        """Return a plan as instructions; None if it has no room, or the chip lacks one."""
        taken = self._types(plan)
        stage = Stage(
            self.chip, self.options, {}, Drafts(self.chip.access),
            turned=[types.taken for types in taken if types is not None],
        )  # fmt: skip
        placed = self._placed(plan, taken, stage.room)
        if placed is None:
            return None
        firsts, casts = placed
        homes = tuple(
            replace(home, byte=first) for home, first in zip(plan.homes, firsts, strict=True)
        )
        layer = self.op.part_of or self.op.name
        held = [
            HeldHome.of(f"home.{n}", home.byte or 0, home.dtype, home.size_bytes)
            for n, home in enumerate(homes)
        ]
        spans: list[TurnedSpans] = []
        for number, (step, types) in enumerate(zip(plan.steps, taken, strict=True)):
            cast = None
            if types is not None and types.taken != types.given:
                room = self._cast_bytes(homes[number], types)
                cast = HeldHome.of(f"cast.{number}", casts[number], types.taken, room)
            emitter = ChipEmitter(stage, layer, held[number], held[number + 1], cast, plan.engines)
            for box, leg in zip(step.boxes, step.legs, strict=True):
                try:
                    done = emitter.emit(box, leg)
                except CompileError:  # no engine casts
                    done = False
                if not done:
                    return None
                if leg == "turn" and types is not None and not types.keeps_bits(self.chip):
                    spans += self._spans(box)
        if len(stage.drafts.found) > 3 * MOST_INSTRUCTIONS:
            return None
        return ChipMove((homes[0], homes[-1]), tuple(spans), stage, _said(plan), stage.busiest())

    def _types(self, plan: ChipPlan) -> list[TurnTypes | None]:
        return [
            TurnTypes.on(self.chip, home.dtype) if "turn" in step.legs else None
            for home, step in zip(plan.homes, plan.steps, strict=False)
        ]

    def _cast_bytes(self, home: ChipHome, types: TurnTypes) -> int:
        return home.places.columns * types.parts * SIZE_BYTES[types.taken]

    def _spans(self, box: ChipBox) -> Iterator[TurnedSpans]:
        array, bank = self.chip.pe_array, self.chip.result_buffer.bank_words
        for at, spans, terms in turned_memory(box, min(array.rows, bank), array.cols):
            layer = self.op.part_of or self.op.name
            yield TurnedSpans(layer, self.op.inputs[0], at, coalesce(spans), terms)

    def _placed(
        self, plan: ChipPlan, taken: Sequence[TurnTypes | None], room: int
    ) -> tuple[list[int], dict[int, int]] | None:
        """Return the first byte of each home, and of what is cast from each; None without room."""
        sizes = {("home", n): home.size_bytes for n, home in enumerate(plan.homes)}
        fixed = {("home", n): home.byte for n, home in enumerate(plan.homes)}
        ends = (plan.homes[0], plan.homes[-1])
        if any((end.byte or 0) % SIZE_BYTES[end.dtype] for end in ends):
            return None
        if plan.is_still:
            given = next((home.byte for home in plan.homes if home.byte is not None), 0)
            return ([given] * 2, {}) if given + max(sizes.values()) <= room else None
        for number, (home, types) in enumerate(zip(plan.homes, taken, strict=False)):
            if types is not None and types.taken != types.given:
                sizes["cast", number] = self._cast_bytes(home, types)
        bank = whole_banks(self.chip)
        if bank and any(each > bank for each in sizes.values()):
            return None
        firsts = _firsts(self.chip, room, sizes, fixed, middle=bool(plan.engines))
        if firsts is None:
            return None
        homes = [firsts["home", n] for n in range(len(plan.homes))]
        return homes, {n: at for (kind, n), at in firsts.items() if kind == "cast"}


_Key = tuple[str, int]


def _firsts(
    chip: Chip,
    room: int,
    sizes: dict[_Key, int],
    fixed: dict[_Key, int | None],
    *,
    middle: bool,
) -> dict[_Key, int] | None:
    """Return the first bytes of buffers: in banks of their own, or else one behind another.

    middle: each lies with its middle on the edge of two banks.
    """
    given = {key: byte for key, byte in fixed.items() if byte is not None}
    spans = [(byte, byte + sizes[key]) for key, byte in given.items()]
    if any(stop > room for _, stop in spans):
        return None
    if any(one[0] < other[1] and other[0] < one[1] for one, other in combinations(spans, 2)):
        return None
    wanted = [key for key in sizes if key not in given]
    banks = Buffers.of(chip, room)
    for first, stop in spans:
        for number in range(first // banks.bank_bytes, -(-stop // banks.bank_bytes)):
            end = min(stop - number * banks.bank_bytes, banks.bank_bytes)
            banks.taken[number] = max(banks.taken[number], end)
    found = banks.place_all(
        [BufferSize(sizes[key], sizes[key] // 8 * 4 if middle else 0) for key in wanted]
    )
    if found is not None:
        return given | dict(zip(wanted, found[1], strict=True))
    firsts = dict(given)
    for key in wanted:
        size_bytes = -(-sizes[key] // 64) * 64
        at = next(
            (
                at
                for at in sorted({0, *(-(-stop // 64) * 64 for _, stop in spans)})
                if at + sizes[key] <= room
                and not any(at < stop and first < at + size_bytes for first, stop in spans)
            ),
            None,
        )
        if at is None:
            return None
        firsts[key] = at
        spans.append((at, at + size_bytes))
    return firsts


def _said(plan: ChipPlan) -> str:
    """Return a plan in words."""
    source, result = plan.homes[0], plan.homes[-1]
    if plan.is_still:
        return f"{result.tensor} lies where {source.tensor} is, and nothing moves"
    words = {"copy": "copied lane by lane", "turn": "turned by the array", "queue": "copied by DMA"}
    steps = "; ".join(
        ", ".join(f"{step.legs.count(leg)} boxes {words[leg]}" for leg in dict.fromkeys(step.legs))
        for step in plan.steps
    )
    return f"{source.tensor} goes to {result.tensor} on the chip: {steps}"
