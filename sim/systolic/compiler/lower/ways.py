"""The ways of a move from DRAM to DRAM, a row each, and the choice of the cheapest by estimate.

A way has arrangements: which factors lie on partitions, which along the address, and which are gone
through tile by tile. The estimates are those of `systolic.compiler.cost.arrangements`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from systolic.compiler.cost.arrangements import Estimate, Planner, moving_queues
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.chip_tiles import whole_banks
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.windows import MatrixWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.hw.datatypes import data_type

MOST_FACTORS = 6
"""Of a move that is arranged here: the number of arrangements grows with it."""
ROOM = 8
"""A tile takes no more than this part of a partition: tiles of both sides, in turn."""
MOST_INSTRUCTIONS = 3000


@dataclass(frozen=True, slots=True)
class Ends:
    """The names of the places of a move's source and result, and of the tensor that is made."""

    source: str
    target: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Way:
    """A row: how it is named, whether an arrangement suits it, its estimate, and its nodes."""

    name: str
    suits: Callable[[Planner, Arrangement], bool]
    estimate: Callable[[Planner, Arrangement], Estimate]
    work: Callable[[Arrangement], int]
    emit: Callable[[LayerBuilder, Arrangement, Ends], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """A way with an arrangement, and about how many ticks it takes."""

    ticks: int
    way: Way
    plan: Arrangement


def cheapest(move: Move, planner: Planner) -> Choice | None:
    """Return the best way of a move with the best arrangement; None if none suits."""
    if not 2 <= len(move.sizes) <= MOST_FACTORS:
        return None
    best: Choice | None = None
    for plan in _arrangements(move, planner):
        for way in WAYS:
            if not way.suits(planner, plan):
                continue
            if way.work(plan) + 2 * plan.count(plan.batch) > MOST_INSTRUCTIONS:
                continue
            ticks = way.estimate(planner, plan).ticks
            if best is None or ticks < best.ticks:
                best = Choice(ticks, way, plan)
    return best


def _arrangements(move: Move, planner: Planner) -> Iterator[Arrangement]:
    """Yield arrangements: a run of factors on partitions before and after, and every batch."""
    lanes = planner.chip.state_buffer.partitions
    room = planner.chip.state_buffer.bytes_per_partition // ROOM
    room = min(room, whole_banks(planner.chip) or room)
    size = data_type(move.dtype).size_bytes
    for cut, rows_in, rows_out in _rows(move, lanes):
        rest = [n for n in range(len(cut.sizes)) if n not in rows_in and n not in rows_out]
        for count in range(len(rest) + 1):
            for batch in combinations(rest, count):
                plan = Arrangement(cut, batch, rows_in, rows_out)
                if max(plan.count(plan.cols_in), plan.count(plan.cols_out)) * size <= room:
                    yield plan


OnPartitions = tuple[Move, tuple[int, ...], tuple[int, ...]]


def _rows(move: Move, lanes: int) -> Iterator[OnPartitions]:
    """Yield moves, cut where partitions end, and the factors on partitions before and after."""
    seen: set[OnPartitions] = set()
    for cut, rows_in in _on_partitions(move, range(len(move.sizes)), lanes):
        if (same := (cut, rows_in, rows_in)) not in seen:
            seen.add(same)
            yield same
        for finer, rows_out in _on_partitions(cut, cut.order, lanes):
            moved = _renumbered(cut, finer, rows_in)
            if not set(moved) & set(rows_out) and (found := (finer, moved, rows_out)) not in seen:
                seen.add(found)
                yield found


def _renumbered(before: Move, after: Move, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return factors of a move as those of the move with one factor cut in two."""
    if len(after.sizes) == len(before.sizes):
        return rows
    pairs = zip(before.sizes, after.sizes, strict=False)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), len(before.sizes) - 1)
    found: list[int] = []
    for number in rows:
        found += [number, number + 1] if number == at else [number + (number > at)]
    return tuple(found)


def _on_partitions(
    move: Move, order: Sequence[int], lanes: int
) -> Iterator[tuple[Move, tuple[int, ...]]]:
    """Yield factors that follow one another in `order` and have room on the partitions together.

    The most major one may be cut, and of it the minor part taken; of a lone one, either part.
    """
    places = list(order)
    for first in range(len(places)):
        for last in range(first, len(places)):
            room = lanes
            inner = places[first + 1 : last + 1]
            for other in inner:
                room //= move.sizes[other]
            if room < 1:
                break
            head = places[first]
            size = move.sizes[head]
            part = _divisor(size, room)
            if part == size:
                yield move, tuple(places[first : last + 1])
            elif part > 1:
                cut = move.cut(head, part)
                rows = tuple(n + (n >= head) for n in (head, *inner))
                yield cut, rows
                if not inner:
                    yield move.cut(head, size // part), (head,)


def _divisor(size: int, most: int) -> int:
    return next(part for part in range(min(size, most), 0, -1) if size % part == 0)


# The rows of the table.


def _tile(
    builder: LayerBuilder, plan: Arrangement, ends: Ends, axes: Axes, *, made: bool
) -> Matrix:
    """Return the matrix whose tiles are brought from, or written to, DRAM."""
    side = plan.move.result if made else plan.move.source
    shared = moving_queues(builder.chip, plan.count(plan.batch))
    return builder.place_matrix(
        side, axes, ends.tensor, dram="" if made else ends.source, shared=shared
    )


def _window(builder: LayerBuilder, plan: Arrangement, held: Matrix, axes: Axes) -> Matrix:
    """Return a matrix within another one: the same rows, some of its columns."""
    sizes = plan.move.sizes
    window = MatrixWindow(held.name, Spread(sizes, held.axes), Spread(sizes, axes))
    return builder.within(held, window)


def _runs_columns(plan: Arrangement) -> tuple[int, ...]:
    """Return the columns of tiles that are stored as they were brought: the longer runs count."""
    ways = (plan.cols_in, plan.cols_out)
    return max(ways, key=lambda cols: min(plan.run_in(cols), plan.run_out(cols)))


def _emit_runs(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    axes = (*plan.groups, plan.rows_in, _runs_columns(plan))
    matrix = _tile(builder, plan, ends, axes, made=False)
    builder.store_at(matrix, ends.target, axes)


def _emit_engine(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    before = _tile(builder, plan, ends, (*plan.groups, plan.rows_in, plan.cols_in), made=False)
    after = _tile(builder, plan, ends, (*plan.groups, plan.rows_in, plan.cols_out), made=True)
    together, apart = plan.engine_columns()
    axes: Axes = (*plan.groups, *((n,) for n in apart), plan.rows_in, together)
    builder.node(
        "convert", (_window(builder, plan, before, axes),), _window(builder, plan, after, axes)
    )
    builder.store_at(after, ends.target, after.axes)


def _emit_array(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    before = _tile(builder, plan, ends, (*plan.groups, plan.rows_in, plan.cols_in), made=False)
    after = _tile(builder, plan, ends, (*plan.groups, plan.rows_out, plan.cols_out), made=True)
    batch: Axes = (*plan.groups, *((n,) for n in plan.rest))
    source = _window(builder, plan, before, (*batch, plan.rows_in, plan.rows_out))
    turned = _window(builder, plan, after, (*batch, plan.rows_out, plan.rows_in))
    builder.node("turn", (source,), turned)
    builder.store_at(after, ends.target, after.axes)


def _array_takes(planner: Planner, plan: Arrangement) -> bool:
    array = planner.chip.pe_array
    return (
        plan.rows_in != plan.rows_out
        and plan.move.dtype in array.cycles_per_vector
        and plan.count(plan.rows_in) <= min(array.rows, planner.chip.result_buffer.bank_words)
        and plan.count(plan.rows_out) <= array.cols
    )


def _same_rows(planner: Planner, plan: Arrangement) -> bool:
    return plan.rows_in == plan.rows_out


def _copies_lanes(planner: Planner, plan: Arrangement) -> bool:
    return _same_rows(planner, plan) and planner.can_copy(plan)


WAYS: tuple[Way, ...] = (
    Way(
        "by DMA alone",
        _same_rows,
        lambda planner, plan: planner.by_runs(plan, _runs_columns(plan)),
        lambda plan: 0,
        _emit_runs,
    ),
    Way(
        "by engines, lane by lane",
        _copies_lanes,
        Planner.by_engine,
        lambda plan: plan.count(plan.batch) * plan.count(plan.engine_columns()[1]),
        _emit_engine,
    ),
    Way(
        "by identity products of strided rows",
        _array_takes,
        Planner.by_array,
        lambda plan: 3 * plan.count(plan.batch) * plan.count(plan.rest),
        _emit_array,
    ),
)
