"""Which tiles a change of view goes between, in the order in which they are copied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.tasks import MatrixTile
from systolic.layout import Decomposition

_Place = tuple[int, int, int]
"""A tile: the number of its matrix, its block row and block column."""


@lru_cache(maxsize=1024)
def tile_pairs(
    change: ChangeOfView, block: tuple[int, int], made: Decomposition
) -> tuple[tuple[_Place, _Place], ...]:
    """Return pairs (tile of the source, tile of the target) with elements in common.

    block: the tiles T(p,q) of the source's matrix. made: the target's. Equal changes of
    view, of layers of equal shape or in another plan, share their pairs.
    """
    p, q = block
    _, rows_of_source, cols_of_source = change.source.sizes()
    down, across = -(-rows_of_source // p), -(-cols_of_source // q)
    pairs: list[tuple[_Place, _Place]] = []
    for each in made:
        number = each.number // made.count_per_matrix
        logical = change.target.logical(number, each.rows, each.columns)
        matrix, row, col = change.source.locate(logical[logical >= 0])
        tiles = np.unique((matrix * down + row // p) * across + col // q)
        for there in tiles.tolist():
            read = there // (down * across), there // across % down, there % across
            pairs.append((read, (number, each.row, each.column)))
    return tuple(pairs)


def crosswise(
    pairs: Sequence[tuple[MatrixTile, MatrixTile]],
) -> list[tuple[MatrixTile, MatrixTile]]:
    """Return pairs of tiles so that neighbours differ in both: then their lanes overlap."""
    sources = {tile: n for n, tile in enumerate(sorted({read for read, _ in pairs}))}
    targets = {tile: n for n, tile in enumerate(sorted({tile for _, tile in pairs}))}

    def diagonal(pair: tuple[MatrixTile, MatrixTile]) -> tuple[int, int]:
        source, target = sources[pair[0]], targets[pair[1]]
        return (target - source) % len(targets), source

    return sorted(pairs, key=diagonal)
