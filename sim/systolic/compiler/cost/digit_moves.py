"""Estimates for a move between two places on the chip in rectangles, and whether the chip does it.

Not here: which rectangles these are (`ir.digit_moves`), and the choice of places.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.compiler.cost.engines import drain_engine, engine_cycles, engines_able
from systolic.compiler.cost.turns import carrier, casts_beside, parts_turned, turned_as
from systolic.compiler.ir.digit_moves import MovePiece, PieceEnd
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.workload.options import Options

MOST_INSTRUCTIONS = 4000
"""The most copies and turns of a move."""


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
    given = turned_as(chip, dtype)
    if turned and carrier(chip, given) != given:
        casts = size * columns * chip.period(drain_engine(chip, options))
        ticks = max(ticks, casts) if casts_beside(chip, given) else ticks + casts
    return max(ticks, *copies.values(), 0) // chip.period("pe_array")


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
        target=Access(Buffer.STATE, given, piece.result.down, cols, 0, ((1, rows),)),
    )
    if name not in engines_able(chip, drain):
        return None
    each = max(rows * chip.pe_array.turn_cycles(taken), load_reads(chip, rows, cols, taken))
    ticks = many * max(each * chip.period("pe_array"), engine_cycles(chip, name, drain)
                       * chip.period(name))  # fmt: skip
    return ticks + (result_cycles(chip, cols) + rows) * chip.period("pe_array")


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
