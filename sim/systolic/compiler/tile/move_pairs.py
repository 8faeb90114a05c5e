"""Which tiles of a target have elements of which tiles of a source, and in what order to copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from systolic.compiler.ir.change_of_view import Change
from systolic.compiler.ir.tasks import Tile
from systolic.spans import Span


def tile_pairs(
    change: Change, source: str, block: tuple[int, int],
    targets: Iterable[tuple[Span, Span, Tile]],
) -> list[tuple[Tile, Tile]]:  # fmt: skip
    """Return pairs (source's tile, target's tile) with elements in common.

    source, block: name and tiles T(p,q) of the source's matrix. targets: rows, columns and tile.
    """
    p, q = block
    pairs: list[tuple[Tile, Tile]] = []
    for rows, cols, tile in targets:
        logical = change.target.logical(tile.number, rows, cols)
        matrix, row, col = change.source.locate(logical)
        places = np.stack((matrix, row // p, col // q), axis=-1).reshape(-1, 3)
        reads = [Tile(source, *place) for place in np.unique(places, axis=0).tolist()]
        pairs += [(read, tile) for read in reads]
    return pairs


def crosswise(pairs: Sequence[tuple[Tile, Tile]]) -> list[tuple[Tile, Tile]]:
    """Return pairs of tiles so that neighbours differ in both: then their lanes overlap."""
    sources = {tile: n for n, tile in enumerate(sorted({read for read, _ in pairs}))}
    targets = {tile: n for n, tile in enumerate(sorted({tile for _, tile in pairs}))}

    def diagonal(pair: tuple[Tile, Tile]) -> tuple[int, int]:
        source, target = sources[pair[0]], targets[pair[1]]
        return (target - source) % len(targets), source

    return sorted(pairs, key=diagonal)
