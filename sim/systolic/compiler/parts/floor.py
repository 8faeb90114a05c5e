"""What a group of operations takes at least, done by itself from DRAM to DRAM."""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.compiler.cost.copies import latency_cycles
from systolic.compiler.ir.carried import memory_bytes
from systolic.hw.spec import Chip
from systolic.workload import Graph, Operation


def floor_ticks(graph: Graph, group: Sequence[Operation], chip: Chip) -> float:
    """Return the ticks of a load and a store, and of the bytes or the products between."""
    made = {op.output for op in group}
    ends = {name for op in group for name in op.inputs if name not in made} | {group[-1].output}
    rate = min(chip.dram.bytes_per_cycle, chip.dma.bytes_per_cycle * chip.dma.engine_count)
    moving = sum(memory_bytes(graph.shape(name)) for name in ends) / rate
    waits = 2 * latency_cycles(chip)
    vectors = sum(_vectors(graph, op, chip) for op in group) * chip.period("pe_array")
    return waits * chip.period("dma") + max(moving * chip.period("dma"), vectors)


def _vectors(graph: Graph, op: Operation, chip: Chip) -> float:
    """Return the cycles in which all PEs make the products of an operation; 0 of other kinds."""
    if op.kind not in ("matmul", "conv2d"):
        return 0
    left, right = (graph.shape(name) for name in op.inputs)
    inner = math.prod(right.dims[:3]) if op.kind == "conv2d" else left.dims[-1]
    array = chip.pe_array
    return graph.shape(op.output).num_elements() * inner / (array.rows * array.cols)
