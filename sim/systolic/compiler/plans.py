"""Plans for several sizes of the state buffer: the best is taken (passes two to four).

Tiles and loops are chosen for a size of the state buffer. If a graph does not fit as a whole, the
largest tiles that fit are seldom the best: smaller tiles leave room to keep other tiles, and to
bring the next ones. So the same graph is planned as if there were less memory, although its tiles
may always lie in all of it. The plan of the least estimate is taken (`pace`). The sizes are powers
of two and numbers halfway between, so that a larger buffer gets every plan that a smaller one may
have. If everything fits at once, there is one plan. Products from DRAM with channels and banks are
always planned for several sizes: the lengths of a tile's runs decide how much its queues lose to
one another.

The best plan divides the DMA queues between what comes and what goes. Where copies count for most,
it is planned once more with stores that stand behind further loads, so that every queue can do both
(`tile.late_stores`), and a plan without products a third time, with stores behind twice as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from systolic.compiler.cost.dma import run_bytes, time_of
from systolic.compiler.cost.pace import array_ticks, estimated_ticks
from systolic.compiler.ir.drafts import Draft
from systolic.compiler.ir.nodes import Layers, MultiplyNode
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.tasks import Tiled
from systolic.compiler.schedule.schedule import Scheduled, schedule
from systolic.compiler.tile.cut import cut_tiles
from systolic.compiler.tile.flow import MOST_TASKS, in_order_of_flow, waits_for_engines
from systolic.compiler.tile.late_stores import brings_and_stores, with_late_stores
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy
from systolic.workload.options import Options

OCTAVES = 8
"""How far below the state buffer's size plans are tried."""

MOST_TRIED = 8_000
"""Instructions of all plans after the first together: compiling must not take long for a better
program.
"""

NEAR = 1.05
"""A first plan of at most this many times the array's time for all vectors is taken at once: no
other plan can be much better.
"""

ALIKE = 1.05
"""Estimates that differ by less say nothing where the queues disturb one another in DRAM.

Measured over 41 products and sizes of the state buffer on ddr4_128x128: 14 get a better plan, by 5
to 24 % of the cycles, and three a worse one, by 1, 15 and 17 %.
"""

MOST_BOTH_WAYS = 6000
"""The most instructions of a plan that is made once more with queues that bring and store."""

MOVING = 0.4
"""The least part of a plan's cycles for which a DMA queue is busy, if queues are to do both. With
less the array or the engines count.
"""

NOTABLY = 1.03
"""How many times less the estimate must be for queues to bring and store."""

LATER = 1.035
"""How many times less the estimate must be for stores to stand behind twice as many loads."""

SHORT = 0.125
"""The most of all bytes that may lie in runs of less than a burst of DRAM if queues are to do both.

With 1 and 9 % of them two random works on hbm3_128x128 gain 21 and 4 %; with half of them another
takes three times as long.
"""

UNEVEN = 1.05
"""How much more than a fair part one queue must have to do where queues have one burst in hand.

On ddr4_128x128 a transpose of 512 x 512 float32 whose queues are even takes 6 to 10 % longer if all
bring and store, and three random works with 1.09 take 7, 31 and 43 % less.
"""

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


def best_plan(layers: Layers, chip: Chip, options: Options) -> Plan:
    """Return the plan of the least estimate.

    Raises CompileError if the tiles of a task have no room together even if they are the smallest.
    """
    plan = _best_divided(layers, chip, options)
    if not _may_store_late(plan, layers, chip):
        return plan
    divided = _rated(plan.room_bytes, plan.tiled, plan.scheduled, chip)
    if not _may_gain(divided, chip):
        return plan
    other = _both_ways(plan, layers, chip, options)
    return other if other and other.cycles * NOTABLY < divided.cycles else plan


def _both_ways(plan: Plan, layers: Layers, chip: Chip, options: Options) -> Plan | None:
    """Return the plan of the same tiles whose queues bring and store; None if tiles must leave.

    A store stands behind the loads of as many tiles as there are queues: of one tile for each. In a
    move it stands behind the loads of twice as many if that is better.
    """
    queues = chip.dma.useful_queues
    late = _storing_late(plan, layers, chip, options, queues)
    if late is None or any(isinstance(node, MultiplyNode) for node in layers.nodes):
        return late
    later = _storing_late(plan, layers, chip, options, 2 * queues)
    if later is None or later.tiled == late.tiled:
        return late
    margin = 1 if _waits_for_latencies(late, chip) else LATER
    return later if later.cycles * margin <= late.cycles else late


def _storing_late(
    plan: Plan, layers: Layers, chip: Chip, options: Options, late: int
) -> Plan | None:
    """Return the plan whose stores stand behind the loads of `late` tiles; None if tiles leave."""
    tiled = with_late_stores(plan.tiled, layers, late)
    try:
        scheduled = schedule(layers, tiled, chip, options, both_ways=True, evicts=False)
    except CompileError:
        return None
    return _rated(plan.room_bytes, tiled, scheduled, chip)


def _waits_for_latencies(plan: Plan, chip: Chip) -> bool:
    """Return whether queues wait for latencies for more than half of the time of their copies.

    Then a store between two loads keeps the second one, and all that waits for it, from beginning.
    """
    if chip.dma.outstanding > 1:
        return False
    copies = (draft.instruction for draft in plan.scheduled.drafts)
    times = [time_of(chip, each) for each in copies if isinstance(each, DmaCopy)]
    return sum(time.latency for time in times) > sum(time.moving for time in times)


def _may_store_late(plan: Plan, layers: Layers, chip: Chip) -> bool:
    """Return whether queues can bring and store: several of them, and no tile leaves for room.

    Only plans of short programs are made a second time. Where DRAM has rows to open, the estimate
    of runs shorter than a burst is too far from the run to choose by, unless they are few.
    """
    drafts, parts = plan.scheduled.drafts, chip.dram.organisation
    short = len(drafts) <= MOST_BOTH_WAYS and not plan.scheduled.evictions
    if not short or chip.dma.useful_queues == 1 or not brings_and_stores(plan.tiled, layers):
        return False
    return parts is None or _bytes_in_short_runs(drafts, parts.burst_bytes) <= SHORT


def _bytes_in_short_runs(drafts: Sequence[Draft], burst_bytes: int) -> float:
    """Return the part of all bytes that copies bring or store whose runs are less than a burst."""
    copies = (draft.instruction for draft in drafts)
    ends = [
        end
        for each in copies
        if isinstance(each, DmaCopy)
        for end in (each.source, each.target)
        if end.buffer is Buffer.DRAM
    ]
    short = sum(end.size_bytes for end in ends if run_bytes(end) < burst_bytes)
    return short / max(1, sum(end.size_bytes for end in ends))


def _may_gain(plan: Plan, chip: Chip) -> bool:
    """Return whether queues that bring and store may be better than divided ones.

    No plan can gain more than all that is stored, and than loads that are spread evenly. With
    one burst in hand loads and stores close one another's rows in DRAM, which no estimate
    knows. So there one queue must have notably more to do than a fair part.
    """
    loads, stores = _busy(plan, chip)
    most = max(map(sum, zip(loads, stores, strict=True)))
    uneven = max(loads) - sum(loads) // len(loads)
    if most < MOVING * plan.cycles or (plan.cycles - uneven - sum(stores)) * NOTABLY > plan.cycles:
        return False
    parts = chip.dram.organisation
    alone = parts is not None and parts.outstanding == 1
    return not alone or len(loads) * most > UNEVEN * (sum(loads) + sum(stores))


def _busy(plan: Plan, chip: Chip) -> tuple[list[int], list[int]]:
    """Return for about how many of the array's cycles each DMA queue brings, and stores."""
    loads = dict.fromkeys(range(chip.dma.queues), 0)
    stores = loads.copy()
    for draft in plan.scheduled.drafts:
        if isinstance(copy := draft.instruction, DmaCopy):
            busy = stores if copy.target.buffer is Buffer.DRAM else loads
            busy[copy.dma_queue] += time_of(chip, copy).cycles
    period, array = chip.period("dma"), chip.period("pe_array")
    brings, puts = ([n * period // array for n in each.values()] for each in (loads, stores))
    return brings, puts


def _best_divided(layers: Layers, chip: Chip, options: Options) -> Plan:
    """Return the plan of the least estimate whose DMA queues are divided by direction."""
    have = chip.state_buffer.bytes_per_partition
    tiled = cut_tiles(layers, chip, options)
    if (flowing := _flowing_plan(layers, tiled, chip, options)) is not None:
        return flowing
    scheduled = _scheduled(layers, tiled, chip, options)
    if scheduled and (_has_images(layers) or _fits(layers, scheduled, chip)):
        return Plan(have, tiled, scheduled)
    if _has_images(layers):  # tiles are whole images, whatever there is room for
        return Plan(have, tiled, schedule(layers, tiled, chip, options))
    found = [_rated(have, tiled, scheduled, chip)] if scheduled else []
    if found and _is_near_the_array(found[0], chip):
        return found[0]
    best = _best(chain(found, _smaller_plans(layers, tiled, chip, options)), chip)
    return best or _least(layers, chip, options)


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


def _best(plans: Iterator[Plan], chip: Chip) -> Plan | None:
    """Return the plan of the least estimate, or one as good that copies fewer bytes.

    None if there is no plan. Plans are made as they are asked for, and only the best is kept. With
    one burst in hand the queues close one another's rows in DRAM, which no estimate knows. So
    there the plans of about the least estimate are alike, and fewer bytes lose less.
    """
    parts = chip.dram.organisation
    if parts is None or parts.outstanding > 1:
        return min(plans, key=lambda plan: plan.cycles, default=None)
    found = list(plans)
    least = min((plan.cycles for plan in found), default=0)
    alike = [plan for plan in found if plan.cycles <= least * ALIKE]
    return min(alike, key=lambda plan: _copied_bytes(plan.scheduled.drafts), default=None)


def _copied_bytes(drafts: Sequence[Draft]) -> int:
    copies = (draft.instruction for draft in drafts)
    return sum(copy.source.size_bytes for copy in copies if isinstance(copy, DmaCopy))


def _fits(layers: Layers, scheduled: Scheduled, chip: Chip) -> bool:
    """Return whether the plan with all bytes is as good as any other.

    Without products every tile is used once. So as long as no tile must leave, none needs to stay.
    """
    if scheduled.evictions:
        return False
    if not any(isinstance(node, MultiplyNode) for node in layers.nodes):
        return True
    if layers.dram and chip.dram.organisation is not None:
        return False
    return scheduled.all_bytes <= chip.state_buffer.bytes_per_partition


def _rated(room_bytes: int, tiled: Tiled, scheduled: Scheduled, chip: Chip) -> Plan:
    cycles = estimated_ticks(scheduled.drafts, chip) // chip.period("pe_array")
    return Plan(room_bytes, tiled, scheduled, cycles)


def _is_near_the_array(plan: Plan, chip: Chip) -> bool:
    least = array_ticks(plan.scheduled.drafts, chip) // chip.period("pe_array")
    return plan.cycles <= least * NEAR


def _scheduled(
    layers: Layers, tiled: Tiled, chip: Chip, options: Options, *, evicts: bool = True
) -> Scheduled | None:
    """Return the schedule in all bytes, None if the tiles of a task have no room together."""
    try:
        return schedule(layers, tiled, chip, options, evicts=evicts)
    except CompileError:
        return None


def _smaller_plans(layers: Layers, first: Tiled, chip: Chip, options: Options) -> Iterator[Plan]:
    """Yield plans for less than all bytes, each unlike those before, while they are cheap."""
    seen, spent = [first], 0
    for room_bytes, most_sums in _variants(layers, chip):
        tiled = cut_tiles(layers, chip, options, room_bytes, most_sums=most_sums)
        if tiled in seen:
            continue
        seen.append(tiled)
        try:
            scheduled = schedule(layers, tiled, chip, options)
        except CompileError:
            continue
        yield _rated(room_bytes, tiled, scheduled, chip)
        spent += len(scheduled.drafts)
        if spent > MOST_TRIED:
            return


def _variants(layers: Layers, chip: Chip) -> Iterator[tuple[int, bool]]:
    """Yield the sizes to plan with, the largest first, and whether to make the most sums."""
    have = chip.state_buffer.bytes_per_partition
    parts = chip.dram.organisation
    if not layers.dram or parts is None or parts.outstanding == 1:
        yield from ((size, False) for size in sizes_below(have))
        return
    yield have, True
    for size in sizes_below(have):
        yield size, False
        yield size, True


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
