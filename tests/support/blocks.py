"""Hand-written programs that transpose one K x N block: the timing model's worked examples."""

from __future__ import annotations

from typing import Literal

import numpy as np

from systolic.hw.datatypes import data_type
from systolic.isa import Access, Buffer, Copy, LoadWeights, MatMul, Post, Program, Wait
from systolic.machine import Image

IDENTITY, RESULT = 8192, 16384
"""Byte addresses: the block lies at 0; with 8 banks of 8 KiB each of the three has its own bank."""


def state(partition: int, partitions: int, start: int, elements: int, dtype: str = "f32") -> Access:
    """Return a contiguous state-buffer access."""
    return Access(Buffer.STATE, dtype, partition, partitions, start, ((1, elements),))


def psum(partition: int, partitions: int, row: int, rows: int, dtype: str = "f32") -> Access:
    """Return a result-buffer access to rows row .. row + rows - 1."""
    return Access(Buffer.RESULT, dtype, partition, partitions, 4 * row, ((1, rows),))


def block_program(
    K: int,
    N: int,
    drain: Literal["block", "row", "partition"] = "block",
    engine: Literal["activation", "pooling"] = "activation",
    dtype: str = "f32",
) -> Program:
    """Return load, multiply by the identity, and the copies of that drain."""
    size = data_type(dtype).size_bytes
    accumulator = data_type(dtype).accumulator
    event = {"block": "done", "row": "row", "partition": "partition"}[drain]
    parts = {
        "block": [(0, N, 0, K)],
        "row": [(0, N, row, 1) for row in range(K)],
        "partition": [(column, 1, 0, K) for column in range(N)],
    }[drain]
    copies = [
        Copy(
            engine=engine,
            source=psum(partition, partitions, row, rows, accumulator),
            target=state(partition, partitions, RESULT + size * row, rows, dtype),
            waits=(Wait(0, number + 1),),
        )
        for number, (partition, partitions, row, rows) in enumerate(parts)
    ]
    load = LoadWeights(weights=state(0, K, 0, N, dtype))
    multiply = MatMul(
        moving=state(0, K, IDENTITY, K, dtype),
        result=psum(0, N, 0, K, accumulator),
        posts=(Post(0, event),),  # type: ignore[arg-type]
    )
    return Program("block", (load, multiply, *copies), ("result",))


def block_images(values: np.ndarray, dtype: str = "f32") -> list[Image]:
    """Return the block [K, N] and the identity, where `block_program` expects them."""
    K, N = values.shape
    numpy = data_type(dtype).numpy
    return [
        Image(state(0, K, 0, N, dtype), values.astype(numpy)),
        Image(state(0, K, IDENTITY, K, dtype), np.eye(K, dtype=numpy)),
    ]
