"""The numbers that a layout's text may have behind its tiles: ``L(16)``, ``E(4)``, ``S(1)``.

One row for each. The text is read and printed by the rows, in their order; a layout keeps the
numbers that are not at their default; a row says what its number does to the places in memory. So
an attribute that only adds places is a row and nothing else. Not here: tiles (``tile``), and what
bits of an element mean to the packer (``packing``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from systolic.layout.errors import LayoutError
from systolic.layout.tile import INT64_MAX


def unchanged(places: int, number: int) -> int:
    """Return the places as they are."""
    return places


def rounded_up(places: int, number: int) -> int:
    """Return the places rounded up to a multiple of ``number``."""
    return -(-places // number) * number


@dataclass(frozen=True, slots=True)
class Attribute:
    """A number of a layout.

    letter: how the text names it. default: its number where the text does not. least, most: its
    range, and ``needs`` the words for a number out of it. places: what it makes of the number of
    element places that the tiles give, all of which stay where they are.
    """

    letter: str
    default: int
    least: int
    needs: str
    most: int = INT64_MAX
    places: Callable[[int, int], int] = unchanged

    def check(self, number: int) -> None:
        """Raise LayoutError for a number out of range."""
        if not self.least <= number <= self.most:
            raise LayoutError(f"{self.needs}, found {self.letter}({number})")


ATTRIBUTES: dict[str, Attribute] = {
    row.letter: row
    for row in (
        Attribute("L", 1, 1, "tail alignment must be at least 1", places=rounded_up),
        Attribute("E", 0, 0, "element bits must not be negative"),
        Attribute("S", 0, -INT64_MAX - 1, "memory space must fit int64"),
    )
}
"""By letter, in the order in which the text has them, behind ``T``."""
