"""The tiles of a matrix that bounds know: rows and columns, and perhaps rows side by side."""

from __future__ import annotations

from typing import NamedTuple

from systolic.layout import COMBINE, Shape

PLANE = 2
"""The sizes of a tile that has rows and columns."""


class MatrixTiles(NamedTuple):
    """Tiles of `wide` columns, in each of which `deep` rows lie side by side.

    wide: 0 if a shape has no tiles. minor, second: the dimensions of columns and rows.
    """

    minor: int
    second: int
    wide: int = 0
    deep: int = 1


def matrix_tiles(shape: Shape) -> MatrixTiles | None:
    """Return the tiles of a shape; None if they are others, or it has no rows and columns."""
    layout = shape.layout
    if shape.rank < PLANE or layout.padded_dimensions is not None:
        return None
    minor, second = layout.minor_to_major[:PLANE]
    sizes = [tile.dims for tile in layout.tiles]
    if not sizes:
        return MatrixTiles(minor, second)
    if any(len(each) != PLANE or COMBINE in each for each in sizes) or len(sizes) > PLANE:
        return None
    (tall, wide), (deep, one) = sizes[0], (sizes[1] if len(sizes) == PLANE else (1, 1))
    return None if one != 1 or tall % deep else MatrixTiles(minor, second, wide, deep)
