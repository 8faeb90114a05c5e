"""Which frames and steps each operation becomes, and which operations go together in one stream.

An operation element by element whose result only another such operation of the same dimensions takes
is computed with it, tile by tile: its result never leaves the chip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from systolic.compiler.ir.carried import CARRIER, NARROW_BITS, carrier_shape, is_packed
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.lane_step import LaneStep, activate, requantise, select, with_each
from systolic.compiler.lower.cast import cast_steps
from systolic.compiler.places.boxes import Along, boxes, is_separable, pieces
from systolic.compiler.places.modes import Mode, Nest, by_step, coalesce
from systolic.compiler.streams.work import Frame, Kernel, Part, Side, Step, Stream
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Pool, TensorScalar
from systolic.layout import Shape
from systolic.workload import Graph, Operation
from systolic.workload.operations.activation import ActivationAttributes
from systolic.workload.operations.binary import BinaryAttributes, placed_dims
from systolic.workload.operations.concat import ConcatAttributes
from systolic.workload.operations.embedding import EmbeddingAttributes
from systolic.workload.operations.pad import PadAttributes
from systolic.workload.operations.pool import PoolAttributes
from systolic.workload.operations.reduce import ReduceAttributes, kept_axes
from systolic.workload.operations.requantise import RequantiseAttributes, scaled_axes
from systolic.workload.operations.select import SelectAttributes
from systolic.workload.operations.slice import SliceAttributes

Placed = tuple[int | None, ...]
"""For each dimension of a result, that of an operand; None where the operand is repeated."""


def _whole(op: Operation, dims: Sequence[int], out: Sequence[int]) -> Placed:
    return tuple(range(len(out)))


def _binary(op: Operation, dims: Sequence[int], out: Sequence[int]) -> Placed:
    given = op.attributes_as(BinaryAttributes).matched
    return placed_dims(dims, out, given if dims else ())


def _select(op: Operation, dims: Sequence[int], out: Sequence[int]) -> Placed:
    given = op.attributes_as(SelectAttributes).matched
    return placed_dims(dims, out, given if dims else ())


def _scales(op: Operation, dims: Sequence[int], out: Sequence[int]) -> Placed:
    return (
        placed_dims(dims, out, scaled_axes(dims, out))
        if len(dims) < len(out)
        else (tuple(range(len(out))))
    )


def _activation_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    given = op.attributes_as(ActivationAttributes)
    step = activate(given.function, given.scale, given.bias)
    return [(step, _machine_type(graph, op.output))]


def _cast_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    before, after = (graph.shape(name).element_type for name in (op.inputs[0], op.output))
    return [
        (step, CARRIER if dtype in NARROW_BITS else dtype)
        for step, dtype in cast_steps(before, after)
    ]


def _binary_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    operator = op.attributes_as(BinaryAttributes).operator
    return [(with_each(operator), _machine_type(graph, op.output))]


def _select_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    return [(select(), _machine_type(graph, op.output))]


def _requantise_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    ends = op.attributes_as(RequantiseAttributes).ends(graph.shape(op.output))
    return [(requantise(ends), _machine_type(graph, op.output))]


def _machine_type(graph: Graph, name: str) -> str:
    return carrier_shape(graph.shape(name)).element_type


@dataclass(frozen=True, slots=True)
class ElementWise:
    """A row: the steps of an operation, how its operands follow its result, their order in steps."""

    steps: Callable[[Operation, Graph], list[tuple[LaneStep, str]]]
    placed: Callable[[Operation, Sequence[int], Sequence[int]], Placed] = _whole
    order: tuple[int, ...] | None = None


ELEMENT_WISE: dict[str, ElementWise] = {
    "activation": ElementWise(_activation_steps),
    "cast": ElementWise(_cast_steps),
    "binary": ElementWise(_binary_steps, _binary),
    "select": ElementWise(_select_steps, _select, (2, 0, 1)),
    "requantise": ElementWise(_requantise_steps, _scales),
}
"""Operations of which each element of the result depends on one of each operand."""


# Windows and axes that are reduced


def _windowed(
    graph: Graph, op: Operation, along: list[Along], reduced: list[tuple[int, Along]], name: str
) -> list[Stream] | None:
    """Return the stream of a reduction; None if what is reduced is no nest.

    along: how the operand follows each dimension of the result. reduced: (count, how it is
    followed) of what is reduced, the last fastest.
    """
    inner = _nest_of(reduced)
    if inner is None:
        return None
    out, layer = carrier_shape(graph.shape(op.output)), op.part_of or op.name
    step = Step(LaneStep(Pool, {"function": name}), (0,), out.element_type, layer)
    source = carrier_shape(graph.shape(op.inputs[0]))
    sides = (Side(op.output, out.element_type), Side(op.inputs[0], source.element_type))
    return [_reducing(layer, sides, out, along, (step,), inner)]


def _nest_of(reduced: list[tuple[int, Along]]) -> Nest | None:
    """Return the modes of what is reduced, on a result's side and its own; None if they are none."""
    inner: list[Mode] = []
    for count, way in reduced:
        found = list(islice(pieces(count, [Along(), way]), 2))
        if len(found) != 1:
            return None
        inner += found[0].nest
    return coalesce(inner)


def _reducing(
    layer: str,
    sides: tuple[Side, Side],
    out: Shape,
    along: list[Along],
    steps: tuple[Step, ...],
    inner: Nest,
) -> Stream:
    part = Part(Kernel((1,), steps), inner)
    own = [Along(out, dim) for dim in range(out.rank)]
    frames = tuple(
        Frame(sides, box.at, coalesce(by_step(box.nest, 0)), (part,))
        for box in boxes(out.dims, [own, along])
    )
    return Stream(layer, sides[0].tensor, out, (frames,))


def _reduce(graph: Graph, op: Operation, chip: Chip) -> list[Stream] | None:
    """Reduce axes of a tensor, in row-major order.

    If there are fewer results than partitions, and more elements of each than an engine reduces at
    once, the segments are reduced first, each to an element of a tensor of their own.
    """
    given, source = op.attributes_as(ReduceAttributes), carrier_shape(graph.shape(op.inputs[0]))
    axes = given.reduced(source.rank)
    most, count = block_rows(chip), math.prod(source.dims[axis] for axis in axes)
    if count > most and (most < 2 or given.reduction == "median"):
        return None  # refused
    kept = [Along(source, axis) for axis in kept_axes(source.rank, axes)]
    reduced = [(source.dims[axis], Along(source, axis)) for axis in axes]
    inner = _nest_of(reduced)
    results = math.prod(graph.shape(op.output).dims)
    if inner is not None and count > most and results < chip.state_buffer.partitions:
        cut = _segment_of(inner, most)
        if cut is not None:
            return _by_segments(graph, op, given.reduction, kept, cut, most)
    return _windowed(graph, op, kept, reduced, given.reduction)


def _segment_of(nest: Nest, most: int) -> tuple[Mode, Nest] | None:
    """Return the outermost mode, and the modes of so many of its indices as make a segment.

    None if segments do not follow one another at one distance.
    """
    outermost, *inner = nest
    inside = math.prod(mode.count for mode in inner)
    if most % inside:
        return None
    return outermost, (Mode(most // inside, outermost.steps), *inner)


def _by_segments(
    graph: Graph, op: Operation, name: str, kept: list[Along], cut: tuple[Mode, Nest], most: int
) -> list[Stream]:
    """Return the streams that reduce segments, and those of their results, until one is left.

    cut: the outermost mode of what is reduced, and the modes of a segment.
    """
    out, layer = carrier_shape(graph.shape(op.output)), op.part_of or op.name
    taken = {each for each, _ in graph.tensors}
    source = Side(op.inputs[0], _machine_type(graph, op.inputs[0]))
    accumulator = data_type(source.dtype).accumulator
    function = "sum" if name == "mean" else name
    step = Step(LaneStep(Pool, {"function": function}), (0,), accumulator, layer)
    results, found, along = math.prod(out.dims), list[Stream](), kept
    outermost, segment = cut
    total = count = outermost.count * math.prod(mode.count for mode in segment[1:])
    while count > most:
        left = -(-count // most)
        tensor = f"{op.output}.segments{len(found)}"
        while tensor in taken:
            tensor += "_"
        made = Shape(accumulator, (left, *out.dims))
        sides = (Side(tensor, accumulator), source)
        own = [Along(made, dim + 1) for dim in range(out.rank)]
        steps = (results, outermost.steps[1] * segment[0].count)
        whole, rest = divmod(outermost.count, segment[0].count)
        frames: list[Frame] = []
        for first, segments, size in ((0, whole, segment[0].count), (whole, 1, rest)):
            if not segments or not size:
                continue
            part = Part(
                Kernel((1,), (step,)), coalesce((segment[0]._replace(count=size), *segment[1:]))
            )
            for box in boxes(out.dims, [own, along]):
                at = tuple(n + first * each for n, each in zip(box.at, steps, strict=True))
                modes = coalesce(by_step((Mode(segments, steps), *box.nest), 0))
                frames.append(Frame(sides, at, modes, (part,)))
        found.append(Stream(layer, tensor, made, (tuple(frames),)))
        source, count, along = sides[0], left, own
        outermost, segment = Mode(left, (0, results)), (Mode(most, (0, results)),)
    last: tuple[Step, ...] = (replace(step, dtype=out.element_type),)
    if name == "mean":
        divide = LaneStep(TensorScalar, {"op": "divide", "scalar": float(total)})
        last = (step, Step(divide, (1,), out.element_type, layer))
    sides = (Side(op.output, out.element_type), source)
    found.append(_reducing(layer, sides, out, along, last, (Mode(count, (0, results)),)))
    return found


def _pool(graph: Graph, op: Operation, chip: Chip) -> list[Stream] | None:
    """Reduce windows of images without padding."""
    given, source = op.attributes_as(PoolAttributes), carrier_shape(graph.shape(op.inputs[0]))
    if any(given.padding):
        return None
    (down, across), (rows, cols) = given.stride, given.window
    along = [
        Along(source, 0), Along(source, 1, 0, down), Along(source, 2, 0, across), Along(source, 3)
    ]  # fmt: skip
    taps = [
        (rows, Along(source, 1, 0, given.dilation[0])),
        (cols, Along(source, 2, 0, given.dilation[1])),
    ]
    return _windowed(graph, op, along, taps, given.reduction)


REDUCED: dict[str, Callable[[Graph, Operation, Chip], list[Stream] | None]] = {
    "reduce": _reduce,
    "pool": _pool,
}
"""Operations that make one element of several; None: not as a stream."""


# Boxes of one source each


@dataclass(frozen=True, slots=True)
class Segment:
    """A box of a result: its first index and size in each dimension, and where its elements are.

    source: None for a fill of `value`; else the input, with the way in which each dimension of it
    is followed: first index and step.
    """

    first: tuple[int, ...]
    size: tuple[int, ...]
    source: str | None
    along: tuple[tuple[int, int], ...] = ()
    value: float = 0.0


def _slice(op: Operation, graph: Graph) -> list[Segment]:
    given, out = op.attributes_as(SliceAttributes), graph.shape(op.output)
    along = tuple(zip(given.start, given.steps(out.rank), strict=True))
    return [Segment((0,) * out.rank, out.dims, op.inputs[0], along)]


def _concat(op: Operation, graph: Graph) -> list[Segment]:
    out = graph.shape(op.output)
    axis, at = op.attributes_as(ConcatAttributes).of(out.rank), 0
    found = []
    for name in op.inputs:
        dims = graph.shape(name).dims
        first = tuple(at if n == axis else 0 for n in range(out.rank))
        found.append(Segment(first, dims, name, ((0, 1),) * out.rank))
        at += dims[axis]
    return found


def _pad(op: Operation, graph: Graph) -> list[Segment]:
    """Cut the padding into boxes: before and behind each dimension, the outermost over all others."""
    given, out = op.attributes_as(PadAttributes), graph.shape(op.output)
    inside = graph.shape(op.inputs[0]).dims
    order = list(out.layout.major_to_minor)
    found, first, size = list[Segment](), [0] * out.rank, list(out.dims)
    for dim in order:
        for at, count in (
            (0, given.low[dim]),
            (given.low[dim] + inside[dim], given.high[dim]),
        ):
            if count:
                begin, sizes = list(first), list(size)
                begin[dim], sizes[dim] = at, count
                found.append(Segment(tuple(begin), tuple(sizes), None, value=given.value))
        first[dim], size[dim] = given.low[dim], inside[dim]
    return [*found, Segment(tuple(first), tuple(size), op.inputs[0], ((0, 1),) * out.rank)]


def _embedding(op: Operation, graph: Graph) -> list[Segment]:
    """Take rows that lie at one distance from one another together."""
    rows = op.attributes_as(EmbeddingAttributes).indices
    columns = graph.shape(op.output).dims[1]
    found, at = list[Segment](), 0
    while at < len(rows):
        count = 1
        step = rows[at + 1] - rows[at] if at + 1 < len(rows) else 1
        while step >= 0 and at + count < len(rows) and rows[at + count] - rows[at] == step * count:
            count += 1
        along = ((rows[at], step if count > 1 else 1), (0, 1))
        found.append(Segment((at, 0), (count, columns), op.inputs[0], along))
        at += count
    return found


BY_SEGMENTS: dict[str, Callable[[Operation, Graph], list[Segment]]] = {
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "embedding": _embedding,
}
"""Operations that put boxes of their operands, or of one value, side by side."""


# Streams


def streams(graph: Graph, chip: Chip) -> list[Stream] | None:
    """Return the streams that do a graph, in order; None if it has work of other kinds.

    Of other kinds is also a tensor whose home is not DRAM, whose elements share bytes, or whose
    tiles mix dimensions.
    """
    kinds = {op.kind for op in graph.operations}
    lone = len(graph.operations) == 1 and kinds <= REDUCED.keys()
    if not lone and not kinds <= ELEMENT_WISE.keys() | BY_SEGMENTS.keys():
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


def _stream(graph: Graph, group: Sequence[Operation]) -> Stream:
    last = group[-1]
    layer = last.part_of or last.name
    if last.kind in ELEMENT_WISE:
        return _element_wise(graph, group, layer)
    segments = BY_SEGMENTS[last.kind](last, graph)
    ways = [_apart(graph, last, segments)]
    together = _together(graph, last, segments)
    if together is not None:
        ways.append(together)
    return Stream(layer, last.output, carrier_shape(graph.shape(last.output)), tuple(ways))


def _element_wise(graph: Graph, group: Sequence[Operation], layer: str) -> Stream:
    made = {op.output for op in group}
    last = group[-1]
    out = carrier_shape(graph.shape(last.output))
    number: dict[tuple[str, Placed], int] = {}
    for op in group:
        row = ELEMENT_WISE[op.kind]
        for name in op.inputs:
            if name not in made:
                placed = row.placed(op, graph.shape(name).dims, out.dims)
                number.setdefault((name, placed), len(number))
    steps: list[Step] = []
    result: dict[str, int] = {}
    for op in group:
        row = ELEMENT_WISE[op.kind]
        refs = [
            result[name]
            if name in made
            else number[name, row.placed(op, graph.shape(name).dims, out.dims)]
            for name in op.inputs
        ]
        refs = [refs[n] for n in row.order or range(len(refs))]
        for lane, dtype in row.steps(op, graph):
            steps.append(Step(lane, tuple(refs), dtype, op.part_of or op.name))
            refs = [len(number) + len(steps) - 1]
        result[op.output] = refs[0]
    sides = (Side(last.output, out.element_type),) + tuple(
        Side(name, _machine_type(graph, name)) for name, _ in number
    )
    kernel = Kernel(tuple(range(1, len(sides))), tuple(steps))
    along = [[Along(out, dim) for dim in range(out.rank)]]
    for name, placed in number:
        shape = carrier_shape(graph.shape(name))
        along.append(
            [
                Along() if dim is None or shape.dims[dim] < out.dims[here] else Along(shape, dim)
                for here, dim in enumerate(placed)
            ]
        )
    frames = tuple(
        Frame(sides, box.at, coalesce(by_step(box.nest, 0)), (Part(kernel),))
        for box in boxes(out.dims, along)
    )
    return Stream(layer, last.output, out, (frames,))


def _apart(graph: Graph, op: Operation, segments: Sequence[Segment]) -> tuple[Frame, ...]:
    """Return a frame for each box of each segment."""
    out = carrier_shape(graph.shape(op.output))
    found: list[Frame] = []
    for segment in segments:
        sides, along = [Side(op.output, out.element_type)], [_along_out(out, segment)]
        if segment.source is not None:
            shape = carrier_shape(graph.shape(segment.source))
            sides.append(Side(segment.source, shape.element_type))
            along.append(_along_source(shape, segment))
        kernel = Kernel((1,)) if segment.source is not None else Kernel((), (), segment.value)
        found += [
            Frame(tuple(sides), box.at, coalesce(by_step(box.nest, 0)), (Part(kernel),))
            for box in boxes(segment.size, along)
        ]
    return tuple(found)


def _along_out(out: Shape, segment: Segment) -> list[Along]:
    return [Along(out, dim, first) for dim, first in enumerate(segment.first)]


def _along_source(shape: Shape, segment: Segment) -> list[Along]:
    return [Along(shape, dim, *along) for dim, along in enumerate(segment.along)]


def _together(graph: Graph, op: Operation, segments: Sequence[Segment]) -> tuple[Frame, ...] | None:
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
        found: list[Frame] = []
        for group in groups:
            frames = (
                _side_by_side(graph, op, group, dim) if len(group) > 1 else _apart(graph, op, group)
            )
            if frames is None:
                return None
            found += frames
        return tuple(found)
    return None


def _others(segment: Segment, dim: int) -> tuple[tuple[int, int], ...]:
    both = zip(segment.first, segment.size, strict=True)
    return tuple(each for n, each in enumerate(both) if n != dim)


def _side_by_side(
    graph: Graph, op: Operation, group: Sequence[Segment], dim: int
) -> tuple[Frame, ...] | None:
    """Return the frames of segments that follow one another along a dimension, without a gap."""
    out = carrier_shape(graph.shape(op.output))
    sides, along = [Side(op.output, out.element_type)], [_along_out(out, group[0])]
    number: list[tuple[int, ...]] = []
    for segment in group:
        number.append(())
        if segment.source is not None:
            shape = carrier_shape(graph.shape(segment.source))
            number[-1] = (len(sides),)
            sides.append(Side(segment.source, shape.element_type))
            along.append(_along_source(shape, segment))
    total = sum(segment.size[dim] for segment in group)
    axis = []
    whole = _one_mode(total, [along[0][dim]], 1)
    if whole is None:
        return None
    out_step = whole[1].steps[0]
    for segment, mine in zip(group, number, strict=True):
        here = [side[dim] if n in mine else Along() for n, side in enumerate(along)]
        here[0] = replace(along[0][dim], first=segment.first[dim])
        modes = _one_mode(segment.size[dim], here, out_step)
        if modes is None:
            return None
        axis.append(modes)
    outer_dims = [n for n in range(out.rank) if n != dim]
    found = []
    for box in boxes(
        [group[0].size[n] for n in outer_dims], [[side[n] for n in outer_dims] for side in along]
    ):
        modes = coalesce(by_step(box.nest, 0))
        cut = tuple(m for m in modes if m.steps[0] > out_step)
        inner = tuple(m for m in modes if m.steps[0] <= out_step)
        if any(m.steps[0] * m.count > out_step for m in inner):
            return None
        frame_mode = Mode(total, (out_step,) + (0,) * (len(sides) - 1))
        parts = []
        base, at_axis = list(box.at), axis[0][0][0]
        for segment, mine, (first, mode) in zip(group, number, axis, strict=True):
            kernel = Kernel(mine) if mine else Kernel((), (), segment.value)
            at = tuple(
                (first[0] - at_axis) if n == 0 else (first[n] if n in mine else 0)
                for n in range(len(sides))
            )
            parts.append(Part(kernel, (mode, *inner), at))
        base[0] += at_axis
        found.append(Frame(tuple(sides), tuple(base), cut, tuple(parts), (frame_mode, *inner)))
    return tuple(found)


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
    return at, nest[0] if nest else Mode(1, (lone_step,) + (0,) * (len(sides) - 1))
