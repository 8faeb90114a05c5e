"""Moves in rounds beside other work: engines that would be idle share them, or do them alone.

An operand of a product that goes from lanes to lanes is moved before the product begins, and the
engine that will take sums out is idle until then. So all engines share such a move, as they do if
nothing else is to be done. But if the array turns another operand meanwhile, that engine takes the
turned elements out; then another engine makes the move, if the turns take long enough. So it does
if the product has begun with other matrices meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from systolic.compiler.cost.engines import drain_engine
from systolic.compiler.cost.lane_rounds import independent_engines, lone_ticks
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.nodes import Layers, Matrix, Node
from systolic.hw.spec import Chip
from systolic.workload.options import Options

SHARED = 0.5
"""The part of an engine's time for a move that two engines save which share it."""
OF_QUEUES = ("copy", "store", "bounce")
"""Kinds of nodes that no engine works on."""


def with_idle_engines(layers: Layers, chip: Chip, options: Options) -> Layers:
    """Return layers in which moves in rounds are shared, or made by an engine that is idle."""
    moves = [n for n, node in enumerate(layers.nodes) if _in_rounds(node)]
    engines = independent_engines(chip, options)
    placed = any(matrix.bank is not None for matrix in layers.matrices)
    if not moves or len(engines) < 2 or layers.only_moves or placed:
        return layers
    nodes = list(layers.nodes)
    matrices = {matrix.name: matrix for matrix in layers.matrices}
    ticks = {
        number: lone_ticks(chip, change, matrices[nodes[number].output].dtype)
        for number in moves
        if (change := nodes[number].change) is not None
    }
    for number in moves:
        before_or_after = _in_order_with(number, layers.nodes, matrices)
        moved = sum(ticks[n] for n in moves if n in before_or_after)
        beside = sum(
            _drained_ticks(chip, options, matrices[node.output])
            for n, node in enumerate(nodes)
            if n not in before_or_after and node.kind not in OF_QUEUES and n not in ticks
        )
        change = nodes[number].change
        assert change is not None
        if beside < SHARED * moved:
            change = replace(change, shared=True)
        else:
            others = [name for name in engines if name != drain_engine(chip, options)]
            change = replace(change, engine=others[0]) if others else change
        nodes[number] = replace(nodes[number], change=change)
    return replace(layers, nodes=tuple(nodes))


def _in_rounds(node: Node) -> bool:
    change = node.change
    return change is not None and bool(change.engine and change.given) and not change.ports


def _in_order_with(
    number: int, nodes: Sequence[Node], matrices: Mapping[str, Matrix]
) -> frozenset[int]:
    """Return the nodes that cannot be at work at the same time as one: what it needs or makes."""
    found = {number}
    made = _held(nodes[number].made, matrices)
    for later in range(number + 1, len(nodes)):
        if made & _held(nodes[later].inputs, matrices):
            found.add(later)
            made |= _held(nodes[later].made, matrices)
    needed = _held(nodes[number].inputs, matrices)
    for earlier in reversed(range(number)):
        if needed & _held(nodes[earlier].made, matrices):
            found.add(earlier)
            needed |= _held(nodes[earlier].inputs, matrices)
    return frozenset(found)


def _held(names: Sequence[str], matrices: Mapping[str, Matrix]) -> set[str]:
    return {matrices[name].holder for name in names if name in matrices}


def _drained_ticks(chip: Chip, options: Options, matrix: Matrix) -> int:
    """Return about how many ticks an engine takes to write a matrix, an element of each lane."""
    lines = matrix.matrices * -(-matrix.rows // block_rows(chip)) * matrix.cols
    return lines * chip.period(drain_engine(chip, options))
