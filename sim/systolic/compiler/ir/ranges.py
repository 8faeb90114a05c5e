"""Cutting a range of rows or columns into the spans that tiles and loads take."""

from __future__ import annotations

from collections.abc import Iterator

from systolic.spans import Span


def spans(first: int, stop: int, block: int, piece: int) -> Iterator[Span]:
    """Cut first..stop into spans of at most `piece` that cross no multiple of `block`."""
    while first < stop:
        size = min(piece, stop - first, block - first % block)
        yield Span(first, size)
        first += size
