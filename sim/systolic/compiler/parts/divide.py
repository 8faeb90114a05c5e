"""Which operations of a graph are done together, and which tensors are others seen otherwise.

A group is a product with what goes element by element over its result, a chain of such operations,
the parts of a composite, or one operation. A tensor between operations may lie in DRAM in any
layout. So a transpose, relayout or reshape from or to such a tensor moves nothing where
that tensor may lie as the other end does: it is another name for the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from systolic.compiler.ir.carried import is_packed
from systolic.compiler.parts.dense import PRODUCTS, with_dense_products
from systolic.compiler.parts.floor import floor_ticks
from systolic.compiler.streams.element_wise import ELEMENT_WISE
from systolic.hw.spec import Chip
from systolic.layout import Layout, Shape
from systolic.workload import Graph, Operation, Tensor, TransposeAttributes

FOLLOWS = (*ELEMENT_WISE, "conv2d", "pool")
"""Operations whose result best lies as their first operand does."""


@dataclass(frozen=True, slots=True)
class Divided:
    """A graph whose tensors lie in DRAM, and what to do in turn.

    steps: groups of operations, whose last one makes what others take; or one operation, whose
    result has the bytes of its operand (`same`). relaid: operands or results of products leave
    their tiles, or get them, by steps of their own.
    """

    graph: Graph
    steps: tuple[tuple[Operation, ...], ...]
    same: Mapping[str, str]
    relaid: bool = False

    def floor_ticks(self, chip: Chip) -> float:
        """Return the ticks that the groups take at least, one after another."""
        groups_ = [step for step in self.steps if step[-1].output not in self.same]
        return sum(floor_ticks(self.graph, group, chip) for group in groups_)


def divided(graph: Graph) -> Divided:
    """Return a graph with the layouts that its tensors get, and its groups in order."""
    plain, relaid = with_dense_products(graph)
    laid_out, same = _laid_out(plain)
    alone = relaid | same.keys()
    order = {op.output: n for n, op in enumerate(laid_out.operations)}
    steps = groups(laid_out, [op for op in laid_out.operations if op.output not in alone])
    steps += [(op,) for op in laid_out.operations if op.output in alone]
    steps.sort(key=lambda group: order[group[-1].output])
    return Divided(laid_out, tuple(steps), same, bool(relaid))


def groups(
    graph: Graph, operations: Sequence[Operation], *, composites: bool = True
) -> list[tuple[Operation, ...]]:
    """Return the operations that are done together, each group in order.

    composites: the parts of a composite are a group.
    """
    users = Counter(name for op in graph.operations for name in {*op.inputs})
    alone = {name for name, count in users.items() if count == 1 and name not in graph.named}
    found: dict[str, list[Operation]] = {}
    """The group that makes a tensor, or that has the parts of a composite so far."""
    for op in operations:
        if composites and op.part_of:
            found[f"{op.part_of} (whole)"] = [*found.pop(f"{op.part_of} (whole)", ()), op]
            continue
        before = [
            found[name]
            for name in dict.fromkeys(op.inputs)
            if name in found and name in alone and _goes_on(graph, found[name], op)
        ]
        products = [group for group in before if any(each.kind in PRODUCTS for each in group)]
        before = [group for group in before if group not in products[1:]]
        for group in before:
            del found[group[-1].output]
        found[op.output] = [*(each for group in before for each in group), op]
    return [tuple(group) for group in found.values()]


def _goes_on(graph: Graph, before: Sequence[Operation], op: Operation) -> bool:
    """Return whether an operation goes element by element over the result of a group."""
    head = before[-1]
    if op.kind not in ELEMENT_WISE or head.kind not in (*ELEMENT_WISE, *PRODUCTS):
        return False
    return graph.shape(head.output).dims == graph.shape(op.output).dims


def _laid_out(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """Return a graph whose inner tensors lie as is best, and the tensors that are others."""
    ends, tensors = {*graph.inputs, *graph.outputs}, dict(graph.tensors)
    wanted: dict[str, Shape] = {}
    same: dict[str, str] = {}
    moving = [op for op in graph.operations if op.inputs]
    for op in reversed(moving):
        name, result = op.inputs[0], wanted.get(op.output, tensors[op.output].shape)
        fixed = op.output in ends or op.output in wanted
        if fixed and name not in ends and name not in wanted:
            moved = _as_it_came(op, tensors[name].shape, result)
            if moved is not None:
                wanted[name], same[op.output] = moved, name
    for op in moving:
        if op.output in ends:
            continue
        source, result = tensors[op.inputs[0]].shape, tensors[op.output].shape
        moved = wanted.get(op.output)
        if moved is None:
            moved = _as_it_lies(op, source, result)
            if moved is not None:
                same[op.output] = op.inputs[0]
        if moved is None:
            follows = op.kind in FOLLOWS and source.rank == result.rank
            moved = result.with_layout(
                Layout((source if follows else result).layout.minor_to_major)
            )
        tensors[op.output] = Tensor(moved, "dram")
    return replace(graph, tensors=tuple(tensors.items())), same


def _as_it_lies(op: Operation, source: Shape, result: Shape) -> Shape | None:
    """Return the shape with which a moved tensor has the bytes of its source; None if none has."""
    layout = source.layout
    if layout.tiles or layout.padded_dimensions is not None or is_packed(source):
        return None
    if op.kind == "relayout":
        return source
    if op.kind == "transpose":
        axes = op.attributes_as(TransposeAttributes).axes
        back = {axis: place for place, axis in enumerate(axes)}
        return result.with_layout(Layout(tuple(back[axis] for axis in layout.minor_to_major)))
    if op.kind == "reshape" and _is_row_major(source):
        return result.with_layout(None)
    return None


def _as_it_came(op: Operation, source: Shape, result: Shape) -> Shape | None:
    """Return the shape with which the source of a move has the bytes of its result, if one has."""
    layout = result.layout
    if layout.tiles or layout.padded_dimensions is not None or is_packed(result):
        return None
    if op.kind == "relayout":
        return result
    if op.kind == "transpose":
        axes = op.attributes_as(TransposeAttributes).axes
        return source.with_layout(Layout(tuple(axes[dim] for dim in layout.minor_to_major)))
    if op.kind == "reshape" and _is_row_major(result):
        return source.with_layout(None)
    return None


def _is_row_major(shape: Shape) -> bool:
    """Return whether elements lie in row-major order, dimensions of one index left out."""
    order = [dim for dim in shape.layout.major_to_minor if shape.dims[dim] > 1]
    return order == sorted(order)
