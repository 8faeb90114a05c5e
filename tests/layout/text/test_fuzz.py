"""Can any text make the package crash, hang, or allocate by a hostile size? It must not."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.calls import calls
from systolic.layout import LayoutError, Shape, parse_form, parse_layout

PIECES = st.sampled_from(
    ["f32", "bf16", "s4", "pred", "token", "b", "[", "]", "{", "}", "(", ")", ",", ":", "T", "L",
     "E", "S", "D", "SC", "*", "-", "0", "1", "2", "8", "128", "-1", "99999999999999999999", "<=",
     "?", " ", "/*index=5*/", "9223372036854775807", "4294967296", "x", "é", "٣", "\x00"]
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES, max_size=30).map("".join),
    st.builds(
        lambda dims, order, tiles, tail: f"f32[{dims}]{{{order}:T{tiles}{tail}}}",
        *(st.lists(PIECES, max_size=6).map("".join) for _ in range(4)),
    ),
)


def use(shape: Shape) -> None:
    """Ask for all facts whose cost must not depend on the size of the array."""
    assert Shape.parse(str(shape)) == shape
    shape.physical_dims(), shape.padded_elements(), shape.size_bytes(), shape.xla_array_size()
    if shape.num_elements():
        last = tuple(size - 1 for size in shape.dims)
        assert shape.from_linear_index(shape.linear_index(last)) == last


@settings(max_examples=500, deadline=None)
@given(TEXTS)
@example("f32[1]{0:T(" + "1," * 400 + "1)}")
@example("f32[" + "1," * 1100 + "1]")
@example("f32[" + "9" * 6000 + "]")
@example("(" * 3000)
@example("b(" * 3000)
@example("/*" * 3000)
@example("f32[9223372036854775807]{0:T(9223372036854775807)L(9223372036854775807)}")
@example("u8[4294967296,2147483647]{1,0:T(4294967296,1)(*,1)}")
def test_no_text_crashes(text: str) -> None:
    read_or_refuse(text)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(TEXTS)
def test_no_text_of_many_crashes(text: str) -> None:
    read_or_refuse(text)


def read_or_refuse(text: str) -> None:
    """Read a text, or get one line that refuses it."""
    form, refusal = None, ""
    try:
        form = parse_form(text)
    except LayoutError as refused:
        refusal = str(refused)
    assert "\n" not in refusal
    if form is None:
        return
    assert str(parse_form(str(form))) == str(form)
    if isinstance(form, Shape):
        use(form)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_no_layout_text_crashes(text: str) -> None:
    with contextlib.suppress(LayoutError):
        assert parse_layout(str(parse_layout(text))) is not None


HOSTILE = [
    "u8[9223372036854775807]",
    "u8[3037000499,3037000499]{0,1:T(8,128)}",
    "u8[1]{0:T(4611686018427387904)}",
    "f32[1,1,1]{2,1,0:T(*,*,2000000000000000000)(*,3)}",
    "f32[" + ",".join(["1"] * 500) + "]",
    "(" * 30 + "f32[2]" + ")" * 30,
    "f32[1]{0:T" + "(1)" * 500 + "}",
    "[" * 65000,
    "/" + "*" * 65000,
    "f32[" + "1" * 60000 + "]",
    "é" * 65000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_hostile_sizes_take_few_steps_and_little_memory(text: str) -> None:
    def read() -> None:
        with contextlib.suppress(LayoutError):
            form = parse_form(text)
            if isinstance(form, Shape):
                use(form)

    assert calls(read) < 2_000 + 80 * len(text)
    tracemalloc.start()
    read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
