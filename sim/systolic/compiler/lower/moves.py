"""Lowering of what only moves elements from one place in DRAM to another: the cheapest way.

Whatever the operation is called, it is a move (`systolic.compiler.ir.factors`). A move of the same
bytes is a copy. Any other goes by the cheapest of the ways (`ways`), unless the lowering of the
operation itself has a cheaper one. An operand of a product whose tiles leave gaps is moved first
if that pays, and a result in such tiles is moved last. Not here: moves on the chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.cost.dma import load_cost
from systolic.compiler.cost.turns import turn_cost
from systolic.compiler.ir.batch_groups import whole_rows
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.move_parts import MovePart, move_parts
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.strided import ShapeInDram
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.over_chip import cheapest_over_chip, emit_over_chip
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


def move_in_dram(
    builder: LayerBuilder,
    source: str,
    output: str,
    permutation: Sequence[int] | None,
    other_cycles: int | None = None,
) -> bool:
    """Bring a tensor in DRAM to the place of an output in DRAM; return whether it is done.

    permutation: of the axes (None: a reshape). other_cycles: about how many of the array's cycles
    another lowering takes; it is left to that unless a way is cheaper.
    """
    if _asked(builder.options):
        return False
    shape = builder.graph.shape(output)
    given = source in builder.graph.inputs and builder.dram.of(source) == source
    narrow = builder.user_type(output) != shape.element_type
    parts = move_parts(
        builder.dram.shape(source), shape, permutation, over_padding=given and not narrow
    )
    if parts is None:
        return False
    move, names = parts[0].move, (source, output)
    # The bits of padding of a narrow type stay as they were.
    kept = narrow and 8 * shape.size_bytes() != shape.num_elements() * shape.element_bits
    if move.same_bytes and len(parts) == 1 and not kept:
        return _copied(builder, source, output)
    one = move if len(parts) == 1 and len(move.sizes) == MATRICES else None
    if one and other_cycles is None and builder.can_turn(move.dtype):
        if not _arranged(builder, parts, names, permutation, _matrix_cycles(builder, one)):
            _as_a_matrix(builder, parts[0], names)
        return True
    return _arranged(builder, parts, names, permutation, other_cycles)


def _copied(builder: LayerBuilder, source: str, output: str) -> bool:
    """Copy the bytes of a place to another; return whether it is done."""
    before, after = builder.dram.shape(source), builder.graph.shape(output)
    if before.size_bytes() != after.size_bytes():
        return False  # one of them has padding behind its last element
    parts = builder.chip.dram.organisation
    if parts is not None and parts.outstanding == 1:
        return False  # reads and writes would close each other's rows
    builder.choose(f"{output} has the bytes of {source}: they are copied by all DMA queues")
    builder.copied(builder.dram.of(source), output)
    builder.come_home(output)
    return True


def _asked(options: Options) -> bool:
    """Return whether the run file says how elements are to be moved."""
    return options.via is not None or options.block is not None or options.tile_columns is not None


def _matrix_cycles(builder: LayerBuilder, move: Move) -> int:
    """Return about how many of the array's cycles one matrix takes that the array turns."""
    chip = builder.chip
    rows, cols = (0,), (1,)
    moved = load_cost(chip, move.source, (rows, cols)) + load_cost(chip, move.result, (cols, rows))
    dma = moved // chip.dma.useful_queues * chip.period("dma")
    return dma // chip.period("pe_array") + turn_cost(chip, move.sizes, move.dtype)


def _as_a_matrix(builder: LayerBuilder, part: MovePart, names: tuple[str, str]) -> None:
    """Transpose the one matrix of a reshape: long runs in, identity products, long runs out."""
    move, (_, output) = part.move, names
    builder.choose(f"{output} is the transpose of a matrix, by identity products")
    places = _Places(builder.dram.of(names[0]), output, output)
    ends = _ends(builder, part, move.source, places, 0)
    rows, cols = (0,), (1,)
    brought = builder.place_matrix(move.source, (rows, cols), output, dram=ends.source)
    turned = builder.place_matrix(move.source, (cols, rows), output)
    builder.turn(brought, turned)
    builder.store_at(turned, ends.target, (cols, rows))
    builder.come_home(output)


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


def _arranged(
    builder: LayerBuilder,
    parts: Sequence[MovePart],
    names: tuple[str, str],
    permutation: Sequence[int] | None,
    other_cycles: int | None,
) -> bool:
    """Let a move go the cheapest way; return False if none suits or another lowering is cheaper.

    names: of the source and of the result. permutation: of the axes (None: a reshape).
    """
    ways = _ways_alone(builder, tuple(parts))
    if ways is None:
        return False
    parts, choices = ways
    cycles = _cycles(builder, choices)
    least = cycles if other_cycles is None else min(cycles, other_cycles)
    over = cheapest_over_chip(builder, names, permutation, least)
    if over is not None:
        emit_over_chip(builder, names, over)
        return True
    if other_cycles is not None and other_cycles <= cycles:
        return False
    others = "" if other_cycles is None else f"; as matrices: {other_cycles}"
    what = f"{names[0]} goes to {names[1]} {_in_words(choices)}"
    builder.choose(f"{what} (about {cycles} cycles{others})")
    _emit(builder, parts, choices, _Places(builder.dram.of(names[0]), names[1], names[1]))
    builder.come_home(names[1])
    return True


def _ways_alone(builder: LayerBuilder, parts: tuple[MovePart, ...]) -> Parts | None:
    """Return the ways of parts beside which nothing goes on; None if none suits one of them."""
    planner = Planner(builder.chip, builder.options, alone=True)
    choices = _choices(parts, planner)
    return RestCutter(planner).cut(Parts(parts, choices)) if choices else None


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

    axes: the view as which work wants it. To the chip it comes in whole rows, of which the gaps are
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
