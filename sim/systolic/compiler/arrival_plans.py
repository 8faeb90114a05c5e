"""Plans of products in the order of arrival: what comes first is multiplied, and stored, first.

At the beginning the array waits for operands, at the end for what is stored behind the last vector.
In long work that is little. In short work a plan is therefore made several times: with tasks as
they are and in the order of arrival (`tile.arrivals`), with tiles that more queues share as they
come and as they go. The plan of the least estimate is taken. Not here: the plan to begin with
(`plans`).
"""

from __future__ import annotations

from collections.abc import Iterator

from systolic.compiler.cost.pace import done_ticks
from systolic.compiler.ir.nodes import Layers
from systolic.compiler.ir.tasks import MatrixTile, Tiled
from systolic.compiler.plans import Plan
from systolic.compiler.schedule.schedule import Scheduled, schedule
from systolic.compiler.schedule.transfers import Sharing
from systolic.compiler.tile.arrivals import in_order_of_arrival, only_products
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.workload.options import Options

NOTABLY = 1.01
"""How many times less the estimate must be for another plan to be taken."""

NOTABLY_WITH_ROWS = 1.03
"""The same where DRAM has rows to open: there estimates are rougher."""


def with_arrivals(plan: Plan, layers: Layers, chip: Chip, options: Options) -> Plan:
    """Return the best plan of the same tiles, the given one if no other is notably better.

    Nothing is tried if tiles have to leave the state buffer, if sums side by side have been chosen
    by hand, or if work is long or is more than products of matrices from DRAM. Nor where the port
    of a bank serves all partitions: what is begun earlier meets more units there, which no estimate
    knows. On neuroncore_v2 bf16[2048,128] x [128,128] to f32 would take 37,694 cycles, not 34,328.
    """
    brings = any(matrix.source.kind == "dram" for matrix in layers.matrices)
    chosen = options.asks_for_groups or plan.scheduled.evictions
    meets = chip.state_buffer.port_scope == "bank"
    if not brings or chosen or meets or not only_products(plan.tiled, layers):
        return plan
    notably = NOTABLY if chip.dram.organisation is None else NOTABLY_WITH_ROWS
    best, least = plan, int(_cycles(plan.scheduled, chip) / notably)
    for tiled, scheduled in _tried(plan.tiled, layers, chip, options):
        if (cycles := _cycles(scheduled, chip)) < least:
            best, least = Plan(plan.room_bytes, tiled, scheduled, cycles), cycles
    return best


def _tried(
    tiled: Tiled, layers: Layers, chip: Chip, options: Options
) -> Iterator[tuple[Tiled, Scheduled]]:
    """Yield tasks, as they are and by arrival, with schedules that differ in what queues share."""

    def scheduled(tasks: Tiled, *, even: bool, spread: bool) -> Scheduled | None:
        """Return the schedule, None if tiles would have to leave before their last use."""
        try:
            sharing = Sharing(even, spread)
            return schedule(layers, tasks, chip, options, sharing=sharing, evicts=False)
        except CompileError:
            return None

    seen: Scheduled | None = None
    for even in (False, True):
        first = scheduled(tiled, even=even, spread=False)
        if first is None or (seen is not None and first.drafts == seen.drafts):
            return
        seen = first
        yield tiled, first
        arriving = in_order_of_arrival(tiled, layers, chip, _arrivals(first, chip))
        for tasks, spread in ((tiled, True), (arriving, False), (arriving, True)):
            if tasks is not None:
                found = scheduled(tasks, even=even, spread=spread)
                if found is not None:
                    yield tasks, found


def _cycles(scheduled: Scheduled, chip: Chip) -> int:
    """Return about how many of the array's cycles a schedule takes."""
    done = done_ticks(scheduled.drafts, chip)
    return max(done.values(), default=0) // chip.period("pe_array")


def _arrivals(scheduled: Scheduled, chip: Chip) -> dict[MatrixTile, int]:
    """Return the cycle of the array by which about each tile has come from DRAM."""
    done, period = done_ticks(scheduled.drafts, chip), chip.period("pe_array")
    return {
        tile: -(-max(done[draft] for draft in range(*drafts)) // period)
        for tile, drafts in scheduled.brought
        if drafts.count
    }
