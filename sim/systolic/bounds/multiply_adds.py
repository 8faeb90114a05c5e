"""How many multiply-adds products mean by their shapes, and how many of them must be done.

What a causal mask throws away is not counted. A convolution means a multiply-add for each pixel of
each window; those on padding are known to be zero, so that no schedule must do them. A transposed
convolution, and a gradient, mean one for each pair of a pixel and a result in its window. A
composite means what its definition says, whatever products its parts are.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from systolic.bounds.needed import used_pixels
from systolic.workload import Graph, Operation
from systolic.workload.operations.causal_mask import CausalMaskAttributes
from systolic.workload.operations.conv2d import Conv2dAttributes
from systolic.workload.operations.convolutions import ConvAttributes

PRODUCTS = ("matmul", "conv2d")


def product_multiply_adds(graph: Graph) -> dict[str, int]:
    """Return how many multiply-adds each product means by its shapes: turns and padding are none.

    Results that a causal mask throws away are none either. Operations that are no products are not
    in the result.
    """
    return {op.name: _MEANT[op.kind](graph, op) for op in graph.operations if op.kind in _MEANT}


def least_multiply_adds(graph: Graph, op: Operation) -> int:
    """Return the multiply-adds of a product that no schedule can leave out."""
    if op.kind != "conv2d":
        return _of_matmul(graph, op)
    source, weights = (graph.shape(name) for name in op.inputs)
    windows = op.attributes_as(Conv2dAttributes).windows(weights)
    pixels = math.prod(len(each.pairs) for each in used_pixels(windows, source))
    return source.dims[0] * pixels * weights.dims[2] * weights.dims[3]


def _of_matmul(graph: Graph, op: Operation) -> int:
    return graph.shape(op.inputs[0]).dims[-1] * _wanted(graph, op)


def _of_dot(graph: Graph, op: Operation) -> int:
    lhs, rhs = (graph.shape(name).dims for name in op.inputs)
    return lhs[-1] * _results(graph, op) if lhs and rhs else 0  # a number scales a tensor


def _of_windows(graph: Graph, op: Operation) -> int:
    """Return the multiply-adds of a convolution; its weights end in a dimension of filters."""
    return _results(graph, op) * math.prod(graph.shape(op.inputs[1]).dims[:-1])


def _results(graph: Graph, op: Operation) -> int:
    return graph.shape(op.output).num_elements()


def _of_pairs(graph: Graph, op: Operation) -> int:
    """Return the multiply-adds of pixels in windows of others, along each axis by itself."""
    small, large, weights = (graph.shape(name).dims for name in _PAIRED[op.kind](op))
    where = op.attributes_as(ConvAttributes).along(len(small) - 2)
    each = zip(small[1:-1], large[1:-1], weights[:-2], where.along(), strict=True)
    pairs = (
        sum(0 <= n * step - low + tap * dilation < size for n in range(windows) for tap in range(k))
        for windows, size, k, (step, (low, _), dilation) in each
    )
    channels = small[-1] * weights[-1] // op.attributes_as(ConvAttributes).groups
    of_pair = channels if op.kind == "conv_transpose" else weights[-2] * weights[-1]
    return small[0] * math.prod(pairs) * of_pair


_PAIRED: dict[str, Callable[[Operation], tuple[str, str, str]]] = {
    "conv_transpose": lambda op: (op.inputs[0], op.output, op.inputs[1]),
    "conv_input_gradient": lambda op: (op.inputs[0], op.output, op.inputs[1]),
    "conv_weight_gradient": lambda op: (op.inputs[1], op.inputs[0], op.output),
}
"""The tensors with a pixel for each window, with all pixels, and of the weights."""


def _of_recurrent(graph: Graph, op: Operation) -> int:
    """Return the multiply-adds of all steps; source: [steps, batch, inputs]."""
    source, weights, recurrent = (graph.shape(name) for name in op.inputs[:3])
    return math.prod(source.dims[:2]) * (weights.num_elements() + recurrent.num_elements())


_MEANT: dict[str, Callable[[Graph, Operation], int]] = {
    "matmul": _of_matmul,
    "matmul_integer": _of_matmul,
    "dot": _of_dot,
    **dict.fromkeys(("conv2d", "conv1d", "conv3d", "conv_integer"), _of_windows),
    **dict.fromkeys(_PAIRED, _of_pairs),
    **dict.fromkeys(("lstm", "gru"), _of_recurrent),
}


def _wanted(graph: Graph, op: Operation) -> int:
    """Return how many elements of a result are wanted: what a mask keeps, if it alone takes it."""
    out = graph.shape(op.output)
    takers = [each for each in graph.operations if op.output in each.inputs]
    if [each.kind for each in takers] != ["causal_mask"] or op.output in graph.outputs:
        return out.num_elements()
    mask = takers[0].attributes_as(CausalMaskAttributes)
    *batch, rows, cols = out.dims
    return math.prod(batch) * int(mask.kept(rows, cols).sum())
