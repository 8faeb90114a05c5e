"""A part of a graph: operations of its own on boxes of the graph's tensors.

A box of a tensor in DRAM is read and written in place: its first byte, and the steps of the whole
tensor, which its layout gives as padded dimensions. So a part is a graph like any other. Two
parts are equal if only names and places differ. Not here: which parts there are (`divide`,
`cuts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from systolic.layout import Shape
from systolic.workload import Graph, Operation
from systolic.workload.options import Options


@dataclass(frozen=True, slots=True)
class TensorBox:
    """A box of a tensor: its first index and its size, by dimension."""

    start: tuple[int, ...]
    dims: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Shape) -> TensorBox:
        """Return all of a tensor."""
        return cls((0,) * shape.rank, shape.dims)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Return the box as slices of an array."""
        return tuple(slice(a, a + n) for a, n in zip(self.start, self.dims, strict=True))

    def meets(self, other: TensorBox) -> bool:
        """Return whether two boxes of one tensor have an element in common."""
        ends = zip(self.start, self.dims, other.start, other.dims, strict=True)
        return all(a < b + m and b < a + n for a, n, b, m in ends)


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Operations on boxes of tensors.

    graph: of the operations; its tensors have the names and, in it, the sizes of their boxes.
    boxes: of each tensor, within the tensor of the whole graph that has this name.
    """

    graph: Graph
    boxes: Mapping[str, TensorBox]

    def key(self, options: Options) -> tuple[Any, ...]:
        """Return what its program depends on: all but names, and where tensors lie."""
        number = {name: n for n, (name, _) in enumerate(self.graph.tensors)}
        composites: dict[str, int] = {}
        return (
            tuple(tensor for _, tensor in self.graph.tensors),
            tuple(
                (
                    op.kind,
                    op.attributes,
                    tuple(number[name] for name in op.inputs),
                    number[op.output],
                    composites.setdefault(op.part_of, len(composites)) if op.part_of else None,
                    repr(options.operations.get(op.name)),
                )
                for op in self.graph.operations
            ),
            tuple(number[name] for name in self.graph.outputs),
        )


def layer_of(op: Operation) -> str:
    """Return the operation under which a run counts the work: the composite, if it has one."""
    return op.part_of or op.name


def names_between(one: GraphPart, other: GraphPart) -> dict[str, str]:
    """Return the tensors of one part, each with that in its place in an equal part."""
    return _paired(
        [name for name, _ in one.graph.tensors], [name for name, _ in other.graph.tensors]
    )


def layers_between(one: GraphPart, other: GraphPart) -> dict[str, str]:
    """Return the layers of one part, each with that in its place in an equal part."""
    return _paired(
        [layer_of(op) for op in one.graph.operations],
        [layer_of(op) for op in other.graph.operations],
    )


def _paired(one: Sequence[str], other: Sequence[str]) -> dict[str, str]:
    return dict(zip(one, other, strict=True))
