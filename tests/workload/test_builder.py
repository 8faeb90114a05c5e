"""`GraphBuilder`: operations as methods, and results whose shape follows from the inputs."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from systolic.errors import WorkloadError
from systolic.workload import OPERATIONS, GraphBuilder


def network(builder: GraphBuilder) -> GraphBuilder:
    x, w = builder.tensor("x", "f32[1,6,6,2]"), builder.tensor("w", "f32[3,3,2,4]")
    b = builder.tensor("b", "f32[4]")
    sums = builder.conv2d(x, w, out="f32[1,6,6,4]", padding=(1, 1, 1, 1))
    biased = builder.binary(sums, b, operator="add", broadcast_dimensions=(3,))
    hidden = builder.activation(biased, function="ramp")
    builder.pool(hidden, reduction="max", window=(2, 2), stride=(2, 2), name="pooled")
    return builder


def test_operations_are_methods_and_shapes_follow():
    graph = network(GraphBuilder("state_buffer")).graph()
    assert [op.name for op in graph.operations] == ["conv2d0", "binary1", "activation2", "pooled"]
    assert str(graph.shape("pooled")) == "f32[1,3,3,4]{3,2,1,0}"
    assert {tensor.home for _, tensor in graph.tensors} == {"state_buffer"}
    numbers = np.random.default_rng(1)
    data = {name: numbers.integers(-3, 4, graph.shape(name).dims).astype(np.float32)
            for name in graph.inputs}  # fmt: skip
    found = systolic.run(graph, "ideal_128x128", data).outputs["pooled"]
    padded = np.pad(data["x"], ((0, 0), (1, 1), (1, 1), (0, 0)))
    sums = sum(
        padded[:, r : r + 6, c : c + 6] @ data["w"][r, c] for r in range(3) for c in range(3)
    )
    hidden = np.maximum(sums + data["b"], 0)
    assert np.array_equal(found, hidden.reshape(1, 3, 2, 3, 2, 4).max(axis=(2, 4)))


def test_add_says_the_same():
    one, other = GraphBuilder(), GraphBuilder()
    for builder, add in ((one, one.slice), (other, lambda *i, **g: other.add("slice", i, **g))):
        x = builder.tensor("x", "s8[9,4]")
        add(x, start=(1, 0), stop=(9, 4), step=(2, 1))
    assert one.graph() == other.graph()


def test_every_operation_is_listed():
    assert OPERATIONS.keys() <= set(dir(GraphBuilder()))


@pytest.mark.parametrize(
    ("add", "text"),
    [
        (lambda b: b.matmul("x", "x", None), 'operation "matmul0": needs out: a matmul may give'),
        (lambda b: b.reshape("x"), 'operation "reshape0": needs out: a reshape may give several'),
        (lambda b: b.softmax("z"), 'operation "softmax0": no tensor "z" (known: x)'),
        (lambda b: b.binary("x", operator="add"), "binary takes 2 tensors, found 1"),
        (lambda b: b.softmax("x", functon="a"), 'functon: op = "softmax" has no such key'),
    ],
)
def test_what_cannot_follow_is_refused_at_once(add, text):
    builder = GraphBuilder()
    builder.tensor("x", "f32[4,4]")
    with pytest.raises(WorkloadError) as raised:
        add(builder)
    assert text in str(raised.value)


def test_an_unknown_method_names_the_nearest():
    with pytest.raises(AttributeError, match=r"GraphBuilder has no 'softmx'.*softmax"):
        GraphBuilder().softmx("x")
