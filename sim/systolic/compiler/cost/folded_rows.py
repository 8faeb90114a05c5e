"""Estimates for a product whose operands come from DRAM, in pieces of some size and number.

Few long runs cost few descriptors, but a long run is a large piece: the array waits for the first
one, and with the last one it can do only what is left. Not here: which pieces there may be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from systolic.compiler.cost.dma import bus_cost, load_cost, wastes_bursts
from systolic.compiler.ir.nodes import Axes
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import dma_latency_cycles
from systolic.hw.spec import Chip
from systolic.layout import Shape

WHOLE_RUNS = 128, 1 << 16
"""The rows and columns of a matrix that these estimates look at: the length of runs counts, and how
many engines of DMA serve as many partitions at once."""


@dataclass(frozen=True, slots=True)
class Coming:
    """An operand that comes from DRAM.

    queue_cycles: of all DMA queues together, latencies included. pieces: how many come one after
    another. sharing: the queues that bring each of them together. turn_cycles: of the array, to
    turn all of it. at_once: the product begins when all of it is there, and turned.
    """

    queue_cycles: int
    pieces: int
    sharing: int
    turn_cycles: int = 0
    at_once: bool = False


NOTHING = Coming(0, 1, 1)
"""An operand that is on the chip."""


def run_cycles(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many cycles of all queues together a place takes, latencies apart.

    What keeps DRAM busy keeps every queue waiting.
    """
    alone, queues = load_cost(chip, shape, axes, WHOLE_RUNS), queues_at_once(chip)
    if wastes_bursts(chip, shape, axes):
        alone = max(alone, bus_cost(chip, shape, axes) * queues)
    return max(alone, least_cycles(chip, shape.size_bytes()) * queues)


def queues_at_once(chip: Chip) -> int:
    """Return how many queues move more bytes than one: where copies are spread, no others do."""
    return 1 if chip.dma.is_spread else chip.dma.useful_queues


def least_cycles(chip: Chip, size_bytes: int) -> int:
    """Return for how many DMA cycles `size_bytes` keep DRAM busy, whatever their runs."""
    return math.ceil(size_bytes / dram_rate(chip, chip.dma.useful_queues))


def in_pieces(
    chip: Chip,
    cycles: int,
    pieces: int,
    sharing: int,
    *,
    turn_cycles: int = 0,
    at_once: bool = False,
) -> Coming:
    """Return how what takes all queues `cycles` comes; a piece is a copy of each queue.

    A queue with several copies in hand waits for the latency of its first one.
    """
    waits = pieces * sharing if chip.dma.outstanding == 1 else sharing
    every = cycles + waits * dma_latency_cycles(chip)
    return Coming(every, pieces, sharing, turn_cycles, at_once)


def there_and_done(chip: Chip, operand: Coming) -> tuple[float, float]:
    """Return when the first piece of an operand is turned, and when all of it is, if it is alone.

    In cycles of the array. What is turned at once has all of its turns behind the first piece.
    """
    queues = queues_at_once(chip)
    sharing = min(operand.sharing, queues)
    first = _in_array_cycles(chip, operand.queue_cycles / operand.pieces / sharing)
    every = _in_array_cycles(chip, operand.queue_cycles / queues)
    turn = operand.turn_cycles / operand.pieces
    return first + (operand.turn_cycles if operand.at_once else turn), every + turn


def end_of_product(
    chip: Chip, operands: tuple[Coming, Coming], work_cycles: int, stored_bytes: int
) -> int:
    """Return about in which of the array's cycles a product ends, whose operands come in turn.

    work_cycles: of the array, for the product alone. stored_bytes: of its result, in DRAM.
    """
    queues = queues_at_once(chip)
    both = all(each.queue_cycles for each in operands)
    shared = len(operands) if both and chip.dma.is_spread else 1  # each gets a part of the engines
    there = moved = waits = 0.0
    rest = float(work_cycles)
    pieces = [each.pieces for each in operands if not each.at_once and each.queue_cycles]
    for each in operands:
        every = _in_array_cycles(chip, each.queue_cycles / queues)
        sharing, turn = min(each.sharing, queues), each.turn_cycles / each.pieces
        first = _in_array_cycles(chip, each.queue_cycles / each.pieces / sharing) * shared
        if each.at_once:
            ready = max(first + each.turn_cycles, every * shared + turn)
            there, waits = max(there, waits + ready), waits + every
        else:
            there, waits = max(there, waits + first + turn), waits + first
            rest += each.turn_cycles - turn
        moved += every
        waits = 0 if shared > 1 else waits
    stored = _in_array_cycles(chip, least_cycles(chip, stored_bytes))
    return round(max(there + rest, moved + max(stored, rest / min(pieces, default=1))))


def _in_array_cycles(chip: Chip, cycles: float) -> float:
    return cycles * chip.period("dma") / chip.period("pe_array")
