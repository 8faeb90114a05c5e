"""Estimates for transposing matrices, and the types in which the array does it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.compiler.cost.engines import (
    drain_cycles,
    drain_engine,
    drain_interval,
    engine_cycles,
    lane_copy_engines,
)
from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import descriptor_cycles, load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.hw.units import EngineName
from systolic.isa import Access, Buffer, Copy
from systolic.workload.options import Options

CARRIERS = {"s8": ("bf16", "f16", "f32"), "u8": ("bf16", "f16", "f32"), "u16": ("f32",)}
"""Types that carry every number of a type exactly: bfloat16 has integers up to 256, float32 up to
2^24."""
BYTES = "u8"
"""The type as which the bytes of an element are turned, one after another."""
HARDLY = 1.1
"""More results are copied out together if each costs less by this factor."""
HALVES = "u16"
"""The type as which the halves of a 32-bit element are turned, one after another."""


def carrier(chip: Chip, dtype: str) -> str | None:
    """Return the type in which the array turns elements of a type; None if it cannot."""
    return LAST_CHIP.of(_carrier, chip, dtype)


def _carrier(chip: Chip, dtype: str) -> str | None:
    known = chip.pe_array.cycles_per_vector
    if dtype in known:
        return dtype
    return next((t for t in CARRIERS.get(dtype, ()) if t in known and _casts(chip, dtype, t)), None)


def turned_as(chip: Chip, dtype: str) -> str:
    """Return the type that the array turns of each element: its own, or its parts' type.

    If no type carries the elements, these are their halves or their bytes, whichever take less
    time. A half is cast before its turn, and of a byte there are twice as many. It is the type
    itself if the array takes no parts either.
    """
    return LAST_CHIP.of(_least_parts, chip, dtype)


def placed_as(chip: Chip, dtype: str) -> str:
    """Return the type of parts for which there must be room beside source and result.

    Where the halves that are cast have none, bytes are turned instead.
    """
    given = turned_as(chip, dtype)
    return BYTES if given == HALVES and carrier(chip, BYTES) is not None else given


def _least_parts(chip: Chip, dtype: str) -> str:
    if carrier(chip, dtype) is not None:
        return dtype
    size = data_type(dtype).size_bytes
    wide = [part for part in (BYTES, HALVES) if carrier(chip, part) is not None]
    parts = [part for part in wide if size > data_type(part).size_bytes]
    return min(parts, key=lambda part: _part_ticks(chip, size, part), default=dtype)


def _part_ticks(chip: Chip, size: int, part: str) -> int:
    """Return the ticks for a block of elements of `size` bytes, all their parts together.

    Array, the engine that copies results out and the one that casts work at the same time. Where
    one engine does both, its work adds up.
    """
    taken, rows = carrier(chip, part), chip.pe_array.rows
    assert taken is not None
    name, casts = drain_engine(chip, Options()), 0
    drains = drain_cycles(chip, Options(), part, rows) * chip.period(name)
    if taken != part:
        caster = _caster(chip, part, taken)
        copy = _cast(part, taken, rows)
        casts = engine_cycles(chip, caster, copy) * chip.period(caster)
        if caster == name:
            drains += casts
    array = rows * chip.pe_array.turn_cycles(taken) * chip.period("pe_array")
    return size // data_type(part).size_bytes * max(array, drains, casts)


def casts_beside(chip: Chip, given: str) -> bool:
    """Return whether halves of elements are cast while others are turned and copied out."""
    return LAST_CHIP.of(_casts_beside, chip, given)


def _casts_beside(chip: Chip, given: str) -> bool:
    taken = carrier(chip, given) if given == HALVES else None
    return taken is not None and _caster(chip, given, taken) != drain_engine(chip, Options())


def _caster(chip: Chip, dtype: str, other: str) -> str:
    """Return the engine that casts what is to be turned: not that which copies results out."""
    return LAST_CHIP.of(_least_caster, chip, dtype, other)


def _least_caster(chip: Chip, dtype: str, other: str) -> str:
    name, copy = drain_engine(chip, Options()), _cast(dtype, other, chip.pe_array.rows)
    able = lane_copy_engines(chip, copy)
    others = [each for each in able if each != name]
    return min(others or able, key=lambda each: engine_cycles(chip, each, copy) * chip.period(each))


def parts_turned(chip: Chip, dtype: str) -> int:
    """Return in how many turns the array turns elements of a type that no type carries: its parts.

    0: another type carries them, or the array takes no parts either.
    """
    part = turned_as(chip, dtype)
    return 0 if part == dtype else data_type(dtype).size_bytes // data_type(part).size_bytes


def _casts(chip: Chip, dtype: str, other: str) -> bool:
    return bool(lane_copy_engines(chip, _cast(dtype, other, 1)))


def _cast(dtype: str, other: str, count: int) -> Copy:
    """Return a copy of elements of a lane that casts them, on no engine yet."""
    source, target = (Access(Buffer.STATE, t, 0, 1, 0, ((1, count),)) for t in (dtype, other))
    return Copy(engine="", source=source, target=target)


def turn_cost(chip: Chip, dims: Sequence[int], dtype: str) -> int:
    """Return about how many cycles it takes to transpose matrices [batch..., rows, columns].

    If the array takes the type, every block is loaded and multiplied with an identity, or passes
    through the array. Load and vectors overlap, and the last block has to go through the array and
    out. If another type carries the elements, an engine casts them first. If their parts can be
    turned, each part is. Otherwise the elements go one by one through a DMA queue.
    """
    *batch, rows, cols = dims
    array, matrices = chip.pe_array, math.prod(batch)
    turns, given = parts_turned(chip, dtype), turned_as(chip, dtype)
    taken = carrier(chip, given)
    if taken is None:
        beside = chip.dma.most_beside if chip.dma.is_spread else 1
        return -(-matrices * rows * cols // beside) * int(descriptor_cycles(chip, 1, beside))
    height, width = min(rows, array.rows), min(cols, array.cols)
    each = max(height * array.turn_cycles(taken), load_reads(chip, height, width, taken))
    if turns:  # each part of a block is copied out by itself
        each = max(each, _drained(chip, given, height))
    blocks = matrices * -(-rows // array.rows) * -(-cols // array.cols)
    cast = 0
    if taken != given:
        lines = matrices * -(-rows // chip.state_buffer.partitions) * cols
        cast = lines * chip.period(drain_engine(chip, Options())) // chip.period("pe_array")
    turned = max(cast, blocks * each) if casts_beside(chip, given) else cast + blocks * each
    return max(1, turns) * turned + result_cycles(chip, width) + height


def _drained(chip: Chip, dtype: str, vectors: int) -> int:
    """Return the array's cycles from one copy of `vectors` results to the next."""
    cycles = drain_interval(chip, Options(), dtype, vectors)
    return cycles * chip.period(drain_engine(chip, Options())) // chip.period("pe_array")


def turns_copied_together(chip: Chip, options: Options, dtype: str, rows: int, cols: int) -> int:
    """Return of how many turns of blocks the results are copied out together.

    dtype: what the array turns. A copy has a least time. If that is longer than the array takes for
    a turn, and copies of more results would cost less for each, it is so few that more hardly gain.
    """
    if options.drain != "block":
        return 1
    return LAST_CHIP.of(_copied_together, chip, drain_engine(chip, options), dtype, rows, cols)


def _copied_together(chip: Chip, engine: EngineName, dtype: str, rows: int, cols: int) -> int:
    options, period = Options(drain_engine=engine), chip.period(engine)
    most = chip.result_buffer.bank_words // rows
    if most < 2:
        return 1
    array = _array_cycles(chip, dtype, rows, cols) * chip.period("pe_array")

    def each(many: int) -> float:
        return drain_interval(chip, options, dtype, many * rows) * period / many

    enough = max(array, HARDLY * each(most))
    return next(many for many in range(1, most + 1) if each(many) <= enough)


def _array_cycles(chip: Chip, dtype: str, rows: int, cols: int) -> int:
    """Return the array's cycles from one turn of a block to the next."""
    array = chip.pe_array
    vectors = max(rows, min(array.min_vectors, cols))
    return max(vectors * array.turn_cycles(dtype), load_reads(chip, rows, cols, dtype))


def strands_cost(chip: Chip, dims: Sequence[int], ways: int, dtype: str) -> int:
    """Return about how many cycles it takes to turn matrices with `ways` rows in a lane.

    dims: [batch..., rows, columns]. Every strand has matrices of its own, of few rows each, so that
    loads of weights count, or the intervals of the engine that copies sums out. Of a type that
    another one carries, the turn back to rows is copied out no faster, which is counted here.
    """
    *batch, rows, cols = dims
    matrices, tall = math.prod(batch) * ways, -(-rows // ways)
    found = turn_cost(chip, (matrices, tall, cols), dtype)
    turns = parts_turned(chip, dtype)
    given = turned_as(chip, dtype)
    taken = carrier(chip, given)
    if taken is None:
        return found
    array = chip.pe_array
    blocks = max(1, turns) * matrices * -(-tall // array.rows) * -(-cols // array.cols)
    back = 0
    if taken not in (dtype, given):
        lines = math.prod(batch) * rows * -(-cols // array.cols)
        back = lines * _drained(chip, taken, array.rows) // array.rows - lines
    return max(found, blocks * _drained(chip, taken, min(tall, array.rows))) + max(0, back)
