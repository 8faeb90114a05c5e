"""Lowering of moves on the chip as relays of words, which the array turns twice.

The compiler chooses which digits of the indices lie in the partitions beside those of the source
while elements are put in order (`ir.word_relays`), and takes the least estimate. Legs of later
bands are queued before those of earlier ones that wait for them, so that no queue stands still. Not
here: which way is cheaper than a relay of words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest

from systolic.compiler.cost.word_order import HALVES, WordPlan, WordStep, word_plan
from systolic.compiler.cost.word_relays import WordTimes, word_times, word_type
from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_places import ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.nodes import Matrix
from systolic.compiler.ir.relays import RelayEnds, relay_ends
from systolic.compiler.ir.windows import DigitWindow, WordWindow
from systolic.compiler.ir.word_relays import (
    WordDigits,
    WordRelay,
    WordTurn,
    digits_in_lanes,
    word_digits,
)
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import SPARE_BYTES, holder_of_places
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip

MOST_PARTS = 256
"""The most parts of all bands that are put in order, each by itself."""


BAND_COLUMNS = 2048
"""The most elements of a partition that are put in order together where they end."""
TRIED = 4
"""Of how many relays the order is worked out, those that could take the fewest cycles."""


@dataclass(frozen=True, slots=True)
class PlacedWords:
    """A relay of words, the tensor's places at home, and the order of its legs."""

    source: ChipPlaces
    result: ChipPlaces
    relay: WordRelay
    plan: WordPlan

    def __str__(self) -> str:
        if self.relay.in_lanes:
            return "over the partitions of the result"
        return "in words that the array turns twice"


def cheapest_word_relay(
    builder: LayerBuilder,
    source: str,
    places: Sequence[tuple[ChipPlaces, ChipPlaces]],
    permutation: Sequence[int] | None,
    most_cycles: float,
) -> PlacedWords | None:
    """Return the relay of words of the least estimate between some places; None without one.

    source: the tensor. permutation: axis i of the result is its axis permutation[i]; None: a
    reshape. most_cycles: how many it may take; what takes more is not worked out.
    """
    chip, dtype = builder.chip, builder.graph.shape(source).element_type
    relays = list[tuple[tuple[ChipPlaces, ChipPlaces], WordRelay, WordTimes]]()
    for both in places:
        ends = relay_ends(*both, permutation)
        if ends is None:
            continue
        for digits in _ways(chip, ends, dtype):
            relay = WordRelay(ends, digits)
            times = None
            if _has_room(chip, relay, dtype):
                times = word_times(chip, builder.options, relay, dtype)
            if times is None or times.least() > most_cycles * chip.period("pe_array"):
                continue
            if all(times != known for _, _, known in relays):
                relays.append((both, relay, times))
    best = None
    for both, relay, times in nsmallest(TRIED, relays, key=lambda some: some[2].least()):
        plan = word_plan(chip, times, best.plan.cycles - 1 if best is not None else most_cycles)
        if plan is not None:
            best = PlacedWords(*both, relay, plan)
    return best


def _ways(chip: Chip, ends: RelayEnds, dtype: str) -> Iterator[WordDigits]:
    """Yield the ways of a relay: in order where elements end, or in words that the array turns."""
    array, p, words = chip.pe_array, block_rows(chip), word_type(chip)
    yield from digits_in_lanes(ends, (p, BAND_COLUMNS))
    many = data_type(words).size_bytes // data_type(dtype).size_bytes if words else 1
    if many > 1:
        most = min(p, array.rows), min(p, array.cols, chip.result_buffer.bank_words)
        yield from word_digits(ends, many, most)


def _has_room(chip: Chip, relay: WordRelay, dtype: str) -> bool:
    """Return whether all places have room together, and the parts are not too many."""
    bands, parts = len(relay.bands()), len(relay.parts())
    together, in_order, turned = relay.sizes
    columns = relay.ends.source.columns + relay.ends.result.columns
    columns += bands * (together if relay.digits.beside else 0)
    columns += 0 if relay.in_lanes else bands * (turned + parts * in_order)
    room = chip.state_buffer.bytes_per_partition
    return (
        bands * parts <= MOST_PARTS and columns * data_type(dtype).size_bytes + SPARE_BYTES <= room
    )


def emit_word_relay(builder: LayerBuilder, names: tuple[str, str], placed: PlacedWords) -> None:
    """Place source and result, and add the legs of all bands."""
    source = holder_of_places(builder, names[0], placed.source, "state_buffer")
    result = holder_of_places(builder, names[1], placed.result, "node")
    count = len(placed.relay.bands())
    builder.choose(
        f"{names[0]} goes to {names[1]} {placed}, in {count} band{'s' if count > 1 else ''} (about "
        f"{placed.plan.cycles} cycles)"
    )
    emit_words(builder, names[1], placed, source, result)
    builder.keep_matrix(names[1], result, result.axes)


def emit_words(
    builder: LayerBuilder, tensor: str, placed: PlacedWords, source: Matrix, result: Matrix
) -> None:
    """Add the legs of all bands between two matrices of all places, each one tile."""
    _Emitter(builder, placed.relay, tensor, source, result).emit(placed.plan)


def _half_by_half(leg: ChangeOfView | None, band: int) -> ChangeOfView | None:
    """Return a leg that begins in one half of the source, and the next band's in the other."""
    if leg is None:
        return None
    first = len(leg.given) // HALVES * (band % HALVES)
    return replace(leg, given=(*leg.given[first:], *leg.given[:first]))


@dataclass(slots=True)
class _Emitter:
    """Adds the nodes of a relay of words between two holders."""

    builder: LayerBuilder
    relay: WordRelay
    tensor: str
    source: Matrix
    result: Matrix

    def emit(self, plan: WordPlan) -> None:
        """Add the legs of all bands in the order of a plan."""
        relay = self.relay
        bands, parts, back = relay.bands(), relay.parts(), relay.columns_back()
        turned_rows = 0 if relay.in_lanes else relay.turned(parts[0]).cols
        beside, in_order = dict[int, Matrix](), dict[tuple[int, int], Matrix]()
        turned = dict[int, Matrix]()
        for step in plan.steps:
            band, part = step.band, step.part
            if step.kind == "bring":
                leg = _half_by_half(relay.brought(bands[band]), band)
                beside[band] = self._moved(self.source, leg, step, step.place)
            elif step.kind == "order" and relay.in_lanes:
                self._ordered_at_home(beside[band], relay.at_home(bands[band]), step)
            elif step.kind == "order":
                leg = relay.ordered(bands[band], parts[part])
                held = beside.get(band, self.source)
                in_order[band, part] = self._moved(held, leg, step, 2 + step.ports[0] % 2)
            elif step.kind == "order all":
                held = beside.get(band, self.source)
                leg = relay.all_ordered(bands[band])
                in_order[band, 0] = self._moved(held, leg, step, 2 + step.ports[0] % 2)
            elif step.kind == "send":
                made = in_order[band, 0]
                self.builder.node("move", (made,), self.result, relay.sent(bands[band]))
            elif step.kind == "turn":
                if band not in turned:
                    turned[band] = self._between(turned_rows, relay.sizes[2], 4)
                turn = relay.turned(parts[part])
                self._turn(in_order[band, part], turned[band], turn, step.engine)
            else:
                turn = relay.turned_back(bands[band], back[part])
                self._turn(turned[band], self.result, turn, step.engine)

    def _ordered_at_home(self, held: Matrix, change: ChangeOfView | None, step: WordStep) -> None:
        assert change is not None
        change = replace(change, engine=step.engine, ports=step.ports * len(change.given))
        self.builder.node("move", (held,), self.result, change)

    def _moved(
        self, held: Matrix, change: ChangeOfView | None, step: WordStep, bank: int
    ) -> Matrix:
        assert change is not None
        _, rows, cols = change.target.sizes()
        made = self._between(rows, cols, bank)
        change = replace(change, engine=step.engine, ports=step.ports)
        self.builder.node("move", (held,), made, change)
        return made

    def _between(self, rows: int, cols: int, bank: int) -> Matrix:
        builder, dtype = self.builder, self.source.dtype
        block = block_rows(builder.chip), cols
        name = builder.new_name(self.tensor)
        return builder.add(
            Matrix(
                name, self.tensor, dtype, (), rows, cols, ((), ()), "node", block=block, bank=bank
            )
        )

    def _turn(self, held: Matrix, made: Matrix, turn: WordTurn, engine: str) -> None:
        before = self._words(held, turn.source, (turn.rows, turn.cols))
        after = self._words(made, turn.result, (turn.cols, turn.rows))
        self.builder.node("turn", (before,), after, engine=engine)

    def _words(self, holder: Matrix, window: DigitWindow, sides: tuple[int, int]) -> Matrix:
        """Return words of a holder as a matrix."""
        words = word_type(self.builder.chip)
        assert words is not None
        within = replace(window, holder=holder.name)
        found = self.builder.at_digits(holder, within, *sides)
        seen = WordWindow(self.relay.digits.element.size, words, within)
        return self.builder.add(replace(found, dtype=words, window=seen))
