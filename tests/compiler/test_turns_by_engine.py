"""Which transposes does an engine make by its own instruction, and are they right, and sooner?

The bits' oracle is numpy's transpose; cycles are worked out by hand or compared with the array's.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import able_chip, ideal_chip
from support.runs import compile_transpose, run_transpose
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.compiler import Options
from systolic.config import load_chip
from systolic.hw.datatypes import data_type
from systolic.isa import LoadWeights, MatMul, Transpose
from systolic.isa.lint.lint import require_clean
from systolic.run.tensors import initial_accesses
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder

V2, V3 = (load_chip(CHIPS / f"neuroncore_v{n}.toml") for n in (2, 3))
V3_WITHOUT = V3.model_copy(update={"dma": V3.dma.model_copy(update={"transposes": None})})
"""A chip whose DMA does not transpose what it brings, which is sooner still."""
ARRAY = Options(via="pe")


def any_bits(dtype: str, *dims: int, seed: int = 3) -> Any:
    """Return elements of random bits; those of f32 begin with a NaN, an infinity and -0.0."""
    element = data_type(dtype).numpy
    bits = np.random.default_rng(seed).integers(0, 1 << 8 * element.itemsize, dims, np.uint64)
    if dtype == "f32":
        bits.reshape(-1)[:3] = [0xFFC12345, 0x7F800000, 0x80000000]
    return bits.astype(f"u{element.itemsize}").view(element)


def numbers(dtype: str, *dims: int, seed: int = 3) -> Any:
    """Return numbers; a NaN, an infinity and -0.0 are the first of floats."""
    values = np.random.default_rng(seed).integers(-100, 100, dims).astype(np.float32)
    if dtype != "s8":
        values.reshape(-1)[:3] = [np.nan, np.inf, -0.0][: values.size]
    return values.astype(data_type(dtype).numpy)


def same_bits(found: Any, expected: Any) -> bool:
    """Return whether two arrays are equal bit by bit, NaNs among them."""
    unsigned = f"u{expected.dtype.itemsize}"
    one, other = (np.ascontiguousarray(each).view(unsigned) for each in (found, expected))
    return np.array_equal(one, other)


def turners(compiled: Any) -> set[type]:
    """Return the classes of the instructions that turn something."""
    kinds = {type(each) for each in compiled.program.instructions}
    return kinds & {LoadWeights, MatMul, Transpose}


@pytest.mark.parametrize("dims", [(32, 32), (64, 32), (64, 64), (20, 20)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("chip", [V2, V3_WITHOUT], ids=["v2", "v3"])
def test_a_small_matrix_is_there_sooner(chip: Any, dtype: str, dims: Any) -> None:
    """With every bit as it was, and sooner than through the array."""
    data, text = any_bits(dtype, *dims), f"{dtype}[{dims[0]},{dims[1]}]"
    found, outcome, compiled = run_transpose(chip, text, data)
    assert same_bits(found, data.T)
    assert turners(compiled) == {Transpose}
    array = run_transpose(chip, text, data, options=ARRAY)[1]
    assert outcome.trace.cycles() < array.trace.cycles()
    assert outcome.trace.cycles() >= run_bound(compiled.graph, chip).cycles
    require_clean(compiled.program, chip, initial_accesses(compiled))


def test_what_a_block_costs() -> None:
    """32 elements read; 32 written 100 cycles behind the last: 163 of 960 MHz, 408 of 2400."""
    _, outcome, _ = run_transpose(V3, "f32[32,32]", any_bits("f32", 32, 32))
    assert outcome.trace.cycles() == -(-(31 + 100 + 31 + 1) * 2400 // 960)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_both_engines_take_equally_long(engine: Any) -> None:
    data = any_bits("f32", 64, 32)
    found, outcome, _ = run_transpose(V2, "f32[64,32]", data, engine=engine)
    assert same_bits(found, data.T)
    # Two blocks, the second at least 64 cycles of the vector engine behind the first.
    assert outcome.trace.cycles() == -(-(64 + 31 + 100 + 31 + 1) * 2800 // 1120)


@pytest.mark.parametrize(
    ("chip", "dims"),
    [(V2, (128, 128)), (V3, (96, 96)), (V3, (33, 31)), (V3, (128, 256))],
    ids=["v2", "v3", "blocks of one element", "two tiles"],
)
def test_what_takes_longer_goes_through_the_array(chip: Any, dims: Any) -> None:
    compiled = compile_transpose(f"f32[{dims[0]},{dims[1]}]", None, chip)
    assert Transpose not in turners(compiled)


@pytest.mark.parametrize(
    "options",
    [ARRAY, Options(drain="row"), Options(drain_engine="scalar"), Options(block=(32, 32))],
    ids=["via", "drain", "drain_engine", "block"],
)
def test_what_the_user_says_of_the_array_is_done_there(options: Any) -> None:
    assert turners(compile_transpose("f32[32,32]", None, V3, options)) == {LoadWeights} | (
        turners(compile_transpose("f32[32,32]", None, V3, ARRAY)) - {Transpose}
    )


def test_another_chip_has_no_such_engine() -> None:
    assert turners(compile_transpose("f32[4,4]", None, ideal_chip(4, 4))) == {LoadWeights, MatMul}


def test_beside_a_product_the_array_turns() -> None:
    """Bounds of products count on that."""
    builder = GraphBuilder("state_buffer")
    x, y = builder.tensor("x", "f32[32,32]"), builder.tensor("y", "f32[32,32]")
    builder.matmul(x, y, "f32[32,32]", name="out")
    result = systolic.run(builder.graph(), V2)
    assert not any(isinstance(each, Transpose) for each in result.program.instructions)


def test_the_verdict_knows_that_nothing_is_lost() -> None:
    """On the second generation a product with an identity would lose NaNs and the sign of zeros."""
    data = numbers("f32", 32, 32)
    builder = GraphBuilder("state_buffer")
    builder.transpose(builder.tensor("x", "f32[32,32]"), "f32[32,32]", name="out")
    values = systolic.run(builder.graph(), V2, {"x": data}).summary["values"]
    assert (values["equal"], values["differs_from_numpy"]) == (True, 0)
    through = systolic.run(builder.graph(), V2, {"x": data}, options=ARRAY).summary["values"]
    assert through["equal"]
    assert through["differs_from_numpy"] > 0


@pytest.mark.parametrize("seed", quick_first(range(60), 12))
def test_random_transposes(seed: int) -> None:
    """Any sizes, batches, latencies and homes, on both engines: the bits, the bound, no race."""
    rng = Random(seed)
    rows, cols = rng.randint(2, 9), rng.randint(2, 9)
    own = {"latency_cycles": rng.randint(1, 9), "independent_lanes": rng.random() < 0.5}
    chip = able_chip(
        rows, cols, pooling=own,
        state_buffer={"partitions": rng.randint(max(rows, cols), 12), "banks": rng.choice([1, 8])},
        result_buffer={"write_latency_cycles": rng.choice([0, 50, 200])},
    )  # fmt: skip
    dtype = rng.choice(["f32", "bf16", "s8"])
    side = rng.randint(1, 4)
    dims = (
        *[rng.randint(1, 3)] * (rng.random() < 0.3),
        side * rng.randint(1, 3),
        side * rng.randint(1, 3),
    )
    data, home = numbers(dtype, *dims, seed=seed), rng.choice(["state_buffer", "dram"])
    axes = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
    text = f"{dtype}[{','.join(map(str, dims))}]"
    builder = GraphBuilder(home)
    source = builder.tensor("x", text)
    shape = ",".join(str(dims[axis]) for axis in axes)
    builder.transpose(source, f"{dtype}[{shape}]", axes, name="out")
    runs = [
        systolic.run(builder.graph(), chip, {"x": data}, engine=engine)
        for engine in ("event", "register")
    ]
    for result in runs:
        assert result.summary["values"]["equal"]
    assert runs[0].trace.ticks == runs[1].trace.ticks
    if any(isinstance(each, Transpose) for each in runs[0].program.instructions):
        assert same_bits(runs[0].outputs["out"], data.transpose(axes))
