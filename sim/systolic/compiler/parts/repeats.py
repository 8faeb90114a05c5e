"""Stretches of operations that a graph repeats, such as the layers of a network: each is a part.

Equal stretches are compiled once. A tensor that goes from a stretch to the next is stored and
loaded, which takes time that a schedule of the whole graph may save. So a graph is divided only
where this time is a small part of what its stretches take at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from systolic.compiler.cost.copies import latency_cycles
from systolic.compiler.ir.carried import memory_bytes
from systolic.compiler.parts.floor import floor_ticks
from systolic.compiler.parts.graph_part import GraphPart, TensorBox
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.spec import Chip
from systolic.workload import Graph
from systolic.workload.graph import make_graph
from systolic.workload.options import Options

MOST_LOST = 1 / 16
"""The most of its stretches' least time that a graph may lose for being compiled by stretches."""

LEAST_SAVED = 1 / 2
"""The least of a graph's operations that are not compiled again. Work within a layer goes on from
operation to operation, so a layer is not divided for the equal products in it.
"""


def repeated(graph: Graph, chip: Chip, options: Options) -> list[GraphPart]:
    """Return the parts of a graph that repeats some; none if it does not, or would lose by it."""
    crossing = _crossing(graph)
    cuts = _cuts(graph, [sum(memory_bytes(graph.shape(n)) for n in names) for names in crossing])
    stretches = list(pairwise(cuts))
    if len(stretches) < 2:
        return []
    ops = graph.operations
    least = sum(floor_ticks(graph, ops[first:stop], chip) for first, stop in stretches)
    ends = sum(_end_ticks(graph, crossing[cut], chip) for cut in cuts[1:-1])
    if ends > MOST_LOST * least:
        return []
    parts = [_stretch(graph, first, stop) for first, stop in stretches]
    keys = {repr(part.key(options)) for part in parts}
    return parts if len(keys) < len(parts) else []


def _crossing(graph: Graph) -> list[list[str]]:
    """Return for each number of operations the tensors of those before that others behind take."""
    last = {name: n for n, op in enumerate(graph.operations) for name in op.inputs}
    alive: list[str] = []
    found: list[list[str]] = [[]]
    for number, op in enumerate(graph.operations):
        used = dict.fromkeys((*alive, *op.inputs, op.output))
        alive = [name for name in used if last.get(name, -1) > number]
        found.append(alive)
    return found


def _cuts(graph: Graph, crossing_bytes: Sequence[int]) -> list[int]:
    """Return the ends of stretches, ascending: the numbers of the operations before them.

    There are none if too little is repeated.
    """
    known: dict[tuple[object, ...], int] = {}
    kinds = np.array([known.setdefault(key, len(known)) for key in _keys(graph)])
    found = _longest(kinds, crossing_bytes)
    if found is None:
        return []
    begin, period, times = found
    if (times - 1) * period < LEAST_SAVED * len(kinds):
        return []
    return sorted({0, *(begin + n * period for n in range(times + 1)), len(kinds)})


def _keys(graph: Graph) -> Iterator[tuple[object, ...]]:
    """Yield for each operation what it does, without names; the parts of a composite are one."""
    tensors = dict(graph.tensors)
    for op in graph.operations:
        shapes = tuple(tensors[name].shape for name in (*op.inputs, op.output))
        yield op.kind, repr(op.attributes), shapes


def _longest(
    kinds: np.ndarray[tuple[int], np.dtype[np.int64]], crossing_bytes: Sequence[int]
) -> tuple[int, int, int] | None:
    """Return begin, period and times of the repetition that saves the most operations.

    Of equally good ones it is the one between whose stretches the fewest bytes go, and of these the
    first. None if nothing is repeated.
    """
    best: tuple[int, int, int, int, int] | None = None
    for period in range(1, len(kinds) // 2 + 1):
        unlike = np.flatnonzero(kinds[period:] != kinds[:-period])
        for before, behind in pairwise([-1, *unlike.tolist(), len(kinds) - period]):
            times = (behind - before - 1) // period + 1
            if times < 2:
                continue
            for begin in range(before + 1, behind - (times - 1) * period + 1):
                size = crossing_bytes[begin + period]
                key = (-(times - 1) * period, size, begin, period, times)
                best = key if best is None or key < best else best
    return best and best[2:]


def _end_ticks(graph: Graph, crossing: Sequence[str], chip: Chip) -> float:
    """Return for how long tensors are stored and loaded again."""
    size = sum(memory_bytes(graph.shape(name)) for name in crossing)
    cycles = 2 * (size / dram_rate(chip, chip.dma.queues) + latency_cycles(chip))
    return cycles * chip.period("dma")


def _stretch(graph: Graph, first: int, stop: int) -> GraphPart:
    """Return some operations as a part; its tensors are in the order of their use."""
    ops = graph.operations[first:stop]
    taken = {name for op in graph.operations[stop:] for name in op.inputs} | {*graph.outputs}
    tensors = dict(graph.tensors)
    used = dict.fromkeys(name for op in ops for name in (*op.inputs, op.output))
    part = make_graph(
        {name: tensors[name] for name in used},
        ops,
        [op.output for op in ops if op.output in taken],
    )
    return GraphPart(part, {name: TensorBox.whole(graph.shape(name)) for name in used})
