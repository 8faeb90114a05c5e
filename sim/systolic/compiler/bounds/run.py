"""Bounds of each operation and of the whole run, from closed forms.

They follow from sizes of the graph and of the chip alone (`systolic.hw.formulas.timing`). No choice
of the compiler enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from systolic.compiler.bounds.channels import uneven_bounds
from systolic.compiler.bounds.gaps import MATRIX, gapped_bytes
from systolic.compiler.bounds.moves import move_bound, move_queues
from systolic.compiler.bounds.sequencing import fetched, of_product, queue_bound
from systolic.compiler.ir.carried import memory_bytes
from systolic.compiler.lower.table import BoundKind, bound_kind
from systolic.hw.formulas.moves import gapped_bound
from systolic.hw.formulas.products import (
    Dimension,
    Product,
    Turn,
    product_bound,
    products_bound,
)
from systolic.hw.formulas.timing import Bound, dram_bound, largest
from systolic.hw.spec import Chip
from systolic.layout import COMBINE, Shape
from systolic.workload import Graph, Operation
from systolic.workload.operations.causal_mask import CausalMaskAttributes
from systolic.workload.operations.conv2d import Conv2dAttributes
from systolic.workload.operations.embedding import EmbeddingAttributes
from systolic.workload.options import Options


@dataclass(frozen=True, slots=True)
class OperationBound:
    """The bound of one operation alone, with its operands in the memories that the graph names."""

    name: str
    kind: str
    bound: Bound


def operation_bounds(
    graph: Graph, chip: Chip, options: Options | None = None
) -> tuple[OperationBound, ...]:
    """Return the bound of each operation."""
    options, fed = options or Options(), _fed(chip)
    return tuple(
        OperationBound(op.name, op.kind, _said(_bound(graph, op, fed, options), chip))
        for op in graph.operations
    )


def run_bound(graph: Graph, chip: Chip, options: Options | None = None) -> Bound:
    """Return the bound of the whole run: its longest operation, the array's work, DRAM's bytes."""
    found = [each.bound for each in operation_bounds(graph, chip, options)]
    whole, chip = chip, _fed(chip)
    if products := _products(graph):
        found.append(fetched(chip, _products_bound(graph, chip, products)))
        work = [of_product(chip, product) for product in products]
        found.append(queue_bound(chip, work, _transfers(graph)))
    names = [n for n in (*graph.inputs, *graph.outputs) if graph.tensor(n).home == "dram"]
    if names:
        moving = dram_bound(chip, sum(_bytes(graph, n) for n in names), _copied(graph))
        found.append(fetched(chip, moving))
    return _said(largest(found), whole)


def _fed(chip: Chip) -> Chip:
    """Return the chip with the rows of its array that have a partition, from which vectors come."""
    rows = min(chip.pe_array.rows, chip.state_buffer.partitions)
    if rows == chip.pe_array.rows:
        return chip
    return chip.model_copy(update={"pe_array": chip.pe_array.model_copy(update={"rows": rows})})


def _said(bound: Bound, chip: Chip) -> Bound:
    """Return the bound; if it is the array's, and rows have no partition, it says how many have."""
    rows, fed = chip.pe_array.rows, chip.state_buffer.partitions
    note = f"pe_array, {fed} of whose {rows} rows have a partition"
    if fed >= rows or "pe_array" not in bound.why or note in bound.why:
        return bound
    return replace(bound, why=bound.why.replace("pe_array", note, 1))


def _products(graph: Graph) -> list[Product]:
    """Return all products; an input that several of them take is turned for the first one."""
    found, turned = list[Product](), set[str]()
    for op in filter(_is_product, graph.operations):
        own = _turned_inputs(graph, op)
        turns = tuple(turn for name, turn in own.items() if name not in turned)
        found.append(replace(product_of(graph, op), turns=turns))
        turned |= own.keys()
    return found


def _products_bound(graph: Graph, chip: Chip, products: Sequence[Product]) -> Bound:
    """Return the bound of all products of a graph together."""
    from_dram, to_dram = (
        all(graph.tensor(name).home == "dram" for name in names)
        for names in (graph.inputs, graph.outputs)
    )
    found = products_bound(chip, products, from_dram=from_dram, to_dram=to_dram)
    return replace(found, why=f"{found.why}, all products")


def _is_product(op: Operation) -> bool:
    return bound_kind(op) == "product"


def product_of(graph: Graph, op: Operation) -> Product:
    """Return the sizes of a matmul, and the layouts of operands that are inputs of the graph.

    Matrices that share an operand are one product of longer matrices. If only a causal mask takes
    the result, only the elements that the mask keeps are wanted.
    """
    if op.kind == "conv2d":
        return _of_convolution(graph, op)
    lhs, rhs = (graph.shape(name) for name in op.inputs)
    out = graph.shape(op.output)
    (M, K), N = lhs.dims[-2:], rhs.dims[-1]
    batch, left, right = (math.prod(s.dims[:-2]) for s in (out, lhs, rhs))
    minor: Dimension | None = None
    if op.output in graph.outputs and min(M, N) > 1 and (place := _minor(out)) is not None:
        minor = "N" if place == 0 else "M"
    diagonal = _diagonal(graph, op)
    if diagonal is not None and not left == right == batch:  # one of them bounds all
        return Product(1, M, K, N, lhs.element_type, (), None, out.element_type, diagonal)
    return Product(
        left * right // batch,
        M * batch // right,
        K,
        N * batch // left,
        lhs.element_type,
        tuple(_turned_inputs(graph, op).values()),
        minor,
        out.element_type,
        diagonal,
        _beside(out),
    )


def _turned_inputs(graph: Graph, op: Operation) -> dict[str, Turn]:
    """Return the turns of the operands of a product that are inputs and lie with K in columns."""
    if op.kind == "conv2d":
        return {}
    lhs, rhs = (graph.shape(name) for name in op.inputs)
    (M, K), N = lhs.dims[-2:], rhs.dims[-1]
    left, right = (math.prod(shape.dims[:-2]) for shape in (lhs, rhs))
    turns = dict[str, Turn]()
    if op.inputs[0] in graph.inputs and _minor(lhs) == 0 and M > 1:
        turns[op.inputs[0]] = Turn(left, M, K, lhs.element_type, _beside(lhs))
    if op.inputs[1] in graph.inputs and _minor(rhs) == 1 and N > 1:
        turns[op.inputs[1]] = Turn(right, N, K, rhs.element_type, _beside(rhs))
    return turns


def _diagonal(graph: Graph, op: Operation) -> int | None:
    """Return the offset of the causal mask that alone takes a result; None if there is none."""
    takers = [each for each in graph.operations if op.output in each.inputs]
    if [each.kind for each in takers] != ["causal_mask"]:
        return None
    return takers[0].attributes_as(CausalMaskAttributes).offset


def _of_convolution(graph: Graph, op: Operation) -> Product:
    """Return a convolution as a product; no layout needs a turn.

    Groups may lie beside one another in the array: at best their windows fill its rows, and no
    column is needed for more than the filters of one group.
    """
    source, weights = (graph.shape(name) for name in op.inputs)
    out, groups = graph.shape(op.output), op.attributes_as(Conv2dAttributes).groups
    return Product(
        1,
        math.prod(out.dims[:3]),
        groups * math.prod(weights.dims[:3]),
        out.dims[3] // groups,
        source.element_type,
        (),
        None,
        out.element_type,
    )


def product_multiply_adds(graph: Graph) -> dict[str, int]:
    """Return how many multiply-adds each product means by its shapes: turns and padding are none.

    Results that a causal mask throws away are none either. Operations that are no products are not
    in the result.
    """
    return {op.name: _multiply_adds(graph, op) for op in graph.operations if _is_product(op)}


def _multiply_adds(graph: Graph, op: Operation) -> int:
    product = product_of(graph, op)
    if product.diagonal is not None:
        matrices = math.prod(graph.shape(op.output).dims[:-2])
        product = replace(product, matrices=matrices)
    return product.multiply_adds


def _minor(shape: Shape) -> int | None:
    """Return which dimension lies along the address, from the last: 0 or 1; None for neither.

    Of a layout in tiles of its matrices it is the one of the columns, also where a second tile puts
    rows side by side. Other tiles are taken to be readable either way.
    """
    if 1 in shape.dims[-2:] or not _in_planes(shape):
        return None
    place = shape.rank - 1 - shape.layout.major_to_minor[-1]
    return place if place < 2 else None


def _in_planes(shape: Shape) -> bool:
    """Return whether a layout has no tiles, or tiles of each matrix: T(8,128)(2,1)."""
    sizes = [tile.dims for tile in shape.layout.tiles]
    if not sizes:
        return True
    if any(len(each) != MATRIX or COMBINE in each for each in sizes) or len(sizes) > MATRIX:
        return False
    whole = shape.layout.padded_dimensions is None and sizes[0][1] > 1
    columns = len(sizes) == 1 or sizes[1][1] == 1
    return whole and columns and min(shape.layout.minor_to_major[:MATRIX]) >= shape.rank - MATRIX


def _beside(shape: Shape) -> int:
    """Return how many elements of different rows lie side by side: 2 in T(8,128)(2,1)."""
    if not _in_planes(shape) or len(shape.layout.tiles) < MATRIX:
        return 1
    return shape.layout.tiles[1].dims[0]


def _bound(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound:
    kind = bound_kind(op)
    alone = fetched(chip, _BOUNDS[kind](graph, op, chip, options))
    return largest([alone, _QUEUES[kind](graph, op, chip, options)]) if kind in _QUEUES else alone


def _transfers(graph: Graph) -> int:
    """Return the least copies that bring the run's tensors from DRAM, and results there.

    A copy is of bytes of one tensor, or from one to another.
    """
    at_dram = [
        sum(graph.tensor(name).home == "dram" for name in names)
        for names in (graph.inputs, graph.outputs)
    ]
    return max(at_dram)


def _copied(graph: Graph) -> int:
    """Return the bytes of the outputs that may be copied from one place in DRAM to another."""
    made = [op.output for op in graph.operations if bound_kind(op) == "move"]
    return sum(
        _bytes(graph, name)
        for name in made
        if name in graph.outputs and graph.tensor(name).home == "dram"
    )


def _bytes_bound(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound:
    """Return the bound by the bytes that DRAM must give and take for an operation."""
    moved = sum(_bytes(graph, name) for name in _at_dram(graph, op))
    return dram_bound(chip, moved) if moved else Bound(0, "nothing need be busy")


def _at_dram(graph: Graph, op: Operation) -> list[str]:
    """Return the tensors of an operation that must come from DRAM or go there."""
    ends = [name for name in op.inputs if name in graph.inputs]
    ends += [op.output] if op.output in graph.outputs else []
    return [name for name in ends if graph.tensor(name).home == "dram"]


def _product_bound(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound:
    names = {*_at_dram(graph, op)}
    shapes = [graph.shape(name) for name in names]
    read, written = (
        [graph.shape(n) for n in names if (n == op.output) is is_result]
        for is_result in (False, True)
    )
    found = largest([_multiplied(graph, op, chip), *uneven_bounds(chip, read, written)])
    each = [gapped_bytes(graph.shape(name), stored=name == op.output) for name in names]
    ends = [gapped for gapped in each if gapped is not None]
    if not ends:
        return found
    others = sum(map(memory_bytes, shapes)) - sum(end.size_bytes for end in ends)
    return largest([found, gapped_bound(chip, ends, others, moved=False)])


def _multiplied(graph: Graph, op: Operation, chip: Chip) -> Bound:
    outer = [n for n in op.inputs if n in graph.inputs and graph.tensor(n).home == "dram"]
    stored = op.output in graph.outputs and graph.tensor(op.output).home == "dram"
    moved = sum(_bytes(graph, n) for n in {*outer}) + (_bytes(graph, op.output) if stored else 0)
    product = product_of(graph, op)
    if len(outer) < len(op.inputs):  # the first tile may be on the chip already
        moved_here = product_bound(chip, product, to_dram=stored)
        return largest([moved_here, dram_bound(chip, moved)]) if moved else moved_here
    return product_bound(chip, product, dram_bytes=moved, to_dram=stored)


def _product_queues(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound:
    work = of_product(chip, product_of(graph, op))
    return queue_bound(chip, [work], len({*_at_dram(graph, op)}))


_BOUNDS: dict[BoundKind, Callable[[Graph, Operation, Chip, Options], Bound]] = {
    "product": _product_bound,
    "move": move_bound,
    "bytes": _bytes_bound,
}
assert _BOUNDS.keys() == {*get_args(BoundKind)}

_QUEUES: dict[BoundKind, Callable[[Graph, Operation, Chip, Options], Bound]] = {
    "product": _product_queues,
    "move": move_queues,
}
"""Bounds that count instructions, and know of their fetch themselves."""


def _bytes(graph: Graph, name: str) -> int:
    """Return the bytes of a tensor that must move; of a table only those of rows that are taken."""
    size, takers = (
        memory_bytes(graph.shape(name)),
        [o for o in graph.operations if name in o.inputs],
    )
    if not takers or any(op.kind != "embedding" for op in takers):
        return size
    rows = {row for op in takers for row in op.attributes_as(EmbeddingAttributes).indices}
    return size // graph.shape(name).dims[0] * len(rows)
