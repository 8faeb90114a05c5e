"""Operations element by element: what becomes one instruction, what is spread, what is refused.

The numbers are small whole ones, exact in float32 in any order, so numpy itself is the oracle.
"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import CompiledGraph
from systolic.compiler.ir.nodes import TurnNode
from systolic.errors import CompileError, WorkloadError
from systolic.isa import Activate, Copy, DmaCopy, OnEngine, TensorScalar, TensorTensor
from systolic.workload import GraphBuilder

CHIP = ideal_chip(4, 4)
ENGINES = ("event", "register")


def whole(dims, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, dims).astype(np.float32)


def layer(*operations, bias: str = "f32[6]", sums: str = "f32[7,6]") -> GraphBuilder:
    """Return a builder with the product s of x and w, a bias b and a residual r."""
    builder = GraphBuilder("dram")
    shapes = {"x": "f32[7,5]{0,1}", "w": "f32[5,6]", "b": bias, "r": f"{sums}{{0,1}}"}
    for name, shape in shapes.items():
        if name in "xw" or any(name in inputs for _, inputs, _, _ in operations):
            builder.tensor(name, shape)
    builder.matmul("x", "w", sums, name="s")
    for kind, inputs, name, attributes in operations:
        builder.add(kind, inputs, "f32[7,6]{0,1}", name=name, **attributes)
    return builder


ADD = ("binary", ("s", "b"), "t", {"operator": "add", "broadcast_dimensions": [1]})
RAMP = ("activation", ("t",), "y", {"function": "ramp"})
DATA = {"x": whole((7, 5)), "w": whole((5, 6), 2), "b": whole(6, 3), "r": whole((7, 6), 4)}


def run(builder: GraphBuilder, **choices):
    graph = builder.graph()
    return systolic.run(graph, CHIP, {name: DATA[name] for name in graph.inputs}, **choices)


def on_engines(compiled: CompiledGraph) -> list[OnEngine]:
    return [i for i in compiled.program.instructions if isinstance(i, OnEngine)]


@pytest.mark.parametrize("engine", ENGINES)
def test_bias_and_ramp_take_the_sums_out_in_one_instruction(engine):
    found = run(layer(ADD, RAMP), engine=engine)
    assert np.array_equal(found.outputs["y"], np.maximum(DATA["x"] @ DATA["w"] + DATA["b"], 0))
    drains = [i for i in on_engines(found.compiled) if i.source.buffer == "result_buffer"]
    made = [i for i in drains if isinstance(i, Activate)]
    assert made
    assert {i.function for i in made} == {"ramp"}
    assert not [i for i in on_engines(found.compiled) if isinstance(i, TensorScalar)]


@pytest.mark.parametrize("scale", [{"scale": 2.0}, {"bias": 1.0}, {"bias": 0.0}])
def test_a_function_of_more_than_the_sum_is_a_second_instruction(scale):
    found = run(layer(ADD, (*RAMP[:3], {"function": "ramp", **scale})))
    sums = DATA["x"] @ DATA["w"] + DATA["b"]
    expected = np.maximum(sums * scale.get("scale", 1) + scale.get("bias", 0), 0)
    assert np.array_equal(found.outputs["y"], expected)
    assert [i for i in on_engines(found.compiled) if isinstance(i, TensorScalar)]
    assert [i for i in on_engines(found.compiled) if isinstance(i, Activate)]


def test_two_operators_with_a_number_for_each_lane_are_one_instruction():
    times = ("binary", ("b2", "t"), "y", {"operator": "subtract", "broadcast_dimensions": [1]})
    builder = layer(ADD)
    builder.tensor("b2", "f32[6]")
    builder.add(times[0], times[1], "f32[7,6]{0,1}", name="y", **times[3])
    graph = builder.graph()
    data = {**DATA, "b2": whole(6, 9)}
    found = systolic.run(graph, CHIP, {name: data[name] for name in graph.inputs})
    expected = data["b2"] - (data["x"] @ data["w"] + data["b"])
    assert np.array_equal(found.outputs["y"], expected)
    both = [i for i in on_engines(found.compiled) if isinstance(i, TensorScalar)]
    assert both
    assert {(i.op, i.reverse, i.then, i.then_reverse) for i in both} == {
        ("add", False, "subtract", True)
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("order", [("s", "r"), ("r", "s")])
def test_a_residual_is_taken_with_the_sums(order, engine):
    found = run(layer(("binary", order, "y", {"operator": "subtract"})), engine=engine)
    sums, sign = DATA["x"] @ DATA["w"], 1 if order[0] == "s" else -1
    assert np.array_equal(found.outputs["y"], sign * (sums - DATA["r"]))
    assert all(isinstance(i, TensorTensor) for i in on_engines(found.compiled))


def test_nothing_of_a_layer_goes_through_dram():
    found = run(layer(ADD, RAMP, ("binary", ("y", "r"), "z", {"operator": "max"})))
    copies = [i for i in found.compiled.program.instructions if isinstance(i, DmaCopy)]
    stored = sum(i.target.size_bytes for i in copies if i.target.buffer == "dram")
    assert stored == 7 * 6 * 4
    assert found.compiled.scheduled.spilled_bytes == 0


def test_a_rounded_sum_is_rounded_before_the_function():
    """Sums in bf16 lose bits that the function of the float32 sums would show."""
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "bf16[2,2]"), builder.tensor("w", "bf16[2,2]")
    builder.matmul(x, w, "bf16[2,2]", name="s")
    builder.add("activation", ("s",), "f32[2,2]", function="identity", scale=2.0, name="y")
    data = np.array([[256, 1], [0, 0]], np.float32).astype(builder.graph().shape("x").dtype)
    ones = np.ones((2, 2), data.dtype)
    found = systolic.run(builder.graph(), CHIP, {"x": data, "w": ones})
    assert found.outputs["y"][0].tolist() == [512, 512]  # 257 is no bf16: 256, ties to even
    assert [type(i) for i in on_engines(found.compiled)].count(Activate) == 1
    assert [i for i in on_engines(found.compiled) if isinstance(i, Copy)]


def test_two_users_of_a_sum_each_get_it():
    builder = layer(("activation", ("s",), "y", {"function": "ramp"}))
    builder.add("activation", ("s",), "f32[7,6]", function="abs", name="z")
    found = run(builder)
    sums = DATA["x"] @ DATA["w"]
    assert np.array_equal(found.outputs["y"], np.maximum(sums, 0))
    assert np.array_equal(found.outputs["z"], abs(sums))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize(
    ("left", "right", "dims"),
    [
        ((9, 7), (7,), [1]),  # a row down all partitions of three tiles
        ((9, 7), (9,), [0]),  # a number for each lane
        ((7,), (9, 7), [1]),
        ((9, 7), (), []),
        ((9, 1), (1, 7), []),  # both are spread
        ((1, 7), (9, 7), []),
        ((2, 9, 7), (2, 7), [0, 2]),
        ((2, 9, 7), (9,), [1]),
        ((2, 9, 7), (1, 9, 1), []),
        ((9, 7), (1,), [0]),
    ],
)  # fmt: skip
def test_every_way_to_broadcast(left, right, dims, home, engine):
    builder = GraphBuilder(home)
    a = builder.tensor("a", f"f32[{','.join(map(str, left))}]")
    b = builder.tensor("b", f"f32[{','.join(map(str, right))}]")
    larger, smaller = (left, right) if len(left) >= len(right) else (right, left)
    placed = [1] * len(larger)
    for size, d in zip(smaller, dims or range(len(smaller)), strict=True):
        placed[d] = size
    out = np.broadcast_shapes(larger, placed)
    given = {"broadcast_dimensions": dims} if dims else {}
    builder.add("binary", (a, b), f"f32[{','.join(map(str, out))}]", operator="subtract", name="y",
                **given)  # fmt: skip
    data = {"a": whole(left), "b": whole(right, 5)}
    spread = {n: d.reshape(placed) if d.shape == smaller else d for n, d in data.items()}
    found = systolic.run(builder.graph(), CHIP, data, engine=engine)
    assert np.array_equal(found.outputs["y"], spread["a"] - spread["b"])


def test_a_row_is_spread_by_a_step_of_0():
    builder = GraphBuilder("state_buffer")
    builder.tensor("a", "f32[9,7]")
    builder.tensor("b", "f32[7]")
    builder.add("binary", ("a", "b"), "f32[9,7]", operator="add", broadcast_dimensions=[1],
                name="y")  # fmt: skip
    found = systolic.run(builder.graph(), CHIP, {"a": whole((9, 7)), "b": whole(7)})
    copies = [i for i in found.compiled.program.instructions if isinstance(i, DmaCopy)]
    again = [i.source for i in copies if i.source.buffer == "state_buffer" == i.target.buffer]
    assert [(source.partitions, source.pattern) for source in again] == [
        (1, ((0, 4), (1, 4))),
        (1, ((0, 4), (1, 3))),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_quotient_shows_the_zero_that_a_turn_leaves(engine):
    """An identity product brings b to the lanes and makes +0.0 of -0.0: 1 / b is plus infinity."""
    builder = GraphBuilder("state_buffer")
    builder.tensor("a", "f32[3,4]")
    builder.tensor("b", "f32[3]")
    builder.add("binary", ("a", "b"), "f32[3,4]", operator="divide", broadcast_dimensions=[0],
                name="y")  # fmt: skip
    data = {"a": np.ones((3, 4), np.float32), "b": np.float32([1, -0.0, 2])}
    found = systolic.run(builder.graph(), CHIP, data, engine=engine)
    assert any(isinstance(node, TurnNode) for node in found.compiled.layers.nodes)
    assert found.outputs["y"][1].tolist() == [np.inf] * 4
    assert found.summary["values"]["equal"] is True


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "given", "said"),
    [
        ("f32[2,3]", "f32[3]", {}, "Shapes must be equal rank, but are f32[3] and f32[2,3] "
         "(lhs f32[2,3], rhs f32[3])"),
        ("f32[2,3]", "f32[3]", {"broadcast_dimensions": [0]},
         "Broadcast dimension 0 mismatch: 3 != 2; f32[3] and f32[2,3]. "
         "(lhs f32[2,3], rhs f32[3], broadcast_dimensions [0])"),
        ("f32[4,2,3]", "f32[2,3]", {"broadcast_dimensions": [2, 1]},
         "Broadcast dimension 0 mismatch: 2 != 3; f32[2,3] and f32[4,2,3]. "
         "(lhs f32[4,2,3], rhs f32[2,3], broadcast_dimensions [2, 1])"),
        ("f32[2,3]", "f32[4,3]", {}, "Binary op with incompatible shapes: f32[2,3] and f32[4,3]. "
         "(lhs f32[2,3], rhs f32[4,3])"),
        ("f32[2,3]", "s32[2,3]", {},
         "Binary op add with different element types: f32[2,3] and s32[2,3]."),
    ],
)  # fmt: skip
def test_shapes_that_do_not_go_together(left, right, given, said):
    builder = GraphBuilder()
    a, b = builder.tensor("a", left), builder.tensor("b", right)
    builder.add("binary", (a, b), left, operator="add", name="y", **given)
    with pytest.raises(WorkloadError) as caught:
        builder.graph()
    assert str(caught.value) == f'operation "y": {said}'


@pytest.mark.parametrize(
    ("operator", "shape", "out", "said"),
    [
        ("and", "f32[2]", "f32[2]", "and takes integers, found f32[2]"),
        ("add", "s8[2]", "f32[2]", "add of s8[2] gives integers, but out is f32[2]"),
        ("power", "s8[2]", "s8[2]", "power of s8[2] gives floats, but out is s8[2]"),
        ("add", "f32[2]", "f32[3]", "f32[2] gives f32[2], but out is f32[3]"),
    ],
)  # fmt: skip
def test_results_that_an_operator_does_not_give(operator, shape, out, said):
    builder = GraphBuilder()
    a, b = builder.tensor("a", shape), builder.tensor("b", shape)
    builder.add("binary", (a, b), out, operator=operator, name="y")
    with pytest.raises(WorkloadError, match="operation") as caught:
        builder.graph()
    assert said in str(caught.value)


LISTED = {
    "drain": {"does": ["copy"]},
    "maths": {"does": ["activate", "tensor_scalar"], "reads": ["state_buffer"]},
}


def test_what_no_engine_does_to_sums_is_done_behind_them():
    """The engine of functions does not reach the result buffer: another copies the sums first."""
    chip = ideal_chip(4, 4, engines=LISTED)
    graph = layer(("activation", ("s",), "y", {"function": "ramp"})).graph()
    found = systolic.run(graph, chip, {name: DATA[name] for name in graph.inputs})
    assert np.array_equal(found.outputs["y"], np.maximum(DATA["x"] @ DATA["w"], 0))
    used = {(type(i), i.engine) for i in on_engines(found.compiled)}
    assert used == {(Copy, "drain"), (Activate, "maths")}


def test_a_chip_without_an_engine_for_it_is_refused():
    graph = layer(("binary", ("s", "r"), "y", {"operator": "add"})).graph()
    inputs = {name: DATA[name] for name in graph.inputs}
    with pytest.raises(CompileError) as caught:
        systolic.run(graph, ideal_chip(4, 4, engines=LISTED), inputs)
    assert str(caught.value).startswith(
        "no engine of test 4 x 4 does tensor_tensor from state_buffer to state_buffer (drain does"
    )
