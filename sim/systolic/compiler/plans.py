"""Plans: tiles and their schedule (passes two to four), in the largest tiles that have room.

Tiles and loops are chosen for a size of the state buffer. If the tiles of a task have no room
together, or tiles must leave before their last use, the same graph is planned as if there were less
memory, although its tiles may always lie in all of it. The plan that copies the fewest bytes is
taken. So are products from DRAM with rows to open planned, in which the lengths of a tile's runs
decide how much its queues lose to one another: there the plan of the lowest estimate is taken
(`pace`). The sizes are powers of two and numbers halfway between, so that a larger buffer gets
every plan that a smaller one may have.

The plan divides the DMA queues between what comes and what goes. It is made once more with stores
that stand behind further loads, so that every queue can do both (`tile.late_stores`). If the
estimate of that is lower, the judge decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from systolic.compiler.cost.pace import estimated_ticks
from systolic.compiler.ir.drafts import Draft
from systolic.compiler.ir.nodes import Layers, MultiplyNode
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.tasks import Tiled
from systolic.compiler.schedule.schedule import Scheduled, schedule
from systolic.compiler.streams.plan import TickJudge
from systolic.compiler.sync.semaphores import synchronise_drafts
from systolic.compiler.tile.cut import cut_tiles
from systolic.compiler.tile.flow import MOST_TASKS, in_order_of_flow, waits_for_engines
from systolic.compiler.tile.late_stores import brings_and_stores, with_late_stores
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.isa import DmaCopy, Program
from systolic.workload.options import Options

OCTAVES = 8
"""How far below the state buffer's size plans are tried."""

MOST_TRIED = 8_000
"""Instructions of all plans together: compiling must not take long for a better program."""

LEAST_BYTES = 1
"""So few bytes to plan with make tiles and groups of sums as small as possible."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Tiles and schedule for a size of the state buffer's partitions.

    cycles: an estimate of the array's cycles it takes; 0 if there was no choice.
    """

    room_bytes: int
    tiled: Tiled
    scheduled: Scheduled
    cycles: int = 0


def best_plan(layers: Layers, chip: Chip, options: Options, judge: TickJudge | None = None) -> Plan:
    """Return the plan of the largest tiles that have room, its queues divided or not.

    judge: returns the ticks that a program takes (None: estimates must do).

    Raises CompileError if the tiles of a task have no room together even if they are the smallest.
    """
    plan = _divided(layers, chip, options)
    short = len(plan.scheduled.drafts) <= MOST_TRIED and not plan.scheduled.evictions
    late = _storing_late(plan, layers, chip, options) if short else None
    if late is None:
        return plan
    divided = _rated(plan, chip)
    if late.cycles >= divided.cycles:
        return divided
    if judge is None:
        return late
    ticks = judge(_program(divided, chip), None)
    return late if judge(_program(late, chip), ticks) < ticks else divided


def _program(plan: Plan, chip: Chip) -> Program:
    return synchronise_drafts("judged", plan.scheduled.drafts, chip).program


def _storing_late(plan: Plan, layers: Layers, chip: Chip, options: Options) -> Plan | None:
    """Return the plan of the same tiles whose queues bring and store; None if tiles must leave.

    A store stands behind the loads of as many tiles as there are queues: of one tile for each.
    """
    queues = chip.dma.useful_queues
    if queues == 1 or not brings_and_stores(plan.tiled, layers):
        return None
    tiled = with_late_stores(plan.tiled, layers, queues)
    try:
        scheduled = schedule(layers, tiled, chip, options, both_ways=True, evicts=False)
    except CompileError:
        return None
    return _rated(Plan(plan.room_bytes, tiled, scheduled), chip)


def _rated(plan: Plan, chip: Chip) -> Plan:
    ticks = estimated_ticks(plan.scheduled.drafts, chip)
    return replace(plan, cycles=ticks // chip.period("pe_array"))


def _divided(layers: Layers, chip: Chip, options: Options) -> Plan:
    """Return the plan whose queues are divided by direction.

    It has the largest tiles that have room or, if tiles must leave, copies the fewest bytes. Of
    products from DRAM with rows to open it has the lowest estimate.
    """
    have = chip.state_buffer.bytes_per_partition
    first = cut_tiles(layers, chip, options)
    if (flowing := _flowing_plan(layers, first, chip, options)) is not None:
        return flowing
    if _has_images(layers):  # tiles are whole images, whatever there is room for
        return Plan(have, first, schedule(layers, first, chip, options))
    found, spent, opens_rows = list[Plan](), 0, _opens_rows(layers, chip)
    for plan in _plans(layers, chip, options):
        if not plan.scheduled.evictions and not found and not opens_rows:
            return plan
        found.append(plan)
        spent += len(plan.scheduled.drafts)
        if spent > MOST_TRIED:
            break
    if opens_rows:
        best = min((_rated(plan, chip) for plan in found), key=attrgetter("cycles"), default=None)
    else:
        best = min(found, key=lambda plan: _copied_bytes(plan.scheduled.drafts), default=None)
    return best or _least(layers, chip, options)


def _opens_rows(layers: Layers, chip: Chip) -> bool:
    """Return whether products take operands from DRAM that has rows to open."""
    products = any(isinstance(node, MultiplyNode) for node in layers.nodes)
    return products and bool(layers.dram) and chip.dram.organisation is not None


def _plans(layers: Layers, chip: Chip, options: Options) -> Iterator[Plan]:
    """Yield the plans that have room, from the largest tiles to the smallest, without repeats."""
    seen = list[Tiled]()
    have = chip.state_buffer.bytes_per_partition
    for room_bytes in (have, *sizes_below(have)):
        tiled = cut_tiles(layers, chip, options, room_bytes)
        if tiled in seen:
            continue
        seen.append(tiled)
        if (scheduled := _scheduled(layers, tiled, chip, options)) is not None:
            yield Plan(room_bytes, tiled, scheduled)


def _has_images(layers: Layers) -> bool:
    """Return whether products go over images: their tiles are whole images, cut no smaller."""
    return any(isinstance(matrix.window, PixelWindow) for matrix in layers.matrices)


def _flowing_plan(layers: Layers, tiled: Tiled, chip: Chip, options: Options) -> Plan | None:
    """Return the plan of the same tasks in the order of flow, if that helps and no tile must leave.

    More tiles are on the chip then: tiles of several matrices, each at another stage.
    """
    if len(tiled.tasks) > MOST_TASKS or not waits_for_engines(layers):
        return None
    flowing = in_order_of_flow(tiled, layers, chip)
    scheduled = _scheduled(layers, flowing, chip, options, evicts=False)
    if scheduled is None:
        return None
    return Plan(chip.state_buffer.bytes_per_partition, flowing, scheduled)


def _scheduled(
    layers: Layers, tiled: Tiled, chip: Chip, options: Options, *, evicts: bool = True
) -> Scheduled | None:
    """Return the schedule in all bytes, None if the tiles of a task have no room together."""
    try:
        return schedule(layers, tiled, chip, options, evicts=evicts)
    except CompileError:
        return None


def _copied_bytes(drafts: Sequence[Draft]) -> int:
    copies = (draft.instruction for draft in drafts)
    return sum(copy.source.size_bytes for copy in copies if isinstance(copy, DmaCopy))


def sizes_below(size_bytes: int) -> Iterator[int]:
    """Yield the powers of two and the sizes halfway between them, from a size downwards."""
    power = 1 << size_bytes.bit_length() - 1
    for octave in range(OCTAVES):
        for size in (power * 3 // 2 >> octave, power >> octave):
            if 0 < size < size_bytes:
                yield size


def _least(layers: Layers, chip: Chip, options: Options) -> Plan:
    """Return the plan of the smallest tiles, the only one that may have room.

    Raises CompileError if even these tiles have no room.
    """
    tiled = cut_tiles(layers, chip, options, LEAST_BYTES)
    try:
        return Plan(LEAST_BYTES, tiled, schedule(layers, tiled, chip, options))
    except CompileError as error:
        if options.tile_columns is None and not options.asks_for_groups:
            raise
        hint = "smaller tiles (compile.tile_columns, compile.group) may fit"
        raise CompileError(f"{error}; {hint}") from None
