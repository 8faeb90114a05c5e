"""Rows of ONNX operators on integers that stand for reals: value = scale * (integer - zero point).

Products and convolutions are made of the integers themselves, exact in s32. What zero points add is
taken off: (x - a)(w - b) summed over K is the sum of x w, less b times the sum of x, less a times
the sum of w, plus K a b. Sums of known weights are known, and a zero point of 0 takes nothing.
"""

from __future__ import annotations

import math

import numpy as np

from systolic.errors import WorkloadError
from systolic.workload.importers.arithmetic import one_number
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow, axis_of
from systolic.workload.importers.onnx.images import (
    check_images,
    convolution,
    weights_last,
    windows,
)
from systolic.workload.importers.onnx.kinds import element_type
from systolic.workload.importers.onnx.model import OnnxNode
from systolic.workload.importers.onnx.products import multiplied
from systolic.workload.importers.windows import ModelWindow

EIGHT_BITS = ("s8", "u8")


def _along_axis(
    at: OnnxContext, node: OnnxNode, value: ModelValue, dims: tuple[int, ...]
) -> ModelValue:
    """Return scales or zero points in the dimensions of what they stand for: one, or of an axis."""
    own = at.dims(value)
    if math.prod(own) == 1:
        return at.reshape(value, (1,) * len(dims))
    axis = axis_of(node.number("axis", 1), len(dims))
    if node.number("block_size"):
        raise CannotLowerError("in blocks")
    if own != (dims[axis],):
        raise WorkloadError(f"scales of {list(own)} along axis {axis} of {list(dims)}")
    return at.reshape(value, [n if d == axis else 1 for d, n in enumerate(dims)])


def _zero(at: OnnxContext, value: ModelValue) -> bool:
    """Return whether a zero point is left out, or known to be 0."""
    return value is None or one_number(value) == 0


def _quantised(
    at: OnnxContext, value: ModelValue, scale: ModelValue, zero: ModelValue, kind: str
) -> ModelValue:
    """Return the nearest integers to value / scale + zero, within their type."""
    if kind not in EIGHT_BITS:
        raise CannotLowerError(f"to {kind}")
    found = at.unary(at.binary("divide", value, scale), "round")
    if not _zero(at, zero):
        found = at.form.view(at.binary("add", found, at.cast(zero, "f32")))
    return at.cast(found, kind)


def _quantize(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    kind = "u8" if given[2] is None else at.kind(given[2])
    if given[2] is None and node.number("output_dtype"):
        kind = element_type(node.number("output_dtype"))
    scale = at.cast(_along_axis(at, node, given[1], dims), "f32")
    zero = None if given[2] is None else _along_axis(at, node, given[2], dims)
    return _quantised(at, at.cast(given[0], "f32"), scale, zero, kind)


def _dequantize(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims, kind = at.dims(given[0]), at.kind(given[1])
    found = at.cast(given[0], "f32")
    if not _zero(at, given[2]):
        zero = at.cast(_along_axis(at, node, given[2], dims), "f32")
        found = at.binary("subtract", found, zero)
    scale = at.cast(_along_axis(at, node, given[1], dims), "f32")
    return at.cast(at.binary("multiply", found, scale), kind)


def _dynamic(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Quantise by the extremes of the tensor itself, 0 among them."""
    axes = range(len(at.dims(given[0])))
    zero = np.zeros((), np.float32)
    most = at.binary("max", at.reduce("max", given[0], axes), zero)
    least = at.binary("min", at.reduce("min", given[0], axes), zero)
    scale = at.binary("divide", at.binary("subtract", most, least), np.array(255, np.float32))
    point = at.binary("subtract", zero, at.binary("divide", least, scale))
    kept = at.binary("min", at.binary("max", point, zero), np.full((), 255, np.float32))
    rounded = at.cast(at.unary(kept, "round"), "u8")
    return _quantised(at, given[0], scale, rounded, "u8"), scale, rounded


# products


def _integers(
    at: OnnxContext, lhs: ModelValue, rhs: ModelValue, zeros: tuple[ModelValue, ModelValue]
) -> ModelValue:
    """Return the product of integers less their zero points, in s32."""
    found = multiplied(at, *_same_kind(at, lhs, rhs), "s32")
    left, right = zeros
    one, other = at.dims(lhs), at.dims(rhs)
    if not _zero(at, right):
        sums = at.reduce("sum", at.cast(lhs, "s32"), [len(one) - 1], keep=True)
        taken = at.binary("multiply", sums, at.cast(right, "s32"))
        found = at.binary("subtract", found, taken)
    if not _zero(at, left):
        rows = at.cast(left, "s32")
        if len(at.dims(rows)) == 1 and at.dims(rows) != (1,):
            rows = at.reshape(rows, (*at.dims(rows), 1))
        sums = at.reduce("sum", at.cast(rhs, "s32"), [len(other) - 2], keep=True)
        if not _zero(at, right):
            count = np.array(one[-1], np.int32)
            sums = at.binary("subtract", sums, at.binary("multiply", at.cast(right, "s32"), count))
        found = at.binary("subtract", found, at.binary("multiply", rows, sums))
    return found


def _same_kind(at: OnnxContext, lhs: ModelValue, rhs: ModelValue) -> tuple[ModelValue, ModelValue]:
    """Return operands of a product; each kind of integers of 8 bits may meet the other."""
    for value in (lhs, rhs):
        if at.kind(value) not in EIGHT_BITS:
            raise CannotLowerError(f"of {at.kind(value)}")
    return lhs, rhs


def _matmul_integer(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return _integers(at, given[0], given[1], (given[2], given[3]))


def _qlinear_matmul(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    lhs, lhs_scale, lhs_zero, rhs, rhs_scale, rhs_zero, scale, zero = given[:8]
    found = _integers(at, lhs, rhs, (lhs_zero, rhs_zero))
    return _rescaled(at, found, (lhs_scale, rhs_scale, scale), zero)


def _rescaled(
    at: OnnxContext, value: ModelValue, scales: tuple[ModelValue, ...], zero: ModelValue
) -> ModelValue:
    """Return s32 times both operands' scales, by the result's, as integers of the result."""
    one, other, made = (at.cast(each, "f32") for each in scales)
    factor = at.binary("divide", at.binary("multiply", one, other), made)
    found = at.binary("multiply", at.cast(value, "f32"), factor)
    rounded: ModelValue = at.unary(found, "round")
    if not _zero(at, zero):
        rounded = at.binary("add", rounded, at.cast(zero, "f32"))
    return at.cast(rounded, at.kind(zero))


# convolutions


def _convolved(
    at: OnnxContext, node: OnnxNode, operands: tuple[ModelValue, ModelValue],
    zeros: tuple[ModelValue, ModelValue],
) -> ModelValue:  # fmt: skip
    """Return a convolution of integers less their zero points, in s32.

    What lies around an image is its zero point, so that it counts as 0.
    """
    source, weights = operands
    groups = node.number("group", 1)
    check_images(at, source, weights, groups)
    _same_kind(at, source, weights)
    dims, size = at.dims(source), at.dims(weights)[2:]
    seen = windows(node, dims[2:], size)
    left, right = zeros
    if not _zero(at, left):
        source, seen = _padded(at, source, seen, left)
    found = convolution(at, source, weights_last(at, weights), seen, groups, kind="s32")
    channels = (-1, *(1,) * len(size))
    if not _zero(at, left):
        sums = at.reduce("sum", at.cast(weights, "s32"), range(1, len(dims)))
        each = at.reshape(sums, (at.dims(weights)[0], *channels[1:]))
        found = at.binary("subtract", found, at.binary("multiply", each, _single(at, left)))
    if _zero(at, right):
        return found
    ones = np.ones(at.dims(weights), np.int8 if at.kind(source) == "s8" else np.uint8)
    sums = convolution(at, source, weights_last(at, ones), seen, groups, kind="s32")
    if not _zero(at, left):
        count = math.prod(at.dims(weights)[1:])
        taken = at.binary("multiply", _single(at, left), np.array(count, np.int32))
        sums = at.binary("subtract", sums, taken)
    many = math.prod(at.dims(right))
    point = at.reshape(at.cast(right, "s32"), (many, *channels[1:]) if many > 1 else ())
    return at.binary("subtract", found, at.binary("multiply", sums, point))


def _single(at: OnnxContext, value: ModelValue) -> ModelValue:
    return at.reshape(at.cast(value, "s32"), ())


def _padded(
    at: OnnxContext, source: ModelValue, seen: ModelWindow, zero: ModelValue
) -> tuple[ModelValue, ModelWindow]:
    """Return images with their zero point around them, and windows without padding."""
    if not any((*seen.low, *seen.high)):
        return source, seen
    single = one_number(zero)
    if single is None:
        raise CannotLowerError("padded with a zero point known only when running")
    sides = [(0, 0, 0), (0, 0, 0), *((a, b, 0) for a, b in zip(seen.low, seen.high, strict=True))]
    view = at.form.padded(at.form.view(at.plain(source)), sides, single)
    none = (0,) * len(seen.low)
    return view, ModelWindow(
        seen.size, seen.stride, none, none, seen.base_dilation, seen.dilation, seen.reversed
    )


def _conv_integer(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return _convolved(at, node, (given[0], given[1]), (given[2], given[3]))


def _qlinear_conv(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    source, source_scale, source_zero, weights, weights_scale, weights_zero, scale, zero = given[:8]
    found = _convolved(at, node, (source, weights), (source_zero, weights_zero))
    channels = (at.dims(weights)[0], *(1,) * (len(at.dims(weights)) - 2))
    if given[8] is not None:
        found = at.binary("add", found, at.reshape(given[8], channels))
    if math.prod(at.dims(weights_scale)) > 1:
        weights_scale = at.reshape(weights_scale, channels)
    return _rescaled(at, found, (source_scale, weights_scale, scale), zero)


QUANTISED: dict[str, OnnxRow] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
}
