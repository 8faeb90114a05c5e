"""Are data where they should be: small elements, views, buffers of one's own, large arrays?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.layout import (
    Layout,
    LayoutError,
    Shape,
    pack,
    pack_bits,
    tiled_view,
    tpu_format,
    unpack,
    unpack_bits,
    view,
)
from systolic.layout.packing import kernels
from systolic.layout.packing.by_definition import into_memory


def by_bits(array: np.ndarray, shape: Shape, fill: int, order: str) -> bytes:
    """The packed memory one element at a time: a Python integer of all bits."""
    bits = shape.element_bits
    values = [fill] * shape.padded_elements()
    for index in np.ndindex(*shape.dims):
        values[shape.linear_index(index)] = int(array[index].view(np.uint8)) & ((1 << bits) - 1)
    memory = bytearray(shape.size_bytes())
    for place, value in enumerate(values):
        byte, inside = divmod(place * bits, 8)
        memory[byte] |= value << (inside if order == "low" else 8 - bits - inside)
    return bytes(memory)


NARROW = [("pred", 1), ("s1", 1), ("u1", 1), ("s2", 2), ("u2", 2), ("s4", 4), ("u4", 4),
          ("f4e2m1fn", 4), ("u2", 4), ("pred", 2)]  # fmt: skip
LAYOUTS = [
    ((5, 3), Layout.row_major(2)),
    ((8, 16), Layout.row_major(2)),
    ((9, 20), Layout.row_major(2, (8, 4), (8, 1))),
    ((40, 9), Layout.row_major(2, (32, 4), (32, 1))),
    ((4, 9), Layout((0, 1), [(4, 4)])),
    ((7,), Layout((0,), [(3,), (2,)])),
    ((20,), Layout((0,), [(12,)])),
    ((21,), Layout((0,))),
    ((3, 9), Layout.row_major(2)),  # rows of 1-bit elements begin inside bytes
    ((3, 18), Layout.row_major(2)),
    ((2, 3, 5), Layout((1, 2, 0), [(-1, 4)])),
    ((3, 3), Layout((1, 0), tail_align=7)),
    ((2, 3), Layout((0, 1), padded_dimensions=(3, 5), padding_value=1)),
]


@pytest.mark.parametrize(("name", "bits"), NARROW)
@pytest.mark.parametrize(("dims", "layout"), LAYOUTS, ids=lambda value: str(value))
@pytest.mark.parametrize("order", ["low", "high"])
def test_small_elements(
    name: str, bits: int, dims: tuple[int, ...], layout: Layout, order: str
) -> None:
    sign = -1 if name == "s1" else 1  # the values of s1 are -1 and 0
    shape = Shape(
        name,
        dims,
        Layout(
            layout.minor_to_major,
            layout.tiles,
            element_bits=bits,
            tail_align=layout.tail_align,
            padded_dimensions=layout.padded_dimensions,
            padding_value=sign * layout.padding_value,
        ),
    )
    rng = np.random.default_rng(7)
    array = rng.integers(0, 2**shape.type.bits, dims, np.uint8).view(shape.dtype)
    if name == "s1" and shape.dtype == np.int8:
        array = -(array & 1)
    one = int(np.ones((), shape.dtype).view(np.uint8)) & ((1 << bits) - 1)
    memory = pack(array, shape, fill=1, order=order)
    assert memory.dtype == np.uint8
    assert memory.tobytes() == by_bits(array, shape, one, order)
    back = unpack(memory, shape, order=order)
    assert back.dtype == shape.dtype
    assert back.tobytes() == array.tobytes()


def test_signs_of_small_elements() -> None:
    shape = Shape.parse("s4[16]{0:E(4)}")
    values = np.arange(-8, 8).astype(shape.dtype)
    assert unpack(pack(values, shape), shape).astype(int).tolist() == list(range(-8, 8))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 4]), st.lists(st.integers(0, 15), max_size=40), st.booleans())
def test_bits_there_and_back(bits: int, values: list[int], low: bool) -> None:
    order = "low" if low else "high"
    items = np.array([value % 2**bits for value in values], np.uint8)
    kind = Shape(f"u{bits}", ()).type
    packed = pack_bits(items, bits, order)
    assert packed.size == -(-len(values) * bits // 8)
    assert unpack_bits(packed, bits, len(values), kind, order).tobytes() == items.tobytes()


# -- views ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("f32[6,8]", True),
        ("f32[6,8]{0,1}", True),
        ("f32[2,3,4]{1,0,2}", True),
        ("f32[16,8]{1,0:T(4,8)}", True),
        ("f32[16,8]{1,0:T(1,1)}", True),
        ("f32[16,8]{1,0:T(4,4)}", False),
        ("f32[5,8]{1,0:T(4,8)}", False),
        ("s4[6,8]{1,0:E(4)}", False),
        ("f32[]", True),
    ],
)
def test_views_share_memory_where_strides_can(text: str, shared: bool) -> None:
    shape = Shape.parse(text)
    array = np.arange(shape.num_elements()).reshape(shape.dims).astype(shape.dtype)
    memory = pack(array, shape, copy=True)
    seen = view(memory, shape)
    assert (seen is not None) == shared
    result = unpack(memory, shape)
    assert np.shares_memory(result, memory) == shared
    np.testing.assert_array_equal(result, array)
    assert not np.shares_memory(unpack(memory, shape, copy=True), memory)
    if not shared:
        with pytest.raises(LayoutError, match=r"cannot be unpacked without a copy$"):
            unpack(memory, shape, copy=False)


def test_pack_is_a_view_where_memory_is_already_right() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.shares_memory(pack(array, Shape("f32", (3, 4))), array)
    assert np.shares_memory(pack(array.T, Shape("f32", (4, 3), Layout((0, 1)))), array)
    assert not np.shares_memory(pack(array, Shape("f32", (3, 4)), copy=True), array)
    assert not np.shares_memory(pack(array, Shape("f32", (3, 4), Layout((0, 1)))), array)
    with pytest.raises(LayoutError, match=r"cannot be packed without a copy$"):
        pack(array, Shape("f32", (3, 4), Layout((0, 1))), copy=False)


def test_a_read_only_buffer_gives_a_read_only_view() -> None:
    memory = np.arange(6, dtype=np.float32)
    memory.setflags(write=False)
    assert not unpack(memory, Shape("f32", (2, 3))).flags.writeable


def test_tiled_view_has_the_physical_dimensions() -> None:
    shape = Shape.parse("bf16[33,200]{1,0:T(8,128)(2,1)}")
    array = np.arange(6600).reshape(33, 200).astype(shape.dtype)
    memory = pack(array, shape)
    tiles = tiled_view(memory, shape)
    assert tiles.shape == shape.physical_dims()
    assert np.shares_memory(tiles, memory)
    assert tiles[4, 1, 0, 7, 0, 0] == array[32, 135]


# -- buffers of one's own -------------------------------------------------------------------------


def test_out_is_filled_padding_too() -> None:
    shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    array = np.arange(15, dtype=np.float32).reshape(3, 5)
    out = np.full(24, 99, np.float32)
    assert pack(array, shape, fill=-1, out=out) is out
    assert out.tolist() == into_memory(array, shape, -1).tolist()
    back = np.empty((3, 5), np.float32)
    assert unpack(out, shape, back) is back
    np.testing.assert_array_equal(back, array)


def test_memory_as_bytes() -> None:
    shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    array = np.arange(15, dtype=np.float32).reshape(3, 5)
    raw = np.zeros(96, np.uint8)
    pack(array, shape, out=raw)
    assert raw.tobytes() == pack(array, shape).tobytes()
    np.testing.assert_array_equal(unpack(raw, shape), array)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, s: pack(a[0], s),
         "an array for f32[3,5]{1,0:T(2,2)} must have dimensions [3,5], found [5]"),
        (lambda a, s: pack(a.astype(np.float64), s),
         "an array for f32[3,5]{1,0:T(2,2)} must be float32, found float64"),
        (lambda a, s: pack(a, s, out=np.zeros(23, np.float32)),
         "a buffer for f32[3,5]{1,0:T(2,2)} must be flat with 24 items, found dimensions [23]"),
        (lambda a, s: pack(a, s, out=np.zeros(48, np.float32)[::2]),
         "out must be writeable and contiguous"),
        (lambda a, s: unpack(np.zeros(24, np.float64), s),
         "a buffer for f32[3,5]{1,0:T(2,2)} must be float32, found float64"),
        (lambda a, s: unpack(np.zeros(95, np.uint8), s),
         "a buffer for f32[3,5]{1,0:T(2,2)} must have 96 bytes, found 95"),
        (lambda a, s: pack(a, Shape.parse("f32[3,5]{1,0:E(16)}")),
         "f32 elements can be held in E(32), found E(16)"),
        (lambda a, s: unpack(np.zeros(2, np.uint8), Shape.parse("s4[5]{0:E(2)}")),
         "s4 elements can be held in E(4 or 8), found E(2)"),
        (lambda a, s: pack(np.zeros(3, bool), Shape.parse("pred[3]{0:E(1)}"), order="middle"),
         'the order of bits must be "low" or "high", found "middle"'),
        (lambda a, s: pack_bits(np.zeros(3, np.uint8), 3),
         "elements are packed at 1, 2 or 4 bits, found 3"),
    ],
)  # fmt: skip
def test_refusals(call: object, message: str) -> None:
    array = np.arange(15, dtype=np.float32).reshape(3, 5)
    with pytest.raises(LayoutError) as refused:
        call(array, Shape.parse("f32[3,5]{1,0:T(2,2)}"))  # type: ignore[operator]
    assert str(refused.value) == message


def test_hostile_padding_is_refused() -> None:
    shape = Shape.parse("f32[1]{0:T(1000000000000000000)}")
    with pytest.raises(LayoutError, match=r"needs 4000000000000000000 bytes, too many here$"):
        pack(np.zeros(1, np.float32), shape)


# -- large arrays, where the copies have ways of their own ----------------------------------------

LARGE = [
    ("f32", (1003, 1030), {}),
    ("bf16", (1500, 1600), {}),
    ("bf16", (1503, 1601), {}),
    ("s8", (1605, 1603), {}),
    ("s4", (1605, 1603), {}),
    ("pred", (1605, 1603), {"element_bits": 1}),
    ("f32", (600, 700), {"minor_to_major": (0, 1)}),
    ("bf16", (1600, 1500), {"minor_to_major": (0, 1)}),
    ("u2", (1605, 1603), {}),
]


@pytest.mark.parametrize(("name", "dims", "options"), LARGE, ids=str)
@pytest.mark.parametrize("compiled", [True, False], ids=["numba", "numpy"])
def test_large_arrays(
    name: str, dims: tuple[int, ...], options: dict, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(kernels, "WORTH_COMPILING", 2**62)
    shape = tpu_format(name, dims, **options)
    raw = np.random.default_rng(3).integers(0, 2, (*dims, shape.dtype.itemsize), np.uint8)
    array = np.ascontiguousarray(raw).view(shape.dtype)[..., 0]
    memory = pack(array, shape)
    if memory.dtype == shape.dtype:
        expected = into_memory(array, shape, 0)
        assert memory.tobytes() == expected.tobytes()
    else:
        items = into_memory(array, shape.with_tiles(*shape.layout.tiles), 0).view(np.uint8)
        assert memory.tobytes() == pack_bits(items, shape.element_bits).tobytes()
    assert unpack(memory, shape).tobytes() == array.tobytes()
    strided = np.asfortranarray(array)
    assert pack(strided, shape).tobytes() == memory.tobytes()
    dirty = np.full_like(memory, 1)
    assert pack(array, shape, out=dirty).tobytes() == memory.tobytes()


def test_compiled_loops_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    asked = []
    real = kernels.compiled
    monkeypatch.setattr(kernels, "compiled", lambda loop: asked.append(loop.__name__) or real(loop))
    shape = tpu_format("bf16", (1500, 1600))
    unpack(pack(np.zeros(shape.dims, shape.dtype), shape), shape)
    assert asked == ["gather_words", "scatter_words"]


def test_a_scalar_is_read_into_an_array_that_is_there() -> None:
    shape = Shape.parse("s8[]{:T(4)}")
    out = np.full((), 9, np.int8)
    unpack(pack(np.asarray(3, np.int8), shape), shape, out)
    assert out == 3
