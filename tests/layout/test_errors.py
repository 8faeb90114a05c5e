"""Does every refusal say what, at which column, what was needed and what was found?"""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest

from systolic.errors import SystolicError
from systolic.layout import Layout, LayoutError, Shape, ShapeError, Tile, parse_form, parse_layout
from systolic.layout.element_types import ELEMENT_TYPES

TEXTS = [
    ("", 1, "expected an element type, found the end"),
    ("[3]", 1, 'expected an element type, found "["'),
    (
        "f33[3]",
        1,
        f'unknown element type "f33" (known: {", ".join(ELEMENT_TYPES)}); perhaps "f32" was meant',
    ),
    ("f32", 4, 'expected "[" after the element type, found the end'),
    ("F32[3,5]{1,0:(2,2)}", 14,
     'expected T, L, E, S or "}" in the layout, found "("; perhaps "T(2,2)" was meant'),
    ("f32[3,5]{1,0:(*, 4)(2,1)}", 14,
     'expected T, L, E, S or "}" in the layout, found "("; perhaps "T(*, 4)(2,1)" was meant'),
    ("f32[3,5]{1,0:(2,}", 14, 'expected T, L, E, S or "}" in the layout, found "("'),
    ("f32[2,3", 8, 'expected "]" or a comma after a dimension, found the end'),
    ("f32[2,]", 7, 'expected a dimension (an integer), found "]"'),
    ("f32[2.5]", 6, 'expected "]" or a comma after a dimension, found "."'),
    ("f32[0x10]", 6, 'expected "]" or a comma after a dimension, found "x10"'),
    ("f32[+3]", 5, 'expected a dimension (an integer), found "+"'),
    ("f32[-3]", 5, "a dimension must not be negative, found -3"),
    ("f32[9223372036854775808]", 5, "a dimension must fit a signed 64-bit integer"),
    ("f32[99999999999,99999999999]", 4, "the array overflows 2**63 - 1 bytes"),
    ("s8[99999999999,99999999999]", 3, "the array overflows 2**63 - 1 bytes"),
    ("pred[4000000000000000000,4]{1,0:E(1)}", 5, "the array overflows 2**63 - 1 elements"),
    ("f32[0,99999999999,99999999999]", 4, "the array overflows 2**63 - 1 bytes"),
    ("f32[1]{0:T(4000000000000000000)}", 4, "the padded array overflows 2**63 - 1 bytes"),
    ("f32[3]{0:L(4000000000000000000)}", 4,
     "the array rounded up to L(4000000000000000000) overflows int64"),
    ("f32[2,3]x", 9, 'expected the end of the text, found "x"'),
    ("f32[2,3]}", 9, 'expected the end of the text, found "}"'),
    ("f32[3]{}", 8, 'expected a dimension number or ":", found "}"'),
    ("f32[]{}", 7, 'expected a dimension number or ":", found "}"'),
    ("f32[2,3]{0}", 9, "minor_to_major has 1 entries, but the shape has 2 dimensions"),
    ("f32[2,3]{:T(2)}", 9, "minor_to_major has 0 entries, but the shape has 2 dimensions"),
    ("f32[2,3]{0,0}", 9, "minor_to_major {0,0} names dimension 0 twice"),
    ("f32[2,3]{0,2}", 9,
     "minor_to_major {0,2} names dimension 2, but its 2 entries must be 0 to 1"),
    ("f32[2,3]{-1,0}", 9,
     "minor_to_major {-1,0} names dimension -1, but its 2 entries must be 0 to 1"),
    ("f32[2,3]{1;0}", 11, 'expected "}" at the end of the layout, found ";"'),
    ("f32[2,3]{1,0 T(2,2)}", 14, 'expected "}" at the end of the layout, found "T"'),
    ("f32[2,3]{1,0:t(2,2)}", 14, 'expected T, L, E, S or "}" in the layout, found "t"'),
    ("f32[2,3]{1,0:T(2,2)T(2,1)}", 20, '"T" stands twice in the layout'),
    ("f32[3]{0:E(4)T(8)}", 14, '"T" must stand before "E": the order is T, L, E, S'),
    ("f32[3]{0:S(1)E(4)}", 14, '"E" must stand before "S": the order is T, L, E, S'),
    ("f32[3]{0:T}", 11, 'expected "(" after T: at least one tile, found "}"'),
    ("f32[3]{0:T()}", 12, 'expected a tile size (an integer or "*"), found ")"'),
    ("f32[3]{0:T(2,)}", 14, 'expected a tile size (an integer or "*"), found ")"'),
    ("f32[3]{0:T(,2)}", 12, 'expected a tile size (an integer or "*"), found ","'),
    ("f32[3]{0:T(a,2)}", 12, 'expected a tile size (an integer or "*"), found "a"'),
    ("f32[3]{0:T(2.5,2)}", 13, 'expected ")" or a comma after a tile size, found "."'),
    ("f32[3]{0:T(2 2)}", 14, 'expected ")" or a comma after a tile size, found "2"'),
    ("f32[3]{0:T(2}", 13, 'expected ")" or a comma after a tile size, found "}"'),
    ("f32[3]{0:T(0,2)}", 12, "a tile size must be at least 1, found 0"),
    ("f32[3]{0:T(-1,2)}", 12, "a tile size must be at least 1, found -1"),
    ("f32[3]{0:T(2,*)}", 12,
     'the last size of a tile cannot be "*", found T(2,*): '
     "there is no more minor dimension to fold into"),
    ("f32[3]{0:T(*)}", 12,
     'the last size of a tile cannot be "*", found T(*): '
     "there is no more minor dimension to fold into"),
    ("f32[3]{0:L(0)}", 12, "L needs at least 1, found 0"),
    ("f32[3]{0:E(-4)}", 12, "E needs at least 0, found -4"),
    ("f32[3]{0:E(x)}", 12, 'expected the number of E (an integer), found "x"'),
    ("f32[3]{0:S(1}", 13, 'expected ")" after the number of S, found "}"'),
    ("f32[3]{0:D(D)}", 10, 'dimension level types, "D", are not supported'),
    ("f32[3]{0:#(u32)}", 10, 'an index type, "#", are not supported'),
    ("f32[3]{0:SC(0:4,8)}", 10, 'splits over cores, "SC", are not supported'),
    ("f32[3]{0:M(1)}", 10, 'dynamic shape metadata, "M", are not supported'),
    ("(f32[3],)", 9, 'expected an element type, found ")"'),
    ("(f32[3]){0}", 9, 'expected the end of the text, found "{"'),
    ("token[1]", 7, 'expected "]" after token[, found "1"'),
    ("(" * 40, 34, "tuples may be nested 32 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "reason"), TEXTS, ids=[t[0][:40] for t in TEXTS])
def test_text(text: str, column: int, reason: str) -> None:
    with pytest.raises(ShapeError) as refused:
        parse_form(text)
    assert (refused.value.column, refused.value.reason) == (column, reason)
    assert refused.value.text == text
    assert str(refused.value) == f"{text!r}, column {column}: {reason}"
    assert isinstance(refused.value, SystolicError)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("f32[<=3]", 'expected an array of known size, found "f32[<=3]{0}"'),
        ("(f32[3], s32[])", 'expected an array shape, found "(f32[3]{0}, s32[])"'),
        ("token[]", 'expected an array shape, found "token[]"'),
    ],
)
def test_only_arrays_have_a_place_in_memory(text: str, reason: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(reason) + "$"):
        Shape.parse(text)


def test_long_text_is_cut_around_the_column() -> None:
    with pytest.raises(ShapeError) as refused:
        Shape.parse("f32[" + "1," * 300 + "x]" + " " * 300)
    assert "...1,1,1," in str(refused.value)
    assert ", column 605: expected a dimension (an integer), found" in str(refused.value)
    assert len(str(refused.value)) < 200


def test_too_long_a_text() -> None:
    with pytest.raises(ShapeError, match=r"a shape's text may have 65536 characters, found 70000$"):
        Shape.parse(" " * 70000)


def test_error_survives_pickling() -> None:
    with pytest.raises(ShapeError) as refused:
        Shape.parse("f33[3]")
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.column) == (str(refused.value), 1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Tile(()), "a tile needs at least one size, found T()"),
        (lambda: Tile((0,)), "a tile size must be from 1 to 2**63 - 1, found 0"),
        (lambda: Tile((-2, 2)), "a tile size must be from 1 to 2**63 - 1, found -2"),
        (lambda: Layout((0, 1, 1)), "minor_to_major {0,1,1} names dimension 1 twice"),
        (lambda: Layout((0,), element_bits=-1), "element bits must not be negative, found E(-1)"),
        (lambda: Layout((0,), tail_align=0), "tail alignment must be at least 1, found L(0)"),
        (lambda: Layout((0,), memory_space=2**70),
         f"memory space must fit int64, found S({2**70})"),
        (lambda: Layout((1, 0), padded_dimensions=(3,)),
         "padded_dimensions must name 2 sizes, one for each dimension, found 1"),
        (lambda: Layout(range(1025)),
         "a layout may have at most 1024 dimensions and tile sizes together, found 1025"),
        (lambda: Shape("f32", (2, -3)), "a dimension must be from 0 to 2**63 - 1, found -3"),
        (lambda: Shape("f32", (2, 3), Layout((0,))),
         "minor_to_major has 1 entries, but the shape has 2 dimensions"),
        (lambda: Shape("s8", (2,), Layout((0,), padded_dimensions=(3,), padding_value=300)),
         "padding_value must be a whole number from -128 to 127 for s8, found 300"),
        (lambda: Shape("u4", (2,), Layout((0,), padded_dimensions=(3,), padding_value=2.5)),
         "padding_value must be a whole number from 0 to 15 for u4, found 2.5"),
        (lambda: Shape("s32", (2,), Layout((0,), padded_dimensions=(3,), padding_value=math.nan)),
         "padding_value must be a whole number from -2147483648 to 2147483647 for s32, found nan"),
        (lambda: Shape("f32", (4,), Layout((0,), padded_dimensions=(3,))),
         "padded_dimensions must be at least the dimensions, "
         "found 3 for dimension 0 of size 4"),
        (lambda: Shape("f32", (2, 3)).linear_index((1,)), "an index needs 2 numbers, found 1"),
        (lambda: Shape("f32", (2, 3)).linear_index((1, 3)),
         "index 3 is out of range for dimension 1 of size 3"),
        (lambda: Shape("f32", (2, 3)).linear_index((-1, 0)),
         "index -1 is out of range for dimension 0 of size 2"),
        (lambda: Shape("f32", (4,)).linear_index((np.array([1, -1, 9]),)),
         "index -1 is out of range for dimension 0 of size 4"),
        (lambda: Shape("f32", (4,)).linear_index((np.array([1, -3]),)),
         "index -3 is out of range for dimension 0 of size 4"),
        (lambda: Shape("f32", (4,)).linear_index((np.array([1.0]),)),
         "indices must be integers, found float64 for dimension 0"),
        (lambda: Shape("f32", (4,)).from_linear_index(4),
         "offset 4 is out of range: there are 4 places"),
        (lambda: Shape("f32", (4,)).from_linear_index(-1),
         "offset -1 is out of range: there are 4 places"),
        (lambda: parse_layout("{0,1"),
         "'{0,1', column 5: expected \"}\" at the end of the layout, found the end"),
    ],
)  # fmt: skip
def test_values(build: object, message: str) -> None:
    with pytest.raises(LayoutError) as refused:
        build()  # type: ignore[operator]
    assert str(refused.value) == message


def test_memory_spaces_are_of_int64_from_end_to_end():
    """XLA keeps a memory space as int64."""
    for space in (-(2**63), 2**63 - 1):
        assert Shape.parse(f"f32[3]{{0:S({space})}}").layout.memory_space == space
    for space in (-(2**63) - 1, 2**63):
        with pytest.raises(LayoutError, match=r"must fit (int64|a signed 64-bit integer)"):
            Shape.parse(f"f32[3]{{0:S({space})}}")


def test_tile_sizes_are_of_int64():
    assert Tile((2**63 - 1,)).dims == (2**63 - 1,)
    with pytest.raises(LayoutError, match="from 1 to 2"):
        Tile((2**63,))
