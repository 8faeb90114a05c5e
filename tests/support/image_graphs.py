"""Random chains of convolutions, pooling and what follows them; convolutions by plain loops."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np

from systolic.workload import GraphBuilder

HOMES = ("state_buffer", "dram")
LAYOUTS = ("", "{2,1,3,0}", "{0,3,1,2}")
"""NHWC, NCHW, and channels between."""


@dataclass(frozen=True)
class ImageShape:
    """A tensor of images that a graph has grown to."""

    name: str
    dtype: str
    dims: tuple[int, int, int, int]


def windows_of(rng: Random, height: int, width: int) -> tuple[dict, tuple[int, int]]:
    """Return stride, padding, dilation and the size of windows that fit into images."""
    padding = [rng.choice([0, 0, 1, 2]) for _ in range(4)]
    sides = height + padding[0] + padding[1], width + padding[2] + padding[3]
    size = [rng.randint(1, min(side, 3)) for side in sides]
    dilation = [
        rng.randint(1, 2) if (s - 1) * 2 < side else 1 for s, side in zip(size, sides, strict=True)
    ]
    stride = [rng.randint(1, 2), rng.randint(1, 3)]
    return {"stride": stride, "padding": padding, "dilation": dilation}, (size[0], size[1])


def made_sides(height: int, width: int, given: dict, size: tuple[int, int]) -> tuple[int, int]:
    """Return height and width of the results of windows."""
    top, bottom, left, right = given["padding"]
    sides = (height + top + bottom, width + left + right)
    down, across = (
        (side - (s - 1) * apart - 1) // step + 1
        for side, s, apart, step in zip(
            sides, size, given["dilation"], given["stride"], strict=True
        )
    )
    return down, across


def looped_windows(images: np.ndarray, given: dict, size: tuple[int, int], value: float = 0):
    """Return [images, height, width, window height, window width, channels] by plain loops."""
    count, height, width, channels = images.shape
    down, across = made_sides(height, width, given, size)
    found = np.full((count, down, across, *size, channels), value, images.dtype)
    for y, x, v, u in product(range(down), range(across), range(size[0]), range(size[1])):
        row = y * given["stride"][0] + v * given["dilation"][0] - given["padding"][0]
        col = x * given["stride"][1] + u * given["dilation"][1] - given["padding"][2]
        if 0 <= row < height and 0 <= col < width:
            found[:, y, x, v, u] = images[:, row, col]
    return found


def looped_convolution(images: np.ndarray, weights: np.ndarray, given: dict, groups: int = 1):
    """Return a convolution in float64, group by group."""
    seen = looped_windows(images.astype(float), given, weights.shape[:2])
    taken, filters = weights.shape[2], weights.shape[3] // groups
    parts = [
        np.einsum(
            "nyxvuc,vucf->nyxf",
            seen[..., group * taken : (group + 1) * taken],
            weights[..., group * filters : (group + 1) * filters].astype(float),
        )
        for group in range(groups)
    ]
    return np.concatenate(parts, axis=-1)


def text(rng: Random, dtype: str, dims) -> str:
    """Return a shape of images in a random layout."""
    return f"{dtype}[{','.join(map(str, dims))}]{rng.choice(LAYOUTS)}"


def chain(rng: Random) -> GraphBuilder:
    """Return images that go through two to four operations."""
    builder = GraphBuilder(rng.choice(HOMES))
    now = start_images(rng, builder)
    for number in range(rng.randint(2, 4)):
        now = grow_images(rng, builder, now, number)
    return builder


def start_images(rng: Random, builder: GraphBuilder) -> ImageShape:
    """Begin with images."""
    dtype = rng.choice(["f32", "bf16", "s8"])
    dims = rng.randint(1, 5), rng.randint(1, 6), rng.randint(1, 6), rng.randint(1, 6)
    return ImageShape(builder.tensor("x", text(rng, dtype, dims), rng.choice(HOMES)), dtype, dims)


def grow_images(rng: Random, builder: GraphBuilder, now: ImageShape, number: int) -> ImageShape:
    """Add a convolution, pooling, or what follows them."""
    kind = rng.choice([_convolution, _convolution, _pool, _activation, _add])
    return kind(rng, builder, now, number)


def _convolution(rng: Random, builder: GraphBuilder, now: ImageShape, number: int) -> ImageShape:
    if now.dtype == "s32":
        return _pool(rng, builder, now, number)
    count, height, width, channels = now.dims
    given, size = windows_of(rng, height, width)
    groups = rng.choice([g for g in (1, 1, 1, 2, 3, channels) if channels % g == 0])
    filters = groups * rng.randint(1, 3) if groups > 1 else rng.randint(1, 7)
    shape = f"{now.dtype}[{size[0]},{size[1]},{channels // groups},{filters}]"
    weights = builder.tensor(f"w{number}", shape, rng.choice(HOMES))
    out = rng.choice(["s32", "s8"] if now.dtype == "s8" else ["f32", "f32", now.dtype])
    dims = (count, *made_sides(height, width, given, size), filters)
    name = f"y{number}"
    builder.add("conv2d", (now.name, weights), text(rng, out, dims), name=name, groups=groups,
                **given)  # fmt: skip
    return ImageShape(name, out, dims)


def _pool(rng: Random, builder: GraphBuilder, now: ImageShape, number: int) -> ImageShape:
    count, height, width, channels = now.dims
    given, size = windows_of(rng, height, width)
    reduction = rng.choice(["max", "min", "sum"])
    dims = (count, *made_sides(height, width, given, size), channels)
    name = f"y{number}"
    builder.add("pool", (now.name,), text(rng, now.dtype, dims), name=name, window=size,
                reduction=reduction, **given)  # fmt: skip
    return ImageShape(name, now.dtype, dims)


def _activation(rng: Random, builder: GraphBuilder, now: ImageShape, number: int) -> ImageShape:
    name = f"y{number}"
    if now.dtype == "s32" and rng.random() < 0.7:
        scales = builder.tensor(f"q{number}", f"f32[{now.dims[3]}]", rng.choice(HOMES))
        shape = text(rng, "s8", now.dims)
        builder.add("requantise", (now.name, scales), shape, name=name, lowest=0)
        return ImageShape(name, "s8", now.dims)
    out = rng.choice(["s32", "s8"] if now.dtype.startswith("s") else ["f32", "bf16"])
    builder.add("activation", (now.name,), text(rng, out, now.dims), name=name, function="ramp")
    return ImageShape(name, out, now.dims)


def _add(rng: Random, builder: GraphBuilder, now: ImageShape, number: int) -> ImageShape:
    """Add a bias for each channel, or a tensor of the same dimensions."""
    bias, name = rng.random() < 0.6, f"y{number}"
    shape = f"{now.dtype}[{now.dims[3]}]" if bias else text(rng, now.dtype, now.dims)
    other = builder.tensor(f"b{number}", shape, rng.choice(HOMES))
    given = {"broadcast_dimensions": [3]} if bias else {}
    out = rng.choice(["s32", "s8"] if now.dtype.startswith("s") else ["f32", "bf16"])
    builder.add("binary", (now.name, other), text(rng, out, now.dims), name=name, operator="add",
                **given)  # fmt: skip
    return ImageShape(name, out, now.dims)
