"""Estimates for transposing matrices, and the types in which the array does it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.compiler.cost.engines import lane_copy_engines
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import descriptor_cycles, load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy

CARRIERS = {"s8": ("bf16", "f16", "f32"), "u8": ("bf16", "f16", "f32")}
"""Types that carry every number of a type exactly: bfloat16 has integers up to 256."""
BYTES = "u8"
"""The type as which the bytes of an element are turned, one after another."""


def carrier(chip: Chip, dtype: str) -> str | None:
    """Return the type in which the array turns elements of a type; None if it cannot."""
    known = chip.pe_array.cycles_per_vector
    if dtype in known:
        return dtype
    return next((t for t in CARRIERS.get(dtype, ()) if t in known and _casts(chip, dtype, t)), None)


def bytes_turned(chip: Chip, dtype: str) -> int:
    """Return in how many turns the array turns elements of a type that no type carries: its bytes.

    0: another type carries them, or the array takes no bytes either.
    """
    if carrier(chip, dtype) is not None or carrier(chip, BYTES) is None:
        return 0
    return data_type(dtype).size_bytes


def _casts(chip: Chip, dtype: str, other: str) -> bool:
    source, target = (Access(Buffer.STATE, t, 0, 1, 0, ((1, 1),)) for t in (dtype, other))
    return bool(lane_copy_engines(chip, Copy(engine="", source=source, target=target)))


def turn_cost(chip: Chip, dims: Sequence[int], dtype: str) -> int:
    """Return about how many cycles it takes to transpose matrices [batch..., rows, columns].

    If the array takes the type, every block is loaded and multiplied with an identity, or passes
    through the array. Load and vectors overlap, and the last block has to go through the array and
    out. If another type carries the elements, an engine casts them first. If bytes can be turned,
    each byte of the elements is. Otherwise the elements go one by one through a DMA queue.
    """
    *batch, rows, cols = dims
    array, matrices = chip.pe_array, math.prod(batch)
    turns = bytes_turned(chip, dtype)
    given = BYTES if turns else dtype
    taken = carrier(chip, given)
    if taken is None:
        beside = chip.dma.most_beside if chip.dma.is_spread else 1
        return -(-matrices * rows * cols // beside) * int(descriptor_cycles(chip, 1, beside))
    height, width = min(rows, array.rows), min(cols, array.cols)
    each = max(height * array.turn_cycles(taken), load_reads(chip, height, width, taken))
    blocks = matrices * -(-rows // array.rows) * -(-cols // array.cols)
    cast = 0 if taken == given else matrices * -(-rows // chip.state_buffer.partitions) * cols
    return max(1, turns) * (cast + blocks * each) + result_cycles(chip, width) + height
