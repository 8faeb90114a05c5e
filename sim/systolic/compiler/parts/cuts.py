"""Operations on a box of their result: which boxes of the operands they need, and how they change.

A row for each operation that can be cut. The halo of windows is exact: their stride, padding and
dilation stay, and the padding that a box does not touch is gone. Axes that are reduced, and the K
of products, are never cut: so the order of adding stays. Not here: where to cut (`bands`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from systolic.compiler.ir.carried import is_packed
from systolic.compiler.parts.graph_part import GraphPart, TensorBox
from systolic.compiler.streams.element_wise import ELEMENT_WISE
from systolic.layout import Shape
from systolic.workload import Graph, Operation, Tensor
from systolic.workload.graph import make_graph
from systolic.workload.operations.conv2d import Conv2dAttributes
from systolic.workload.operations.image_windows import ImageWindows
from systolic.workload.operations.pool import PoolAttributes
from systolic.workload.operations.reduce import ReduceAttributes, kept_axes
from systolic.workload.operations.row import Attributes


class Needed(NamedTuple):
    """A box of each operand, and the attributes of the operation on them."""

    operands: tuple[TensorBox, ...]
    attributes: Attributes


NeededBy = Callable[[Operation, Sequence[Shape], TensorBox], Needed | None]
"""Returns what a box of the result needs, given the operands' shapes; None if it is no such box."""


def _each_element(op: Operation, shapes: Sequence[Shape], box: TensorBox) -> Needed:
    placed = ELEMENT_WISE[op.kind].placed
    found = []
    for shape in shapes:
        start, dims = [0] * shape.rank, list(shape.dims)
        for here, dim in enumerate(placed(op, shape.dims, box.dims)):
            if dim is not None and shape.dims[dim] > 1:
                start[dim], dims[dim] = box.start[here], box.dims[here]
        found.append(TensorBox(tuple(start), tuple(dims)))
    return Needed(tuple(found), op.attributes)


def _seen(
    windows: ImageWindows, source: Shape, box: TensorBox
) -> tuple[TensorBox, tuple[int, ...]] | None:
    """Return the box of images that windows see, all channels of it, and its padding.

    None if they see nothing but padding, which no smaller padding says.
    """
    start, dims = [box.start[0], 0, 0, 0], [box.dims[0], 0, 0, source.dims[3]]
    padding: list[int] = []
    for axis, before in ((1, windows.padding[0]), (2, windows.padding[2])):
        stride, extent = windows.stride[axis - 1], windows.extents[axis - 1]
        first = box.start[axis] * stride - before
        stop = first + (box.dims[axis] - 1) * stride + extent
        start[axis], end = max(0, first), min(source.dims[axis], stop)
        dims[axis] = end - start[axis]
        if dims[axis] <= 0:
            return None
        padding += [start[axis] - first, stop - end]
    return TensorBox(tuple(start), tuple(dims)), tuple(padding)


def _conv2d(op: Operation, shapes: Sequence[Shape], box: TensorBox) -> Needed | None:
    given, (source, weights) = op.attributes_as(Conv2dAttributes), shapes
    seen = _seen(given.windows(weights), source, box)
    groups, left = divmod(box.dims[3] * given.groups, weights.dims[3])
    first, rest = divmod(box.start[3] * given.groups, weights.dims[3])
    if seen is None or (given.groups > 1 and (left or rest)):
        return None
    images, padding = seen
    if given.groups == 1:
        groups = 1
    else:
        taken = weights.dims[2]
        start, dims = (*images.start[:3], first * taken), (*images.dims[:3], groups * taken)
        images = TensorBox(start, dims)
    some = TensorBox((0, 0, 0, box.start[3]), (*weights.dims[:3], box.dims[3]))
    return Needed((images, some), replace(given, padding=padding, groups=groups))


def _pool(op: Operation, shapes: Sequence[Shape], box: TensorBox) -> Needed | None:
    given, (source,) = op.attributes_as(PoolAttributes), shapes
    seen = _seen(given.windows(), source, box)
    if seen is None:
        return None
    images, padding = seen
    channels = TensorBox((*images.start[:3], box.start[3]), (*images.dims[:3], box.dims[3]))
    return Needed((channels,), replace(given, padding=padding))


def _matmul(op: Operation, shapes: Sequence[Shape], box: TensorBox) -> Needed:
    found = []
    for side, shape in enumerate(shapes):
        start, dims = [0] * shape.rank, list(shape.dims)
        kept = shape.rank - 2 + side  # the axis of rows of the lhs, of columns of the rhs
        for axis in range(shape.rank):
            here = axis - shape.rank if axis < shape.rank - 2 else -2 + side
            batch = axis < shape.rank - 2 and shape.dims[axis] > 1
            if batch or axis == kept:
                start[axis], dims[axis] = box.start[here], box.dims[here]
        found.append(TensorBox(tuple(start), tuple(dims)))
    return Needed(tuple(found), op.attributes)


def _reduce(op: Operation, shapes: Sequence[Shape], box: TensorBox) -> Needed:
    (source,) = shapes
    kept = kept_axes(source.rank, op.attributes_as(ReduceAttributes).reduced(source.rank))
    start, dims = [0] * source.rank, list(source.dims)
    for here, axis in enumerate(kept):
        start[axis], dims[axis] = box.start[here], box.dims[here]
    return Needed((TensorBox(tuple(start), tuple(dims)),), op.attributes)


_OWN: dict[str, NeededBy] = {
    "conv2d": _conv2d,
    "pool": _pool,
    "matmul": _matmul,
    "reduce": _reduce,
}
CUTS: dict[str, NeededBy] = _OWN | dict[str, NeededBy].fromkeys(ELEMENT_WISE, _each_element)
"""Operations that can be done box by box."""


def part_for(
    graph: Graph, operations: Sequence[Operation], box: TensorBox | None = None
) -> GraphPart | None:
    """Return the part that makes a box of the last operation's result; all of it if none is given.

    None if no part makes it: operations cannot be cut so, a tensor that is needed in part
    lies in tiles, or its elements share bytes.
    """
    last, shapes = operations[-1], dict(graph.tensors)
    boxes = {last.output: box or TensorBox.whole(shapes[last.output].shape)}
    found: list[Operation] = []
    for op in reversed(operations):
        if op.output not in boxes:
            return None
        mine, operands = boxes[op.output], [shapes[name].shape for name in op.inputs]
        if mine == TensorBox.whole(shapes[op.output].shape):
            needed: Needed | None = Needed(tuple(map(TensorBox.whole, operands)), op.attributes)
        else:
            needed = CUTS[op.kind](op, operands, mine) if op.kind in CUTS else None
        if needed is None:
            return None
        for name, seen in zip(op.inputs, needed.operands, strict=True):
            if boxes.setdefault(name, seen) != seen:
                return None
        found.append(replace(op, attributes=needed.attributes))
    inside = {op.output for op in operations[:-1]}
    tensors: dict[str, Tensor] = {}
    for name, tensor in graph.tensors:
        if name not in boxes:
            continue
        shape = _cut_shape(tensor.shape, boxes[name].dims, inside=name in inside)
        if shape is None:
            return None
        tensors[name] = Tensor(shape, "dram")
    return GraphPart(make_graph(tensors, found[::-1]), boxes)


def _cut_shape(shape: Shape, dims: tuple[int, ...], *, inside: bool) -> Shape | None:
    """Return the shape of a box as it lies within its tensor; None if no shape says that."""
    layout = shape.layout
    if dims == shape.dims:
        return shape
    if inside:
        plain = replace(layout, padded_dimensions=None, padding_value=0)
        return Shape(shape.element_type, dims, replace(plain, tiles=()))
    if layout.tiles or is_packed(shape):
        return None
    widths = layout.padded_dimensions or shape.dims
    return Shape(shape.element_type, dims, layout).with_padding(widths)
