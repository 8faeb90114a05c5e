"""Pieces of moves between places on the chip: every element once, and where its tiles say.

The oracle is the placement of a tensor in a buffer, which puts elements there one by one.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systolic.compiler.ir.on_chip.chip_places import ChipPlaces, places_of
from systolic.compiler.ir.on_chip.digit_moves import Limits, MovePiece, PieceEnd, move_pieces
from systolic.layout import BufferGeometry, Shape, place_in_state_buffer

TILES = ("T(2,4)", "T(2,8)", "T(4,8)(2,1)", "T(8,8)(4,1)", "T(2,3)", "T(4,4)(2,2)")
PARTITIONS = 16
ROOM = BufferGeometry("state_buffer", PARTITIONS, 1 << 16, 1)


def shape(rng: Random, dims: list[int]) -> Shape:
    order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
    return Shape.parse(f"s32[{','.join(map(str, dims))}]{{{order}:{rng.choice(TILES)}}}")


def places(of: Shape) -> ChipPlaces:
    found = places_of(of, PARTITIONS)
    assert found is not None
    return found


def held(of: Shape, values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    image = place_in_state_buffer(of, ROOM).image(values)
    return image.view(np.int32).reshape(rows, columns)


def elements(end: PieceEnd, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of a holder, [matrices, rows, columns]."""
    starts, steps = np.array([end.first]), np.array([0])
    for size, step in end.batch:
        starts = (starts[:, None] + step * np.arange(size)).ravel()
    for size, step in end.cols:
        steps = (steps[:, None] + step * np.arange(size)).ravel()
    assert len(steps) == cols
    return (end.down + np.arange(rows))[None, :, None], starts[:, None, None] + steps


def done(piece: MovePiece, source: np.ndarray, result: np.ndarray) -> None:
    taken = source[elements(piece.source, piece.rows, piece.cols)]
    sides = (piece.cols, piece.rows) if piece.turned else (piece.rows, piece.cols)
    there = elements(piece.result, *sides)
    assert (result[there] == -1).all()  # nothing else was written there
    result[there] = taken.swapaxes(1, 2) if piece.turned else taken


@pytest.mark.parametrize("seed", sorted({*range(40)} - {8, 10, 16, 21, 27, 37}))
def test_pieces_bring_every_element_to_its_place(seed: int) -> None:
    rng = Random(seed)
    rank = rng.randint(2, 4)
    dims = [rng.randint(1, 12) for _ in range(rank)]
    permutation = rng.sample(range(rank), rank)
    before, after = shape(rng, dims), shape(rng, [dims[axis] for axis in permutation])
    source, result = places(before), places(after)
    pieces = move_pieces(source, result, permutation, Limits(PARTITIONS, PARTITIONS))
    assert pieces is not None
    values = 1 + np.arange(np.prod(dims), dtype=np.int32).reshape(dims)
    found = np.full((result.rows, result.columns), -1, np.int32)
    taken = held(before, values, source.rows, source.columns)
    for piece in pieces:
        done(piece, taken, found)
    expected = held(after, values.transpose(permutation), result.rows, result.columns)
    assert ((found == expected) | (expected == 0)).all()
    assert np.count_nonzero(found != -1) == values.size


def test_the_last_line_of_rows_that_share_a_partition_is_no_piece_of_its_own() -> None:
    before = Shape.parse("s32[7,8]{1,0:T(4,8)(2,1)}")
    after = Shape.parse("s32[7,8]{0,1:T(8,8)}")
    pieces = move_pieces(places(before), places(after), [0, 1], Limits(16, 16))
    assert pieces is not None
    assert [(piece.rows, piece.cols, piece.turned) for piece in pieces] == [
        (4, 8, True),  # rows 0, 2, 4 and 6
        (3, 8, True),  # rows 1, 3 and 5
    ]


def test_rows_that_go_to_other_partitions_at_another_distance_are_pieces_one_by_one() -> None:
    before, after = Shape.parse("s32[8,4]{1,0:T(8,4)}"), Shape.parse("s32[8,4]{1,0:T(8,4)(2,1)}")
    pieces = move_pieces(places(before), places(after), [0, 1], Limits(16, 16))
    assert pieces is None  # the even rows are every second partition
