"""Reading an index: numbers in the order of the dimensions, or each with its dimension's letter.

Seed 001 gives letters to the dimensions of arrays of two to four dimensions: the last is x, before
it y, z, p. An array of one dimension has x, too.
"""

from __future__ import annotations

import re

from systolic.layout.errors import LayoutError

LETTERS = "pzyx"
_NAMED = re.compile(r"([a-z])\s*=\s*(-?[0-9]+)")


def read_index(text: str, rank: int) -> tuple[int, ...]:
    """Return the index that a text such as ``2,3`` or ``y=2 x=3`` spells, of some dimensions.

    An empty text is the index of a scalar. Letters may stand in any order.

    Raises:
        LayoutError: other words, or letters that are not the dimensions' letters.

    """
    parts = text.replace(",", " ").split()
    if not any("=" in part for part in parts):
        return read_numbers(text)
    return _named(text, rank)


def read_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a text such as ``2,3``; LayoutError for other words."""
    if not text.strip():
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise LayoutError(
            f'an index is numbers and commas, e.g. "2,3", or letters, e.g. "y=2 x=3", '
            f'found "{text}"'
        ) from None


def _named(text: str, rank: int) -> tuple[int, ...]:
    """Return the index of numbers with letters."""
    given = _NAMED.findall(text)
    letters = LETTERS[len(LETTERS) - rank :] if rank <= len(LETTERS) else ""
    if not letters:
        raise LayoutError(
            f"only the dimensions of arrays of one to {len(LETTERS)} dimensions have letters, "
            f"found {rank} dimensions"
        )
    rest = _NAMED.sub(" ", text).replace(",", " ").strip()
    if rest or sorted(letter for letter, _ in given) != sorted(letters):
        wanted = " ".join(f"{letter}=.." for letter in letters)
        raise LayoutError(f'an index of {rank} dimensions is "{wanted}", found "{text}"')
    values = dict(given)
    return tuple(int(values[letter]) for letter in letters)
