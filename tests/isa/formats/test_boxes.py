"""Are an array's parts where its elements are? Against `pack`, and by the fewest there can be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.errors import ProgramError
from systolic.isa import Access, Binding, Buffer, check_bindings, parts_of
from systolic.isa.access import MAX_PAIRS
from systolic.isa.formats import boxes
from systolic.isa.formats.module import Module
from systolic.isa.program import Program
from systolic.layout import Layout, Shape, pack

BASE = 64


def bound(shape: Shape) -> tuple[np.ndarray, Binding]:
    """Return each element's byte in DRAM, as `pack` lays them out, and the binding made of it."""
    numbers = np.arange(1, shape.num_elements() + 1, dtype=np.int32).reshape(shape.dims)
    memory = pack(numbers, shape)
    places = np.empty(shape.num_elements() + 1, np.int64)
    places[memory] = np.arange(len(memory))
    byte = BASE + 4 * places[numbers]
    parts = parts_of(np.zeros_like(byte), byte, Buffer.DRAM, "s32")
    binding = Binding("x", shape.dims, parts)
    check_bindings(Module(Program("p", ()), (binding,)))
    return byte, binding


def places_of(binding: Binding) -> tuple[np.ndarray, np.ndarray]:
    """Return partition and byte of each element as the binding says, -1 where it says nothing."""
    partition, byte = (np.full(binding.shape, -1, np.int64) for _ in range(2))
    for part in binding.parts:
        box = tuple(slice(*pair) for pair in part.box)
        sizes = byte[box].shape
        access = part.access
        assert 1 <= len(access.pattern) <= MAX_PAIRS
        rows = access.partition + np.arange(access.partitions)
        byte[box] = np.tile(access.offsets() * access.element_bytes, len(rows)).reshape(sizes)
        partition[box] = np.repeat(rows, access.elements).reshape(sizes)
    return partition, byte


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    dims = tuple(draw(st.lists(st.integers(1, 7), min_size=0, max_size=4)))
    order = tuple(draw(st.permutations(range(len(dims)))))
    tiles = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=2), max_size=2))
    return Shape("s32", dims, Layout(order, tuple(map(tuple, tiles))))


@settings(max_examples=60, deadline=None)
@given(shapes())
def test_every_element_is_where_pack_puts_it(shape: Shape) -> None:
    byte, binding = bound(shape)
    assert np.array_equal(places_of(binding)[1], byte)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_layout_without_tiles_is_one_part(order: tuple[int, ...]) -> None:
    assert len(bound(Shape("s32", (3, 4, 5, 2), Layout(order, ())))[1].parts) == 1


def test_a_tiled_layout_is_a_part_for_each_tile() -> None:
    shape = Shape.parse("s32[20,300]{1,0:T(8,128)}")
    assert len(bound(shape)[1].parts) == 3 * 3


@pytest.mark.parametrize(("rows", "cols", "parts"), [(1, 1, 1), (4, 4, 1), (10, 9, 3 * 3)])
def test_blocks_over_partitions(rows: int, cols: int, parts: int) -> None:
    """Blocks of 4 x 4, row r of each in partition r, a gap between them."""
    r, c = np.indices((rows, cols))
    blocks = -(-cols // 4)
    partition, byte = 8 + r % 4, 4 * (((r // 4) * blocks + c // 4) * 5 + c % 4)
    found = parts_of(partition, byte, Buffer.STATE, "f32")
    where = places_of(Binding("x", (rows, cols), found))
    assert np.array_equal(where[0], partition)
    assert np.array_equal(where[1], byte)
    assert len(found) == parts


@pytest.mark.parametrize(("rows", "cols"), [(1, 3), (1, 4), (2, 2), (2, 3)])
def test_any_places_at_all(rows: int, cols: int) -> None:
    """Every way to spread a few elements over three partitions, each at one of two steps."""
    r, c = np.indices((rows, cols))
    for byte in (4 * (r * cols + c), 4 * (c % 2)):
        for chosen in itertools.product(range(3), repeat=rows * cols):
            partition = np.array(chosen).reshape(rows, cols)
            found = parts_of(partition, byte, Buffer.STATE, "f32")
            where = places_of(Binding("x", (rows, cols), found))
            assert np.array_equal(where[0], partition), partition
            assert np.array_equal(where[1], byte), partition


def test_partitions_along_the_last_axis() -> None:
    """Row-major order cannot go down the partitions, so each is a part."""
    r, c = np.indices((6, 5))
    found = parts_of(c, 4 * r, Buffer.STATE, "f32")
    assert [part.box for part in found] == [((0, 6), (n, n + 1)) for n in range(5)]
    assert found[2].access == Access(Buffer.STATE, "f32", 2, 1, 0, ((1, 6),))


def test_a_box_is_cut_where_the_steps_of_any_row_change() -> None:
    """The second row jumps after two elements: two parts of both rows, not a row and two halves."""
    byte = np.array([[0, 4, 8, 12], [100, 104, 200, 204]])
    found = parts_of(np.zeros_like(byte), byte, Buffer.STATE, "f32")
    assert [part.box for part in found] == [((0, 2), (0, 2)), ((0, 2), (2, 4))]


def test_what_is_scattered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "MOST_PARTS", 100)
    byte = 4 * np.random.default_rng(1).permutation(1000)
    with pytest.raises(ProgramError, match=r"^lies in more than 100 pieces, too many to be"):
        parts_of(np.zeros_like(byte), byte, Buffer.DRAM, "f32")
