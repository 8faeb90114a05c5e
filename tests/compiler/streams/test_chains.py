"""Chains of reductions and of work element by element: what joins, and that values stay right."""

from dataclasses import replace
from random import Random

import pytest

from compiler.streams.test_streams import is_right, random_chip
from systolic.compiler import compile_graph
from systolic.compiler.streams.chains import chains
from systolic.compiler.streams.element_wise import ELEMENT_WISE
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.run.judge import judge_on
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder
from systolic.workload.expand import expanded

PLACED = {kind: row.placed for kind, row in ELEMENT_WISE.items()}


def ideal() -> Chip:
    return load_chip(CHIPS / "ideal_128x128.toml")


def joined(graph: Graph, chip: Chip, *, apart: bool = False) -> list[list[str]]:
    return [
        [op.kind for op in chain.operations]
        for chain in chains(expanded(graph), chip, PLACED, apart=apart)
    ]


def test_what_is_made_of_the_results_of_a_lone_reduction_needs_no_whole_axes():
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[256,8,8]")
    sums = builder.add("reduce", (x,), name="sums", reduction="sum", axes=(0, 2))
    squares = builder.add("activation", (sums,), name="squares", function="square")
    given = {"operator": "multiply", "broadcast_dimensions": (1,)}
    builder.add("binary", (x, squares), name="z", **given)
    graph = builder.graph()
    assert joined(graph, ideal(), apart=True) == [["reduce"], ["activation"], ["binary"]]
    assert is_right(graph, ideal(), Random(2))


def softmax(shape: str) -> Graph:
    builder = GraphBuilder("dram")
    builder.add("softmax", (builder.tensor("x", shape),), shape, name="y")
    return builder.graph()


def test_a_softmax_is_one_chain():
    parts = [op.kind for op in expanded(softmax("f32[200,7]")).operations]
    assert parts.count("reduce") == 2
    assert joined(softmax("f32[200,7]"), ideal()) == [parts]


def test_long_rows_of_few_results_may_be_reduced_apart():
    graph, chip = softmax("f32[3,5000]"), ideal()
    assert len(joined(graph, chip)) == 1
    apart = joined(graph, chip, apart=True)
    assert [each for each in apart if "reduce" in each] == [["reduce"], ["reduce"]]


def test_a_result_that_is_named_ends_a_chain():
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[40,6]")
    half = builder.add("activation", (x,), "f32[40,6]", name="half", function="ramp", scale=0.5)
    builder.add("activation", (half,), "f32[40,6]", name="y", function="square")
    assert joined(builder.graph(), ideal()) == [["activation", "activation"]]
    named = replace(builder.graph(), named=("half", "y"))
    assert joined(named, ideal()) == [["activation"], ["activation"]]


def test_reductions_of_different_axes_are_different_chains():
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[8,8]")
    columns = builder.add("reduce", (x,), "f32[8]", name="a", reduction="sum", axes=(0,))
    shifted = builder.add(
        "binary", (x, columns), "f32[8,8]", name="b", operator="add", broadcast_dimensions=(0,)
    )
    builder.add("reduce", (shifted,), "f32[8]", name="y", reduction="sum", axes=(0,))
    # The sums of columns are spread over rows: another chain, though the sizes are alike.
    assert joined(builder.graph(), ideal()) == [["reduce"], ["binary", "reduce"]]


def random_chain(rng: Random) -> Graph:
    """Return a graph of two or three reductions, with work around them."""
    builder = GraphBuilder("dram")
    dims = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    axes = sorted(rng.sample(range(len(dims)), rng.randint(1, len(dims))))
    kept = [n for n in range(len(dims)) if n not in axes]
    order = list(range(len(dims)))
    rng.shuffle(order)
    like = "{" + ",".join(map(str, order)) + "}"
    whole = f"f32[{','.join(map(str, dims))}]{like}"
    small = f"f32[{','.join(str(dims[n]) for n in kept)}]"
    if rng.random() < 0.3:
        now = builder.add("cast", (builder.tensor("x", f"bf16{whole[3:]}"),), whole, name="wide")
    else:
        now = builder.tensor("x", whole)
    for number in range(rng.randint(2, 3)):
        if rng.random() < 0.5:
            now = builder.add("activation", (now,), whole, name=f"a{number}", function="square")
        made = builder.add(
            "reduce", (now,), small, name=f"r{number}", axes=tuple(axes),
            reduction=rng.choice(["max", "sum", "mean"]),
        )  # fmt: skip
        if rng.random() < 0.5:
            made = builder.add("activation", (made,), small, name=f"k{number}", function="tanh")
        given = {"broadcast_dimensions": tuple(kept)} if kept else {}
        operator = rng.choice(["add", "subtract", "multiply"])
        now = builder.add(
            "binary", (now, made), whole, name=f"b{number}", operator=operator, **given
        )
    if rng.random() < 0.5:
        builder.add("reduce", (now,), small, name="y", reduction="sum", axes=tuple(axes))
    return builder.graph()


def roomy_chip(rng: Random) -> Chip:
    """Return a random chip whose partitions have room for a whole row of a random chain."""
    while (chip := random_chip(rng)).state_buffer.bytes_per_partition < 1 << 16:
        pass
    return chip


@pytest.mark.parametrize("seed", range(12))
def test_random_chains_on_random_chips(seed):
    rng = Random(f"chains {seed}")
    is_right(random_chain(rng), roomy_chip(rng), rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_many_random_chains_on_random_chips(seed):
    rng = Random(f"many chains {seed}")
    is_right(random_chain(rng), roomy_chip(rng), rng)


@pytest.mark.parametrize("narrow", ["bf16", "f16", "f8e4m3fn"])
def test_casts_on_the_way_take_no_instruction(narrow):
    """Wide numbers of a narrow tensor, and a narrow result: one instruction for each function."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", f"{narrow}[9,5]")
    wide = builder.add("cast", (x,), "f32[9,5]", name="wide")
    square = builder.add("activation", (wide,), "f32[9,5]", name="square", function="square")
    total = builder.add("binary", (square, wide), "f32[9,5]", name="total", operator="add")
    builder.add("cast", (total,), f"{narrow}[9,5]", name="y")
    graph, chip = builder.graph(), ideal()
    compiled = compile_graph("casts", graph, chip, judge=judge_on(chip))
    kinds = [type(each).__name__ for each in compiled.program.instructions]
    assert sorted(set(kinds)) == ["Activate", "DmaCopy", "TensorTensor"]
    assert is_right(graph, chip, Random(narrow))
