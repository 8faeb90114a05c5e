"""Do the laws of layouts hold, on whole small domains and on random ones?

The oracle here is the seeds' formula written out again for one element at a time, in the plainest
Python, sharing nothing with the package but the numbers of a layout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.layout import COMBINE, Layout, Shape, pack, relayout, unpack, view
from systolic.layout.packing.by_definition import into_memory, out_of_memory

# -- the oracle -----------------------------------------------------------------------------------


def plain_index(shape: Shape, index: tuple[int, ...]) -> tuple[int, int]:
    """(offset of the element, places in memory) by the formulas of seed 002, level by level."""
    major_to_minor = shape.layout.minor_to_major[::-1]
    sizes = shape.layout.padded_dimensions or shape.dims
    e = [index[d] for d in major_to_minor]
    d = [sizes[n] for n in major_to_minor]
    for tile in shape.layout.tiles:
        t = list(tile.dims)
        while len(d) < len(t):
            e, d = [0, *e], [1, *d]
        first = len(d) - len(t)
        while COMBINE in t:
            at = first + t.index(COMBINE)
            e[at + 1] += e[at] * d[at + 1]
            d[at + 1] *= d[at]
            del e[at], d[at], t[at - first]
        tail_e, tail_d = e[first:], d[first:]
        pairs = list(zip(tail_e, t, strict=True))
        e = e[:first] + [a // b for a, b in pairs] + [a % b for a, b in pairs]
        d = d[:first] + [math.ceil(a / b) for a, b in zip(tail_d, t, strict=True)] + t
    offset = 0
    for a, b in zip(e, d, strict=True):
        offset = offset * b + a
    align = shape.layout.tail_align
    return offset, math.ceil(math.prod(d) / align) * align


def elements(shape: Shape) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in shape.dims))


def counted(shape: Shape) -> np.ndarray:
    return np.arange(shape.num_elements(), dtype=np.int32).reshape(shape.dims)


def check_all(shape: Shape) -> None:
    """Every law of one layout, over all its elements and all its places."""
    expected = {index: plain_index(shape, index)[0] for index in elements(shape)}
    places = plain_index(shape, (0,) * shape.rank)[1]
    assert shape.padded_elements() == places
    assert len(set(expected.values())) == len(expected), "not injective"
    assert all(0 <= offset < places for offset in expected.values())
    assert {index: shape.linear_index(index) for index in expected} == expected
    found = {k: shape.from_linear_index(k) for k in range(places)}
    back = {offset: index for index, offset in expected.items()}
    assert found == {k: back.get(k) for k in range(places)}, "not the inverse"
    array = counted(shape)
    memory = np.full(places, -7, np.int32)
    for index, offset in expected.items():
        memory[offset] = array[index]
    legacy = shape.layout.padded_dimensions is not None
    if not legacy:
        assert pack(array, shape, fill=-7).tolist() == memory.tolist()
        assert (
            pack(array, shape, fill=-7, out=np.ones(places, np.int32)).tolist() == memory.tolist()
        )
        assert into_memory(array, shape, -7).tolist() == memory.tolist()
    np.testing.assert_array_equal(unpack(pack(array, shape, fill=-7), shape), array)
    np.testing.assert_array_equal(out_of_memory(memory, shape), array)
    seen = view(memory, shape)
    if seen is not None:
        np.testing.assert_array_equal(seen, array)


# -- whole small domains --------------------------------------------------------------------------

DIMS = [
    dims
    for rank in range(4)
    for dims in itertools.product((1, 2, 3, 5), repeat=rank)
    if math.prod(dims) <= 30
]
SMALL_DIMS = [dims for dims in DIMS if len(dims) < 3 or math.prod(dims) <= 8]
OTHER_DIMS = [dims for dims in DIMS if dims not in SMALL_DIMS]
SMALL_TILES: list[tuple[tuple[int, ...], ...]] = [
    (),
    ((2,),),
    ((3,), (2,)),
    ((2, 2),),
    ((1, 1),),
    ((2, 4), (2, 1)),
    ((4, 2), (2, 1, 1, 1)),
    ((2, 3), (3, 2)),
    ((COMBINE, 2),),
    ((2, COMBINE, 3),),
    ((COMBINE, COMBINE, 4), (2,)),
    ((3, 2), (COMBINE, 2)),
    ((2, 2, 2),),
]


def check_all_orders(domain: list[tuple[int, ...]], tiles: tuple[tuple[int, ...], ...]) -> None:
    for dims in domain:
        for order in itertools.permutations(range(len(dims))):
            check_all(Shape("s32", dims, Layout(order, tiles)))


@pytest.mark.parametrize("tiles", SMALL_TILES, ids=str)
def test_laws_on_all_small_shapes(tiles: tuple[tuple[int, ...], ...]) -> None:
    check_all_orders(SMALL_DIMS, tiles)


@pytest.mark.slow
@pytest.mark.parametrize("tiles", SMALL_TILES, ids=str)
def test_laws_on_the_other_small_shapes(tiles: tuple[tuple[int, ...], ...]) -> None:
    check_all_orders(OTHER_DIMS, tiles)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9])
def test_every_tile_of_a_vector(size: int) -> None:
    for tile, inner in itertools.product(range(1, 10), range(1, 10)):
        check_all(Shape("s32", (size,), Layout((0,), [(tile,), (inner,)])))


# -- random ones ----------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn, dims: list[int], folds: bool = True) -> Layout:
    sizes = st.integers(1, 6)
    tiles = []
    for _ in range(draw(st.integers(0, 3))):
        tile = draw(st.lists(sizes, min_size=1, max_size=len(dims) + 2))
        if folds:
            marks = draw(st.lists(st.booleans(), min_size=len(tile), max_size=len(tile)))
            tile = [
                COMBINE if m and n < len(tile) - 1 else t
                for n, (t, m) in enumerate(zip(tile, marks, strict=True))
            ]
        tiles.append(tile)
    padded = None
    if draw(st.integers(0, 4)) == 0:
        padded = [size + draw(st.integers(0, 2)) for size in dims]
    return Layout(
        draw(st.permutations(range(len(dims)))),
        tiles,
        tail_align=draw(st.sampled_from([1, 1, 1, 7, 16])),
        padded_dimensions=padded,
    )


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    dims = draw(st.lists(st.integers(1, 6), max_size=4).filter(lambda d: math.prod(d) <= 150))
    shape = Shape("s32", dims, draw(layouts(dims)))
    return shape if shape.padded_elements() <= 4000 else Shape("s32", dims)


@settings(max_examples=80, deadline=None)
@given(shapes())
def test_laws_on_random_shapes(shape: Shape) -> None:
    check_all(shape)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(shapes())
def test_laws_on_many_random_shapes(shape: Shape) -> None:
    check_all(shape)


@settings(max_examples=150, deadline=None)
@given(shapes(), st.data())
def test_text_round_trip(shape: Shape, data: st.DataObject) -> None:
    if shape.layout.padded_dimensions is None:
        assert Shape.parse(str(shape)) == shape
        assert hash(Shape.parse(str(shape))) == hash(shape)


@settings(max_examples=100, deadline=None)
@given(shapes())
def test_tiles_of_ones_are_no_tiles(shape: Shape) -> None:
    for ones in ((1,), (1,) * max(1, shape.rank)):
        tiled = shape.with_tiles(*shape.layout.tiles, ones)
        assert tiled.padded_elements() == shape.padded_elements()
        assert tiled.permutation().tolist() == shape.permutation().tolist()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_relayout_there_and_back(data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.integers(1, 6), max_size=3))
    one, two = (Shape("s32", dims, data.draw(layouts(dims))) for _ in range(2))
    memory = pack(counted(one), one)
    there = relayout(one, two).apply(memory)
    np.testing.assert_array_equal(there, pack(counted(two), two))
    np.testing.assert_array_equal(relayout(two, one).apply(there), memory)


@settings(max_examples=100, deadline=None)
@given(shapes(), st.data())
def test_arrays_of_indices_agree_with_single_ones(shape: Shape, data: st.DataObject) -> None:
    if shape.rank == 0:
        return
    chosen = data.draw(
        st.lists(st.tuples(*(st.integers(0, size - 1) for size in shape.dims)), min_size=1)
    )
    columns = [np.array(column) for column in zip(*chosen, strict=True)]
    offsets = shape.linear_index(columns)
    assert offsets.tolist() == [shape.linear_index(index) for index in chosen]
    found, is_element = shape.from_linear_indices(offsets)
    assert is_element.all()
    assert [tuple(part) for part in np.stack(found, 1).tolist()] == chosen


def test_combining_is_a_reshape() -> None:
    combined = Shape.parse("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}")
    matrix = Shape.parse("f32[112,110]{1,0:T(2,3)}")
    assert combined.physical_dims() == matrix.physical_dims()
    assert combined.padded_elements() == 112 * 111
    index = np.ogrid[tuple(slice(0, size) for size in combined.dims)]
    rows_columns = np.ogrid[0:112, 0:110]
    np.testing.assert_array_equal(
        combined.linear_index(list(index)).ravel(), matrix.linear_index(list(rows_columns)).ravel()
    )
    array = np.arange(112 * 110, dtype=np.float32).reshape(combined.dims)
    np.testing.assert_array_equal(pack(array, combined), pack(array.reshape(112, 110), matrix))
    np.testing.assert_array_equal(unpack(pack(array, combined), combined), array)


def test_zero_sized_dimensions_have_no_elements() -> None:
    for text in ("f32[0,5]{1,0:T(8,128)}", "f32[5,0]{0,1:T(*,2)(2)}", "s4[0]{0:T(128)E(4)}"):
        shape = Shape.parse(text)
        assert shape.num_elements() == shape.padded_elements() == shape.size_bytes() == 0
        memory = pack(np.zeros(shape.dims, shape.dtype), shape)
        assert memory.size == 0
        assert unpack(memory, shape).shape == shape.dims
