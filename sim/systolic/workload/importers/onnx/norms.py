"""Rows of ONNX operators that make lines even: softmax and norms."""

from __future__ import annotations

import math

import numpy as np

from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow, axis_of
from systolic.workload.importers.onnx.model import OnnxNode
from systolic.workload.importers.windows import ModelWindow, pooled


def _lines(at: OnnxContext, node: OnnxNode, value: ModelValue) -> tuple[ModelValue, int]:
    """Return a value and the axis of a softmax; before opset 13 all behind the axis is a line."""
    dims = at.dims(value)
    if node.version >= 13:
        return at.plain(value), axis_of(node.number("axis", -1), len(dims))
    axis = axis_of(node.number("axis", 1), len(dims))
    return at.reshape(value, (math.prod(dims[:axis]), math.prod(dims[axis:]))), 1


def _softmax(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    value, axis = _lines(at, node, given[0])
    found = at.made("softmax", [at.whole(value)], at.shape(value), axis=axis)
    return at.reshape(found, at.dims(given[0]))


def _log_softmax(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    value, axis = _lines(at, node, given[0])
    most = at.reduce("max", value, [axis], keep=True)
    below = at.binary("subtract", value, most)
    total = at.reduce("sum", at.unary(below, "exponential"), [axis], keep=True)
    found = at.binary("subtract", below, at.unary(total, "log"))
    return at.reshape(found, at.dims(given[0]))


def _batch_norm(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Multiply and add a number for each channel: for inference these are known."""
    if node.number("training_mode") or any(node.outputs[1:]):
        raise CannotLowerError("for training")
    if not node.number("spatial", 1):
        raise CannotLowerError("with a mean for each pixel")
    dims, epsilon = at.dims(given[0]), node.real("epsilon", 1e-5)
    scale, bias, mean, variance = given[1:5]
    if all(isinstance(each, np.ndarray) for each in given[1:5]):
        wide = [np.asarray(each, np.float64) for each in given[1:5]]
        factor = wide[0] / np.sqrt(wide[3] + epsilon)
        dtype = at.shape(given[0]).dtype
        factors: ModelValue = factor.astype(dtype)
        terms: ModelValue = (wide[1] - wide[2] * factor).astype(dtype)
    else:
        factors = at.binary("multiply", scale, at.unary(variance, "rsqrt", bias=epsilon))
        terms = at.binary("subtract", bias, at.binary("multiply", mean, factors))
    if at.dims(factors) != dims[1:2]:
        raise WorkloadError(f"factors of {list(at.dims(factors))} for {list(dims)}")
    channels = (dims[1], *(1,) * (len(dims) - 2))
    kind = at.kind(given[0])
    scaled = at.binary("multiply", given[0], at.cast(at.reshape(factors, channels), kind))
    return at.binary("add", scaled, at.cast(at.reshape(terms, channels), kind))


def _layer_norm(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """See all behind the axis as one line; mean and deviation are results of their own."""
    shape = at.shape(given[0])
    axis = axis_of(node.number("axis", -1), shape.rank)
    epsilon = node.real("epsilon", 1e-5)
    front, line = shape.dims[:axis], math.prod(shape.dims[axis:])
    flat = at.reshape(given[0], (*front, line))
    factors = _along(at, given[1], shape, axis)
    terms = at.like(0, factors) if given[2] is None else _along(at, given[2], shape, axis)
    inputs = [at.whole(each) for each in (flat, factors, terms)]
    found = at.made("layer_norm", inputs, at.shape(flat), epsilon=epsilon)
    wide = at.cast(flat, "f32")
    mean = at.reduce("mean", wide, [axis], keep=True)
    squares = at.unary(at.binary("subtract", wide, mean), "square")
    deviation = at.unary(at.reduce("mean", squares, [axis], keep=True), "rsqrt", bias=epsilon)
    kept = (*front, *(1,) * (shape.rank - axis))
    return at.reshape(found, shape.dims), at.reshape(mean, kept), at.reshape(deviation, kept)


def _along(at: OnnxContext, value: ModelValue, shape: Shape, axis: int) -> ModelValue:
    """Return factors or terms as one line, in the dimensions behind an axis."""
    dims = shape.dims[axis:]
    if at.common(value, np.broadcast_to(0, dims)) != dims:
        raise WorkloadError(f"factors of {list(at.dims(value))} for {list(dims)}")
    return at.reshape(at.form.view(at.spread(value, dims)), (math.prod(dims),))


def _rms_norm(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    shape = at.shape(given[0])
    axis = axis_of(node.number("axis", -1), shape.rank)
    flat = at.reshape(given[0], (*shape.dims[:axis], math.prod(shape.dims[axis:])))
    inputs = [at.whole(flat), at.whole(_along(at, given[1], shape, axis))]
    found = at.made("rms_norm", inputs, at.shape(flat), epsilon=node.real("epsilon", 1e-5))
    return at.reshape(found, shape.dims)


def _evened(
    at: OnnxContext, value: ModelValue, axes: tuple[int, ...], epsilon: float
) -> ModelValue:
    """Return (x - mean) / sqrt(variance + epsilon) over axes."""
    centred = at.binary("subtract", value, at.reduce("mean", value, axes, keep=True))
    mean = at.reduce("mean", at.unary(centred, "square"), axes, keep=True)
    return at.binary("multiply", centred, at.unary(mean, "rsqrt", bias=epsilon))


def _instance_norm(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    even = _evened(at, given[0], tuple(range(2, len(dims))), node.real("epsilon", 1e-5))
    channels = (dims[1], *(1,) * (len(dims) - 2))
    scaled = at.binary("multiply", even, at.reshape(given[1], channels))
    return at.binary("add", scaled, at.reshape(given[2], channels))


def _group_norm(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Before opset 21 each group has a factor and a term, from then on each channel."""
    dims, groups = at.dims(given[0]), node.number("num_groups")
    if groups < 1 or dims[1] % groups:
        raise WorkloadError(f"{groups} groups of {dims[1]} channels")
    lines = (dims[0], groups, math.prod(dims[1:]) // groups)
    even = _evened(at, at.reshape(given[0], lines), (2,), node.real("epsilon", 1e-5))
    sizes: tuple[int, ...]
    if node.version < 21:
        sizes, seen = (groups, 1), even
    else:
        sizes, seen = (dims[1], *(1,) * (len(dims) - 2)), at.reshape(even, dims)
    scaled = at.binary("multiply", seen, at.reshape(given[1], sizes))
    return at.reshape(at.binary("add", scaled, at.reshape(given[2], sizes)), dims)


def _local_norm(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Divide by a power of the squares of neighbouring channels (LRN)."""
    shape, size = at.shape(given[0]), node.number("size")
    none, ones = (0,) * shape.rank, (1,) * shape.rank
    low, high = (size - 1) // 2, size // 2

    def along(value: int, other: tuple[int, ...]) -> tuple[int, ...]:
        return (other[0], value, *other[2:])

    seen = ModelWindow(
        along(size, ones), ones, along(low, none), along(high, none), ones, ones,
        (False,) * shape.rank,
    )  # fmt: skip
    sums = pooled(at.form, at.unary(given[0], "square"), seen, "sum", Shape("f32", shape.dims))
    alpha, beta = node.real("alpha", 1e-4), node.real("beta", 0.75)
    base = at.scaled(sums, alpha / size, node.real("bias", 1.0))
    power = at.binary("power", base, at.like(-beta, base))
    return at.binary("multiply", given[0], power)


NORMS: dict[str, OnnxRow] = {
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LRN": _local_norm,
}
