"""Places on the chip index by index: those of all elements, by the rule of placement."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from support.placement_law import PlacementLaw
from systolic.compiler.ir.on_chip.chip_places import (
    LANE,
    ChipPlaces,
    any_rows,
    row_groups,
)
from systolic.compiler.ir.on_chip.homes import in_unbroken_rows
from systolic.layout import Shape

TILES = ("T(4,8)", "T(8,4)", "T(2,2)", "T(8,8)(2,1)", "T(3,5)", "T(4,8)(4,1)", "T(2,4,4)", "T(8)")


def random_text(rng: Random, tiles: str = "") -> str:
    dims = [rng.randint(1, 9) for _ in range(rng.randint(2, 4))]
    order = rng.sample(range(len(dims)), len(dims))
    return f"s8[{','.join(map(str, dims))}]{{{','.join(map(str, order))}{tiles}}}"


def agree(places: ChipPlaces, partitions: int) -> None:
    law = PlacementLaw(places.shape, partitions)
    for index in np.ndindex(*places.dims):
        partition, address = law.place(index)
        assert places.linear_index(index) == partition * LANE + address, (places.shape, index)


@pytest.mark.parametrize("seed", range(200))
def test_places_of_tiles(seed: int) -> None:
    rng = Random(seed)
    shape, partitions = Shape.parse(random_text(rng, ":" + rng.choice(TILES))), rng.choice([8, 12])
    found = ChipPlaces.of(shape, partitions)
    assert found is not None
    agree(found, partitions)


@pytest.mark.parametrize("seed", range(200))
def test_places_of_unbroken_rows(seed: int) -> None:
    """On an array of fewer rows than the state buffer has partitions, too."""
    rng = Random(seed)
    shape = Shape.parse(random_text(rng))
    partitions, tall = rng.choice([(8, 8), (13, 13), (13, 8), (8, 3), (16, 4)])
    views = [*row_groups(shape), *any_rows(shape)]
    view = rng.choice(views)
    found = ChipPlaces.of(in_unbroken_rows(shape, view, tall), partitions)
    if found is not None:
        agree(found, partitions)


@pytest.mark.parametrize("seed", range(200))
def test_places_of_rows_that_lie_together(seed: int) -> None:
    rng = Random(seed)
    shape = Shape.parse(random_text(rng))
    partitions, tall = rng.choice([(8, 8), (13, 13), (13, 8), (8, 3), (16, 4)])
    view = rng.choice(row_groups(shape))
    together = rng.choice([n for n in range(1, 10) if shape.dims[view[-2][-1]] % n == 0])
    lies = in_unbroken_rows(shape, view, tall, together)
    found = ChipPlaces.of(lies, partitions)
    if found is not None:
        agree(found, partitions)


def test_rows_that_a_tile_cuts_unevenly_are_no_sums() -> None:
    """Of rows 2 x 5 in tiles of 8 the last two are in another tile, whatever the buffer has."""
    shape = Shape.parse("s8[5,5,2,2]{3,0,1,2}")
    view = ((2, 1), (0, 3))
    for tall, is_sum in ((8, False), (10, True), (5, True)):
        found = ChipPlaces.of(in_unbroken_rows(shape, view, tall), 13)
        assert found is not None
        assert found.is_sum([(0,), (1,), (2,), (3,)]) == is_sum
        assert found.is_sum([(0,), (2, 1), (3,)])
