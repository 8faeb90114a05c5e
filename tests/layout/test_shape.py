"""Are the values right: what a shape is, its sizes, the documents' worked examples?"""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from systolic.layout import (
    COMBINE,
    ELEMENT_TYPES,
    Layout,
    LayoutError,
    Shape,
    Tile,
    element_type,
    element_type_of,
    pack,
    parse_layout,
)
from systolic.layout.attributes import ATTRIBUTES
from systolic.layout.packing.items import without_fold
from systolic.layout.packing.memory import one_per_item


def row_major_offsets(text: str) -> list[int]:
    shape = Shape.parse(text)
    return [shape.linear_index(index) for index in np.ndindex(*shape.dims)]


# -- the documents' examples ----------------------------------------------------------------------


def test_figure_1() -> None:
    shape = Shape.parse("F32[3,5]{1,0:T(2,2)}")
    assert str(shape) == "f32[3,5]{1,0:T(2,2)}"
    assert shape.physical_dims() == (2, 3, 2, 2)
    assert shape.padded_elements() == 24
    assert shape.linear_index((2, 3)) == 17
    expected = [0, 1, 4, 5, 8, 2, 3, 6, 7, 10, 12, 13, 16, 17, 20]
    assert row_major_offsets("f32[3,5]{1,0:T(2,2)}") == expected


def test_figure_2() -> None:
    shape = Shape.parse("bf16[4,8]{1,0:T(2,4)(2,1)}")
    assert shape.physical_dims() == (2, 2, 1, 4, 2, 1)
    rows = [range(0, 15, 2), range(1, 16, 2), range(16, 31, 2), range(17, 32, 2)]
    assert row_major_offsets(str(shape)) == [offset for row in rows for offset in row]


def test_later_tile_across_tiles() -> None:
    shape = Shape.parse("f32[8,8]{1,0:T(2,4)(2,1,1,1)}")
    assert shape.linear_index((6, 5)) == 51
    assert shape.physical_dims() == (2, 2, 2, 4, 2, 1, 1, 1)


def test_rows_of_two_tiles_in_a_word() -> None:
    shape = Shape.parse("bf16[32,256]{1,0:T(8,128)(2,1,1,1)}")
    assert shape.physical_dims() == (2, 2, 8, 128, 2, 1, 1, 1)
    assert shape.linear_index((8, 0)) == shape.linear_index((0, 0)) + 1


@pytest.mark.parametrize(
    ("order", "letters"), [((0, 1), "adbecf"), ((1, 0), "abcdef")], ids=["dim 0 minor", "row major"]
)
def test_minor_to_major(order: tuple[int, int], letters: str) -> None:
    array = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    assert pack(array, Shape("u8", (2, 3), Layout(order))).tobytes().decode() == letters


def test_legacy_padding() -> None:
    array = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value=ord("0"))
    shape = Shape("u8", (2, 3), layout)
    assert pack(array, shape).tobytes() == b"ad0be0cf0000000"
    assert (shape.num_elements(), shape.padded_elements()) == (6, 15)


def test_legacy_padding_first_then_tiles() -> None:
    layout = Layout((1, 0), [(2, 4)], padded_dimensions=(3, 5), padding_value=9)
    shape = Shape("u8", (2, 3), layout)
    assert shape.physical_dims() == (2, 2, 2, 4)
    memory = pack(np.ones((2, 3), np.uint8), shape, fill=7)
    assert sorted(memory.tolist()) == [1] * 6 + [7] * (32 - 15) + [9] * 9


# -- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "places", "size_bytes"),
    [
        ("f32[]", 1, 4),
        ("f32[]{:T(128)}", 128, 512),
        ("f32[5]{0:T(8,128)}", 1024, 4096),
        ("f32[0,5]{1,0:T(8,128)}", 0, 0),
        ("f32[3]{0:T(128)L(1000)}", 1000, 4000),
        ("pred[33]{0}", 33, 33),
        ("pred[33]{0:E(1)}", 33, 5),
        ("s4[3]{0}", 3, 3),
        ("s4[3]{0:E(4)}", 3, 2),
        ("u2[5]{0:E(2)}", 5, 2),
        ("c128[2]{0}", 2, 32),
        ("u8[327680,327680]{1,0:T(8,128)(4,1)}", 327680**2, 107374182400),
        ("s4[64,128]{1,0:T(64,128)(8,1)E(4)S(1)}", 8192, 4096),
    ],
)
def test_sizes(text: str, places: int, size_bytes: int) -> None:
    shape = Shape.parse(text)
    assert (shape.padded_elements(), shape.size_bytes()) == (places, size_bytes)


@pytest.mark.parametrize(
    ("text", "real", "reported"),
    [
        ("bf16[33,256]{1,0:T(8,128)(2,1,1,1)}", 24576, 20480),
        ("f32[3,5]{1,0:T(2,2)}", 96, 96),
        ("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", 49728, None),
        ("f32[3]{0:L(16)}", 64, 12),
        ("f32[3]{0:T(128)L(1000)}", 4000, 4000),
        ("f32[5]{0:T(8,128)}", 4096, 4096),
        ("s4[5]{0:E(4)}", 3, 3),
        ("f32[4,4]{1,0:T(2,2)(*,3)}", 96, 64),
    ],
)
def test_xla_array_size(text: str, real: int, reported: int | None) -> None:
    shape = Shape.parse(text)
    assert (shape.size_bytes(), shape.xla_array_size()) == (real, reported)


def test_padding_share() -> None:
    assert Shape.parse("f32[3,5]{1,0:T(2,2)}").padding_share() == pytest.approx(9 / 24)
    assert Shape.parse("f32[0]").padding_share() == 0


# -- values ---------------------------------------------------------------------------------------


def test_ranks_and_negative_dimension_numbers() -> None:
    shape = Shape("f32", (1, 4, 1, 7))
    assert (shape.rank, shape.true_rank) == (4, 2)
    assert (shape.dimension(-1), shape.dimension(1), shape.dimension_number(-4)) == (7, 4, 0)
    with pytest.raises(LayoutError, match=r"has no dimension -5: it has 4$"):
        shape.dimension(-5)


def test_values_are_equal_hashable_and_survive_pickling() -> None:
    shape = Shape.parse("bf16[33,200]{1,0:T(8,128)(2,1)}")
    same = Shape("BF16", [33, np.int64(200)], Layout([1, 0], [(8, 128), Tile([2, 1])]))
    assert shape == same
    assert len({shape, same}) == 1
    assert pickle.loads(pickle.dumps(shape)) == shape
    assert shape != shape.with_layout(None)
    with pytest.raises(AttributeError):
        shape.dims = (1,)  # type: ignore[misc]


def test_minus_one_is_combine_in_the_interface() -> None:
    assert str(Tile((-1, 2))) == "(*,2)"
    assert Tile((COMBINE, 2)) == Tile((-1, 2))


def test_default_layout_is_row_major() -> None:
    assert Shape("f32", (2, 3, 4)).layout == Layout((2, 1, 0)) == Layout.row_major(3)
    assert Shape("f32", (2, 3, 4)).layout.is_row_major
    assert parse_layout("{0,1:T(8,128)}") == Layout((0, 1), [(8, 128)])


def test_with_tiles_keeps_the_rest() -> None:
    shape = Shape.parse("s4[64,128]{0,1:T(8,128)L(4)E(4)S(1)}")
    assert str(shape.with_tiles((4, 8))) == "s4[64,128]{0,1:T(4,8)L(4)E(4)S(1)}"


# -- element types --------------------------------------------------------------------------------

SPEC_NAMES = (
    "pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 "
    "f4e2m1fn f8e3m4 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu"
)
SPEC_TYPES = SPEC_NAMES.split()


def test_all_element_types() -> None:
    assert set(ELEMENT_TYPES) == set(SPEC_TYPES)


@pytest.mark.parametrize("name", SPEC_TYPES)
def test_element_type_row(name: str) -> None:
    kind = element_type(name.upper())
    digits = "".join(c for c in name.removeprefix("bf").lstrip("fsuc") if c.isdigit() or c == "e")
    expected = 1 if name == "pred" else int(digits.split("e")[0])
    assert (str(kind), kind.bits) == (name, expected)
    assert kind.storage_bits == max(8, kind.bits)
    # One numpy type for each name, except int1 and uint1 with an ml_dtypes that lacks them.
    assert element_type_of(kind.dtype) == kind or kind.bits == 1


@pytest.mark.parametrize("name", SPEC_TYPES)
def test_every_type_packs(name: str) -> None:
    shape = Shape(name, (3, 5), Layout((0, 1), [(2, 2), (2, 1)]))
    array = (np.arange(15) % 2).reshape(3, 5).astype(shape.dtype)
    memory = pack(array, shape)
    assert memory.dtype == shape.dtype
    places = [shape.linear_index(index) for index in np.ndindex(3, 5)]
    assert memory[places].tobytes() == array.tobytes()


def test_unknown_numpy_type() -> None:
    with pytest.raises(
        LayoutError, match=r"^no element type is held as numpy's float128|longdouble"
    ):
        element_type_of(np.longdouble)


def test_a_changed_layout_keeps_every_attribute_that_is_not_changed() -> None:
    layout = Layout(
        (0, 1),
        [(2, 4)],
        element_bits=4,
        memory_space=3,
        tail_align=16,
        padded_dimensions=(4, 6),
        padding_value=7,
    )
    names = {field.name for field in fields(Layout)}
    assert all(getattr(layout, name) != getattr(Layout((1, 0)), name) for name in names)
    assert [letter for letter, _ in layout.numbers] == list(ATTRIBUTES)
    shape = Shape("u4", (3, 5), layout)
    tiled = shape.with_tiles((3, 3), (2,)).layout
    assert tiled == replace(layout, tiles=tiled.tiles)
    whole = one_per_item(shape).layout
    assert whole == replace(layout, numbers=whole.numbers)
    assert whole.numbers == (("L", 16), ("S", 3))
    combined = Shape("u4", (3, 5), replace(layout, tiles=(Tile((-1, 4)),), padded_dimensions=None))
    unfolded = without_fold(combined)
    assert unfolded is not None
    for other in names - {"minor_to_major", "tiles", "padded_dimensions"}:
        assert getattr(unfolded.layout, other) == getattr(layout, other), other
