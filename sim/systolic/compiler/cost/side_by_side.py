"""Copies that several engines make side by side, each at ports of its own.

An engine reads and writes an element of each lane in a cycle, and a bank has one port for reads and
one for writes. So two engines are no faster together than one, unless they are in different banks
at all times, of the source and of the target. A copy whose source and target lie in several banks
each is cut into parts for that: engine n writes the n-th stretch of the target, and each time reads
another stretch of the source. Example of two engines: they take (source 0 to target 0) and (1 to
1), then (1 to 0) and (0 to 1). Engines of less than an access in a cycle can share a stretch. What
lies across the end of a bank, or is left of equal stretches, is copied last, and shared in turn.
Not here: where tiles lie (`place`), and the parts themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, combinations, pairwise, product

from systolic.compiler.cost.engines import engine_cycles, in_best_words, lane_copy_engines
from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.compiler.ir.access_cuts import faults_left
from systolic.compiler.ir.copy_cuts import CopyDigits, copy_digits
from systolic.hw.spec import Chip
from systolic.isa import Access, Copy
from systolic.isa.engines import pace_of
from systolic.spans import Span

LEAST_CYCLES = 512
"""Copies that take so few cycles of the array are not shared: each part waits for a latency."""
GAIN = 1.1
"""A copy is shared if one engine alone takes this many times the estimate of all."""
MOST_ENGINES = 3
ENGINES = 2
STEP_BYTES = 64
"""Most rows of a target are so far apart, or a part of it, so that none is cut."""

Sharers = tuple[tuple[str, ...], ...]
"""Engines that share a copy, in a group for each stretch of the target."""
Some = tuple[tuple[int, Span], ...]
"""A part of a copy: numbers of digits, and the values that the part has of each."""


AtOnce = list[tuple[str, Some]]
"""What engines copy at the same time."""


def side_by_side(chip: Chip, copy: Copy) -> tuple[Copy, ...]:
    """Return the parts of a copy in the order in which engines begin them, or the copy alone.

    A copy stays alone if it is short, or if its source or its target lies in one bank.
    """
    return _shared(chip, copy)[1]


def _shared(chip: Chip, copy: Copy) -> tuple[float, tuple[Copy, ...]]:
    """Return about how many ticks a copy takes, and its parts.

    Where no engine has rules for its first partition, copies that differ in that alone are one
    form, which is worked out once.
    """
    if not chip.access.are_none:
        return _worked_out(chip, copy)
    ticks, parts = LAST_CHIP.of(_worked_out, chip, _from(copy, 0, 0))
    lanes = copy.source.partition, copy.target.partition
    return ticks, tuple(_from(part, *lanes) for part in parts)


def _from(copy: Copy, source: int, target: int) -> Copy:
    """Return a copy from and to other first partitions."""
    return replace(
        copy,
        source=replace(copy.source, partition=source),
        target=replace(copy.target, partition=target),
    )


def _worked_out(chip: Chip, copy: Copy) -> tuple[float, tuple[Copy, ...]]:
    alone, found = _ticks(chip, copy), tuple[Copy, ...]([copy])
    if alone <= LEAST_CYCLES * chip.period("pe_array"):
        return alone, found
    if any(
        len(_banks(side, chip.state_buffer.bank_bytes)) == 1 for side in (copy.source, copy.target)
    ):
        return alone, found
    whole = copy_digits(copy)
    if whole is None:
        return alone, found
    best = alone / GAIN
    for groups in _groups(lane_copy_engines(chip, copy)):
        sharing = _Sharing(chip, whole, groups)
        for ticks, parts in sharing.ways():
            if ticks < best:
                best, found = ticks, parts
    return (alone if len(found) == 1 else best), found


def bytes_of_first(chip: Chip, size_bytes: int) -> int:
    """Return how many bytes of a target the first of two engines writes, and the other the rest.

    Each has as many as it is fast, in steps of `STEP_BYTES`. The engine that wins ports has rather
    too many: if it ended first, it would come to the banks of the other one, which would wait
    there. Half of them if the chip has not two engines: which ones share a copy is not known then.
    """
    engines = [(name, chip.period(name), engine) for name, engine in chip.lane_engines.items()]
    speeds = [Fraction(each.elements_per_cycle, period) for _, period, each in engines]
    if len(engines) != ENGINES or speeds[0] == speeds[1]:
        return size_bytes // 2
    steps = size_bytes * speeds[0] / sum(speeds) / STEP_BYTES
    wins = chip.port_priority.index(engines[0][0]) < chip.port_priority.index(engines[1][0])
    return (math.ceil(steps) if wins else int(steps)) * STEP_BYTES


def _ticks(chip: Chip, copy: Copy) -> int:
    return engine_cycles(chip, copy.engine, copy) * chip.period(copy.engine)


def _groups(able: Sequence[str]) -> Iterator[Sharers]:
    """Yield engines in groups, each group in banks of its own; two in one bank may be slow."""
    for count in range(2, min(len(able), MOST_ENGINES) + 1):
        for engines in combinations(able, count):
            yield tuple((name,) for name in engines)
            if count > 2:
                for name in engines:
                    yield (name,), tuple(other for other in engines if other != name)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Stretches of a digit's values, and values that are in none of them."""

    stretches: tuple[Span, ...]
    rest: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sharing:
    """A copy and the engines that share it."""

    chip: Chip
    whole: CopyDigits
    groups: Sharers

    def ways(self) -> Iterator[tuple[float, tuple[Copy, ...]]]:
        """Yield parts of the copy in their order, and about how many ticks they take together."""
        here, there = self.whole.longest
        engines = [name for group in self.groups for name in group]
        speeds = {name: 1 / _ticks(self.chip, self._on(self.whole.copy, name)) for name in engines}
        fastest = max(engines, key=lambda name: speeds[name])
        shares = [sum(speeds[name] for name in group) for group in self.groups]
        if here == there:
            for cut in (*self._cuts(there, shares, read=True), *self._cuts(there, shares)):
                written = self._members(cut.stretches, speeds)
                once: AtOnce = [(name, ((there, span),)) for name, span in written]
                yield from self._rated([once], [(fastest, ((there, n),)) for n in cut.rest])
            return
        alike = [1.0] * len(shares)
        for ours, theirs in product(self._cuts(here, alike, read=True), self._cuts(there, shares)):
            written = self._members(theirs.stretches, speeds)
            turns: list[AtOnce] = []
            for turn in range(len(shares)):
                at = {name: (self._group(name) + turn) % len(shares) for name in engines}
                turns.append(
                    [
                        (name, ((here, ours.stretches[at[name]]), (there, span)))
                        for name, span in written
                    ]
                )
            last: AtOnce = [(fastest, ((here, span),)) for span in ours.rest]
            left = [(span,) for span in ours.stretches] if ours.rest else [()]
            last += [
                (fastest, (*((here, span) for span in some), (there, rest)))
                for rest in theirs.rest
                for some in left
            ]
            yield from self._rated(turns, last)

    def _group(self, name: str) -> int:
        return next(n for n, group in enumerate(self.groups) if name in group)

    def _members(
        self, stretches: Sequence[Span], speeds: dict[str, float]
    ) -> list[tuple[str, Span]]:
        """Return which values each engine writes: a group's stretch is shared by speed."""
        return [
            (name, part)
            for group, span in zip(self.groups, stretches, strict=True)
            for name, part in zip(
                group, _within(span, [speeds[name] for name in group]), strict=False
            )
        ]

    def _rated(
        self, turns: Sequence[AtOnce], last: AtOnce
    ) -> Iterator[tuple[float, tuple[Copy, ...]]]:
        """Yield the parts and their estimate, if each engine has one and the chip does all."""
        if any(len(turn) < sum(map(len, self.groups)) for turn in turns):
            return
        rounds: list[tuple[Copy, ...]] = []
        for some in (*turns, *([each] for each in last)):
            made = [self._made(*each) for each in some]
            rounds.append(tuple(part for part in made if part is not None))
            if len(rounds[-1]) < len(some):
                return
        ticks = sum(self._together(some) for some in rounds[: len(turns)])
        parts = [part for some in rounds[: len(turns)] for part in some]
        for (rest,) in rounds[len(turns) :]:
            taken, shared = _shared(self.chip, rest)
            ticks += taken
            parts += shared
        yield ticks, tuple(parts)

    def _made(self, name: str, some: Some) -> Copy | None:
        """Return a part on an engine in its best words; None if the chip cannot do it."""
        part = self.whole.part(some)
        made = part and self._on(part, name)
        return None if made is None or faults_left(made, self.chip) else made

    def _on(self, copy: Copy, name: str) -> Copy:
        return in_best_words(self.chip, Copy(engine=name, source=copy.source, target=copy.target))

    def _cuts(
        self, number: int, shares: Sequence[float], *, read: bool = False
    ) -> list[_Stretches]:
        """Return stretches of a digit's values: in given shares, and so that they end with banks.

        read: the digit is one of the source.
        """
        digit, copy = self.whole.digits[number], self.whole.copy
        access, step = (copy.source, digit.source) if read else (copy.target, digit.target)
        far, bank = step * access.element_bytes, self.chip.state_buffer.bank_bytes
        plain = _within(Span(0, digit.size), shares)
        if not plain:
            return []
        edges, rest = [0], list[Span]()
        for span in plain[:-1]:
            end = round((access.start + span.stop * far) / bank) * bank - access.start
            edges += [end // far, -(-end // far)]
            if end % far:
                rest.append(Span(end // far, 1))
        edges.append(digit.size)
        whole = [_stretch(*ends) for ends in zip(edges[::2], edges[1::2], strict=True)]
        found = [_Stretches(plain)]
        each, left = divmod(digit.size, len(shares))
        if each and left and max(shares) == min(shares):
            firsts = [0, *(left + n * each for n in range(1, len(shares)))]
            stretches = tuple(Span(first, each) for first in firsts)
            found.append(_Stretches(stretches, (Span(each, left),)))
        if all(span.count > 0 for span in whole):
            found.append(_Stretches(tuple(whole), tuple(rest)))
        return [*dict.fromkeys(found)]

    def _together(self, parts: Sequence[Copy]) -> float:
        """Return about how many ticks parts take at the same time.

        Parts that meet at a port wait for one another, unless they are of one group, of equal
        clocks, and have fewer accesses than cycles. An engine that is done sooner is soon where
        others still are.
        """
        taken = [_ticks(self.chip, part) for part in parts]
        ports: dict[tuple[str, int], list[Copy]] = {}
        for part in parts:
            for side, access in (("read", part.source), ("write", part.target)):
                for bank in _banks(access, self.chip.state_buffer.bank_bytes):
                    ports.setdefault((side, bank), []).append(part)
        together = [self._at_port(some) for some in ports.values()]
        return max(*taken, *together) + max(taken) - min(taken)

    def _at_port(self, parts: Sequence[Copy]) -> float:
        if len(parts) == 1:
            return 0
        chip = self.chip
        kinds = {(self._group(part.engine), chip.period(part.engine)) for part in parts}
        if len(kinds) > 1:
            return sum(_ticks(self.chip, part) for part in parts)
        return sum(
            -(-part.target.elements // pace_of(part, chip.engine(part.engine), chip).elements)
            * chip.period(part.engine)
            for part in parts
        )


def _within(span: Span, shares: Sequence[float]) -> tuple[Span, ...]:
    """Return the parts of a stretch in some shares; none if one of them were empty."""
    ends = [span.first + round(span.count * up / sum(shares)) for up in accumulate(shares)]
    edges = (span.first, *ends[:-1], span.stop)
    if any(first >= stop for first, stop in pairwise(edges)):
        return ()
    return tuple(_stretch(*ends) for ends in pairwise(edges))


def _stretch(first: int, stop: int) -> Span:
    return Span(first, stop - first)


def _banks(access: Access, bank_bytes: int) -> range:
    """Return the banks of an access."""
    return range(access.span.first // bank_bytes, -(-access.span.stop // bank_bytes))
