"""Requantisation: integers by hand, fused into the drain of sums, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.errors import CompileError, WorkloadError
from systolic.isa import Requantise, TensorScalar
from systolic.workload import GraphBuilder

CHIP = ideal_chip(4, 4, pe_array={"cycles_per_vector": {"s8": 1, "u8": 1}})
ENGINES = ("event", "register")
SUMS = np.array([[1, 3, 5, -1], [-3, 253, 255, -257], [2**24 + 1, -(2**31), 7, 0]], np.int32)


def requantised(sums: np.ndarray, scales: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return the results by fractions: two roundings, the product's to 24 bits and the integer's.

    The scales are powers of two, so that the first rounding is that of the sum alone.
    """
    found = np.empty(sums.shape, np.int64)
    for place, value in np.ndenumerate(sums):
        scale = Fraction(float(scales[place[-1]]))
        found[place] = min(max(round(Fraction(float(np.float32(value))) * scale), low), high)
    return found


def alone(source: str, scales: str, out: str, home: str = "dram", **given) -> GraphBuilder:
    builder = GraphBuilder(home)
    builder.tensor("x", source)
    builder.tensor("s", scales)
    builder.add("requantise", ("x", "s"), out, name="y", **given)
    return builder


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("layout", ["", "{0,1}"])
@pytest.mark.parametrize(("out", "ends"), [("s8", (-128, 127)), ("u8", (0, 255)),
                                           ("s32", (-(2**31), 2**31 - 1))])  # fmt: skip
@pytest.mark.parametrize("count", ["", "4"])
def test_of_a_tensor_and_of_its_channels(engine, home, layout, out, ends, count):
    """Channels in the lanes and along the address; halves, numbers beyond 2^24, both ends."""
    scales = np.array([0.5, 0.25, 2.0, 0.5], np.float32) if count else np.array(0.5, np.float32)
    graph = alone(f"s32[3,4]{layout}", f"f32[{count}]", f"{out}[3,4]{layout}", home).graph()
    found = systolic.run(graph, CHIP, {"x": SUMS, "s": scales}, engine=engine)
    expected = requantised(SUMS, np.broadcast_to(scales, 4), *ends)
    assert found.outputs["y"].tolist() == expected.tolist()
    assert found.summary["values"]["equal"] is True


@pytest.mark.parametrize("engine", ENGINES)
def test_scales_of_the_columns_of_windows(engine):
    """A window's sums are seen as one row of pixels, with which no scale of each column goes."""
    builder = GraphBuilder("state_buffer")
    builder.tensor("x", "f32[6,6]{0,1}")
    builder.tensor("s", "f32[2]")
    given = {"reduction": "sum", "window": (3, 3), "stride": (3, 3), "axes": (0, 1)}
    builder.add("reduce_window", ("x",), "f32[2,2]", name="sums", **given)
    builder.add("requantise", ("sums", "s"), "s32[2,2]", name="y")
    x, scales = np.arange(36, dtype=np.float32).reshape(6, 6), np.array([0.5, 2.0], np.float32)
    found = systolic.run(builder.graph(), CHIP, {"x": x, "s": scales}, engine=engine)
    sums = x.reshape(2, 3, 2, 3).sum(axis=(1, 3))
    expected = requantised(sums.astype(np.int32), scales, -(2**31), 2**31 - 1)
    assert found.outputs["y"].tolist() == expected.tolist()


def layer(between: bool = True) -> GraphBuilder:
    """Return a quantised layer: product, bias, requantisation of each column from 0 on."""
    builder = GraphBuilder("dram")
    for name, shape in {"x": "s8[7,5]{0,1}", "w": "s8[5,6]", "b": "s32[6]", "s": "f32[6]"}.items():
        builder.tensor(name, shape)
    builder.matmul("x", "w", "s32[7,6]", name="sums")
    builder.add("binary", ("sums", "b"), "s32[7,6]", name="t", operator="add",
                broadcast_dimensions=[1])  # fmt: skip
    builder.add("requantise", ("t", "s"), "s8[7,6]{0,1}", name="y", lowest=0)
    return builder


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bias_and_the_scales_leave_with_the_sums(engine):
    rng = np.random.default_rng(4)
    x, w = rng.integers(-128, 128, (7, 5)), rng.integers(-128, 128, (5, 6))
    b = rng.integers(-9000, 9000, 6)
    scales = np.array([2.0**-7, 2.0**-8, 2.0**-9, 0.5, 2.0**-6, 2.0**-20], np.float32)
    data = {"x": x.astype(np.int8), "w": w.astype(np.int8), "b": b.astype(np.int32), "s": scales}
    found = systolic.run(layer().graph(), CHIP, data, engine=engine)
    assert found.outputs["y"].tolist() == requantised(x @ w + b, scales, 0, 127).tolist()
    made = [i for i in found.compiled.program.instructions if isinstance(i, Requantise)]
    assert made
    assert {i.source.buffer for i in made} == {"result_buffer"}
    assert not [i for i in found.compiled.program.instructions if isinstance(i, TensorScalar)]


def test_a_channel_of_images_has_a_scale():
    builder = GraphBuilder("dram")
    for name, shape in {"x": "s8[2,3,3,3]", "w": "s8[2,2,3,5]", "s": "f32[5]"}.items():
        builder.tensor(name, shape)
    builder.add("conv2d", ("x", "w"), "s32[2,2,2,5]", name="sums")
    builder.add("requantise", ("sums", "s"), "s8[2,2,2,5]", name="y")
    rng = np.random.default_rng(4)
    x, w = rng.integers(-128, 128, (2, 3, 3, 3)), rng.integers(-128, 128, (2, 2, 3, 5))
    scales = (2.0 ** -np.arange(5, 10)).astype(np.float32)
    found = systolic.run(builder.graph(), CHIP, {"x": x.astype("i1"), "w": w.astype("i1"),
                                                 "s": scales})  # fmt: skip
    sums = sum(np.einsum("nyxc,cf->nyxf", x[:, v : v + 2, u : u + 2], w[v, u])
               for v in (0, 1) for u in (0, 1))  # fmt: skip
    assert found.outputs["y"].tolist() == requantised(sums, scales, -128, 127).tolist()
    made = [i for i in found.compiled.program.instructions if isinstance(i, Requantise)]
    assert {i.source.buffer for i in made} == {"result_buffer"}


@pytest.mark.parametrize(
    ("shapes", "given", "said"),
    [
        (("s32[3,4]", "f32[4]", "bf16[3,4]"), {}, "gives s8, u8, s32, but out is bf16[3,4]"),
        (("s32[3,4]", "f32[4]", "s8[4,3]"), {}, "s32[3,4] gives s8[3,4], but out is s8[4,3]"),
        (("s32[3,4]", "f32[3]", "s8[3,4]"), {},
         "scales are f32[], or f32[4] with one for each index of the last axis of s32[3,4], found "
         "f32[3]"),
        (("s32[3,4]", "bf16[4]", "s8[3,4]"), {},
         "scales are f32[], or f32[4] with one for each index of the last axis of s32[3,4], found "
         "bf16[4]"),
        (("s32[3,4]", "f32[]", "s8[3,4]"), {"lowest": -129},
         "lowest: s8 holds -128 to 127, found -129"),
        (("s32[3,4]", "f32[]", "u8[3,4]"), {"highest": 256},
         "highest: u8 holds 0 to 255, found 256"),
        (("s32[3,4]", "f32[]", "s8[3,4]"), {"lowest": 4, "highest": 3},
         "lowest is 4, but highest is 3"),
    ],
)  # fmt: skip
def test_what_is_refused(shapes, given, said):
    with pytest.raises(WorkloadError) as caught:
        alone(*shapes, **given).graph()
    assert str(caught.value) == f'operation "y": {said}'


def test_a_chip_without_an_engine_for_it_is_refused():
    chip = ideal_chip(4, 4, engines={"v": {"does": ["copy", "tensor_tensor"]}})
    with pytest.raises(CompileError, match="no engine of test 4 x 4 does requantise from state_b"):
        systolic.run(
            alone("s32[3,4]", "f32[]", "s8[3,4]").graph(), chip, {"x": SUMS, "s": np.float32(1)}
        )
