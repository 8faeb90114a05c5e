"""Lowering of an embedding: DMA brings the rows from DRAM; on the chip they are a gather."""

from __future__ import annotations

import numpy as np

from systolic.compiler.ir.gathers import Gather, GatherPart
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.lower.builder import LayerBuilder
from systolic.workload import Operation
from systolic.workload.operations.embedding import EmbeddingAttributes

ROWS: Axes = ((0,), (1,))
TURNED: Axes = ((1,), (0,))


def lower_embedding(builder: LayerBuilder, op: Operation) -> None:
    """Bring rows of a table in DRAM, and only those; else copy them on the chip."""
    (table,), indices = op.inputs, op.attributes_as(EmbeddingAttributes).indices
    if builder.dram.holds(table):
        builder.load_rows(op.output, table, indices)
        return
    _, axes = builder.any_view(table)
    axes = TURNED if axes == TURNED else ROWS
    source = builder.with_tiles(table, axes)
    picked, along = np.asarray(indices), np.arange(builder.graph.shape(table).dims[1])
    rows, cols = (picked, along) if axes == ROWS else (along, picked)
    part = GatherPart(0, np.zeros(1, np.int64), rows, cols)
    builder.node("gather", (source,), builder.result(op.output, axes), gather=Gather((part,)))
