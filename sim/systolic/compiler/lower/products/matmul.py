"""Lowering of a product: the views of its tensors, and the operand that is stationary.

Each tensor is [batch..., rows, columns], K on the rows of both operands; batches broadcast as in
numpy. Matrices that are all multiplied with one operand become one longer matrix, if that costs
nothing: the tiles of that operand are then loaded once, and no chunk of moving vectors ends with a
matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from systolic.compiler.cost.batches import Beside
from systolic.compiler.cost.dma import inside_cycles
from systolic.compiler.cost.products import (
    Mapping,
    product_cost,
    products_in_turn_cost,
    strand_products_cost,
)
from systolic.compiler.cost.turns import strands_cost, turn_cost
from systolic.compiler.ir.nodes import Axes, Matrix, MultiplyNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.products.folded_rows import FoldedRows
from systolic.compiler.lower.products.product_strands import made_in_strands, strands_of_result
from systolic.compiler.lower.views import physical, swap
from systolic.errors import CompileError
from systolic.hw.datatypes import PSUM_WORD_BYTES
from systolic.hw.spec import Chip
from systolic.workload import Operation
from systolic.workload.operations.binary import BinaryAttributes, placed_dims
from systolic.workload.operations.reduce import ReduceAttributes
from systolic.workload.operations.requantise import scaled_axes

ELEMENTWISE = ("activation", "binary", "cast", "requantise")
"""Operations that may take the sums of a product out of the result buffer."""


@dataclass(frozen=True, slots=True)
class _ProductAxes:
    """Axes of lhs as [.., K, M], of rhs as [.., K, N], of the result as [.., M, N]."""

    lhs: Axes
    rhs: Axes
    out: Axes


def lower_matmul(builder: LayerBuilder, op: Operation) -> None:
    """Choose which operand is stationary; bring both with K on partitions."""
    refuse_types(builder, op)
    _settle_one_batch(builder, op)
    sizes = _product_axes(builder, op)
    mapping, cycles = _mapping(builder, op, sizes)
    out = sizes.out if mapping == "lhs" else swap(sizes.out)
    for name, axes in zip(op.inputs, (sizes.lhs, sizes.rhs), strict=True):
        builder.batches.place(name, axes)
    work = _array_work(builder, op, sizes, mapping)
    views = sizes.lhs, sizes.rhs, out
    of_lhs, of_rhs, of_out = _beside(builder, op, views, cycles, work)
    folded = FoldedRows(builder, (op.inputs[0], op.inputs[1]), (sizes.lhs, sizes.rhs))
    rows = folded.choose(cycles, _stored_bytes(builder, op.output))
    left = folded.bring(0) or builder.view(op.inputs[0], sizes.lhs, of_lhs)
    right = folded.bring(1) or builder.view(op.inputs[1], sizes.rhs, of_rhs)
    operands = (right, left) if mapping == "rhs" else (left, right)
    if rows.fold == 1 and made_in_strands(builder, op.output, out, operands):
        return
    result = _result(builder, op, out, of_out)
    builder.node(MultiplyNode, operands, result, fold=rows.fold)


def _array_work(builder: LayerBuilder, op: Operation, axes: _ProductAxes, mapping: Mapping) -> int:
    """Return about how many cycles the array takes for the products of all matrices.

    If the result lies in strands, each is made for all matrices before the next one is.
    """
    left, shape = builder.graph.shape(op.inputs[0]), builder.graph.shape(op.output)
    *batch, M, N = (math.prod(shape.dims[d] for d in group) for group in axes.out)
    out = axes.out if mapping == "lhs" else swap(axes.out)
    lies = strands_of_result(builder, op.output, out)
    passes = lies.ways if lies else 1
    M, N = (-(-M // passes), N) if mapping == "lhs" else (M, -(-N // passes))
    sizes = M, left.dims[-1], N
    each = products_in_turn_cost(builder.chip, mapping, batch, sizes, left.element_type)
    return each * passes


def _beside(
    builder: LayerBuilder, op: Operation, views: tuple[Axes, ...], cycles: int, in_turn: int
) -> list[Beside]:
    """Return what happens while lhs, rhs and the result are moved: the product, other copies."""
    names = *op.inputs, op.output
    queues = [
        builder.batches.least_queue_cycles(name, axes)
        for name, axes in zip(names, views, strict=True)
    ]
    return [Beside(cycles, sum(queues) - own, in_turn) for own in queues]


def _stored_bytes(builder: LayerBuilder, tensor: str) -> int:
    """Return the bytes of a result that goes to DRAM; 0 if it stays on the chip."""
    graph = builder.graph
    goes = tensor in graph.outputs and graph.tensor(tensor).home == "dram"
    return graph.shape(tensor).size_bytes() if goes else 0


def _result(builder: LayerBuilder, op: Operation, axes: Axes, beside: Beside) -> Matrix:
    """Return the matrices of the result: within whole rows of DRAM, or each for itself."""
    return (
        builder.batches.result(op.output, axes, beside)
        or builder.batches.made_on_chip(op.output, axes)
        or builder.result(op.output, axes)
    )


def refuse_types(builder: LayerBuilder, op: Operation) -> None:
    """Raise CompileError for types of two operands that the array cannot multiply."""
    graph, known = builder.graph, builder.chip.pe_array.cycles_per_vector
    types = [graph.shape(name).element_type for name in op.inputs]
    for name, dtype in zip(op.inputs, types, strict=True):
        if dtype not in known:
            raise CompileError(
                f'operation "{op.name}": {graph.shape(name)}: the array of {builder.chip.name} '
                f"cannot take {dtype}; it takes {', '.join(known)}"
            )
    if "f32" in types and len(set(types)) > 1:
        raise CompileError(
            f'operation "{op.name}": {types[0]} cannot be multiplied with {types[1]}: f32 goes '
            f"with f32 only"
        )


def _mapping(builder: LayerBuilder, op: Operation, axes: _ProductAxes) -> tuple[Mapping, int]:
    """Return which operand is stationary, and about how many cycles the product takes.

    It is as asked for, or the cheaper one with its result's turn.
    """
    graph = builder.graph
    spread, end = followed(builder, op)
    unwanted = _turned_by_the_next(builder, end, axes.out[-2:])
    shape = graph.shape(end)
    *batch, M, N = (math.prod(shape.dims[d] for d in group) for group in axes.out)
    dtype = graph.shape(op.inputs[0]).element_type
    minor = physical(shape)[-1]
    costs: dict[Mapping, int] = {}
    products: dict[Mapping, int] = {}
    for mapping in ("rhs", "lhs"):
        K = graph.shape(op.inputs[0]).dims[-1]
        costs[mapping] = product_cost(builder.chip, mapping, batch, (M, K, N), dtype)
        products[mapping] = costs[mapping]
        along = axes.out[-1] if mapping == "lhs" else axes.out[-2]
        out = axes.out if mapping == "lhs" else swap(axes.out)
        P, Q = (N, M) if mapping == "rhs" else (M, N)
        if along in spread:
            costs[mapping] += _spreading_cost(builder.chip, min(P, block_rows(builder.chip)), Q)
        alone, wrong = end == op.output, minor != along[-1:] and end in graph.outputs
        at_home = _cost_at_home(builder, op, mapping, (M, K, N), out) if alone else None
        if at_home is not None:
            costs[mapping] = at_home
        elif (
            wrong
            and alone
            and (stored := builder.batches.cost_of_storing(end, out, Beside(costs[mapping])))
        ):
            costs[mapping] = stored
        elif wrong or along in unwanted:
            costs[mapping] += turn_cost(builder.chip, (*batch, P, Q), shape.element_type)
    if (asked := builder.options.of(op.name).stationary) is not None:
        return asked, products[asked]
    best = min(costs, key=lambda m: costs[m])
    builder.choose(f"{best} is stationary (estimates: {_listed(costs)} cycles)")
    return best, products[best]


def _cost_at_home(
    builder: LayerBuilder,
    op: Operation,
    mapping: Mapping,
    sizes: tuple[int, int, int],
    out: Axes,
) -> int | None:
    """Return about how many cycles it takes to make a result where its tiles lie on the chip.

    sizes: M, K, N. out: the view that the product makes. None if the result is moved after it.
    """
    chip, tensor, dtype = builder.chip, op.output, builder.graph.shape(op.inputs[0]).element_type
    shape = builder.graph.shape(tensor)
    batch = [math.prod(shape.dims[d] for d in group) for group in out[:-2]]
    cycles = product_cost(chip, mapping, batch, sizes, dtype)
    if lies := strands_of_result(builder, tensor, out):
        return strand_products_cost(chip, mapping, batch, sizes, dtype, ways=lies.ways)
    if lies := strands_of_result(builder, tensor, swap(out)):
        dims = [math.prod(shape.dims[d] for d in group) for group in lies.axes]
        return cycles + strands_cost(chip, dims, lies.ways, shape.element_type)
    return cycles if builder.batches.may_be_made_on_chip(tensor, out) else None


def followed(builder: LayerBuilder, op: Operation) -> tuple[set[tuple[int, ...]], str]:
    """Return what matters for a product's view in the operations element by element behind it.

    These are the dimensions along which only an operand of such an operation has elements, such as
    the operands of a bias, and the tensor that the last of the operations makes.
    """
    graph, tensor = builder.graph, op.output
    alone: set[tuple[int, ...]] = set()
    while True:
        users = [user for user in graph.operations if tensor in user.inputs]
        if len(users) != 1 or users[0].kind not in ELEMENTWISE:
            return alone, tensor
        (user,) = users
        if graph.shape(user.output).dims != graph.shape(tensor).dims:
            return alone, tensor
        if user.kind == "binary":
            alone |= {_varying(builder, user, place) for place in (0, 1)}
        if user.kind == "requantise":
            alone.add(scaled_axes(*(graph.shape(name).dims for name in reversed(user.inputs))))
        tensor = user.output


def _turned_by_the_next(builder: LayerBuilder, tensor: str, views: Axes) -> set[tuple[int, ...]]:
    """Return the dimensions along the address with which what comes next must turn a tensor.

    views: those that may lie there. The next product turns one operand of the two. Engines reduce
    along the address only, as a softmax and a layer norm do first.
    """
    axes = _axes(builder.graph.shape(tensor).rank)
    users = [user for user in builder.graph.operations if tensor in user.inputs]
    along = {
        user.inputs.index(tensor): axes[-1 - user.inputs.index(tensor) :][0]
        for user in users
        if user.kind == "matmul"
    }
    unwanted = set() if len(along) > 1 else set(along.values())
    reduced = {
        user.attributes_as(ReduceAttributes).reduced(len(axes))
        for user in users
        if user.kind == "reduce"
    }
    if not reduced.isdisjoint(views):
        unwanted |= set(views) - reduced
    return unwanted


def _varying(builder: LayerBuilder, op: Operation, place: int) -> tuple[int, ...]:
    """Return the dimensions of a binary's result along which an operand has several elements."""
    dims, out = (builder.graph.shape(name).dims for name in (op.inputs[place], op.output))
    given = op.attributes_as(BinaryAttributes).matched
    placed = placed_dims(dims, out, given)
    return tuple(axis for axis, own in enumerate(placed) if own is not None and dims[own] > 1)


def _spreading_cost(chip: Chip, rows: int, columns: int) -> int:
    """Return about how many cycles it takes to repeat a row of 4-byte elements."""
    return inside_cycles(chip, rows, columns * PSUM_WORD_BYTES)


def _listed(costs: dict[Mapping, int]) -> str:
    return ", ".join(f"{name} {cycles}" for name, cycles in costs.items())


def _product_axes(builder: LayerBuilder, op: Operation) -> _ProductAxes:
    """Return the axes of a matmul's tensors, with one operand's batch in its columns if shared."""
    left, right = (builder.graph.shape(name) for name in op.inputs)
    lhs, rhs = _axes(left.rank), _axes(right.rank)
    *batch, row, col = _axes(builder.graph.shape(op.output).rank)
    lhs = (*lhs[:-2], lhs[-1], lhs[-2])
    if _shared(right.dims) and _can_merge(builder, op, op.inputs[0], lhs):
        every = sum(batch, ())
        return _ProductAxes(_merged(lhs), rhs, ((*every, *row), col))
    if _shared(left.dims) and _can_merge(builder, op, op.inputs[1], rhs):
        every = sum(batch, ())
        return _ProductAxes(lhs, _merged(rhs), (row, (*every, *col)))
    return _ProductAxes(lhs, rhs, (*batch, row, col))


def _axes(rank: int) -> Axes:
    return tuple((axis,) for axis in range(rank))


def _shared(dims: tuple[int, ...]) -> bool:
    """Return whether an operand is a single matrix, multiplied with all matrices of the other."""
    return math.prod(dims[:-2]) == 1


def _merged(axes: Axes) -> Axes:
    """Return the matrices of a batch side by side: [K, batch and columns]."""
    *batch, row, col = axes
    return row, sum((*batch, col), ())


def _settle_one_batch(builder: LayerBuilder, op: Operation) -> None:
    """Let the one operand that is a batch of matrices be there as some view: it may be merged."""
    batches = [name for name in op.inputs if not _shared(builder.graph.shape(name).dims)]
    if len(batches) == 1:
        builder.settle(batches[0])


def _can_merge(builder: LayerBuilder, op: Operation, operand: str, axes: Axes) -> bool:
    """Return whether an operand can be brought as this view, and the result need not be cut.

    From DRAM any view can be brought; on the chip matrices of a batch lie apart.
    """
    if len(axes) == 2 or _shared(builder.graph.shape(operand).dims):
        return False
    stays = op.output in builder.graph.outputs and (
        builder.graph.tensor(op.output).home == "state_buffer"
    )
    row, col = _merged(axes)
    has = builder.known(operand, (row, col)) or builder.known(operand, (col, row))
    return not stays and (builder.dram.holds(operand) or has is not None)
