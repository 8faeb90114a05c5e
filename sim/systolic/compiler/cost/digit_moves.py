"""Estimates for a move between two places on the chip in rectangles, and whether the chip does it.

Not here: which rectangles these are (`ir.on_chip.digit_moves`), and the choice of places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from systolic.compiler.cost.engines import (
    WORD_BYTES,
    drain_engine,
    engine_cycles,
    engines_able,
    in_best_words,
    lane_copy_engines,
)
from systolic.compiler.cost.side_by_side import shared_ticks
from systolic.compiler.cost.turns import carrier, cast_ticks, parts_turned, turned_as
from systolic.compiler.ir.on_chip.digit_moves import MovePiece, PieceEnd
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import MAX_PAIRS, Pattern
from systolic.workload.options import Options

MOST_INSTRUCTIONS = 4000
"""The most copies and turns of a move."""
SLOWER = 1.1
"""Matrices are cast each by itself if that takes an engine at most this many times as long."""
CAST_TOGETHER = 512
"""About how many columns of a tile one copy casts."""


def digit_move_cycles(
    chip: Chip, options: Options, pieces: Sequence[MovePiece], dtype: str, columns: int
) -> int | None:
    """Return about how many of the array's cycles pieces take; None if the chip does not do one.

    columns: element places of the source in each partition, which are cast if a type carries it.
    """
    ticks, copies = 0, dict[str, int]()
    turned = [piece for piece in pieces if piece.turned]
    size = max(1, parts_turned(chip, dtype))
    if sum(p.matrices * (size if p.turned else 1) for p in pieces) > MOST_INSTRUCTIONS:
        return None
    for piece in pieces:
        if piece.turned:
            found = _turn_ticks(chip, options, piece, dtype)
            if found is None:
                return None
            ticks += found
        elif not _add_copies(chip, piece, dtype, copies):
            return None
    if turned and carrier(chip, turned_as(chip, dtype)) != turned_as(chip, dtype):
        ticks = _with_casts(chip, turned, dtype, columns, ticks)
    return max(ticks, *copies.values(), 0) // chip.period("pe_array")


def shared_move_cycles(
    chip: Chip, options: Options, pieces: Sequence[MovePiece], dtype: str, sides: tuple[int, int]
) -> int | None:
    """Return about how many of the array's cycles copies take that engines make side by side.

    They may if nothing else is to be done: source and result lie across two banks each. None if the
    options name an engine, or the array turns a piece.

    sides: element places of the source, and of the result, in each partition.
    """
    if options.drain_engine or any(piece.turned for piece in pieces):
        return None
    bank, size = chip.state_buffer.bank_bytes, data_type(dtype).size_bytes
    starts, next_ = [], 0
    for columns in sides:
        half = columns * size // 2 // WORD_BYTES * WORD_BYTES
        starts.append((next_ + -(-half // bank)) * bank - half)
        next_ = -(-(starts[-1] + columns * size) // bank)
    ticks = 0.0
    for piece in pieces:
        both = (piece.source, piece.result)
        patterns = [_pattern(replace(end, cols=(*end.batch, *end.cols))) for end in both]
        if max(map(len, patterns)) > MAX_PAIRS:
            return None
        source, target = (
            Access(Buffer.STATE, dtype, end.down, piece.rows, start + end.first * size, pattern)
            for end, start, pattern in zip(both, starts, patterns, strict=True)
        )
        copy = Copy(engine="", source=source, target=target)
        made = [replace(copy, engine=name) for name in lane_copy_engines(chip, copy)]
        if not made:
            return None
        ticks += min(shared_ticks(chip, in_best_words(chip, each)) for each in made)
    return int(ticks) // chip.period("pe_array")


def casts_apart(chip: Chip, turned: Sequence[MovePiece], dtype: str, columns: int) -> bool:
    """Return whether each matrix is cast by itself, rather than all columns in their order.

    So the array begins when the first matrix is cast, wherever its columns lie. Matrices of few
    columns would take more copies.

    turned: the pieces that the array turns. columns: element places of the source in a partition.
    """
    if not turned or carrier(chip, dtype) in (None, dtype):
        return False
    return _each_cast(chip, turned, dtype) <= SLOWER * cast_ticks(chip, dtype, columns)[0]


def _each_cast(chip: Chip, turned: Sequence[MovePiece], dtype: str) -> int:
    return sum(
        piece.matrices * cast_ticks(chip, dtype, piece.cols, _pattern(piece.source))[0]
        for piece in turned
    )


def _with_casts(
    chip: Chip, turned: Sequence[MovePiece], dtype: str, columns: int, ticks: int
) -> int:
    """Return the ticks of turns and of the casts before them, given the ticks of the turns."""
    given, parts = turned_as(chip, dtype), max(1, parts_turned(chip, dtype))
    casts, one_engine = cast_ticks(chip, given, parts * columns)
    first = min(casts, -(-casts * _reach(turned[0]) // (parts * columns)))
    if not parts_turned(chip, dtype) and casts_apart(chip, turned, dtype, columns):
        casts = _each_cast(chip, turned, dtype)
        first = casts // sum(piece.matrices for piece in turned)
    return ticks + casts if one_engine else max(ticks, casts) + first


def _reach(piece: MovePiece) -> int:
    """Return about how many columns are cast before the first matrix of a piece is."""
    across = 1 + sum((size - 1) * step for size, step in piece.source.cols)
    return -(-across // CAST_TOGETHER) * CAST_TOGETHER


def _turn_ticks(chip: Chip, options: Options, piece: MovePiece, dtype: str) -> int | None:
    """Return the ticks of the array, or of the engine that copies sums out: the longer time."""
    turns = parts_turned(chip, dtype)
    given = turned_as(chip, dtype)
    taken = carrier(chip, given)
    if taken is None:
        return None
    rows, cols = min(piece.rows, chip.pe_array.rows), min(piece.cols, chip.pe_array.cols)
    many = -(-piece.rows // rows) * -(-piece.cols // cols) * piece.matrices * max(1, turns)
    passes = chip.pe_array.turns_by_passing(taken)
    kind = taken if passes else data_type(taken).accumulator
    name = drain_engine(chip, options)
    drain = Copy(
        engine=name,
        source=Access(Buffer.RESULT, kind, 0, cols, 0, ((1, rows),)),
        target=Access(
            Buffer.STATE, given, piece.result.down, cols, 0, _drained(chip, piece, turns)
        ),
    )
    if name not in engines_able(chip, drain):
        return None
    each = max(rows * chip.pe_array.turn_cycles(taken), load_reads(chip, rows, cols, taken))
    ticks = many * max(each * chip.period("pe_array"), engine_cycles(chip, name, drain)
                       * chip.period(name))  # fmt: skip
    return ticks + (result_cycles(chip, cols) + rows) * chip.period("pe_array")


def _drained(chip: Chip, piece: MovePiece, parts: int) -> Pattern:
    """Return how the elements of a turn lie in a row of the result; parts: of each element."""
    if piece.rows > chip.pe_array.rows:  # one dimension, and the array takes a part of it
        ((_, step),) = piece.result.cols
        return ((step * max(1, parts), chip.pe_array.rows),)
    return tuple((step * max(1, parts), size) for size, step in piece.result.cols) or ((1, 1),)


def _add_copies(chip: Chip, piece: MovePiece, dtype: str, busy: dict[str, int]) -> bool:
    """Add the ticks of a piece's copies to an engine; return whether the chip has one for them."""
    ends = [
        Access(Buffer.STATE, dtype, end.down, piece.rows, 0, _pattern(end))
        for end in (piece.source, piece.result)
    ]
    copy = Copy(engine="", source=ends[0], target=ends[1])
    able = engines_able(chip, copy)
    if not able:
        return False
    ticks = {
        name: busy.get(name, 0)
        + piece.matrices * engine_cycles(chip, name, copy) * chip.period(name)
        for name in able
    }
    name = min(ticks, key=lambda name: ticks[name])
    busy[name] = ticks[name]
    return True


def _pattern(end: PieceEnd) -> tuple[tuple[int, int], ...]:
    return tuple((step, size) for size, step in end.cols) or ((1, 1),)
