"""Pairs of numbers that name a range: Span(first, count) and Interval(first, stop)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`count` indices from `first`: rows or columns."""

    first: int
    count: int

    @property
    def stop(self) -> int:
        """Return the index behind the last."""
        return self.first + self.count


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """Bytes or indices from `first` up to, but without, `stop`."""

    first: int
    stop: int

    @property
    def size(self) -> int:
        """Return how many there are."""
        return self.stop - self.first


def spans(first: int, stop: int, block: int, piece: int) -> Iterator[Span]:
    """Cut first..stop into spans of at most `piece`, none across a multiple of `block`."""
    while first < stop:
        size = min(piece, stop - first, block - first % block)
        yield Span(first, size)
        first += size
