"""Which operations go together in one stream: chains whose results between never leave the chip.

A chain ends in one tensor. It has elements of some dimensions, and maybe axes of them that its
reductions take away; each operation makes a tensor of all dimensions, or of those that are kept. A
softmax is a chain: the largest, the differences, their powers, the sums, the quotients. Operations
are looked at from the last to the first: one whose users are all in one chain joins it, if its
elements follow its users' elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.hw.spec import Chip
from systolic.workload import Graph, Operation
from systolic.workload.operations.reduce import ReduceAttributes, kept_axes

PlacedDims = tuple[int | None, ...]
"""For each dimension of a result, the operand's dimension; None where the operand is repeated."""
OperandPlaces = Mapping[str, Callable[[Operation, Sequence[int], Sequence[int]], PlacedDims]]
"""Kinds that go element by element: how an operand of some dimensions follows the result's."""


@dataclass(slots=True)
class StreamChain:
    """Operations in their order, the dimensions of their elements, and the axes that are reduced.

    kept: the tensors among their results that have lost the axes.
    """

    operations: list[Operation]
    dims: tuple[int, ...]
    axes: tuple[int, ...] = ()
    kept: set[str] = field(default_factory=set)

    def spread(self, op: Operation, placed: Sequence[int | None]) -> PlacedDims:
        """Return what follows each dimension of the chain from what follows a result's."""
        if op.output not in self.kept:
            return tuple(placed)
        own = iter(placed)
        return tuple(None if n in self.axes else next(own) for n in range(len(self.dims)))


def chains(
    graph: Graph, chip: Chip, element_wise: OperandPlaces, *, apart: bool = False
) -> list[StreamChain]:
    """Return the operations of a graph in chains, in an order in which these can be done.

    element_wise: the kinds of operations that go element by element, with their operands' places.
    Operations of other kinds are alone. apart: so are reductions that more partitions can do than
    they have results.
    """
    users: dict[str, list[Operation]] = {}
    for op in graph.operations:
        for name in dict.fromkeys(op.inputs):
            users.setdefault(name, []).append(op)
    alone = {
        op.output
        for op in graph.operations
        if op.kind not in element_wise and not _can_join(graph, op, chip, apart=apart)
    }
    joiner = _Joiner(graph, element_wise, _reduced_by(graph, element_wise, alone))
    chain_of: dict[str, StreamChain] = {}
    found: list[StreamChain] = []
    for op in reversed(graph.operations):
        takers = users.get(op.output, [])
        chain = chain_of[takers[0].output] if takers else None
        joins = (
            chain is not None
            and op.output not in graph.named
            and alone.isdisjoint([op.output, *(user.output for user in takers)])
            and all(chain_of[user.output] is chain for user in takers)
            and joiner.join(chain, op, takers)
        )
        if chain is None or not joins:
            chain = _begun(graph, op, is_alone=op.output in alone)
            found.append(chain)
        chain_of[op.output] = chain
    return found[::-1]


def _begun(graph: Graph, op: Operation, *, is_alone: bool) -> StreamChain:
    """Return the chain of its last operation."""
    if op.kind != "reduce" or is_alone:
        return StreamChain([op], graph.shape(op.output).dims)
    dims = graph.shape(op.inputs[0]).dims
    axes = op.attributes_as(ReduceAttributes).reduced(len(dims))
    return StreamChain([op], dims, axes, {op.output})


def _can_join(graph: Graph, op: Operation, chip: Chip, *, apart: bool) -> bool:
    """Return whether an operation is a reduction that may be one of several of a chain."""
    if op.kind != "reduce":
        return False
    given, source = op.attributes_as(ReduceAttributes), graph.shape(op.inputs[0])
    count = math.prod(source.dims[axis] for axis in given.reduced(source.rank))
    if count <= (most := block_rows(chip)):
        return True
    has_lanes = graph.shape(op.output).num_elements() >= chip.state_buffer.partitions
    return most > 1 and given.reduction != "median" and (has_lanes or not apart)


ReducedAs = tuple[tuple[int, ...], tuple[int, ...]]
"""The dimensions of what was reduced, and its axes."""


def _reduced_by(
    graph: Graph, element_wise: OperandPlaces, alone: Collection[str]
) -> dict[str, ReducedAs]:
    """Return the tensors that are made of a reduction, element by element, and that reduction.

    Not of those that are alone: what is made of their results needs no whole axes in a tile.
    """
    found: dict[str, ReducedAs] = {}
    for op in graph.operations:
        dims = graph.shape(op.output).dims
        if op.output in alone:
            continue
        if op.kind == "reduce":
            source = graph.shape(op.inputs[0]).dims
            axes = op.attributes_as(ReduceAttributes).reduced(len(source))
            found[op.output] = source, axes
        elif op.kind in element_wise:
            for name in op.inputs:
                if name in found and graph.shape(name).dims == dims:
                    found.setdefault(op.output, found[name])
    return found


@dataclass(frozen=True, slots=True)
class _Joiner:
    """Lets operations join chains. reduced: the reduction that each tensor comes from."""

    graph: Graph
    element_wise: OperandPlaces
    reduced: Mapping[str, ReducedAs]

    def join(self, chain: StreamChain, op: Operation, takers: Sequence[Operation]) -> bool:
        """Add an operation to the chain of all its users; return whether it can be one of them."""
        dims = self.graph.shape(op.output).dims
        whole, axes = self.reduced.get(op.output, (dims, ()))
        is_kept = {self._is_kept(chain, op, user) for user in takers}
        if len(is_kept) > 1 or None in is_kept:
            return False
        if op.kind == "reduce" and is_kept == {False}:
            # Elements so far have the dimensions that the reduction leaves.
            if chain.axes or chain.dims != dims:
                return False
            chain.dims, chain.axes = whole, axes
            chain.kept = {each.output for each in chain.operations}
            is_kept = {True}
        if is_kept == {True}:
            if (whole, axes) != (chain.dims, chain.axes or axes):
                return False
            chain.axes = axes
            chain.kept.add(op.output)
        chain.operations.insert(0, op)
        return True

    def _is_kept(self, chain: StreamChain, op: Operation, user: Operation) -> bool | None:
        """Return whether a user takes a tensor as one that has lost the axes; None: as neither."""
        dims, out = (self.graph.shape(each.output).dims for each in (op, user))
        if user.kind == "reduce":
            return False
        if user.kind not in self.element_wise:
            return None
        placed = self.element_wise[user.kind](user, dims, out)
        if dims == out and placed == tuple(range(len(out))):
            return user.output in chain.kept
        if user.output in chain.kept or len(dims) == len(out):
            return None
        _, axes = self.reduced.get(op.output, (dims, ()))
        kept = kept_axes(len(out), chain.axes or axes)
        own = [placed.index(dim) if dim in placed else None for dim in range(len(dims))]
        return True if own == list(kept) and tuple(out[n] for n in kept) == dims else None
