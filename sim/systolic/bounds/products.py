"""How few ticks products take, from multiply-adds and elements alone, whatever the schedule.

The array does R x C multiply-adds in the v cycles of a vector. Engines multiply and add too, one in
each lane and read. Weights with zeros in them (banded, block-diagonal) fill the array where a
product has few rows or columns, so nothing is rounded up to whole tiles. An operand that lies with
rows on partitions where the array wants K there must be turned: by the array, C elements of a
vector, by engines and by DMA. Forms: docs/bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from systolic.bounds.multiply_adds import least_multiply_adds
from systolic.bounds.needed import needed_elements
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.engines import copiers, drainers, fastest, written_bytes
from systolic.hw.formulas.ticks import UnitRate, least_end
from systolic.hw.formulas.timing import ArrayWork, Bound, array_bound, columns_per_read
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Graph, Operation


@dataclass(frozen=True, slots=True)
class ProductWork:
    """What a product needs: multiply-adds, elements of both operands, results, and turns.

    turned: of each operand that lies the wrong way, its name and its elements.
    """

    dtype: str
    multiply_adds: int
    operands: int
    results: int
    turned: tuple[tuple[str, int], ...] = ()


def product_work(graph: Graph, op: Operation) -> ProductWork:
    """Return what a matmul or a convolution needs."""
    multiply_adds = least_multiply_adds(graph, op)
    operands = sum(needed_elements(graph, op, place) for place in range(2)) if multiply_adds else 0
    turned = _turned(graph, op) if op.kind == "matmul" and multiply_adds else ()
    shape = graph.shape(op.inputs[0])
    inner = shape.dims[-1] if op.kind == "matmul" else math.prod(graph.shape(op.inputs[1]).dims[:3])
    results = multiply_adds // max(1, inner)
    return ProductWork(shape.element_type, multiply_adds, operands, results, turned)


def products_bound(
    chip: Chip, products: Sequence[ProductWork], *, from_dram: bool, to_dram: bool
) -> Bound:
    """Return the least time of several products, in any order and beside one another.

    from_dram: all operands come from there; to_dram: all results go there.
    """
    products = [_in_type_of(chip, each) for each in products]
    by_array = _by_array(chip, products, from_dram=from_dram, to_dram=to_dram)
    ways = [
        UnitRate(
            chip.period(unit), chip.state_buffer.partitions * fastest(engine, "state_buffer"), 1
        )
        for unit, engine in copiers(chip, "state_buffer").items()
    ]
    amount = sum(each.multiply_adds for each in products)
    if not ways:
        return by_array
    alone = least_end(0, amount, ways)
    return replace(by_array, ticks=min(by_array.ticks, alone))


def _in_type_of(chip: Chip, product: ProductWork) -> ProductWork:
    """Return a product in the quickest type of the array, if the array does not take its own."""
    known = chip.pe_array.cycles_per_vector
    if product.dtype in known:
        return product
    return replace(product, dtype=min(known, key=lambda dtype: _cycles_of_cells(chip, dtype)))


def _by_array(
    chip: Chip, products: Sequence[ProductWork], *, from_dram: bool, to_dram: bool
) -> Bound:
    """Return the least time if the array does some of the work."""
    array = chip.pe_array
    cells = array.rows * array.cols
    slowest = max(array.vector_cycles(each.dtype) for each in products)
    quickest = min(array.vector_cycles(each.dtype) for each in products)
    streamed = sum(
        (each.multiply_adds * _cycles_of_cells(chip, each.dtype) / cells for each in products),
        Fraction(0),
    )
    turning, spared = _turning(chip, products)
    helped = 1 + _multiplied_by_engines(chip) * slowest / cells
    streams = [
        (streamed / helped, "multiply-adds of pe_array"),
        ((streamed + turning) / (helped + spared), "multiply-adds of pe_array and turns"),
        (_entering(chip, products) / helped, "operands that enter pe_array"),
    ]
    stream, why = max(streams, key=lambda each: each[0])
    vectors = max(1, math.ceil(stream / slowest))
    words = math.ceil(sum(Fraction(each.results, array.cols) for each in products) / helped)
    work = ArrayWork(vectors, max(0, math.ceil(stream) - quickest), max(1, words))
    found = array_bound(chip, work, drainers(chip), from_dram=from_dram, to_dram=to_dram)
    return replace(found, why=why) if found.why.startswith("moving") else found


def _cycles_of_cells(chip: Chip, dtype: str) -> Fraction:
    """Return the cycles for a multiply-add in every PE; a PE may have two of them in a cycle."""
    array = chip.pe_array
    twice = [Fraction(array.double_row[dtype], 2)] if dtype in array.double_row else []
    return min([Fraction(array.vector_cycles(dtype)), *twice])


def _multiplied_by_engines(chip: Chip) -> Fraction:
    """Return the multiply-adds of all engines in a cycle of the array."""
    period = chip.period("pe_array")
    rates = (
        fastest(engine, "state_buffer") * Fraction(period, chip.period(unit))
        for unit, engine in copiers(chip, "state_buffer").items()
    )
    return chip.state_buffer.partitions * sum(rates, Fraction(0))


def _turning(chip: Chip, products: Sequence[ProductWork]) -> tuple[Fraction, Fraction]:
    """Return the array's cycles for all that is turned, and those that others spare it in a cycle.

    An operand that several products take is turned once.
    """
    array, period = chip.pe_array, chip.period("pe_array")
    turned = {name: (each.dtype, n) for each in products for name, n in each.turned}
    if not turned:
        return Fraction(0), Fraction(0)
    known = array.cycles_per_vector
    least = min(array.turn_cycles(dtype) for dtype in known)
    size = min(data_type(dtype).size_bytes for dtype, _ in turned.values())
    cycles = sum((Fraction(n * least, array.cols) for _, n in turned.values()), Fraction(0))
    moved = Fraction(chip.dma.engine_count * chip.dma.bytes_per_cycle, chip.period("dma"))
    for unit, engine in copiers(chip, "state_buffer").items():
        rate = written_bytes(engine, chip.port_width_bytes)
        moved += chip.state_buffer.partitions * rate / chip.period(unit)
    return cycles, moved * period / size * least / array.cols


def _entering(chip: Chip, products: Sequence[ProductWork]) -> Fraction:
    """Return the array's cycles until every element of both operands has entered it once.

    It enters with a vector, one in each row, or with a read of weights.
    """
    array, cycles = chip.pe_array, Fraction(0)
    for each in products:
        rows = array.rows if array.weight_path == "left" else array.fast_load
        loaded = rows * columns_per_read(chip, each.dtype)
        moved = Fraction(array.rows, array.vector_cycles(each.dtype))
        cycles = max(cycles, each.operands / (loaded + moved))
    return cycles


def _turned(graph: Graph, op: Operation) -> tuple[tuple[str, int], ...]:
    """Return the operands that are inputs of the graph and lie with K along the address."""
    found = []
    for name, inner in zip(op.inputs, (0, 1), strict=True):
        shape = graph.shape(name)
        if name in graph.inputs and _along(shape) == inner and min(shape.dims[-2:]) > 1:
            found.append((name, shape.num_elements()))
    return tuple(found)


def _along(shape: Shape) -> int | None:
    """Return which of the last two dimensions lies along the address, from the last; None: neither.

    Of a layout in tiles nothing is said: they may be readable either way.
    """
    if shape.layout.tiles or shape.rank < 2:
        return None
    place = shape.rank - 1 - shape.layout.major_to_minor[-1]
    return place if place < 2 else None
