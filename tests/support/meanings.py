"""What operations mean, by a second writer: numpy's or jax.lax's function for random operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp
from scipy.special import expit, logsumexp

from support.lane_graphs import text
from systolic.layout import Shape

TYPES = ("f32", "bf16", "f16", "s8", "s32")
FLOATS = ("f32", "bf16", "f16")
Meaning = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Case:
    """An operation of inputs, with the function of these that it must be.

    out: type and dimensions of the result. near: rounded steps lie between; else it is exact.
    highest: of an integer input, its least and its largest number. finite: infinities and NaN
    spread, as the page of operations says.
    """

    kind: str
    inputs: Sequence[tuple[str, Sequence[int]]]
    out: tuple[str, Sequence[int]]
    meaning: Meaning
    given: dict[str, Any] = field(default_factory=dict)
    near: float = 0.0
    highest: dict[int, tuple[int, int]] = field(default_factory=dict)
    finite: bool = False


def dims_of(rng: Random, least: int = 1, most: int = 4) -> list[int]:
    return [rng.randint(1, 9) for _ in range(rng.randint(least, most))]


def _moved(rng: Random, kind: str, dims: Sequence[int], meaning: Meaning, **given: Any) -> Case:
    """Return a case of one input whose elements are moved."""
    dtype = rng.choice(TYPES)
    made = meaning(np.zeros(dims, np.float32))
    return Case(kind, [(dtype, dims)], (dtype, made.shape), meaning, given)


def reverse(rng: Random) -> Case:
    dims = dims_of(rng)
    axes = rng.sample(range(len(dims)), rng.randint(1, len(dims)))
    return _moved(rng, "reverse", dims, lambda x: np.asarray(lax.rev(x, axes)), axes=axes)


def tile(rng: Random) -> Case:
    dims = dims_of(rng, most=3)
    repeats = [rng.choice([1, 1, 2, 3]) for _ in dims]
    return _moved(rng, "tile", dims, lambda x: np.tile(x, repeats), repeats=repeats)


def expand(rng: Random) -> Case:
    out = dims_of(rng)
    matched = sorted(rng.sample(range(len(out)), rng.randint(0, len(out))))
    dims = [out[axis] if rng.random() < 0.7 else 1 for axis in matched]

    def meaning(x: np.ndarray) -> np.ndarray:
        return np.asarray(lax.broadcast_in_dim(x, out, matched))

    return _moved(rng, "expand", dims, meaning, broadcast_dimensions=matched)


def take(rng: Random) -> Case:
    dims = dims_of(rng)
    axis = rng.randrange(len(dims))
    places = [rng.randrange(dims[axis]) for _ in range(rng.randint(1, 9))]
    meaning = lambda x: np.take(x, places, axis)  # noqa: E731
    return _moved(rng, "take", dims, meaning, indices=places, axis=axis)


def slice_(rng: Random) -> Case:
    dims = dims_of(rng)
    start = [rng.randrange(size) for size in dims]
    stop = [rng.randint(at + 1, size) for at, size in zip(start, dims, strict=True)]
    step = [rng.choice([1, 1, 2, 3]) for _ in dims]
    meaning = lambda x: np.asarray(lax.slice(x, start, stop, step))  # noqa: E731
    return _moved(rng, "slice", dims, meaning, start=start, stop=stop, step=step)


def pad(rng: Random) -> Case:
    if rng.random() < 0.5:
        return _padded_by_itself(rng)
    dims = dims_of(rng, most=3)
    between = [rng.choice([0, 0, 1, 2]) for _ in dims]
    low, high = ([rng.choice([0, 0, 1, 3, -1, -2]) for _ in dims] for _ in range(2))
    sizes = zip(dims, low, high, between, strict=True)
    if min(n + a + b + (n - 1) * c for n, a, b, c in sizes) < 1:
        return pad(rng)
    value = rng.choice([0, 3, -7])

    def meaning(x: np.ndarray) -> np.ndarray:
        fill = np.asarray(value, x.dtype)
        return np.asarray(lax.pad(x, fill, list(zip(low, high, between, strict=True))))

    given = {"low": low, "high": high, "interior": between, "value": value}
    return _moved(rng, "pad", dims, meaning, **given)


def _padded_by_itself(rng: Random) -> Case:
    dims = dims_of(rng, most=3)
    mode = rng.choice(["edge", "reflect", "symmetric", "wrap"])
    most = [size - 1 if mode == "reflect" else 7 for size in dims]
    low, high = ([rng.randint(0, n) for n in most] for _ in range(2))
    meaning = lambda x: np.pad(x, list(zip(low, high, strict=True)), mode=mode)  # noqa: E731
    return _moved(rng, "pad", dims, meaning, low=low, high=high, mode=mode)


def cumulative(rng: Random) -> Case:
    dims = dims_of(rng, most=3)
    axis, dtype = rng.randrange(len(dims)), rng.choice(("f32", "bf16", "s32"))
    fold = rng.choice(["sum", "sum", "max", "min"] + ["product"] * (dtype == "s32"))
    exclusive = fold in ("sum", "product") and rng.random() < 0.3
    backwards = rng.random() < 0.4
    function = {"sum": lax.cumsum, "product": lax.cumprod, "max": lax.cummax, "min": lax.cummin}

    def meaning(x: np.ndarray) -> np.ndarray:
        found = np.asarray(function[fold](np.asarray(x), axis, reverse=backwards))
        if not exclusive:
            return found
        found = np.flip(found, axis) if backwards else found
        first = np.full_like(np.take(found, [0], axis), fold == "product")
        rest = np.take(found, range(dims[axis] - 1), axis)
        found = np.concatenate([first, rest], axis)
        return np.flip(found, axis) if backwards else found

    given = {"axis": axis, "fold": fold, "exclusive": exclusive, "from_end": backwards}
    near = {"f32": 1e-5, "bf16": 0.1, "s32": 0.0}[dtype] if fold == "sum" else 0.0
    return Case("cumulative", [(dtype, dims)], (dtype, dims), meaning, given, near)


def _place(kind: str, function: Callable[..., Any], rng: Random) -> Case:
    dims = dims_of(rng)
    axis, dtype = rng.randrange(len(dims)), rng.choice((*TYPES, "u8"))
    out = [size for n, size in enumerate(dims) if n != axis]
    last = rng.random() < 0.3

    def meaning(x: np.ndarray) -> np.ndarray:
        if last:
            return dims[axis] - 1 - np.asarray(function(np.flip(x, axis), axis, np.int32))
        return np.asarray(function(x, axis, np.int32))

    given = {"axis": axis, "last": last}
    return Case(kind, [(dtype, dims)], ("s32", out), meaning, given, highest={0: (0, 5)})


def argmax(rng: Random) -> Case:
    return _place("argmax", lax.argmax, rng)


def argmin(rng: Random) -> Case:
    return _place("argmin", lax.argmin, rng)


def top_k(rng: Random) -> Case:
    dims = dims_of(rng, most=3)
    axis, dtype = rng.randrange(len(dims)), rng.choice(TYPES)
    k, largest = rng.randint(1, dims[axis]), rng.random() < 0.7
    indices, nan_last = rng.random() < 0.5, rng.random() < 0.3
    out = [k if n == axis else size for n, size in enumerate(dims)]

    def meaning(x: np.ndarray) -> np.ndarray:
        """Sort by (value, place): numbers that grow with the values, NaN above or below all."""
        wide = np.moveaxis(x, axis, -1).astype(np.float64)
        flat = wide.reshape(-1, dims[axis])
        order = [
            sorted(
                range(dims[axis]),
                key=lambda n: (np.isnan(row[n]) and nan_last, *_key(row[n], largest), n),
            )[:k]
            for row in flat
        ]
        places = np.array(order).reshape(*wide.shape[:-1], k)
        found = places if indices else np.take_along_axis(np.moveaxis(x, axis, -1), places, -1)
        return np.moveaxis(found.astype(np.int32 if indices else x.dtype), -1, axis)

    given = {"axis": axis, "k": k, "largest": largest, "gives": "indices" if indices else "values",
             "nan_last": nan_last}  # fmt: skip
    made = ("s32" if indices else dtype, out)
    return Case("top_k", [(dtype, dims)], made, meaning, given, highest={0: (0, 7)})


def _key(value: float, largest: bool) -> tuple[bool, float]:
    if np.isnan(value):
        return False, 0.0
    return True, -value if largest else value


def reduce_measure(rng: Random) -> Case:
    dims = dims_of(rng)
    axes, dtype = sorted(rng.sample(range(len(dims)), rng.randint(1, len(dims)))), "f32"
    name = rng.choice(["sum_of_squares", "l1", "l2", "log_sum_exp"])
    functions: dict[str, Callable[[np.ndarray], Any]] = {
        "sum_of_squares": lambda x: (x * x).sum(tuple(axes)),
        "l1": lambda x: np.abs(x).sum(tuple(axes)),
        "l2": lambda x: (
            np.linalg.norm(x.reshape(-1))
            if len(axes) == len(dims)
            else np.sqrt((x * x).sum(tuple(axes)))
        ),
        "log_sum_exp": lambda x: logsumexp(x, axis=tuple(axes)),
    }
    meaning = lambda x: np.asarray(functions[name](x.astype(np.float64)))  # noqa: E731
    out = [size for n, size in enumerate(dims) if n not in axes]
    given = {"measure": name, "axes": axes}
    return Case("reduce_measure", [(dtype, dims)], (dtype, out), meaning, given, near=1e-4)


def scatter(rng: Random) -> Case:
    dims = dims_of(rng, most=3)
    axis, dtype = rng.randrange(len(dims)), rng.choice(("f32", "s32"))
    combiner = rng.choice(["none", "add", "multiply", "max", "min"])
    if combiner == "none":
        places = rng.sample(range(dims[axis]), rng.randint(1, dims[axis]))
    else:
        places = [rng.randrange(dims[axis]) for _ in range(rng.randint(1, 7))]
    shape = [len(places) if n == axis else size for n, size in enumerate(dims)]
    numpy_function = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}

    def meaning(x: np.ndarray, updates: np.ndarray) -> np.ndarray:
        found, new = np.moveaxis(x.copy(), axis, 0).copy(), np.moveaxis(updates, axis, 0)
        for number, place in enumerate(places):
            old = found[place]
            function = numpy_function.get(combiner, lambda _, y: y)
            found[place] = function(old, new[number])
        return np.moveaxis(found, 0, axis)

    given = {"axis": axis, "indices": places, "combiner": combiner}
    inputs = [(dtype, dims), (dtype, shape)]
    return Case("scatter", inputs, (dtype, dims), meaning, given)


def gather(rng: Random) -> Case:
    dims, wanted = dims_of(rng, most=3), dims_of(rng, least=0, most=2)
    axis, dtype = rng.randrange(len(dims)), rng.choice(TYPES)
    out = [*dims[:axis], *wanted, *dims[axis + 1 :]]
    meaning = lambda x, n: np.take(x, n, axis, mode="clip")  # noqa: E731
    inputs = [(dtype, dims), ("s32", wanted)]
    highest = {1: (-2, dims[axis] + 1)}
    return Case(
        "gather", inputs, (dtype, out), meaning, {"axis": axis}, highest=highest, finite=True
    )


def dynamic_scatter(rng: Random) -> Case:
    """Updates that come one after another, those outside left out, as jax.numpy's do."""
    dims, many, dtype = dims_of(rng, most=3), rng.randint(1, 5), rng.choice(TYPES)
    axis, combiner = rng.randrange(len(dims)), rng.choice(["none", "add", "max", "min"])
    fold = {"none": "set"}.get(combiner, combiner)
    new = [many if n == axis else size for n, size in enumerate(dims)]

    def meaning(x: np.ndarray, u: np.ndarray, n: np.ndarray) -> np.ndarray:
        found = jnp.moveaxis(jnp.asarray(x), axis, 0)
        for place, row in zip(n, np.moveaxis(u, axis, 0), strict=True):
            if 0 <= place < dims[axis]:
                found = getattr(found.at[int(place)], fold)(row)
        return np.asarray(jnp.moveaxis(found, 0, axis))

    inputs = [(dtype, dims), (dtype, new), ("s32", [many])]
    given = {"axis": axis, "combiner": combiner}
    highest = {2: (-1, dims[axis])}
    near = 2**-6 if combiner == "add" else 0.0
    return Case("dynamic_scatter", inputs, (dtype, dims), meaning, given, near, highest)


def dynamic_slice(rng: Random) -> Case:
    dims, dtype = dims_of(rng), rng.choice(TYPES)
    sizes = [rng.randint(1, size) for size in dims]
    meaning = lambda x, n: np.asarray(lax.dynamic_slice(x, n, sizes))  # noqa: E731
    inputs = [(dtype, dims), ("s32", [len(dims)])]
    given = {"sizes": sizes}
    return Case("dynamic_slice", inputs, (dtype, sizes), meaning, given, highest={1: (0, 10)})


def dynamic_update_slice(rng: Random) -> Case:
    dims, dtype = dims_of(rng), rng.choice(TYPES)
    sizes = [rng.randint(1, size) for size in dims]
    meaning = lambda x, u, n: np.asarray(lax.dynamic_update_slice(x, u, n))  # noqa: E731
    inputs = [(dtype, dims), (dtype, sizes), ("s32", [len(dims)])]
    return Case("dynamic_update_slice", inputs, (dtype, dims), meaning, highest={2: (0, 10)})


def _blocks(rng: Random, kind: str) -> Case:
    side, minor = rng.choice([1, 2, 3]), rng.choice(["channel", "pixel"])
    images, rows, cols, each = (rng.randint(1, 3) for _ in range(4))
    few = [images, rows, cols, each * side * side]
    many = [images, rows * side, cols * side, each]
    dims, out = (few, many) if kind == "depth_to_space" else (many, few)

    def meaning(x: np.ndarray) -> np.ndarray:
        found = np.zeros(out, x.dtype)
        for n, h, w, c in np.ndindex(*many):
            pixel = (h % side) * side + w % side
            deep = c * side * side + pixel if minor == "pixel" else pixel * each + c
            one, other = (n, h, w, c), (n, h // side, w // side, deep)
            if kind == "depth_to_space":
                found[one] = x[other]
            else:
                found[other] = x[one]
        return found

    return _moved(rng, kind, dims, meaning, block=side, minor=minor)


def depth_to_space(rng: Random) -> Case:
    return _blocks(rng, "depth_to_space")


def space_to_depth(rng: Random) -> Case:
    return _blocks(rng, "space_to_depth")


def causal_mask(rng: Random) -> Case:
    dims = dims_of(rng, least=2)
    offset, upper = rng.randint(-dims[-2], dims[-1]), rng.random() < 0.5
    function = np.triu if upper else np.tril
    meaning = lambda x: function(x, offset)  # noqa: E731
    given = {"offset": offset, "upper": upper, "value": 0.0}
    return _moved(rng, "causal_mask", dims, meaning, **given)


def iota(rng: Random) -> Case:
    dtype, count = rng.choice(("f32", "s32")), rng.randint(1, 300)
    base, each = rng.randint(-9, 9), rng.randint(-3, 3)
    kind = np.int32 if dtype == "s32" else np.float32
    meaning = lambda: (base + each * np.arange(count)).astype(kind)  # noqa: E731
    return Case("iota", [], (dtype, [count]), meaning, {"base": base, "per_element": each})


def constant(rng: Random) -> Case:
    dtype, dims, value = rng.choice(("f32", "s32")), dims_of(rng, least=0), rng.randint(-9, 9)
    kind = np.int32 if dtype == "s32" else np.float32
    meaning = lambda: np.full(dims, value, kind)  # noqa: E731
    return Case("constant", [], (dtype, dims), meaning, {"value": value})


def _layer(rng: Random, kind: str, gates: int) -> Case:
    steps, batch, inputs, states = (rng.randint(1, 4) for _ in range(4))
    columns = gates * states
    shapes = [[steps, batch, inputs], [inputs, columns], [states, columns], [columns]]
    shapes += [[batch, states], [batch, states]] if kind == "lstm" else [[columns], [batch, states]]
    out = [steps, batch, states]
    given: dict[str, Any] = {}
    if kind == "lstm":
        given = {"state": rng.choice(["hidden", "cell"])}
    else:
        given = {"reset_after": rng.random() < 0.5}

    def meaning(*arrays: np.ndarray) -> np.ndarray:
        return (_lstm if kind == "lstm" else _gru)(states, given, *map(np.float64, arrays))

    return Case(kind, [("f32", dims) for dims in shapes], ("f32", out), meaning, given, near=1e-4)


def _lstm(n: int, given: dict[str, Any], x: Any, w: Any, r: Any, b: Any, h: Any, c: Any) -> Any:
    found = []
    for step in x:
        s = step @ w + h @ r + b
        i, f, o = (expit(s[:, k * n : (k + 1) * n]) for k in (0, 1, 3))
        c = f * c + i * np.tanh(s[:, 2 * n : 3 * n])
        h = o * np.tanh(c)
        found.append(h if given["state"] == "hidden" else c)
    return np.array(found)


def _gru(n: int, given: dict[str, Any], x: Any, w: Any, r: Any, b: Any, t: Any, h: Any) -> Any:
    found = []
    for step in x:
        a, s = step @ w + b, h @ r + t
        reset, update = (
            expit(a[:, k * n : (k + 1) * n] + s[:, k * n : (k + 1) * n]) for k in (0, 1)
        )
        inside = reset * s[:, 2 * n :]
        if not given["reset_after"]:
            inside = (reset * h) @ r[:, 2 * n :] + t[2 * n :]
        h = (1 - update) * np.tanh(a[:, 2 * n :] + inside) + update * h
        found.append(h)
    return np.array(found)


def lstm(rng: Random) -> Case:
    return _layer(rng, "lstm", 4)


def gru(rng: Random) -> Case:
    return _layer(rng, "gru", 3)


CASES: dict[str, Callable[[Random], Case]] = {
    each.__name__.rstrip("_"): each
    for each in (
        reverse, tile, expand, take, slice_, pad, iota, constant, cumulative, argmax, argmin, top_k,
        reduce_measure, scatter, dynamic_scatter, gather, dynamic_slice, dynamic_update_slice,
        depth_to_space, space_to_depth, causal_mask, lstm, gru,
    )
}  # fmt: skip
"""A case of each operation for a seed."""
SPECIAL = (np.inf, -np.inf, np.nan, -0.0, 0.0)


def operands(rng: Random, case: Case, shapes: Sequence[Shape]) -> list[np.ndarray]:
    """Return random operands, with special values among the floats."""
    numbers = np.random.default_rng(rng.randint(0, 1 << 30))
    found = []
    for place, shape in enumerate(shapes):
        if shape.dtype.kind in "iu":
            limits = np.iinfo(shape.dtype)
            low, high = case.highest.get(place, (limits.min, limits.max))
            array = numbers.integers(low, high, shape.dims, endpoint=True)
        elif shape.dtype == bool:
            array = numbers.integers(0, 2, shape.dims)
        else:
            array = numbers.standard_normal(shape.dims)
            if rng.random() < 0.3 and not case.near:
                special = numbers.random(shape.dims) < 0.2
                chosen = SPECIAL[-2:] if case.finite else SPECIAL
                array = np.where(special, numbers.choice(chosen, shape.dims), array)
            elif rng.random() < 0.3:
                array = np.round(array)  # some are equal
        found.append(array.astype(shape.dtype))
    return found


def shape_text(rng: Random, each: tuple[str, Sequence[int]]) -> str:
    """Return a shape of a type and dimensions with a random layout."""
    return text(rng, each[0], list(each[1]))
