"""Random operations with what they mean by a second writer: plain numpy in float64, or jax.

Nothing here is the code under test. An operation is drawn with its operands and attributes; the
meaning takes the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

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
        one = np.float64(number) if not whole else np.int64(number)
        pair = (one, x) if given.get("reverse") else (x, one)
        found = (WORDS if whole else NUMBERS)[operator](*pair)
        return found if not whole else found.astype(np.int64).astype(np.int32).astype(np.int64)

    return Meaning(
        "tensor_scalar", [(kind, dims)], means, given, "s32" if whole else "f32",
        near=0 if whole else 1e-6, special=True,
    )  # fmt: skip


MEANINGS: dict[str, Callable[[Random], Meaning]] = {
    "batch_norm": batch_norm,
    "instance_norm": instance_norm,
    "group_norm": group_norm,
    "clip": clip,
    "tensor_scalar": tensor_scalar,
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
