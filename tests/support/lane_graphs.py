"""Random graphs of products, reductions, and operations element by element that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from support.chips import ideal_chip
from systolic.layout import Shape
from systolic.workload import GraphBuilder

FLOATS = ("f32", "bf16", "f16")
OF_FLOATS = ("add", "subtract", "multiply", "max", "min", "greater", "less_equal", "equal")
OF_INTEGERS = (
    *OF_FLOATS,
    "divide",
    "remainder",
    "and",
    "or",
    "xor",
    "shift_left",
    "shift_right_arithmetic",
)
FUNCTIONS = (
    "identity",
    "ramp",
    "tanh",
    "sigmoid",
    "gelu",
    "softplus",
    "abs",
    "leaky_relu",
    "relu6",
    "floor",
    "round",
    "cos",
    "expm1",
    "elu",
    "hard_swish",
    "gelu_erf",
)
REDUCTIONS = ("max", "min", "sum", "product", "mean")
HOMES = ("state_buffer", "dram")
MOVES = ("slice", "pad", "take", "reverse", "tile", "expand")
"""Operations that move elements of one tensor."""


@dataclass(frozen=True)
class Grown:
    """The tensor that a graph has grown to."""

    name: str
    dtype: str
    dims: tuple[int, ...]


def random_chip(rng: Random, **tables: Any):
    """Return a small chip, for graphs of a few operations; `tables` are further ones."""
    rows, cols = rng.randint(1, 9), rng.randint(1, 9)
    return ideal_chip(
        rows, cols,
        state_buffer={"partitions": rng.randint(max(rows, cols), 12), "banks": rng.choice([1, 8]),
                      "bytes_per_partition": rng.choice([2048, 65536])},
        pe_array={"weight_path": rng.choice(["left", "top"])},
        result_buffer={"banks": rng.randint(1, 8), "bank_bytes": 4 * rng.randint(4, 40)},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.randint(0, 20)}, **tables,
    )  # fmt: skip


def text(rng: Random, dtype: str, dims: Sequence[int]) -> str:
    """Return a shape with a random layout."""
    order = list(range(len(dims)))
    rng.shuffle(order)
    tile = rng.choice(["", "", "", ":T(4,8)"]) if len(dims) >= 2 else ""
    layout = "{" + ",".join(map(str, order)) + tile + "}" if dims else ""
    return f"{dtype}[{','.join(map(str, dims))}]{layout}"


def values(rng: Random, shape: Shape) -> np.ndarray:
    """Return random elements: floats that are not -0, integers of all sizes."""
    numbers = np.random.default_rng(rng.randint(0, 1 << 30))
    if shape.dtype.kind in "iu":
        limits = np.iinfo(shape.dtype)
        return numbers.integers(limits.min, limits.max, shape.dims, endpoint=True).astype(
            shape.dtype
        )
    return numbers.standard_normal(shape.dims, dtype=np.float32).astype(shape.dtype)


def start(rng: Random, builder: GraphBuilder) -> Grown:
    """Begin with a tensor, or with a product of two."""
    dtype = rng.choice([*FLOATS, "s8", "s32"])
    if rng.random() < 0.6 and dtype != "s32":
        return product(rng, builder, dtype)
    dims = tuple(rng.randint(1, 13) for _ in range(rng.choice([1, 2, 2, 2, 3])))
    return Grown(builder.tensor("x", text(rng, dtype, dims), rng.choice(HOMES)), dtype, dims)


def product(rng: Random, builder: GraphBuilder, dtype: str) -> Grown:
    """Return a product of two inputs, most often in the accumulator's type."""
    m, k, n = (rng.randint(1, 13) for _ in range(3))
    batch = [rng.randint(1, 3)] if rng.random() < 0.3 else []
    x = builder.tensor("x", text(rng, dtype, [*batch, m, k]), rng.choice(HOMES))
    w = builder.tensor("w", text(rng, dtype, [k, n]), rng.choice(HOMES))
    out = rng.choice(["s32", "s32", "s8"] if dtype == "s8" else ["f32", "f32", *FLOATS])
    dims = (*batch, m, n)
    return Grown(builder.matmul(x, w, text(rng, out, dims), name="xw"), out, dims)


def grow(rng: Random, builder: GraphBuilder, now: Grown, number: int) -> Grown:
    """Add an activation, a cast, or a binary with an input that broadcasts."""
    integer, name = now.dtype.startswith("s"), f"y{number}"
    kinds = ["activation", "binary", "binary", "cast", "reduce", "box", "box", "box"]
    if not integer and now.dims:
        kinds += ["softmax", "norm"]
    if len(now.dims) == 2:
        kinds += ["rows"]
    kind = rng.choice([*kinds, "mask", "mask"] if not integer and len(now.dims) > 1 else kinds)
    if rng.random() < 0.25 and now.dims:
        return _of_others(rng, builder, now, name)
    if kind == "box" and now.dims:
        return _boxes(rng, builder, now, name)
    if kind == "rows":
        return _rows(rng, builder, now, name)
    if kind == "mask":
        return _masked(rng, builder, now, name)
    if kind in ("softmax", "norm"):
        return _composite(rng, builder, now, name)
    if kind == "reduce" and now.dims:
        return _reduced(rng, builder, now, name)
    if kind in ("binary", "reduce", "box"):
        return _binary(rng, builder, now, name)
    if kind == "cast" and rng.random() < 0.4:
        return _requantised(rng, builder, now, name)
    out = rng.choice(["s32", "s8"] if integer else FLOATS)
    shape, chosen = text(rng, out, now.dims), {}
    if kind == "activation":
        chosen = {"function": rng.choice(FUNCTIONS)}
        if rng.random() < 0.4:
            chosen |= {"scale": rng.choice([0.5, -1.25]), "bias": rng.choice([0.0, 0.75])}
    return Grown(builder.add(kind, (now.name,), shape, name=name, **chosen), out, now.dims)


def _requantised(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    """Add a requantisation: a scale for the tensor or for each index of its last axis."""
    many = [list(now.dims[-1:]), []][rng.random() < 0.3]
    scales = builder.tensor(f"q{name}", text(rng, "f32", many), rng.choice(HOMES))
    out = rng.choice(["s8", "s8", "s32"])
    given = {"lowest": rng.randint(-9, 0)} if rng.random() < 0.5 else {}
    shape = text(rng, out, now.dims)
    builder.add("requantise", (now.name, scales), shape, name=name, **given)
    return Grown(name, out, now.dims)


def _rows(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    """Take rows by number."""
    numbers = [rng.randrange(now.dims[0]) for _ in range(rng.randint(1, 9))]
    dims = (len(numbers), now.dims[1])
    shape = text(rng, now.dtype, dims)
    builder.add("take", (now.name,), shape, name=name, indices=numbers, axis=0)
    return Grown(name, now.dtype, dims)


def _masked(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    """Add a causal mask, its diagonal anywhere in the matrix or beyond it."""
    given = {"offset": rng.randint(-now.dims[-2], now.dims[-1]), "value": rng.choice([-7.0, 0.5])}
    out = rng.choice(FLOATS)
    builder.add("causal_mask", (now.name,), text(rng, out, now.dims), name=name, **given)
    return Grown(name, out, now.dims)


def _reduced(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    axes = [d for d in range(len(now.dims)) if rng.random() < 0.5] or [len(now.dims) - 1]
    dims = tuple(size for d, size in enumerate(now.dims) if d not in axes)
    reduction = rng.choice(REDUCTIONS)
    whole = now.dtype.startswith("s") and reduction != "mean"
    out = rng.choice(["s32", "s8"] if whole else FLOATS)
    shape = text(rng, out, dims)
    builder.add("reduce", (now.name,), shape, name=name, reduction=reduction, axes=axes)
    return Grown(name, out, dims)


def _boxes(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    """Add a slice, a concatenation, padding or another move, each in any dimensions."""
    kind, inputs, rank = rng.choice([*MOVES, "concat"]), [now.name], len(now.dims)
    if kind == "take":
        axis, dims = rng.randrange(rank), list(now.dims)
        places = [rng.randrange(dims[axis]) for _ in range(rng.randint(1, 9))]
        if rng.random() < 0.5:
            places = list(reversed(range(dims[axis])))
        given, dims[axis] = {"axis": axis, "indices": places}, len(places)
    elif kind == "slice":
        start = [rng.randrange(size) for size in now.dims]
        stop = [rng.randint(at + 1, size) for at, size in zip(start, now.dims, strict=True)]
        step = [rng.choice([1, 1, 2, 3]) for _ in now.dims]
        given = {"start": start, "stop": stop, "step": step}
        dims = [len(range(*each)) for each in zip(start, stop, step, strict=True)]
    elif kind == "pad":
        dims, given = _padding(rng, now.dims)
    elif kind == "reverse":
        given, dims = {"axes": rng.sample(range(rank), rng.randint(1, rank))}, list(now.dims)
    elif kind == "tile":
        given = {"repeats": [rng.choice([1, 1, 2, 3]) for _ in now.dims]}
        dims = [n * times for n, times in zip(now.dims, given["repeats"], strict=True)]
    elif kind == "expand":
        axis = rng.randint(0, rank)
        dims = [*now.dims[:axis], rng.randint(1, 4), *now.dims[axis:]]
        given = {"broadcast_dimensions": [d for d in range(rank + 1) if d != axis]}
    else:
        axis, dims = rng.randrange(rank), list(now.dims)
        given = {"axis": axis}
        for number in range(rng.randint(1, 2)):
            more = [rng.randint(1, 5) if d == axis else size for d, size in enumerate(now.dims)]
            shape = text(rng, now.dtype, more)
            inputs.append(builder.tensor(f"c{number}{name}", shape, rng.choice(HOMES)))
            dims[axis] += more[axis]
        rng.shuffle(inputs)
    builder.add(kind, inputs, text(rng, now.dtype, dims), name=name, **given)
    return Grown(name, now.dtype, tuple(dims))


def _of_others(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    """Add an operation that is made of others, or a binary with one that has no inputs."""
    rank, dims, floats = len(now.dims), list(now.dims), not now.dtype.startswith("s")
    kinds = ["cumulative", "argmax", "argmin", "top_k", "scatter", "gather", "dynamic_slice",
             "dynamic_update_slice", "iota", "constant"]  # fmt: skip
    if floats:
        kinds += ["reduce_measure"] * 2
    if rank == 4:
        kinds += ["depth_to_space", "space_to_depth"] * 3
    if rank == 3 and floats:
        kinds += ["lstm", "gru"] * 8
    kind, axis, out = rng.choice(kinds), rng.randrange(rank), now.dtype

    def more(which: str, dtype: str, sizes: Sequence[int]) -> str:
        return builder.tensor(f"{which}{name}", text(rng, dtype, sizes), rng.choice(HOMES))

    inputs, given = [now.name], dict[str, Any]()
    if kind in ("iota", "constant"):
        sizes = [dims[axis]] if kind == "iota" else []
        made = builder.add(kind, (), text(rng, now.dtype, sizes), name=f"{kind}{name}")
        given = {"broadcast_dimensions": [axis]} if sizes and rank > 1 else {}
        shape = text(rng, now.dtype, dims)
        builder.add("binary", (now.name, made), shape, name=name, operator="add", **given)
        return Grown(name, now.dtype, now.dims)
    if kind == "cumulative":
        given = {"axis": axis, "fold": rng.choice(["sum", "sum", "max", "min"])}
    elif kind in ("argmax", "argmin"):
        given, out = {"axis": axis}, "s32"
        dims.pop(axis)
    elif kind == "top_k":
        dims[axis] = rng.randint(1, min(4, dims[axis]))
        given = {"axis": axis, "k": dims[axis]}
    elif kind == "reduce_measure":
        given = {"measure": rng.choice(["sum_of_squares", "l1", "log_sum_exp"]), "axes": [axis]}
        dims.pop(axis)
    elif kind == "scatter":
        places = [rng.randrange(dims[axis]) for _ in range(rng.randint(1, 4))]
        sizes = [len(places) if n == axis else size for n, size in enumerate(dims)]
        inputs.append(more("u", now.dtype, sizes))
        given = {"axis": axis, "indices": places, "combiner": rng.choice(["add", "max"])}
        if rng.random() < 0.5:  # the places are data
            kind = f"dynamic_{kind}"
            del given["indices"]
            inputs.append(more("i", "s32", [len(places)]))
    elif kind == "gather":
        count = rng.randint(1, 4)
        inputs.append(more("i", "s32", [count]))
        given, dims[axis] = {"axis": axis}, count
    elif kind == "dynamic_slice":
        dims = [rng.randint(1, size) for size in dims]
        inputs.append(more("s", "s32", [rank]))
        given = {"sizes": dims}
    elif kind == "dynamic_update_slice":
        inputs.append(more("u", now.dtype, [rng.randint(1, size) for size in dims]))
        inputs.append(more("s", "s32", [rank]))
    elif kind in ("lstm", "gru"):
        states, gates = rng.randint(1, 3), 4 if kind == "lstm" else 3
        columns = gates * states
        layers = {"w": [dims[2], columns], "r": [states, columns], "b": [columns]}
        layers |= {"c": [dims[1], states]} if kind == "lstm" else {"t": [columns]}
        order = ["w", "r", "b", "h", "c"] if kind == "lstm" else ["w", "r", "b", "t", "h"]
        layers["h"], dims = [dims[1], states], [*dims[:2], states]
        inputs += [more(which, now.dtype, layers[which]) for which in order]
    else:
        side, (images, rows, cols, channels) = rng.choice([1, 2]), dims
        square = side * side
        fits = (
            not channels % square if kind == "depth_to_space" else not (rows % side or cols % side)
        )
        side, square = (side, square) if fits else (1, 1)
        given, deep = {"block": side}, [images, rows * side, cols * side, channels // square]
        flat = [images, rows // side, cols // side, channels * square]
        dims = deep if kind == "depth_to_space" else flat
    builder.add(kind, inputs, text(rng, out, dims), name=name, **given)
    return Grown(name, out, tuple(dims))


def _padding(rng: Random, dims: Sequence[int]) -> tuple[list[int], dict[str, Any]]:
    """Return padding of a kind, and the dimensions of what is padded."""
    mode = rng.choice(["constant", "constant", "edge", "reflect", "symmetric", "wrap"])
    most = [size - 1 if mode == "reflect" else 3 for size in dims]
    low, high = ([rng.choice([0, 0, min(1, n), n]) for n in most] for _ in range(2))
    between = [0] * len(dims)
    if mode == "constant":
        between = [rng.choice([0, 0, 1, 2]) for _ in dims]
        low = [rng.choice([n, -1]) if size > 2 else n for n, size in zip(low, dims, strict=True)]
    sizes = zip(low, dims, high, between, strict=True)
    given = {"low": low, "high": high, "interior": between, "mode": mode}
    given["value"] = rng.choice([0, 3, -7])
    return [a + n + (n - 1) * c + b for a, n, b, c in sizes], given


def _composite(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    kind, inputs, given = rng.choice(["softmax", "layer_norm", "rms_norm"]), [now.name], {}
    if kind == "softmax":
        given = {"axis": rng.randrange(len(now.dims))}
    for number in range({"softmax": 0, "layer_norm": 2, "rms_norm": 1}[kind]):
        shape = text(rng, rng.choice(FLOATS), now.dims[-1:])
        inputs.append(builder.tensor(f"n{number}{name}", shape, rng.choice(HOMES)))
    out = rng.choice(FLOATS)
    builder.add(kind, inputs, text(rng, out, now.dims), name=name, **given)
    return Grown(name, out, now.dims)


def _binary(rng: Random, builder: GraphBuilder, now: Grown, name: str) -> Grown:
    integer = now.dtype.startswith("s")
    operator = rng.choice(OF_INTEGERS if integer else OF_FLOATS)
    matched = tuple(d for d in range(len(now.dims)) if rng.random() < 0.6)
    if rng.random() < 0.4:
        matched = tuple(range(len(now.dims)))
    dims = [now.dims[d] if rng.random() < 0.8 else 1 for d in matched]
    other = builder.tensor(f"b{name}", text(rng, now.dtype, dims), rng.choice(HOMES))
    given = {} if len(dims) in (0, len(now.dims)) else {"broadcast_dimensions": matched}
    pair = (now.name, other) if rng.random() < 0.6 else (other, now.name)
    out = rng.choice(["s32", "s8"] if integer else FLOATS)
    shape = text(rng, out, now.dims)
    builder.add("binary", pair, shape, name=name, operator=operator, **given)
    return Grown(name, out, now.dims)
