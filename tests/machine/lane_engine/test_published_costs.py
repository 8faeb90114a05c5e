"""Do the NeuronCore-like chips cost what is published? Formulas of nki.isa, SDK 2.26, row by row.

`instruction_costs.csv` is the table of AWS's public documentation (its column `source`: S-isa226 is
nki/api/nki/isa at tag v2.26.1 of aws-neuron-sdk, the others are pages of its guides). A formula
gives the cycles of one of many instructions in a row: the distance of two starts. An instruction
alone takes its elements' part of the formula, without the least distance, and the latency. Tables
of functions are there already.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from systolic.config import Override, load_chip
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Activate,
    Buffer,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    Iota,
    Memset,
    OnEngine,
    Pool,
    Program,
    Select,
    TensorTensor,
)
from systolic.isa.effects import elements_taken, results_per_lane
from systolic.isa.instruction import (
    ActivateReduce,
    BnAggr,
    BnStats,
    CopyPredicated,
    Dropout,
    FindIndex8,
    MatchReplace8,
    Max8,
    QuantizeMx,
    RangeSelect,
    ScalarTensorTensor,
    Scan,
    Shuffle,
    TensorScalar,
    TensorScalarReduce,
    Transpose,
)
from systolic.machine import simulate

CHIPS = Path(__file__).resolve().parents[3] / "configs" / "chips"
NO_LOADS = Override(("engines", "scalar", "table_cycles"), 0, "test")
V2, V3, V4 = (load_chip(CHIPS / f"neuroncore_v{n}.toml", [NO_LOADS]) for n in (2, 3, 4))
BANK = 24576
NARROW = ["bf16", "f16"]
ALL, LATER, LAST = (V2, V3, V4), (V3, V4), (V4,)


def state(count: int, bank: int = 0, dtype: str = "f32", step: int = 1) -> Access:
    return Access(Buffer.STATE, dtype, 0, 128, bank * BANK, ((step, count),))


def sums(count: int) -> Access:
    return Access(Buffer.RESULT, "f32", 0, 128, 0, ((1, count),))


def bf16(n: int, bank: int, step: int = 1) -> Access:
    return state(n, bank, "bf16", step)


def pair(n: int, left: Access, right: Access, dtype: str = "f32", op: str = "add") -> TensorTensor:
    target = state(n, 2, dtype)
    return TensorTensor(engine="vector", op=op, left=left, right=right, target=target)  # type: ignore[arg-type]


def activate(n: int, engine: str, function: str, source: Access) -> Activate:
    return Activate(engine=engine, function=function, source=source, target=state(n, 1))  # type: ignore[arg-type]


def scalar(engine: str, source: Access, target: Access) -> TensorScalar:
    return TensorScalar(
        engine=engine, op="add", source=source, scalar=1.0, target=target, then="multiply",
        other=2.0,
    )  # fmt: skip


def three(n: int, op: str, then: str, dtype: str) -> ScalarTensorTensor:
    source, tensor, target = (state(n, bank, dtype) for bank in range(3))
    return ScalarTensorTensor(
        engine="vector", op=op, then=then, source=source, scalar=1.0, tensor=tensor, target=target,  # type: ignore[arg-type]
    )  # fmt: skip


def quantised(n: int) -> QuantizeMx:
    scales = Access(Buffer.STATE, "u8", 0, 100, 2 * BANK, ((1, n // 4),))
    target = state(n, 1, "f8e4m3fn")
    return QuantizeMx(engine="vector", source=bf16(n, 0), target=target, scales=scales)


def whole(n: int) -> int:
    """Return how many elements of a lane whole blocks of 32 x 32 have, at least n."""
    return -(-n // 32) * 32


def moved(n: int, engine: str, make: type) -> OnEngine:
    """Return a copy of n elements of which an offset moves the source or the target."""
    offset = Access(Buffer.STATE, "s32", 0, 1, 3 * BANK, ((1, 1),))
    made: OnEngine = make(
        engine=engine, source=state(n), target=state(n, 1), offset=offset, most=100
    )
    return made


def reduced(n: int, function: str, dtype: str) -> Pool:
    """Return a reduction of n elements to n / 2."""
    source, target = state(n, 0, dtype), state(n // 2, 1, dtype)
    return Pool(engine="vector", function=function, window=2, source=source, target=target)  # type: ignore[arg-type]


Make = Callable[[int], OnEngine]
Row = tuple[str, str, str]
"""Instruction, formula, and how its condition begins."""
TENSOR = "tensor_copy / tensor_scalar perf mode"
CASES: dict[Row, list[tuple[tuple[Chip, ...], Make]]] = {
    ("activation", "max(64,N)", "any"): [
        (ALL, lambda n: activate(n, "scalar", "gelu", sums(n))),
        (ALL, lambda n: activate(n, "scalar", "reciprocal", state(n)))],
    ("tensor_tensor", "max(64,N)", "one"): [(ALL, lambda n: pair(n, sums(n), state(n)))],
    ("tensor_tensor", "max(64,N)", "both"): [
        ((V2,), lambda n: pair(n, bf16(n, 0), bf16(n, 1), "bf16", "multiply")),
        ((V2,), lambda n: pair(n, bf16(n, 0), bf16(n, 0), "bf16"))],
    ("tensor_tensor", "max(64,2N)", "otherwise"): [
        (ALL, lambda n: pair(n, state(n), state(n, 1))),
        ((V2,), lambda n: pair(n, bf16(n, 0), bf16(n, 1), "bf16", "max")),
        ((V2,), lambda n: pair(n, bf16(n, 0, 2), bf16(n, 1), "bf16"))],
    ("tensor_scalar", "max(64,N)", "one"): [
        (ALL, lambda n: scalar("vector", state(n), state(n, 1))),
        (ALL, lambda n: scalar("scalar", sums(n), state(n, 1))),
        ((V2,), lambda n: scalar("vector", bf16(n, 0), bf16(n, 1)))],
    ("tensor_reduce", "N/2", "in+out"): [
        (ALL, lambda n: reduced(n, "max", "bf16")), (ALL, lambda n: reduced(n, "sum", "bf16"))],
    ("tensor_reduce", "N", "otherwise"): [
        (ALL, lambda n: reduced(n, "max", "f32")), (ALL, lambda n: reduced(n, "min", "bf16"))],
    ("reciprocal", "max(64,8N)", ""): [
        (ALL, lambda n: activate(n, "vector", "reciprocal", state(n)))],
    ("tensor_copy", "max(64,N)", ""): [
        (ALL, lambda n, e=engine: Copy(engine=e, source=state(n), target=state(n, 1)))
        for engine in ("vector", "scalar", "gpsimd")],
    ("tensor_copy_dynamic_src / _dst", "max(600,N)", "run-time"): [
        (ALL, lambda n: moved(n, "vector", CopyDynamicSrc)),
        ((V2,), lambda n: moved(n, "vector", CopyDynamicDst)),
        ((V3,), lambda n: moved(n, "scalar", CopyDynamicDst)),
        ((V4,), lambda n: moved(n, "gpsimd", CopyDynamicSrc))],
    ("memset", "max(64,N/2)", "value 0"): [
        (ALL, lambda n, t=dtype: Memset(engine="vector", target=state(n, 0, t), value=0))
        for dtype in NARROW],
    ("memset", "max(64,N)", "otherwise"): [
        (ALL, lambda n: Memset(engine="vector", target=state(n), value=0)),
        (ALL, lambda n: Memset(engine="vector", target=bf16(n, 0), value=1))],
    ("iota", "150+N", ""): [(ALL, lambda n: Iota(engine="gpsimd", target=state(n)))],
    ("affine_select", "150+N", ""): [
        (ALL, lambda n: Select(engine="gpsimd", compare="equal", value=state(n),
                               target=state(n, 1)))],
    ("rsqrt", "~4x the Scalar-engine cost", ""): [
        (ALL, lambda n: activate(n, "gpsimd", "rsqrt", state(n)))],
    ("exponential", "~N/4 (4x the Scalar exp throughput)", "v4"): [
        (LAST, lambda n: activate(n, "vector", "exponential", state(n)))],
    ("activation_reduce", "max(64,N)+64", "reduce"): [
        (ALL, lambda n: ActivateReduce(engine="scalar", function="exponential", source=sums(n),
                                       target=state(n), reduced=state(1, 1)))],
    ("tensor_scalar_reduce", "max(64,N)+64", ""): [
        (ALL, lambda n: TensorScalarReduce(engine="vector", op="add", fold="sum", source=state(n),
                                           scalar=1.0, target=state(n, 2), reduced=state(1, 1)))],
    ("scalar_tensor_tensor", "N", "both"): [
        (ALL, lambda n: three(n, "subtract", "multiply", "bf16"))],
    ("scalar_tensor_tensor", "2N", "otherwise"): [
        (ALL, lambda n: three(n, "multiply", "subtract", "bf16")),
        (ALL, lambda n: three(n, "subtract", "multiply", "f32"))],
    ("tensor_tensor_scan", "max(64,2N)", ""): [
        (ALL, lambda n: Scan(engine="vector", op="multiply", then="add", left=state(n),
                             right=state(n, 1), target=state(n, 2)))],
    ("tensor_copy_predicated", "max(64,N)", "src"): [
        (ALL, lambda n: CopyPredicated(engine="vector", source=sums(n), predicate=state(n),
                                       target=state(n, 1)))],
    ("tensor_copy_predicated", "max(64,2N)", "both"): [
        (ALL, lambda n: CopyPredicated(engine="vector", source=state(n, 2), predicate=state(n),
                                       target=state(n, 1)))],
    ("nc_transpose", "max(64,N)", "input"): [
        (ALL, lambda n: Transpose(engine="vector", source=state(whole(n)),
                                  target=state(whole(n), 1)))],
    ("nc_stream_shuffle", "max(64,N)", "within"): [
        (ALL, lambda n: Shuffle(engine="vector", source=state(n), target=state(n, 1),
                                mask=tuple(range(32))))],
    ("range_select", "max(64,N)", "v3+"): [
        (LATER, lambda n: RangeSelect(engine="vector", fold="max", compare="greater",
                                      compare_end="less", source=state(n), bound=1.0, end=5.0,
                                      target=state(n, 2), reduced=state(1, 1)))],
    ("bn_stats", "max(64,N)", "N<=512"): [
        (ALL, lambda n: BnStats(engine="vector", source=state(n), target=state(6, 1)))],
    ("bn_aggr", "max(64,13*N/3)", "N multiple of 3"): [
        (ALL, lambda n: BnAggr(engine="vector", source=state(3 * n), target=state(2, 1)))],
    ("dropout", "max(64,N)", ""): [
        (ALL, lambda n: Dropout(engine="vector", source=state(n), target=state(n, 1),
                                probability=0.5))],
    ("max8", "N", "8<=N<=16384"): [
        (ALL, lambda n: Max8(engine="vector", source=state(n), target=state(8, 1)))],
    ("nc_find_index8", "N", "8<=N<=16384"): [
        (ALL, lambda n: FindIndex8(engine="vector", source=state(n), values=state(8, 3),
                                   target=state(8, 2, "s32"))),
        (ALL, lambda n: FindIndex8(engine="vector", source=sums(n), values=bf16(8, 3),
                                   target=state(8, 1, "s32")))],
    ("nc_match_replace8", "max(64,N)", "N<=16384"): [
        (ALL, lambda n: MatchReplace8(engine="vector", source=state(n), values=state(8, 3),
                                      target=state(n, 2), other=0.0)),
        (ALL, lambda n: MatchReplace8(engine="vector", source=bf16(n, 0), values=bf16(8, 3),
                                      target=bf16(n, 0), other=0.0))],
    (TENSOR, "N/4 (4x v2)", "v3+"): [
        (LATER, lambda n: Copy(engine="vector", source=bf16(n, 0), target=state(n, 1, "f16"))),
        (LATER, lambda n: scalar("vector", bf16(n, 0), bf16(n, 1))),
        (LAST, lambda n: Copy(engine="vector", source=state(n, 0, "f8e5m2"),
                              target=state(n, 1, "f8e5m2")))],
    (TENSOR, "N/2 (2x v2)", "v3+"): [
        (LATER, lambda n: Copy(engine="vector", source=bf16(n, 0, 3), target=bf16(n, 1)))],
    ("tensor_tensor perf mode", "2x v2 throughput", "v3+"): [
        (LATER, lambda n: pair(n, bf16(n, 0), bf16(n, 0), "bf16")),
        (LATER, lambda n: pair(n, bf16(n, 0), bf16(n, 1), "bf16", "subtract"))],
    ("quantize_mx", "N/4", "v4"): [
        (LAST, quantised)],
    ("tensor_scalar / tensor_copy perf mode", "N/2 (up to 2x)", "v4"): [
        (LAST, lambda n: scalar("scalar", bf16(n, 0), bf16(n, 1))),
        (LAST, lambda n: Copy(engine="scalar", source=bf16(n, 0), target=bf16(n, 1)))],
}  # fmt: skip
SAID = {
    "~4x the Scalar-engine cost": "4*max(64,N)",
    "~N/4 (4x the Scalar exp throughput)": "N/4",
    "2x v2 throughput": "N/2",  # of an add, which takes N on version 2
}
"""What the table says in words, as a formula."""
ABSENT = {
    "nc_matmul", "MultiplyMoving (raw)", "LoadStationary (raw)", "nc_matmul double_row",
    "nc_matmul_mx", "select_reduce", "tensor_partition_reduce", "local_gather", "topk",
    "dma_copy (static descriptors)", "dma_copy (hardware DGE)", "dma_transpose",
}  # fmt: skip
"""Rows of the array and of DMA, of instructions that do not exist here, and without a formula.

`test_local_gather.py` holds the formula of local_gather, `test_topk.py` that of topk.
"""
OF_THE_ARRAY = ("nc_transpose", "Tensor")


def rows() -> list[dict[str, str]]:
    path = Path(__file__).parent / "instruction_costs.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row_of(key: Row) -> dict[str, str]:
    name, formula, begin = key
    (found,) = [
        row for row in rows()
        if (row["instruction"], row["cycles_formula"]) == (name, formula)
        and row["condition"].startswith(begin)
    ]  # fmt: skip
    return found


def cycles_of(formula: str, n: int, least: int) -> int:
    """Return what a formula gives for N = n, with a least distance in place of its 64.

    Formulas without one have the 64 that is defined beside the table.
    """
    text = SAID.get(formula, formula).split(" (")[0]
    text = re.sub(r"(\d)N", r"\1*N", text).replace("N/2", "-(-N//2)").replace("N/4", "-(-N//4)")
    text = text.replace("13*N/3", "-(-13*N//3)")
    said = text if "max(" in text or "+" in text else f"max(64,{text})"
    if not least:
        said = re.sub(r"max\(\d+", "max(0", said)
    return int(eval(said, {"N": n, "max": max}))


def test_every_row_is_held_or_names_something_absent() -> None:
    held = [row_of(key) for key in CASES]
    for row in rows():
        absent = row["instruction"] in ABSENT
        absent |= (row["instruction"], row["engine"]) == OF_THE_ARRAY
        assert (row in held) != absent, row


BEHIND: dict[type, int] = {
    Transpose: 31, BnStats: 5, Max8: 7, FindIndex8: 7, MatchReplace8: 7, CopyDynamicSrc: 1,
    CopyDynamicDst: 1,
}  # fmt: skip
"""Results of a block are written a group in each cycle: so many cycles behind the first.

The first of MatchReplace8 waits for the last of the eight values, which is read in cycle 7; an
offset is read in the cycle before all else.
"""
CHOSEN = [
    pytest.param(row, chip, make, id=f"{row[0]}, {row[1]}, {row[2]} {place} {chip.name}")
    for row, cases in CASES.items()
    for place, (chips, make) in enumerate(cases)
    for chip in chips
]


@pytest.mark.parametrize("n", [12, 64, 200])
@pytest.mark.parametrize(("row", "chip", "make"), CHOSEN)
def test_cost_in_a_chain_and_alone(row: Row, chip: Chip, make: Make, n: int) -> None:
    one = make(n)
    engine, taken = chip.engine(one.engine), elements_taken(one)
    cost, alone = (cycles_of(row[1], taken, least) for least in (64, 0))
    alone += len(results_per_lane(one)) + BEHIND.get(type(one), 0)
    for model in ("event", "register"):
        program = Program("three", (one, one, one))
        times = simulate(chip, program, engine=model, values=model == "register").trace.times  # type: ignore[arg-type]
        ticks = [time.start for time in times]
        period = chip.period(one.engine)
        assert [(b - a) // period for a, b in pairwise(ticks)] == [cost] * 2
        last = times[0].done // period  # from cycle 0 on
        assert last == max(alone, 1) - 1 + engine.latency_cycles


FURTHER = {
    "a stride of more than 16 bytes, half the rate": (
        lambda n: Copy(engine="vector", source=state(n, step=5), target=state(n, 1)),
        lambda n: max(64, 2 * n)),
    "a stride of 16 bytes, the whole rate": (
        lambda n: Copy(engine="vector", source=state(n, step=4), target=state(n, 1)),
        lambda n: max(64, n)),
}  # fmt: skip


@pytest.mark.parametrize("n", [10, 64, 200])
@pytest.mark.parametrize("what", FURTHER)
def test_cost_of_strides(what: str, n: int) -> None:
    make, formula = FURTHER[what]
    one = make(n)
    trace = simulate(V2, Program("three", (one, one, one)), values=False).trace
    starts = [time.start // V2.period(one.engine) for time in trace.times]
    assert [b - a for a, b in pairwise(starts)] == [formula(n)] * 2
