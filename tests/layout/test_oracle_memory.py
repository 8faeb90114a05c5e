"""Are dimension order and small elements in memory as compiled XLA has them? Raw device buffers."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from systolic.layout import Layout, Shape, element_type_of, pack, unpack

ORACLE = json.loads((Path(__file__).parent / "oracle" / "minor_to_major.json").read_text())


@pytest.mark.parametrize("case", ORACLE["minor_to_major"], ids=lambda c: str(c["minor_to_major"]))
def test_order_of_dimensions(case: dict) -> None:
    shape = Shape("s32", case["dims"], Layout(case["minor_to_major"]))
    array = np.arange(shape.num_elements(), dtype=np.int32).reshape(shape.dims)
    assert pack(array, shape).tolist() == case["buffer_elements"]
    assert shape.permutation().tolist() == case["buffer_elements"]


SMALL = [case for case in ORACLE["sub_byte"] if "bitcast_to_u8" in case]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["dtype"])
def test_small_elements_low_bits_first(case: dict) -> None:
    dtype = np.dtype(getattr(ml_dtypes, case["dtype"]))
    kind = element_type_of(dtype)
    exact = case["bitcast_to_u8"]
    shape = Shape(kind.name, (len(exact["values"]),), Layout((0,), element_bits=kind.bits))
    values = np.array(exact["values"]).astype(dtype)
    assert pack(values, shape).tolist() == exact["bytes"]
    np.testing.assert_array_equal(unpack(np.array(exact["bytes"], np.uint8), shape), values)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["dtype"])
def test_small_elements_take_a_byte_by_default(case: dict) -> None:
    kind = element_type_of(np.dtype(getattr(ml_dtypes, case["dtype"])))
    assert Shape(kind.name, (len(case["values"]),)).size_bytes() == case["size_attr_nbytes"]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["dtype"])
def test_raw_bytes_up_to_the_last_element(case: dict) -> None:
    # Bits past the last element are undefined in XLA's buffer; here they are 0.
    dtype = np.dtype(getattr(ml_dtypes, case["dtype"]))
    kind = element_type_of(dtype)
    count = len(case["values"])
    shape = Shape(kind.name, (count,), Layout((0,), element_bits=kind.bits))
    raw = case["raw_bytes (bits past the last element are undefined)"]
    used = int("1" * (count * kind.bits), 2)
    found = int.from_bytes(pack(np.array(case["values"]).astype(dtype), shape).tobytes(), "little")
    assert found == int.from_bytes(bytes(raw), "little") & used


def test_high_bits_first_as_older_xla() -> None:
    # jaxlib 0.4.30 packed s4 [1,2,3,4,5] as 12 34 50.
    shape = Shape.parse("s4[5]{0:E(4)}")
    values = np.array([1, 2, 3, 4, 5]).astype(shape.dtype)
    memory = pack(values, shape, order="high")
    assert memory.tobytes().hex() == "123450"
    np.testing.assert_array_equal(unpack(memory, shape, order="high"), values)


def test_pred_is_a_byte_of_0_or_1() -> None:
    case = next(case for case in ORACLE["sub_byte"] if case["dtype"] == "bool")
    shape = Shape("pred", (len(case["raw"]),))
    values = np.array(case["raw"], bool)
    assert pack(values, shape).view(np.uint8).tolist() == case["raw"]
