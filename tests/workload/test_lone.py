"""Is a transpose what numpy says, and is nonsense refused?"""

from __future__ import annotations

import pytest

from support.axes import axes_of
from support.runs import transpose_graph
from systolic.errors import SystolicError, WorkloadError
from systolic.workload import GraphBuilder, parse_shape


def test_matrix_needs_no_permutation() -> None:
    graph = transpose_graph(parse_shape("f32[3,5]"), home="dram")
    (op,) = graph.operations
    assert axes_of(op) == (1, 0)
    assert graph.shape("result").dims == (5, 3)
    assert {tensor.home for _, tensor in graph.tensors} == {"dram"}
    assert str(graph) == "transpose: f32[5,3]{1,0} = transpose(f32[3,5]{1,0})"


def test_every_spelling_of_a_matrix_transpose_means_the_reversal() -> None:
    given = transpose_graph(parse_shape("f32[3,5]"), (1, 0))
    assert transpose_graph(parse_shape("f32[3,5]")) == given
    built = GraphBuilder("state_buffer")
    built.transpose(built.tensor("source", "f32[3,5]"), "f32[5,3]", name="result")
    added = GraphBuilder("state_buffer")
    added.add("transpose", [added.tensor("source", "f32[3,5]")], "f32[5,3]", name="result")
    for graph in (built.graph(), added.graph()):
        assert graph.tensors == given.tensors
        assert axes_of(graph.operations[0]) == (1, 0)


def test_permutation_of_axes() -> None:
    graph = transpose_graph(parse_shape("s8[2,3,4,5]"), (0, 3, 1, 2))
    assert graph.shape("result").dims == (2, 5, 3, 4)
    assert graph.shape("source").dims == (2, 3, 4, 5)


def test_out_gives_the_layout_of_the_result() -> None:
    graph = transpose_graph(parse_shape("f32[3,5]"), out="f32[5,3]{0,1}")
    assert graph.shape("result") == parse_shape("f32[5,3]{0,1}")


@pytest.mark.parametrize(
    ("shape", "permutation", "out", "text"),
    [
        ("f32[3]", None, None, "a transpose needs at least 2 dimensions, f32[3] has 1"),
        ("f32[3,0]", None, None, "f32[3,0] has no elements: there is nothing to transpose"),
        ("f32[1,2,3]", None, None,
         "a permutation is needed: f32[1,2,3] has 3 dimensions "
         "(only a matrix has just one other order)"),
        ("f32[1,2,3]", (0, 1), None, "each axis from 0 to 2 must be named once, found [0, 1]"),
        ("f32[1,2]", (1, 2), None, "each axis from 0 to 1 must be named once, found [1, 2]"),
        ("f32[1,2]", None, "f32[1,2]",
         'operation "transpose": f32[1,2] gives f32[2,1], but out is f32[1,2]'),
        ("f32[1,2]", None, "s32[2,1]",
         'operation "transpose": f32[1,2] gives f32[2,1], but out is s32[2,1]'),
    ],
)  # fmt: skip
def test_refused(
    shape: str, permutation: tuple[int, ...] | None, out: str | None, text: str
) -> None:
    with pytest.raises(WorkloadError) as caught:
        transpose_graph(parse_shape(shape), permutation, out)
    assert str(caught.value) == text


def test_shape_text_that_does_not_parse() -> None:
    with pytest.raises(SystolicError, match="unknown element type"):
        parse_shape("q[1]")
