"""Operations that put boxes of their operands, or of one value, side by side.

Each box is a frame. Boxes that follow one another along a dimension may be parts of one frame
instead: a tile then has rows of several operands side by side, and is stored in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.ir.gathers import gaps
from systolic.compiler.places.boxes import Along, boxes, pieces
from systolic.compiler.places.modes import Mode, by_step, coalesce
from systolic.compiler.streams.work import FramePart, Kernel, StreamFrame, StreamSide, StreamWork
from systolic.layout import Shape
from systolic.workload import OPERATIONS, Graph, Operation
from systolic.workload.operations.concat import ConcatAttributes
from systolic.workload.operations.index_map import NOWHERE


@dataclass(frozen=True, slots=True)
class ResultBox:
    """A box of a result, and where its elements are.

    places: for each dimension, the places in the result. source: None for a fill of `value`; else
    the input. along: how the input is followed in each dimension.
    """

    places: tuple[PlaceList, ...]
    source: str | None
    along: tuple[Along, ...] = ()
    value: float = 0.0

    @property
    def first(self) -> tuple[int, ...]:
        """Return the first place in each dimension."""
        return tuple(each[0] for each in self.places)

    @property
    def size(self) -> tuple[int, ...]:
        """Return how many places there are in each dimension."""
        return tuple(map(len, self.places))

    @property
    def has_gaps(self) -> bool:
        """Return whether a place between the first and the last of a dimension is not its own."""
        return any(each[-1] - each[0] != len(each) - 1 for each in self.places)


PlaceList = range | tuple[int, ...]


def _concat(op: Operation, graph: Graph) -> list[ResultBox]:
    out = graph.shape(op.output)
    axis, at = op.attributes_as(ConcatAttributes).of(out.rank), 0
    found = []
    for name in op.inputs:
        shape = carrier_shape(graph.shape(name))
        places = tuple(
            range(at, at + size) if n == axis else range(size) for n, size in enumerate(shape.dims)
        )
        along = tuple(Along(shape, dim) for dim in range(out.rank))
        found.append(ResultBox(places, name, along))
        at += shape.dims[axis]
    return found


def _mapped(op: Operation, graph: Graph) -> list[ResultBox]:
    """Cut what has no source into boxes at each dimension, the outermost first."""
    (source,), out = op.inputs, graph.shape(op.output)
    shape, given = carrier_shape(graph.shape(source)), graph.index_map(op)
    found, inside = list[ResultBox](), list[PlaceList](map(range, out.dims))
    for dim in out.layout.major_to_minor:
        for gap in gaps(given.places[dim]):
            places = [*inside]
            places[dim] = _numbers(gap)
            found.append(ResultBox(tuple(places), None, value=given.fill))
        inside[dim] = _numbers(np.flatnonzero(given.places[dim] != NOWHERE))
    if all(map(len, inside)):
        taken = [each[each != NOWHERE] for each in given.places]
        along = tuple(
            Along() if axis is None else _followed(shape, axis, numbers)
            for axis, numbers in zip(given.follows, taken, strict=True)
        )
        found.append(ResultBox(tuple(inside), source, along))
    return found


def _numbers(places: Integers) -> PlaceList:
    """Return places as a range, if they lie at one distance."""
    first, step = int(places[0]), int(places[1] - places[0]) if len(places) > 1 else 1
    if step and (np.diff(places) == step).all():
        return range(first, first + step * len(places), step)
    return tuple(places.tolist())


def _followed(shape: Shape, axis: int, places: Integers) -> Along:
    """Return how a shape's axis is followed at some places."""
    numbers = _numbers(places)
    if isinstance(numbers, range):
        return Along(shape, axis, numbers.start, numbers.step)
    if not any(np.diff(places)):
        return Along(shape, axis, int(places[0]), 0)
    return Along(shape, axis, numbers=numbers)


BY_SEGMENTS: dict[str, Callable[[Operation, Graph], list[ResultBox]]] = {
    "concat": _concat,
    **{name: _mapped for name, row in OPERATIONS.items() if row.index_map},
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
    return StreamWork(op.layer, op.output, out, tuple(ways))


def _apart(graph: Graph, op: Operation, segments: Sequence[ResultBox]) -> tuple[StreamFrame, ...]:
    """Return a frame for each box of each segment."""
    out = carrier_shape(graph.shape(op.output))
    found: list[StreamFrame] = []
    for segment in segments:
        sides, along = [StreamSide(op.output, out.element_type)], [_along_out(out, segment)]
        if segment.source is not None:
            shape = carrier_shape(graph.shape(segment.source))
            sides.append(StreamSide(segment.source, shape.element_type))
            along.append(list(segment.along))
        kernel = Kernel((1,)) if segment.source is not None else Kernel((), (), segment.value)
        found += [
            StreamFrame(tuple(sides), box.at, coalesce(by_step(box.nest, 0)), (FramePart(kernel),))
            for box in boxes(segment.size, along)
        ]
    return tuple(found)


def _along_out(out: Shape, segment: ResultBox) -> list[Along]:
    return [_followed(out, dim, np.array(each)) for dim, each in enumerate(segment.places)]


def _together(
    graph: Graph, op: Operation, segments: Sequence[ResultBox]
) -> tuple[StreamFrame, ...] | None:
    """Return frames in which segments that follow one another along a dimension are one tile.

    None if no segments do. So rows of several operands are stored as one run.
    """
    out = carrier_shape(graph.shape(op.output))
    if any(segment.has_gaps for segment in segments):
        return None
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
        along.append(list(segment.along))
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
