"""An access as another type: the same bytes in the same order, found byte by byte."""

from __future__ import annotations

from random import Random

import pytest

from systolic.hw.datatypes import DATA_TYPES, data_type
from systolic.isa import Access, Buffer

SIZES = {name: dtype.size_bytes for name, dtype in DATA_TYPES.items()}


def bytes_of(access: Access) -> list[int]:
    """Return the bytes of a partition that an access touches, one after another."""
    places = [0]
    for step, count in access.pattern:
        places = [place + step * n for place in places for n in range(count)]
    size = data_type(access.dtype).size_bytes
    return [access.start + place * size + byte for place in places for byte in range(size)]


def random_access(rng: Random) -> Access:
    """Return an access whose steps often fit together, from any of its elements' bytes on."""
    dtype = rng.choice(list(SIZES))
    pattern, step = [], rng.choice([1, 1, 1, 2, -1])
    for _ in range(rng.randint(1, 4)):
        count = rng.choice([1, 2, 3, 4, 8])
        pattern.append((step, count))
        step = rng.choice([step * count, step * count, 2 * step * count, 3 * step, 0])
    start = SIZES[dtype] * rng.randint(2000, 2008)
    return Access(Buffer.STATE, dtype, 3, 5, start, tuple(reversed(pattern)))


def words(access: Access, size: int) -> bool:
    """Return whether the bytes of an access are whole aligned words, byte after byte in each."""
    found = bytes_of(access)
    firsts = found[::size]
    return len(found) % size == 0 and all(
        first % size == 0 and found[n * size : (n + 1) * size] == list(range(first, first + size))
        for n, first in enumerate(firsts)
    )


@pytest.mark.parametrize("seed", range(40))
def test_an_access_as_another_type_touches_the_same_bytes_in_the_same_order(seed: int) -> None:
    rng = Random(seed)
    for _ in range(50):
        access, dtype = random_access(rng), rng.choice(list(SIZES))
        seen = access.seen_as(dtype)
        if seen is None:
            narrower = SIZES[dtype] < SIZES[access.dtype]
            assert narrower or not words(access, SIZES[dtype]) or access.pattern[-1][0] != 1
            continue
        assert bytes_of(seen) == bytes_of(access)
        assert seen.start % SIZES[dtype] == 0
        assert (seen.dtype, seen.lanes, seen.start) == (dtype, access.lanes, access.start)
        assert len(seen.pattern) <= len(access.pattern)


@pytest.mark.parametrize(
    ("dtype", "start", "pattern", "other", "expected"),
    [
        ("s8", 8, ((1, 64),), "s32", ((1, 16),)),
        ("s8", 8, ((8, 8), (1, 8)), "s32", ((1, 16),)),  # eights that lie side by side
        ("s8", 8, ((16, 8), (1, 8)), "s32", ((4, 8), (1, 2))),
        ("s8", 8, ((16, 8), (1, 4)), "s32", ((4, 8),)),
        ("bf16", 8, ((-6, 8), (1, 2)), "s32", ((-3, 8),)),
        ("s8", 10, ((1, 64),), "bf16", ((1, 32),)),
        ("f32", 8, ((6, 3), (1, 2)), "bf16", ((12, 3), (1, 4))),
        ("s8", 10, ((1, 64),), "s32", None),  # begins within a word
        ("s8", 8, ((1, 62),), "s32", None),  # ends within a word
        ("s8", 8, ((10, 8), (1, 4)), "s32", None),  # every other run begins within a word
        ("s8", 8, ((2, 64),), "s32", None),  # every other byte
        ("f32", 8, ((2, 64),), "bf16", None),  # two words for each element would lie side by side
    ],
)
def test_other_elements_by_hand(dtype, start, pattern, other, expected) -> None:
    seen = Access(Buffer.STATE, dtype, 0, 1, start, pattern).seen_as(other)
    assert (seen and seen.pattern) == expected


def test_words_of_the_result_buffer_hold_one_element() -> None:
    assert Access(Buffer.RESULT, "bf16", 0, 1, 0, ((1, 8),)).seen_as("s32") is None
