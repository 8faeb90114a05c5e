"""Rows of ONNX operators that move windows over images: convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow
from systolic.workload.importers.onnx.model import OnnxNode
from systolic.workload.importers.windows import ModelWindow, convolved, pooled


def windows(node: OnnxNode, pixels: Sequence[int], size: Sequence[int]) -> ModelWindow:
    """Return where a node's windows lie over images of `pixels`; ceil_mode is padding behind."""
    rank = len(pixels)
    ones = (1,) * rank
    stride, dilation = node.numbers("strides", ones), node.numbers("dilations", ones)
    pads = node.numbers("pads", (0,) * (2 * rank))
    if not len(size) == len(stride) == len(dilation) == len(pads) // 2 == rank:
        raise WorkloadError(f"windows of {list(size)} over images of {list(pixels)}")
    if min((*size, *stride, *dilation)) < 1 or min(pads) < 0:
        raise WorkloadError(f"windows of {list(size)}, strides {list(stride)}, pads {list(pads)}")
    reach = [(n - 1) * apart + 1 for n, apart in zip(size, dilation, strict=True)]
    low, high = list(pads[:rank]), list(pads[rank:])
    auto = node.text("auto_pad", "NOTSET")
    for axis in range(rank):
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            made = -(-pixels[axis] // stride[axis])
            needed = max((made - 1) * stride[axis] + reach[axis] - pixels[axis], 0)
            smaller, larger = needed // 2, needed - needed // 2
            first = smaller if auto == "SAME_UPPER" else larger
            low[axis], high[axis] = first, needed - first
        elif auto == "VALID":
            low[axis] = high[axis] = 0
        if pixels[axis] + low[axis] + high[axis] < reach[axis]:
            raise WorkloadError(f"a window of {list(size)} over {list(pixels)} pixels")
    return ModelWindow(
        tuple(size), stride, tuple(low), tuple(high), ones, dilation, (False,) * rank
    )


def _with_ceiling(seen: ModelWindow, pixels: Sequence[int]) -> ModelWindow:
    """Return windows with padding behind for one that is not whole, if it begins in the image."""
    high = []
    for axis, size in enumerate(pixels):
        reach = (seen.size[axis] - 1) * seen.dilation[axis] + 1
        padded = size + seen.low[axis] + seen.high[axis]
        made = -(-(padded - reach) // seen.stride[axis]) + 1
        if (made - 1) * seen.stride[axis] >= size + seen.low[axis]:
            made -= 1
        end = (made - 1) * seen.stride[axis] + reach
        high.append(max(end - size - seen.low[axis], seen.high[axis]))
    return ModelWindow(
        seen.size, seen.stride, seen.low, tuple(high), seen.base_dilation, seen.dilation,
        seen.reversed,
    )  # fmt: skip


def images_first(rank: int) -> tuple[int, ...]:
    """Return the order that puts channels last: [images, pixels..., channels]."""
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> tuple[int, ...]:
    """Return the order that puts channels behind the images again."""
    return (0, rank - 1, *range(1, rank - 1))


def convolution(
    at: OnnxContext, source: ModelValue, weights: ModelValue, seen: ModelWindow, groups: int,
    *,
    kind: str | None = None,
) -> ModelValue:  # fmt: skip
    """Convolve [images, channels, pixels...] with weights [pixels..., channels, filters]."""
    one, other = at.shape(source), at.shape(weights)
    made = seen.made(one.dims[2:])
    out = Shape(kind or one.element_type, at.sized((one.dims[0], *made, other.dims[-1])))
    turned = at.form.view(at.transpose(source, images_first(one.rank)))
    found = convolved(at.form, (turned, at.form.view(at.plain(weights))), seen, groups, out)
    return at.transpose(found, channels_first(one.rank))


def weights_last(at: OnnxContext, value: ModelValue) -> ModelValue:
    """Return weights [filters, channels, pixels...] as [pixels..., channels, filters]."""
    return at.transpose(value, (*range(2, len(at.dims(value))), 1, 0))


def check_images(at: OnnxContext, source: ModelValue, weights: ModelValue, groups: int) -> None:
    """Raise WorkloadError unless weights [filters, channels of a group, ...] fit the images."""
    one, other = at.dims(source), at.dims(weights)
    if len(one) < 3 or len(one) != len(other) or groups < 1 or other[0] % groups:
        raise WorkloadError(f"images {list(one)}, weights {list(other)}, {groups} groups")
    if one[1] != other[1] * groups:
        raise WorkloadError(
            f"images {list(one)} have {one[1]} channels, weights {list(other)} of {groups} groups "
            f"take {other[1] * groups}"
        )


def with_bias(at: OnnxContext, value: ModelValue, bias: ModelValue) -> ModelValue:
    """Add a term to each channel."""
    if bias is None:
        return value
    dims = at.dims(value)
    return at.binary("add", value, at.reshape(bias, (dims[1], *(1,) * (len(dims) - 2))))


def _conv(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    groups = node.number("group", 1)
    check_images(at, given[0], given[1], groups)
    size = at.dims(given[1])[2:]
    _check_kernel(node, size)
    seen = windows(node, at.dims(given[0])[2:], size)
    found = convolution(at, given[0], weights_last(at, given[1]), seen, groups)
    return with_bias(at, found, given[2])


def _check_kernel(node: OnnxNode, size: Sequence[int]) -> None:
    given = node.numbers("kernel_shape", tuple(size))
    if given != tuple(size):
        raise WorkloadError(f"kernel_shape {list(given)}, weights have {list(size)}")


def _conv_transpose(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Put gaps between the pixels, and convolve with the weights from behind."""
    one, other, groups = at.dims(given[0]), at.dims(given[1]), node.number("group", 1)
    if len(one) < 3 or len(one) != len(other) or one[1] != other[0] or one[1] % max(groups, 1):
        raise WorkloadError(f"images {list(one)}, weights {list(other)}, {groups} groups")
    size, rank = other[2:], len(one) - 2
    _check_kernel(node, size)
    seen = _transposed(node, one[2:], size)
    inner, each = one[1] // groups, other[1]
    split = at.reshape(given[1], (groups, inner, each, *size))
    turned = at.transpose(split, (*range(3, 3 + rank), 1, 0, 2))
    weights = at.reshape(turned, (*size, inner, groups * each))
    return with_bias(at, convolution(at, given[0], weights, seen, groups), given[2])


def _transposed(node: OnnxNode, pixels: Sequence[int], size: Sequence[int]) -> ModelWindow:
    rank = len(pixels)
    ones = (1,) * rank
    stride, dilation = node.numbers("strides", ones), node.numbers("dilations", ones)
    behind = node.numbers("output_padding", (0,) * rank)
    pads = node.numbers("pads", (0,) * (2 * rank))
    wanted = node.numbers("output_shape")
    auto = node.text("auto_pad", "NOTSET")
    low, high = [], []
    for axis in range(rank):
        reach = (size[axis] - 1) * dilation[axis] + 1
        whole = (pixels[axis] - 1) * stride[axis] + reach + behind[axis]
        first, last = pads[axis], pads[axis + rank]
        if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
            made = wanted[len(wanted) - rank + axis] if wanted else pixels[axis] * stride[axis]
            gone = max(whole - made, 0)
            behind_more = max(made - whole, 0)
            first = gone // 2 if auto != "SAME_LOWER" else gone - gone // 2
            if wanted and auto != "SAME_UPPER":
                first = gone - gone // 2
            last = gone - first - behind_more
        elif auto == "VALID":
            first = last = 0
        low.append(reach - 1 - first)
        high.append(reach - 1 - last + behind[axis])
    return ModelWindow(tuple(size), ones, tuple(low), tuple(high), stride, dilation, (True,) * rank)


# pools


def _pool_windows(at: OnnxContext, node: OnnxNode, value: ModelValue) -> ModelWindow:
    """Return the windows over all dimensions of [images, channels, pixels...]."""
    pixels = at.dims(value)[2:]
    seen = windows(node, pixels, node.numbers("kernel_shape"))
    if node.number("ceil_mode"):
        seen = _with_ceiling(seen, pixels)
    front, none = (1, 1), (0, 0)
    return ModelWindow(
        front + seen.size, front + seen.stride, none + seen.low, none + seen.high,
        front + seen.base_dilation, front + seen.dilation, (False, False, *seen.reversed),
    )  # fmt: skip


def _pooled(at: OnnxContext, value: ModelValue, seen: ModelWindow, reduction: str) -> ModelValue:
    shape = at.shape(value)
    out = Shape(shape.element_type, seen.made(shape.dims))
    return pooled(at.form, at.plain(value), seen, reduction, out)


def _max_pool(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    if len(node.outputs) > 1 and node.outputs[1]:
        raise CannotLowerError("with the places of the largest")
    return _pooled(at, given[0], _pool_windows(at, node, given[0]), "max")


def _average_pool(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Divide the sum by the pixels that count: a known number for each window."""
    dims, seen = at.dims(given[0]), _pool_windows(at, node, given[0])
    counts = _counts(node, dims, seen)
    if (counts == math.prod(seen.size)).all():
        return _pooled(at, given[0], seen, "mean")
    found = _pooled(at, given[0], seen, "sum")
    return at.binary("divide", found, counts.astype(at.shape(found).dtype))


def _counts(node: OnnxNode, dims: Sequence[int], seen: ModelWindow) -> Array:
    """Return how many pixels of each window count, [1, 1, windows...]."""
    rank = len(dims)
    pads = node.numbers("pads", (0,) * (2 * (rank - 2)))
    found = np.ones((1,) * rank)
    for axis in range(2, rank):
        starts = np.arange(seen.made(tuple(dims))[axis]) * seen.stride[axis] - seen.low[axis]
        places = starts[:, None] + np.arange(seen.size[axis]) * seen.dilation[axis]
        first, stop = 0, dims[axis]
        if node.number("count_include_pad"):
            first = -seen.low[axis]
            named = node.text("auto_pad", "NOTSET") == "NOTSET"
            stop += pads[axis - 2 + rank - 2] if named else seen.high[axis]
        inside = ((places >= first) & (places < stop)).sum(axis=1)
        found = found * inside.reshape([-1 if d == axis else 1 for d in range(rank)])
    return found


def _global(reduction: str) -> OnnxRow:
    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        return at.reduce(reduction, given[0], range(2, len(at.dims(given[0]))), keep=True)

    return row


IMAGES: dict[str, OnnxRow] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": _global("max"),
    "GlobalAveragePool": _global("mean"),
}
