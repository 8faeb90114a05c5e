"""Is the value right? Parts of a copy move every element once, from its place to its place.

The oracle lists the elements of both accesses one by one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest

from systolic.compiler.ir.copy_cuts import copy_digits, joined
from systolic.isa import Access, Buffer, Copy
from systolic.spans import Span


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


def drawn(rng: Random) -> Copy:
    """Return a copy of elements in another order, from and to places with gaps."""
    sizes = [rng.choice([2, 3, 4, 5]) for _ in range(rng.randint(1, 3))]
    patterns = []
    for order in (range(len(sizes)), rng.sample(range(len(sizes)), len(sizes))):
        step, steps = 1, dict[int, int]()
        for digit in order:
            steps[digit] = step * rng.choice([1, 1, 2])
            step = steps[digit] * sizes[digit]
        pairs: list[tuple[int, int]] = []
        for digit in reversed(range(len(sizes))):
            if pairs and pairs[-1][0] == steps[digit] * sizes[digit]:
                pairs[-1] = steps[digit], pairs[-1][1] * sizes[digit]
            else:
                pairs.append((steps[digit], sizes[digit]))
        patterns.append(tuple(pairs))
    dtype = rng.choice(["u8", "s32"])
    source, target = (Access(Buffer.STATE, dtype, 0, 4, 64, pattern) for pattern in patterns)
    return Copy(engine="activation", source=source, target=target)


@pytest.mark.parametrize("seed", range(20))
def test_parts_move_all_elements_once(seed: int) -> None:
    rng = Random(seed)
    copy = drawn(rng)
    whole = copy_digits(copy)
    assert whole is not None
    numbers = sorted(set(whole.longest))
    cuts = []
    for number in numbers:
        size = whole.digits[number].size
        edges = [0, *sorted(rng.sample(range(1, size), rng.randint(0, min(2, size - 1)))), size]
        cuts.append([Span(a, b - a) for a, b in pairwise(edges)])
    parts = [whole.part(list(zip(numbers, some, strict=True))) for some in product(*cuts)]
    assert sorted(pair for part in parts for pair in moved(part)) == sorted(moved(copy))


def test_stretches_of_the_longest_digits_are_stretches_of_bytes() -> None:
    # 3 x 4 elements turned: digit 0 is major in the source, digit 1 in the target.
    source = Access(Buffer.STATE, "s32", 0, 4, 0, ((1, 12),))
    copy = Copy(
        engine="", source=source, target=Access(Buffer.STATE, "s32", 0, 4, 100, ((1, 3), (3, 4)))
    )
    whole = copy_digits(copy)
    assert whole.longest == (0, 1)
    part = whole.part([(0, Span(0, 2)), (1, Span(2, 2))])
    assert (part.source.start, part.source.pattern) == (8, ((4, 2), (1, 2)))
    assert (part.target.start, part.target.pattern) == (124, ((1, 2), (3, 2)))


@pytest.mark.parametrize(
    "pattern",
    [
        ((4, 3), (1, 4)),  # its rows of four cut those of six
        ((0, 2), (1, 6)),  # six elements are read twice
        ((-1, 12),),
    ],
)
def test_what_has_no_common_digits_has_no_parts(pattern: tuple[tuple[int, int], ...]) -> None:
    source = Access(Buffer.STATE, "s32", 0, 4, 64, pattern)
    target = Access(Buffer.STATE, "s32", 0, 4, 256, ((8, 2), (1, 6)))
    assert copy_digits(Copy(engine="", source=source, target=target)) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_copy_are_joined_to_a_copy_of_the_same_elements(seed: int) -> None:
    rng = Random(100 + seed)
    copy = drawn(rng)
    whole = copy_digits(copy)
    sizes = [digit.size for digit in whole.digits[: rng.randint(1, len(whole.digits))]]
    each = [
        whole.part([(number, Span(n, 1)) for number, n in enumerate(index)])
        for index in product(*map(range, sizes))
    ]
    assert [pair for part in joined(each) for pair in moved(part)] == moved(copy)
    assert len(joined(each)) == 1


def test_copies_at_other_distances_and_of_other_lanes_stay_apart() -> None:
    one = drawn(Random(1))
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
