"""Instructions of a move on the chip: copies by engines, turns by the array, copies by DMA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from systolic.compiler.cost.engines import engine_cycles, engines_able
from systolic.compiler.cost.turns import turns_copied_together
from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.lane_step import COPY
from systolic.compiler.ir.on_chip.chip_places import LANE
from systolic.compiler.places.modes import Mode, Modes, size
from systolic.compiler.streams.emit_turned import TurnTypes
from systolic.compiler.streams.on_chip.legs import (
    MEMORY,
    RESULT,
    SOURCE,
    ChipBox,
    LaneCopies,
    PlaceOnSides,
    Turns,
    by_four,
    cut_mode,
    lane_copies,
    queue_copies,
    starts,
    turns,
)
from systolic.compiler.streams.stage import Stage
from systolic.compiler.streams.tiling import pairs_of
from systolic.hw.datatypes import PSUM_WORD_BYTES, SIZE_BYTES, data_type
from systolic.isa import Access, Buffer, Copy, LoadWeights, MatMul, PassThrough
from systolic.spans import Interval

ChipLeg = Literal["copy", "turn", "queue"]
PIECES = 16
"""In how many pieces of its bytes a buffer's users are told apart."""


class HeldHome(NamedTuple):
    """A home while instructions are made: its first byte, its elements' type, its users."""

    first: int
    dtype: str
    region: Region

    @classmethod
    def of(cls, name: str, first: int, dtype: str, size_bytes: int) -> HeldHome:
        """Return a home that takes `size_bytes` of each partition, from byte `first` on."""
        piece = max(64, size_bytes // PIECES)
        place = Interval(first, first + size_bytes)
        return cls(first, dtype, Region(name, place=place, piece_bytes=piece))

    def access(self, place: int, lanes: int, pairs: Sequence[tuple[int, int]]) -> Access:
        """Return the access to columns of some lanes from a place on."""
        lane, column = divmod(place, LANE)
        start = self.first + column * SIZE_BYTES[self.dtype]
        return Access(Buffer.STATE, self.dtype, lane, lanes, start, pairs_of(pairs))

    def seen_as(self, dtype: str) -> HeldHome:
        """Return the same bytes as elements of another type."""
        return self._replace(dtype=dtype)


@dataclass(slots=True)
class ChipEmitter:
    """Emits the legs of a move from `source` to `result`; cast: room for what engines cast.

    engines: those that share each copy; none: each copy has an engine.
    """

    stage: Stage
    layer: str
    source: HeldHome
    result: HeldHome
    cast: HeldHome | None = None
    engines: tuple[str, ...] = ()

    def emit(self, box: ChipBox, leg: ChipLeg) -> bool:
        """Add the instructions of a box; return whether the chip has all of them."""
        if leg == "copy":
            found = lane_copies(box)
            return found is not None and self._copy(found)
        if leg == "turn":
            return self._turn(box)
        self._queue(box)
        return True

    def _copy(self, copies: LaneCopies) -> bool:
        chip = self.stage.chip
        for at in copies.firsts:
            ends = self._ends(at, copies.rows, copies.columns)
            whole = Copy(engine="", source=ends["source"], target=ends["target"])
            able = engines_able(chip, whole)
            if not able or any(name not in able for name in self.engines):
                return False
            speeds = [
                1 / (engine_cycles(chip, name, replace(whole, engine=name)) * chip.period(name))
                for name in self.engines
            ]
            for name, first, columns in shared(at, copies.columns, self.engines, speeds):
                named = self._ends(first, copies.rows, columns)
                regions = [self.source.region], self.result.region
                self.stage.on_engine(self.layer, COPY, named, *regions, wanted=name)
        return True

    def _ends(self, at: PlaceOnSides, rows: int, columns: Sequence[Mode]) -> dict[str, Access]:
        return {
            name: held.access(at[side], rows, [(m.steps[side], m.extent) for m in columns])
            for name, held, side in (
                ("source", self.source, SOURCE),
                ("target", self.result, RESULT),
            )
        }

    def _queue(self, box: ChipBox) -> None:
        copies, queues = queue_copies(box), range(self.stage.chip.dma.queues)
        for at in copies.firsts:
            here, there = (
                held.access(
                    at[side],
                    copies.lanes[side],
                    [(m.steps[side], m.extent) for m in copies.patterns[side]],
                )
                for held, side in ((self.source, SOURCE), (self.result, RESULT))
            )
            self.stage.copy(
                self.layer, queues, (here, there), (self.source.region, self.result.region)
            )

    def _turn(self, box: ChipBox) -> bool:
        chip = self.stage.chip
        types = TurnTypes.on(chip, self.source.dtype)
        if types is None:
            return False
        box = box.in_parts(types.parts)
        array = chip.pe_array
        found = turns(box, min(array.rows, chip.result_buffer.bank_words), array.cols)
        if found is None:
            return False
        source = self.source.seen_as(types.given)
        if types.taken != types.given:
            assert self.cast is not None
            self._cast(found, source, self.cast)
            source = self.cast
        return all(self._turned(each, types, source) for each in found)

    def _turned(self, turned: Turns, types: TurnTypes, source: HeldHome) -> bool:
        """Turn all of a rectangle; some turns that follow one another are copied out together."""
        chip, stage, taken = self.stage.chip, self.stage, types.taken
        rows, cols = size(turned.rows), size(turned.cols)
        passes = chip.pe_array.turns_by_passing(taken)
        made = taken if passes else data_type(taken).accumulator
        identity, held = stage.identity(taken)
        *outer, inner = turned.inside or (Mode(1, (0, 0, 0)),)
        most = min(
            turns_copied_together(chip, stage.options, taken, rows, cols),
            chip.result_buffer.bank_words // rows,
        )
        words = [(mode, step) for mode, step in turned.words() if mode not in turned.apart]
        apart = [(mode, step) for mode, step in turned.words() if mode in turned.apart]
        if len(pairs_of([(1 << 20, 2), *((m.steps[RESULT], m.extent) for m, _ in words)])) > 4:
            most = 1
        result = self.result.seen_as(types.given)
        for begin in starts(turned.at, outer):
            for at, some in cut_mode(begin, inner, most):
                region, bank = stage.bank()
                for number, first in enumerate(starts(at, (some,))):
                    weights = source.access(first[SOURCE], rows, turned.taken())
                    stage.drafts.begin(self.layer)
                    stage.drafts.add(LoadWeights(weights=weights), [source.region], [])
                    ones = Access(Buffer.STATE, taken, 0, rows, identity.start, ((1, rows),))
                    start = bank + number * rows * PSUM_WORD_BYTES
                    sums = Access(Buffer.RESULT, made, 0, cols, start, ((1, rows),))
                    kind = PassThrough if passes else MatMul
                    stage.drafts.add(kind(moving=ones, result=sums), [held], [region])
                together = [(rows, inner.steps[RESULT], some.extent)]
                modes = [*together, *((step, m.steps[RESULT], m.extent) for m, step in words)]
                for there in starts((at[RESULT], 0), [_drained(each) for each in apart]):
                    source_words = pairs_of([(step, count) for step, _, count in modes])
                    read = Access(
                        Buffer.RESULT,
                        made,
                        0,
                        cols,
                        bank + there[1] * PSUM_WORD_BYTES,
                        source_words,
                    )
                    target = result.access(there[0], cols, [(to, n) for _, to, n in modes])
                    named = {"source": read, "target": target}
                    if not engines_able(chip, Copy(engine="", source=read, target=target)):
                        return False
                    stage.on_engine(self.layer, COPY, named, [region], result.region)
        return True

    def _cast(self, found: Sequence[Turns], source: HeldHome, there: HeldHome) -> None:
        """Cast what is turned to the type that the array takes, at the same columns."""
        for turned in found:
            columns = sorted((*turned.inside, *turned.cols), key=lambda m: -m.steps[SOURCE])
            kept, looped = by_four(columns)
            for begin in starts(turned.at, looped):
                for at, some in _in_casts(begin, kept, CASTS if len(looped) < 2 else 1):
                    pairs = [(mode.steps[SOURCE], mode.extent) for mode in some]
                    named = {
                        name: held.access(at[SOURCE], size(turned.rows), pairs)
                        for name, held in (("source", source), ("target", there))
                    }
                    self.stage.on_engine(self.layer, COPY, named, [source.region], there.region)


FAIR = 1.15
"""A mode is shared by speed if no engine has more than this many times its share."""
CASTS = 4
"""In how many instructions a rectangle is cast, so that several engines share it."""


def _in_casts(at: PlaceOnSides, columns: Modes, casts: int) -> Iterator[tuple[PlaceOnSides, Modes]]:
    outermost, *others = columns
    for begin, some in stretches(at, outermost, [1] * min(casts, outermost.extent)):
        yield begin, (some, *others)


def _drained(each: tuple[Mode, int]) -> Mode:
    mode, step = each
    return Mode(mode.extent, (mode.steps[RESULT], step))


def shared(
    at: PlaceOnSides, columns: Modes, engines: Sequence[str], speeds: Sequence[float]
) -> Iterator[tuple[str, PlaceOnSides, Modes]]:
    """Yield the engine, the first element and the columns of each share of a copy ("": any).

    Each engine writes one stretch of the result, and of the source it reads another one each time,
    so that engines have ports of their own.
    """
    count = len(engines)
    able = [mode for mode in columns if mode.extent >= count]
    if count < 2 or not able:
        yield "", at, columns
        return
    there, here = (
        max(able, key=lambda mode: (_is_fair(mode, weights), mode.steps[side]))
        for side, weights in ((RESULT, speeds), (SOURCE, [1] * count))
    )
    mine = list(zip(engines, stretches(at, there, speeds), strict=True))
    if there == here:
        for name, (begin, some) in mine:
            yield name, begin, _with(columns, there, some)
        return
    for turn in range(count):
        for number, (name, (begin, some)) in enumerate(mine):
            theirs = list(stretches(begin, here, [1] * count))
            start, other = theirs[(number + turn) % count]
            yield name, start, _with(_with(columns, there, some), here, other)


def _is_fair(mode: Mode, weights: Sequence[float]) -> bool:
    parts = [some.extent for _, some in stretches((0,) * len(mode.steps), mode, weights)]
    shares = zip(parts, weights, strict=True)
    return all(part * sum(weights) <= FAIR * mode.extent * weight for part, weight in shares)


def _with(columns: Modes, mode: Mode, other: Mode) -> Modes:
    return tuple(other if each == mode else each for each in columns)


def stretches(
    at: PlaceOnSides, mode: Mode, weights: Sequence[float]
) -> Iterator[tuple[PlaceOnSides, Mode]]:
    """Yield the indices of a mode in stretches by weight, none of them empty."""
    left, first = mode.extent, 0
    for number, weight in enumerate(weights):
        after = len(weights) - number - 1
        some = round(left * weight / sum(weights[number:]))
        some = left if not after else max(1, min(some, left - after))
        begin = tuple(n + first * step for n, step in zip(at, mode.steps, strict=True))
        yield begin, mode._replace(extent=some)
        left, first = left - some, first + some


def turned_memory(box: ChipBox, rows: int, cols: int) -> Iterator[tuple[int, Modes, Modes]]:
    """Yield (first element, spans, terms) of what products with an identity turn of a box.

    In elements of the first tensor's memory: `terms` are summed with one another.
    """
    for turned in turns(box, rows, cols) or ():
        spans, terms = (
            tuple(Mode(mode.extent, mode.steps[MEMORY:]) for mode in modes)
            for modes in ((*turned.inside, *turned.cols), turned.rows)
        )
        yield turned.at[MEMORY], spans, terms
