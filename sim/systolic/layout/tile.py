"""One level of tiling, as a value: ``T(8,128)``, ``T(*,2)``.

Not here: what a tile does to dimensions (see ``steps``).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.layout.errors import LayoutError

COMBINE = -1
"""The tile size ``*``: fold this dimension into the next more minor one (seed 002, combining)."""

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


@dataclass(frozen=True, slots=True, init=False)
class Tile:
    """Tile sizes, major to minor, each at least 1 or ``COMBINE``; the last is never ``COMBINE``."""

    dims: tuple[int, ...]

    def __init__(self, dims: Sequence[int]) -> None:
        object.__setattr__(self, "dims", tuple(operator.index(size) for size in dims))
        if not self.dims:
            raise LayoutError("a tile needs at least one size, found T()")
        for size in self.dims:
            if size != COMBINE and not 1 <= size <= INT64_MAX:
                raise LayoutError(f"a tile size must be from 1 to 2**63 - 1, found {size}")
        if self.dims[-1] == COMBINE:
            raise LayoutError(
                f'the last size of a tile cannot be "*", found T{self}: '
                "there is no more minor dimension to fold into"
            )

    @property
    def rank(self) -> int:
        """How many dimensions the tile covers, combined ones included."""
        return len(self.dims)

    def __str__(self) -> str:
        return "(" + ",".join("*" if size == COMBINE else str(size) for size in self.dims) + ")"
