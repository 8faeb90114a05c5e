"""A lone transpose as a graph of one operation: "result" is made of "source".

Its result's shape follows from its source's, so it may be left out; what does not go together is
said in the words of the one operation, without its name.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.errors import WorkloadError, shortened
from systolic.layout import Shape
from systolic.workload.graph import Graph, Operation, make_graph
from systolic.workload.operations.table import plain
from systolic.workload.tensor import Home, Tensor


def transpose_graph(
    shape: Shape,
    permutation: Sequence[int] | None = None,
    out: Shape | None = None,
    home: Home = "state_buffer",
) -> Graph:
    """Return the transpose of an array of that shape as a graph.

    Args:
        shape: the source, of rank 2 or more, with at least one element.
        permutation: for each axis of the result, the source's axis; rank 2 defaults to (1, 0).
        out: shape of the result, for its layout; its type and dimensions must be those that
            follow from the others. Default: row major.
        home: where source and result live.

    Raises:
        WorkloadError: the parts do not go together.

    """
    axes = checked_axes(shape, permutation)
    wanted = Shape(shape.element_type, tuple(shape.dims[axis] for axis in axes))
    result = wanted if out is None else out
    if (result.element_type, result.dims) != (wanted.element_type, wanted.dims):
        raise WorkloadError(f"the result is {plain(wanted)}, but out is {plain(result)}")
    tensors = {"source": Tensor(shape, home), "result": Tensor(result, home)}
    return make_graph(tensors, [Operation("transpose", "transpose", ("source",), "result", axes)])


def checked_axes(shape: Shape, permutation: Sequence[int] | None) -> tuple[int, ...]:
    """Return the permutation of a transpose of that shape; WorkloadError if there can be none."""
    if shape.rank < 2:
        raise WorkloadError(
            f"a transpose needs at least 2 dimensions, {plain(shape)} has {shape.rank}"
        )
    if 0 in shape.dims:
        raise WorkloadError(f"{plain(shape)} has no elements: there is nothing to transpose")
    if permutation is None:
        return _only_other_order(shape)
    axes = tuple(permutation)
    if sorted(axes) != list(range(shape.rank)):
        found = shortened(str(list(axes)))
        raise WorkloadError(
            f"each axis from 0 to {shape.rank - 1} must be named once, found {found}"
        )
    return axes


def _only_other_order(shape: Shape) -> tuple[int, ...]:
    if shape.rank > 2:
        raise WorkloadError(
            f"a permutation is needed: {plain(shape)} has {shape.rank} dimensions "
            "(only a matrix has just one other order)"
        )
    return (1, 0)
