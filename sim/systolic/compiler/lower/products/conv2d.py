"""Lowering of a convolution: a product whose moving operand lies within the images.

The weights [height, width, channels, filters] are the stationary operand [K, filters]. The moving
one has a row for each element of a window. If the channels fill blocks of rows, or a window is one
pixel, its rows are the images themselves, read at the distance of each tap. Otherwise images are
copied on the chip once for each tap, so that taps share the partitions. Nothing goes to DRAM.

Groups are a batch of such products, with matrices of their own. If each channel is a group with one
filter (depthwise), an engine writes the weights of each tap along the diagonals of stationary
tiles, and the images are read as of any other convolution.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from systolic.compiler.cost.engines import some_engine_does
from systolic.compiler.ir.diagonal import DiagonalTiles
from systolic.compiler.ir.gathers import GatherPart
from systolic.compiler.ir.lane_step import ALONG_DIAGONAL
from systolic.compiler.ir.nodes import Axes, DiagonalNode, GatherNode, Matrix, MultiplyNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.products.images import (
    CHANNELS_ON_ROWS,
    Images,
    images_of,
    only,
    padded_images,
)
from systolic.compiler.lower.products.matmul import followed, lower_matmul, refuse_types
from systolic.compiler.lower.products.taps import rows_of_all_taps, steps_in_phases
from systolic.compiler.lower.views import lies_as
from systolic.hw.datatypes import data_type
from systolic.isa import Buffer
from systolic.workload import Operation
from systolic.workload.operations.conv2d import Conv2dAttributes
from systolic.workload.operations.image_windows import ImageWindows

FILTERS_ON_COLUMNS: Axes = ((0, 1, 2), (3,))
"""The view of weights [height, width, channels, filters]."""
CHANNELS_AND_TAPS: Axes = ((2, 3), (0, 1))
"""The view of the weights of a depthwise convolution: a column for each tap."""


def lower_conv2d(builder: LayerBuilder, op: Operation) -> None:
    """Multiply the weights with the windows of the images."""
    refuse_types(builder, op)
    given, graph = op.attributes_as(Conv2dAttributes), builder.graph
    if _is_product(builder, op):
        lower_matmul(builder, op)
        return
    if _takes_diagonal(builder, op):
        _lower_depthwise(builder, op)
        return
    windows = given.windows(graph.shape(op.inputs[1]))
    taps, channels = windows.taps(), graph.shape(op.inputs[0]).dims[3]
    shared = given.groups > 1 or (len(taps) > 1 and channels % block_rows(builder.chip) != 0)
    builder.settle(op.inputs[0])
    images = images_of(builder, op.inputs[0], windows, as_it_lies=not shared)
    moving = _moving(builder, op, images, given.groups if shared else 0)
    weights = _weights(builder, op.inputs[1])
    block = images.made_block(builder.chip)
    if given.groups == 1:
        result = builder.result_in(op.output, CHANNELS_ON_ROWS, block)
        builder.node(MultiplyNode, (weights, moving), result)
        return
    groups, filters = given.groups, weights.cols // given.groups
    weights = _by_group(builder, op.inputs[1], weights, groups)
    shape = graph.shape(op.output)
    sums = builder.scratch(op.output, shape.element_type, (groups, filters, images.results), block)
    builder.node(MultiplyNode, (weights, moving), sums)
    result = builder.result_in(op.output, CHANNELS_ON_ROWS, block)
    builder.node(GatherNode, (sums,), result, _together(groups, filters, images.results))


def _is_product(builder: LayerBuilder, op: Operation) -> bool:
    """Return whether pixels of images from DRAM are rows of a product, whose results go there.

    Images that stay on the chip have channels on rows, as windows of several pixels take them.
    """
    graph, (source, weights) = builder.graph, op.inputs
    given = op.attributes_as(Conv2dAttributes)
    windows = given.windows(graph.shape(weights))
    lone = windows == ImageWindows((1, 1)) and given.groups == 1
    _, end = followed(builder, op)
    goes = end in graph.outputs and graph.tensor(end).home == "dram"
    return lone and goes and builder.dram.holds(source) and not builder.is_shown(source)


def _moving(builder: LayerBuilder, op: Operation, images: Images, groups: int) -> Matrix:
    """Return a row for each element of a window, and a column for each result.

    groups: of channels, each with rows for all taps; 0: the images themselves are the rows.
    """
    (source, _), channels = op.inputs, images.source.dims[3]
    if not groups:
        padded = padded_images(builder, source, images)
        window = PixelWindow(padded.name, images.pixels, images.taps, channels)
        return builder.within_pixels(padded, window, len(images.taps) * channels, images.results)
    if groups == 1 and steps_in_phases(builder, source, images):
        images = replace(images, phases=images.windows.stride[0])
    padded = padded_images(builder, source, images)
    packed, window = rows_of_all_taps(builder, source, padded, images, groups)
    rows = len(images.taps) * (channels // groups)
    return builder.within_pixels(packed, window, rows, images.results)


# Depthwise: one filter for each channel


def _takes_diagonal(builder: LayerBuilder, op: Operation) -> bool:
    """Return whether each channel is a group with one filter, and diagonal tiles can do it.

    They are then never the slower way. A tap streams the results once for each block of channels; a
    product for each channel streams them once for each channel, and before that an engine copies
    the images once for each tap and block, which alone takes as long.

    A chip with fused multiply-adds rounds a float32 product and its sum once. A diagonal tile adds
    the product of each tap to zero and then to the sum, which are two roundings. More taps than the
    array has rows would be added up in other parts than by a product.
    """
    (source, weights), graph = (builder.graph.shape(name) for name in op.inputs), builder.graph
    groups = op.attributes_as(Conv2dAttributes).groups
    single = 1 < groups == source.dims[3] == weights.dims[3]
    rounds_once = source.element_type == "f32" and builder.chip.pe_array.fused_multiply_add
    taps, floats = prod(weights.dims[:2]), data_type(source.element_type).accumulator == "f32"
    sums_in_parts = floats and taps > builder.chip.pe_array.rows
    return (
        builder.options.structural_zeros
        and single
        and not rounds_once
        and not sums_in_parts
        and weights.element_type == source.element_type
        and graph.shape(op.inputs[1]).dims[2] == 1
        and some_engine_does(builder.chip, ALONG_DIAGONAL, Buffer.STATE)
    )


def _lower_depthwise(builder: LayerBuilder, op: Operation) -> None:
    """Multiply the images, tap by tap, with the weights of a tap along a diagonal."""
    source, weights = op.inputs
    given, shape = op.attributes_as(Conv2dAttributes), builder.graph.shape(weights)
    builder.settle(source)
    images = images_of(builder, source, given.windows(shape))
    padded = padded_images(builder, source, images)
    p = block_rows(builder.chip)
    diagonal = DiagonalTiles(len(images.taps), shape.dims[3], p)
    sizes = 1, diagonal.rows, diagonal.channels
    stationary = builder.scratch(weights, shape.element_type, sizes, (p, p))
    columns = builder.view(weights, CHANNELS_AND_TAPS)
    builder.node(DiagonalNode, (columns,), stationary, diagonal)
    window = PixelWindow(padded.name, images.pixels, images.taps, diagonal.blocks * p)
    moving = builder.within_pixels(padded, window, diagonal.rows, images.results)
    result = builder.result_in(op.output, CHANNELS_ON_ROWS, images.made_block(builder.chip))
    builder.node(MultiplyNode, (stationary, moving), result, diagonal=diagonal)


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
        GatherPart(
            0, only(groups, group), np.arange(weights.rows), group * filters + np.arange(filters)
        )
        for group in range(groups)
    )
    builder.node(GatherNode, (weights,), made, parts)
    return made


def _together(groups: int, filters: int, columns: int) -> tuple[GatherPart, ...]:
    """Return the results of all groups as one matrix, one group below the other."""
    parts = []
    for group in range(groups):
        rows = np.full(groups * filters, -1)
        rows[group * filters : (group + 1) * filters] = np.arange(filters)
        parts.append(GatherPart(0, np.array([group]), rows, np.arange(columns)))
    return tuple(parts)
