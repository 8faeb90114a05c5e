"""Is every element where compiled XLA puts it? Affine maps of the TPU dialect, jaxlib 0.10.2."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from systolic.layout import Layout, Shape, pack

CASES = json.loads((Path(__file__).parent / "oracle" / "tiled_index.json").read_text())["cases"]
PLACED = [case for case in CASES if "shape" in case]
REFUSED = [case for case in CASES if "error" in case]


def offsets(shape: Shape) -> np.ndarray:
    index = np.ogrid[tuple(slice(0, size) for size in shape.dims)]
    return shape.linear_index(list(index))


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case["shape"])
def test_linear_index(case: dict) -> None:
    shape = Shape.parse(case["shape"])
    found = offsets(shape)
    if "linear_indices_rowmajor" in case:
        assert found.ravel().tolist() == case["linear_indices_rowmajor"]
    else:
        digest = hashlib.sha256(found.astype("<i8").tobytes()).hexdigest()
        assert digest == case["sha256_of_int64le_rowmajor"]
        for index, offset in case["points"]:
            assert shape.linear_index(index) == offset
            assert shape.from_linear_index(offset) == tuple(index)


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case["shape"])
def test_pack_writes_there(case: dict) -> None:
    shape = Shape("u32", Shape.parse(case["shape"]).dims, Shape.parse(case["shape"]).layout)
    array = np.arange(shape.num_elements(), dtype=np.uint32).reshape(shape.dims)
    memory = pack(array, shape, fill=2**32 - 1)
    expected = np.full(shape.padded_elements(), 2**32 - 1, np.uint32)
    if "linear_indices_rowmajor" in case:
        expected[case["linear_indices_rowmajor"]] = array.ravel()
    else:
        expected[offsets(shape).ravel()] = array.ravel()  # held to the oracle just above
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case["shape"])
def test_size_is_the_first_tiles_where_later_tiles_divide(case: dict) -> None:
    shape = Shape.parse(case["shape"])
    first = case["physical_elements_first_tile"]
    assert shape.xla_array_size() == first * shape.dtype.itemsize
    later_pads = any(step.pads for step in shape.steps()[1:])
    assert (shape.padded_elements() == first) == (not later_pads)


# XLA's dialect cannot hold these: it aborts, or dies allocating. The documents define them (a later
# tile may reach the tile-count dimensions, and one that does not divide pads), so we accept them.
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: str(case["tiles"]))
def test_later_tiles_beyond_the_first_are_accepted(case: dict) -> None:
    assert case["error"].startswith(("abort", "exc: ValueError"))
    shape = Shape(case["etype"], case["dims"], Layout.row_major(2, *case["tiles"]))
    found = offsets(shape).ravel()
    assert len(set(found.tolist())) == shape.num_elements()
    assert 0 <= found.min() <= found.max() < shape.padded_elements()


def test_every_case_is_used() -> None:
    assert (len(PLACED), len(REFUSED), len(CASES)) == (87, 3, 90)
