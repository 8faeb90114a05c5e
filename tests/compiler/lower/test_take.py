"""Is the value right? Elements by their places along an axis, on both engines and in both homes."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from systolic.errors import WorkloadError
from systolic.workload import GraphBuilder

CASES = [
    ((6,), 0, range(5, -1, -1)),
    ((6, 10), 0, range(5, -1, -1)),
    ((6, 10), 1, range(9, -1, -1)),
    ((3, 5, 7), 1, (4, 0, 0, 2)),
    ((2, 3, 4, 5), 3, (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)),
]


@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "pred"])
@pytest.mark.parametrize(("dims", "axis", "places"), CASES)
def test_places_along_an_axis(dims, axis, places, dtype, home):
    builder = GraphBuilder(home)
    builder.tensor("x", f"{dtype}[{','.join(map(str, dims))}]")
    builder.take("x", indices=tuple(places), axis=axis, name="y")
    graph = builder.graph()
    x = np.random.default_rng(1).integers(0, 2 if dtype == "pred" else 100, dims)
    x = x.astype(graph.shape("x").dtype)
    for chip in ("ideal_4x4", "neuroncore_v2"):
        found = systolic.run(graph, chip, {"x": x})
        assert np.array_equal(found.outputs["y"], np.take(x, list(places), axis))


def test_a_place_outside_is_refused():
    builder = GraphBuilder()
    builder.tensor("x", "f32[2,3]")
    with pytest.raises(WorkloadError) as error:
        builder.take("x", indices=(0, 3), axis=1, name="y")
    assert str(error.value) == (
        'operation "y": indices: needs numbers from 0 to 2, places along axis 1 of f32[2,3], '
        "found 3"
    )
