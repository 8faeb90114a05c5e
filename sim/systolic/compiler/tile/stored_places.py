"""Which places in DRAM tasks read and write: an operand may lie where other tasks have put it."""

from __future__ import annotations

from systolic.compiler.ir.nodes import Layers, StoreNode
from systolic.compiler.ir.tasks import Task


class StoredPlaces:
    """Which places in DRAM tasks read and write, by the first byte of the whole place."""

    def __init__(self, layers: Layers) -> None:
        """Note the places of all tensors in DRAM."""
        starts = {place.name: place.start for place in layers.dram}
        self._sources = {
            matrix.name: starts[matrix.source.dram]
            for matrix in layers.matrices
            if matrix.source.kind == "dram"
        }
        self._targets = {
            number: starts[node.dram]
            for number, node in enumerate(layers.nodes)
            if isinstance(node, StoreNode)
        }

    def read(self, task: Task) -> set[int]:
        """Return the places from which the tiles of a task come."""
        return {self._sources[t.matrix] for t in task.reads if t.matrix in self._sources}

    def written(self, task: Task) -> int:
        """Return the place to which a store copies."""
        return self._targets[task.node]
