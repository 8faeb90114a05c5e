"""Do the pieces of a leg bring every element where it belongs? Held to places, one by one."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from systolic.compiler.ir.change_of_view import MOST_PAIRS, Piece
from systolic.compiler.ir.chip_places import ChipPlaces, places_of
from systolic.compiler.ir.relays import (
    RelayPlaces,
    leg_pieces,
    places_between,
    relay_ends,
    split_digit,
)
from systolic.layout import Shape
from systolic.spans import Span

PARTITIONS = 16


def places(text: str) -> ChipPlaces:
    found = places_of(Shape.parse(text), PARTITIONS)
    assert found is not None
    return found


def offsets(pairs: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Return the columns that an access names, in its order: written for this test."""
    found = [0]
    for step, count in pairs:
        found = [start + step * n for start in found for n in range(count)]
    return np.asarray(found)


def check_leg(source: RelayPlaces, result: RelayPlaces, pieces: tuple[Piece, ...]) -> None:
    """Copy numbers piece by piece, as accesses name them; each must reach its own place, once."""
    held = np.full((source.rows, source.columns), -1)
    every = np.arange(int(np.prod(source.dims)))
    _, down, across = source.locate(every)
    held[down, across] = every
    made = np.full((result.rows, result.columns), -1)
    for piece in pieces:
        assert max(len(piece.pairs), len(piece.into)) <= MOST_PAIRS
        rows = np.arange(piece.source_row, piece.source_row + piece.source_rows)
        taken = held[rows[:, None], piece.source_col + offsets(piece.pairs)].ravel()
        into = (
            np.arange(piece.row, piece.row + piece.rows)[:, None],
            piece.col + offsets(piece.into),
        )
        assert (made[into] == -1).all()
        made[into] = taken.reshape(made[into].shape)
    _, down, across = result.locate(every)
    assert (made[down, across] == every).all()
    assert (made != -1).sum() == len(every)
    assert (result.logical(0, *map(_all, made.shape)) == made).all()


def _all(size: int) -> Span:
    return Span(0, size)


@pytest.mark.parametrize(
    ("before", "after", "permutation"),
    [
        ("s8[3,32,24]{2,1,0:T(8,8)(4,1)}", "s8[3,32,24]{2,1,0:T(16,24)}", (0, 1, 2)),
        ("s8[3,29,21]{2,1,0:T(8,8)(4,1)}", "s8[21,3,29]{0,2,1:T(16,32)}", (2, 0, 1)),
        ("bf16[37,12]{1,0:T(8,4)(2,1)}", "bf16[37,3,4]{2,0,1:T(4,4)}", None),
    ],
)
def test_each_element_comes_to_its_place(
    before: str, after: str, permutation: tuple[int, ...] | None
) -> None:
    ends = relay_ends(places(before), places(after), permutation)
    assert ends is not None
    rng, legs = Random(len(before)), 0
    for _ in range(20):
        digits = list(ends.digits)
        at = rng.randrange(len(digits))
        if digits[at].size % 2 == 0:
            digits[at : at + 1] = split_digit(digits[at], digits[at].size // 2)
        lanes = [digit for digit in digits if rng.random() < 0.4]
        if np.prod([digit.size for digit in lanes]) > PARTITIONS:
            continue
        rest = [digit for digit in digits if digit not in lanes]
        between = [
            places_between(ends.source.dims, lanes, rng.sample(rest, len(rest))) for _ in range(2)
        ]
        line = [ends.source, *between, ends.result]
        for source, result in pairwise(line):
            pieces = leg_pieces(source, result, digits, most=10_000)
            assert pieces is not None
            check_leg(source, result, pieces)
            legs += 1
    assert legs


def test_rows_that_share_a_partition_are_spread_by_one_piece() -> None:
    ends = relay_ends(
        places("s8[16,8]{1,0:T(8,8)(4,1)}"), places("s8[16,8]{1,0:T(16,8)}"), range(2)
    )
    assert ends is not None
    pieces = leg_pieces(ends.source, ends.result, ends.digits, most=1)
    assert pieces is not None
    (piece,) = pieces
    assert (piece.source_rows, piece.rows) == (4, 16)
    assert (piece.pairs, piece.into) == (((1, 4), (4, 8)), ((1, 8),))


def test_digits_that_cut_one_another_make_no_relay() -> None:
    four, six = (places(f"s8[24,8]{{1,0:T({rows},8)({rows},1)}}") for rows in (4, 6))
    assert relay_ends(four, six, range(2)) is None
