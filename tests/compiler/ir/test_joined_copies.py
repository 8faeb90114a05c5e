"""Is the value right? Copies that are joined move every element once, from its place to its place.

The oracle lists the elements of both accesses one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from systolic.compiler.ir.joined_copies import joined
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import coalesced


def moved(copy: Copy) -> list[tuple[int, int]]:
    """Return the bytes that each element comes from and goes to, in order."""
    ends = []
    for access in (copy.source, copy.target):
        indices = product(*(range(count) for _, count in access.pattern))
        steps = [step for step, _ in access.pattern]
        ends.append(
            [
                access.start
                + access.element_bytes * sum(n * step for n, step in zip(index, steps, strict=True))
                for index in indices
            ]
        )
    return list(zip(*ends, strict=True))


def drawn(rng: Random) -> list[tuple[int, int, int]]:
    """Return digits of elements in another order, with gaps: size, and steps there and here."""
    sizes = [rng.choice([2, 3, 4, 5]) for _ in range(rng.randint(1, 3))]
    sides = []
    for order in (range(len(sizes)), rng.sample(range(len(sizes)), len(sizes))):
        step, steps = 1, dict[int, int]()
        for digit in order:
            steps[digit] = step * rng.choice([1, 1, 2])
            step = steps[digit] * sizes[digit]
        sides.append(steps)
    return [(sizes[n], sides[0][n], sides[1][n]) for n in reversed(range(len(sizes)))]


def copy_of(digits: Sequence[tuple[int, int, int]], source: int = 64, target: int = 64) -> Copy:
    """Return the copy of the elements of some digits, s32, from two bytes on."""
    here, there = (
        Access(Buffer.STATE, "s32", 0, 4, start, coalesced(tuple((d[n], d[0]) for d in digits)))
        for start, n in ((source, 1), (target, 2))
    )
    return Copy(engine="activation", source=here, target=there)


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_copy_are_joined_to_a_copy_of_the_same_elements(seed: int) -> None:
    rng = Random(100 + seed)
    digits = drawn(rng)
    count = rng.randint(1, len(digits))
    each = [
        copy_of(
            digits[count:] or [(1, 1, 1)],
            64 + 4 * sum(n * d[1] for n, d in zip(index, digits, strict=False)),
            64 + 4 * sum(n * d[2] for n, d in zip(index, digits, strict=False)),
        )
        for index in product(*(range(size) for size, *_ in digits[:count]))
    ]
    assert [pair for part in joined(each) for pair in moved(part)] == moved(copy_of(digits))
    assert len(joined(each)) == 1


def test_copies_at_other_distances_and_of_other_lanes_stay_apart() -> None:
    one = copy_of(drawn(Random(1)))
    far, gap, beside = (
        Copy(
            engine=one.engine,
            source=replace(one.source, start=source, partition=lane),
            target=replace(one.target, start=target, partition=lane),
        )
        for source, target, lane in ((1064, 2064, 0), (2064, 2664, 0), (3064, 3264, 1))
    )
    assert len(joined([one, far])) == 1
    assert joined([one, far, gap])[1:] == [gap]
    assert joined([gap, beside]) == [gap, beside]
