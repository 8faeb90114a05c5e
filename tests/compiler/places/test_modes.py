"""Do the laws of the algebra hold? Every nest of a small domain, against the places one by one."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from systolic.compiler.places.modes import (
    Mode,
    by_step,
    coalesce,
    places,
    seen,
    size,
    split,
    stretch,
)

STEPS = (0, 1, 2, 3, 4, 6)
NESTS = [
    tuple(Mode(n, (step,)) for n, step in zip(counts, steps, strict=True))
    for rank in (0, 1, 2)
    for counts in product((1, 2, 3, 4), repeat=rank)
    for steps in product(STEPS, repeat=rank)
]
DEEP = [
    tuple(Mode(n, (step,)) for n, step in zip((a, b, c), steps, strict=True))
    for a, b, c in product((1, 2, 3), repeat=3)
    for steps in product((0, 1, 2, 4), repeat=3)
]


def by_definition(nest):
    """Return the places as the definition has them: the sum of digit times step, index by index."""
    found = []
    for index in range(math.prod(mode.extent for mode in nest)):
        place, rest = 0, index
        for mode in reversed(nest):
            rest, digit = divmod(rest, mode.extent)
            place += digit * mode.steps[0]
        found.append(place)
    return found


@pytest.mark.parametrize("nests", [NESTS, DEEP], ids=["two modes", "three modes"])
def test_places_and_stretch(nests):
    for nest in nests:
        expected = by_definition(nest)
        assert list(places(nest)) == expected
        assert size(nest) == len(expected)
        assert stretch(nest) == max(expected) - min(expected) + 1


@pytest.mark.parametrize("nests", [NESTS, DEEP], ids=["two modes", "three modes"])
def test_coalesced_is_the_same_map_with_the_fewest_modes(nests):
    fewest = {}
    for nest in nests:
        key = tuple(by_definition(nest))
        fewest[key] = min(fewest.get(key, 9), sum(mode.extent > 1 for mode in nest))
    for nest in nests:
        found, key = coalesce(nest), tuple(by_definition(nest))
        assert tuple(by_definition(found)) == key
        assert len(found) <= fewest[key]


def test_two_sides_coalesce_only_where_both_do():
    both = (Mode(4, (24, 4)), Mode(6, (4, 16)))
    assert coalesce(both) == both
    assert coalesce(seen(both, 0)) == (Mode(24, (4,)),)
    assert coalesce(seen(both, 1)) == seen(both, 1)


def test_split():
    for count, step, inner in product(range(1, 13), STEPS, range(1, 13)):
        mode = Mode(count, (step, 5))
        if count % inner:
            with pytest.raises(ValueError, match=f"no parts of {inner}"):
                split(mode, inner)
            continue
        parts = split(mode, inner)
        assert [part.extent for part in parts] == [count // inner, inner]
        assert list(places(parts)) == list(places((mode,)))
        assert coalesce(parts) == coalesce((mode,))


def test_windows_overlap():
    windows = (Mode(3, (2,)), Mode(4, (1,)))
    assert list(places(windows)) == [0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7]
    assert stretch(windows) == 8
    assert coalesce(windows) == windows


def test_by_step_keeps_the_elements():
    for nest in DEEP:
        found = by_step(nest, 0)
        assert sorted(places(found)) == sorted(by_definition(nest))
        moving = [mode.steps[0] for mode in found if mode.steps[0]]
        assert moving == sorted(moving, reverse=True)
        assert np.array_equal(
            [m.steps[0] == 0 for m in found], sorted([m.steps[0] == 0 for m in found], reverse=True)
        )
