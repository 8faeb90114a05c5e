"""Moves with a factor that has no good parts, cut between two of its indices.

Rows fill the partitions, and tiles have room, where factors have parts of the right size. 197 is a
prime number: all of its indices lie on partitions, in two tiles of rows, or all along the address.
Of the first 192 there are parts of any size, and the other five are a move of their own. So such a
factor is cut if both moves together take clearly less by their estimates. Not here: cuts where the
places change (`systolic.compiler.ir.move_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.move_parts import MOST_PARTS, MovePart
from systolic.compiler.lower.candidates import POOR, divisor
from systolic.compiler.lower.ways import Choice, cheapest

CLEARLY = 0.9
"""Cut moves must take less than this part of the time: they wait for latencies of their own."""


class Parts(NamedTuple):
    """Moves, and the way of each."""

    parts: tuple[MovePart, ...]
    choices: list[Choice]

    @property
    def ticks(self) -> int:
        """Return about how many ticks they take."""
        return sum(choice.ticks for choice in self.choices)


class RestCutter:
    """Cuts the moves of one chip where that pays; what a move costs is worked out once."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._found: dict[tuple[Move, int], Choice | None] = {}

    def cut(self, whole: Parts) -> Parts:
        """Return moves with factors cut, one after another while that pays."""
        best = whole
        while len(best.parts) < MOST_PARTS:
            finer = [found for parts in self._cuts(best.parts) if (found := self._ways(parts))]
            least = min(finer, key=lambda found: found.ticks, default=None)
            if least is None or least.ticks >= CLEARLY * best.ticks:
                break
            best = least
        return best

    def _cuts(self, parts: Sequence[MovePart]) -> Iterator[tuple[MovePart, ...]]:
        """Yield the parts with a factor of one of them cut: the first has whole half partitions."""
        lanes = self._planner.chip.state_buffer.partitions
        for number, part in enumerate(parts):
            for factor, size in enumerate(part.move.sizes):
                first = size // max(1, lanes // 2) * max(1, lanes // 2)
                if size > lanes and first < size and divisor(size, lanes) * POOR < lanes:
                    yield (*parts[:number], *part.cut(factor, first), *parts[number + 1 :])

    def _ways(self, parts: tuple[MovePart, ...]) -> Parts | None:
        """Return the best ways of parts; None if none suits one of them."""
        choices: list[Choice] = []
        for part in parts:
            key = part.move, len(parts)
            if key not in self._found:
                self._found[key] = cheapest(part.move, self._planner, len(parts))
            choice = self._found[key]
            if choice is None:
                return None
            choices.append(choice)
        return Parts(parts, choices)
