"""Estimates for the legs of a relay: runs that go by DMA, and elements that change their order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from systolic.compiler.cost.dma import inside_cycles
from systolic.compiler.cost.engines import WORD_BYTES
from systolic.compiler.cost.moves import moving_engine
from systolic.compiler.ir.change_of_view import ChangeOfView, Piece
from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.relays import BoxStep, copies_of_lanes
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import queue_rate
from systolic.hw.spec import Chip
from systolic.workload.options import Options


def leg_ticks(chip: Chip, options: Options, leg: ChangeOfView, dtype: str) -> int:
    """Return about how many ticks all queues and engines take for the pieces of a leg.

    Engines wait for one another at the port of a tile's bank, so each piece has the fastest one,
    and they take their turns. Queues that share all DMA engines are together no faster than one.
    """
    copies = ports = longest = engines = 0
    size_bytes = data_type(dtype).size_bytes
    for piece in leg.given:
        taken: dict[str, int] = {}
        if leg.sent or moving_engine(chip, options, piece, dtype, taken) is None:
            runs = piece.rows * piece.columns // piece.run
            cycles = inside_cycles(chip, runs, piece.run * size_bytes, piece.rows)
            copies, longest = copies + cycles, max(longest, cycles)
            ports += _at_port(chip, runs, piece.run * size_bytes)
        engines += sum(taken.values())
    return max(_of_all_queues(chip, copies, max(ports, longest)), engines)


def sent_ticks(chip: Chip, count: int, run: int, size_bytes: int) -> int:
    """Return about how many ticks all queues take to send `count` elements in runs of `run`."""
    runs, size = count // run, run * size_bytes
    return _of_all_queues(chip, inside_cycles(chip, runs, size), _at_port(chip, runs, size))


def rough_ticks(chip: Chip, steps: Sequence[BoxStep], size_bytes: int) -> int:
    """Return about how many ticks a leg takes, if it is one box: sent, or copied by an engine.

    steps: its digits. An engine copies what stays in its lanes.
    """
    if all(step.source == step.result for step in steps):
        return 0
    run = 1
    for step in sorted(steps, key=lambda step: step.source):
        if step.source == step.result == run:
            run *= step.size
    ticks = sent_ticks(chip, math.prod(step.size for step in steps), run, size_bytes)
    copies = copies_of_lanes(steps) - 1
    ticks += _of_all_queues(chip, copies * chip.dma.latency_cycles, 0)
    if not keeps_lanes(steps):
        return ticks
    columns = math.prod(step.size for step in steps if step.source < LANE)
    cycles = columns * size_bytes // _word_bytes(steps, size_bytes)
    return min(ticks, cycles * min(map(chip.period, chip.lane_engines)))


def _word_bytes(steps: Sequence[BoxStep], size_bytes: int) -> int:
    """Return the bytes of a word in which a leg may be copied: elements side by side on both sides.

    Words lie at multiples of their bytes, so all distances are such multiples too.
    """
    alike, apart = 1, list[BoxStep]()
    for step in sorted(steps, key=lambda step: step.source):
        if step.source == step.result == alike:
            alike *= step.size
        else:
            apart.append(step)
    places = [alike, *(at for step in apart for at in step[1:])]
    return math.gcd(WORD_BYTES, *(at * size_bytes for at in places))


def keeps_lanes(steps: Sequence[BoxStep]) -> bool:
    """Return whether all elements of a leg stay in their lanes."""
    return all(s.source == s.result for s in steps if max(s.source, s.result) >= LANE)


def _at_port(chip: Chip, runs: int, size: int) -> int:
    """Return the cycles in which runs of `size` bytes hold the port of a bank, one after another.

    Engines that share out each copy by partition are no faster together than the port.
    """
    return 0 if chip.dma.is_spread else runs * -(-size // queue_rate(chip, 1))


def _of_all_queues(chip: Chip, cycles: int, ports: int) -> int:
    """Return the ticks of all queues for copies that take one queue `cycles`.

    ports: those in which bytes move. All places of a tensor mostly lie in one bank, at whose port
    queues wait for one another.
    """
    queues = 1 if chip.dma.is_spread else chip.dma.useful_queues
    return max(-(-cycles // queues), ports) * chip.period("dma")


def cheaper_leg(
    chip: Chip, options: Options, leg: ChangeOfView, dtype: str
) -> tuple[ChangeOfView, int]:
    """Return a leg as engines do it, as far as they can, or as queues do it; and its ticks.

    Each queue has a piece then. Where all DMA engines share each copy, one queue is enough.
    """
    ways = 1 if chip.dma.is_spread else -(-chip.dma.useful_queues // max(1, len(leg.given)))
    pieces = tuple(part for piece in leg.given for part in _by_rows(piece, ways))
    forms = leg, replace(leg, given=pieces, sent=True)
    ticks = [leg_ticks(chip, options, form, dtype) for form in forms]
    return (forms[0], ticks[0]) if ticks[0] < ticks[1] else (forms[1], ticks[1])


def _by_rows(piece: Piece, ways: int) -> Iterator[Piece]:
    """Yield a piece in about `ways` parts of its rows."""
    together = min(piece.rows, piece.source_rows)
    share = -(-together // ways)
    into, out_of = piece.rows // together, piece.source_rows // together
    for first in range(0, together, share):
        count = min(share, together - first)
        yield replace(
            piece,
            row=piece.row + first * into,
            rows=count * into,
            source_row=piece.source_row + first * out_of,
            source_rows=count * out_of,
        )
