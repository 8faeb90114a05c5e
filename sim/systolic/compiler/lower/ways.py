"""The ways of a move from DRAM to DRAM, a row each, and the choice of the cheapest by estimate.

A way has arrangements: which factors lie on partitions, which along the address, and which are gone
through tile by tile. The estimates come from `systolic.compiler.cost.arrangements`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from systolic.compiler.cost.arrangements import Estimate, Planner
from systolic.compiler.cost.box_copies import box_copy_cycles
from systolic.compiler.cost.turns import carrier, parts_turned
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.box_copies import DramBox
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.chip_tiles import whole_banks
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.windows import MatrixWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.candidates import lane_by_lane, turned
from systolic.hw.datatypes import data_type

MOST_FACTORS = 8
"""The most factors of a move that is arranged: the number of arrangements grows with them."""
ROOM = 8
"""A tile takes no more than this part of a partition: tiles of both sides, in turn."""
ALL_ROOM = 3, 4
"""Or all tiles of both sides take no more than 3/4 of a partition together, where DRAM has no rows
to open: then rows come and go in whole runs."""
MOST_INSTRUCTIONS = 3000


@dataclass(frozen=True, slots=True)
class Ends:
    """The names of the places of a move's source and result, and of the tensor that is made."""

    source: str
    target: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Way:
    """A row: its name, the arrangements that suit it, its estimate, and its nodes.

    estimate: given the ticks of what is done between load and store (`between`), which it is no
    less than. work: how many instructions there are for a tile. least: a lower limit of all its
    estimates. tiled: whether anything comes to the chip.
    """

    name: str
    plans: Callable[[Planner, Move], Iterator[Arrangement]]
    estimate: Callable[[Planner, Arrangement, int], Estimate]
    work: Callable[[Planner, Arrangement], int]
    emit: Callable[[LayerBuilder, Arrangement, Ends], None]
    between: Callable[[Planner, Arrangement], int] = lambda planner, plan: 0
    least: Callable[[Planner, Move], int] = lambda planner, move: 0
    tiled: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """A way with an arrangement, and about how many ticks it takes."""

    ticks: int
    way: Way
    plan: Arrangement


def cheapest(move: Move, planner: Planner, parts: int = 1) -> Choice | None:
    """Return the best way of a move with the best arrangement; None if none suits.

    parts: how many moves share the state buffer.
    """
    if not 2 <= len(move.sizes) <= MOST_FACTORS:
        return None
    best: Choice | None = None
    most = math.inf
    closely = replace(planner, by_address=planner.alone)
    for way in WAYS:
        if way.least(planner, move) >= most:
            continue
        for plan in way.plans(planner, move):
            if way.tiled and not _is_small(planner, way, plan, parts):
                continue
            if way.tiled and planner.least_ticks(plan) >= most:
                continue
            between = way.between(planner, plan)
            if between >= most or way.estimate(planner, plan, between).ticks >= most:
                continue
            ticks = way.estimate(closely, plan, between).ticks
            if ticks < most:
                best, most = Choice(ticks, way, plan), ticks
    return best


class _ElementBytes(NamedTuple):
    """The bytes of an element in tiles that are moved, and in those that are cast to be turned."""

    moved: int
    carried: int


def _element_bytes(planner: Planner, plan: Arrangement) -> _ElementBytes:
    dtype = plan.move.dtype
    through = carrier(planner.chip, dtype) if plan.rows_in != plan.rows_out else dtype
    size = data_type(dtype).size_bytes
    return _ElementBytes(size, data_type(through).size_bytes if through not in (None, dtype) else 0)


def _is_small(planner: Planner, way: Way, plan: Arrangement, parts: int) -> bool:
    """Return whether tiles have room, and the program is not too long."""
    have, size = planner.chip.state_buffer.bytes_per_partition, _element_bytes(planner, plan)
    brought, stored = plan.count_brought(plan.cols_in), plan.count(plan.cols_out)
    wide, tiles = max(brought, stored) * size.moved, planner.tiles(plan)
    every = parts * tiles * ((brought + stored) * size.moved + brought * size.carried)
    at_once = _opens_no_rows(planner) and every * ALL_ROOM[1] <= have * ALL_ROOM[0]
    room = have if at_once else have // ROOM
    return (
        wide <= min(room, whole_banks(planner.chip) or room)
        and way.work(planner, plan) * tiles + 2 * tiles <= MOST_INSTRUCTIONS
    )


# The rows of the table.


def _tile(
    builder: LayerBuilder, plan: Arrangement, ends: Ends, axes: Axes, *, made: bool
) -> Matrix:
    """Return the matrix whose tiles are brought from, or written to, DRAM."""
    side = plan.move.result if made else plan.source
    shared = Planner(builder.chip, builder.options).shared(plan)
    return builder.place_matrix(
        side, axes, ends.tensor, dram="" if made else ends.source, shared=shared
    )


def _window(
    builder: LayerBuilder, plan: Arrangement, held: Matrix, axes: Axes, *, made: bool
) -> Matrix:
    """Return a matrix within another one: the same rows, some of its columns.

    made: the other one is a tile of the result, which has no padding.
    """
    sizes = plan.move.source_sizes
    outer = Spread(sizes if made else plan.source.dims, held.axes)
    window = MatrixWindow(held.name, outer, Spread(sizes, axes))
    return builder.within(held, window)


def _runs_columns(plan: Arrangement) -> tuple[int, ...]:
    """Return the columns of tiles that are stored as they were brought: the longer runs count."""
    ways = (plan.cols_in, plan.cols_out)
    return max(ways, key=lambda cols: min(plan.run_in(cols), plan.run_out(cols)))


def _within_dram(planner: Planner, plan: Arrangement) -> Estimate:
    """Return the estimate for copies of all elements within DRAM, in the order of the batch."""
    chip, move = planner.chip, plan.move
    cycles = box_copy_cycles(chip, DramBox.of(move.source, move.result, plan.batch), move.dtype)
    return Estimate(cycles * chip.period("dma"), 0, 0, tiles=1, latency=0)


def _emit_copies(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    builder.copied(ends.source, ends.target, plan.batch)


def _emit_runs(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    axes = (*plan.groups, plan.rows_in, _runs_columns(plan))
    matrix = _tile(builder, plan, ends, axes, made=False)
    builder.store_at(matrix, ends.target, axes)


def _emit_engine(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    before = _tile(builder, plan, ends, (*plan.groups, plan.rows_in, plan.brought), made=False)
    after = _tile(builder, plan, ends, (*plan.groups, plan.rows_in, plan.cols_out), made=True)
    together, apart = Planner(builder.chip, builder.options).engine_columns(plan)
    axes: Axes = (*plan.groups, *((n,) for n in apart), plan.rows_in, together)
    source = _window(builder, plan, before, axes, made=False)
    builder.node("convert", (source,), _window(builder, plan, after, axes, made=True))
    builder.store_at(after, ends.target, after.axes)


def _emit_array(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    before = _tile(builder, plan, ends, (*plan.groups, plan.rows_in, plan.brought), made=False)
    after = _tile(builder, plan, ends, (*plan.groups, plan.rows_out, plan.cols_out), made=True)
    batch: Axes = (*plan.groups, *((n,) for n in plan.rest))
    held = builder.carried(before)
    source = _window(builder, plan, held, (*batch, plan.rows_in, plan.rows_out), made=False)
    made = _window(builder, plan, after, (*batch, plan.rows_out, plan.rows_in), made=True)
    builder.turn(source, made)
    builder.store_at(after, ends.target, after.axes)


def _emit_transposes(builder: LayerBuilder, plan: Arrangement, ends: Ends) -> None:
    axes = (*plan.groups, plan.rows_in, plan.cols_out)
    matrix = _tile(builder, plan, ends, axes, made=False)
    builder.store_at(matrix, ends.target, axes)


def _on_lanes(planner: Planner, move: Move) -> Iterator[Arrangement]:
    lanes, either_end = planner.chip.state_buffer.partitions, _opens_no_rows(planner)
    return lane_by_lane(move, lanes, either_end=either_end, finely=either_end and planner.alone)


def _opens_no_rows(planner: Planner) -> bool:
    """Return whether DRAM has no rows to open, so that runs cost the same wherever they lie.

    Only then may rows end with a part of a factor, and all tiles be there at once: elsewhere the
    estimate of such tiles is too far from the run.
    """
    return planner.chip.dram.organisation is None


def _on_turned_lanes(planner: Planner, move: Move) -> Iterator[Arrangement]:
    """Yield arrangements whose rows lie side by side in the source: DMA transposes such tiles."""
    if not planner.can_transpose(move.dtype):
        return
    for plan in _as_they_lie(planner, move):
        rows = plan.count(plan.rows_in)
        if 1 < rows == plan.run_in(plan.rows_in) and plan.count(plan.cols_out) > 1:
            yield plan


def _on_copying_lanes(planner: Planner, move: Move) -> Iterator[Arrangement]:
    for choice in move.gap_choices() if planner.can_copy(move.dtype) else ():
        yield from _on_lanes(planner, choice)


def _on_array(planner: Planner, move: Move) -> Iterator[Arrangement]:
    chip = planner.chip
    array, lanes = chip.pe_array, chip.state_buffer.partitions
    if carrier(chip, move.dtype) is None and not parts_turned(chip, move.dtype):
        return
    rows = min(array.rows, lanes, chip.result_buffer.bank_words)
    for choice in move.gap_choices():
        either_end = _opens_no_rows(planner)
        finely = either_end and planner.alone
        sides = rows, min(array.cols, lanes)
        for plan in turned(choice, *sides, either_end=either_end, finely=finely):
            if planner.can_reach(plan):
                yield plan


def _without_tiles(planner: Planner, move: Move) -> Iterator[Arrangement]:
    """Yield the orders in which copies within DRAM go: the source's and the result's.

    Only of elements that lie side by side in both: else each would be a descriptor of its own.
    """
    parts = planner.chip.dram.organisation
    minor = [n for n, size in enumerate(move.sizes) if size > 1][-1:]
    beside = all(side.steps[n] == 1 for side in (move.before, move.after) for n in minor)
    if not beside or (parts is not None and parts.outstanding == 1):
        return
    plain = replace(move, spaced=1, gaps=())
    for order in dict.fromkeys((tuple(range(len(move.sizes))), move.order)):
        yield Arrangement(plain, order, (), ())


def _as_they_lie(planner: Planner, move: Move) -> Iterator[Arrangement]:
    """Yield arrangements of what is stored as it was brought: no padding is."""
    return _on_lanes(planner, replace(move, spaced=1, gaps=()))


WAYS: tuple[Way, ...] = (
    Way(
        "within DRAM",
        _without_tiles,
        lambda planner, plan, _: _within_dram(planner, plan),
        lambda planner, plan: 0,
        emit=_emit_copies,
        tiled=False,
    ),
    Way(
        "by DMA alone",
        _as_they_lie,
        lambda planner, plan, _: planner.by_runs(plan, _runs_columns(plan)),
        lambda planner, plan: 0,
        emit=_emit_runs,
    ),
    Way(
        "by DMA transposes",
        _on_turned_lanes,
        lambda planner, plan, _: planner.by_transposes(plan),
        lambda planner, plan: 0,
        emit=_emit_transposes,
    ),
    Way(
        "by engines, lane by lane",
        _on_copying_lanes,
        Planner.by_engine,
        lambda planner, plan: plan.count(plan.engine_columns()[1]),
        emit=_emit_engine,
        between=Planner.engine_work,
    ),
    Way(
        "by identity products of strided rows",
        _on_array,
        Planner.by_array,
        lambda planner, plan: 3 * planner.turns(plan.move) * plan.count(plan.rest),
        emit=_emit_array,
        between=Planner.array_work,
        least=Planner.least_by_array,
    ),
)
