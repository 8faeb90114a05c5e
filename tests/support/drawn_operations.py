"""Random operations with what they mean by a second writer: plain numpy in float64, or jax.

Nothing here is the code under test. An operation is drawn with its operands and attributes; the
meaning takes the same arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import jax
import numpy as np
from jax import lax

from support.lane_graphs import HOMES, Grown, text
from systolic.workload import GraphBuilder

FLOATS = ("f32", "f32", "bf16", "f16")
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0])


@dataclass
class Meaning:
    """An operation to be tried. shapes: (type, dimensions) of each operand.

    means: the result in float64 or integers. near: the tolerance, relative to the largest result
    (0: integers and choices, exactly as the result's type has them). special: NaN and infinities
    may be among the operands, for each of whose elements the result has one.
    """

    kind: str
    shapes: list[tuple[str, tuple[int, ...]]]
    means: Callable[..., np.ndarray]
    attributes: dict[str, Any] = field(default_factory=dict)
    out: str = "f32"
    dims: tuple[int, ...] | None = None
    near: float = 1e-4
    special: bool = False
    positive: tuple[int, ...] = ()


def drawn_dims(rng: Random, low: int, high: int, most: int = 7) -> tuple[int, ...]:
    return tuple(rng.randint(1, most) for _ in range(rng.randint(low, high)))


def spread(numbers: np.ndarray, rank: int, axis: int) -> np.ndarray:
    return numbers.reshape([-1 if n == axis else 1 for n in range(rank)])


def _channel_norm(rng: Random) -> tuple[str, tuple[int, ...], int, dict[str, Any]]:
    kind, dims = rng.choice(FLOATS), drawn_dims(rng, 2, 4)
    axis = rng.randrange(1, len(dims))
    given = {"epsilon": rng.choice([1e-5, 1e-3, 0.1])}
    if axis < len(dims) - 1 or rng.random() < 0.5:
        given["axis"] = axis
    return kind, dims, axis, given


def batch_norm(rng: Random) -> Meaning:
    kind, dims, axis, given = _channel_norm(rng)
    numbers = [("f32", (dims[axis],))] * 4

    def means(x, factors, terms, mean, variance):
        f, t, m, v = (spread(each, x.ndim, axis) for each in (factors, terms, mean, variance))
        return f * (x - m) / np.sqrt(v + given["epsilon"]) + t

    return Meaning("batch_norm", [(kind, dims), *numbers], means, given, positive=(4,))


def instance_norm(rng: Random) -> Meaning:
    kind, dims, axis, given = _channel_norm(rng)

    def means(x, factors, terms):
        found = np.empty_like(x)
        for image in range(x.shape[0]):
            for channel in range(x.shape[axis]):
                at = [slice(None)] * x.ndim
                at[0], at[axis] = image, channel
                own = x[tuple(at)]
                evened = (own - np.mean(own)) / np.sqrt(np.var(own) + given["epsilon"])
                found[tuple(at)] = evened * factors[channel] + terms[channel]
        return found

    return Meaning("instance_norm", [(kind, dims), *[("f32", (dims[axis],))] * 2], means, given)


def group_norm(rng: Random) -> Meaning:
    kind, dims, axis, given = _channel_norm(rng)
    groups, each = rng.randint(1, 3), rng.randint(1, 3)
    dims = (*dims[:axis], groups * each, *dims[axis + 1 :])
    given["groups"] = groups

    def means(x, factors, terms):
        found = np.empty_like(x)
        for image in range(x.shape[0]):
            for group in range(groups):
                at = [slice(None)] * x.ndim
                at[0] = slice(image, image + 1)
                at[axis] = slice(group * each, (group + 1) * each)
                own = x[tuple(at)]
                found[tuple(at)] = (own - np.mean(own)) / np.sqrt(np.var(own) + given["epsilon"])
        return found * spread(factors, x.ndim, axis) + spread(terms, x.ndim, axis)

    return Meaning("group_norm", [(kind, dims), *[("f32", (dims[axis],))] * 2], means, given)


def clip(rng: Random) -> Meaning:
    kind, dims = rng.choice([*FLOATS, "s8", "s32"]), drawn_dims(rng, 0, 4)
    ends = sorted(rng.choice([-1e9, -3, -1, 0, 0.5, 2, 9]) for _ in range(2))
    if kind[0] == "s":
        ends = [int(end) for end in ends]
    given = dict(zip(("least", "most"), ends, strict=True))
    if rng.random() < 0.3:
        del given[rng.choice([*given])]

    def means(x):
        least, most = given.get("least", -np.inf), given.get("most", np.inf)
        return np.where(np.isnan(x), x, np.minimum(np.maximum(x, least), most))

    return Meaning("clip", [(kind, dims)], means, given, out=kind, near=0, special=True)


NUMBERS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "max": lambda a, b: np.where(np.isnan(a) | (a > b), a, b),
    "less": lambda a, b: (a < b) * 1.0,
    "not_equal": lambda a, b: (a != b) * 1.0,
}
"""Operators of a tensor and a number, as functions of float64."""
WORDS = {
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "min": np.minimum,
    "equal": lambda a, b: (a == b) * 1,
}


def tensor_scalar(rng: Random) -> Meaning:
    kind, dims = rng.choice([*FLOATS, "s8", "s32"]), drawn_dims(rng, 0, 4)
    whole = kind[0] == "s"
    operator = rng.choice([*(WORDS if whole else NUMBERS)])
    number = rng.choice([-3, 0, 5, 0x55555555] if whole else [-0.5, 0.1, 3.0])
    given = {"operator": operator, "number": number}
    if rng.random() < 0.3:
        given["reverse"] = True

    def means(x):
        one = np.int64(number) if whole else np.float64(np.float32(number))  # as engines have it
        pair = (one, x) if given.get("reverse") else (x, one)
        found = (WORDS if whole else NUMBERS)[operator](*pair)
        return found if not whole else found.astype(np.int64).astype(np.int32).astype(np.int64)

    return Meaning(
        "tensor_scalar", [(kind, dims)], means, given, "s32" if whole else "f32",
        near=0 if whole else 1e-6, special=True,
    )  # fmt: skip


def _function(kind: str, means: Callable[..., np.ndarray], *keys: str) -> Callable[..., Meaning]:
    def draw(rng: Random) -> Meaning:
        given = {key: rng.choice([0.2, 0.75, 1.5, 3.0]) for key in keys if rng.random() < 0.8}
        if kind == "leaky_relu" and rng.random() < 0.3:
            given["slope"] = rng.choice([-0.5, 0.0])
        operand = rng.choice(FLOATS), drawn_dims(rng, 0, 4)
        return Meaning(kind, [operand], lambda x: means(x, **given), given, near=1e-5, special=True)

    return draw


def _leaky(x: np.ndarray, slope: float = 0.01) -> np.ndarray:
    return np.where(x > 0, x, np.where(np.isnan(x), x, slope * x if slope else 0.0))


def _elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


def _celu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.maximum(0, x) + np.minimum(0, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _hard_sigmoid(x: np.ndarray, alpha: float = 1 / 6, beta: float = 0.5) -> np.ndarray:
    return np.minimum(1, np.maximum(0, alpha * x + beta))


def prelu(rng: Random) -> Meaning:
    dims = drawn_dims(rng, 1, 4)
    axis = rng.randrange(len(dims))
    given = {"broadcast_dimensions": [axis]} if len(dims) > 1 else {}
    shapes = [(rng.choice(FLOATS), dims), (rng.choice(FLOATS), (dims[axis],))]

    def means(x, slopes):
        return np.where(x >= 0, x, x * spread(slopes, x.ndim, axis))

    return Meaning("prelu", shapes, means, given, near=1e-5)


def popcount(rng: Random) -> Meaning:
    kind = rng.choice(["s32", "s32", "s8", "u8"])
    bits = 32 if kind == "s32" else 8

    def means(x):
        return np.vectorize(lambda n: bin(int(n) % (1 << bits)).count("1"), otypes=[int])(x)

    return Meaning("popcount", [(kind, drawn_dims(rng, 0, 4))], means, out=kind, near=0)


# windows along any axes


def _convolved(rng: Random, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return sizes of a convolution along some axes that fit, and its keys."""
    kernel = [rng.randint(1, 3) for _ in range(count)]
    given = {
        "stride": [rng.randint(1, 3) for _ in kernel],
        "dilation": [rng.randint(1, 2) for _ in kernel],
        "padding": [rng.choice([0, 0, 1, 2]) for _ in range(2 * count)],
        "groups": rng.choice([1, 1, 2, 3]),
    }
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, given["dilation"], strict=True)]
    sizes = [rng.randint(n, n + (4 if count < 3 else 2)) for n in reach]
    inside, filters = rng.randint(1, 3), given["groups"] * rng.randint(1, 3)
    shapes = {
        "images": rng.randint(1, 2),
        "sizes": sizes,
        "kernel": kernel,
        "inside": inside,
        "channels": inside * given["groups"],
        "filters": filters,
    }
    return shapes, given


def _by_jax(x: Any, w: Any, given: dict[str, Any], **more: Any) -> Any:
    """Return a convolution by jax.lax: channels are last, weights [pixels..., inside, filters]."""
    count = x.ndim - 2
    pixels = "DHW"[3 - count :]
    sides = [tuple(given["padding"][2 * n : 2 * n + 2]) for n in range(count)]
    return lax.conv_general_dilated(
        x, w, more.get("stride", given["stride"]), more.get("padding", sides),
        lhs_dilation=more.get("between"), rhs_dilation=given["dilation"],
        dimension_numbers=(f"N{pixels}C", f"{pixels}IO", f"N{pixels}C"),
        feature_group_count=given["groups"], precision="highest",
    )  # fmt: skip


def _made(shapes: dict[str, Any], given: dict[str, Any]) -> tuple[int, ...]:
    return tuple(
        (n + low + high - (k - 1) * d - 1) // s + 1
        for n, k, s, d, low, high in zip(
            shapes["sizes"], shapes["kernel"], given["stride"], given["dilation"],
            given["padding"][::2], given["padding"][1::2], strict=True,
        )
    )  # fmt: skip


def _operands(shapes: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    source = (shapes["images"], *shapes["sizes"], shapes["channels"])
    return source, (*shapes["kernel"], shapes["inside"], shapes["filters"])


def _conv(kind: str, count: int) -> Callable[[Random], Meaning]:
    def draw(rng: Random) -> Meaning:
        shapes, given = _convolved(rng, count)
        source, weights = _operands(shapes)
        dtype = rng.choice(["f32", "f32", "bf16", "s8"])
        dims = (shapes["images"], *_made(shapes, given), shapes["filters"])

        def means(x, w):
            return np.asarray(_by_jax(_as_jax(x), _as_jax(w), given))

        out = "s32" if dtype == "s8" else "f32"
        near = 0 if dtype == "s8" else 1e-4
        return Meaning(kind, [(dtype, source), (dtype, weights)], means, given, out, dims, near)

    return draw


def _as_jax(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int32 if x.dtype.kind in "iu" else np.float32)


def dot(rng: Random) -> Meaning:
    kind, (m, k, n) = rng.choice(["f32", "bf16", "s8"]), (rng.randint(1, 9) for _ in range(3))
    pairs = [
        ((k,), (k,)),
        ((m, k), (k,)),
        ((k,), (k, n)),
        ((m, k), (k, n)),
        ((), (m, n)),
        ((m,), ()),
    ]
    lhs, rhs = rng.choice(pairs)
    out = "s32" if kind == "s8" else "f32"
    dims = np.dot(np.zeros(lhs), np.zeros(rhs)).shape
    return Meaning(
        "dot", [(kind, lhs), (kind, rhs)], np.dot, {}, out, dims, 0 if kind == "s8" else 1e-4
    )


def _zeros(rng: Random, kinds: list[str]) -> dict[str, int]:
    found = {}
    for key, kind in zip(("left_zero", "right_zero"), kinds, strict=True):
        if rng.random() < 0.7:
            found[key] = rng.choice([3, 128, 255] if kind == "u8" else [-128, -3, 5, 127])
    return found


def matmul_integer(rng: Random) -> Meaning:
    kinds = [rng.choice(["s8", "u8"])] * 2
    m, k, n = (rng.randint(1, 9) for _ in range(3))
    batch = rng.choice([(), (), (2,)])
    given = _zeros(rng, kinds)

    def means(x, w):
        return (x - given.get("left_zero", 0)) @ (w - given.get("right_zero", 0))

    shapes = [(kinds[0], (*batch, m, k)), (kinds[1], (*rng.choice([(), batch]), k, n))]
    return Meaning("matmul_integer", shapes, means, given, "s32", (*batch, m, n), 0)


def conv_integer(rng: Random) -> Meaning:
    shapes, given = _convolved(rng, 2)
    kinds = [rng.choice(["s8", "u8"])] * 2
    zeros = _zeros(rng, kinds)

    def means(x, w):
        pair = (_as_jax(x - zeros.get("left_zero", 0)), _as_jax(w - zeros.get("right_zero", 0)))
        return np.asarray(_by_jax(*pair, given))

    dims = (shapes["images"], *_made(shapes, given), shapes["filters"])
    pair = list(zip(kinds, _operands(shapes), strict=True))
    return Meaning("conv_integer", pair, means, given | zeros, "s32", dims, 0)


def conv_transpose(rng: Random) -> Meaning:
    """By jax.lax: the pixels with zeros between them, and the weights backwards."""
    count = rng.choice([1, 2, 2, 3])
    shapes, given = _convolved(rng, count)
    shapes["sizes"] = [rng.randint(1, 3) for _ in range(count)]
    source, weights = _operands(shapes)
    more = [rng.randrange(s) for s in given["stride"]]
    reach = [(k - 1) * d + 1 for k, d in zip(shapes["kernel"], given["dilation"], strict=True)]
    whole = [
        (n - 1) * s + each
        for n, s, each in zip(shapes["sizes"], given["stride"], reach, strict=True)
    ]
    for axis, size in enumerate(whole):  # what is cut away leaves something
        low = min(given["padding"][2 * axis], size - 1)
        given["padding"][2 * axis : 2 * axis + 2] = (
            low,
            min(given["padding"][2 * axis + 1], size - 1 - low),
        )
    pads = list(zip(given["padding"][::2], given["padding"][1::2], strict=True))
    sizes = [n - low - high + m for n, (low, high), m in zip(whole, pads, more, strict=True)]
    if any(more):
        given["output_padding"] = more

    def means(x, w):
        sides = [
            (each - 1 - low, each - 1 - high + m)
            for each, (low, high), m in zip(reach, pads, more, strict=True)
        ]
        backwards = np.flip(_as_jax(w), tuple(range(count)))
        ones = [1] * count
        return np.asarray(
            _by_jax(_as_jax(x), backwards, given, stride=ones, padding=sides,
                    between=given["stride"])
        )  # fmt: skip

    dims = (shapes["images"], *sizes, shapes["filters"])
    kind = rng.choice(["f32", "bf16"])
    return Meaning("conv_transpose", [(kind, source), (kind, weights)], means, given, dims=dims)


def _gradient(kind: str, place: int) -> Callable[[Random], Meaning]:
    """Return the gradient of jax's convolution by its operand number `place`."""

    def draw(rng: Random) -> Meaning:
        shapes, given = _convolved(rng, rng.choice([1, 2, 2, 3]))
        operands = _operands(shapes)
        result = (shapes["images"], *_made(shapes, given), shapes["filters"])

        def means(one, other):
            pair = [None, None]
            pair[1 - place] = _as_jax(one if place else other)
            pair[place] = np.zeros(operands[place], np.float32)
            gradient = _as_jax(other if place else one)
            _, back = jax.vjp(lambda x, w: _by_jax(x, w, given), *pair)
            return np.asarray(back(gradient)[place])

        taken = [("f32", operands[1 - place]), ("f32", result)]
        return Meaning(kind, taken if place else taken[::-1], means, given, dims=operands[place])

    return draw


def reduce_window(rng: Random) -> Meaning:
    """By plain loops over the windows, as torch and ONNX say where there is a last one."""
    rank = rng.randint(2, 4)
    count = min(rng.choice([1, 2, 2, 3]), rank)
    axes = sorted(rng.sample(range(rank), count))
    window = [rng.randint(1, 3) for _ in axes]
    dilation = [rng.choice([1, 1, 2]) for _ in axes]
    stride = [rng.randint(1, 3) for _ in axes]
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    padding = [rng.randint(0, (n - 1) // 2) for n in reach for _ in range(2)]
    dims = [rng.randint(1, 5) for _ in range(rank)]
    for axis, n in zip(axes, reach, strict=True):
        dims[axis] = rng.randint(n, n + 4)
    reduction = rng.choice(["max", "min", "sum", "mean", "mean"])
    dtype = rng.choice(FLOATS) if reduction == "mean" else rng.choice([*FLOATS, "s32", "s8"])
    ceil, counts = rng.random() < 0.5, rng.random() < 0.5
    given = {
        "reduction": reduction, "window": window, "stride": stride, "padding": padding,
        "dilation": dilation, "axes": axes, "ceil_mode": ceil,
    }  # fmt: skip
    if reduction == "mean":
        given["count_padding"] = counts
    made = list(dims)
    places: dict[int, list[list[int]]] = {}
    for n, axis in enumerate(axes):
        low, high = padding[2 * n : 2 * n + 2]
        places[axis], at = [], -low
        while at + reach[n] <= dims[axis] + high or (
            ceil and at < dims[axis] and at - stride[n] + reach[n] < dims[axis] + high
        ):
            places[axis].append([at + tap * dilation[n] for tap in range(window[n])])
            at += stride[n]
        made[axis] = len(places[axis])

    def means(x):
        found = np.empty(made, np.float64 if reduction == "mean" else x.dtype)
        for index in np.ndindex(*made):
            taken, counted = [], 0
            for tap in np.ndindex(*window):
                where, inside, counting = list(index), True, True
                for n, axis in enumerate(axes):
                    place = where[axis] = places[axis][index[axis]][tap[n]]
                    inside &= 0 <= place < dims[axis]
                    low, high = padding[2 * n : 2 * n + 2]
                    counting &= -low <= place < dims[axis] + high
                counted += counting if counts else inside
                if inside:
                    taken.append(x[tuple(where)])
            of = {"max": max, "min": min, "sum": sum, "mean": sum}[reduction]
            found[index] = of(taken) / (counted if reduction == "mean" else 1)
        return found

    near = 1e-5 if dtype in FLOATS else 0
    out = dtype if dtype in FLOATS else "s32"
    if out == "bf16" or out == "f16":
        out = "f32"
    return Meaning("reduce_window", [(dtype, tuple(dims))], means, given, out, tuple(made), near)


def resize(rng: Random) -> Meaning:
    """By numpy's interpolation, and by rounding coordinates one by one."""
    rank = rng.randint(1, 4)
    axes = sorted(rng.sample(range(rank), rng.randint(1, min(2, rank))))
    dims = [rng.randint(1, 6) for _ in range(rank)]
    sizes = [rng.choice([dims[axis] * 2, rng.randint(1, 9)]) for axis in axes]
    made = list(dims)
    for axis, size in zip(axes, sizes, strict=True):
        made[axis] = size
    given: dict[str, Any] = {
        "axes": axes, "sizes": sizes,
        "coordinates": rng.choice(["half_pixel", "asymmetric", "align_corners"]),
        "interpolation": rng.choice(["nearest", "linear"]),
    }  # fmt: skip
    rounding = rng.choice(["round_half_down", "round_half_up", "floor", "ceil"])
    linear = given["interpolation"] == "linear"
    if not linear:
        given["nearest"] = rounding

    def at(place: int, old: int, new: int) -> float:
        if given["coordinates"] == "align_corners":
            return place * (old - 1) / (new - 1) if new > 1 else 0.0
        if given["coordinates"] == "asymmetric":
            return place * old / new
        return (place + 0.5) * old / new - 0.5

    def nearest(x: float, old: int) -> int:
        near = round(x * 2**20) / 2**20  # halves are halves
        down, up = math.floor(near), math.ceil(near)
        half = up if rounding in ("ceil", "round_half_up") else down
        if rounding not in ("floor", "ceil") and near - down != 0.5:
            half = down if near - down < 0.5 else up
        return min(max(half, 0), old - 1)

    def means(x):
        for axis, new in zip(axes, sizes, strict=True):
            old = x.shape[axis]
            points = [at(n, old, new) for n in range(new)]
            if linear:
                x = np.apply_along_axis(
                    lambda v, p: np.interp(p, range(len(v)), v), axis, x, points
                )
            else:
                x = np.take(x, [nearest(p, old) for p in points], axis)
        return x

    dtype = rng.choice(FLOATS) if linear else rng.choice([*FLOATS, "s8", "s32"])
    out = "f32" if linear else dtype
    near = 1e-5 if linear else 0
    return Meaning("resize", [(dtype, tuple(dims))], means, given, out, tuple(made), near)


MEANINGS: dict[str, Callable[[Random], Meaning]] = {
    "batch_norm": batch_norm,
    "instance_norm": instance_norm,
    "group_norm": group_norm,
    "clip": clip,
    "tensor_scalar": tensor_scalar,
    "leaky_relu": _function("leaky_relu", _leaky, "slope"),
    "elu": _function("elu", _elu, "alpha"),
    "celu": _function("celu", _celu, "alpha"),
    "hard_sigmoid": _function("hard_sigmoid", _hard_sigmoid, "alpha", "beta"),
    "prelu": prelu,
    "popcount": popcount,
    "dot": dot,
    "matmul_integer": matmul_integer,
    "conv_integer": conv_integer,
    "conv1d": _conv("conv1d", 1),
    "conv3d": _conv("conv3d", 3),
    "conv_transpose": conv_transpose,
    "conv_input_gradient": _gradient("conv_input_gradient", 0),
    "conv_weight_gradient": _gradient("conv_weight_gradient", 1),
    "reduce_window": reduce_window,
    "resize": resize,
}


def grown(rng: Random, builder: GraphBuilder, meaning: Meaning, *, made: bool = False) -> Grown:
    """Add an operation `y` to a graph, of operands x0, x1, ... made: they are made by others."""
    # an infinity on the chip may be turned by products, which other tests tell apart
    homes = HOMES[1:] if meaning.special else HOMES
    names = []
    for place, (kind, dims) in enumerate(meaning.shapes):
        name = builder.tensor(f"x{place}", text(rng, kind, dims), rng.choice(homes))
        if made and (place in meaning.positive or (place == 0 and kind[0] in "bfs")):
            function = "abs" if place in meaning.positive else "identity"
            out = text(rng, kind, dims)
            name = builder.activation(name, out=out, function=function, name=f"z{place}")
        names.append(name)
    dims = meaning.shapes[0][1] if meaning.dims is None else meaning.dims
    builder.add(meaning.kind, names, text(rng, meaning.out, dims), name="y", **meaning.attributes)
    return Grown("y", meaning.out, dims)
