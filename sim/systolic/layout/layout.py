"""A layout: how dimensions are ordered, tiled and padded in memory.

A layout is a plain value. Not here: sizes and indices, which need a shape (see ``shape``).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from systolic.layout.attributes import ATTRIBUTES
from systolic.layout.errors import LayoutError
from systolic.layout.tile import Tile

MAX_PARTS = 1024
"""The most dimensions and tile sizes of one layout together: a limit for hostile text."""


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """The layout of an array (seed 001 Layout, seed 002 tiles).

    ``minor_to_major[0]`` is the dimension that varies fastest in memory. ``tiles`` apply one after
    the other to the most minor physical dimensions. ``numbers`` are the attributes that are not at
    their default, by letter: (("L", 16), ("E", 4)). ``padded_dimensions`` and ``padding_value`` are
    legacy fields without a text form: logical dimensions are padded to these widths first, and then
    tiled.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...]
    numbers: tuple[tuple[str, int], ...]
    padded_dimensions: tuple[int, ...] | None
    padding_value: float

    def __init__(
        self,
        minor_to_major: Sequence[int],
        tiles: Sequence[Tile | Sequence[int]] = (),
        *,
        element_bits: int | None = None,
        memory_space: int | None = None,
        tail_align: int | None = None,
        numbers: Iterable[tuple[str, int]] = (),
        padded_dimensions: Sequence[int] | None = None,
        padding_value: float = 0,
    ) -> None:
        """Make a layout; ``element_bits`` (``E(n)``) and its like take the place of ``numbers``."""
        named = {"L": tail_align, "E": element_bits, "S": memory_space}
        given = dict(numbers) | {k: number for k, number in named.items() if number is not None}
        values = {
            "minor_to_major": tuple(operator.index(d) for d in minor_to_major),
            "tiles": tuple(t if isinstance(t, Tile) else Tile(t) for t in tiles),
            "numbers": _numbers(given),
            "padded_dimensions": None
            if padded_dimensions is None
            else tuple(operator.index(d) for d in padded_dimensions),
            "padding_value": padding_value,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        _check(self)

    @classmethod
    def row_major(
        cls,
        rank: int,
        *tiles: Tile | Sequence[int],
        element_bits: int = 0,
        memory_space: int = 0,
    ) -> Layout:
        """Return the default order for ``rank`` dimensions (the last varies fastest), tiled."""
        order = range(rank - 1, -1, -1)
        return cls(order, tiles, element_bits=element_bits, memory_space=memory_space)

    @property
    def rank(self) -> int:
        """The number of dimensions the layout orders."""
        return len(self.minor_to_major)

    @property
    def major_to_minor(self) -> tuple[int, ...]:
        """Logical dimension numbers in physical order, the slowest first."""
        return self.minor_to_major[::-1]

    @property
    def is_row_major(self) -> bool:
        """Whether the physical order is the logical order; tiles do not count."""
        return self.major_to_minor == tuple(range(self.rank))

    def number(self, letter: str) -> int:
        """Return the number of an attribute; its default if the layout does not have it."""
        return next((n for name, n in self.numbers if name == letter), ATTRIBUTES[letter].default)

    def with_number(self, letter: str, number: int) -> Layout:
        """Return the same layout with another number for one attribute."""
        return replace(self, numbers=(*self.numbers, (letter, number)))

    @property
    def element_bits(self) -> int:
        """``E(n)``: bits of an element in memory, 0 for the type's own whole bytes."""
        return self.number("E")

    @property
    def memory_space(self) -> int:
        """``S(n)``: the memory space, which does not change where elements lie."""
        return self.number("S")

    @property
    def tail_align(self) -> int:
        """``L(n)``: the buffer is rounded up to n elements."""
        return self.number("L")

    def places(self, tiled: int) -> int:
        """Return the number of element places in memory; the tiles take ``tiled`` of them."""
        for letter, number in self.numbers:
            tiled = ATTRIBUTES[letter].places(tiled, number)
        return tiled

    def attributes(self) -> str:
        """Return the text behind the colon, without defaults: ``T(8,128)(2,1)L(16)E(4)S(1)``."""
        tiles = "T" + "".join(map(str, self.tiles)) if self.tiles else ""
        return tiles + "".join(f"{letter}({number})" for letter, number in self.numbers)

    def __str__(self) -> str:
        attributes = self.attributes()
        order = ",".join(map(str, self.minor_to_major))
        return "{" + order + (":" + attributes if attributes else "") + "}"


def _numbers(given: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the numbers that are not at their default, in the order of the table."""
    unknown = next((letter for letter in given if letter not in ATTRIBUTES), None)
    if unknown is not None:
        raise LayoutError(f'a layout has {", ".join(ATTRIBUTES)}, not "{unknown}"')
    found = []
    for letter, attribute in ATTRIBUTES.items():
        number = operator.index(given.get(letter, attribute.default))
        attribute.check(number)
        if number != attribute.default:
            found.append((letter, number))
    return tuple(found)


def _check(layout: Layout) -> None:
    _check_order(layout.minor_to_major)
    parts = len(layout.minor_to_major) + sum(tile.rank for tile in layout.tiles)
    if parts > MAX_PARTS:
        raise LayoutError(
            f"a layout may have at most {MAX_PARTS} dimensions and tile sizes together, "
            f"found {parts}"
        )
    padded = layout.padded_dimensions
    if padded is not None and len(padded) != layout.rank:
        raise LayoutError(
            f"padded_dimensions must name {layout.rank} sizes, one for each dimension, "
            f"found {len(padded)}"
        )


def _check_order(minor_to_major: tuple[int, ...]) -> None:
    shown = "{" + ",".join(map(str, minor_to_major[:16])) + "}"
    rank = len(minor_to_major)
    for number in minor_to_major:
        if not 0 <= number < rank:
            raise LayoutError(
                f"minor_to_major {shown} names dimension {number}, "
                f"but its {rank} entries must be 0 to {rank - 1}"
            )
    if len(set(minor_to_major)) != rank:
        twice = next(d for d in minor_to_major if minor_to_major.count(d) > 1)
        raise LayoutError(f"minor_to_major {shown} names dimension {twice} twice")
