"""Which operations are streams, and which go together in one.

A further operation is a row in one of three tables: `ELEMENT_WISE`, `BY_SEGMENTS`, `REDUCED`.
"""

from __future__ import annotations

from collections.abc import Callable

from systolic.compiler.ir.carried import is_packed
from systolic.compiler.places.boxes import is_separable
from systolic.compiler.streams.element_wise import ELEMENT_WISE, element_wise
from systolic.compiler.streams.moved import MOVES, moved
from systolic.compiler.streams.reduced import pool_streams, reduce_streams
from systolic.compiler.streams.segments import BY_SEGMENTS, by_segments
from systolic.compiler.streams.work import StreamWork
from systolic.hw.spec import Chip
from systolic.workload import Graph, Operation
from systolic.workload.options import Options

REDUCED: dict[str, Callable[[Graph, Operation, Chip], list[StreamWork] | None]] = {
    "reduce": reduce_streams,
    "pool": pool_streams,
}
"""Operations that make one element of several; None: not as a stream."""


def streams(graph: Graph, chip: Chip, options: Options) -> list[StreamWork] | None:
    """Return the streams that do a graph, in order; None if it has work of other kinds.

    Of other kinds is also a move of which the run file says how it is done, a tensor whose home is
    not DRAM, whose elements share bytes, or whose tiles mix dimensions.
    """
    kinds = {op.kind for op in graph.operations}
    lone = len(graph.operations) == 1 and kinds <= REDUCED.keys()
    if not lone and not kinds <= ELEMENT_WISE.keys() | BY_SEGMENTS.keys() | MOVES:
        return None
    if kinds & MOVES and _says_how(options):
        return None
    for _, tensor in graph.tensors:
        shape = tensor.shape
        if tensor.home != "dram" or is_packed(shape) or not is_separable(shape):
            return None
        if not shape.num_elements():
            return None
    if lone:
        (op,) = graph.operations
        return REDUCED[op.kind](graph, op, chip)
    return [_stream(graph, group) for group in _groups(graph)]


def _says_how(options: Options) -> bool:
    """Return whether a run file says how elements are to be moved, in the patent's terms."""
    chosen = options.via, options.block, options.tile_columns
    return any(each is not None for each in chosen) or options.drain != "block"


def _stream(graph: Graph, group: list[Operation]) -> StreamWork:
    kind = group[-1].kind
    if kind in ELEMENT_WISE:
        return element_wise(graph, group)
    return moved(graph, group[-1]) if kind in MOVES else by_segments(graph, group[-1])


def _groups(graph: Graph) -> list[list[Operation]]:
    """Return the operations of each stream, in an order in which they can be done."""
    users: dict[str, list[Operation]] = {}
    for op in graph.operations:
        for name in dict.fromkeys(op.inputs):
            users.setdefault(name, []).append(op)
    group_of: dict[str, list[Operation]] = {}
    groups: list[list[Operation]] = []
    for op in graph.operations:
        mine = [op]
        if op.kind in ELEMENT_WISE:
            dims = graph.shape(op.output).dims
            for name in dict.fromkeys(op.inputs):
                before = group_of.get(name)
                if before is None or before[-1].kind not in ELEMENT_WISE or before in [mine]:
                    continue
                alone = len(users[name]) == 1 and name not in graph.named
                if alone and graph.shape(name).dims == dims:
                    mine = [*before, *mine]
                    groups = [group for group in groups if group is not before]
        groups.append(mine)
        group_of[op.output] = mine
    return groups
