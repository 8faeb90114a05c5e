"""Is the value right? Random small graphs on random chips, against plain numpy, bit for bit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import systolic
from support.chips import ideal_chip
from support.refusals import NO_ROOM
from systolic.compiler import Options
from systolic.compiler.arithmetic import rules_of
from systolic.compiler.ir.nodes import TurnNode
from systolic.errors import SystolicError
from systolic.hw.datatypes import data_type
from systolic.isa.lint.lint import lint
from systolic.layout import Shape
from systolic.machine import simulate
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences, graph_verdict
from systolic.workload import Graph, GraphBuilder, reference_graph

FLOATS = ("f32", "bf16", "f16", "f8e4m3fn", "f8e5m2")
INTEGERS = ("s8", "u8")


def random_chip(rng: Random):
    rows, cols = rng.randint(1, 9), rng.randint(1, 9)
    partitions = rng.randint(max(rows, cols), 12)
    return ideal_chip(
        rows, cols,
        state_buffer={"partitions": partitions, "banks": rng.choice([1, 8]),
                      "bytes_per_partition": rng.choice([512, 2048, 65536])},
        pe_array={
            "weight_buffer": rng.choice(["double", "single", "serial"]),
            "weight_path": rng.choice(["left", "top"]),
            "fused_multiply_add": rng.random() < 0.2,
        },
        result_buffer={"banks": rng.randint(1, 8), "bank_bytes": 4 * rng.randint(4, 40)},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.randint(0, 20)},
    )  # fmt: skip


def random_layout(rng: Random, rank: int) -> str:
    order = list(range(rank))
    rng.shuffle(order)
    tile = rng.choice(["", "", ":T(4,8)", ":T(2,2)(2,1)"]) if rank >= 2 else ""
    return "{" + ",".join(map(str, order)) + tile + "}"


def random_shape(rng: Random, dtype: str, dims) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]{random_layout(rng, len(dims))}"


def random_graph(rng: Random) -> Graph:
    """A chain of one to four operations on tensors of any type, layout and home."""
    homes = ["state_buffer", "dram"]
    builder = GraphBuilder(rng.choice(homes))
    integer = rng.random() < 0.3
    dtype = rng.choice(INTEGERS) if integer else rng.choice(FLOATS)
    batch = [rng.randint(1, 3) for _ in range(rng.choice([0, 0, 1, 2]))]
    dims = [*batch, rng.randint(1, 20), rng.randint(1, 20)]
    now = builder.tensor("x", random_shape(rng, dtype, dims), rng.choice(homes))
    for number in range(rng.randint(1, 4)):
        now, dtype, dims = _grow(rng, builder, now, dtype, dims, number)
    return builder.graph()


def _grow(rng, builder, now, dtype, dims, number):
    integer = data_type(dtype).accumulator == "s32"
    kinds = ["matmul", "matmul", "transpose", "relayout", "reshape", "cast"]
    kind = rng.choice([k for k in kinds if k != "matmul" or dtype != "s32"])
    if kind == "matmul":
        return _grow_product(rng, builder, now, dtype, dims, number)
    if kind == "transpose":
        axes = list(range(len(dims)))
        rng.shuffle(axes)
        result = [dims[a] for a in axes]
        return (
            builder.transpose(now, random_shape(rng, dtype, result), axes, name=f"y{number}"),
            dtype,
            result,
        )
    if kind == "reshape":
        result = [dims[0] * dims[1], *dims[2:], 1] if rng.random() < 0.5 else [1, *dims]
    else:
        result = dims
    out = dtype
    if kind == "cast":
        out = rng.choice([*INTEGERS, "s32"] if integer else FLOATS)
    return builder.add(kind, (now,), random_shape(rng, out, result), name=f"y{number}"), out, result


def _grow_product(rng, builder, now, dtype, dims, number):
    """Multiply from either side with a tensor whose leading dimensions broadcast."""
    *batch, rows, cols = dims
    size = rng.randint(1, 20)
    left = rng.random() < 0.3
    lead = [rng.choice([d, d, 1]) for d in batch][rng.choice([0, 0, len(batch)]) :]
    if not batch and rng.random() < 0.2:
        lead = [2]
    others = [*lead, size, rows] if left else [*lead, cols, size]
    integer = data_type(dtype).accumulator == "s32"
    wide = "f32" if dtype == "f32" else None
    kind = dtype if wide else rng.choice(INTEGERS if integer else FLOATS[1:])
    other = builder.tensor(
        f"w{number}", random_shape(rng, kind, others), rng.choice(["state_buffer", "dram"])
    )
    out = rng.choice([*INTEGERS, "s32"] if integer else FLOATS)
    result = [*np.broadcast_shapes(batch, lead), *((size, cols) if left else (rows, size))]
    pair = (other, now) if left else (now, other)
    name = builder.matmul(*pair, random_shape(rng, out, result), name=f"y{number}")
    return name, out, result


def random_values(rng: Random, shape: Shape) -> np.ndarray:
    numbers = np.random.default_rng(rng.randint(0, 1 << 30))
    if shape.dtype.kind in "iu":
        limits = np.iinfo(shape.dtype)
        return numbers.integers(max(limits.min, -128), min(limits.max, 255), shape.dims).astype(
            shape.dtype
        )
    return numbers.standard_normal(shape.dims, dtype=np.float32).astype(shape.dtype)


@settings(max_examples=15)
@given(rng=st.randoms(use_true_random=True))
def test_random_graphs(rng):
    equals_the_reference(rng)


@pytest.mark.slow
@settings(max_examples=400)
@given(rng=st.randoms(use_true_random=True))
def test_many_random_graphs(rng):
    equals_the_reference(rng)


def equals_the_reference(rng):
    holds_on(random_chip(rng), rng)


def holds_on(chip, rng, stepped_cycles=20_000):
    """Equal to numpy bit for bit in both engines, clean for the checker, as long without values.

    stepped_cycles: what takes longer is not stepped by the register engine.
    """
    graph = random_graph(rng)
    options = Options(
        identity=rng.choice(["stored", "built"]), drain_engine=rng.choice(["activation", "pooling"])
    )
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    expected = reference_graph(graph, inputs, rules_of(chip))
    assume(all(np.isfinite(array.astype(np.float64)).all() for array in expected.values()))
    run = _run_or_no_room(graph, chip, inputs, options)
    if run is None:
        return
    turned = any(isinstance(node, TurnNode) for node in run.compiled.layers.nodes)
    expected = reference_graph(graph, inputs, rules_of(chip), run.compiled.arithmetic.own)
    for name, array in expected.items():
        assert run.outputs[name].shape == array.shape
        wrong = differences(run.outputs[name], array, signed_zeros=not turned)
        assert wrong == 0, f"{name}: {graph}"
    program = run.compiled.program
    given_ = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [d for d in lint(program, chip, given_) if d.severity == "error"]
    assert simulate(chip, program, values=False).trace.times == run.trace.times
    if run.trace.cycles() < stepped_cycles:
        stepped = systolic.run(graph, chip, inputs, options=options, engine="register")
        assert stepped.trace.times == run.trace.times
        assert stepped.trace.transfers == run.trace.transfers
        for name in expected:
            assert np.array_equal(as_bits(stepped.outputs[name]), as_bits(run.outputs[name]))


def as_bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


TOO_SMALL = (*NO_ROOM, "is too small for one block")


def _run_or_no_room(graph, chip, inputs, options):
    """Some chips are too small for some graphs; then the error must say so."""
    try:
        return systolic.run(graph, chip, inputs, options=options)
    except SystolicError as error:
        if not any(text in str(error) for text in TOO_SMALL):
            raise
        return None


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("layouts", [("{0,1}", "{1,0}", "{1,0}"), ("{1,0}", "{0,1}", "{0,1}")])
@pytest.mark.parametrize("home", ["state_buffer", "dram"])
def test_exact_numbers_equal_numpy(home, layouts, engine):
    """Small integers in float32 are exact in any order, so numpy itself is the oracle."""
    left, right, out = layouts
    builder = GraphBuilder(home)
    x = builder.tensor("x", f"f32[11,13]{left}")
    w = builder.tensor("w", f"f32[13,9]{right}")
    builder.matmul(x, w, f"f32[11,9]{out}", name="y")
    numbers = np.random.default_rng(3)
    inputs = {
        "x": numbers.integers(-9, 9, (11, 13)).astype(np.float32),
        "w": numbers.integers(-9, 9, (13, 9)).astype(np.float32),
    }
    run = systolic.run(builder.graph(), ideal_chip(4, 4), inputs, engine=engine)
    assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])


@pytest.mark.parametrize("stationary", ["lhs", "rhs"])
@pytest.mark.parametrize("outer", ["stationary", "moving"])
@pytest.mark.parametrize("group", [(1, 1), (2, 3), (4, 2)])
def test_loops_set_by_hand(stationary, outer, group):
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "s8[30,21]"), builder.tensor("w", "s8[21,50]")
    builder.matmul(x, w, "s32[30,50]", name="y")
    chip = ideal_chip(4, 4, result_buffer={"banks": 8, "bank_bytes": 32})
    options = Options(stationary=stationary, outer=outer, group=group, tile_columns=8)
    inputs = {name: random_values(Random(1), builder.graph().shape(name)) for name in ("x", "w")}
    run = systolic.run(builder.graph(), chip, inputs, options=options)
    expected = inputs["x"].astype(np.int32) @ inputs["w"].astype(np.int32)
    assert np.array_equal(run.outputs["y"], expected)
    assert run.compiled.tiled.loops[0][1].group == group


def test_what_does_not_fit_is_spilled_and_comes_back():
    """Three products of one tensor with little room: it leaves the state buffer and returns."""
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[8,8]{0,1}"), builder.tensor("w", "f32[8,64]")
    y = builder.matmul(x, w, "f32[8,64]", name="y")
    z = builder.transpose(y, "f32[64,8]", (1, 0), name="z")
    builder.matmul(z, y, "f32[64,64]", name="v")
    graph = builder.graph()
    chip = ideal_chip(4, 4, state_buffer={"partitions": 4, "bytes_per_partition": 320, "banks": 1})
    inputs = {name: random_values(Random(2), graph.shape(name)) for name in graph.inputs}
    run = systolic.run(graph, chip, inputs)
    assert run.compiled.scheduled.spilled_bytes > 0
    own = run.compiled.arithmetic.own
    expected = reference_graph(graph, inputs, rules_of(chip), own)["v"]
    assert differences(run.outputs["v"], expected, signed_zeros=False) == 0


def test_a_nan_spreads_where_a_tensor_is_turned():
    """A transpose in DRAM by identity products: the verdict knows what they do to a NaN.

    Here it is made of matrices. Streams: `tests/compiler/streams`.
    """
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[8,8]")
    builder.transpose(x, "f32[8,8]", (1, 0), name="y")
    data = np.arange(1, 65, dtype=np.float32).reshape(8, 8)
    data[1, 2], data[5, 3], data[0, 0] = np.nan, np.inf, -0.0
    chip = ideal_chip(4, 4, dma={"descriptor_cycles": 50})
    run = systolic.run(builder.graph(), chip, {"x": data}, options=Options(via="pe"))
    assert any(isinstance(node, TurnNode) for node in run.compiled.layers.nodes)
    expected = data.T.copy()
    # Blocks are of 4 x 4: rows 0 to 3 of the source are in one, rows 4 to 7 in another.
    expected[2, :4], expected[3, 4:], expected[3, 5] = np.nan, np.nan, np.inf
    assert np.array_equal(run.outputs["y"], expected, equal_nan=True)
    verdict = graph_verdict(run.compiled, chip, {"x": data}, run.outputs)
    assert verdict["equal"] is True
