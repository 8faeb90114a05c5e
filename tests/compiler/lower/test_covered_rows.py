"""Is the value right? Batches in tiles that come from DRAM in whole rows, with gaps.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.lower.test_batches import product
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.isa.lint.lint import lint
from systolic.run.tensors import initial_accesses
from systolic.workload import Graph, GraphBuilder

SEEDS = (2, 5, 7, 11, 15, 18, 19, 20)


def drawn(rng: Random) -> Graph:
    """Return a product of a batch whose operands lie in small tiles, in any order."""
    batch, (M, K, N) = rng.choice([4, 8, 12]), (rng.randint(2, 9) for _ in range(3))
    dtype, total = rng.choice([("f32", "f32"), ("bf16", "f32"), ("s8", "s32")])
    tiles = {"f32": "T(2,4)", "bf16": "T(4,4)(2,1)", "s8": "T(4,4)(4,1)"}[dtype]
    left, right = (
        f"{dtype}[{batch},{rows},{cols}]{{{','.join(map(str, rng.sample(range(3), 3)))}:{tiles}}}"
        for rows, cols in ((M, K), (K, N))
    )
    return product(left, right, f"{total}[{batch},{M},{N}]")


def dear_descriptors(rng: Random):
    """Return a small chip on which runs cost more than bytes, so that whole rows pay."""
    return ideal_chip(
        rng.randint(4, 8), rng.randint(4, 8),
        state_buffer={"partitions": rng.randint(12, 16), "bytes_per_partition": 16384},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        dma={"queues": rng.randint(1, 4), "latency_cycles": 20,
             "descriptor_cycles": rng.choice([0, 20])},
    )  # fmt: skip


def choices(seed: int) -> tuple[str, ...]:
    rng = Random(9000 + seed)
    graph = drawn(rng)
    return compile_graph("product", graph, dear_descriptors(rng)).layers.choices


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_in_tiles_are_right_and_cost_the_same_on_both_engines(seed: int) -> None:
    rng = Random(9000 + seed)
    graph, chip = drawn(rng), dear_descriptors(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compiled = compile_graph("product", graph, chip, verify=True)
    assert lint(compiled.program, chip, initial_accesses(compiled)) == []
    run_on_both_engines(graph, chip, inputs)


def test_the_random_batches_come_with_gaps_and_without() -> None:
    ways = [text for seed in SEEDS for text in choices(seed) if "gaps of up to" in text]
    assert any("up to 0 elements" in text for text in ways)
    assert any("up to 0 elements" not in text for text in ways)


def plain(descriptor_cycles: int):
    return ideal_chip(
        8, 8,
        state_buffer={"partitions": 8, "bytes_per_partition": 65536},
        dma={"queues": 2, "latency_cycles": 20, "descriptor_cycles": descriptor_cycles},
    )  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_rows_come_in_one_run_each_and_are_turned_where_columns_are_wanted(
    turned: bool,
) -> None:
    # T(8,16)(2,1) has an element of the next row behind each, and 8 rows between two matrices. A
    # descriptor costs 20 cycles and 64 bytes one, so each of the 8 rows is one run of all matrices:
    # 5 * 128 + 31 elements. The product wants rows of K: those of w, but the columns of x.
    side = "bf16[6,8,16]{2,1,0:T(8,16)(2,1)}"
    graph = product(*((side, "bf16[6,16,4]") if turned else ("bf16[6,4,8]", side)),
                    "f32[6,8,4]" if turned else "f32[6,4,16]")  # fmt: skip
    compiled = compile_graph("product", graph, plain(20), verify=True)
    (text,) = [text for text in compiled.layers.choices if "gaps of up to 97 elements" in text]
    assert ("and turned" in text) == turned
    rng = Random(5)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    run = systolic.run(graph, plain(20), inputs)
    assert run.summary["values"]["equal"]
    assert {"bytes": 1342, "count": 8} in run.summary["transfers"]["runs"]


def test_two_products_take_one_operand_from_the_same_rows() -> None:
    builder = GraphBuilder(home="dram")
    x = builder.tensor("x", "f32[8,4,6]{0,1,2:T(2,16)}")
    for name in ("y", "z"):
        w = builder.tensor(f"w{name}", "f32[8,6,5]")
        builder.matmul(x, w, "f32[8,4,5]", name=name)
    graph, rng = builder.graph(), Random(3)
    chip = plain(20)
    compiled = compile_graph("product", graph, chip, verify=True)
    assert sum("gaps of up to" in text for text in compiled.layers.choices) == 1
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    assert systolic.run(graph, chip, inputs).summary["values"]["equal"]
