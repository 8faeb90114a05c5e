"""Lowering of copies lane by lane whose rows engines interleave by words, with the help of DMA.

Queues and engines meet at the ports of banks, so the result's rows of tiles lie far apart, spread
over all banks but two; the source lies across the end of the first bank, a half for each of two
engines. Not here: what such a copy takes, and its instructions (`cost.rows_by_words`).
"""

from __future__ import annotations

from typing import NamedTuple

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.cost.rows_by_words import PAIRS, rows_by_words
from systolic.compiler.cost.side_by_side import shared_ticks
from systolic.compiler.ir.arrangement import Arrangement
from systolic.hw.datatypes import data_type
from systolic.isa import Access, Buffer, Copy

FEWER = 1.05
"""Rows go by words if engines that share the copy take so many times as long."""
FEWEST_BANKS = 8
"""Two of the source, and three for each of two engines."""
ALIGNMENT = 4
"""Rows of tiles begin at whole words."""


class WordRows(NamedTuple):
    """Where source and result begin, and about how many of the array's cycles the copy takes.

    width: the elements of a partition from one row of tiles of the result to the next.
    """

    source_byte: int
    result_byte: int
    width: int
    cycles: int


def word_rows(planner: Planner, plan: Arrangement) -> WordRows | None:
    """Return where whole tensors lie whose rows go by words; None if that is not worth it."""
    chip, buffer = planner.chip, planner.chip.state_buffer
    size, lines = data_type(plan.move.dtype).size_bytes, planner.tiles(plan)
    together, apart = planner.engine_columns(plan)
    even = lines % 2 == 0 and plan.count(plan.rows_in) % lines == 0
    if size not in PAIRS or plan.batch or apart or not even or planner.options.drain_engine:
        return None
    banks, columns = buffer.bytes_per_partition // buffer.bank_bytes, plan.count(plan.cols_in)
    half = lines // 2 * columns * size
    far = (banks - 2) * buffer.bank_bytes // lines // ALIGNMENT * ALIGNMENT
    if banks < FEWEST_BANKS or 2 * half > buffer.bank_bytes or far <= columns * size:
        return None
    lone = planner.engine_copy(plan, together)

    def placed(source: int, target: int, width: int) -> Copy:
        sides = [
            Access(Buffer.STATE, plan.move.dtype, 0, lone.rows, at, ((step, lines), *pattern))
            for at, step, pattern in (
                (source, columns, lone.source),
                (target, width, lone.target),
            )
        ]
        return Copy(engine=next(iter(chip.lane_engines)), source=sides[0], target=sides[1])

    first = buffer.bank_bytes - half
    usual = shared_ticks(chip, placed(first, first + 2 * buffer.bank_bytes, columns))
    found = rows_by_words(chip, placed(first, 2 * buffer.bank_bytes, far // size))
    if found is None or found.ticks * FEWER > usual:
        return None
    cycles = -(-found.ticks // chip.period("pe_array"))
    return WordRows(first, 2 * buffer.bank_bytes, far // size, cycles)
