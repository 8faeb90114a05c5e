"""What each tile does to the physical dimensions: the arithmetic all other modules read.

One ``TileStep`` per tile: give the dimensions a rank at least the tile's, fold ``*`` dimensions,
then replace the last k dimensions d by ceil(d/t) followed by t (seed 002, formulas and repeated
tiling). Everything is Python integers: no size is ever allocated here. Not here: data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from systolic.layout.layout import Layout
from systolic.layout.tile import COMBINE, Tile


@dataclass(frozen=True, slots=True)
class TileStep:
    """One tile applied to ``before`` (major to minor).

    ``missing`` dimensions of size 1 were put in front so that the tile fits; ``before`` has them.
    ``groups`` lists the sizes of ``before`` that fold into each covered dimension, ``covered`` the
    folded sizes, ``sizes`` the tile without ``*``, ``untouched`` how many leading dimensions stay.
    """

    missing: int
    before: tuple[int, ...]
    untouched: int
    groups: tuple[tuple[int, ...], ...]
    covered: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many tiles lie along each covered dimension: ceil(d / t)."""
        return tuple(-(-d // t) for d, t in zip(self.covered, self.sizes, strict=True))

    @property
    def after(self) -> tuple[int, ...]:
        """The dimensions after the step, major to minor."""
        return self.before[: self.untouched] + self.counts + self.sizes

    @property
    def folds(self) -> bool:
        """Whether the tile combines dimensions."""
        return any(len(group) > 1 for group in self.groups)

    @property
    def pads(self) -> bool:
        """Whether the tile does not divide a dimension."""
        return any(d % t for d, t in zip(self.covered, self.sizes, strict=True))


def tile_step(dims: tuple[int, ...], tile: Tile) -> TileStep:
    """Return the step that ``tile`` makes on physical ``dims``."""
    missing = max(0, tile.rank - len(dims))
    before = (1,) * missing + dims
    untouched = len(before) - tile.rank
    groups: list[tuple[int, ...]] = []
    pending: tuple[int, ...] = ()
    for dim, size in zip(before[untouched:], tile.dims, strict=True):
        pending += (dim,)
        if size != COMBINE:
            groups.append(pending)
            pending = ()
    return TileStep(
        missing=missing,
        before=before,
        untouched=untouched,
        groups=tuple(groups),
        covered=tuple(math.prod(group) for group in groups),
        sizes=tuple(size for size in tile.dims if size != COMBINE),
    )


def ordered_dims(dims: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Return the (legacy padded) dimensions in physical order, before any tile."""
    widths = dims if layout.padded_dimensions is None else layout.padded_dimensions
    return tuple(widths[number] for number in layout.major_to_minor)


def tile_steps(dims: tuple[int, ...], layout: Layout) -> tuple[TileStep, ...]:
    """Return the steps of all tiles in turn."""
    current = ordered_dims(dims, layout)
    steps = []
    for tile in layout.tiles:
        step = tile_step(current, tile)
        steps.append(step)
        current = step.after
    return tuple(steps)
