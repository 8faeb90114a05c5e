"""Operations that only move elements: a transpose, a relayout, a reshape.

Dimensions that mean the same elements before and after are a group: one dimension each of a
transpose; of a reshape, the fewest neighbours on either side with equally many indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.places.boxes import AlongDims, boxes
from systolic.compiler.places.modes import by_step, coalesce
from systolic.compiler.streams.work import FramePart, Kernel, StreamFrame, StreamSide, StreamWork
from systolic.workload import Graph, Operation
from systolic.workload.operations.transpose import TransposeAttributes

DimGroup = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of the result, and the source's with the same indices in the same order."""

MOVES = frozenset({"transpose", "relayout", "reshape"})


def moved(graph: Graph, op: Operation) -> StreamWork:
    """Return the stream of a move: a frame for each box of elements that lie evenly."""
    out, source = (carrier_shape(graph.shape(name)) for name in (op.output, op.inputs[0]))
    groups = move_groups(graph, op)
    counts = [math.prod(out.dims[dim] for dim in here) for here, _ in groups]
    along = [
        [AlongDims(out, here) for here, _ in groups],
        [AlongDims(source, there) for _, there in groups],
    ]
    sides = StreamSide(op.output, out.element_type), StreamSide(op.inputs[0], source.element_type)
    part, inside = FramePart(Kernel((1,))), bool(op.part_of)
    frames = tuple(
        _with_gap(
            StreamFrame(sides, box.at, coalesce(by_step(box.nest, 0)), (part,), keeps_bits=inside),
            source.padded_elements(),
        )
        for box in boxes(counts, along)
    )
    return StreamWork(op.part_of or op.name, op.output, out, (frames,))


def _with_gap(frame: StreamFrame, padded: int) -> StreamFrame:
    """Return a frame that knows between which elements of its source nothing but padding lies.

    A tensor whose elements all lie at multiples of n has whole groups of n, and one in each.
    """
    result, source = frame.sides
    gap = math.gcd(padded, frame.at[1], *(mode.steps[1] for mode in frame.modes))
    return replace(frame, sides=(result, replace(source, gap=max(gap, 1))))


def move_groups(graph: Graph, op: Operation) -> list[DimGroup]:
    """Return the dimensions before and after a move that mean the same elements."""
    out, source = graph.shape(op.output).dims, graph.shape(op.inputs[0]).dims
    if op.kind == "transpose":
        axes = op.attributes_as(TransposeAttributes).axes
        return [((dim,), (axis,)) for dim, axis in enumerate(axes)]
    if op.kind == "relayout":
        return [((dim,), (dim,)) for dim in range(len(out))]
    return reshape_groups(out, source)


def reshape_groups(out: Sequence[int], source: Sequence[int]) -> list[DimGroup]:
    """Return the groups of a reshape; dimensions of one index are in none."""
    left = [dim for dim, size in enumerate(out) if size > 1]
    right = [dim for dim, size in enumerate(source) if size > 1]
    found: list[DimGroup] = []
    while left:
        here, there = [left.pop(0)], [right.pop(0)]
        while (a := math.prod(out[d] for d in here)) != (b := math.prod(source[d] for d in there)):
            some, dims = (here, left) if a < b else (there, right)
            some.append(dims.pop(0))
        found.append((tuple(here), tuple(there)))
    return found
