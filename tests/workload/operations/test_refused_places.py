"""What operations on places refuse, each in one line that names the operation."""

from __future__ import annotations

from typing import Any

import pytest

from systolic.errors import WorkloadError
from systolic.workload import GraphBuilder

X = "f32[3,4]"


@pytest.mark.parametrize(
    ("kind", "inputs", "out", "given", "message"),
    [
        ("top_k", (X,), "f32[3,5]", {"k": 5},
         "k: needs 1 to 4, the size of axis 1 of f32[3,4], found 5"),
        ("scatter", (X, "f32[3,2]"), X, {"indices": (1, 1)},
         "indices: 1 is there 2 times, and no combiner says what becomes of it"),
        ("scatter", (X, "f32[3,2]"), X, {"indices": (1, 4)},
         "indices: needs numbers from 0 to 3, places along axis 1 of f32[3,4], found 4"),
        ("scatter", (X, "f32[3,1]"), X, {"indices": (1, 2)},
         "updates: needs f32[3,2], found f32[3,1]"),
        ("gather", (X, "f32[2]"), "f32[3,2]", {}, "places: needs s32, found f32[2]"),
        ("dynamic_slice", (X, "s32[2]"), "f32[3,5]", {"sizes": (3, 5)},
         "sizes: needs for each dimension of f32[3,4] a size from 1 to its own, found [3, 5]"),
        ("dynamic_slice", (X, "s32[1]"), "f32[2,2]", {"sizes": (2, 2)},
         "starts: needs s32[2], a number for each dimension of f32[3,4], found s32[1]"),
        ("argmax", (X,), "f32[3]", {}, "f32[3,4] gives s32[3], but out is f32[3]"),
        ("argmin", (X,), "s32[3]", {"axis": 2}, "axis: needs 0 to 1, an axis of f32[3,4], found 2"),
        ("cumulative", (X,), X, {"fold": "max", "exclusive": True},
         "exclusive: nothing comes before the first element, and nothing has no max; only a sum or "
         "a product is exclusive"),
        ("reverse", (X,), X, {"axes": (0, 0)},
         "axes: needs different numbers from 0 to 1, axes of f32[3,4], found [0, 0]"),
        ("tile", (X,), X, {"repeats": (1,)},
         "repeats: needs a number of at least 1 for each dimension of f32[3,4], found [1]"),
        ("expand", (X,), "f32[3,5]", {},
         "broadcast_dimensions: needs, for each dimension of f32[3,4], one of f32[3,5] in "
         "increasing order, of its size unless it is 1; found [0, 1]"),
        ("pad", (X,), "f32[3,8]", {"low": (0, 4), "high": (0, 0), "mode": "reflect"},
         "dimension 1 of f32[3,4]: reflect needs at most 3 on either side, found 4"),
        ("depth_to_space", ("f32[1,2,2,6]",), "f32[1,4,4,1]", {"block": 2},
         "block: needs 2^2 = 4 to divide the channels of f32[1,2,2,6]"),
        ("iota", (), "s32[2,2]", {}, "needs a result of one dimension, found s32[2,2]"),
    ],
)  # fmt: skip
def test_a_refusal(
    kind: str, inputs: tuple[str, ...], out: str, given: dict[str, Any], message: str
) -> None:
    builder = GraphBuilder()
    names = [builder.tensor(f"x{number}", shape) for number, shape in enumerate(inputs)]
    builder.add(kind, names, out, name="y", **given)
    with pytest.raises(WorkloadError) as refused:
        builder.graph()
    assert str(refused.value) == f'operation "y": {message}'
