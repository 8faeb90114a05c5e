"""Do blocks cover a tensor exactly once, and do their tiles count as the patent says?"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.layout import LayoutError, Shape, decompose


def test_the_patents_example() -> None:
    cut = decompose(Shape("f32", (300, 1000)), (128, 128))
    assert (cut.count, cut.grid) == (24, (3, 8))
    assert str(cut.tiled) == "f32[300,1000]{1,0:T(128,128)}"
    last = list(cut)[-1]
    assert (last.index, last.origin, last.extents) == ((2, 7), (256, 896), (44, 104))


def test_equation_1_is_the_tile_count_on_a_whole_domain() -> None:
    for m, n, p, q in itertools.product(range(0, 9), range(0, 9), range(1, 7), range(1, 7)):
        cut = decompose(Shape("f32", (m, n)), (p, q))
        k = ((m - 1) // p + 1) * ((n - 1) // q + 1)
        tiles = math.prod(cut.tiled.physical_dims()[:2])
        assert cut.count == k == tiles == len(list(cut)) == len(cut)


def test_sub_blocks() -> None:
    cut = decompose(Shape("f32", (128, 128)), (128, 128), (128, 64))
    assert str(cut.tiled) == "f32[128,128]{1,0:T(128,128)(128,64)}"
    (block,) = cut
    assert [sub.origin for sub in cut.sub_blocks(block)] == [(0, 0), (0, 64)]
    assert {sub.extents for sub in cut.sub_blocks(block)} == {(128, 64)}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 7), max_size=4),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
)
def test_every_element_is_in_one_sub_block(
    dims: list[int], block: tuple[int, int], sub: tuple[int, int]
) -> None:
    cut = decompose(Shape("f32", dims), block, sub)
    seen = np.zeros((*cut.batch, cut.rows, cut.columns), int)
    for number, part in enumerate(cut):
        assert part == cut.at(number)
        assert part.number == number
        subs = list(cut.sub_blocks(part))
        assert len(subs) == math.prod(cut.sub_grid(part))
        assert sum(piece.elements for piece in subs) == part.elements > 0
        for piece in subs:
            seen[piece.slices] += 1
    assert (seen == 1).all()


def test_sub_blocks_need_not_divide_their_block() -> None:
    cut = decompose(Shape("f32", (5, 5)), (5, 5), (3, 4))
    (block,) = cut
    assert [sub.extents for sub in cut.sub_blocks(block)] == [(3, 4), (3, 1), (2, 4), (2, 1)]


def test_blocks_are_where_the_tiled_shape_says() -> None:
    # The block's number is the tile's: its first element's offset over the tile's size.
    cut = decompose(Shape("f32", (2, 5, 7)), (2, 3))
    for block in cut:
        offset = cut.tiled.linear_index((*block.batch, *block.origin))
        assert offset == block.number * 6


def test_transposed_blocks_swap_places() -> None:
    cut = decompose(Shape("f32", (3, 300, 1000)), (128, 64), (128, 32))
    turned = cut.transposed()
    assert (turned.block, turned.sub_block) == ((64, 128), (32, 128))
    swapped = {(*b.batch, b.column, b.row): (b.origin[::-1], b.extents[::-1]) for b in cut}
    assert swapped == {b.index: (b.origin, b.extents) for b in turned}


def test_vectors_and_scalars_are_one_row() -> None:
    assert [b.extents for b in decompose(Shape("f32", (5,)), (4, 3))] == [(1, 3), (1, 2)]
    assert decompose(Shape("f32", ()), (4, 3)).count == 1
    assert str(decompose(Shape("f32", (5,)), (4, 3)).tiled) == "f32[5]{0:T(4,3)}"


def test_the_layout_in_dram_does_not_matter() -> None:
    plain = decompose(Shape("bf16", (33, 200)), (16, 16))
    assert decompose(Shape.parse("bf16[33,200]{0,1:T(8,128)(2,1)}"), (16, 16)) == plain


def test_hostile_counts_are_not_listed() -> None:
    cut = decompose(Shape("u8", (2**30, 2**30)), (1, 1))
    assert cut.count == 2**60
    assert cut.at(2**60 - 1).origin == (2**30 - 1, 2**30 - 1)


@pytest.mark.parametrize(
    ("block", "sub", "message"),
    [
        ((0, 4), None, "the sizes of a block must be at least 1, found 0 x 4"),
        ((4,), None, "a block has 2 sizes (rows, columns), found 1"),
        ((4, 4), (4, -1), "the sizes of a sub-block must be at least 1, found 4 x -1"),
    ],
)
def test_refusals(block: tuple[int, ...], sub: tuple[int, ...] | None, message: str) -> None:
    with pytest.raises(LayoutError) as refused:
        decompose(Shape("f32", (8, 8)), block, sub)
    assert str(refused.value) == message


def test_block_out_of_range() -> None:
    with pytest.raises(LayoutError, match=r"^block 4 is out of range: there are 4$"):
        decompose(Shape("f32", (8, 8)), (4, 4)).at(4)
