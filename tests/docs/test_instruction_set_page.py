"""Does docs/instruction_set.md say what the code does? Operations, cycles, names, examples."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import able_chip
from support.page_tables import TEXT, table, words
from systolic.isa import (
    Access,
    Activate,
    ActivateReduce,
    ActivationFunction,
    AluOperation,
    BnAggr,
    BnStats,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    CopyPredicated,
    DmaCopy,
    Dropout,
    FindIndex8,
    Fold,
    Instruction,
    Iota,
    LoadDoubleRow,
    LoadMx,
    LoadTile,
    LoadWeights,
    LocalGather,
    MatchReplace8,
    MatMul,
    MatMulDoubleRow,
    MatMulMx,
    MatMulTile,
    Max8,
    Memset,
    PartitionReduce,
    PassThrough,
    Pool,
    Program,
    QuantizeMx,
    RangeSelect,
    Reduction,
    Relation,
    Requantise,
    ScalarTensorTensor,
    Scan,
    Select,
    SelectReduce,
    Shuffle,
    TensorScalar,
    TensorScalarReduce,
    TensorTensor,
    TopK,
    Transpose,
    check_program,
    format_instruction,
    parse_text,
)
from systolic.isa.opcodes import BY_MNEMONIC, OPCODES, Opcode
from systolic.machine import simulate

EXAMPLES = [line for block in re.findall(r"```\n(.*?)```", TEXT, re.DOTALL)
            for line in block.splitlines()]  # fmt: skip
SEMAPHORES = 'systolic program 1\nsemaphore s0 "a"\nsemaphore s1 "b"\n'


# -- the table of operations ----------------------------------------------------------------------

ROWS = {words(row[1])[0]: row for row in table("| no. |")}


def test_every_operation_has_its_row_and_no_other_has() -> None:
    assert [(int(row[0]), name) for name, row in ROWS.items()] == [
        (opcode.number, opcode.mnemonic) for opcode in OPCODES
    ]


def queues(opcode: Opcode) -> str:
    """Return the queues an operation can stand in, as the page calls them."""
    if any(field.name == "engine" for field in opcode.fields):
        return "an engine"
    return "dma0, dma1, ..." if issubclass(opcode.cls, DmaCopy) else "pe_array"


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.mnemonic)
def test_queue_and_operands(opcode: Opcode) -> None:
    row = ROWS[opcode.mnemonic]
    assert row[2] == queues(opcode)
    named = re.search(r"\((\w+)\)", row[1])
    assert named is None or named[1] == opcode.cls.__name__
    mentioned = re.findall(r"\w+", row[3])
    places = [f.name for f in opcode.fields if f.name in ("source", "target", "left", "right",
              "weights", "moving", "result", "value", "scalar", "bias", "base", "tensor",
              "reduced", "fold", "predicate", "initial", "mask", "side", "bound",
              "end", "probability", "seed", "values", "other", "indices", "scales", "headroom",
              "offset", "most", "each", "group", "index", "count", "k")]  # fmt: skip
    assert [name for name in places if name not in mentioned] == []


# -- cycles ---------------------------------------------------------------------------------------

ELEMENTS = 12
A, B = state(0, 4, 0, ELEMENTS), state(0, 4, 2048, ELEMENTS)
OTHER_BANK, TARGET = state(0, 4, 16384, ELEMENTS), state(0, 4, 40960, ELEMENTS)
ONE, SUM = state(0, 4, 32768, 1), state(0, 4, 49152, 1)
WIDE, OFFSET = state(0, 4, 0, 3 * ELEMENTS), state(0, 1, 49152, 1, "s32")


def steps(*instructions: Instruction, rate: int = 1, **array: Any) -> int:
    """Return the cycles from first to last read of the last instruction."""
    chip = able_chip(
        8, 8, pe_array={"cycles_per_vector": {"f32": 3}, **array},
        activation={"elements_per_cycle": rate}, pooling={"elements_per_cycle": rate},
    )  # fmt: skip
    times = simulate(chip, Program("p", instructions)).trace.times[-1]
    return times.last - times.start + 1


def up(n: int, e: int) -> int:
    return -(-n // e)


def three(scalar: Any, tensor: Access) -> ScalarTensorTensor:
    return ScalarTensorTensor(
        engine="pooling", op="add", then="max", source=A, scalar=scalar, tensor=tensor,
        target=TARGET,
    )  # fmt: skip


def few(elements: int, start: int = 40960) -> Access:
    return state(0, 4, start, elements)


def between(bound: Any, end: Any) -> RangeSelect:
    return RangeSelect(
        engine="pooling", fold="max", compare="greater", compare_end="less", source=A, bound=bound,
        end=end, target=TARGET, reduced=SUM,
    )  # fmt: skip


def scan(initial: Any, right: Access) -> Scan:
    return Scan(
        engine="pooling", op="multiply", then="add", left=A, right=right, target=TARGET,
        initial=initial,
    )  # fmt: skip


def chosen(other: Any, predicate: Access) -> SelectReduce:
    return SelectReduce(
        engine="pooling", fold="max", source=A, predicate=predicate, other=other, target=TARGET,
        reduced=SUM,
    )  # fmt: skip


def searched(values: Access, elements: int) -> FindIndex8:
    source, eight = few(elements, 0), replace(values, pattern=((1, 8),))
    target = replace(few(8), dtype="s32")
    return FindIndex8(engine="pooling", source=source, values=eight, target=target)


def replaced(values: Access, elements: int) -> MatchReplace8:
    source, eight = few(elements, 0), replace(values, pattern=((1, 8),))
    return MatchReplace8(
        engine="pooling", source=source, values=eight, target=few(elements), other=0.0
    )


def gathered(index: Access) -> LocalGather:
    three = replace(index, dtype="s32", pattern=((1, 3),))
    return LocalGather(engine="pooling", source=A, index=three, target=TARGET, group=4)


LOAD = LoadWeights(weights=state(0, 8, 0, 7))
MUL = MatMul(moving=state(0, 8, 4096, 5), result=psum(0, 7, 0, 5))
WHOLE = state(0, 4, 49152, ELEMENTS, "s32")
COSTS: dict[str, list[tuple[Any, Callable[[int], int]]]] = {
    "ceil(n / e)": [
        (Copy(engine="pooling", source=A, target=TARGET), lambda e: up(ELEMENTS, e)),
        (Memset(engine="pooling", target=TARGET, value=1), lambda e: up(ELEMENTS, e)),
        (Iota(engine="pooling", target=TARGET), lambda e: up(ELEMENTS, e)),
        (Select(engine="pooling", compare="equal", value=A, target=TARGET),
         lambda e: up(ELEMENTS, e)),
        (Transpose(engine="pooling", source=A, target=TARGET, side=4), lambda e: up(ELEMENTS, e)),
        (QuantizeMx(engine="pooling", source=state(0, 8, 0, ELEMENTS, "bf16"),
                    target=state(0, 8, 40960, ELEMENTS, "f8e5m2"),
                    scales=state(0, 1, 49152, ELEMENTS // 4, "u8")), lambda e: up(ELEMENTS, e)),
        (Shuffle(engine="pooling", source=A, target=TARGET, mask=(1, 255)),
         lambda e: up(ELEMENTS, e)),
        (PartitionReduce(engine="pooling", fold="max", source=A,
                         target=state(0, 1, 40960, ELEMENTS)), lambda e: up(ELEMENTS, e)),
    ],
    "ceil(n / e), n elements of the target; + a cycle for each group of e elements of `index` if "
    "it lies in the source's bank and shares a lane": [
        (gathered(OTHER_BANK), lambda e: up(ELEMENTS, e)),
        (gathered(B), lambda e: up(ELEMENTS, e) + up(3, e)),
    ],
    "ceil(n / e) + 1": [
        (CopyDynamicSrc(engine="pooling", source=A, offset=OFFSET, most=5, target=TARGET),
         lambda e: up(ELEMENTS, e) + 1),
        (CopyDynamicDst(engine="pooling", source=A, target=TARGET, offset=OFFSET, most=5),
         lambda e: up(ELEMENTS, e) + 1),
    ],
    "ceil(n / e), + 1 if bias is an access": [
        (Activate(function="exponential", source=A, target=TARGET), lambda e: up(ELEMENTS, e)),
        (Activate(function="sin", source=A, target=TARGET, bias=ONE),
         lambda e: up(ELEMENTS, e) + 1),
        (ActivateReduce(engine="activation", function="exponential", source=A, target=TARGET,
                        reduced=SUM), lambda e: up(ELEMENTS, e)),
        (ActivateReduce(engine="activation", function="sin", source=A, target=TARGET, bias=ONE,
                        reduced=SUM), lambda e: up(ELEMENTS, e) + 1),
    ],
    "ceil(n / e), + 1 if probability is an access": [
        (Dropout(engine="pooling", source=A, target=TARGET, probability=0.5),
         lambda e: up(ELEMENTS, e)),
        (Dropout(engine="pooling", source=A, target=TARGET, probability=ONE),
         lambda e: up(ELEMENTS, e) + 1),
    ],
    "ceil(n / e), + 1 if scalar is an access": [
        (TensorScalarReduce(engine="pooling", op="add", fold="max", source=A, scalar=1.0,
                            target=TARGET, reduced=SUM), lambda e: up(ELEMENTS, e)),
        (TensorScalarReduce(engine="pooling", op="add", fold="max", source=A, scalar=ONE,
                            target=TARGET, reduced=SUM), lambda e: up(ELEMENTS, e) + 1),
    ],
    "ceil(n / e), or 2 ceil(n / e) if both operands lie in one bank and share a lane; "
    "+ 1 if scalar is an access": [
        (three(1.0, OTHER_BANK), lambda e: up(ELEMENTS, e)),
        (three(1.0, B), lambda e: 2 * up(ELEMENTS, e)),
        (three(ONE, OTHER_BANK), lambda e: up(ELEMENTS, e) + 1),
    ],
    "ceil(n / e), n elements of the source": [
        (Pool(function="max", window=3, source=WIDE, target=TARGET),
         lambda e: up(3 * ELEMENTS, e)),
        (BnStats(engine="pooling", source=WIDE, target=few(6)), lambda e: up(3 * ELEMENTS, e)),
        (BnAggr(engine="pooling", source=WIDE, target=few(2)), lambda e: up(3 * ELEMENTS, e)),
        (Max8(engine="pooling", source=WIDE, target=few(8)), lambda e: up(3 * ELEMENTS, e)),
        (TopK(engine="pooling", source=replace(A, dtype="bf16"), count=48, k=8, group=4,
              target=replace(few(2), dtype="bf16"), indices=state(0, 4, 49152, 2, "s32")),
         lambda e: up(ELEMENTS, e)),
    ],
    "ceil(n / e), n elements of the source; + ceil(8 / e) if `values` lie in its bank and share a "
    "lane": [
        (searched(OTHER_BANK, ELEMENTS), lambda e: up(ELEMENTS, e)),
        (searched(B, ELEMENTS), lambda e: up(ELEMENTS, e) + up(8, e)),
    ],
    "ceil(max(n, 8) / e); + ceil(8 / e) if `values` lie in the source's bank and share a lane": [
        (replaced(OTHER_BANK, ELEMENTS), lambda e: up(ELEMENTS, e)),
        (replaced(OTHER_BANK, 3), lambda e: up(8, e)),
        (replaced(B, ELEMENTS), lambda e: up(ELEMENTS, e) + up(8, e)),
    ],
    "ceil(n / e), + 1 for each of bound and end that is an access": [
        (between(0, 5.0), lambda e: up(ELEMENTS, e)),
        (between(0, ONE), lambda e: up(ELEMENTS, e) + 1),
        (between(ONE, ONE), lambda e: up(ELEMENTS, e) + 2),
    ],
    "ceil(n / e), or 2 ceil(n / e) if both operands lie in one bank and share a lane; "
    "+ 1 if initial is an access": [
        (scan(1.0, OTHER_BANK), lambda e: up(ELEMENTS, e)),
        (scan(1.0, B), lambda e: 2 * up(ELEMENTS, e)),
        (scan(ONE, OTHER_BANK), lambda e: up(ELEMENTS, e) + 1),
    ],
    "ceil(n / e), or 2 ceil(n / e) if both operands lie in one bank and share a lane; "
    "+ 1 if other is an access": [
        (chosen(1.0, OTHER_BANK), lambda e: up(ELEMENTS, e)),
        (chosen(1.0, B), lambda e: 2 * up(ELEMENTS, e)),
        (chosen(ONE, OTHER_BANK), lambda e: up(ELEMENTS, e) + 1),
    ],
    "ceil(n / e), or 2 ceil(n / e) if both operands lie in one bank and share a lane": [
        (TensorTensor(engine="pooling", op="add", left=A, right=OTHER_BANK, target=TARGET),
         lambda e: up(ELEMENTS, e)),
        (TensorTensor(engine="pooling", op="add", left=A, right=B, target=TARGET),
         lambda e: 2 * up(ELEMENTS, e)),
        (CopyPredicated(engine="pooling", source=A, predicate=OTHER_BANK, target=TARGET),
         lambda e: up(ELEMENTS, e)),
        (CopyPredicated(engine="pooling", source=A, predicate=B, target=TARGET),
         lambda e: 2 * up(ELEMENTS, e)),
    ],
    "ceil(n / e), + 1 for each of scalar and other that is an access": [
        (TensorScalar(engine="pooling", op="add", source=A, scalar=2.0, target=TARGET),
         lambda e: up(ELEMENTS, e)),
        (TensorScalar(engine="pooling", op="add", source=A, scalar=ONE, target=TARGET,
                      then="multiply", other=ONE), lambda e: up(ELEMENTS, e) + 2),
    ],
    "ceil(n / e), + 1 for each of bias and scale that is an access": [
        (Requantise(engine="pooling", source=A, target=WHOLE, scale=2.0),
         lambda e: up(ELEMENTS, e)),
        (Requantise(engine="activation", source=A, target=WHOLE, scale=ONE, bias=ONE),
         lambda e: up(ELEMENTS, e) + 2),
    ],
}  # fmt: skip


ARRAY_AND_DMA = (1, 2, 5, *range(41, 49))


@pytest.mark.parametrize("mnemonic", [o.mnemonic for o in OPCODES if o.number not in ARRAY_AND_DMA])
def test_cycles_of_the_engines(mnemonic: str) -> None:
    """What the page says an instruction costs is what both rates of the engine make of it."""
    mine = [c for c in COSTS[ROWS[mnemonic][4]] if isinstance(c[0], BY_MNEMONIC[mnemonic].cls)]
    assert mine
    for instruction, cost in mine:
        for rate in (1, 5):
            assert steps(instruction, rate=rate) == cost(rate), (instruction, rate)


def test_cycles_of_the_array() -> None:
    assert ROWS["load"][4] == "ceil(N / f), or ceil(K / f) on the top path"
    assert steps(LOAD, fast_load=2) == up(7, 2)
    assert steps(LOAD, fast_load=2, weight_path="top") == up(8, 2)
    assert ROWS["matmul"][4] == "M x `cycles_per_vector`, in each of its `passes`"
    assert steps(LOAD, MUL) == (5 - 1) * 3 + 1  # its first vector to its last: M - 1 intervals
    assert steps(LOAD, MUL, passes={"f32": 2}) == (2 * 5 - 1) * 3 + 1
    assert ROWS["pass_through"][4] == "M x `pass_through`"
    through = PassThrough(moving=MUL.moving, result=MUL.result)
    assert steps(LOAD, through, passes={"f32": 2}, pass_through={"f32": 4}) == (5 - 1) * 4 + 1
    assert (ROWS["load_tile"][4], ROWS["matmul_tile"][4]) == ("as `load`", "as `matmul`")
    assert (ROWS["load_double_row"][4], ROWS["matmul_double_row"][4]) == (
        "as `load`",
        "M x `double_row`",
    )
    pairs = LoadDoubleRow(weights=state(0, 8, 0, 14))
    twice = MatMulDoubleRow(moving=state(0, 8, 4096, 10), result=MUL.result)
    assert steps(pairs, fast_load=2, double_row={"f32": 2}) == up(7, 2)
    assert steps(pairs, twice, passes={"f32": 2}, double_row={"f32": 2}) == (5 - 1) * 2 + 1
    assert (ROWS["load_mx"][4], ROWS["matmul_mx"][4]) == ("as `load`", "M x `mx`")
    shared = LoadMx(weights=state(0, 8, 0, 28, "f8e5m2"), scales=state(0, 1, 512, 7, "u8"))
    fourfold = MatMulMx(moving=state(0, 8, 4096, 20, "f8e5m2"), result=MUL.result,
                        scales=state(0, 1, 8192, 5, "u8"))  # fmt: skip
    assert steps(shared, fast_load=2, mx={"f8e5m2": 2}) == up(7, 2)
    assert steps(shared, fourfold, mx={"f8e5m2": 2}) == (5 - 1) * 2 + 1
    place: Any = {"tile_size": (8, 8), "tile_position": (0, 0)}
    load = LoadTile(weights=LOAD.weights, **place)
    multiply = MatMulTile(moving=MUL.moving, result=MUL.result, **place)
    assert steps(load, fast_load=2, tile_sizes=[[8, 8]]) == up(7, 2)
    assert steps(load, multiply, tile_sizes=[[8, 8]]) == (5 - 1) * 3 + 1


# -- names and examples ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("| op |", AluOperation),
        ("| function of `pool`, or `fold` |", Reduction),
        ("| function of `activate` |", ActivationFunction),
    ],
    ids=["operations", "reductions", "functions"],
)
def test_every_name_is_explained_and_no_other(head: str, names: Any) -> None:
    listed = [name for row in table(head) for name in words(row[0])]
    also = ["relu"] if "relu" in listed else []
    assert sorted(listed) == sorted([*typing.get_args(names), *also])


def test_comparisons_are_operations() -> None:
    assert set(typing.get_args(Relation)) <= set(typing.get_args(AluOperation))


def test_folds_are_the_reductions_not_of_pool_only() -> None:
    rows = table("| function of `pool`, or `fold` |")
    folds = [name for row in rows if "of `pool` only" not in row[1] for name in words(row[0])]
    assert sorted(folds) == sorted(typing.get_args(Fold))


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_canonical_and_legal(line: str) -> None:
    program = parse_text(SEMAPHORES + line).program
    (instruction,) = program.instructions
    assert format_instruction(instruction) == line
    check_program(Program("page", (instruction,), program.semaphores), able_chip(128, 64))
