"""A layout: how dimensions are ordered, tiled and padded in memory. A value, no arithmetic.

Not here: sizes and indices, which need a shape (see ``shape``).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.layout.errors import LayoutError
from systolic.layout.tile import INT64_MAX, Tile

MAX_PARTS = 1024
"""Most dimensions and tile sizes one layout may have together: an end for hostile text."""


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """The layout of an array (seed 001 Layout, seed 002 tiles).

    ``minor_to_major[0]`` is the dimension that varies fastest in memory. ``tiles`` apply one after
    the other to the most minor physical dimensions. ``element_bits`` is ``E(n)``, 0 for the type's
    own whole bytes; ``memory_space`` is ``S(n)``; ``tail_align`` is ``L(n)``, in elements.
    ``padded_dimensions`` and ``padding_value`` are the legacy fields: logical dimensions are padded
    to these widths first, then tiled. They have no text form.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...]
    element_bits: int
    memory_space: int
    tail_align: int
    padded_dimensions: tuple[int, ...] | None
    padding_value: float

    def __init__(
        self,
        minor_to_major: Sequence[int],
        tiles: Sequence[Tile | Sequence[int]] = (),
        *,
        element_bits: int = 0,
        memory_space: int = 0,
        tail_align: int = 1,
        padded_dimensions: Sequence[int] | None = None,
        padding_value: float = 0,
    ) -> None:
        values = {
            "minor_to_major": tuple(operator.index(d) for d in minor_to_major),
            "tiles": tuple(t if isinstance(t, Tile) else Tile(t) for t in tiles),
            "element_bits": operator.index(element_bits),
            "memory_space": operator.index(memory_space),
            "tail_align": operator.index(tail_align),
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
        """Whether the physical order is the logical one (tiles are not looked at)."""
        return self.major_to_minor == tuple(range(self.rank))

    def attributes(self) -> str:
        """Return what stands behind the colon: ``T(8,128)(2,1)L(16)E(4)S(1)``, without defaults."""
        parts = ["T" + "".join(map(str, self.tiles))] if self.tiles else []
        if self.tail_align != 1:
            parts.append(f"L({self.tail_align})")
        if self.element_bits:
            parts.append(f"E({self.element_bits})")
        if self.memory_space:
            parts.append(f"S({self.memory_space})")
        return "".join(parts)

    def __str__(self) -> str:
        attributes = self.attributes()
        order = ",".join(map(str, self.minor_to_major))
        return "{" + order + (":" + attributes if attributes else "") + "}"


def _check(layout: Layout) -> None:
    _check_order(layout.minor_to_major)
    parts = len(layout.minor_to_major) + sum(tile.rank for tile in layout.tiles)
    if parts > MAX_PARTS:
        raise LayoutError(
            f"a layout may have at most {MAX_PARTS} dimensions and tile sizes together, "
            f"found {parts}"
        )
    if not 0 <= layout.element_bits <= INT64_MAX:
        raise LayoutError(f"element bits must not be negative, found E({layout.element_bits})")
    if not 1 <= layout.tail_align <= INT64_MAX:
        raise LayoutError(f"tail alignment must be at least 1, found L({layout.tail_align})")
    if not -INT64_MAX - 1 <= layout.memory_space <= INT64_MAX:
        raise LayoutError(f"memory space must fit int64, found S({layout.memory_space})")
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
