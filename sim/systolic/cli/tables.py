"""Tables as lines of text, for commands that print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST_ROWS = 20
"""The most rows of a table of causes. A last row sums the others; JSON has all rows."""


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int | tuple[int, ...]
) -> Iterator[str]:
    """Yield the lines of a table, indented by two spaces.

    numbers: how many columns are set to the right: the first ones, or if negative the last.
    """
    right = _columns(numbers, len(header))
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()


def _columns(numbers: int | tuple[int, ...], count: int) -> set[int]:
    if isinstance(numbers, tuple):
        return set(numbers)
    return set(range(count)[:numbers] if numbers >= 0 else range(count)[numbers:])
