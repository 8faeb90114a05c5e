"""Exponentials and their sums by one instruction: the same bits as by two, in fewer cycles."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.hw.spec import Chip
from systolic.isa import Activate, Pool
from systolic.isa.instruction import ActivateReduce
from systolic.workload import Graph, GraphBuilder

PLAIN = ["copy", "memset", "activate", "tensor_tensor", "tensor_scalar"]


def chip(*more: str, **costs: Any) -> Chip:
    """Return a chip of 4 x 4 PEs, whose activation engine does more."""
    return ideal_chip(4, 4, activation={"does": [*PLAIN, *more], **costs})


def softmax(rows: int, columns: int, home: str = "state_buffer") -> Graph:
    builder = GraphBuilder(home)
    builder.softmax(builder.tensor("x", f"f32[{rows},{columns}]"), name="y")
    return builder.graph()


def instructions(graph: Graph, on: Chip) -> Counter[type]:
    compiled = compile_graph("run", graph, on, verify=True)
    return Counter(type(draft.instruction) for draft in compiled.scheduled.drafts)


def random_input(rows: int, columns: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)}


def test_each_segment_is_summed_up_by_the_instruction_that_makes_it():
    """Rows of 16 columns have four segments of 4, as many as the array has rows."""
    graph = softmax(4, 16)
    alone, both = instructions(graph, chip()), instructions(graph, chip("activate_reduce"))
    assert (alone[ActivateReduce], both[ActivateReduce]) == (0, 4)
    assert alone[Activate] - both[Activate] == 4
    assert alone[Pool] > both[Pool]


@pytest.mark.parametrize("home", ["state_buffer", "dram"])
@pytest.mark.parametrize("columns", [16, 18, 64])
def test_bits_are_those_of_two_instructions_and_cycles_are_fewer(columns, home):
    graph, inputs = softmax(8, columns, home), random_input(8, columns)
    alone = systolic.run(graph, chip(), inputs)
    event, register = (
        systolic.run(graph, chip("activate_reduce"), inputs, engine=engine)
        for engine in ("event", "register")
    )
    assert np.array_equal(alone.outputs["y"], event.outputs["y"])
    assert np.array_equal(alone.outputs["y"], register.outputs["y"])
    assert event.cycles == register.cycles
    if columns == 64:
        assert event.cycles < alone.cycles


def test_sums_of_what_is_cast_are_not_those_of_the_instruction():
    """It adds float32; the reduction takes the elements as they are stored."""
    builder = GraphBuilder("state_buffer")
    x = builder.tensor("x", "f32[4,16]")
    powers = builder.activation(x, function="exponential", out="bf16[4,16]")
    builder.reduce(powers, reduction="sum", axes=[1], name="y")
    assert instructions(builder.graph(), chip("activate_reduce"))[ActivateReduce] == 0


def test_where_each_instruction_costs_much_few_are_taken():
    costs = {"fixed_cycles": 50}
    assert instructions(softmax(4, 16), chip("activate_reduce", **costs))[ActivateReduce] == 0


def test_a_mean_is_a_sum_too_and_a_maximum_is_none():
    for reduction, found in (("mean", 4), ("sum", 4), ("max", 0)):
        builder = GraphBuilder("state_buffer")
        squares = builder.activation(builder.tensor("x", "f32[4,16]"), function="square")
        builder.reduce(squares, reduction=reduction, axes=[1], name="y")
        assert instructions(builder.graph(), chip("activate_reduce"))[ActivateReduce] == found


def test_plans_for_several_sizes_of_the_buffer_know_instructions_with_two_results():
    """Tiles that leave a tight buffer make the compiler rate several plans."""
    tight = {"partitions": 4, "bytes_per_partition": 512, "banks": 1}
    does = {"does": [*PLAIN, "activate_reduce"]}
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[32,32]"), builder.tensor("w", "f32[32,32]")
    builder.matmul(builder.softmax(x), w, "f32[32,32]", name="y")
    graph = builder.graph()
    inputs = {n: np.full((32, 32), 0.5, np.float32) for n in ("x", "w")}
    run = systolic.run(graph, ideal_chip(4, 4, activation=does, state_buffer=tight), inputs)
    assert np.allclose(run.outputs["y"], 0.5)
    drafts = run.compiled.scheduled.drafts
    assert any(isinstance(draft.instruction, ActivateReduce) for draft in drafts)
