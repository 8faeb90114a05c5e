"""Lowering of pooling: an engine reduces the windows of a tile of images where they lie."""

from __future__ import annotations

from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.ir.nodes import PoolNode
from systolic.compiler.ir.pixels import PooledPixels
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.products.images import CHANNELS_ON_ROWS, images_of, padded_images
from systolic.isa.instruction import Pool
from systolic.workload import Operation
from systolic.workload.operations.pool import PoolAttributes


def lower_pool(builder: LayerBuilder, op: Operation) -> None:
    """Pad the images if need be, and reduce their windows."""
    given, (source,) = op.attributes_as(PoolAttributes), op.inputs
    builder.settle(source)
    images = images_of(builder, source, given.windows())
    value = given.value(images.source.dtype)
    padded = padded_images(builder, source, images, value)
    block = images.made_block(builder.chip)
    result = builder.result_in(op.output, CHANNELS_ON_ROWS, block)
    down, across = given.window
    step = LaneStep(Pool, {"function": given.reduction, "window": down * across})
    pooled = PooledPixels(images.pixels, images.windows.size, images.dilation)
    builder.node(PoolNode, (padded,), result, step=step, pooled=pooled)
