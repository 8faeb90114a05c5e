"""Lowering of a convolution: a product whose moving operand lies within the images.

The weights [height, width, channels, filters] are the stationary operand [K, filters]. The moving
one has a row for each element of a window. If the channels fill blocks of rows, or a window is one
pixel, its rows are the images themselves, read at the distance of each tap. Otherwise images are
copied on the chip once for each tap, so that taps share the partitions. Nothing goes to DRAM.

Groups are a batch of such products, with matrices of their own.
"""

from __future__ import annotations

import numpy as np

from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.gathers import Gather, GatherPart
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.images import (
    CHANNELS_ON_ROWS,
    Images,
    images_of,
    only,
    padded_images,
    rows_of_all_taps,
)
from systolic.compiler.lower.matmul import refuse_types
from systolic.compiler.lower.views import lies_as
from systolic.workload import Operation
from systolic.workload.operations.conv2d import Conv2dAttributes

FILTERS_ON_COLUMNS: Axes = ((0, 1, 2), (3,))
"""The view of weights [height, width, channels, filters]."""


def lower_conv2d(builder: LayerBuilder, op: Operation) -> None:
    """Multiply the weights with the windows of the images."""
    refuse_types(builder, op)
    given, graph = op.attributes_as(Conv2dAttributes), builder.graph
    windows = given.windows(graph.shape(op.inputs[1]))
    taps, channels = windows.taps(), graph.shape(op.inputs[0]).dims[3]
    shared = given.groups > 1 or (len(taps) > 1 and channels % block_rows(builder.chip) != 0)
    images = images_of(builder, op.inputs[0], windows, as_it_lies=not shared)
    moving = _moving(builder, op, images, given.groups if shared else 0)
    weights = _weights(builder, op.inputs[1])
    block = images.made_block(builder.chip)
    if given.groups == 1:
        result = builder.result_in(op.output, CHANNELS_ON_ROWS, block)
        builder.node("multiply", (weights, moving), result)
        return
    groups, filters = given.groups, weights.cols // given.groups
    weights = _by_group(builder, op.inputs[1], weights, groups)
    shape = graph.shape(op.output)
    sums = builder.scratch(op.output, shape.element_type, (groups, filters, images.results), block)
    builder.node("multiply", (weights, moving), sums)
    result = builder.result_in(op.output, CHANNELS_ON_ROWS, block)
    builder.node("gather", (sums,), result, gather=_together(groups, filters, images.results))


def _moving(builder: LayerBuilder, op: Operation, images: Images, groups: int) -> Matrix:
    """Return a row for each element of a window, and a column for each result.

    groups: of channels, each with rows for all taps; 0: the images themselves are the rows.
    """
    (source, _), channels = op.inputs, images.source.dims[3]
    if not groups:
        padded = padded_images(builder, source, images)
        window = PixelWindow(padded.name, images.pixels, images.taps, channels)
        return builder.within_pixels(padded, window, len(images.taps) * channels, images.results)
    padded = padded_images(builder, source, images)
    packed = rows_of_all_taps(builder, source, padded, images, groups)
    window = PixelWindow(packed.name, images.first_pixels)
    return builder.within_pixels(packed, window, packed.rows, images.results)


def _weights(builder: LayerBuilder, tensor: str) -> Matrix:
    """Return the weights with a window's elements on rows, and filters in columns."""
    shape = builder.graph.shape(tensor)
    if builder.unplaced(tensor) and lies_as(shape, FILTERS_ON_COLUMNS):
        builder.place(tensor, FILTERS_ON_COLUMNS)
    return builder.view(tensor, FILTERS_ON_COLUMNS)


def _by_group(builder: LayerBuilder, tensor: str, weights: Matrix, groups: int) -> Matrix:
    """Return a matrix of weights for each group, with the filters of the group."""
    filters = weights.cols // groups
    made = builder.scratch(tensor, weights.dtype, (groups, weights.rows, filters), None)
    parts = tuple(
        GatherPart(0, only(groups, group), np.arange(weights.rows),
                   group * filters + np.arange(filters))
        for group in range(groups)
    )  # fmt: skip
    builder.node("gather", (weights,), made, gather=Gather(parts))
    return made


def _together(groups: int, filters: int, columns: int) -> Gather:
    """Return the results of all groups as one matrix, one group below the other."""
    parts = []
    for group in range(groups):
        rows = np.full(groups * filters, -1)
        rows[group * filters : (group + 1) * filters] = np.arange(filters)
        parts.append(GatherPart(0, np.array([group]), rows, np.arange(columns)))
    return Gather(tuple(parts))
