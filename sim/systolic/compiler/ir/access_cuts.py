"""Instructions that name more than an access of the chip can: several instead, part by part.

`[access]` of a chip file limits the counts and the steps of a pattern. An instruction that works
element by element, or window by window, does the same if it is cut: its parts take the elements in
the same order, in the same queue. Not here: where accesses begin (`[[access.start]]`), which no cut
changes, and instructions whose elements depend on one another or on their places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from systolic.hw.spec import Chip
from systolic.hw.spec.access_rules import AccessRules, Pairs
from systolic.isa import Access, DmaCopy, Instruction, OnEngine
from systolic.isa.effects import is_running, per_element_operands, results_per_lane, window
from systolic.isa.engines import access_faults
from systolic.isa.instruction import Dropout, Iota, Select
from systolic.isa.opcodes import BY_CLASS, Rhythm
from systolic.spans import Span

_RHYTHMS = (Rhythm.ELEMENTWISE, Rhythm.PAIRED, Rhythm.WINDOWED)
_BY_PLACE = (Dropout, Iota, Select)
"""Instructions in which an element's result depends on its place."""


def cut(instruction: Instruction, rules: AccessRules) -> list[Instruction]:
    """Return the instructions that do what one does, each within the limits of a pattern.

    It is returned as it is if it is within them, or if no cut brings it there.
    """
    if rules.max_count is None and rules.max_step is None:
        return [instruction]
    if isinstance(instruction, DmaCopy) or not _can_be_cut(instruction):
        return [instruction]
    assert isinstance(instruction, OnEngine)
    named = _per_element(instruction, rules)
    if not any(rules.pattern_fault(taken.access.pattern) for taken in named.values()):
        return [instruction]
    parts = list(_stretches(list(named.values())))
    if not all(part.count for part in parts):
        return [instruction]
    fields: list[dict[str, Any]] = [
        {name: taken.part(part) for name, taken in named.items()} for part in parts
    ]
    return [replace(instruction, **each) for each in fields]


def faults_left(instruction: OnEngine, chip: Chip) -> bool:
    """Return whether the chip cannot make an access of an instruction, not even cut into parts."""
    if not any(access_faults(instruction, chip)):
        return False
    return any(any(access_faults(part, chip)) for part in cut(instruction, chip.access))


def _can_be_cut(instruction: Instruction) -> bool:
    """Return whether parts of an instruction's elements, one after another, give the same."""
    if not isinstance(instruction, OnEngine) or isinstance(instruction, _BY_PLACE):
        return False
    operands = BY_CLASS[type(instruction)].operands
    alone = not (is_running(instruction) or operands.is_across or results_per_lane(instruction))
    return alone and operands.rhythm in _RHYTHMS


def _per_element(instruction: OnEngine, rules: AccessRules) -> dict[str, _Taken]:
    """Return what is read and written element by element, by its field; the target is last."""
    many = window(instruction)
    (target,) = BY_CLASS[type(instruction)].operands.writes
    found = {name: _Taken(a, many, rules) for name, a in per_element_operands(instruction)}
    return found | {target: _Taken(getattr(instruction, target), 1, rules)}


def _stretches(named: list[_Taken]) -> Iterator[Span]:
    """Yield the elements of the target, each time the most that all accesses can name.

    An empty stretch ends them if not even one element can be named.
    """
    first, elements = 0, named[-1].access.elements
    while first < elements:
        part = Span(first, _most(named, first))
        yield part
        if not part.count:
            return
        first = part.stop


def _most(named: list[_Taken], first: int) -> int:
    """Return how many elements from a first one on all accesses can name.

    An access can name any multiple of a block, up to a number of blocks. Of several sizes of blocks
    the choice counts that gives the most elements.
    """
    best = 0
    for choice in product(*(taken.blocks(first) for taken in named)):
        block = math.lcm(*(size for size, _ in choice))
        best = max(best, min(size * many for size, many in choice) // block * block)
    return best


@dataclass(frozen=True, slots=True)
class _Taken:
    """An access in which `many` elements make one of the target."""

    access: Access
    many: int
    rules: AccessRules

    def blocks(self, first: int) -> Iterator[tuple[int, int]]:
        """Yield (size, number): at most `number` blocks of `size` elements form a pattern.

        They begin with the target's element `first`. An example: of the pattern 1000x8 1x100 with
        `first` 200 and no limit, up to 100 blocks of 1 element, and up to 6 of 100.
        """
        at, inside = first * self.many, 1
        inner: Pairs = ()
        for step, count in self._inwards():
            if at % inside or self.rules.pattern_fault(inner):
                return
            number = count - at // inside % count
            if self.rules.max_count is not None:
                number = min(number, self.rules.max_count)
            if self.rules.pattern_fault(((step, 1),)):
                number = 1
            size = math.lcm(inside, self.many)
            yield size // self.many, inside * number // size
            inside, inner = inside * count, ((step, count), *inner)

    def part(self, some: Span) -> Access:
        """Return the access to some elements of the target that form a pattern."""
        at, left, start = some.first * self.many, some.count * self.many, 0
        pairs: Pairs = ()
        for step, count in self._inwards():
            start += at % count * step
            at //= count
            if left > 1:
                pairs = ((step, min(left, count)), *pairs)
                left //= count
        first = self.access.start + start * self.access.element_bytes
        return replace(self.access, start=first, pattern=pairs or ((1, 1),))

    def _inwards(self) -> list[tuple[int, int]]:
        """Return the pairs of more than one element, innermost first; one pair if there is none."""
        return [pair for pair in reversed(self.access.pattern) if pair[1] > 1] or [(1, 1)]
