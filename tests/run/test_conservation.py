"""Does every network do the work that its shapes say, no more and no less?

Multiply-adds are counted instruction by instruction: rows and columns of the weights that were
loaded last, times vectors. Bytes of DRAM are those of inputs and outputs, each moved once, since
all of a network's tiles have room.
"""

from __future__ import annotations

import math
from collections import Counter

import pytest

from run.test_networks import BLOCK, NETWORKS, RESNET, smaller
from systolic.config import load_run
from systolic.isa import Buffer, LoadWeights, MatMul
from systolic.isa.effects import reads, writes
from systolic.run.execute import compile_run

NAMES = sorted(path.stem for path in NETWORKS.glob("*.toml"))


def compiled_network(path):
    config = load_run(path)
    return config.graph, compile_run(config)


def check(graph, compiled):
    """Compare both counts with closed formulas of the shapes."""
    assert products(compiled) == wanted_products(graph)
    moved = sum(
        access.size_bytes
        for instruction in compiled.program.instructions
        for access in (*reads(instruction), *writes(instruction))
        if access.buffer is Buffer.DRAM
    )
    ends = [graph.shape(name) for name in (*graph.inputs, *graph.outputs)]
    assert moved == sum(shape.num_elements() * shape.dtype.itemsize for shape in ends)


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
    """Return M x K x N of each product, and output elements x window of each convolution."""
    found = Counter()
    for op in graph.operations:
        out = graph.shape(op.output).dims
        if op.kind == "matmul":
            found[op.name] = math.prod(out) * graph.shape(op.inputs[0]).dims[-1]
        elif op.kind == "conv2d":
            found[op.name] = math.prod(out) * math.prod(graph.shape(op.inputs[1]).dims[:3])
    return found


@pytest.mark.parametrize("network", [BLOCK, RESNET], ids=lambda path: path.stem)
def test_a_small_sibling_does_its_work_once(network, tmp_path):
    path = tmp_path / "sibling.toml"
    path.write_text(smaller(network), encoding="utf-8")
    check(*compiled_network(path))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_network_does_its_work_once(name):
    check(*compiled_network(NETWORKS / f"{name}.toml"))
