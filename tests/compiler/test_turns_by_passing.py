"""Where may the compiler's transposes pass through the array, and what does that change?

The bits' oracle is numpy's transpose; cycles are those that were published for a transpose.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.runs import compile_transpose, run_transpose
from systolic.bounds import run_bound
from systolic.compiler import Options
from systolic.config import load_chip
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import transpose_block_cycles
from systolic.hw.spec import Chip
from systolic.isa import MatMul, PassThrough, check_program
from systolic.isa.lint.lint import require_clean
from systolic.run.tensors import initial_accesses
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder

V3 = load_chip(CHIPS / "neuroncore_v3.toml")


def without(chip: Chip) -> Chip:
    """Return the chip whose array only multiplies."""
    array = chip.pe_array.model_copy(update={"pass_through": {}})
    return chip.model_copy(update={"pe_array": array})


def any_bits(dtype: str, *dims: int, seed: int = 3) -> Any:
    """Return elements of random bits; the first ones are a NaN, an infinity and -0.0 of f32."""
    element = data_type(dtype).numpy
    bits = np.random.default_rng(seed).integers(0, 1 << 8 * element.itemsize, dims, np.uint64)
    if dtype == "f32":
        bits.reshape(-1)[:3] = [0xFFC12345, 0x7F800000, 0x80000000]
    return bits.astype(f"u{element.itemsize}").view(element)


def same_bits(found: Any, expected: Any) -> bool:
    """Return whether two arrays are equal bit by bit, NaNs among them."""
    unsigned = f"u{expected.dtype.itemsize}"
    one, other = (np.ascontiguousarray(each).view(unsigned) for each in (found, expected))
    return np.array_equal(one, other)


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("home", ["state_buffer", "dram"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f8e4m3fn"])
def test_a_transpose_keeps_every_bit(dtype: str, home: str, engine: Any) -> None:
    """NaNs, infinities and -0.0 too, in both engines, which take equally long."""
    rates = {"pass_through": {"f32": 1, "bf16": 1, "f8e4m3fn": 1}}
    chip, data = ideal_chip(8, 4, pe_array=rates), any_bits(dtype, 19, 13)
    options = Options(via="pe")
    found, outcome, compiled = run_transpose(
        chip, f"{dtype}[19,13]", data, home=home, options=options, engine=engine
    )
    assert same_bits(found, data.T)
    kinds = {type(each) for each in compiled.program.instructions if isinstance(each, MatMul)}
    assert kinds == {PassThrough}
    event = run_transpose(chip, f"{dtype}[19,13]", data, home=home, options=options)[1]
    assert outcome.trace.cycles() == event.trace.cycles()


def test_a_product_with_an_identity_does_not_keep_them() -> None:
    data = any_bits("f32", 19, 13)
    found, *_ = run_transpose(ideal_chip(8, 4), "f32[19,13]", data)
    assert not same_bits(found, data.T)


@pytest.mark.parametrize("seed", range(12))
def test_random_transposes_keep_every_bit(seed: int) -> None:
    """Whatever the sizes, drains and paces; and no run is shorter than its bound."""
    rng = Random(seed)
    rows, cols = rng.randint(1, 9), rng.randint(1, 9)
    pace = {"f32": rng.randint(1, 4), "bf16": rng.randint(1, 3)}
    chip = ideal_chip(
        rows, cols,
        pe_array={
            "weight_buffer": rng.choice(["double", "single", "serial"]),
            "weight_path": rng.choice(["left", "top"]), "cycles_per_vector": pace,
            "passes": {"f32": rng.randint(1, 2)}, "min_vectors": rng.choice([0, 3, 16]),
            "pass_through": {dtype: rng.randint(1, n) for dtype, n in pace.items()},
        },
        result_buffer={"banks": rng.randint(1, 4), "bank_bytes": 4 * rng.randint(12, 40)},
    )  # fmt: skip
    options = Options(
        drain=rng.choice(["row", "partition", "block"]),
        identity=rng.choice(["stored", "built"]), via="pe",
    )  # fmt: skip
    dtype, dims = rng.choice(["f32", "bf16"]), (rng.randint(1, 40), rng.randint(1, 40))
    data, home = any_bits(dtype, *dims, seed=seed), rng.choice(["state_buffer", "dram"])
    text = f"{dtype}[{dims[0]},{dims[1]}]"
    found, outcome, compiled = run_transpose(chip, text, data, home=home, options=options)
    assert same_bits(found, data.T)
    assert outcome.trace.cycles() >= run_bound(compiled.graph, chip).cycles
    require_clean(compiled.program, chip, initial_accesses(compiled))


@pytest.mark.parametrize("drain", ["block", "row", "partition"])
def test_one_block_takes_what_the_formula_says(drain: Any) -> None:
    """With 3 cycles for a vector that passes, and two passes of 2 for one that is multiplied."""
    rates = {"cycles_per_vector": {"f32": 2}, "passes": {"f32": 2}, "pass_through": {"f32": 3}}
    chip, data = ideal_chip(6, 4, pe_array=rates), any_bits("f32", 6, 4)
    options = Options(drain=drain, drain_engine="activation")
    _, outcome, _ = run_transpose(chip, "f32[6,4]", data, options=options)
    wanted = transpose_block_cycles(chip, 6, 4, "f32", drain=drain, unit="activation")
    assert outcome.trace.cycles() == wanted
    if drain == "block":  # load; vectors 3 apart; the way out; 6 are copied; a latency of 1
        assert wanted == 4 + 5 * 3 + (6 - 1) + (4 - 1) + 1 + 6 + 1


@pytest.mark.parametrize(
    ("passed", "kind"), [(1, PassThrough), (4, PassThrough), (5, MatMul)], ids=str
)
def test_what_takes_longer_is_not_chosen(passed: int, kind: type) -> None:
    """A product of float32 takes two passes of 2 cycles a vector."""
    rates = {"cycles_per_vector": {"f32": 2}, "passes": {"f32": 2}, "pass_through": {"f32": passed}}
    compiled = compile_transpose("f32[6,4]", None, ideal_chip(6, 4, pe_array=rates))
    assert kind in {type(each) for each in compiled.program.instructions}


def test_f32_goes_twice_as_fast_on_the_third_generation() -> None:
    """Published: 256 cycles for 128 x 128 in place of 512. 16 blocks, load and way out besides."""
    data = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)
    ticks = {}
    for name, chip in (("passed", V3), ("multiplied", without(V3))):
        found, outcome, compiled = run_transpose(chip, "f32[512,512]", data)
        assert np.array_equal(found, data.T)
        check_program(compiled.program, chip)
        ticks[name] = outcome.trace.cycles()
    assert ticks["multiplied"] - ticks["passed"] >= 15 * (512 - 256)


@pytest.mark.parametrize("home", ["state_buffer", "dram"])
def test_a_product_whose_operand_is_turned(home: Any) -> None:
    """A NaN in the operand that is turned reaches its own row of the result only."""
    left, right = np.ones((24, 24), np.float32), np.ones((24, 24), np.float32)
    left[5, 7] = np.nan
    builder = GraphBuilder(home)
    x, y = builder.tensor("x", "f32[24,24]"), builder.tensor("y", "f32[24,24]")
    builder.matmul(x, y, "f32[24,24]", name="out")
    chip = ideal_chip(8, 8, pe_array={"pass_through": {"f32": 1}})
    result = systolic.run(builder.graph(), chip, {"x": left, "y": right})
    assert any(isinstance(each, PassThrough) for each in result.program.instructions)
    found = result.outputs["out"]
    assert np.isnan(found[5]).all()
    assert (np.delete(found, 5, 0) == 24).all()
    assert result.summary["values"]["equal"]
