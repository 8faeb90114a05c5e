"""Does a shape's text mean what compiled XLA's parser reads? HLO parser, jaxlib 0.10.2.

XLA lets malformed texts through by accident and drops attributes it cannot hold. Each case where we
differ stands below with the reason; everything else must agree.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from systolic.layout import Layout, LayoutError, Shape, ShapeError, parse_form

ORACLE = json.loads((Path(__file__).parents[1] / "oracle" / "shape_text.json").read_text())
PARSED = {case["input"]: case for case in ORACLE["parse"]}

REFUSED_HERE = {
    "f32[3]{0:T}": "an empty tile tiles nothing; XLA keeps it as T()",
    "f32[2,3]{1,0:T(0,2)}": "XLA accepts the tile size 0 and divides by it later",
    "f32[2,3]{1,0:T(2,-9223372036854775808)}": "XLA's inner number for *, which is spelt *",
    "f32[2,3]{1,0:T(2}": "XLA ignores that its tile parser failed",
    "f32[2,3]{1,0:T(2,}": "XLA ignores that its tile parser failed",
    "f32[16]{0:SC(0:4,8)}": "splits over cores change sizes and are out of scope",
    "f32[16]{0:T(4)SC(0:4,8)}": "splits over cores change sizes and are out of scope",
    "f32[2,3]{1,0:D(D,D)}": "XLA drops dimension level types without a word",
    "f32[2,3]{1,0:D(D,C)T(2,2)}": "XLA drops dimension level types without a word",
    "f32[2,3]{0,0}": "no order of dimensions; XLA's parser leaves that to a later validation",
    "f32[2,3]{0,2}": "no order of dimensions; XLA's parser leaves that to a later validation",
    "f32[99999999999,99999999999]": "overflows int64 bytes; XLA's parser leaves that to later",
}
ACCEPTED_HERE = {
    "S32[1]": "the documents write types in capitals; XLA only reads small letters",
    "PRED[1]": "the documents write types in capitals; XLA only reads small letters",
}


@pytest.mark.parametrize("text", [t for t in PARSED if t not in REFUSED_HERE | ACCEPTED_HERE])
def test_reads_and_prints_as_xla(text: str) -> None:
    case = PARSED[text]
    if case["status"] == "error":
        with pytest.raises(ShapeError) as refused:
            parse_form(text)
        assert 1 <= refused.value.column <= len(text) + 1
    else:
        assert str(parse_form(text)) == case["printed"]
        assert parse_form(case["printed"]) == parse_form(text)


@pytest.mark.parametrize("text", PARSED)
def test_holds_what_xla_holds(text: str) -> None:
    held = PARSED[text].get("held")
    if not held or text in REFUSED_HERE:
        return
    shape = parse_form(text)
    if not isinstance(shape, Shape):
        return  # dynamic shapes and buffers are only read and printed
    assert list(shape.dims) == held["dims"]
    assert list(shape.layout.minor_to_major) == held["minor_to_major"]
    assert [list(tile.dims) for tile in shape.layout.tiles] == held["tiling"]
    assert shape.layout.element_bits == held["element_size_in_bits"]


@pytest.mark.parametrize("text", REFUSED_HERE)
def test_refused_here_though_xla_lets_it_through(text: str) -> None:
    assert PARSED[text]["status"] == "ok", "XLA refuses it too: not a difference"
    with pytest.raises(ShapeError):
        parse_form(text)


@pytest.mark.parametrize("text", ACCEPTED_HERE)
def test_accepted_here_though_xla_refuses(text: str) -> None:
    assert PARSED[text]["status"] == "error", "XLA accepts it too: not a difference"
    assert str(parse_form(text)) == text.lower() + "{0}"


@pytest.mark.parametrize("case", ORACLE["array_shape_validate"], ids=str)
def test_validation_agrees_with_xla(case: dict) -> None:
    def build() -> Shape:
        return Shape(case["element_type"], case["dims"], Layout(case["minor_to_major"]))

    if case["status"] == "ok":
        assert str(build()) == case["result"]
    else:
        with pytest.raises(LayoutError):
            build()


def test_every_case_is_used() -> None:
    assert set(REFUSED_HERE) | set(ACCEPTED_HERE) <= set(PARSED)
    assert (len(PARSED), len(ORACLE["array_shape_validate"])) == (92, 13)
