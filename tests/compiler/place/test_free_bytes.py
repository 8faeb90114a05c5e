"""Does the state buffer hand out the bytes that were given back longest ago?"""

from __future__ import annotations

import random

import pytest

from systolic.compiler.place.free_bytes import Room, Wish
from systolic.spans import Interval

SIZE = 256


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("bank_bytes", [0, 64])
@pytest.mark.parametrize("seed", range(5))
def test_bytes_given_back_longest_ago_go_first(end, bank_bytes, seed):
    """The oracle keeps, for each byte, when it was given back, and looks at every whole word."""
    rng = random.Random(seed)
    room = Room(SIZE, bank_bytes)
    ages, held, now = [0] * SIZE, [], 0
    free, fresh = [True] * SIZE, [True] * SIZE
    wish = Wish(end, [Interval(0, SIZE)])
    looked = 0
    for _ in range(300):
        if held and rng.random() < 0.5:
            start, size = held.pop(rng.randrange(len(held)))
            room.give_back(start, size, [])
            now += 1
            ages[start : start + size] = [now] * size
            free[start : start + size] = [True] * size
            continue
        size = 4 * rng.randrange(1, 10)
        bank = bank_bytes or SIZE
        places = [
            place
            for place in range(0, SIZE - size + 1, 4)
            if place // bank == (place + size - 1) // bank and all(free[place : place + size])
        ]
        found = room.take(size, wish)
        if not places:
            assert found is None
            continue
        start, _ = found
        assert start in places
        whole = [place for place in places if all(fresh[place : place + size])]
        if whole:
            assert start == (min(whole) if end == "low" else max(whole))
        else:
            looked += 1
            oldest = min(max(ages[place : place + size]) for place in places)
            assert max(ages[start : start + size]) == oldest
        held.append((start, size))
        free[start : start + size] = fresh[start : start + size] = [False] * size
    assert looked > 20
