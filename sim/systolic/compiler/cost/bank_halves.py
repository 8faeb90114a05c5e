"""Rounds of copies that two engines share: each copy is cut where a bank ends.

All copies of a leg go from two banks to two banks, but one of them may lie in one bank of either
side. So an engine makes what goes to one bank of the target, and each time from another bank of the
source. Example: first they go from bank 0 to 0 and from 1 to 1, then from 1 to 0 and from 0 to 1.
Not here: copies each of which is shared by itself (`side_by_side`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from systolic.compiler.cost.engines import in_best_words, lane_copy_engines
from systolic.compiler.ir.access_cuts import faults_left
from systolic.compiler.ir.copy_cuts import copy_digits
from systolic.hw.spec import Chip
from systolic.isa import Access, Copy
from systolic.spans import Span

ENGINES = 2


def in_bank_halves(chip: Chip, copies: Sequence[Copy]) -> list[list[Copy | None]]:
    """Return the parts of each copy: of both engines in the first turn, and in the second one.

    None stands for no part. Nothing is returned if source or target are not in two banks, there are
    no two engines for the copies, or a copy cannot be cut.
    """
    able = [name for name in chip.lane_engines if chip.engine(name).independent_lanes]
    able = [name for name in able if name in lane_copy_engines(chip, copies[0])]
    edges = [_edge(chip, [side(copy) for copy in copies]) for side in (_source, _target)]
    if len(able) < ENGINES or None in edges:
        return []
    found = list[list[Copy | None]]()
    for copy in copies:
        parts: list[Copy | None] = [None] * (ENGINES * ENGINES)
        halves = list(_halves(copy, [edge for edge in edges if edge is not None]))
        if not halves:
            return []
        for source, target, part in halves:
            made = in_best_words(chip, replace(part, engine=able[target]))
            if faults_left(made, chip):
                return []
            parts[(source - target) % ENGINES * ENGINES + target] = made
        found.append(parts)
    return found


def _source(copy: Copy) -> Access:
    return copy.source


def _target(copy: Copy) -> Access:
    return copy.target


def _edge(chip: Chip, accesses: Sequence[Access]) -> int | None:
    """Return the byte between the two banks of some accesses; None if they are not in two."""
    size = chip.state_buffer.bank_bytes
    first = min(access.span.first for access in accesses) // size
    last = max(access.span.stop - 1 for access in accesses) // size
    return last * size if last == first + 1 else None


def _halves(copy: Copy, edges: Sequence[int]) -> Iterator[tuple[int, int, Copy]]:
    """Yield the parts of a copy with their halves of source and target; none if it is not cut."""
    cut = [
        (source, part_of_both)
        for source, part in _cut(copy, 0, edges[0])
        for part_of_both in [_cut(part, 1, edges[1])]
    ]
    if all(parts for _, parts in cut):
        for source, parts in cut:
            for target, part in parts:
                yield source, target, part


def _cut(copy: Copy, side: int, edge: int) -> list[tuple[int, Copy]]:
    """Return what lies before an edge of one side, and what lies behind it.

    Nothing is returned if elements go back over the edge.
    """
    access = (copy.source, copy.target)[side]
    if access.span.stop <= edge or access.span.first >= edge:
        return [(int(access.span.first >= edge), copy)]
    whole = copy_digits(copy)
    if whole is None:
        return []
    number = whole.longest[side]
    size, *steps = whole.digits[number]
    first = -(-(edge - access.start) // (steps[side] * access.element_bytes))
    if not 0 < first < size:
        return []
    parts = [whole.part([(number, span)]) for span in (Span(0, first), Span(first, size - first))]
    found = [(half, part) for half, part in enumerate(parts) if part is not None]
    spans = [(part.source, part.target)[side].span for _, part in found]
    clean = len(found) == 2 and spans[0].stop <= edge <= spans[1].first
    return found if clean else []
