"""What operations mean, by a second writer: numpy's or jax.lax's function for random operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from jax import lax

from support.lane_graphs import text
from systolic.layout import Shape

TYPES = ("f32", "bf16", "f16", "s8", "s32")
FLOATS = ("f32", "bf16", "f16")
Meaning = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Case:
    """An operation of inputs, with the function of these that it must be.

    out: type and dimensions of the result. near: rounded steps lie between; else it is exact.
    highest: of an integer input, one above the largest number that it has.
    """

    kind: str
    inputs: Sequence[tuple[str, Sequence[int]]]
    out: tuple[str, Sequence[int]]
    meaning: Meaning
    given: dict[str, Any] = field(default_factory=dict)
    near: float = 0.0
    highest: dict[int, tuple[int, int]] = field(default_factory=dict)


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


CASES: dict[str, Callable[[Random], Case]] = {
    "reverse": reverse,
    "tile": tile,
    "expand": expand,
    "take": take,
    "slice": slice_,
    "pad": pad,
}
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
                array = np.where(special, numbers.choice(SPECIAL, shape.dims), array)
            elif rng.random() < 0.3:
                array = np.round(array)  # some are equal
        found.append(array.astype(shape.dtype))
    return found


def shape_text(rng: Random, each: tuple[str, Sequence[int]]) -> str:
    """Return a shape of a type and dimensions with a random layout."""
    return text(rng, each[0], list(each[1]))
