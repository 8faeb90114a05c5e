"""Operations element by element: their steps, and how operands follow the result.

A chain of them, with reductions of the same axes among them, is one frame: what lies between its
operations never leaves the chip. A tile then has all elements of the axes that are reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from systolic.compiler.ir.carried import CARRIER, NARROW_BITS, carrier_shape
from systolic.compiler.ir.lane_step import LaneStep, activate, requantise, select, with_each
from systolic.compiler.lower.engines.cast import cast_steps
from systolic.compiler.lower.engines.elementwise import scalar_step
from systolic.compiler.places.boxes import Along, boxes, pieces
from systolic.compiler.places.modes import Mode, by_step, coalesce
from systolic.compiler.streams.casts import without_casts
from systolic.compiler.streams.chains import PlacedDims, StreamChain
from systolic.compiler.streams.work import (
    FramePart,
    Kernel,
    KernelStep,
    StreamFrame,
    StreamSide,
    StreamWork,
)
from systolic.isa import Pool
from systolic.layout import Shape
from systolic.workload import Graph, Operation
from systolic.workload.operations.activation import ActivationAttributes
from systolic.workload.operations.binary import BinaryAttributes, placed_dims
from systolic.workload.operations.reduce import ReduceAttributes, kept_axes
from systolic.workload.operations.requantise import RequantiseAttributes, scaled_axes
from systolic.workload.operations.select import SelectAttributes


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
"""Operations whose result's every element depends on one element of each operand."""


def streams_of_chain(graph: Graph, chain: StreamChain) -> list[StreamWork] | None:
    """Return the stream of operations that are done together; the last one brings and stores.

    None if the axes that are reduced are no nest.
    """
    last = chain.operations[-1]
    layer = last.layer
    out = carrier_shape(graph.shape(last.output))
    read = _operands(graph, chain)
    sides = (
        StreamSide(last.output, out.element_type),
        *(StreamSide(name, _machine_type(graph, name)) for name, _ in read),
    )
    along = [_along(out, chain.spread(last, range(out.rank)), chain.dims)]
    for name, placed in read:
        along.append(_along(carrier_shape(graph.shape(name)), placed, chain.dims))
    inner: list[Mode] = []
    for axis in chain.axes:
        found = list(islice(pieces(chain.dims[axis], [side[axis] for side in along]), 2))
        if len(found) != 1:
            return None
        inner += found[0].nest
    part = FramePart(_kernel(graph, chain, read), coalesce(inner))
    kept = kept_axes(len(chain.dims), chain.axes)
    whole = part.inner if last.output not in chain.kept else ()
    frames = tuple(
        StreamFrame(sides, box.at, coalesce(by_step(box.nest, 0)), (part,), whole)
        for box in boxes([chain.dims[n] for n in kept], [[side[n] for n in kept] for side in along])
    )
    return [StreamWork(layer, last.output, out, (frames,))]


def _along(shape: Shape, placed: PlacedDims, dims: Sequence[int]) -> list[Along]:
    """Return how a tensor follows each dimension of a chain; one of size 1 is repeated."""
    return [
        Along() if dim is None or shape.dims[dim] < dims[here] else Along(shape, dim)
        for here, dim in enumerate(placed)
    ]


def _placed(graph: Graph, chain: StreamChain, op: Operation, name: str) -> PlacedDims:
    """Return which dimension of an operand follows each dimension of a chain."""
    dims = graph.shape(name).dims
    if op.kind == "reduce":
        return tuple(range(len(dims)))
    row = ELEMENT_WISE[op.kind]
    return chain.spread(op, row.placed(op, dims, graph.shape(op.output).dims))


def _operands(graph: Graph, chain: StreamChain) -> list[tuple[str, PlacedDims]]:
    """Return the tensors that a chain reads, and how each follows its dimensions."""
    made = {op.output for op in chain.operations}
    return list(
        dict.fromkeys(
            (name, _placed(graph, chain, op, name))
            for op in chain.operations
            for name in op.inputs
            if name not in made
        )
    )


def _kernel(graph: Graph, chain: StreamChain, read: Sequence[tuple[str, PlacedDims]]) -> Kernel:
    """Return the steps of a chain."""
    number = {each: at for at, each in enumerate(read)}
    steps: list[KernelStep] = []
    result: dict[str, int] = {}
    for op in chain.operations:
        layer = op.layer
        refs = [
            result[name] if name in result else number[name, _placed(graph, chain, op, name)]
            for name in op.inputs
        ]
        if op.kind == "reduce":
            lane = LaneStep(Pool, {"function": op.attributes_as(ReduceAttributes).reduction})
            made = [(lane, _machine_type(graph, op.output))]
        else:
            row = ELEMENT_WISE[op.kind]
            refs, made = [refs[n] for n in row.order or range(len(refs))], row.steps(op, graph)
        for lane, dtype in made:
            steps.append(KernelStep(lane, tuple(refs), dtype, layer))
            refs = [len(read) + len(steps) - 1]
        result[op.output] = refs[0]
    types = [_machine_type(graph, name) for name, _ in read]
    return Kernel(tuple(range(1, len(read) + 1)), tuple(without_casts(types, steps)))
