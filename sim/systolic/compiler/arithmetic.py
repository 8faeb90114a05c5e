"""What a program calculates, as a plain value for those who check its results.

It says in which order products add, and which elements go through identity products. Layers, nodes
and windows, from which it is found, are nobody else's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from systolic.compiler.ir.folded_rows import RowFold
from systolic.compiler.ir.nodes import Layers, MultiplyNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows, k_tiles
from systolic.compiler.lower.engines.whole_rows import row_work
from systolic.compiler.places.modes import places
from systolic.compiler.streams.compiled import StreamedGraph
from systolic.compiler.streams.lines import KTile, Lines, k_bounds, k_order, k_tiles_of
from systolic.compiler.streams.turned import TurnedSpans
from systolic.compiler.turned_elements import TurnedElements, numbers_at, turned_nodes
from systolic.hw.spec import Chip
from systolic.workload import Graph, Rules
from systolic.workload.expand import expanded

__all__ = ["KTile", "LineWork", "Lines", "ProgramArithmetic"]


@dataclass(frozen=True, slots=True)
class LineWork:
    """A convolution that is done as lines: its sums `tensor`, its operands, and how lines lie.

    k_tiles: of a stretch of windows. passes: whether the array leaves the bits of what it turns as
    they are.
    """

    tensor: str
    operands: tuple[str, ...]
    lines: Lines
    k_tiles: tuple[KTile, ...]
    passes: bool


@dataclass(frozen=True, slots=True)
class ProgramArithmetic:
    """The arithmetic of a program.

    graph: what is calculated; parts of composite operations are operations of their own if their
    results may be turned. rules: the order of adding, K-tiles among it. own: the rules of products
    that add in another order, by layer. lines: a convolution that multiplies by structural zeros.
    loses_signs: some zeros may have lost their signs in ways that are not followed.
    """

    graph: Graph
    rules: Rules
    own: Mapping[str, Rules]
    lines: LineWork | None = None
    loses_signs: bool = False


def arithmetic_of(
    graph: Graph,
    chip: Chip,
    layers: Layers,
    by_engine: frozenset[int],
    streamed: StreamedGraph | None,
) -> ProgramArithmetic:
    """Return the arithmetic of a program: of streams if there are any, or of layers.

    by_engine: the nodes that an engine turns.
    """
    rules = rules_of(chip)
    if streamed is not None and streamed.convolution is None:
        return ProgramArithmetic(graph, rules, {})
    parts = expanded(graph, row_work(chip))
    if streamed is not None and streamed.convolution is not None:
        work = streamed.convolution
        passes = chip.pe_array.turns_by_passing(work.dtype)
        lines = LineWork(
            work.op.output, work.op.inputs, work.lines, tuple(k_tiles_of(work.lines)), passes
        )
        own = {work.op.name: _of_lines(rules, work.lines)}
        return ProgramArithmetic(parts, rules, own, lines, loses_signs=True)
    is_transpose = [op.kind for op in graph.operations] == ["transpose"]
    loses = not is_transpose and bool(turned_nodes(layers, chip, by_engine))
    return ProgramArithmetic(parts, rules, dict(_of_layers(rules, layers, chip)), loses_signs=loses)


def rules_of(chip: Chip) -> Rules:
    """Return what the arithmetic of a chip depends on."""
    fused = chip.pe_array.fused_multiply_add
    return Rules(lambda K: k_tiles(chip, K), fused, segment=block_rows(chip), rows=row_work(chip))


def _of_layers(rules: Rules, layers: Layers, chip: Chip) -> Iterator[tuple[str, Rules]]:
    """Yield layers whose products take rows of the contraction in other K-tiles, and their rules.

    Rows lie folded, or the weights of a depthwise convolution lie along diagonals.
    """
    for node in layers.nodes:
        if isinstance(node, MultiplyNode) and node.diagonal:
            yield node.layer, replace(rules, channels_of_tile=node.diagonal.p)
        elif isinstance(node, MultiplyNode) and node.fold > 1:
            order = RowFold(block_rows(chip), node.fold).order
            yield node.layer, replace(rules, k_order=order)


def _of_lines(rules: Rules, lines: Lines) -> Rules:
    """Return the rules of a convolution as lines: a K-tile has whole rows of its windows."""
    bounds = k_bounds(lines)
    return replace(rules, k_tiles=lambda K: bounds, k_order=partial(k_order, lines))


def elements_of_spans(graph: Graph, spans: Sequence[TurnedSpans]) -> tuple[TurnedElements, ...]:
    """Return what streams turn of the graph's tensors, by the numbers of the elements."""
    known = {name for name, _ in graph.tensors}
    return tuple(
        TurnedElements(
            each.reader,
            each.tensor,
            numbers_at(
                graph.shape(each.tensor),
                each.at + places(each.terms)[:, None] + places(each.spans),
            ),
        )
        for each in spans
        if each.tensor in known
    )
