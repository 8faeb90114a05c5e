"""Checks of the result of `lower` for the later passes: nodes in order, matrices that agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import dropwhile

import numpy as np

from systolic.compiler.cost.turns import CARRIERS
from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.ir.nodes import (
    BounceNode,
    ConvertNode,
    DiagonalNode,
    GatherNode,
    Layers,
    Matrix,
    MoveNode,
    MultiplyNode,
    Node,
    PackNode,
    PoolNode,
    ReduceNode,
    RepeatNode,
    RowsNode,
    SteppedNode,
    StoreNode,
    TurnNode,
    UnpackNode,
    for_every_kind,
)


def verify_layers(layers: Layers) -> None:
    """Raise BrokenPassError unless nodes and matrices fit together.

    Every matrix that a node reads is there before: on the chip at
    cycle 0, in DRAM, or made by an earlier node. Every matrix of a node is made once. Dimensions
    and types of inputs and output agree. Each kept output has a matrix that is marked as kept.
    """
    for message in _faults(layers):
        raise BrokenPassError("lower", message)


def _faults(layers: Layers) -> Iterator[str]:
    matrices = {matrix.name: matrix for matrix in layers.matrices}
    if len(matrices) < len(layers.matrices):
        yield "two matrices have one name"
    yield from _order(layers, matrices)
    for node in layers.nodes:
        yield from _AGREE[type(node)](node, layers, matrices)
    for kept in layers.kept:
        if kept.matrix not in matrices or not matrices[kept.matrix].lies.keep:
            yield f"{kept.tensor} is kept as {kept.matrix}, which is not marked as kept"


def _order(layers: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    """Yield faults: a matrix that is unknown, read before it is made, or made twice."""
    places = {place.name: place.start for place in layers.dram}
    stored_later = [
        places.get(node.dram, -1) for node in layers.nodes if isinstance(node, StoreNode)
    ]
    made, background = set[str](), set[str]()
    for node in layers.nodes:
        if unknown := {*node.inputs, *node.made} - matrices.keys():
            yield f"node {node}: there is no matrix {min(unknown)}"
        if isinstance(node, StoreNode) and node.dram not in places:
            yield f"node {node}: DRAM has no place {node.dram}"
        for name in node.inputs:
            yield from _readable(node, matrices[name], made, places, stored_later)
        if isinstance(node, StoreNode):
            stored_later.pop(0)
        else:
            again = node.output in made and node.output not in background
            given = matrices[node.output].source.kind != "node" and not isinstance(node, PackNode)
            if again or given:
                yield f"node {node}: {node.output} is there already"
            made |= {*node.made, matrices[node.output].holder}
            background |= (
                {node.output} if isinstance(node, UnpackNode) and node.background else set()
            )


def _readable(
    node: Node, matrix: Matrix, made: set[str], places: dict[str, int], stored_later: list[int]
) -> Iterator[str]:
    if matrix.source.kind == "node" and not {matrix.name, matrix.holder} & made:
        yield f"node {node}: {matrix.name} is read before a node makes it"
    if matrix.source.kind == "dram":
        place = matrix.source.dram
        if place not in places:
            yield f"node {node}: {matrix.name} comes from {place}, which DRAM does not have"
        elif places[place] in stored_later and not isinstance(node, UnpackNode):
            yield f"node {node}: {matrix.name} is brought before {place} is stored"


# For each kind of node, what its matrices must have in common.

_Check = Callable[..., Iterator[str]]


def _multiply(node: MultiplyNode, layers: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    a, b = (matrices[name] for name in node.inputs[:2])
    out = matrices[node.output]
    if a.rows != b.rows:
        yield f"node {node}: K is {a.rows} in {a.name} and {b.rows} in {b.name}"
    if (out.rows, out.cols) != (a.cols, b.cols):
        yield _unlike(node, out, f"{a.cols} x {b.cols}")
    if _broadcast(a.batch, b.batch) != _broadcast(out.batch):
        yield f"node {node}: batches {a.batch} and {b.batch} do not make {out.batch}"
    yield from _spread(node, matrices, node.inputs[2:])


def _diagonal(node: DiagonalNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    source, out, diagonal = matrices[node.inputs[0]], matrices[node.output], node.tiles
    if out.block is None:
        yield f"node {node}: a diagonal needs tiles of its own"
        return
    if (source.rows, source.cols) != (diagonal.channels, diagonal.taps):
        yield _unlike(node, source, f"{diagonal.channels} channels x {diagonal.taps} taps")
    if (out.rows, out.cols, *out.block) != (
        diagonal.rows,
        diagonal.channels,
        diagonal.p,
        diagonal.p,
    ):
        yield _unlike(node, out, f"{diagonal.rows} x {diagonal.channels} in square tiles")
    if source.dtype != out.dtype:
        yield f"node {node}: {source.dtype} becomes {out.dtype}"


def _broadcast(*batches: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the inputs' batch by numpy's rules, without leading ones; None if they differ."""
    try:
        found = np.broadcast_shapes(*batches)
    except ValueError:
        return None
    return tuple(dropwhile(lambda size: size == 1, found))


def _transposed(
    node: TurnNode | BounceNode, _: Layers, matrices: dict[str, Matrix]
) -> Iterator[str]:
    source, out = matrices[node.inputs[0]], matrices[node.output]
    if out.dims != (*source.batch, source.cols, source.rows):
        yield _unlike(node, out, f"the transpose of {source.rows} x {source.cols}")
    if source.dtype not in (out.dtype, *CARRIERS.get(out.dtype, ())):
        yield f"node {node}: {source.dtype} becomes {out.dtype}"


def _moved(node: MoveNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    source, out = matrices[node.inputs[0]], matrices[node.output]
    for matrix, seen in ((source, node.change.source), (out, node.change.target)):
        if seen.sizes() != (matrix.matrices, matrix.rows, matrix.cols):
            yield _unlike(node, matrix, f"{seen.sizes()} as its change of view has it")
    before, after = (math.prod(seen.dims) for seen in (node.change.source, node.change.target))
    if before != after or source.dtype != out.dtype:
        yield f"node {node}: {source} and {out} have other elements"


def _gathered(node: GatherNode, layers: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    out = matrices[node.output]
    for part in node.parts:
        if tuple(map(len, (part.numbers, part.rows, part.cols))) != (out.matrices, *out.dims[-2:]):
            yield _unlike(node, out, "as its parts have it")
        if part.source is not None and matrices[node.inputs[part.source]].dtype != out.dtype:
            yield f"node {node}: {matrices[node.inputs[part.source]]} becomes {out.dtype}"
    makers = [other for other in layers.nodes if not isinstance(other, GatherNode)]
    within = [matrices[other.output] for other in makers if other.output]
    others = sum(math.prod(each.dims) for each in within if each.window and each.holder == out.name)
    if sum(part.elements for part in node.parts) + others != math.prod(out.dims):
        yield _unlike(node, out, "the sum of its parts")


def _converted(node: ConvertNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    yield from _spread(node, matrices, node.inputs)
    if node.reduced:
        out, sums = matrices[node.output], matrices[node.reduced]
        if (sums.batch, sums.rows) != (out.batch, out.rows) or sums.cols > out.cols:
            yield f"node {node}: {sums} has no sums of segments of {out}"


def _spread(node: SteppedNode, matrices: dict[str, Matrix], names: Sequence[str]) -> Iterator[str]:
    """Yield faults of operands that a step spreads over its result."""
    out = matrices[node.output]
    for field, name in node.others:
        if node.step.per_lane(field) and matrices[name].cols != 1:
            yield f"node {node}: {name} has more than the one column that {field} takes"
    for name in names:
        found = matrices[name]
        batches = len(found.batch) == len(out.batch) and all(
            size in (1, wanted) for size, wanted in zip(found.batch, out.batch, strict=True)
        )
        rows = found.rows <= out.rows if found.lies.repeats else found.rows == out.rows
        if not (batches and rows and found.cols in (1, out.cols)):
            yield _unlike(node, out, f"{list(found.dims)} as {found.name}")


def _reduced(node: ReduceNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    source, out = matrices[node.inputs[0]], matrices[node.output]
    if (out.batch, out.rows) != (source.batch, source.rows) or out.cols > source.cols:
        yield _unlike(node, out, f"fewer columns of {source.name}")


def _whole_rows(node: RowsNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    for name in (*node.inputs, node.output):
        matrix = matrices[name]
        if matrix.window or (matrix.block or (0, 0))[1] != matrix.cols:
            yield f"node {node}: {name} is not in tiles of whole rows"
    source, out = matrices[node.inputs[0]], matrices[node.output]
    if source.dims[:-1] != out.dims[:-1]:
        yield _unlike(node, out, f"as many rows as {source.name}")


def _pooled(node: PoolNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    source, out = matrices[node.inputs[0]], matrices[node.output]
    if not (source.block and out.block):
        yield f"node {node}: windows need tiles of whole images"
        return
    pixels = node.pooled.pixels
    images = source.cols // pixels.image_columns
    if (out.batch, out.rows) != (source.batch, source.rows):
        yield _unlike(node, out, f"as many rows as {source.name}")
    if out.cols != images * pixels.made_columns:
        yield _unlike(node, out, f"{images} images of {pixels.made_columns} windows")


def _unpacked(node: UnpackNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    packed, elements = matrices[node.inputs[0]], matrices[node.output]
    yield from _bytes_and_elements(node, packed, elements)


def _packed(node: PackNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    elements, packed = matrices[node.inputs[0]], matrices[node.output]
    yield from _bytes_and_elements(node, packed, elements)


def _bytes_and_elements(
    node: UnpackNode | PackNode, packed: Matrix, elements: Matrix
) -> Iterator[str]:
    """Yield faults of bytes and the elements in them: of the same tiles, whole rows of each."""
    if node.bits not in (1, 2, 4):
        yield f"node {node}: no elements of {node.bits} bits share a byte"
        return
    wanted = (*packed.batch, packed.rows, packed.cols * (8 // node.bits))
    if elements.dims != wanted:
        yield _unlike(node, elements, f"the {list(wanted)} that {packed.name} holds")
    if {packed.dtype, elements.dtype} != {"u8"}:
        yield f"node {node}: {packed.dtype} and {elements.dtype} are not both u8"
    for matrix in (packed, elements):
        if matrix.block is None or matrix.block[1] != matrix.cols:
            yield f"node {node}: {matrix.name} is not in tiles of whole rows"


def _repeated(node: RepeatNode, _: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    source, out = matrices[node.inputs[0]], matrices[node.output]
    if source.rows != 1 or (out.batch, out.cols) != (source.batch, source.cols):
        yield _unlike(node, out, f"the row of {source.name}, repeated")


def _stored(node: StoreNode, layers: Layers, matrices: dict[str, Matrix]) -> Iterator[str]:
    source = matrices[node.inputs[0]]
    shape = next(place.shape for place in layers.dram if place.name == node.dram)
    dims = tuple(math.prod(shape.dims[d] for d in group) for group in node.axes)
    if dims != source.dims or shape.element_type != source.dtype:
        yield _unlike(node, source, f"{list(dims)} of {shape}")


def _unlike(node: Node, matrix: Matrix, wanted: str) -> str:
    return f"node {node}: {matrix.name} is {list(matrix.dims)}, not {wanted}"


_AGREE: Mapping[type[Node], _Check] = for_every_kind(
    {
        MultiplyNode: _multiply,
        DiagonalNode: _diagonal,
        TurnNode: _transposed,
        BounceNode: _transposed,
        MoveNode: _moved,
        GatherNode: _gathered,
        ConvertNode: _converted,
        ReduceNode: _reduced,
        RowsNode: _whole_rows,
        PoolNode: _pooled,
        RepeatNode: _repeated,
        UnpackNode: _unpacked,
        PackNode: _packed,
        StoreNode: _stored,
    }
)
