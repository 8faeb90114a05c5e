"""When do two courses first use one port? Held against looking at every tick."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systolic.machine.event.ports import meeting
from systolic.machine.event.ports.course import Course, PlacedCourse
from systolic.machine.event.ports.meeting import NEVER, first_meeting, taken_until
from systolic.machine.event.ports.ports import Need, Port, number_of

PORTS = [Port("state_buffer", bank, "read") for bank in range(2)]
Row = tuple[int, int, int, int, int]
"""A use: first tick, tick behind it, port, lowest partition, partition behind the highest."""


def regular(rng: Random) -> list[Row]:
    """Return uses that follow one another by the same steps; the steps are of few kinds."""
    ticks_on, lanes_on = rng.choice([3, 4]), rng.choice([-1, 0, 1])
    at, lane, port = rng.randrange(20), rng.randrange(8), rng.randrange(2)
    number, ticks, lanes = rng.randint(2, 12), rng.randint(1, ticks_on), rng.randint(1, 2)
    places = [(at + n * ticks_on, lane + n * lanes_on) for n in range(number)]
    return [(first, first + ticks, port, low, low + lanes) for first, low in places]


def irregular(rng: Random) -> list[Row]:
    """Return uses that follow one another at any distances."""
    rows, at = list[Row](), rng.randrange(5)
    for _ in range(rng.randint(1, 12)):
        at += rng.choice([0, 0, 1, 5])
        low = rng.randrange(8)
        rows.append((at, at + rng.randint(1, 4), rng.randrange(2), low, low + rng.randint(1, 3)))
        at = rows[-1][1]
    return rows


def drawn(rng: Random) -> tuple[PlacedCourse, list[Row]]:
    """Return a course from some tick on, and its uses in ticks of the run."""
    rows, origin = rng.choice([regular, irregular])(rng), rng.randrange(-9, 9)
    table = np.array([(a, b, number_of(PORTS[p]), low, up) for a, b, p, low, up in rows]).T
    return PlacedCourse(Course.of_table(table), origin), [
        (a + origin, b + origin, *r) for a, b, *r in rows
    ]


def in_use(rows: list[Row], tick: int) -> list[Row]:
    """Return the uses under way in a tick."""
    return [row for row in rows if row[0] <= tick < row[1]]


@pytest.mark.parametrize("swept", [meeting.MOST_SWEPT, 0])
def test_courses_meet_in_the_first_tick_in_which_both_use_a_port(
    swept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few uses are looked at one by one, many all at once, or by their steps."""
    monkeypatch.setattr(meeting, "MOST_SWEPT", swept)
    rng, met = Random(7), 0
    for _ in range(2000):
        (one, mine), (other, theirs), now = drawn(rng), drawn(rng), rng.randrange(-5, 20)
        ticks = (
            tick
            for tick in range(now, 100)
            for a in in_use(mine, tick)
            for b in in_use(theirs, tick)
            if a[2] == b[2] and a[3] < b[4] and b[3] < a[4]
        )
        expected = next(ticks, NEVER)
        assert first_meeting(one, other, now) == expected
        met += expected < NEVER
    assert 200 < met < 1800


def test_what_is_needed_stays_taken_by_the_same_partitions_until_then() -> None:
    """So it is where the stream uses it in each tick until then, and no longer or by others."""
    rng, kinds = Random(11), set()
    for _ in range(2000):
        (course, rows), now = drawn(rng), rng.randrange(-5, 20)
        low, until = rng.randrange(8), now + rng.randrange(1, 30)
        need = Need(PORTS[rng.randrange(2)], low, low + rng.randint(1, 4))

        def lowest(tick: int, rows: list[Row] = rows, need: Need = need) -> int | None:
            met = (r for r in in_use(rows, tick) if PORTS[r[2]] == need.port)
            return next((r[3] for r in met if r[3] < need.stop and need.first < r[4]), None)

        taken, change = taken_until(course, need, now, until)
        assert taken == (lowest(now) is not None)
        expected = next((t for t in range(now, until) if lowest(t) != lowest(now)), until)
        assert change == expected
        kinds.add((taken, change < until))
    assert len(kinds) == 4
