"""Is a copy plan what a byte-by-byte reader of both memories would write down?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.layout import ContiguousRun, Layout, LayoutError, Shape, pack, relayout


def runs_by_hand(source: Shape, target: Shape) -> list[tuple[int, int, int]]:
    """Walk the target's memory one place at a time and note where each element comes from."""
    at = {source.linear_index(index): index for index in np.ndindex(*source.dims)}
    comes_from = {target.linear_index(index): offset for offset, index in at.items()}
    runs: list[list[int]] = []
    for place in sorted(comes_from):
        origin = comes_from[place]
        if runs and (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]) == (origin, place):
            runs[-1][2] += 1
        else:
            runs.append([origin, place, 1])
    return [(a, b, c) for a, b, c in runs]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Shape, Shape]:
    dims = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 9]), min_size=1, max_size=3))

    def layout() -> Layout:
        tile = st.lists(st.sampled_from([1, 2, 2, 3, 4, 8]), min_size=1, max_size=len(dims) + 1)
        tiles = draw(st.lists(tile, max_size=2))
        if tiles and len(tiles[0]) > 1 and draw(st.booleans()):
            tiles[0] = [-1, *tiles[0][1:]]
        return Layout(draw(st.permutations(range(len(dims)))), tiles)

    return Shape("s32", dims, layout()), Shape("s32", dims, layout())


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_runs_are_the_longest(pair: tuple[Shape, Shape]) -> None:
    source, target = pair
    plan = relayout(source, target)
    expected = runs_by_hand(source, target)
    assert list(plan.runs()) == expected
    assert plan.run_count == len(expected)
    assert plan.is_identity == all(a == b for a, b, _ in expected)


@settings(max_examples=150, deadline=None)
@given(pairs())
def test_runs_move_the_data(pair: tuple[Shape, Shape]) -> None:
    source, target = pair
    array = np.arange(source.num_elements(), dtype=np.int32).reshape(source.dims)
    memory = pack(array, source)
    moved = np.zeros(target.padded_elements(), np.int32)
    for run in relayout(source, target).runs():
        stretch = memory[run.source : run.source + run.length]
        moved[run.target : run.target + run.length] = stretch
    np.testing.assert_array_equal(moved, pack(array, target))
    np.testing.assert_array_equal(relayout(source, target).apply(memory), moved)


def shape(text: str) -> Shape:
    return Shape.parse(text)


@pytest.mark.parametrize(
    ("source", "target", "runs", "size_bytes"),
    [
        ("f32[8,8]", "f32[8,8]", 1, 256),
        ("f32[8,8]", "f32[8,8]{0,1}", 64, 256),
        ("f32[8,8]", "f32[8,8]{1,0:T(8,8)}", 1, 256),
        ("f32[8,8]", "f32[8,8]{1,0:T(4,8)}", 1, 256),
        ("f32[8,8]", "f32[8,8]{1,0:T(2,2)}", 29, 256),  # 32 pairs, 3 of which follow on
        ("f32[300,1000]", "f32[300,1000]{1,0:T(8,128)}", 2400, 1200000),
        ("s4[8,8]", "s4[8,8]{1,0:E(4)}", 1, 32),
        ("f32[0,3]", "f32[0,3]{0,1}", 0, 0),
        ("f32[]", "f32[]{:T(128)}", 1, 4),
        # Whole columns fit nowhere: 16 777 216 single elements but for the tile seams.
        ("bf16[4096,4096]", "bf16[4096,4096]{1,0:T(8,128)(2,1)}", 16776705, 33554432),
        ("f32[4096,4096]", "f32[4096,4096]{1,0:T(8,128)}", 130561, 67108864),
        ("bf16[4001,4001]", "bf16[4001,4001]{1,0:T(8,128)(2,1)}", 16008001, 32016002),
    ],
)
def test_cost(source: str, target: str, runs: int, size_bytes: int) -> None:
    plan = relayout(shape(source), shape(target))
    assert (plan.run_count, plan.size_bytes) == (runs, size_bytes)


def test_hostile_sizes_cost_nothing_until_listed() -> None:
    plan = relayout(shape("u8[2000000000,2000000000]"), shape("u8[2000000000,2000000000]{0,1}"))
    assert plan.run_count == 2000000000**2
    with pytest.raises(LayoutError, match=r"^at most 33554432 runs can be listed one by one"):
        plan.runs_as_arrays()


def test_runs_are_named() -> None:
    first = next(relayout(shape("f32[2,3]"), shape("f32[2,3]{0,1}")).runs())
    assert first == ContiguousRun(source=0, target=0, length=1)


def test_bits_are_moved_too() -> None:
    source, target = shape("s4[3,5]{1,0:E(4)}"), shape("s4[3,5]{0,1:T(2,2)E(4)}")
    array = (np.arange(15) % 16 - 8).reshape(3, 5).astype(source.dtype)
    moved = relayout(source, target).apply(pack(array, source))
    assert moved.tobytes() == pack(array, target).tobytes()


def test_one_array_in_two_layouts() -> None:
    with pytest.raises(LayoutError, match=r"^relayout needs one array in two layouts, found f32"):
        relayout(shape("f32[2,3]"), shape("f32[3,2]"))
    with pytest.raises(LayoutError, match=r"^f32 elements can be held in E\(32\), found E\(4\)$"):
        relayout(shape("f32[2,3]"), shape("f32[2,3]{1,0:E(4)}"))
