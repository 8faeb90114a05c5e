"""Operations that put boxes of their operands, or of one value, side by side.

Each box is a frame. Boxes that follow one another along a dimension may be parts of one frame
instead: a tile then has rows of several operands side by side, and is stored in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.places.boxes import Along, boxes, pieces
from systolic.compiler.places.modes import Mode, by_step, coalesce
from systolic.compiler.streams.work import FramePart, Kernel, StreamFrame, StreamSide, StreamWork
from systolic.layout import Shape
from systolic.workload import Graph, Operation
from systolic.workload.operations.concat import ConcatAttributes
from systolic.workload.operations.embedding import EmbeddingAttributes
from systolic.workload.operations.pad import PadAttributes
from systolic.workload.operations.slice import SliceAttributes


@dataclass(frozen=True, slots=True)
class ResultBox:
    """A box of a result: its first index and size in each dimension, and where its elements are.

    source: None for a fill of `value`; else the input, with the way in which each dimension of it
    is followed: first index and step.
    """

    first: tuple[int, ...]
    size: tuple[int, ...]
    source: str | None
    along: tuple[tuple[int, int], ...] = ()
    value: float = 0.0


def _slice(op: Operation, graph: Graph) -> list[ResultBox]:
    given, out = op.attributes_as(SliceAttributes), graph.shape(op.output)
    along = tuple(zip(given.start, given.steps(out.rank), strict=True))
    return [ResultBox((0,) * out.rank, out.dims, op.inputs[0], along)]


def _concat(op: Operation, graph: Graph) -> list[ResultBox]:
    out = graph.shape(op.output)
    axis, at = op.attributes_as(ConcatAttributes).of(out.rank), 0
    found = []
    for name in op.inputs:
        dims = graph.shape(name).dims
        first = tuple(at if n == axis else 0 for n in range(out.rank))
        found.append(ResultBox(first, dims, name, ((0, 1),) * out.rank))
        at += dims[axis]
    return found


def _pad(op: Operation, graph: Graph) -> list[ResultBox]:
    """Cut the padding into boxes before and behind each dimension, the outermost first."""
    given, out = op.attributes_as(PadAttributes), graph.shape(op.output)
    inside = graph.shape(op.inputs[0]).dims
    order = list(out.layout.major_to_minor)
    found, first, size = list[ResultBox](), [0] * out.rank, list(out.dims)
    for dim in order:
        for at, count in (
            (0, given.low[dim]),
            (given.low[dim] + inside[dim], given.high[dim]),
        ):
            if count:
                begin, sizes = list(first), list(size)
                begin[dim], sizes[dim] = at, count
                found.append(ResultBox(tuple(begin), tuple(sizes), None, value=given.value))
        first[dim], size[dim] = given.low[dim], inside[dim]
    return [*found, ResultBox(tuple(first), tuple(size), op.inputs[0], ((0, 1),) * out.rank)]


def _embedding(op: Operation, graph: Graph) -> list[ResultBox]:
    """Take rows that lie at one distance from one another together."""
    rows = op.attributes_as(EmbeddingAttributes).indices
    columns = graph.shape(op.output).dims[1]
    found, at = list[ResultBox](), 0
    while at < len(rows):
        count = 1
        step = rows[at + 1] - rows[at] if at + 1 < len(rows) else 1
        while step >= 0 and at + count < len(rows) and rows[at + count] - rows[at] == step * count:
            count += 1
        along = ((rows[at], step if count > 1 else 1), (0, 1))
        found.append(ResultBox((at, 0), (count, columns), op.inputs[0], along))
        at += count
    return found


BY_SEGMENTS: dict[str, Callable[[Operation, Graph], list[ResultBox]]] = {
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "embedding": _embedding,
}
"""Operations that put boxes of their operands, or of one value, side by side."""


def by_segments(graph: Graph, op: Operation) -> StreamWork:
    """Return the stream of an operation: its boxes apart, and if it can be together."""
    segments = BY_SEGMENTS[op.kind](op, graph)
    ways = [_apart(graph, op, segments)]
    together = _together(graph, op, segments)
    if together is not None:
        ways.append(together)
    out = carrier_shape(graph.shape(op.output))
    return StreamWork(op.part_of or op.name, op.output, out, tuple(ways))


def _apart(graph: Graph, op: Operation, segments: Sequence[ResultBox]) -> tuple[StreamFrame, ...]:
    """Return a frame for each box of each segment."""
    out = carrier_shape(graph.shape(op.output))
    found: list[StreamFrame] = []
    for segment in segments:
        sides, along = [StreamSide(op.output, out.element_type)], [_along_out(out, segment)]
        if segment.source is not None:
            shape = carrier_shape(graph.shape(segment.source))
            sides.append(StreamSide(segment.source, shape.element_type))
            along.append(_along_source(shape, segment))
        kernel = Kernel((1,)) if segment.source is not None else Kernel((), (), segment.value)
        found += [
            StreamFrame(tuple(sides), box.at, coalesce(by_step(box.nest, 0)), (FramePart(kernel),))
            for box in boxes(segment.size, along)
        ]
    return tuple(found)


def _along_out(out: Shape, segment: ResultBox) -> list[Along]:
    return [Along(out, dim, first) for dim, first in enumerate(segment.first)]


def _along_source(shape: Shape, segment: ResultBox) -> list[Along]:
    return [Along(shape, dim, *along) for dim, along in enumerate(segment.along)]


def _together(
    graph: Graph, op: Operation, segments: Sequence[ResultBox]
) -> tuple[StreamFrame, ...] | None:
    """Return frames in which segments that follow one another along a dimension are one tile.

    None if no segments do. So rows of several operands are stored as one run.
    """
    out = carrier_shape(graph.shape(op.output))
    for dim in out.layout.minor_to_major:
        groups = [
            list(some)
            for _, some in groupby(
                sorted(segments, key=lambda s: (_others(s, dim), s.first[dim])),
                key=lambda s: _others(s, dim),
            )
        ]
        if max(map(len, groups)) == 1:
            continue
        found: list[StreamFrame] = []
        for group in groups:
            frames = (
                _side_by_side(graph, op, group, dim) if len(group) > 1 else _apart(graph, op, group)
            )
            if frames is None:
                return None
            found += frames
        return tuple(found)
    return None


def _others(segment: ResultBox, dim: int) -> tuple[tuple[int, int], ...]:
    both = zip(segment.first, segment.size, strict=True)
    return tuple(each for n, each in enumerate(both) if n != dim)


def _side_by_side(
    graph: Graph, op: Operation, group: Sequence[ResultBox], dim: int
) -> tuple[StreamFrame, ...] | None:
    """Return the frames of segments that follow one another along a dimension, without a gap.

    None if a segment is no mode there, or if other dimensions lie between its elements.
    """
    out = carrier_shape(graph.shape(op.output))
    sides, along = [StreamSide(op.output, out.element_type)], [_along_out(out, group[0])]
    kernels: list[Kernel] = []
    for segment in group:
        if segment.source is None:
            kernels.append(Kernel((), (), segment.value))
            continue
        kernels.append(Kernel((len(sides),)))
        shape = carrier_shape(graph.shape(segment.source))
        sides.append(StreamSide(segment.source, shape.element_type))
        along.append(_along_source(shape, segment))
    whole = _one_mode(sum(segment.size[dim] for segment in group), [along[0][dim]], 1)
    if whole is None:
        return None
    step = whole[1].steps[0]
    axis: list[tuple[tuple[int, ...], Mode]] = []
    for segment, kernel in zip(group, kernels, strict=True):
        here = [side[dim] if n in kernel.inputs else Along() for n, side in enumerate(along)]
        here[0] = replace(along[0][dim], first=segment.first[dim])
        found = _one_mode(segment.size[dim], here, step)
        if found is None or found[1].steps[0] != step:
            return None
        axis.append(found)
    others = [n for n in range(out.rank) if n != dim]
    frames = []
    for box in boxes(
        [group[0].size[n] for n in others], [[side[n] for n in others] for side in along]
    ):
        nest = coalesce(by_step(box.nest, 0))
        inner = tuple(mode for mode in nest if mode.steps[0] <= step)
        if any(mode.times(mode.extent)[0] > step for mode in inner):
            return None
        begin = axis[0][0][0]
        parts = tuple(
            FramePart(kernel, (mode, *inner), (at[0] - begin, *at[1:]))
            for kernel, (at, mode) in zip(kernels, axis, strict=True)
        )
        total = Mode(whole[1].extent, (step, *[0] * (len(sides) - 1)))
        base = (box.at[0] + begin, *box.at[1:])
        outer = nest[: len(nest) - len(inner)]
        frames.append(StreamFrame(tuple(sides), base, outer, parts, (total, *inner)))
    return tuple(frames)


def _one_mode(
    count: int, sides: Sequence[Along], lone_step: int
) -> tuple[tuple[int, ...], Mode] | None:
    """Return the place of the first index on each side, and the mode; None if there are several.

    lone_step: of the first side, where there is one index.
    """
    found = list(islice(pieces(count, sides), 2))
    if len(found) != 1 or len(found[0].nest) > 1:
        return None
    ((at, nest),) = found
    return at, nest[0] if nest else Mode(1, (lone_step, *[0] * (len(sides) - 1)))
