"""Moves of packed elements that keep bytes whole: the same moves of the bytes themselves.

If the most minor dimension stays the most minor one, and whole bytes make it up, elements that
share a byte share it before and after. Then nothing need be unpacked. Not here: all other moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from systolic.compiler.ir.carried import CARRIER, is_packed
from systolic.element_types import BYTE_BITS
from systolic.layout import Layout, Shape
from systolic.workload import Graph, Operation, Tensor, TransposeAttributes


def moved_as_bytes(graph: Graph) -> Iterator[Operation]:
    """Yield the operations that may move bytes, between tensors that nothing else uses."""
    for op in graph.operations:
        if len(op.inputs) != 1:
            continue
        (source,), taken = op.inputs, [n for each in graph.operations for n in each.inputs]
        ends = source in graph.inputs and op.output in graph.outputs and taken.count(source) == 1
        if ends and _keeps_bytes(graph, op):
            yield op


def _keeps_bytes(graph: Graph, op: Operation) -> bool:
    before, after = graph.shape(op.inputs[0]), graph.shape(op.output)
    if not (is_packed(before) and is_packed(after)) or before.element_bits != after.element_bits:
        return False
    if byte_shape(before) is None or byte_shape(after) is None:
        return False
    minors = before.layout.minor_to_major[0], after.layout.minor_to_major[0]
    if op.kind == "transpose":
        return op.attributes_as(TransposeAttributes).axes[minors[1]] == minors[0]
    if op.kind == "reshape":
        return minors == (before.rank - 1, after.rank - 1)
    return op.kind == "relayout" and minors[0] == minors[1]


def byte_shape(shape: Shape) -> Shape | None:
    """Return the bytes of a packed shape as a shape; None if they have no such dimensions."""
    layout, per_byte = shape.layout, BYTE_BITS // shape.element_bits
    plain = layout.padded_dimensions is None and [name for name, _ in layout.numbers] == ["E"]
    if not (plain and shape.rank and len(layout.tiles) <= 1):
        return None
    dims, minor = list(shape.dims), layout.minor_to_major[0]
    sides = [dims[minor], *(tile.dims[-1] for tile in layout.tiles)]
    if any(side % per_byte for side in sides):
        return None
    dims[minor] //= per_byte
    tiles = [(*tile.dims[:-1], tile.dims[-1] // per_byte) for tile in layout.tiles]
    return Shape(CARRIER, dims, Layout(layout.minor_to_major, tiles))


def byte_tensor(tensor: Tensor) -> Tensor:
    """Return the bytes of a packed tensor, at the same place."""
    shape = byte_shape(tensor.shape)
    assert shape is not None
    return replace(tensor, shape=shape)
