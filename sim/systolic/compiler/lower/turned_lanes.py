"""Lowering of moves on the chip of which the array turns all, and several engines copy out.

The array passes the bits of all partitions of the source on, to those of the result, band by band
(`ir.turned_lanes`). One engine is often slower than the array, so each copies results out to a bank
of its own. Not here: which way is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.compiler.cost.turned_lanes import TurnStep, turn_order
from systolic.compiler.cost.word_relays import turn_ticks
from systolic.compiler.ir.chip_places import ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.relays import relay_ends
from systolic.compiler.ir.turned_lanes import TurnedLanes, turned_lanes
from systolic.compiler.lower.blocks import goes_in_blocks
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import SPARE_BYTES, holder_of_places
from systolic.hw.datatypes import data_type

MOST_TURNS = 1024
"""The most turns of a move."""


@dataclass(frozen=True, slots=True)
class PlacedTurns:
    """Turns in their order, and the tensor's places at home.

    cycles: about how many of the array's they take.
    """

    source: ChipPlaces
    result: ChipPlaces
    lanes: TurnedLanes
    steps: tuple[TurnStep, ...]
    cycles: int


def may_share_turns(
    builder: LayerBuilder, names: tuple[str, str], permutation: Sequence[int] | None
) -> bool:
    """Return whether several engines may copy out what the array turns.

    Where matrices go in blocks of equation 1, the bound of the run is that of one engine.
    """
    if len(builder.graph.operations) > 1:
        return False
    source, result = (builder.graph.tensor(name) for name in names)
    free = not (source.shape.layout.tiles or result.shape.layout.tiles) and source.shape.rank > 2
    if permutation is None or free:
        return True
    return not goes_in_blocks(source, result, permutation, builder.chip, builder.options)


def cheapest_turns(
    builder: LayerBuilder,
    tensor: str,
    places: Sequence[tuple[ChipPlaces, ChipPlaces]],
    permutation: Sequence[int] | None,
    most_cycles: float,
) -> PlacedTurns | None:
    """Return the turns of the least estimate between some places; None if all take more cycles.

    permutation: axis i of the result is the tensor's axis permutation[i]; None: a reshape.
    """
    chip, dtype = builder.chip, builder.graph.shape(tensor).element_type
    array, p = chip.pe_array, block_rows(chip)
    if not array.turns_by_passing(dtype) or builder.options.drain != "block":
        return None
    most = min(p, array.rows, chip.result_buffer.bank_words), min(p, array.cols)
    size, best = data_type(dtype).size_bytes, None
    for both in places:
        ends = relay_ends(*both, permutation)
        found = ends and turned_lanes(ends, most)
        if not ends or not found or found.count > MOST_TURNS:
            continue
        columns = ends.source.columns + ends.result.columns
        if columns * size + SPARE_BYTES > chip.state_buffer.bytes_per_partition:
            continue
        turns = [*found.turns()]
        into = tuple((step, count) for count, step in turns[0][0].result.cols)
        ticks = turn_ticks(chip, builder.options, turns[0][0], dtype, into)
        if len(ticks.taken) < 2 or found.count * ticks.each > most_cycles * chip.period("pe_array"):
            continue
        steps, took = turn_order(chip, ticks, [halves for _, halves in turns])
        cycles = -(-took // chip.period("pe_array"))
        if cycles <= most_cycles and (best is None or cycles < best.cycles):
            best = PlacedTurns(*both, found, tuple(steps), cycles)
    return best


def emit_turns(builder: LayerBuilder, names: tuple[str, str], placed: PlacedTurns) -> None:
    """Place source and result, and add the turns in their order."""
    source = holder_of_places(builder, names[0], placed.source, "state_buffer")
    result = holder_of_places(builder, names[1], placed.result, "node")
    engines = len({step.engine for step in placed.steps})
    builder.choose(
        f"{names[0]} goes to {names[1]} by {len(placed.steps)} turns that {engines} engine"
        f"{'s copy' if engines > 1 else ' copies'} out (about {placed.cycles} cycles)"
    )
    turns = [turn for turn, _ in placed.lanes.turns()]
    for step in placed.steps:
        turn = turns[step.number]
        before = replace(turn.source, holder=source.name)
        after = replace(turn.result, holder=result.name)
        builder.node(
            "turn",
            (builder.at_digits(source, before, turn.rows, turn.cols),),
            builder.at_digits(result, after, turn.cols, turn.rows),
            engine=step.engine,
        )
    builder.keep_matrix(names[1], result, result.axes)
