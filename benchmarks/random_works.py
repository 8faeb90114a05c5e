"""Works as users have them, drawn by seed: graphs of one operation, or of a short chain.

A family is a few functions that draw a graph; `FAMILIES` has them by name. `drawn` takes a chip
too, and draws until the chip has the instructions for the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from systolic.hw.spec import Chip
from systolic.workload import Graph, GraphBuilder, Operation

FLOATS, INTEGERS = ("f32", "bf16", "f16", "f8e4m3fn", "f8e5m2"), ("s8", "u8", "s32")
MOST_ELEMENTS, SMALL_ELEMENTS = 1 << 18, 1 << 12
SMALL = ("fetch_16x16", "ideal_4x4")


def _dims(rng: Random, most: int, least: int = 1) -> list[int]:
    """Return dimensions of rank 1 to 5, as often round as odd, of about `most` elements at most."""
    rank = rng.randint(least, 5)
    wanted = math.exp(rng.uniform(math.log(most / 512), math.log(most)))
    dims = []
    for left in range(rank, 0, -1):
        size = max(1, wanted ** (1 / left) * math.exp(rng.uniform(-1, 1)))
        size = 2 ** round(math.log2(size)) if rng.random() < 0.5 else round(size)
        dims.append(max(1, size))
        wanted /= dims[-1]
    return dims


def _layout(rng: Random, rank: int) -> str:
    """Return a layout: mostly row by row, at times another order or tiles."""
    order = list(range(rank - 1, -1, -1))
    kind = rng.random()
    if kind < 0.15:
        rng.shuffle(order)
    tiles = ":T(8,128)" if 0.15 <= kind < 0.3 and rank >= 2 else ""
    return "{" + ",".join(map(str, order)) + tiles + "}"


def _shape(rng: Random, dtype: str, dims: Sequence[int], like: str = "") -> str:
    return f"{dtype}[{','.join(map(str, dims))}]{like or (_layout(rng, len(dims)) if dims else '')}"


def _binary(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype = rng.choice([*FLOATS, "s32", "s8"])
    like = _layout(rng, len(dims))
    operators = ["add", "subtract", "multiply", "max"]
    x = builder.tensor("x", _shape(rng, dtype, dims, like))
    kind = rng.random()
    given: dict[str, Any] = {}
    if kind < 0.5:
        y = builder.tensor("y", _shape(rng, dtype, dims, like if rng.random() < 0.8 else ""))
    else:
        axes = sorted(rng.sample(range(len(dims)), rng.randint(0, len(dims) - 1)))
        y = builder.tensor("y", _shape(rng, dtype, [dims[a] for a in axes]))
        given = {"broadcast_dimensions": tuple(axes)} if axes else {}
    out = _shape(rng, dtype, dims, like)
    builder.add("binary", (x, y), out, name="out", operator=rng.choice(operators), **given)
    return builder.graph()


def _unary(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like = _layout(rng, len(dims))
    dtype = rng.choice(FLOATS)
    x = builder.tensor("x", _shape(rng, dtype, dims, like))
    if rng.random() < 0.6:
        function = rng.choice(["gelu", "ramp", "sigmoid", "tanh", "square"])
        out = _shape(rng, rng.choice([dtype, *FLOATS]), dims, like)
        builder.add("activation", (x,), out, name="out", function=function)
    else:
        out = _shape(rng, rng.choice([*FLOATS, *INTEGERS]), dims, like)
        builder.add("cast", (x,), out, name="out")
    return builder.graph()


def _slice(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype = rng.choice([*FLOATS, *INTEGERS])
    x = builder.tensor("x", _shape(rng, dtype, dims))
    start, stop, step = [], [], []
    for size in dims:
        step.append(rng.choice([1, 1, 1, 2, 3]) if size > 3 else 1)
        start.append(rng.randint(0, size // 3) if rng.random() < 0.4 else 0)
        stop.append(rng.randint(max(start[-1] + 1, 2 * size // 3), size))
    out = [-(-(b - a) // s) for a, b, s in zip(start, stop, step, strict=True)]
    given = {"start": tuple(start), "stop": tuple(stop), "step": tuple(step)}
    builder.add("slice", (x,), _shape(rng, dtype, out), name="out", **given)
    return builder.graph()


def _concat(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype, axis = rng.choice([*FLOATS, *INTEGERS]), rng.randrange(len(dims))
    names, total = [], 0
    for number in range(rng.randint(2, 3)):
        own = list(dims)
        own[axis] = max(1, round(dims[axis] * rng.uniform(0.2, 1.0)))
        total += own[axis]
        names.append(builder.tensor(f"x{number}", _shape(rng, dtype, own)))
    dims[axis] = total
    builder.add("concat", names, _shape(rng, dtype, dims), name="out", axis=axis)
    return builder.graph()


def _pad(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype = rng.choice([*FLOATS, *INTEGERS])
    x = builder.tensor("x", _shape(rng, dtype, dims))
    low = [rng.randint(0, 2) if rng.random() < 0.5 else 0 for _ in dims]
    high = [rng.randint(0, 2) if rng.random() < 0.5 else 0 for _ in dims]
    out = [a + n + b for a, n, b in zip(low, dims, high, strict=True)]
    given = {"low": tuple(low), "high": tuple(high), "value": rng.choice([0.0, 1.0])}
    builder.add("pad", (x,), _shape(rng, dtype, out), name="out", **given)
    return builder.graph()


def _chain(rng: Random, most: int) -> Graph:
    """Draw two to four operations element by element, a select or a requantisation among them."""
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like = _layout(rng, len(dims))
    dtype = rng.choice(["f32", "bf16"])
    now = builder.tensor("x", _shape(rng, dtype, dims, like))
    for number in range(rng.randint(2, 4)):
        out = _shape(rng, dtype, dims, like)
        kind = rng.choice(["binary", "activation", "bias", "scalar"])
        name = f"y{number}"
        if kind == "activation":
            now = builder.add("activation", (now,), out, name=name, function="gelu")
            continue
        given: dict[str, Any] = {"operator": rng.choice(["add", "multiply"])}
        axes = {"binary": range(len(dims)), "bias": [len(dims) - 1], "scalar": []}[kind]
        if 0 < len(axes) < len(dims):
            given["broadcast_dimensions"] = tuple(axes)
        other = builder.tensor(f"w{number}", _shape(rng, dtype, [dims[a] for a in axes]))
        now = builder.add("binary", (now, other), out, name=name, **given)
    return builder.graph()


def _select(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like, dtype = _layout(rng, len(dims)), rng.choice([*FLOATS, *INTEGERS])
    p = builder.tensor("p", _shape(rng, "pred", dims, like))
    x, y = (builder.tensor(name, _shape(rng, dtype, dims, like)) for name in "xy")
    builder.add("select", (p, x, y), _shape(rng, dtype, dims, like), name="out")
    return builder.graph()


def _requantise(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like = _layout(rng, len(dims))
    x = builder.tensor("x", _shape(rng, rng.choice(["s32", "f32"]), dims, like))
    scales = builder.tensor("scales", f"f32[{dims[-1]}]" if rng.random() < 0.7 else "f32[]")
    out = _shape(rng, rng.choice(["s8", "u8"]), dims, like)
    builder.add("requantise", (x, scales), out, name="out")
    return builder.graph()


def _embedding(rng: Random, most: int) -> Graph:
    builder = GraphBuilder("dram")
    rows, columns = rng.randint(16, 500), rng.choice([16, 33, 64, 128])
    dtype = rng.choice([*FLOATS, "s8"])
    x = builder.tensor("x", _shape(rng, dtype, [rows, columns], "{1,0}"))
    picked = tuple(rng.randrange(rows) for _ in range(rng.randint(4, 64)))
    out = f"{dtype}[{len(picked)},{columns}]"
    builder.add("embedding", (x,), out, name="out", indices=picked)
    return builder.graph()


def _reduce(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most, 2)
    dtype = rng.choice(["f32", "bf16", "s8"])
    x = builder.tensor("x", _shape(rng, dtype, dims))
    axes = sorted(rng.sample(range(len(dims)), rng.randint(1, len(dims) - 1)))
    kept = [size for axis, size in enumerate(dims) if axis not in axes]
    out = _shape(rng, "s32" if dtype == "s8" else dtype, kept)
    name = rng.choice(["max", "sum"] if dtype == "s8" else ["max", "sum", "mean"])
    builder.add("reduce", (x,), out, name="out", reduction=name, axes=tuple(axes))
    return builder.graph()


def _pool(rng: Random, most: int) -> Graph:
    builder = GraphBuilder("dram")
    small = most <= SMALL_ELEMENTS
    side = rng.choice([7, 14, 28]) if small else rng.choice([14, 28, 56, 112])
    maps = rng.choice([2, 4]) if small else rng.choice([3, 16, 32, 64])
    dtype = rng.choice(["f32", "bf16", "s8"])
    like = rng.choice(["{3,2,1,0}", "{2,1,3,0}"])
    window, stride = rng.choice([(2, 2), (3, 2), (3, 1)])
    x = builder.tensor("x", f"{dtype}[1,{side},{side},{maps}]{like}")
    made = (side - window) // stride + 1
    given: dict[str, Any] = {"window": (window, window), "stride": (stride, stride)}
    out = f"{dtype}[1,{made},{made},{maps}]{like}"
    builder.add("pool", (x,), out, name="out", reduction=rng.choice(["max", "max", "sum"]), **given)
    return builder.graph()


def _move(rng: Random, most: int) -> Graph:
    """Draw a permutation, a reshape or a relayout, at home in DRAM or in the state buffer."""
    builder, dims = GraphBuilder(rng.choice(["dram", "state_buffer"])), _dims(rng, most, 2)
    dtype = rng.choice([*FLOATS, *INTEGERS])
    x = builder.tensor("x", _shape(rng, dtype, dims))
    kind = rng.choice(["transpose", "reshape", "relayout"])
    if kind == "transpose":
        axes = list(range(len(dims)))
        rng.shuffle(axes)
        out = _shape(rng, dtype, [dims[axis] for axis in axes])
        builder.transpose(x, out, tuple(axes), name="out")
    elif kind == "reshape":
        at = rng.randrange(len(dims) - 1)
        joined = [*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]]
        builder.add("reshape", (x,), _shape(rng, dtype, joined), name="out")
    else:
        order = list(range(len(dims)))
        rng.shuffle(order)
        like = "{" + ",".join(map(str, order)) + "}"
        builder.add("relayout", (x,), _shape(rng, dtype, dims, like), name="out")
    return builder.graph()


def _product(rng: Random, most: int) -> Graph:
    """Draw a product, as often of a batch as not."""
    builder = GraphBuilder(rng.choice(["dram", "state_buffer"]))
    dtype = rng.choice(["f32", "bf16", "bf16", "s8"])
    side = math.isqrt(most)
    M, K, N = (round(math.exp(rng.uniform(math.log(4), math.log(side)))) for _ in range(3))
    batch = [rng.choice([2, 3, 8, 12])] if rng.random() < 0.5 else []
    x = builder.tensor("x", _shape(rng, dtype, [*batch, M, K]))
    y = builder.tensor("y", _shape(rng, dtype, [*batch, K, N]))
    out = _shape(rng, "s32" if dtype == "s8" else rng.choice(["f32", dtype]), [*batch, M, N])
    builder.add("matmul", (x, y), out, name="out")
    return builder.graph()


def _convolution(rng: Random, most: int) -> Graph:
    """Draw a convolution, channels last or first, some of them depthwise."""
    builder, small = GraphBuilder("dram"), most <= SMALL_ELEMENTS
    side = rng.choice([6, 8, 11]) if small else rng.choice([7, 14, 28, 40, 56, 112, 160])
    maps = [n for n in (1, 3, 8, 16, 24, 32, 64, 96, 128) if side * side * n <= most]
    channels, filters = rng.choice(maps), rng.choice(maps)
    window, stride = rng.choice([(1, 1), (3, 1), (3, 1), (3, 2), (5, 1), (7, 2)])
    window = min(window, side)
    padding = rng.choice([0, window // 2])
    dtype = rng.choice(["f32", "bf16", "bf16", "s8"])
    like = rng.choice(["{3,2,1,0}", "{3,2,1,0}", "{2,1,3,0}"])
    groups = channels if rng.random() < 0.25 else 1
    if groups > 1:
        filters = channels
    x = builder.tensor("x", f"{dtype}[1,{side},{side},{channels}]{like}")
    w = builder.tensor("w", f"{dtype}[{window},{window},{channels // groups},{filters}]")
    made = (side + 2 * padding - window) // stride + 1
    given: dict[str, Any] = {"stride": (stride, stride), "padding": (padding,) * 4}
    out = f"{'s32' if dtype == 's8' else dtype}[1,{made},{made},{filters}]{like}"
    builder.add("conv2d", (x, w), out, name="out", groups=groups, **given)
    return builder.graph()


def _norm(rng: Random, most: int) -> Graph:
    """Draw a softmax or a norm over the last axis."""
    builder, dims = GraphBuilder("dram"), _dims(rng, most, 2)
    shape = _shape(rng, rng.choice(["f32", "bf16"]), dims)
    x = builder.tensor("x", shape)
    kind = rng.choice(["softmax", "layer_norm", "rms_norm"])
    inputs = (x,)
    if kind != "softmax":
        names = ("scale", "bias") if kind == "layer_norm" else ("scale",)
        inputs += tuple(builder.tensor(name, f"f32[{dims[-1]}]") for name in names)
    builder.add(kind, inputs, shape, name="out")
    return builder.graph()


FAMILIES: dict[str, Sequence[Callable[[Random, int], Graph]]] = {
    "elementwise": (_binary, _binary, _unary, _chain, _select, _requantise),
    "structural": (_slice, _slice, _concat, _pad, _embedding),
    "reduced": (_reduce, _pool, _norm),
    "convolutions": (_convolution,),
    "moves": (_move, _move, _product),
}
THIRDS = (("moves",), ("elementwise", "structural"), ("convolutions", "reduced"))
"""Families that have a third of all works each."""

NEEDED = {"select": "copy_predicated", "requantise": "requantise"}
"""Operations that need an instruction that not every chip has."""


def drawn(rng: Random, chip: Chip, families: Sequence[str], most: int) -> Graph:
    """Return a graph of some families that the chip has the instructions for."""
    while True:
        graph = rng.choice(FAMILIES[rng.choice(families)])(rng, most)
        if all(_is_able(chip, graph, op) for op in graph.operations):
            return graph


def _is_able(chip: Chip, graph: Graph, op: Operation) -> bool:
    """Return whether a chip has the instruction of an operation, or the type of a product."""
    if op.kind in ("matmul", "conv2d"):
        return graph.shape(op.inputs[0]).element_type in chip.pe_array.cycles_per_vector
    able = {word for engine in chip.lane_engines.values() for word in engine.does}
    return op.kind not in NEEDED or NEEDED[op.kind] in able
