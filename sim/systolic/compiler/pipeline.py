"""Compile a graph: the five passes in order, each with a result that can be printed.

lower (layers, nodes, connections) -> tile (tasks on tiles) -> place and schedule (tiles in
memory, instructions in queues) -> sync (semaphores). Each result has a verifier (`verify` in the
pass's folder) of the rules on which the next pass relies. The program is checked at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from systolic.collector import collector_at_rest
from systolic.compiler.arrival_plans import with_arrivals
from systolic.compiler.compiled import CompiledGraph
from systolic.compiler.cost.pace import estimated_ticks
from systolic.compiler.given_places import has_its_places, without_places
from systolic.compiler.ir.nodes import ConvertNode, Layers
from systolic.compiler.ir.tasks import Tiled
from systolic.compiler.lower.dram_places import DramPlaces
from systolic.compiler.lower.engines.predicates import with_predicates
from systolic.compiler.lower.engines.whole_rows import row_work
from systolic.compiler.lower.moves.blocks import equation_1
from systolic.compiler.lower.moves.packed import carried_graph
from systolic.compiler.lower.products.exact_products import with_exact_products
from systolic.compiler.lower.table import check_choices, lower_graph
from systolic.compiler.lower.verify import verify_layers
from systolic.compiler.parts.choose import Chooser, EqualParts, NoPartError
from systolic.compiler.parts.compiled import in_parts, joined
from systolic.compiler.parts.divide import divided
from systolic.compiler.parts.repeats import repeated
from systolic.compiler.place.verify import verify_places
from systolic.compiler.plans import Plan, best_plan
from systolic.compiler.schedule.schedule import Scheduled
from systolic.compiler.schedule.verify import verify_drafts, verify_references
from systolic.compiler.streams.compiled import StreamedGraph, convolved, streamed
from systolic.compiler.streams.plan import TickJudge
from systolic.compiler.streams.table import with_padded_images
from systolic.compiler.sync.semaphores import synchronise_drafts
from systolic.compiler.sync.verify import verify_synchronised
from systolic.compiler.tile.verify import verify_tiled
from systolic.errors import CompileError, RoomError
from systolic.hw.spec import Chip
from systolic.isa import check_program
from systolic.workload import Graph
from systolic.workload.expand import expanded
from systolic.workload.options import Options

FAR = 12
"""A graph that takes this many times the least that its parts take is tried in parts too."""

CERTAIN = 4
"""A program does not take this many times its estimate: what estimates leave out are lost ports."""

NEAR, FEW = 4, 64
"""Streams of so few instructions are compared from a lower ratio on, at next to no cost, where the
chip has the instruction that streams do not use: it sums up what it makes."""
SUMS_UP = "activate_reduce"

VERIFY = "SYSTOLIC_VERIFY"
"""The environment variable that has every pass verified."""


def compile_graph(
    name: str,
    graph: Graph,
    chip: Chip,
    options: Options | None = None,
    *,
    verify: bool | None = None,
    judge: TickJudge | None = None,
) -> CompiledGraph:
    """Compile a graph for a chip.

    judge: returns the ticks that a program takes; of several plans the best is taken by it (None,
    or an effort of 0: by their estimates).

    verify: check the result of every pass by its verifier. None: the environment decides (`VERIFY`
    set to anything but 0). If not, only checks that cost less than 5 % of the compilation are made:
    of the result of lower, and of the references between the drafts of schedule.

    Raises CompileError if a type, a tensor or a tile does not fit the chip, BrokenPassError if
    the compiler is at fault.
    """
    every = os.environ.get(VERIFY, "0") != "0" if verify is None else verify
    with collector_at_rest():  # tasks and drafts are kept, or dropped without cycles
        options = options or Options()
        judge = judge if options.effort else None
        return _compiled(name, graph, chip, options, every=every, judge=judge)


def _compiled(
    name: str, graph: Graph, chip: Chip, options: Options, *, every: bool, judge: TickJudge | None
) -> CompiledGraph:
    """Return the results of all passes; every: verify each of them.

    If the compiler would choose the places that a graph gives, the program is the one without them.
    """
    for free in without_places(graph):
        own = _of_streams(name, free, chip, options, every=every, judge=judge)
        own = own or _passed_if_it_fits(name, free, chip, options, every=every, judge=judge)
        if own is not None and has_its_places(graph, own.placements()):
            return replace(own, graph=graph)
    found = _of_streams(name, graph, chip, options, every=every, judge=judge)
    if found is not None:
        return _or_whole(found, name, graph, chip, options, every=every, judge=judge)
    if any(tensor.home != "dram" for _, tensor in graph.tensors):
        return _passed(name, graph, chip, options, every=every, judge=judge)
    found = _in_stretches(name, graph, chip, options, every=every, judge=judge)
    return found or _whole_or_parts(name, graph, chip, options, every=every, judge=judge)


def _in_stretches(
    name: str, graph: Graph, chip: Chip, options: Options, *, every: bool, judge: TickJudge | None
) -> CompiledGraph | None:
    """Return a graph that repeats stretches of operations, equal ones compiled once; else None.

    None too if a stretch does not fit, or may be faster in parts of its own.
    """

    def compile_stretch(part: Graph) -> CompiledGraph:
        far, own = _far_ticks(part, chip), _of_part(options, part)
        found = _best_passed(name, part, chip, own, every=every, judge=judge, limit=far)
        if judge is not None and _takes(found, far, judge):
            raise CompileError("a stretch takes far more than its parts at least")
        return found

    parts = repeated(graph, chip, options)
    if not parts:
        return None
    try:
        found = joined(name, graph, parts, EqualParts(chip, options, compile_stretch))
    except CompileError:
        return None
    check_program(found.program, chip)
    return found


def _of_part(options: Options, part: Graph) -> Options:
    """Return the options of a part: identities are not there before it, names are its own."""
    own = {op.name for op in part.operations}
    asked = {name: each for name, each in options.operations.items() if name in own}
    return replace(options, identity="built", operations=asked)


def _far_ticks(graph: Graph, chip: Chip) -> int:
    """Return from how many ticks on one schedule of a graph may take more than its parts."""
    plan = divided(expanded(graph, row_work(chip)))
    return int((NEAR if plan.relaid else FAR) * plan.floor_ticks(chip)) + 1


def _takes(compiled: CompiledGraph, ticks: int, judge: TickJudge) -> bool:
    """Return whether a program takes `ticks` or more; the judge is not asked if it cannot.

    It cannot if even `CERTAIN` times its estimate is no more.
    """
    chip = compiled.chip
    if compiled.ticks is not None:
        return compiled.ticks >= ticks
    about = compiled.plan.cycles * chip.period("pe_array")
    about = about or estimated_ticks(compiled.scheduled.drafts, chip)
    return about * CERTAIN > ticks and judge(compiled.program, ticks) >= ticks


def _faster(one: CompiledGraph, other: CompiledGraph, judge: TickJudge) -> CompiledGraph:
    """Return the program that takes fewer ticks; of equal ones the first."""
    ticks = judge(one.program, None) if one.ticks is None else one.ticks
    others = judge(other.program, ticks)
    return replace(other, ticks=others) if others < ticks else replace(one, ticks=ticks)


def _whole_or_parts(
    name: str, graph: Graph, chip: Chip, options: Options, *, every: bool, judge: TickJudge | None
) -> CompiledGraph:
    """Return a graph as one schedule or, if that does not fit or is far slower, in parts."""
    whole, refused, far = None, CompileError(""), _far_ticks(graph, chip)
    try:
        whole = _best_passed(name, graph, chip, options, every=every, judge=judge, limit=far)
    except CompileError as error:
        refused = error
    if whole is not None and (judge is None or not _takes(whole, far, judge)):
        return whole

    def compile_part(part: Graph) -> CompiledGraph:
        built = _of_part(options, part)
        found = _of_streams(name, part, chip, built, every=every, judge=judge)
        if found is not None:
            return _or_whole(found, name, part, chip, built, every=every, judge=judge)
        return _best_passed(name, part, chip, built, every=every, judge=judge)

    plan = divided(expanded(graph, row_work(chip)))
    chooser = Chooser(EqualParts(chip, options, compile_part), judge)
    try:
        parts = in_parts(name, graph, plan, chooser)
    except CompileError as error:
        if whole is not None:
            return whole
        raise _of_whole(refused, error) from None
    if whole is not None and judge is not None:
        most = judge(parts.program, None)
        if far <= most and judge(whole.program, most + 1) <= most:
            return whole
    check_program(parts.program, chip)
    return parts


def _of_whole(refused: CompileError, part: CompileError) -> CompileError:
    """Return why a graph cannot be done: what was refused of the whole.

    If it was for room, the smallest part that was refused too is named behind it.
    """
    if isinstance(refused, RoomError) and isinstance(part, NoPartError):
        return RoomError(f"{refused}; {part.smallest}")
    return refused


def _check_dram(graph: Graph, chip: Chip) -> None:
    """Raise RoomError if what a graph takes and makes does not fit DRAM: no part changes that."""
    places = DramPlaces(chip)
    for name in (*graph.inputs, *graph.outputs):
        if graph.tensor(name).home == "dram":
            places.reserve(name, graph.shape(name))


def _or_whole(
    found: CompiledGraph,
    name: str,
    graph: Graph,
    chip: Chip,
    options: Options,
    *,
    every: bool,
    judge: TickJudge | None,
) -> CompiledGraph:
    """Return the streams of a graph or, if they take far more than must be, its matrices.

    The array may turn what streams read element by element, and an engine's instruction may do
    several steps of a composite operation at once.
    """
    assert found.streamed is not None
    if found.streamed.homes:
        return found
    whole_rows = expanded(graph, row_work(chip))
    floor = divided(whole_rows).floor_ticks(chip)
    reduces = any(op.kind == "reduce" for op in whole_rows.operations)
    is_small = reduces and _sums_up(chip) and len(found.program.instructions) <= FEW
    # Matrices are turned, and images get their padding, on the way.
    moves_first = (reduces and found.streamed.turned_with) or with_padded_images(graph) != graph
    far = 1 if moves_first else NEAR if is_small else FAR
    if judge is None or found.streamed.ticks <= far * floor:
        return found
    whole = _passed_if_it_fits(name, graph, chip, options, every=every, judge=judge)
    return found if whole is None else _faster(found, whole, judge)


def _sums_up(chip: Chip) -> bool:
    """Return whether an engine sums up what it makes in one instruction."""
    return any(SUMS_UP in engine.does for engine in chip.lane_engines.values())


def _of_streams(
    name: str, graph: Graph, chip: Chip, options: Options, *, every: bool, judge: TickJudge | None
) -> CompiledGraph | None:
    """Return the program of a graph that is done as streams; None if it has other work."""
    check_choices(graph, options)
    parts = with_predicates(with_exact_products(expanded(graph, row_work(chip)), chip), chip)
    carried_graph(parts, chip)  # refuses the types that no unit takes
    _check_dram(graph, chip)
    found = streamed(parts, chip, options, judge)
    if found is None:
        return None
    return _as_program(name, graph, chip, options, found, every=every)


def _best_passed(
    name: str,
    graph: Graph,
    chip: Chip,
    options: Options,
    *,
    every: bool,
    judge: TickJudge | None,
    limit: int | None = None,
) -> CompiledGraph:
    """Return a graph as matrices or, of one convolution or product, as lines: the faster.

    limit: no difference is made between programs that take `limit` ticks or more.

    Raises CompileError if neither fits.
    """
    best: CompiledGraph | None = None
    refused = CompileError("")
    try:
        best = _passed(name, graph, chip, options, every=every, judge=judge)
    except CompileError as error:
        refused = error

    def is_worth(ticks: int) -> bool:
        nonlocal best
        if best is None or judge is None:
            return best is None
        if best.ticks is None:
            best = replace(best, ticks=judge(best.program, limit))
        return best.ticks is None or ticks < best.ticks

    for found in programs_of_lines(name, graph, chip, options, is_worth, every=every):
        best = found if best is None or judge is None else _faster(best, found, judge)
    if best is None:
        raise refused
    return best


def programs_of_lines(
    name: str,
    graph: Graph,
    chip: Chip,
    options: Options,
    is_worth: Callable[[int], bool] = lambda ticks: True,
    *,
    every: bool,
) -> Iterator[CompiledGraph]:
    """Yield the programs of a graph of one convolution or product as lines; none of other graphs.

    is_worth: is given the ticks for which a way keeps the array busy; returns whether to try it.
    """
    try:
        for each in convolved(expanded(graph, row_work(chip)), chip, options, is_worth):
            yield _as_program(name, graph, chip, options, each, every=every)
    except CompileError:  # no engine does an operation over the sums
        return


def _as_program(
    name: str, graph: Graph, chip: Chip, options: Options, found: StreamedGraph, *, every: bool
) -> CompiledGraph:
    """Return the program of streams."""
    if every:
        verify_drafts(found.drafts, chip)
    verify_references(found.drafts)
    size = sum(place.size_bytes for place in found.dram)
    layers = Layers((), (), found.dram, (), found.choices)
    scheduled = Scheduled(
        found.drafts,
        (),
        (),
        found.identities,
        (),
        0,
        size,
        0,
        turned=found.turned_multiply_adds,
        turned_with=found.turned_with,
    )
    lanes = chip.state_buffer.partitions
    plan = Plan(chip.state_buffer.bytes_per_partition, Tiled((lanes, lanes), (), ()), scheduled)
    synchronised = synchronise_drafts(name, found.drafts, chip)
    if every:
        verify_synchronised(found.drafts, synchronised.program, chip)
    check_program(synchronised.program, chip)
    return CompiledGraph(graph, chip, options, None, layers, plan, synchronised, found)


def _passed_if_it_fits(
    name: str, graph: Graph, chip: Chip, options: Options, *, every: bool, judge: TickJudge | None
) -> CompiledGraph | None:
    """Return the results of all passes; None if the graph does not fit the chip so."""
    try:
        return _passed(name, graph, chip, options, every=every, judge=judge)
    except CompileError:
        return None


def _passed(
    name: str, graph: Graph, chip: Chip, options: Options, *, every: bool, judge: TickJudge | None
) -> CompiledGraph:
    """Return the results of all passes for a graph as it is."""
    layers = lower_graph(graph, chip, options)
    verify_layers(layers)
    layers, plan = _planned(layers, chip, options, judge)
    plan = with_arrivals(plan, layers, chip, options)
    _verify_plan(plan, layers, chip, every=every)
    synchronised = synchronise_drafts(name, plan.scheduled.drafts, chip)
    if every:
        verify_synchronised(plan.scheduled.drafts, synchronised.program, chip)
    check_program(synchronised.program, chip)
    carried = carried_graph(graph, chip)
    in_blocks = not carried.on_chip and any(
        not isinstance(node, ConvertNode) for node in layers.nodes
    )
    blocks = equation_1(carried.graph, chip, options) if in_blocks else None
    return CompiledGraph(graph, chip, options, blocks, layers, plan, synchronised)


def _planned(
    layers: Layers, chip: Chip, options: Options, judge: TickJudge | None
) -> tuple[Layers, Plan]:
    """Return the best plan, and the layers that it is for.

    If tensors without tiles have no unbroken room, or tiles must leave for it, they lie in pieces.
    """
    pieces = layers.in_pieces()
    try:
        plan = best_plan(layers, chip, options, judge)
    except CompileError:
        if pieces == layers:
            raise
        return pieces, best_plan(pieces, chip, options, judge)
    if not plan.scheduled.evictions or pieces == layers:
        return layers, plan
    other = best_plan(pieces, chip, options, judge)
    better = other.scheduled.evictions < plan.scheduled.evictions
    return (pieces, other) if better else (layers, plan)


def _verify_plan(plan: Plan, layers: Layers, chip: Chip, *, every: bool) -> None:
    """Verify tile, place and schedule, in this order: a fault shows at the pass that made it."""
    tiled, scheduled = plan.tiled, plan.scheduled
    if every:
        verify_tiled(tiled, layers)
        verify_places(scheduled.stays, scheduled.identities, tiled.tasks, chip)
        verify_drafts(scheduled.drafts, chip)
    verify_references(scheduled.drafts)
