"""Lower bounds of moves that take neighbours apart: how many writes that needs, and how long.

Elements that lie side by side after a move, and lay apart before it, have been brought together by
some write. A write is one descriptor of DMA, or one element that a lane of an engine writes. What
it writes was side by side where it was read, so it keeps the elements in it together, and it has
two ends. Elements that lay side by side before a move may be parted without an end between them:
two long copies that overlap do it, where their other elements are padding or are written over. Not
here: which elements of a tensor those are (`systolic.compiler.bounds.neighbours`). Source:
docs/bounds.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from systolic.hw.formulas.engines import copiers, lead_cycles, serial_cycles, word_rates
from systolic.hw.formulas.products import descriptor_of_element_cycles
from systolic.hw.formulas.ticks import UnitRate, least_end
from systolic.hw.formulas.timing import Bound, descriptor_cycles, first_byte, largest, last_byte
from systolic.hw.spec import Chip

GROUPS = (2, 3, 4, 8, 16, 32, 64)
"""The sizes of groups for which a bound is worked out; any other would do as well."""

ENDS_IN_WORDS = {1: 3, 2: 2}
"""How many writes of engines a descriptor saves besides what it moves, of elements of one or two
bytes that share words."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Units of elements that lie side by side after a move, and apart before it.

    lengths: (units in a line, how many such lines). unit_bytes: of a unit, which stays together.
    reach: units of a line that are fewer than so many places apart were not as many places apart.
    """

    lengths: tuple[tuple[int, int], ...]
    unit_bytes: int
    reach: int

    @property
    def neighbours(self) -> int:
        """Return how many pairs of neighbours must be brought together."""
        return sum((length - 1) * count for length, count in self.lengths)

    def groups(self, size: int) -> int:
        """Return into how many groups of so many units the lines can be cut."""
        return sum(length // size * count for length, count in self.lengths)

    def written_apart(self) -> Iterator[tuple[int, int]]:
        """Yield (n, e): n units at least are written by engines, but for e of each descriptor.

        By groups and by lines, for each size of a group (`parted_bound`).
        """
        for size in GROUPS:
            if size <= self.reach:
                yield self.groups(size) * (size - 1), 2 * (size - 1)
                yield self.neighbours * (size - 1) // size, size - 1


def parted_bound(chip: Chip, lines: Lines, *, outside: bool) -> Bound:
    """Return the least time in which the neighbours of lines meet; outside: from DRAM to DRAM.

    *Two neighbours.* Follow both of them back through all writes. As long as one write brought both
    they were side by side, so at some time they came by two writes, or one of them lay there. The
    later write put its element beside the other, which it left alone, so an end of what it wrote
    lies between the two. An end lies between two places, so it joins one pair. Hence

        pairs <= 2 * (descriptors + elements written by engines)

    *A group of g units*, none of which was as far from another as it is. Let m of them be written
    by DMA only. Two of these that follow one another came by two descriptors, likewise, and between
    them lies an end of the later one, when they were less than g places apart. So an end lies
    between fewer than g such pairs of all groups, and the sum of m - 1 over all groups is at most
    2 * (g - 1) * descriptors. All other units are written by an engine once at least. Hence

        groups * (g - 1) <= units written by engines + 2 * (g - 1) * descriptors

    *Lines.* Of the units of a line that DMA alone moves, take each with the next. An end lies
    between no more than d such pairs whose units are d places apart or fewer: the first of each is
    among the d units in front of the end. So with n_d pairs that are d places apart, n_1 + ... +
    n_d <= 2 * d * descriptors. The sum of n_d * (g - d) over all d < g is that of n_1 + ... + n_d,
    hence no more than g * (g - 1) * descriptors. All distances in a line are its neighbours at
    most, so that in all lines n_d * d come to no more than `neighbours`, and the pairs to no more
    than neighbours / g + (g - 1) * descriptors. In a line one unit more than there are pairs is
    moved by DMA alone. Hence

        neighbours * (g - 1) / g <= units written by engines + (g - 1) * descriptors

    Engines write words of up to four bytes, so that a write may be of several units. The array is
    no way around: its results are written by engines, or by DMA where it reads them. Where DMA
    transposes, it writes units at its full rate, and each element of the smallest that it
    transposes has two ends. From DRAM an engine begins behind the first copy, and is done before
    the last. Not counted are programs that calculate one word out of several.
    """
    found = [_ended(chip, lines.neighbours, _writes(chip, lines, None, outside=outside))]
    for amount, ends in lines.written_apart():
        found.append(_ended(chip, amount, _writes(chip, lines, ends, outside=outside)))
    return largest(found)


def shared_bound(chip: Chip, lines: Lines, elements: int) -> Iterator[Bound]:
    """Yield the least times of elements that share words; none if DMA turns some.

    lines: of elements of one or two bytes. By `systolic.compiler.bounds.own_writes`

        elements <= writes of engines + elements that DMA moves / 2
                    + elements that DMA alone moves / 2 + ends * descriptors

    with the ends of `ENDS_IN_WORDS`, and an element that DMA moves again counted again.
    `parted_bound` says how many DMA alone moves: all but groups * (g - 1), and 2 * (g - 1) more for
    each descriptor, or all but neighbours * (g - 1) / g, and g - 1 more.
    """
    if chip.dma.transposes is not None or chip.result_buffer.dma_readable:
        return
    for others, ends in lines.written_apart():
        each = ENDS_IN_WORDS[lines.unit_bytes] + Fraction(ends, 2)
        moved = _moved_in_words(chip, lines.unit_bytes, each)
        yield _ended(chip, (elements + others) // 2, [*_word_writes(chip), moved])


def _word_writes(chip: Chip) -> Iterator[UnitRate]:
    """Yield the writes of engines, in any lane."""
    for unit, engine in copiers(chip, "state_buffer").items():
        words, _ = word_rates(engine, chip.port_width_bytes)
        behind = lead_cycles(engine, "state_buffer") + engine.latency_cycles + 1
        yield UnitRate(chip.period(unit), chip.state_buffer.partitions * words, behind)


def _moved_in_words(chip: Chip, size_bytes: int, ends: Fraction) -> UnitRate:
    """Return what DMA does of a sum in which two elements count one, and a descriptor `ends`.

    A queue that fetches a descriptor before its bytes move does one or the other in a cycle.
    """
    dma = chip.dma
    moving = Fraction(dma.engine_count * dma.bytes_per_cycle, 2 * size_bytes)
    rate = moving + _descriptors(chip) * ends
    by_turns = dma.descriptor_cost == "sum" and not dma.is_spread and dma.most_beside == 1
    if by_turns and dma.descriptor_cycles and chip.dram.organisation is None:
        rate = max(moving, dma.queues * ends / dma.descriptor_cycles)
    return UnitRate(chip.period("dma"), rate, serial_cycles(dma) + dma.latency_cycles + 1)


def _ended(chip: Chip, amount: int, ways: Iterable[UnitRate]) -> Bound:
    ticks = least_end(0, amount, list(ways))
    return Bound(ticks, "elements that are taken apart", chip.period("pe_array"))


def _writes(chip: Chip, lines: Lines, ends: int | None, *, outside: bool) -> Iterator[UnitRate]:
    """Yield what engines and DMA do of a sum: a descriptor counts `ends` (None: of pairs)."""
    lanes, dma = chip.state_buffer.partitions, chip.dma
    around = first_byte(chip) + last_byte(chip, 0) if outside else 0
    for unit, engine in copiers(chip, "state_buffer").items():
        words, size_bytes = word_rates(engine, chip.port_width_bytes)
        rate = 2 * words if ends is None else Fraction(size_bytes, lines.unit_bytes)
        behind = lead_cycles(engine, "state_buffer") + engine.latency_cycles + 1
        yield UnitRate(chip.period(unit), lanes * rate, behind + around // chip.period(unit))
    each = 2 if ends is None else ends
    rates = [_descriptors(chip) * each]
    if dma.transposes is not None:
        size = min(dma.transposes.element_bytes) if ends is None else lines.unit_bytes
        writes = Fraction(dma.engine_count * dma.bytes_per_cycle, size)
        rates.append(2 * writes if ends is None else writes)
    if chip.result_buffer.dma_readable:
        rates.append(rates[0] + chip.pe_array.cols * each)
    behind = serial_cycles(dma) + dma.latency_cycles + 1
    yield UnitRate(chip.period("dma"), max(rates), behind)


def _descriptors(chip: Chip) -> Fraction:
    """Return the most descriptors that all queues move in a cycle of DMA.

    With several bursts in hand a queue may have some in every channel of DRAM, but all queues
    together no more than the buses take: a burst each at a time. What stays on the chip is moved
    one after another by each queue.
    """
    dma, parts = chip.dma, chip.dram.organisation
    found = dma.queues / Fraction(descriptor_of_element_cycles(chip, 1))
    if parts is None or parts.outstanding == 1:
        return found
    _, burst_cycles = chip.burst_cycles(in_state=False)
    on_chip = dma.queues / Fraction(descriptor_cycles(chip, 1, dma.most_beside)) * dma.most_beside
    return min(found, Fraction(parts.channels, burst_cycles) + on_chip)
