"""The numbers that a layout's text may have behind its tiles: ``L(16)``, ``E(4)``, ``S(1)``.

There is a row for each number. The text is read and printed by the rows, in their order. A layout
keeps only the numbers that are not at their default. A row also says how its number changes the
number of places in memory. So an attribute that only adds places is a row and nothing else. Not
here: tiles (``tile``), and what bits of an element mean to the packer (``packing``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from systolic.layout.errors import LayoutError
from systolic.layout.tile import INT64_MAX, INT64_MIN


def unchanged(places: int, number: int) -> int:
    """Return the places as they are."""
    return places


def rounded_up(places: int, number: int) -> int:
    """Return the places rounded up to a multiple of ``number``."""
    return -(-places // number) * number


@dataclass(frozen=True, slots=True)
class Attribute:
    """A number of a layout.

    letter: its name in the text. default: its number if the text does not have it. least, most: its
    range; ``needs`` are the words for a number out of that range. places: gives the number of
    element places in memory from the number that the tiles give. New places come at the end.
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
        Attribute("S", 0, INT64_MIN, "memory space must fit int64"),
    )
}
"""The attributes by letter, in the order in which they stand in the text, behind ``T``."""
