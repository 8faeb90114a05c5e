"""Pairs of whole numbers that name a stretch of numbers in a row: by its count, or by its end.

A bare ``(4, 7)`` does not say whether it means 4 to 10 or 4 to 6; ``Span(4, 7)`` and
``Interval(4, 7)`` do. The name of the variable says what is counted (elements, cycles, bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """``count`` numbers in a row, from ``first`` on: ``Span(4, 3)`` is 4, 5, 6."""

    first: int
    count: int

    @property
    def stop(self) -> int:
        """The number after the last."""
        return self.first + self.count


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """The numbers ``first`` to ``stop`` - 1: ``Interval(4, 7)`` is 4, 5, 6."""

    first: int
    stop: int

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return self.stop - self.first

    def __iter__(self) -> Iterator[int]:
        """Give the two ends: ``low, high = Interval(4, 7)`` makes them 4 and 7."""
        return iter((self.first, self.stop))

    def meets(self, other: Interval) -> bool:
        """Return whether the two have a number in common."""
        return self.first < other.stop and other.first < self.stop
