"""In which boxes a result is made that is not made at once: images, bands of rows, blocks.

Boxes of the same size are equal parts. They grow smaller step by step: first each matrix or image
by itself, then rows by halves, then blocks of columns or filters, then columns of pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from systolic.compiler.parts.cuts import CUTS
from systolic.compiler.parts.graph_part import TensorBox
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Operation

IMAGES = ("conv2d", "pool")


def bands(shape: Shape, group: Sequence[Operation], chip: Chip) -> Iterator[tuple[TensorBox, ...]]:
    """Yield the boxes of a result in ever smaller sizes, the first time all of it in one.

    The last are a row of windows of one image, or of a matrix, with a block of its columns.
    """
    sizes = list(shape.dims)
    yield _boxes(shape.dims, sizes)
    if not all(op.kind in CUTS for op in group):
        return
    images = any(op.kind in IMAGES for op in group)
    order = (0, 1, 3, 2) if images else range(shape.rank)
    outer = shape.rank - (3 if images else 2)
    for place, dim in enumerate(order):
        least = chip.pe_array.cols if dim == shape.rank - 1 else 1
        while sizes[dim] > least:
            sizes[dim] = 1 if place < outer else max(least, -(-sizes[dim] // 2))
            yield _boxes(shape.dims, sizes)


def _boxes(dims: Sequence[int], sizes: Sequence[int]) -> tuple[TensorBox, ...]:
    """Return the boxes of these sizes that make up all of a result; the last ones are less."""
    along = [
        [(first, min(size, whole - first)) for first in range(0, whole, size)]
        for whole, size in zip(dims, sizes, strict=True)
    ]
    return tuple(
        TensorBox(tuple(first for first, _ in each), tuple(count for _, count in each))
        for each in product(*along)
    )
