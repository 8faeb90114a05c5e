"""A batch cut down to some of its images: the same graph, with fewer indices in front.

The images, or rows, of a batch lie along the first dimension of one input. It is the input that the
first convolution takes, or the first operation where there is none. Every result that follows from
it has the batch in front too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.graph import Graph, make_graph
from systolic.workload.operation import Operation
from systolic.workload.tensor import Tensor


def batch_input(graph: Graph) -> str:
    """Return the input of a graph along whose first dimension the images lie."""
    convolutions = (op for op in graph.operations if op.kind == "conv2d")
    name = next(convolutions, graph.operations[0]).inputs[0]
    while (maker := graph.producer(name)) is not None:
        name = maker.inputs[0]
    return name


def some_images(graph: Graph, first: int, stop: int) -> Graph:
    """Return the graph for the images from `first` to before `stop` of its batch.

    Raises:
        WorkloadError: there are no such images, or an operation has no batch in front.

    """
    source = batch_input(graph)
    dims = graph.shape(source).dims
    count = dims[0] if dims else 0
    if not 0 <= first < stop <= count:
        raise WorkloadError(
            f'needs first < stop, from 0 to {count}, the images of "{source}", found {first}:{stop}'
        )
    tensors = dict(graph.tensors)
    batched = {source}
    for op in graph.operations:
        if batched.intersection(op.inputs):
            _check_in_front(op, tensors, count)
            batched.add(op.output)
    for name in batched:
        tensors[name] = _with_images(tensors[name], stop - first)
    return make_graph(tensors, graph.operations, graph.named)


def _check_in_front(op: Operation, tensors: Mapping[str, Tensor], count: int) -> None:
    dims = tensors[op.output].shape.dims
    if not dims or dims[0] != count:
        raise WorkloadError(
            f'operation "{op.name}" gives {tensors[op.output].shape}, which has no {count} images '
            f"in front"
        )


def _with_images(tensor: Tensor, count: int) -> Tensor:
    shape = tensor.shape
    return replace(tensor, shape=Shape(shape.element_type, (count, *shape.dims[1:]), shape.layout))
