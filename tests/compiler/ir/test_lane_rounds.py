"""Do the pieces of rounds bring every element home, and are their lanes apart? One by one."""

from __future__ import annotations

from random import Random

import pytest

from compiler.ir.test_relays import check_leg, places
from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.lane_rounds import rounds_of_box
from systolic.compiler.ir.relays import BoxStep, leg_pieces, places_between, relay_ends

SHAPES = [
    ("s8[3,32,24]{2,1,0:T(8,8)(4,1)}", "s8[3,32,24]{2,1,0:T(16,24)}", (0, 1, 2)),
    ("s8[3,29,21]{2,1,0:T(8,8)(4,1)}", "s8[21,3,29]{0,2,1:T(16,32)}", (2, 0, 1)),
    ("bf16[37,12]{1,0:T(8,4)(2,1)}", "bf16[37,3,4]{2,0,1:T(4,4)}", None),
]


@pytest.mark.parametrize(("before", "after", "permutation"), SHAPES)
def test_each_element_comes_to_its_place(
    before: str, after: str, permutation: tuple[int, ...] | None
) -> None:
    ends = relay_ends(places(before), places(after), permutation)
    assert ends is not None
    rng = Random(before)
    for _ in range(20):
        digits = rng.sample(ends.digits, len(ends.digits))
        at = rng.randrange(len(digits))
        between = places_between(ends.source.dims, digits[:at], digits[at:])
        for leg in ((ends.source, ends.result), (ends.source, between), (between, ends.result)):
            pieces = leg_pieces(*leg, ends.digits, 10_000, rounds_of_box)
            assert pieces is not None
            assert all(piece.rows == piece.source_rows for piece in pieces)
            check_leg(*leg, pieces)


def test_four_lanes_change_places_with_four_columns_by_hand() -> None:
    """Lane o has a value for each lane i in column i, which goes to column o of lane i.

    In round n lane i takes from lane (i + n) mod 4: four instructions of lanes that are all apart,
    each in the turn behind that in which the round before took from its lane.
    """
    steps = [BoxStep(4, LANE, 1), BoxStep(4, 1, LANE)]
    found = [(p.source_row, p.row, p.source_col, p.col) for p in rounds_of_box([0, 0], steps)]
    assert found == [((i + n) % 4, i, i, (i + n) % 4) for n in range(4) for i in range(4)]


@pytest.mark.parametrize(("leave", "arrive"), [(4, 4), (8, 2), (2, 8), (3, 5)])
def test_a_round_has_no_lane_twice(leave: int, arrive: int) -> None:
    """Two lanes side by side stay so: they are copied together, and are lanes of their own."""
    steps = [
        BoxStep(2, LANE, LANE),
        BoxStep(leave, 2 * LANE, 8),
        BoxStep(arrive, 8, 2 * LANE),
        BoxStep(8, 1, 1),
    ]
    pieces = [*rounds_of_box([0, 0], steps)]
    assert len(pieces) == leave * arrive
    together = min(leave, arrive)
    for first in range(0, len(pieces), together):
        some = pieces[first : first + together]
        for rows in ([p.source_row for p in some], [p.row for p in some]):
            assert len({*rows}) == together
            assert all(row % 2 == 0 for row in rows)
        assert all((p.rows, p.columns, p.run) == (2, 8, 8) for p in some)
