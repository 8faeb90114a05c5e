"""Products of small integers on an array that has none: in bf16, wherever that is exact.

An integer of 8 bits is a bf16 number, and so are products of two of them in the array's float32
sums, as long as no sum can reach 2^24. Such a product gives what the integers give.
"""

from __future__ import annotations

import math
from dataclasses import replace

from systolic.hw.spec import Chip
from systolic.layout import Layout, Shape
from systolic.workload import Graph, Operation, Tensor

PRODUCTS = ("matmul", "conv2d")
CARRIER, SUMS = "bf16", "f32"
MOST_EXACT = 1 << 24
"""All whole numbers up to this size are float32 numbers."""
CARRIED_BITS = 8


def with_exact_products(graph: Graph, chip: Chip) -> Graph:
    """Return the graph with products of integers in bf16, with casts before and behind them.

    The same graph if the array takes all its products, or none of the others would be exact.
    """
    if not any(_is_carried(graph, op, chip) for op in graph.operations):
        return graph
    tensors, operations = dict(graph.tensors), list[Operation]()

    def named(wanted: str, shape: Shape) -> str:
        while wanted in tensors:
            wanted += "_"
        tensors[wanted] = Tensor(shape, "dram")
        return wanted

    for op in graph.operations:
        if not _is_carried(graph, op, chip):
            operations.append(op)
            continue
        inputs = list[str]()
        for name in op.inputs:
            cast = named(f"{op.output}.{name}", _in_type(graph.shape(name), CARRIER))
            operations.append(Operation(cast, "cast", (name,), cast, part_of=op.layer))
            inputs.append(cast)
        sums = named(f"{op.output}.sums", _in_type(graph.shape(op.output), SUMS))
        operations.append(replace(op, inputs=tuple(inputs), output=sums))
        operations.append(
            Operation(f"{op.output}.whole", "cast", (sums,), op.output, part_of=op.layer)
        )
    return replace(graph, tensors=tuple(tensors.items()), operations=tuple(operations))


def _in_type(shape: Shape, element_type: str) -> Shape:
    return Shape(element_type, shape.dims, Layout(shape.layout.minor_to_major))


def _is_carried(graph: Graph, op: Operation, chip: Chip) -> bool:
    """Return whether the array lacks a product's types, and bf16 gives the same sums."""
    if op.kind not in PRODUCTS:
        return False
    known = chip.pe_array.cycles_per_vector
    shapes = [graph.shape(name) for name in op.inputs]
    if all(shape.element_type in known for shape in shapes) or CARRIER not in known:
        return False
    ranges = [shape.type.integer_range for shape in shapes]
    if any(
        each is None or shape.type.bits > CARRIED_BITS
        for each, shape in zip(ranges, shapes, strict=True)
    ):
        return False
    largest = math.prod(max(map(abs, each)) for each in ranges if each is not None)
    return largest * _summed(op, shapes) <= MOST_EXACT


def _summed(op: Operation, shapes: list[Shape]) -> int:
    """Return how many products each sum of a product has."""
    return shapes[0].dims[-1] if op.kind == "matmul" else math.prod(shapes[1].dims[:-1])
