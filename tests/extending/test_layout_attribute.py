"""The recipe "A layout attribute" of docs/extending.md, followed with a toy: guard places.

Behind the elements of a layout with ``G(3)`` lie three places that nothing uses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from systolic.layout import Layout, LayoutError, Shape, ShapeError, pack, relayout, unpack
from systolic.layout.attributes import ATTRIBUTES, Attribute

GUARD = Attribute("G", 0, 0, "guard places must not be negative", places=lambda n, guard: n + guard)

TEXTS = (
    "f32[3,5]{1,0:G(3)}",
    "f32[3,5]{0,1:T(2,4)L(8)G(3)}",
    "bf16[9,6]{1,0:T(4,4)(2,1)G(1)}",
    "f32[2,3,6]{2,1,0:T(*,2,3)G(7)}",
    "u4[3,5]{1,0:T(2,4)G(3)E(4)S(1)}",
)


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    """Add the row between ``L`` and ``E``, and put the table back as it was."""
    before = dict(ATTRIBUTES)
    ATTRIBUTES.clear()
    ATTRIBUTES.update({"L": before["L"], "G": GUARD} | before)
    yield
    ATTRIBUTES.clear()
    ATTRIBUTES.update(before)


def without(shape: Shape) -> Shape:
    return shape.with_layout(shape.layout.with_number("G", 0))


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_read_and_printed(text: str) -> None:
    assert str(Shape.parse(text)) == text
    assert Shape.parse(str(Shape.parse(text))) == Shape.parse(text)


def test_text_has_the_attribute_in_its_place_and_range() -> None:
    for text, reason in (
        ("f32[4]{0:E(32)G(1)}", '"G" must stand before "E": the order is T, L, G, E, S'),
        ("f32[4]{0:G(-1)}", "G needs at least 0, found -1"),
        ("f32[4]{0:Q(1)}", 'expected T, L, G, E, S or "}" in the layout, found "Q"'),
    ):
        with pytest.raises(ShapeError) as refused:
            Shape.parse(text)
        assert refused.value.reason == reason
    with pytest.raises(LayoutError, match=r"^guard places must not be negative, found G\(-1\)$"):
        Layout((0,), numbers=[("G", -1)])


def test_equality_and_hash() -> None:
    shape = Shape.parse(TEXTS[1])
    assert shape == Shape("f32", (3, 5), Layout((0, 1), [(2, 4)], numbers=[("G", 3), ("L", 8)]))
    assert len({shape, without(shape), Shape.parse(TEXTS[1])}) == 2
    assert shape.layout.number("G") == 3
    assert Layout((0,), numbers=[("G", 0)]) == Layout((0,))


@pytest.mark.parametrize("text", TEXTS)
def test_sizes_and_index(text: str) -> None:
    shape, guard = Shape.parse(text), Shape.parse(text).layout.number("G")
    places = shape.padded_elements()
    assert places == without(shape).padded_elements() + guard
    assert shape.permutation()[-guard:].tolist() == [-1] * guard
    for index in np.ndindex(*shape.dims):
        assert shape.linear_index(index) == without(shape).linear_index(index)
        assert shape.from_linear_index(shape.linear_index(index)) == index
    assert shape.from_linear_index(places - 1) is None


@pytest.mark.parametrize("text", TEXTS)
def test_pack_unpack_and_relayout(text: str) -> None:
    shape = Shape.parse(text)
    number = np.arange(shape.num_elements()).reshape(shape.dims) % 16
    array = number.astype(shape.dtype)
    memory = pack(array, shape)
    assert memory.nbytes == shape.size_bytes()
    assert unpack(memory, shape).tobytes() == array.tobytes()
    plain = pack(array, without(shape))
    assert memory.tobytes().startswith(plain.tobytes()[:-1])
    filled = pack(array, shape, 7)
    if not shape.layout.element_bits:
        assert (filled[-shape.layout.number("G") :] == 7).all()
    assert relayout(without(shape), shape).apply(plain).tobytes() == memory.tobytes()
