"""Does the format chooser give the tiles that compiled XLA and public dumps show?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from systolic.layout import LayoutError, Shape, raw_format, tpu_format

ORACLE = json.loads((Path(__file__).parent / "oracle" / "tpu_formats.json").read_text())


@pytest.mark.parametrize("case", ORACLE["table"], ids=lambda case: case["expect"])
def test_rule_by_generation(case: dict[str, Any]) -> None:
    found = tpu_format(
        case["etype"],
        case["dims"],
        case["hardware_generation"],
        large_second_minor=case["large_second_minor"],
    )
    assert str(found) == case["expect"]
    if "compiled_pass_padded_dims" in case:
        assert case["compiled_pass_tiles"] in case["expect"]
        padded = 1
        for size in case["compiled_pass_padded_dims"]:
            padded *= size
        assert found.padded_elements() == padded


@pytest.mark.parametrize("case", ORACLE["document_rule_f32"], ids=str)
def test_rule_of_the_documents(case: dict[str, Any]) -> None:
    tiles = tpu_format(case["etype"], (case["second_minor"], 300)).layout.tiles
    assert [tile.dims for tile in tiles] == [(case["expect_rows"], 128)]


# One dump of a unit test with a tile chosen by hand, which no rule gives.
BY_HAND = {"u32[2,8,128]{2,1,0:T(2,128)}"}


@pytest.mark.parametrize("case", ORACLE["facts"], ids=lambda case: case["shape"])
def test_some_rule_gives_each_public_dump(case: dict[str, Any]) -> None:
    seen = Shape.parse(case["shape"])
    assert str(seen) == case["shape"]
    formats = [
        tpu_format(
            seen.element_type,
            seen.dims,
            generation,
            minor_to_major=seen.layout.minor_to_major,
            large_second_minor=large,
        )
        for generation in (None, 3, 4, 5)
        for large in (False, True)
    ]
    matches = [f for f in formats if f.layout.tiles == seen.layout.tiles]
    assert bool(matches) == (case["shape"] not in BY_HAND)
    assert all(f.layout.element_bits == seen.layout.element_bits for f in matches)


@pytest.mark.parametrize(
    ("name", "dims", "bits", "expected"),
    [
        ("f32", (33, 200), None, "f32[33,200]{1,0:T(8,128)}"),
        ("f32", (2, 200), None, "f32[2,200]{1,0:T(2,128)}"),
        ("f32", (5, 3, 200), None, "f32[5,3,200]{2,1,0:T(4,128)}"),
        ("bf16", (33, 200), None, "bf16[33,200]{1,0:T(8,128)(2,1)}"),
        ("bf16", (2, 200), None, "bf16[2,200]{1,0:T(8,128)(2,1)}"),
        ("s8", (33, 200), None, "s8[33,200]{1,0:T(8,128)(4,1)}"),
        ("pred", (33, 200), None, "pred[33,200]{1,0:T(8,128)(4,1)}"),
        ("pred", (33, 200), 1, "pred[33,200]{1,0:T(32,128)(32,1)E(1)}"),
        ("s4", (33, 200), None, "s4[33,200]{1,0:T(8,128)(8,1)E(4)}"),
    ],
)
def test_the_six_formats_of_the_documents(
    name: str, dims: tuple[int, ...], bits: int | None, expected: str
) -> None:
    assert str(tpu_format(name, dims, element_bits=bits)) == expected


def test_raw_format_is_as_in_c() -> None:
    assert str(raw_format("f32", (33, 200))) == "f32[33,200]{1,0}"


def test_the_second_minor_dimension_is_the_physical_one() -> None:
    # f32[8,4]{0,1}: in memory 4 rows of 8, so the small tile.
    assert str(tpu_format("f32", (8, 4), minor_to_major=(0, 1))) == "f32[8,4]{0,1:T(4,128)}"


def test_scalars() -> None:
    assert str(tpu_format("f32", (), 5)) == "f32[]{:T(128)}"
    assert str(tpu_format("pred", (), 5)) == "pred[]{:T(512)}"
    assert str(tpu_format("f32", ())) == "f32[]{:T(256)}"


@pytest.mark.parametrize("name", ["f64", "s64", "c64", "c128"])
def test_wide_types_have_no_known_format(name: str) -> None:
    with pytest.raises(LayoutError, match=r"^a TPU register holds 32-bit words: no tiled format"):
        tpu_format(name, (8, 128))


def test_generation_is_checked() -> None:
    with pytest.raises(LayoutError, match=r"^the hardware generation must be at least 1, found 0$"):
        tpu_format("f32", (8, 128), 0)


def test_every_case_is_used() -> None:
    counts = [len(ORACLE[key]) for key in ("table", "document_rule_f32", "facts")]
    assert counts == [404, 17, 30]
