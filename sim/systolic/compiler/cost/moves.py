"""Estimates for a change of view on the chip, and the choice of pieces that an engine copies."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

from systolic.compiler.cost.dma import inside_cycles
from systolic.compiler.cost.engines import (
    WORD_BYTES,
    cheapest_engine,
    engine_cycles,
    in_best_words,
    lane_copy_engines,
)
from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.compiler.ir.change_of_view import ChangeOfView, Piece, pieces
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.engines import pace_of
from systolic.spans import Span
from systolic.workload.options import Options

SAMPLE_COLUMNS = 512
"""The most columns of a matrix that an estimate looks at."""

SAMPLE_TILES = 64
"""The most source tiles whose pieces it looks at: what they take stands for all."""

UNLIMITED = sys.maxsize
"""A limit of cycles that nothing reaches."""


def moving_engine(
    chip: Chip, options: Options, piece: Piece, dtype: str, busy: dict[str, int]
) -> str | None:
    """Return the engine that copies a piece, None if a DMA queue is faster.

    busy: the ticks that each engine has been given so far; they count, and are updated. An engine
    whose lanes are independent gets all pieces: it does the pieces of other lanes at once, and
    would wait for another engine at the ports.
    """
    if piece.source_rows != piece.rows:
        return None
    size = data_type(dtype).size_bytes
    form = replace(
        piece, col=piece.col * size % WORD_BYTES, source_col=piece.source_col * size % WORD_BYTES
    )
    movers = LAST_CHIP.of(_movers, chip, form, dtype)
    if not movers:
        return None
    chosen = [each for each in movers if each.engine == options.drain_engine]
    found = min(chosen or movers, key=lambda each: each.ticks)
    if not chosen and not chip.engine(found.engine).independent_lanes:
        found = min(movers, key=lambda each: busy.get(each.engine, 0) + each.ticks)
    if found.last_cycles > _dma(chip, piece, size):
        return None
    busy[found.engine] = busy.get(found.engine, 0) + found.ticks
    return found.engine


class _Mover(NamedTuple):
    """An engine that may copy a piece: its ticks until the next one, its cycles until the end."""

    engine: str
    ticks: int
    last_cycles: int


def _movers(chip: Chip, form: Piece, dtype: str) -> tuple[_Mover, ...]:
    """Return the engines that may copy a piece, each in its best words.

    form: the piece, its columns counted in bytes from a whole word. Many pieces have one form.
    """
    source = Access(Buffer.STATE, dtype, form.source_row, form.rows, form.source_col, form.pairs)
    target = Access(Buffer.STATE, dtype, form.row, form.rows, form.col, form.into)
    copy = Copy(engine="", source=source, target=target)
    found = list[_Mover]()
    for name in lane_copy_engines(chip, copy):
        engine, work = chip.engine(name), in_best_words(chip, replace(copy, engine=name))
        pace = pace_of(work, engine, chip)
        last = pace.fixed_cycles + pace.cycles_for(work.target.elements) + engine.latency_cycles
        found.append(_Mover(name, engine_cycles(chip, name, work) * chip.period(name), last))
    return tuple(found)


def lane_copy(
    chip: Chip,
    options: Options,
    source: Access,
    target: Access,
    *,
    busy: dict[str, int],
    dma_ticks: int,
) -> Copy | None:
    """Return a copy lane by lane, on the engine that will be free first; None if DMA is faster.

    busy: the ticks that each engine has been given so far; they are updated. dma_ticks: when a
    queue would be done with the copy, counted likewise. The engine's time is for the given
    elements, though it may take words (`in_best_words`): if more copies go to engines, they hold up
    what else stands in an engine's queue. Digits_cnn_int8 takes 651,283 cycles so, and 685,589 if
    the time is for words.
    """
    copy = Copy(engine="", source=source, target=target)
    if not lane_copy_engines(chip, copy):
        return None
    engine = cheapest_engine(chip, options, copy, busy)
    done = busy.get(engine, 0) + engine_cycles(chip, engine, copy) * chip.period(engine)
    if done > dma_ticks:
        return None
    busy[engine] = done
    return replace(copy, engine=engine)


def bands_of_copy(chip: Chip, rows: int, cols: int, size_bytes: int) -> int:
    """Return into how many bands of columns copies by DMA on the chip are cut: 1 if into none.

    rows, cols: of elements of `size_bytes` that one copy moves. A band waits for the latency and
    for the descriptors of its rows, and then moves bytes for about as long or longer. Engines
    that are as fast copy piece by piece without any latency, so that bands would be of no use.
    """
    wait, whole = (inside_cycles(chip, rows, n * size_bytes, rows) for n in (1, cols))
    lanes = cols * min(map(chip.period, chip.lane_engines), default=0)
    if lanes and lanes <= whole * chip.period("dma"):
        return 1
    return max(1, -(-(whole - wait) // wait))


def copy_ticks(chip: Chip, rows: int, cols: int, size_bytes: int) -> int:
    """Return the ticks of a copy of rows on the chip, by a queue or lane by lane by an engine.

    Engines and queues work side by side, so what it takes is a share of theirs.
    """
    dma = inside_cycles(chip, rows, cols * size_bytes, rows) * chip.period("dma")
    lanes = cols * min(map(chip.period, chip.lane_engines), default=dma)
    return min(dma // chip.dma.useful_queues, lanes // max(1, len(chip.lane_engines)))


def _dma(chip: Chip, piece: Piece, size_bytes: int) -> int:
    runs = piece.rows * piece.columns // piece.run
    return inside_cycles(chip, runs, piece.run * size_bytes, piece.rows)


def move_cost(
    chip: Chip, options: Options, change: ChangeOfView, dtype: str, limit: int = UNLIMITED
) -> int:
    """Return about how many of the array's cycles a change of view takes, or some from `limit` on.

    It is judged by the target's first tile, and of the source tiles that it has elements of by some
    at even distances. The sum only grows from tile to tile, so the rest is not looked at once it
    has reached the limit.
    """
    count, rows, cols = change.target.sizes()
    p = block_rows(chip)
    block = min(rows, p), min(cols, SAMPLE_COLUMNS)
    logical = change.target.logical(0, Span(0, block[0]), Span(0, block[1]))
    number, down, across = change.source.locate(logical)
    engines: dict[str, int] = {}
    queues, size_bytes = 0, data_type(dtype).size_bytes
    tiles = sorted({*zip(number.ravel().tolist(), (down // p).ravel().tolist(), strict=True)})
    seen = tiles[:: -(-len(tiles) // SAMPLE_TILES)]
    blocks = -(-count * rows * cols // (block[0] * block[1]))
    cycles = 0
    for tile in seen:
        here = (number == tile[0]) & (down // p == tile[1])
        for piece in pieces(down % p, across, here):
            if moving_engine(chip, options, piece, dtype, engines) is None:
                queues += _dma(chip, piece, size_bytes)
        share = -(-queues // chip.dma.useful_queues) * chip.period("dma")
        ticks = max(share, *engines.values(), 0) * len(tiles)
        cycles = -(-ticks // (chip.period("pe_array") * len(seen))) * blocks
        if cycles >= limit:
            break
    return cycles
