"""Operands and results of products in DRAM whose tiles leave gaps: moved first, or last.

An operand goes to a place without gaps, if that pays, by the cheapest of the ways (`ways`), and a
result comes from one. Not here: moves on the chip, and graphs without products (`streams`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.cost.dma import load_cost
from systolic.compiler.ir.batch_groups import whole_rows
from systolic.compiler.ir.move_parts import MovePart, move_parts
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.strided import ShapeInDram
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.rests import Parts, RestCutter
from systolic.compiler.lower.views import physical, swap
from systolic.compiler.lower.ways import Choice, Ends, cheapest
from systolic.layout import Layout, Shape
from systolic.workload.options import Options

MATRICES = 2
"""The factors of a transpose of one matrix, which has a lowering of its own: square tiles."""


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of source and result, and the tensor that is moved."""

    source: str
    result: str
    tensor: str


@dataclass(frozen=True, slots=True)
class _WithoutGaps:
    """A layout without gaps, and the moves to it or from it.

    cycles: about how many it takes to move the tensor so. instead_of: from its tiles, or to them.
    """

    cycles: int
    instead_of: int
    shape: Shape
    parts: tuple[MovePart, ...]
    choices: list[Choice]


def _asked(options: Options) -> bool:
    """Return whether the run file says how elements are to be moved."""
    return options.via is not None or options.block is not None or options.tile_columns is not None


def _ends(
    builder: LayerBuilder, part: MovePart, brought: ShapeInDram, move: _Places, number: int
) -> Ends:
    """Give the places of source and result names under which their dimensions are the factors.

    brought: the source, with the padding that is brought. number: of the part.
    """
    end = f".{number}" if number else ""
    ends = Ends(f"{move.result}.from{end}", f"{move.result}.to{end}", move.tensor)
    builder.dram.part(ends.source, move.source, brought, part.source)
    builder.dram.part(ends.target, move.result, part.move.result, part.result)
    return ends


def _choices(parts: Sequence[MovePart], planner: Planner) -> list[Choice] | None:
    """Return the best way of each part; None if none suits one of them."""
    found: list[Choice] = []
    for part in parts:
        choice = cheapest(part.move, planner, len(parts))
        if choice is None:
            return None
        found.append(choice)
    return found


def _cycles(builder: LayerBuilder, choices: Sequence[Choice]) -> int:
    return sum(choice.ticks for choice in choices) // builder.chip.period("pe_array")


def _emit(
    builder: LayerBuilder, parts: Sequence[MovePart], choices: Sequence[Choice], places: _Places
) -> None:
    for number, (part, choice) in enumerate(zip(parts, choices, strict=True)):
        made = replace(part, move=choice.plan.move)
        ends = _ends(builder, made, choice.plan.source, places, number)
        choice.way.emit(builder, choice.plan, ends)


def _in_words(choices: Sequence[Choice]) -> str:
    ways = " and ".join(dict.fromkeys(choice.way.name for choice in choices))
    return ways + (f" in {len(choices)} parts" if len(choices) > 1 else "")


def bring_without_gaps(
    builder: LayerBuilder, tensor: str, axes: Axes, work_cycles: int = 0
) -> None:
    """Bring an input in DRAM to the chip or to a place without tiles and gaps, if that pays.

    axes: the view that work wants. It comes to the chip in whole rows, whose gaps are
    left out. From another place it is brought by what takes it. work_cycles: of what takes it,
    which begins when all rows are there.
    """
    if tensor not in builder.graph.inputs or _asked(builder.options):
        return
    if not builder.dram.holds(tensor) or builder.dram.of(tensor) != tensor:
        return
    shape = builder.dram.shape(tensor)
    best = _cheapest_without_gaps(builder, shape, axes, stored=False)
    if best is None:
        return
    place = f"{tensor}.dense"
    builder.choose(
        f"{tensor} is brought to a place without gaps {_in_words(best.choices)} (about "
        f"{best.cycles} cycles with what follows; from its tiles: {best.instead_of})"
    )
    builder.dram.reserve(place, best.shape)
    _emit(builder, best.parts, best.choices, _Places(tensor, place, tensor))
    builder.dram.put(tensor, place)


def stored_without_gaps(builder: LayerBuilder, tensor: str) -> bool:
    """Store an output that is on the chip without tiles, and move it from there to its own place.

    Return whether it is done: whether that costs less than to store it in its tiles.
    """
    shape = builder.graph.shape(tensor)
    if not shape.layout.tiles or _asked(builder.options) or builder.dram.holds(tensor):
        return False
    if builder.user_type(tensor) != shape.element_type:
        return False  # the bits of padding of a narrow type stay as they were
    _, axes = builder.any_view(tensor)
    best = _cheapest_without_gaps(builder, shape, axes, stored=True)
    if best is None:
        return False
    place = f"{tensor}.dense"
    builder.choose(
        f"{tensor} is stored without gaps and goes to its tiles {_in_words(best.choices)} (about "
        f"{best.cycles} cycles; at once: {best.instead_of})"
    )
    matrix, seen = builder.storable(tensor, physical(best.shape)[-1])
    builder.store(matrix, tensor, best.shape, seen, place)
    _emit(builder, best.parts, best.choices, _Places(place, tensor, tensor))
    builder.come_home(tensor)
    return True


def _cheapest_without_gaps(
    builder: LayerBuilder, shape: Shape, axes: Axes, *, stored: bool
) -> _WithoutGaps | None:
    """Return the best order in which a tensor lies in a place without gaps; None if nothing pays.

    axes: the view in which work has the tensor. stored: it is moved from there to its tiles.
    """
    if not shape.layout.tiles and shape.padded_elements() == shape.num_elements():
        return None
    before = _cycles_to_bring(builder, shape, axes)
    found: list[_WithoutGaps] = []
    for order in ([axis for group in axes for axis in group], shape.layout.major_to_minor):
        dense = Shape(shape.element_type, shape.dims, Layout(tuple(order)[::-1]))
        moved = _cycles_to_bring(builder, dense, axes)
        if 2 * moved >= before:
            continue  # its bytes are moved a second time at least
        ends = (dense, shape) if stored else (shape, dense)
        parts = move_parts(*ends, range(shape.rank), over_padding=not stored)
        planner = Planner(builder.chip, builder.options)
        choices = None if parts is None else _choices(parts, planner)
        if parts is not None and choices is not None:
            parts, choices = RestCutter(planner).cut(Parts(parts, choices))
            cycles = _cycles(builder, choices) + moved
            found.append(_WithoutGaps(cycles, before, dense, parts, choices))
    best = min(found, key=lambda each: each.cycles, default=None)
    return best if best and best.cycles < before else None


def _cycles_to_bring(builder: LayerBuilder, shape: Shape, axes: Axes) -> int:
    """Return about how many of the array's cycles all queues take for a view, or for its turn."""
    chip = builder.chip
    ways = {axes: 0}
    if builder.can_turn(shape.element_type):
        ways[swap(axes)] = builder.cost_of_turning(shape, swap(axes))
    if not shape.layout.tiles and any(axes[:-2]) and len(axes[-1]) == 1:
        ways |= {whole_rows(shape, view): turn for view, turn in ways.items()}
    return min(
        load_cost(chip, shape, view)
        // chip.dma.useful_queues
        * chip.period("dma")
        // chip.period("pe_array")
        + turn
        for view, turn in ways.items()
    )
