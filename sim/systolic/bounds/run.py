"""Bounds of each operation and of the whole run: the largest of a few closed forms.

They follow from sizes of the graph and of the chip alone. No choice of a compiler enters, so a
bound says how good a schedule is. Not here: the forms of units (`systolic.hw.formulas`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.bounds.moves import NOTHING, calculated, moved_on_chip
from systolic.bounds.multiply_adds import PRODUCTS
from systolic.bounds.needed import bytes_of, needed_bytes, needed_elements
from systolic.bounds.products import product_work, products_bound
from systolic.hw.formulas.sequencing import behind_fetch
from systolic.hw.formulas.timing import Bound, dram_bound, largest
from systolic.hw.spec import Chip
from systolic.workload import Graph, Operation

LEAST_INSTRUCTION_BYTES = 58
"""Of the shortest instruction that has an access (docs/program_format.md)."""


@dataclass(frozen=True, slots=True)
class OperationBound:
    """The bound of one operation alone, with its operands in the memories that the graph names."""

    name: str
    kind: str
    bound: Bound


def operation_bounds(graph: Graph, chip: Chip) -> tuple[OperationBound, ...]:
    """Return the bound of each operation."""
    fed = _fed(chip)
    return tuple(
        OperationBound(op.name, op.kind, _said(_fetched(chip, _alone(graph, op, fed)), chip))
        for op in graph.operations
    )


def run_bound(graph: Graph, chip: Chip) -> Bound:
    """Return the bound of the whole run: its longest operation, all products, DRAM's bytes."""
    found = [each.bound for each in operation_bounds(graph, chip)]
    products = [op for op in graph.operations if op.kind in PRODUCTS]
    if products:
        found.append(_fetched(chip, _products(graph, products, _fed(chip))))
    read = [needed_bytes(graph, name) for name in graph.inputs if _in_dram(graph, name)]
    written = [_bytes(graph, name) for name in graph.outputs if _in_dram(graph, name)]
    found.append(_fetched(chip, _through_dram(chip, sum(read), sum(written))))
    return _said(largest(found), chip)


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


def _alone(graph: Graph, op: Operation, chip: Chip) -> Bound:
    read = sum(
        bytes_of(graph.shape(name), needed_elements(graph, op, op.inputs.index(name)))
        for name in dict.fromkeys(op.inputs)
        if name in graph.inputs and _in_dram(graph, name)
    )
    stored = op.output in graph.outputs and _in_dram(graph, op.output)
    found = [_through_dram(chip, read, _bytes(graph, op.output) if stored else 0)]
    if op.kind in PRODUCTS:
        found.append(_products(graph, [op], chip))
    if op.inputs:
        found += [moved_on_chip(graph, op, chip), calculated(graph, op, chip)]
    return largest(found)


def _products(graph: Graph, ops: Sequence[Operation], chip: Chip) -> Bound:
    """Return the bound of products; operands that other operations make are at hand."""
    works = [work for op in ops if (work := product_work(graph, op)).multiply_adds]
    if not works:
        return NOTHING
    operands = {name for op in ops for name in op.inputs}
    results = {op.output for op in ops}
    return products_bound(
        chip,
        works,
        from_dram=all(name in graph.inputs and _in_dram(graph, name) for name in operands),
        to_dram=all(name in graph.outputs and _in_dram(graph, name) for name in results),
    )


def _through_dram(chip: Chip, read: int, written: int) -> Bound:
    """Return what DRAM takes for bytes that it gives and takes.

    A copy within DRAM passes a DMA engine once, so of both the engines pass the larger at least.
    """
    if not read + written:
        return NOTHING
    return dram_bound(chip, read + written, min(read, written))


def _in_dram(graph: Graph, name: str) -> bool:
    return graph.tensor(name).home == "dram"


def _bytes(graph: Graph, name: str) -> int:
    shape = graph.shape(name)
    return bytes_of(shape, shape.num_elements())


def _fetched(chip: Chip, bound: Bound) -> Bound:
    """Return a bound, and in front of it the fetch of the least instruction there is."""
    return behind_fetch(chip, bound, LEAST_INSTRUCTION_BYTES)
