"""Which elements of its operands an operation needs: the least that a run reads of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from systolic.element_types import BYTE_BITS
from systolic.layout import Shape
from systolic.workload import Graph, Operation
from systolic.workload.operations.causal_mask import CausalMaskAttributes
from systolic.workload.operations.conv2d import Conv2dAttributes
from systolic.workload.operations.image_windows import ImageWindows
from systolic.workload.operations.index_map import NOWHERE
from systolic.workload.operations.pool import PoolAttributes


@dataclass(frozen=True, slots=True)
class UsedPixels:
    """Along one axis of images: (tap, pixel) of every window that lies on the image."""

    pairs: tuple[tuple[int, int], ...]

    @property
    def taps(self) -> int:
        """Return how many taps of the window ever lie on the image."""
        return len({tap for tap, _ in self.pairs})

    @property
    def pixels(self) -> int:
        """Return how many pixels of the image lie under some window."""
        return len({pixel for _, pixel in self.pairs})


def used_pixels(windows: ImageWindows, source: Shape) -> tuple[UsedPixels, UsedPixels]:
    """Return what windows use of images, down and across."""
    found = []
    for axis, made in enumerate(windows.made(source)):
        size, before = source.dims[1 + axis], windows.padding[2 * axis]
        places = (
            (tap, number * windows.stride[axis] + tap * windows.dilation[axis] - before)
            for number in range(made)
            for tap in range(windows.size[axis])
        )
        found.append(UsedPixels(tuple(each for each in places if 0 <= each[1] < size)))
    return found[0], found[1]


def needed_elements(graph: Graph, op: Operation, place: int) -> int:
    """Return how many elements of its operand number `place` an operation needs."""
    shape = graph.shape(op.inputs[place])
    every = shape.num_elements()
    if op.row.index_map is not None:
        taken = graph.index_map(op)
        along = zip(taken.follows, taken.places, strict=True)
        different = ({*each.tolist()} - {NOWHERE} for axis, each in along if axis is not None)
        return math.prod(map(len, different))
    if op.row.needs is not None:
        shapes = [graph.shape(name) for name in op.inputs]
        return op.row.needs(shapes, graph.shape(op.output), op.attributes)[place]
    match op.attributes:
        case PoolAttributes() as pool:
            used = used_pixels(pool.windows(), shape)
            return shape.dims[0] * shape.dims[3] * math.prod(each.pixels for each in used)
        case Conv2dAttributes() as conv:
            source, weights = (graph.shape(name) for name in op.inputs)
            used = used_pixels(conv.windows(weights), source)
            if place == 0:
                return source.dims[0] * source.dims[3] * math.prod(each.pixels for each in used)
            return weights.dims[2] * weights.dims[3] * math.prod(each.taps for each in used)
        case CausalMaskAttributes() as mask:
            *batch, rows, cols = shape.dims
            return math.prod(batch) * int(mask.kept(rows, cols).sum())
    return every


def needed_bytes(graph: Graph, name: str) -> int:
    """Return the bytes of an input that some operation needs, at least."""
    takers = [op for op in graph.operations if name in op.inputs]
    least = max(
        (
            needed_elements(graph, op, place)
            for op in takers
            for place, each in enumerate(op.inputs)
            if each == name
        ),
        default=0,
    )
    return bytes_of(graph.shape(name), least)


def bytes_of(shape: Shape, elements: int) -> int:
    """Return the bytes of some elements of a shape; several may share one."""
    return -(-elements * shape.element_bits // BYTE_BITS)
