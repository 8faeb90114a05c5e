"""Estimates for a change of view on the chip, and the choice of pieces that an engine copies."""

from __future__ import annotations

from systolic.compiler.cost.dma import inside_cycles
from systolic.compiler.ir.change_of_view import Change, Piece, pieces
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.hw.formulas.timing import engine_reads
from systolic.hw.spec import Chip, Engine
from systolic.spans import Span
from systolic.workload.options import Options

SAMPLE_COLUMNS = 512
"""Of a matrix, looked at for an estimate."""


def by_engine(chip: Chip, options: Options, piece: Piece, size_bytes: int) -> bool:
    """Return whether an engine can copy a piece, and faster than a DMA queue."""
    engine: Engine = getattr(chip, options.drain_engine)
    if piece.source_rows != piece.rows:
        return False
    alone = engine.fixed_cycles + engine_reads(engine, piece.cols) + engine.latency_cycles
    return alone <= _dma(chip, piece, size_bytes)


def _dma(chip: Chip, piece: Piece, size_bytes: int) -> int:
    runs = piece.rows * piece.cols // piece.run
    return inside_cycles(chip, runs, piece.run * size_bytes)


def move_cost(chip: Chip, options: Options, change: Change, size_bytes: int) -> int:
    """Return about how many cycles a change of view takes, judged by the target's first tile."""
    count, rows, cols = change.target.sizes()
    p = block_rows(chip)
    block = min(rows, p), min(cols, SAMPLE_COLUMNS)
    logical = change.target.logical(0, Span(0, block[0]), Span(0, block[1]))
    number, down, across = change.source.locate(logical)
    cycles = {True: 0, False: 0}
    for tile in {*zip(number.ravel().tolist(), (down // p).ravel().tolist(), strict=True)}:
        here = (number == tile[0]) & (down // p == tile[1])
        for piece in pieces(down % p, across, here):
            if by_engine(chip, options, piece, size_bytes):
                engine: Engine = getattr(chip, options.drain_engine)
                cycles[True] += engine.fixed_cycles + engine_reads(engine, piece.cols)
            else:
                cycles[False] += _dma(chip, piece, size_bytes)
    share = -(-cycles[False] // chip.dma.queues)
    return max(cycles[True], share) * -(-count * rows * cols // (block[0] * block[1]))
