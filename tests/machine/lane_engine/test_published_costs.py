"""Does the NeuronCore-v2-like chip cost what is published? nki.isa of SDK 2.26, formula by formula.

A formula gives the cycles of one of many instructions in a row: the distance of two starts.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from systolic.config import load_chip
from systolic.isa import Access, Activate, Buffer, Copy, Iota, Pool, Program, Select, TensorTensor
from systolic.isa.instruction import TensorScalar
from systolic.machine import simulate

CHIP = load_chip(Path(__file__).resolve().parents[3] / "configs" / "chips" / "neuroncore_v2.toml")
BANK = 24576


def state(count: int, bank: int = 0, dtype: str = "f32", step: int = 1) -> Access:
    return Access(Buffer.STATE, dtype, 0, 128, bank * BANK, ((step, count),))


def sums(count: int) -> Access:
    return Access(Buffer.RESULT, "f32", 0, 128, 0, ((1, count),))


def pair(n: int, left: Access, right: Access, dtype: str = "f32") -> TensorTensor:
    return TensorTensor(
        engine="vector", op="add", left=left, right=right, target=state(n, 2, dtype)
    )


def bf16(n: int, bank: int, step: int = 1) -> Access:
    return state(n, bank, "bf16", step)


COSTS = {
    "activation, max(64, N)": (
        lambda n: Activate(engine="scalar", function="gelu", source=sums(n), target=state(n)),
        lambda n: max(64, n)),
    "tensor_tensor, one in each buffer, max(64, N)": (
        lambda n: pair(n, sums(n), state(n)), lambda n: max(64, n)),
    "tensor_tensor, both SBUF, bf16, unit stride, max(64, N)": (
        lambda n: pair(n, bf16(n, 0), bf16(n, 1), "bf16"), lambda n: max(64, n)),
    "the same in one bank": (
        lambda n: pair(n, bf16(n, 0), bf16(n, 0), "bf16"), lambda n: max(64, n)),
    "tensor_tensor, both SBUF, not of unit stride, max(64, 2N)": (
        lambda n: pair(n, bf16(n, 0, 2), bf16(n, 1), "bf16"), lambda n: max(64, 2 * n)),
    "tensor_tensor otherwise, max(64, 2N)": (
        lambda n: pair(n, state(n), state(n, 1)), lambda n: max(64, 2 * n)),
    "tensor_scalar, max(64, N)": (
        lambda n: TensorScalar(engine="vector", op="add", source=state(n), scalar=1.0,
                               target=state(n, 1)),
        lambda n: max(64, n)),
    "tensor_reduce, N of the source": (
        lambda n: Pool(engine="vector", function="max", window=2, source=state(n),
                       target=state(n // 2, 1)),
        lambda n: max(64, n)),
    "tensor_copy, max(64, N)": (
        lambda n: Copy(engine="gpsimd", source=state(n), target=state(n, 1)),
        lambda n: max(64, n)),
    "a stride of more than 16 bytes, half the rate": (
        lambda n: Copy(engine="vector", source=state(n, step=5), target=state(n, 1)),
        lambda n: max(64, 2 * n)),
    "iota, 150 + N": (lambda n: Iota(engine="gpsimd", target=state(n)), lambda n: 150 + n),
    "affine_select, 150 + N": (
        lambda n: Select(engine="gpsimd", compare="equal", value=state(n), target=state(n, 1)),
        lambda n: 150 + n),
}  # fmt: skip


@pytest.mark.parametrize("n", [10, 64, 200])
@pytest.mark.parametrize("cost", COSTS)
def test_cost(cost: str, n: int) -> None:
    make, formula = COSTS[cost]
    one = make(n)
    program = Program("three", (one, one, one))
    event, register = (
        simulate(CHIP, program, values=False),
        simulate(CHIP, program, engine="register"),
    )
    assert event.trace.times == register.trace.times
    starts = [t.start // CHIP.period(one.engine) for t in event.trace.times]
    assert [b - a for a, b in pairwise(starts)] == [formula(n)] * 2
