"""Are composites taken apart, and is a tensor with the name of a part refused?"""

from __future__ import annotations

import pytest

from systolic.errors import WorkloadError
from systolic.workload import Graph, GraphBuilder
from systolic.workload.expand import expanded


def softmax_of(name: str) -> Graph:
    """A softmax whose input has this name."""
    builder = GraphBuilder(home="dram")
    x = builder.tensor(name, "f32[4,6]")
    builder.add("softmax", (x,), "f32[4,6]", name="y", axis=1)
    return builder.graph()


def test_parts_bear_the_name_of_their_composite() -> None:
    parts = expanded(softmax_of("x")).operations
    assert {part.part_of for part in parts} == {"y"}
    assert all(part.row.parts is None for part in parts)
    assert [part.kind for part in parts if part.kind == "reduce"] == ["reduce"] * 2  # max, sum
    assert parts[-1].output == "y"


def test_a_tensor_with_the_name_of_a_part_is_refused() -> None:
    inner = expanded(softmax_of("x")).operations[0].output
    with pytest.raises(WorkloadError) as refused:
        expanded(softmax_of(inner))
    assert str(refused.value) == (
        f'tensor "{inner}": a part of operation "y" (softmax) has that name; another one is needed'
    )
