"""Which operations are streams, and which go together in one.

A further operation is a row in one of three tables: `ELEMENT_WISE`, `BY_SEGMENTS`, `REDUCED`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from systolic.compiler.ir.carried import is_packed
from systolic.compiler.places.boxes import is_separable
from systolic.compiler.streams.chains import StreamChain, chains
from systolic.compiler.streams.element_wise import ELEMENT_WISE, streams_of_chain
from systolic.compiler.streams.moved import MOVES, moved
from systolic.compiler.streams.reduced import pool_streams, reduce_streams
from systolic.compiler.streams.segments import BY_SEGMENTS, by_segments
from systolic.compiler.streams.work import StreamWork
from systolic.hw.spec import Chip
from systolic.layout import Layout, Shape
from systolic.workload import Graph, Operation, Tensor
from systolic.workload.operations.pad import PadAttributes
from systolic.workload.operations.pool import PoolAttributes
from systolic.workload.options import Options

REDUCED: dict[str, Callable[[Graph, Operation, Chip], list[StreamWork] | None]] = {
    "reduce": reduce_streams,
    "pool": pool_streams,
}
"""Operations that make one element of several; None: not as a stream."""
STREAMED = ELEMENT_WISE.keys() | BY_SEGMENTS.keys() | REDUCED.keys() | MOVES


def streams(graph: Graph, chip: Chip, options: Options) -> list[list[StreamWork]]:
    """Return the streams that do a graph, in order: in one or several ways; none if they cannot.

    Work of other kinds is also a move for which the run file says how it is done, a tensor whose
    home is not DRAM, whose elements share bytes, or whose tiles mix dimensions.
    """
    kinds = {op.kind for op in graph.operations}
    if not kinds <= STREAMED or (kinds & MOVES and _says_how(options)):
        return []
    for _, tensor in graph.tensors:
        shape = tensor.shape
        if tensor.home != "dram" or is_packed(shape) or not is_separable(shape):
            return []
        if not shape.num_elements():
            return []
    placed = {kind: row.placed for kind, row in ELEMENT_WISE.items()}
    found: list[list[StreamWork]] = []
    for each in dict.fromkeys((graph, relaid(with_padded_images(graph)))):
        ways: list[list[StreamChain]] = []
        for apart in (False, True):
            way = chains(each, chip, placed, apart=apart)
            if way not in ways:
                ways.append(way)
        for way in ways:
            works = [_streams_of(each, chain, chip) for chain in way]
            if all(works):
                found.append([work for some in works for work in some or ()])
    return found


def with_padded_images(graph: Graph) -> Graph:
    """Return a graph whose pools have no padding: what pads their images is an operation."""
    tensors, operations = dict(graph.tensors), list[Operation]()
    for op in graph.operations:
        given, (name, *_) = op.attributes, op.inputs
        if isinstance(given, PoolAttributes) and any(given.padding):
            shape, (top, bottom, left, right) = tensors[name].shape, given.padding
            low, high = (0, top, left, 0), (0, bottom, right, 0)
            value = float(given.value(shape.dtype))
            dims = tuple(map(sum, zip(low, shape.dims, high, strict=True)))
            own = _new_name(tensors, f"{name}.padded")
            order = Layout(shape.layout.minor_to_major)
            tensors[own] = Tensor(Shape(shape.element_type, dims, order), "dram")
            pad = PadAttributes(low, high, value)
            operations.append(Operation(op.name, "pad", (name,), own, pad, op.part_of))
            op = replace(op, inputs=(own,), attributes=replace(given, padding=(0, 0, 0, 0)))
        operations.append(op)
    return replace(graph, tensors=tuple(tensors.items()), operations=tuple(operations))


def _new_name(taken: Collection[str], name: str) -> str:
    """Return a name that no tensor has."""
    while name in taken:
        name += "_"
    return name


def relaid(graph: Graph) -> Graph:
    """Return a graph whose inputs lie as a result does that goes over them.

    An input in another order is relaid by an operation of its own, which is its reader: so the
    reference knows what an array may turn.
    """
    tensors, operations, before = dict(graph.tensors), list(graph.operations), list[Operation]()
    for name in graph.inputs:
        shape, readers = graph.shape(name), [op for op in operations if name in op.inputs]
        like = next((r for r in map(graph.shape, graph.outputs) if r.dims == shape.dims), None)
        layers = {op.layer for op in readers if op.kind in (*ELEMENT_WISE, "reduce")}
        if like is None or len(layers) != 1 or _order(shape) == _order(like):
            continue
        own = _new_name(tensors, f"{name}.relaid")
        tensors[own] = Tensor(shape.with_layout(Layout(like.layout.minor_to_major)), "dram")
        before.append(Operation(layers.pop(), "relayout", (name,), own))
        for op in readers:
            inputs = tuple(own if each == name else each for each in op.inputs)
            operations[operations.index(op)] = replace(op, inputs=inputs)
    return replace(graph, tensors=tuple(tensors.items()), operations=(*before, *operations))


def _order(shape: Shape) -> list[int]:
    """Return the dimensions of more than one index, from minor to major."""
    return [dim for dim in shape.layout.minor_to_major if shape.dims[dim] > 1]


def _streams_of(graph: Graph, chain: StreamChain, chip: Chip) -> list[StreamWork] | None:
    op, *others = chain.operations
    if op.kind in REDUCED and not others:
        return REDUCED[op.kind](graph, op, chip)
    if op.kind in MOVES:
        return [moved(graph, op)]
    if op.kind in BY_SEGMENTS:
        return [by_segments(graph, op)]
    return streams_of_chain(graph, chain)


def _says_how(options: Options) -> bool:
    """Return whether a run file says how elements are to be moved, in the patent's terms."""
    chosen = options.via, options.block, options.tile_columns
    return any(each is not None for each in chosen) or options.drain != "block"
