"""Are the boxes of ragged dimensions all their elements, each once, where the layouts have them?"""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from systolic.compiler.places.boxes import Along, boxes, is_separable, pieces
from systolic.compiler.places.modes import Mode, places
from systolic.layout import Shape

LAYOUTS = (
    "{1,0}", "{0,1}", "{1,0:T(8,16)}", "{1,0:T(3,5)}", "{0,1:T(4,8)(2,1)}", "{1,0:T(8)}",
    "{1,0:T(6,4)(4,1)}",
)  # fmt: skip


def check(dims, sides, expected):
    """Hold all boxes against the place of each element; an identity as a further side tells it."""
    identity = Shape("f32", dims)
    sides = [*sides, [Along(identity, dim) for dim in range(len(dims))]]
    seen = np.zeros(identity.num_elements(), int)
    for box in boxes(dims, sides):
        nest = box.nest or (Mode(1, (0,) * len(sides)),)
        numbers = box.at[-1] + places(nest, len(sides) - 1)
        seen[numbers] += 1
        index = np.unravel_index(numbers, dims)
        for side, of in enumerate(expected):
            assert np.array_equal(box.at[side] + places(nest, side), of(index))
    assert (seen == 1).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_tensor(layout):
    for dims in product((1, 5, 8, 17, 33), repeat=2):
        shape = Shape.parse(f"f32[{dims[0]},{dims[1]}]{layout}")
        assert is_separable(shape)
        check(dims, [[Along(shape, 0), Along(shape, 1)]], [shape.linear_index])


@pytest.mark.parametrize("layout", ["{0:T(2,8)}", "{0:T(4,8)(2,1)}", "{0:T(8)}"])
def test_a_vector_in_tiles_of_two_sizes(layout):
    for size in range(1, 40):
        shape = Shape.parse(f"f32[{size}]{layout}")
        check((size,), [[Along(shape, 0)]], [shape.linear_index])


def test_a_slice_of_one_layout_beside_another_and_a_repeated_row():
    rng = Random(3)
    for _ in range(150):
        dims = (rng.randint(1, 40), rng.randint(1, 40))
        first, step = ([rng.randint(0, 8), rng.randint(0, 8)], [rng.randint(1, 3) for _ in dims])
        own = Shape.parse(f"f32[{dims[0]},{dims[1]}]{rng.choice(LAYOUTS)}")
        sizes = [f + s * n for f, s, n in zip(first, step, dims, strict=True)]
        source = Shape.parse(f"f32[{sizes[0]},{sizes[1]}]{rng.choice(LAYOUTS)}")
        row = Shape("f32", dims[1:])
        sides = [
            [Along(own, 0), Along(own, 1)],
            [Along(source, dim, first[dim], step[dim]) for dim in (0, 1)],
            [Along(), Along(row, 0)],
        ]

        def sliced(index, source=source, first=first, step=step):
            return source.linear_index([first[d] + step[d] * index[d] for d in (0, 1)])

        check(dims, sides, [own.linear_index, sliced, lambda index: index[1]])


def test_dimensions_that_lie_alike_are_one_mode():
    shape = Shape.parse("f32[33,33,3,2]")
    (box,) = boxes(shape.dims, [[Along(shape, dim) for dim in range(4)]] * 2)
    assert box.nest == (Mode(6534, (1, 1)),)


def test_a_long_dimension_costs_no_more_than_its_tile():
    shape = Shape.parse(f"f32[8,{1 << 40}]{{1,0:T(8,128)}}")
    (piece,) = pieces(1 << 40, [Along(shape, 1)])
    assert piece.nest == (Mode(1 << 33, (1024,)), Mode(128, (1,)))


def test_tiles_that_mix_dimensions_are_told():
    assert not is_separable(Shape.parse("f32[4,6]{1,0:T(*,4)}"))
