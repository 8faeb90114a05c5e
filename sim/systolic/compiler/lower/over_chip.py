"""Moves from DRAM to DRAM over places on the chip: in chunks there, from place to place, and back.

A tensor that fits comes as a whole, a chunk of its bytes to each partition, and the result is
stored likewise: the runs are as long as can be. Between both it goes as a move on the chip does, as
a relay or in rounds from lanes to lanes. None of the three overlaps another, so it pays
where runs of tiles are short, or the array takes long. Not here: moves in tiles (`ways`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.cost.dma import queues_of_tile
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.chip_places import ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.chunk_places import chunk_places
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.nodes import Matrix
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.relays import Relay, RelayPlanner, lanes_between
from systolic.hw.datatypes import data_type
from systolic.layout import Shape

TRIED = 2
"""Of how many sizes of chunks moves are worked out, on either side."""
ROOM = 2
"""Source and result together take no more than this part of a partition."""
ROWS_AND_COLUMNS = (0,), (1,)


@dataclass(frozen=True, slots=True)
class OverChip:
    """A move on the chip between chunks of a source and chunks of a result.

    cycles: about how many of the array's all takes, with the copies from DRAM and to it.
    """

    move: Relay
    cycles: int

    def __str__(self) -> str:
        count = len(self.move.legs)
        return f"as a relay of {count} leg{'s' if count > 1 else ''}"


def cheapest_over_chip(
    builder: LayerBuilder,
    names: tuple[str, str],
    permutation: Sequence[int] | None,
    others: float,
) -> OverChip | None:
    """Return the move over the chip of the least estimate; None if none takes less than others.

    names: of source and result, both in DRAM. permutation: axis i of the result is axis
    permutation[i] of the source; None: a reshape. others: about how many of the array's cycles
    another way takes.
    """
    if whole_banks(builder.chip):
        return None
    shapes = builder.dram.shape(names[0]), builder.graph.shape(names[1])
    if shapes[1].padded_elements() != shapes[1].num_elements():
        return None  # nothing may be stored that nothing has written
    sides = [chunk_places(shape, block_rows(builder.chip))[:TRIED] for shape in shapes]
    pairs = [(here, there) for here, there in product(*sides) if _has_room(builder, here, there)]
    if not pairs:
        return None
    copied = sum(_copy_cycles(builder, places) for places in pairs[0])
    found = [
        OverChip(move, copied + move.cycles)
        for move in _moves(builder, names[0], pairs, permutation, others - copied)
    ]
    best = min(found, key=lambda each: each.cycles, default=None)
    return best if best is not None and best.cycles < others else None


def _has_room(builder: LayerBuilder, source: ChipPlaces, result: ChipPlaces) -> bool:
    size = data_type(source.shape.element_type).size_bytes
    room = builder.chip.state_buffer.bytes_per_partition // ROOM
    return (source.columns + result.columns) * size <= room


def _copy_cycles(builder: LayerBuilder, places: ChipPlaces) -> int:
    """Return about how many of the array's cycles chunks take from DRAM, or to it."""
    chip, dtype = builder.chip, places.shape.element_type
    planner = Planner(chip, builder.options, by_address=True, alone=True)
    move = Move.dense(dtype, (places.rows, places.columns), (0, 1))
    found = planner.by_runs(Arrangement(move, (), (0,), (0,)), (1,))
    return found.inwards // chip.period("pe_array")


def _moves(
    builder: LayerBuilder,
    source: str,
    pairs: Sequence[tuple[ChipPlaces, ChipPlaces]],
    permutation: Sequence[int] | None,
    most: float,
) -> Iterator[Relay]:
    """Yield moves between some places; most: what they may take."""
    if most <= 0:
        return
    dtype = builder.graph.shape(source).element_type
    planner = RelayPlanner(builder.chip, builder.options, dtype)
    for planned in (planner.relays, planner.in_rounds):
        for relay in planned(pairs, permutation, most):
            yield relay
            most = min(most, relay.cycles)


def emit_over_chip(builder: LayerBuilder, names: tuple[str, str], over: OverChip) -> None:
    """Bring the chunks of the source, move them, and store those of the result."""
    output, move = names[1], over.move
    builder.choose(
        f"{names[0]} goes to {output} over the chip, in chunks there and back, {over} (about "
        f"{over.cycles} cycles)"
    )
    places = f"{output}.chunks", f"{output}.made"
    builder.dram.alias(places[0], builder.dram.of(names[0]), _shape(move.source))
    builder.dram.alias(places[1], output, _shape(move.result))
    source = _matrix(builder, output, move.source, places[0])
    result = _matrix(builder, output, move.result, "")
    dtype = move.source.shape.element_type
    held = [lanes_between(builder, output, dtype, leg.target) for leg in move.legs[:-1]]
    ends = pairwise([source, *held, result])
    for (before, after), leg in zip(ends, move.legs, strict=True):
        builder.node("move", (before,), after, leg)
    builder.store_at(result, places[1], ROWS_AND_COLUMNS)
    builder.come_home(output)


def _shape(places: ChipPlaces) -> Shape:
    return Shape(places.shape.element_type, (places.rows, places.columns))


def _matrix(builder: LayerBuilder, tensor: str, places: ChipPlaces, dram: str) -> Matrix:
    """Return the matrix of all chunks, one tile, that comes from a place or ("") is made."""
    size = places.columns * data_type(places.shape.element_type).size_bytes
    return builder.place_matrix(
        _shape(places),
        ROWS_AND_COLUMNS,
        tensor,
        dram=dram,
        shared=queues_of_tile(builder.chip, size),
        height=block_rows(builder.chip),
    )
