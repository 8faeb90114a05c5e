"""Operations that make one element of several: axes that are reduced, and windows of images."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.places.boxes import Along, boxes, pieces
from systolic.compiler.places.modes import Mode, Modes, by_step, coalesce
from systolic.compiler.streams.work import (
    FramePart,
    Kernel,
    KernelStep,
    StreamFrame,
    StreamSide,
    StreamWork,
)
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Pool, TensorScalar
from systolic.layout import Shape
from systolic.workload import Graph, Operation
from systolic.workload.operations.pool import PoolAttributes
from systolic.workload.operations.reduce import ReduceAttributes, kept_axes


def _windowed(
    graph: Graph, op: Operation, along: list[Along], reduced: list[tuple[int, Along]], name: str
) -> list[StreamWork] | None:
    """Return the stream of a reduction; None if what is reduced is no nest.

    along: how the operand follows each dimension of the result. reduced: (count, how it is
    followed) of what is reduced, the last fastest.
    """
    inner = _nest_of(reduced)
    if inner is None:
        return None
    out, layer = carrier_shape(graph.shape(op.output)), op.layer
    step = KernelStep(LaneStep(Pool, {"function": name}), (0,), out.element_type, layer)
    source = carrier_shape(graph.shape(op.inputs[0]))
    sides = (StreamSide(op.output, out.element_type), StreamSide(op.inputs[0], source.element_type))
    return [_reducing(sides, out, along, FramePart(Kernel((1,), (step,)), inner))]


def _nest_of(reduced: list[tuple[int, Along]]) -> Modes | None:
    """Return the modes of what is reduced, with two sides; None if it is no nest."""
    inner: list[Mode] = []
    for count, way in reduced:
        found = list(islice(pieces(count, [Along(), way]), 2))
        if len(found) != 1:
            return None
        inner += found[0].nest
    return coalesce(inner)


def _reducing(
    sides: tuple[StreamSide, StreamSide], out: Shape, along: list[Along], part: FramePart
) -> StreamWork:
    own = [Along(out, dim) for dim in range(out.rank)]
    frames = tuple(
        StreamFrame(sides, box.at, coalesce(by_step(box.nest, 0)), (part,))
        for box in boxes(out.dims, [own, along])
    )
    return StreamWork(part.kernel.steps[-1].layer, sides[0].tensor, out, (frames,))


def reduce_streams(graph: Graph, op: Operation, chip: Chip) -> list[StreamWork] | None:
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
            return _by_segments(graph, op, given.reduction, kept, cut)
    return _windowed(graph, op, kept, reduced, given.reduction)


def _segment_of(nest: Modes, most: int) -> tuple[Mode, Modes] | None:
    """Return the outermost mode, and the modes of as many of its indices as make a segment.

    None if segments do not follow one another at one distance.
    """
    outermost, *inner = nest
    inside = math.prod(mode.extent for mode in inner)
    if most % inside:
        return None
    return outermost, (Mode(most // inside, outermost.steps), *inner)


def _by_segments(
    graph: Graph, op: Operation, name: str, kept: list[Along], cut: tuple[Mode, Modes]
) -> list[StreamWork]:
    """Return the streams that reduce segments, then segments of their results, until one is left.

    cut: the outermost mode of what is reduced, and the modes of a segment.
    """
    out, layer = carrier_shape(graph.shape(op.output)), op.layer
    taken = {each for each, _ in graph.tensors}
    source = StreamSide(op.inputs[0], carrier_shape(graph.shape(op.inputs[0])).element_type)
    accumulator = data_type(source.dtype).accumulator
    function = "sum" if name == "mean" else name
    step = KernelStep(LaneStep(Pool, {"function": function}), (0,), accumulator, layer)
    results, found, along = math.prod(out.dims), list[StreamWork](), kept
    outermost, segment = cut
    most = math.prod(mode.extent for mode in segment)
    total = count = outermost.extent * math.prod(mode.extent for mode in segment[1:])
    while count > most:
        left = -(-count // most)
        tensor = f"{op.output}.segments{len(found)}"
        while tensor in taken:
            tensor += "_"
        made = Shape(accumulator, (left, *out.dims))
        sides = (StreamSide(tensor, accumulator), source)
        own = [Along(made, dim + 1) for dim in range(out.rank)]
        steps = (results, outermost.steps[1] * segment[0].extent)
        whole, rest = divmod(outermost.extent, segment[0].extent)
        frames: list[StreamFrame] = []
        for first, segments, size in ((0, whole, segment[0].extent), (whole, 1, rest)):
            if not segments or not size:
                continue
            part = FramePart(
                Kernel((1,), (step,)), coalesce((segment[0]._replace(extent=size), *segment[1:]))
            )
            for box in boxes(out.dims, [own, along]):
                at = tuple(n + first * each for n, each in zip(box.at, steps, strict=True))
                modes = coalesce(by_step((Mode(segments, steps), *box.nest), 0))
                frames.append(StreamFrame(sides, at, modes, (part,)))
        found.append(StreamWork(layer, tensor, made, (tuple(frames),)))
        source, count, along = sides[0], left, own
        outermost, segment = Mode(left, (0, results)), (Mode(most, (0, results)),)
    last: tuple[KernelStep, ...] = (replace(step, dtype=out.element_type),)
    if name == "mean":
        divide = LaneStep(TensorScalar, {"op": "divide", "scalar": float(total)})
        last = (step, KernelStep(divide, (1,), out.element_type, layer))
    sides = (StreamSide(op.output, out.element_type), source)
    part = FramePart(Kernel((1,), last), (Mode(count, (0, results)),))
    found.append(_reducing(sides, out, along, part))
    return found


def pool_streams(graph: Graph, op: Operation, chip: Chip) -> list[StreamWork] | None:
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
