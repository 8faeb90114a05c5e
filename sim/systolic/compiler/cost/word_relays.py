"""What the legs of a relay of words take: copies by each engine, and turns by the array."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from systolic.compiler.cost.dma import inside_cycles
from systolic.compiler.cost.engines import engine_cycles, in_best_words, lane_copy_engines
from systolic.compiler.ir.change_of_view import ChangeOfView, Piece
from systolic.compiler.ir.word_relays import WordRelay, WordTurn
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import load_reads, result_cycles, turn_interval_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import Pattern
from systolic.workload.options import Options


class TurnTicks(NamedTuple):
    """What a turn takes, in ticks.

    load: to read its words. each: from one turn to the next. until: from its first vector until all
    is in the result buffer. taken: of each engine that can take it out of there.
    """

    load: int
    each: int
    until: int
    taken: dict[str, int]


NO_TURN = TurnTicks(0, 0, 0, {})
"""Elements are put in order where they end."""


class WordTimes(NamedTuple):
    """What all legs take, in ticks: copies of each engine that can make them, and turns.

    parts, columns: of each band, that are turned by themselves, and turned back (no columns:
    elements are put in order where they end). halves: in which bank of the source each band lies.
    ends: in which one of the result, if it is put in order there. pieces: of each band, the banks
    of the pieces that are brought. order_all: copies of a whole band. send: what DMA takes to send
    it, and the latency that it waits before (none: it cannot). seen: of each engine, until what it
    has written can be used.
    """

    parts: int
    columns: int
    halves: tuple[int, ...]
    ends: tuple[int, ...]
    pieces: tuple[tuple[int, ...], ...]
    bring: dict[str, int]
    order: dict[str, int]
    turn: TurnTicks
    back: TurnTicks
    order_all: dict[str, int]
    send: tuple[int, int] | None
    seen: dict[str, int]

    @property
    def engines(self) -> tuple[str, ...]:
        """Return all engines that have a part in it."""
        return tuple(dict.fromkeys((*self.bring, *self.order, *self.turn.taken)))

    def least(self) -> int:
        """Return the ticks that the array takes at least, or all engines together."""
        turn, back = (min(some.taken.values(), default=0) for some in (self.turn, self.back))
        work = self.parts * (min(self.order.values()) + turn) + self.columns * back
        work += min(self.bring.values(), default=0)
        array = self.parts * self.turn.each + self.columns * self.back.each
        return len(self.halves) * max(array, work // len(self.engines))


def word_type(chip: Chip) -> str | None:
    """Return the widest type whose bits the array passes on as they are; None if there is none."""
    array = chip.pe_array
    passed = [dtype for dtype in array.pass_through if array.turns_by_passing(dtype)]
    return max(passed, key=lambda dtype: data_type(dtype).size_bytes, default=None)


def word_times(chip: Chip, options: Options, relay: WordRelay, dtype: str) -> WordTimes | None:
    """Return what the legs of a relay of words take; None if an engine cannot copy one."""
    bands, parts, columns = relay.bands(), relay.parts(), relay.columns_back()
    order = relay.at_home(bands[0]) if relay.in_lanes else relay.ordered(bands[0], parts[0])
    bring = relay.brought(bands[0]) if relay.digits.beside else None
    if order is None or (relay.digits.beside and bring is None):
        return None
    copies = [_of_engines(chip, options, leg, dtype) for leg in (bring, order) if leg is not None]
    if not all(copies):
        return None
    ends = tuple(half for band in bands if (half := relay.end_half(band)) is not None)
    if relay.in_lanes and len(ends) < len(bands):
        return None  # engines would meet where a band in both halves is written
    turn, back, order_all, send = NO_TURN, NO_TURN, dict[str, int](), None
    if not relay.in_lanes:
        words = word_type(chip)
        assert words is not None
        turns = relay.turned(parts[0]), relay.turned_back(bands[0], columns[0])
        turn, back = (turn_ticks(chip, options, turn, words) for turn in turns)
        if not turn.taken:
            return None
        order_all, send = _of_dma(chip, options, relay, dtype)
    return WordTimes(
        len(parts),
        0 if relay.in_lanes else len(columns),
        tuple(map(relay.half, bands)),
        ends if relay.in_lanes else (),
        tuple(relay.halves_of(bring, band) for band in bands) if bring is not None else (),
        copies[0] if bring is not None else {},
        copies[-1],
        turn,
        back,
        order_all,
        send,
        {name: _seen(chip, name) for name in chip.lane_engines},
    )


def _seen(chip: Chip, name: str) -> int:
    return (chip.engine(name).latency_cycles + chip.post_cycles(name)) * chip.period(name)


def _of_dma(
    chip: Chip, options: Options, relay: WordRelay, dtype: str
) -> tuple[dict[str, int], tuple[int, int] | None]:
    """Return the ticks for putting a whole band in order, and for sending it.

    Queues that move the parts of one band meet at its port.
    """
    band = relay.bands()[0]
    order, sent = relay.all_ordered(band), relay.sent(band)
    if order is None or sent is None or len(order.given) > 1:
        return {}, None
    found, size, latency = _of_engines(chip, options, order, dtype), 0, chip.dma.latency_cycles
    for piece in sent.given:
        run = piece.run * data_type(dtype).size_bytes
        runs = piece.rows * piece.columns // piece.run
        size += inside_cycles(chip, runs, run, piece.rows) - latency
    if not found:
        return {}, None
    return found, (size * chip.period("dma"), latency * chip.period("dma"))


def _of_engines(chip: Chip, options: Options, leg: ChangeOfView, dtype: str) -> dict[str, int]:
    """Return the ticks in which each engine copies all pieces of a leg, if it can."""
    found: dict[str, int] = {}
    for name in chip.lane_engines:
        each = [_copy_ticks(chip, options, name, piece, dtype) for piece in leg.given]
        if all(each):
            found[name] = sum(each)
    return found


def _copy_ticks(chip: Chip, options: Options, name: str, piece: Piece, dtype: str) -> int:
    """Return the ticks in which an engine copies a piece; 0 if it cannot."""
    if piece.source_rows != piece.rows:
        return 0
    size = data_type(dtype).size_bytes
    out_of, into = piece.source_col * size, piece.col * size
    source = Access(Buffer.STATE, dtype, piece.source_row, piece.rows, out_of, piece.pairs)
    target = Access(Buffer.STATE, dtype, piece.row, piece.rows, into, piece.into)
    return _ticks(chip, options, Copy(engine=name, source=source, target=target))


def _ticks(chip: Chip, options: Options, copy: Copy) -> int:
    """Return the ticks from a copy to the next of its engine; 0 if the engine may not make it."""
    chosen = options.drain_engine in (None, copy.engine)
    if not chosen or copy.engine not in lane_copy_engines(chip, copy):
        return 0
    if copy.source.buffer is Buffer.STATE:
        copy = in_best_words(chip, copy)
    least = chip.engine(copy.engine).min_interval_cycles
    return max(engine_cycles(chip, copy.engine, copy), least) * chip.period(copy.engine)


def turn_ticks(
    chip: Chip, options: Options, turn: WordTurn, words: str, into: Pattern = ()
) -> TurnTicks:
    """Return what a turn of words of a type takes.

    into: where they lie in a partition of the result (none: side by side).
    """
    period, rows, cols = chip.period("pe_array"), turn.rows, turn.cols
    each = turn_interval_cycles(chip, rows, cols, words, is_pass_through=True)
    until = rows * chip.pe_array.turn_cycles(words) + result_cycles(chip, cols)
    until += chip.post_cycles("pe_array")
    source = Access(Buffer.RESULT, words, 0, cols, 0, ((1, rows),))
    target = replace(source, buffer=Buffer.STATE, pattern=into or source.pattern)
    copies = (Copy(engine=name, source=source, target=target) for name in chip.lane_engines)
    taken = {copy.engine: ticks for copy in copies if (ticks := _ticks(chip, options, copy))}
    load = load_reads(chip, rows, cols, words)
    return TurnTicks(load * period, each * period, until * period, taken)
