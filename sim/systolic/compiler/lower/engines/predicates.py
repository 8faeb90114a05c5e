"""Predicates of selects as 0 or 1, for chips whose engines select by operations on bits.

Not here: these operations (`systolic.compiler.ir.masks`).
"""

from __future__ import annotations

from dataclasses import replace

from systolic.compiler.cost.engines import some_engine_does
from systolic.compiler.ir.lane_step import select
from systolic.hw.spec import Chip
from systolic.isa import Buffer
from systolic.layout import Layout, Shape
from systolic.workload import Graph, Operation, Tensor


def selects(chip: Chip) -> bool:
    """Return whether an engine of the chip selects by an instruction of its own."""
    return some_engine_does(chip, select(), Buffer.STATE)


def with_predicates(graph: Graph, chip: Chip) -> Graph:
    """Return the graph with a cast to pred before each select by another type, where bits need it.

    The same graph if an engine of the chip selects by itself.
    """
    if not any(op.kind == "select" for op in graph.operations) or selects(chip):
        return graph
    tensors, operations = dict(graph.tensors), list[Operation]()
    for op in graph.operations:
        if op.kind == "select" and (shape := graph.shape(op.inputs[0])).element_type != "pred":
            cast = f"{op.output}.predicate"
            while cast in tensors:
                cast += "_"
            order = Layout(shape.layout.minor_to_major)
            tensors[cast] = Tensor(Shape("pred", shape.dims, order), "dram")
            part = op.layer
            operations.append(Operation(cast, "cast", op.inputs[:1], cast, part_of=part))
            op = replace(op, inputs=(cast, *op.inputs[1:]))
        operations.append(op)
    return replace(graph, tensors=tuple(tensors.items()), operations=tuple(operations))
