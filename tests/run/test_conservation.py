"""Does every network do the work that its shapes say, no more and no less?

Multiply-adds are counted instruction by instruction: rows and columns of the weights that were
loaded last, times vectors. Bytes of DRAM are those of inputs and outputs, each moved once: the
intermediate results of every network have room on the chip. Weights count for the operation that
multiplies them.
"""

from __future__ import annotations

import math
from collections import Counter

import pytest

import systolic
from run.test_networks import (
    BLOCK,
    DECODE,
    MOBILENET,
    NETWORKS,
    PREFILL,
    RESNET,
    small_int8,
    smaller,
)
from systolic.config import load_run
from systolic.isa import Buffer, LoadWeights, MatMul
from systolic.isa.effects import reads, writes
from systolic.run.execute import compile_run
from systolic.workload.operations.take import TakeAttributes

NAMES = sorted(path.stem for path in NETWORKS.glob("*.toml"))


def compiled_network(path):
    config = load_run(path)
    return config.graph, compile_run(config)


def check(graph, compiled):
    """Compare both counts with closed formulas of the shapes."""
    side = compiled.chip.pe_array.rows  # and of a tile
    assert products(compiled) == computed_products(graph, side)
    assert spilled(compiled) == (0, 0)
    wanted = sum(bytes_to_move(graph, name) for name in (*graph.inputs, *graph.outputs))
    found = moved(compiled)
    assert found.total() == wanted
    for op in graph.operations:
        if op.kind in ("matmul", "conv2d") and op.inputs[1] in graph.inputs:
            assert found[op.name] >= bytes_to_move(graph, op.inputs[1])


def moved(compiled) -> Counter[str]:
    """Return the bytes of each operation's accesses to DRAM."""
    found = Counter()
    instructions = compiled.program.instructions
    for layer, instruction in zip(compiled.synchronised.layers, instructions, strict=True):
        for access in (*reads(instruction), *writes(instruction)):
            if access.buffer is Buffer.DRAM:
                found[layer] += access.size_bytes
    return found


def spilled(compiled) -> tuple[int, int]:
    """Return the bytes written to DRAM behind all tensors, and those read from there."""
    end = max(place.base + place.shape.size_bytes() for place in compiled.layers.dram)
    behind = [
        sum(
            access.size_bytes
            for instruction in compiled.program.instructions
            for access in accesses(instruction)
            if access.buffer is Buffer.DRAM and access.span.first >= end
        )
        for accesses in (writes, reads)
    ]
    return behind[0], behind[1]


def bytes_to_move(graph, name: str) -> int:
    """Return the bytes of a tensor; of a table those of the rows that are taken."""
    shape, taken = graph.shape(name), [op for op in graph.operations if name in op.inputs]
    size = shape.num_elements() * shape.dtype.itemsize
    if taken and taken[0].kind == "take":
        rows = taken[0].attributes_as(TakeAttributes).indices
        return size // shape.dims[0] * len(rows)
    return size


def products(compiled) -> Counter[str]:
    """Return the multiply-adds of each operation's products; a turn multiplies by an identity."""
    found, weights = Counter(), None
    identities = [access.span for access in compiled.plan.scheduled.identities]
    instructions = compiled.program.instructions
    for layer, each in zip(compiled.synchronised.layers, instructions, strict=True):
        if isinstance(each, LoadWeights):
            weights = each.weights
        elif isinstance(each, MatMul) and not _is_identity(each, identities):
            found[layer] += weights.partitions * weights.elements * each.moving.elements
    return found


def _is_identity(multiply, identities) -> bool:
    return any(span.first <= multiply.moving.start < span.stop for span in identities)


def wanted_products(graph) -> Counter[str]:
    """Return M x K x N of each product, and output elements x window of each convolution.

    Of a product under a causal mask only the elements that stay are wanted.
    """
    return computed_products(graph, 1)


def computed_products(graph, side: int) -> Counter[str]:
    """Return the multiply-adds of each product where tiles [side, side] are computed whole.

    The channels of a depthwise convolution are taken side at a time: each is multiplied with its
    weight, and with the zeros that stand in the columns of the others.
    """
    found = Counter()
    masks = {op.inputs[0] for op in graph.operations if op.kind == "causal_mask"}
    for op in graph.operations:
        out = graph.shape(op.output).dims
        if op.kind == "matmul":
            K, count = graph.shape(op.inputs[0]).dims[-1], math.prod(out)
            if op.name in masks:
                count = math.prod(out[:-2]) * up_to_the_diagonal(out[-2], out[-1], side)
            found[op.name] = count * K
        elif op.kind == "conv2d":
            height, width, channels, _ = graph.shape(op.inputs[1]).dims
            columns = out[3] * channels
            if op.attributes.groups > 1:
                blocks = [min(side, out[3] - first) for first in range(0, out[3], side)]
                columns = sum(size * size for size in blocks)
            found[op.name] = math.prod(out[:3]) * height * width * columns
    return found


def up_to_the_diagonal(rows: int, cols: int, side: int) -> int:
    """Return the elements of all tiles [side, side] that have one at the diagonal or below it."""
    return sum(
        min(side, rows - row) * min(side, cols - col)
        for row in range(0, rows, side)
        for col in range(0, cols, side)
        if col <= min(row + side, rows) - 1
    )


@pytest.mark.parametrize(
    "network", [BLOCK, RESNET, PREFILL, DECODE, MOBILENET], ids=lambda path: path.stem
)
def test_a_small_sibling_does_its_work_once(network, tmp_path):
    path = tmp_path / "sibling.toml"
    path.write_text(smaller(network), encoding="utf-8")
    check(*compiled_network(path))


@pytest.mark.parametrize("network", [RESNET, MOBILENET], ids=lambda path: path.stem)
def test_a_small_int8_sibling_does_its_work_once(network, tmp_path):
    check(*compiled_network(small_int8(network, tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_network_does_its_work_once(name):
    check(*compiled_network(NETWORKS / f"{name}.toml"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name if name == "digits_cnn" else pytest.param(name, marks=pytest.mark.slow)
        for name in NAMES
    ],
)
def test_no_operation_of_a_network_is_quicker_than_its_bound(name):
    """One that another does on its way, such as a bias, takes the cycles of that one.

    Such an operation has instructions that bring its operands, but do not write its result.
    """
    result = systolic.run(NETWORKS / f"{name}.toml", values=False)
    graph, records = result.compiled.graph, result.summary["operations"]
    written = Counter()
    layers = result.compiled.synchronised.layers
    for layer, instruction in zip(layers, result.program.instructions, strict=True):
        written[layer] += sum(each.partitions * each.elements for each in writes(instruction))
    cycles = {each["name"]: each["cycles"] for each in records}
    taken = {}  # by the names of results, in the order of the graph
    for op in graph.operations:
        own = written[op.name] >= math.prod(graph.shape(op.output).dims)
        makers = [taken[each] for each in op.inputs if each in taken]
        taken[op.output] = cycles[op.name] if own else max(makers, default=0)
    for op, each in zip(graph.operations, records, strict=True):
        assert not 0 < taken[op.output] < each["bound"]["cycles"], each["name"]
