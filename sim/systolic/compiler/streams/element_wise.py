"""Operations element by element: their steps, and how operands follow the result.

Several that follow one another, with results of the same dimensions, are one frame: what lies
between them never leaves the chip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from systolic.compiler.ir.carried import CARRIER, NARROW_BITS, carrier_shape
from systolic.compiler.ir.lane_step import LaneStep, activate, requantise, select, with_each
from systolic.compiler.lower.cast import cast_steps
from systolic.compiler.lower.elementwise import scalar_step
from systolic.compiler.places.boxes import Along, boxes
from systolic.compiler.places.modes import by_step, coalesce
from systolic.compiler.streams.work import (
    FramePart,
    Kernel,
    KernelStep,
    StreamFrame,
    StreamSide,
    StreamWork,
)
from systolic.workload import Graph, Operation
from systolic.workload.operations.activation import ActivationAttributes
from systolic.workload.operations.binary import BinaryAttributes, placed_dims
from systolic.workload.operations.requantise import RequantiseAttributes, scaled_axes
from systolic.workload.operations.select import SelectAttributes

PlacedDims = tuple[int | None, ...]
"""For each dimension of a result, that of an operand; None where the operand is repeated."""


def _whole(op: Operation, dims: Sequence[int], out: Sequence[int]) -> PlacedDims:
    return tuple(range(len(out)))


def _binary(op: Operation, dims: Sequence[int], out: Sequence[int]) -> PlacedDims:
    given = op.attributes_as(BinaryAttributes).matched
    return placed_dims(dims, out, given if dims else ())


def _select(op: Operation, dims: Sequence[int], out: Sequence[int]) -> PlacedDims:
    given = op.attributes_as(SelectAttributes).matched
    return placed_dims(dims, out, given if dims else ())


def _scales(op: Operation, dims: Sequence[int], out: Sequence[int]) -> PlacedDims:
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


def _scalar_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    step = scalar_step(op, graph.shape(op.inputs[0]))
    return [(step, _machine_type(graph, op.output))]


def _select_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    return [(select(), _machine_type(graph, op.output))]


def _requantise_steps(op: Operation, graph: Graph) -> list[tuple[LaneStep, str]]:
    ends = op.attributes_as(RequantiseAttributes).ends(graph.shape(op.output))
    return [(requantise(ends), _machine_type(graph, op.output))]


def _machine_type(graph: Graph, name: str) -> str:
    return carrier_shape(graph.shape(name)).element_type


@dataclass(frozen=True, slots=True)
class ElementWise:
    """A row: an operation's steps, how operands follow the result, and their order in steps."""

    steps: Callable[[Operation, Graph], list[tuple[LaneStep, str]]]
    placed: Callable[[Operation, Sequence[int], Sequence[int]], PlacedDims] = _whole
    order: tuple[int, ...] | None = None


ELEMENT_WISE: dict[str, ElementWise] = {
    "activation": ElementWise(_activation_steps),
    "cast": ElementWise(_cast_steps),
    "binary": ElementWise(_binary_steps, _binary),
    "tensor_scalar": ElementWise(_scalar_steps),
    "select": ElementWise(_select_steps, _select, (2, 0, 1)),
    "requantise": ElementWise(_requantise_steps, _scales),
}
"""Operations of which each element of the result depends on one of each operand."""


def element_wise(graph: Graph, group: Sequence[Operation]) -> StreamWork:
    """Return the stream of operations that follow one another; the last one brings and stores."""
    made = {op.output for op in group}
    last = group[-1]
    layer = last.part_of or last.name
    out = carrier_shape(graph.shape(last.output))
    number: dict[tuple[str, PlacedDims], int] = {}
    for op in group:
        row = ELEMENT_WISE[op.kind]
        for name in op.inputs:
            if name not in made:
                placed = row.placed(op, graph.shape(name).dims, out.dims)
                number.setdefault((name, placed), len(number))
    steps: list[KernelStep] = []
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
            steps.append(KernelStep(lane, tuple(refs), dtype, op.part_of or op.name))
            refs = [len(number) + len(steps) - 1]
        result[op.output] = refs[0]
    sides = (
        StreamSide(last.output, out.element_type),
        *(StreamSide(name, _machine_type(graph, name)) for name, _ in number),
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
        StreamFrame(sides, box.at, coalesce(by_step(box.nest, 0)), (FramePart(kernel),))
        for box in boxes(out.dims, along)
    )
    return StreamWork(layer, last.output, out, (frames,))
