"""How many multiply-adds products mean by their shapes, and how many of them must be done.

What a causal mask throws away is not counted. A convolution means a multiply-add for each pixel of
each window; those on padding are known to be zero, so that no schedule must do them.
"""

from __future__ import annotations

import math

from systolic.bounds.needed import used_pixels
from systolic.workload import Graph, Operation
from systolic.workload.operations.causal_mask import CausalMaskAttributes
from systolic.workload.operations.conv2d import Conv2dAttributes

PRODUCTS = ("matmul", "conv2d")


def product_multiply_adds(graph: Graph) -> dict[str, int]:
    """Return how many multiply-adds each product means by its shapes: turns and padding are none.

    Results that a causal mask throws away are none either. Operations that are no products are not
    in the result.
    """
    products = (op for op in graph.operations if op.kind in PRODUCTS)
    return {op.name: _meant(graph, op) for op in products}


def least_multiply_adds(graph: Graph, op: Operation) -> int:
    """Return the multiply-adds of a product that no schedule can leave out."""
    if op.kind != "conv2d":
        return _meant(graph, op)
    source, weights = (graph.shape(name) for name in op.inputs)
    windows = op.attributes_as(Conv2dAttributes).windows(weights)
    pixels = math.prod(len(each.pairs) for each in used_pixels(windows, source))
    return source.dims[0] * pixels * weights.dims[2] * weights.dims[3]


def _meant(graph: Graph, op: Operation) -> int:
    out = graph.shape(op.output)
    if op.kind == "conv2d":
        height, width, channels, _ = graph.shape(op.inputs[1]).dims
        return out.num_elements() * height * width * channels
    K = graph.shape(op.inputs[0]).dims[-1]
    return K * _wanted(graph, op)


def _wanted(graph: Graph, op: Operation) -> int:
    """Return how many elements of a result are wanted: what a mask keeps, if it alone takes it."""
    out = graph.shape(op.output)
    takers = [each for each in graph.operations if op.output in each.inputs]
    if [each.kind for each in takers] != ["causal_mask"] or op.output in graph.outputs:
        return out.num_elements()
    mask = takers[0].attributes_as(CausalMaskAttributes)
    *batch, rows, cols = out.dims
    return math.prod(batch) * int(mask.kept(rows, cols).sum())
