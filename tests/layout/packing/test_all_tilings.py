"""Do pack, unpack and relayout put every element where the formula says, for all small tilings?

The whole domain is every tiling of up to three levels whose tiles have rank 1 or 2 and sizes 1 to
4, on vectors of 1 to 7 elements and matrices of up to 5 x 5. Random layouts seldom have three
levels whose sizes do not divide one another. The other order of a matrix's dimensions names the
same offsets with the indices exchanged, so it is only sampled. ``linear_index`` is the oracle for
the copies (it shares no code with them), and is itself held to the plainest formula.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from tests.layout.test_laws import elements, plain_index

from systolic.layout import Layout, RelayoutPlan, Shape, pack, relayout, unpack

Tiles = tuple[tuple[int, ...], ...]

SIZES = range(1, 5)
TILES = [tile for rank in (1, 2) for tile in itertools.product(SIZES, repeat=rank)]
TILINGS: list[Tiles] = [
    levels for depth in range(4) for levels in itertools.product(TILES, repeat=depth)
]
VECTORS = [(size,) for size in range(1, 8)]
MATRICES = list(itertools.product(range(1, 6), repeat=2))
ARRAYS = [*VECTORS, *MATRICES]
"""32 arrays, times 8,421 tilings: 269,472 shapes."""

SAMPLED = 3_000
FILL = -7


def offsets(shape: Shape) -> np.ndarray:
    """The offset of every element, in row-major order of the index."""
    index = np.indices(shape.dims).reshape(shape.rank, -1)
    return shape.linear_index(list(index))


def check_copies(shape: Shape) -> None:
    """``pack`` writes, and ``unpack`` reads, exactly what ``linear_index`` says."""
    array = np.arange(shape.num_elements(), dtype=np.int32).reshape(shape.dims)
    memory = np.full(shape.padded_elements(), FILL, np.int32)
    memory[offsets(shape)] = array.reshape(-1)
    assert np.array_equal(pack(array, shape, fill=FILL), memory), str(shape)
    assert np.array_equal(unpack(memory, shape), array), str(shape)


def check_packed_copies(dims: tuple[int, ...], tiles: Tiles) -> None:
    """Two elements to a byte lie where two bytes would."""
    shape = Shape("u4", dims, Layout(range(len(dims))[::-1], tiles, element_bits=4))
    array = np.arange(1, shape.num_elements() + 1).reshape(dims).astype(shape.dtype)
    places = np.zeros(shape.padded_elements() + shape.padded_elements() % 2, np.uint8)
    places[offsets(shape)] = array.reshape(-1).view(np.uint8)
    assert pack(array, shape).tolist() == (places[::2] | places[1::2] << 4).tolist(), str(shape)
    assert np.array_equal(unpack(pack(array, shape), shape), array), str(shape)


def check_relayout(source: Shape, target: Shape) -> None:
    """The runs of a plan name every element once, from where it lies to where it is to lie."""
    plan = relayout(source, target)
    froms, tos = spelled_out(plan)
    wanted_froms, wanted_tos = offsets(source), offsets(target)
    in_order = np.argsort(wanted_tos)
    assert np.array_equal(tos, wanted_tos[in_order]), f"{source} to {target}"
    assert np.array_equal(froms, wanted_froms[in_order]), f"{source} to {target}"


def spelled_out(plan: RelayoutPlan) -> tuple[np.ndarray, np.ndarray]:
    """(source, target) offsets of every element, in the order of the runs."""
    froms, tos, lengths = plan.runs_as_arrays()
    assert plan.run_count == lengths.size, f"{plan.source} to {plan.target}"
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(froms, lengths) + step, np.repeat(tos, lengths) + step


def shape_of(dims: tuple[int, ...], order: Sequence[int], tiles: Tiles) -> Shape:
    return Shape("s32", dims, Layout(order, tiles))


def sample(count: int, seed: int) -> Iterator[tuple[Shape, Shape]]:
    """Pairs of shapes of one array: both tilings drawn with three levels four times in five."""
    random = np.random.default_rng(seed)
    deep = len(TILES) ** 3
    for _ in range(count):
        dims = ARRAYS[random.integers(len(ARRAYS))]
        least = [0 if random.random() < 0.2 else len(TILINGS) - deep for _ in range(2)]
        first, second = (TILINGS[random.integers(start, len(TILINGS))] for start in least)
        yield (
            shape_of(dims, random.permutation(len(dims)), first),
            shape_of(dims, random.permutation(len(dims)), second),
        )


def test_the_example_of_three_levels_that_do_not_divide_one_another() -> None:
    shape = Shape.parse("s32[6]{0:T(1,2)(4)(3)}")
    assert [shape.linear_index((i,)) for i in range(6)] == [0, 1, 6, 7, 12, 13]
    memory = pack(np.arange(6, dtype=np.int32), shape, fill=FILL)
    assert [memory.tolist().index(i) for i in range(6)] == [0, 1, 6, 7, 12, 13]
    assert unpack(memory, shape).tolist() == list(range(6))
    check_relayout(Shape("s32", (6,)), shape)
    check_relayout(shape, Shape("s32", (6,)))


@pytest.mark.slow
def test_sampled_tilings_are_copied_to_where_the_formula_says() -> None:
    for one, other in sample(SAMPLED, seed=9):
        check_copies(one)
        check_relayout(one, other)


PADDED_PLACES = [
    (first, second, third)
    for first in [(1, 2), (3,)]
    for second in [(4,), (3, 4)]
    for third in TILES
    if len(third) == 1
]


@pytest.mark.parametrize("tiles", PADDED_PLACES, ids=str)
def test_vectors_in_tilings_that_pad_the_places_of_a_tile(tiles: Tiles) -> None:
    """The family of the example: a later tile cuts places that an earlier one has only padded."""
    for dims in VECTORS:
        shape = shape_of(dims, (0,), tiles)
        check_copies(shape)
        check_packed_copies(dims, tiles)
        check_relayout(shape_of(dims, (0,), tiles[:1]), shape)
        assert offsets(shape).tolist() == [plain_index(shape, i)[0] for i in elements(shape)]


@pytest.mark.slow
@pytest.mark.parametrize("dims", ARRAYS, ids=str)
def test_all_tilings_are_copied_to_where_the_formula_says(dims: tuple[int, ...]) -> None:
    """Every tiling of one array; each is the target of a relayout from the tiling before it."""
    order = range(len(dims))[::-1]
    before = shape_of(dims, order[::-1], ())
    for tiles in TILINGS:
        shape = shape_of(dims, order, tiles)
        check_copies(shape)
        check_relayout(before, shape)
        before = shape
