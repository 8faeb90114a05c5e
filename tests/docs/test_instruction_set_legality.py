"""Does the table of legality in docs/instruction_set.md say what is refused, and nothing else?"""

from __future__ import annotations

import re
import typing
from dataclasses import replace
from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import able_chip
from support.page_tables import TEXT, table, words
from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa import (
    Activate,
    ActivateReduce,
    AluOperation,
    BnAggr,
    BnStats,
    Buffer,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    CopyPredicated,
    DmaCopy,
    DmaTranspose,
    Dropout,
    FindIndex8,
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
)
from systolic.isa.access import MAX_PAIRS
from systolic.isa.legality.accesses import MAX_DRAM_ELEMENTS, MAX_ELEMENTS, MAX_STEP
from systolic.isa.legality.own_rules import INTEGERS_ONLY
from systolic.isa.opcodes import BY_MNEMONIC, OPCODES

ELEMENTS, BANK = 12, 8192
A, B = state(0, 4, 0, ELEMENTS), state(0, 4, 2048, ELEMENTS)
OTHER_BANK, TARGET = state(0, 4, 16384, ELEMENTS), state(0, 4, 40960, ELEMENTS)
ONE, SUM = state(0, 4, 32768, 1), state(0, 4, 49152, 1)
WIDE = state(0, 4, 0, 3 * ELEMENTS)
EIGHT, INDICES = state(0, 4, 32768, 8), state(0, 4, 49152, 8, "s32")
INDEX = state(0, 4, 49152, 3, "s32")
OFFSET = state(0, 1, 49152, 1, "s32")
LONG = state(0, 4, 0, 16385, "s8")
LOAD = LoadWeights(weights=state(0, 8, 0, 7))
MUL = MatMul(moving=state(0, 8, 4096, 5), result=psum(0, 7, 0, 5))
# -- legality -------------------------------------------------------------------------------------

THROUGH = PassThrough(moving=MUL.moving, result=MUL.result)
PLACE: dict[str, Any] = {"tile_size": (4, 4), "tile_position": (4, 4)}
LOAD_PAIRS = LoadDoubleRow(weights=state(0, 8, 0, 14))
F8, U8 = "f8e4m3fn", "u8"
LOAD_MX = LoadMx(weights=state(0, 8, 0, 28, F8), scales=state(0, 1, 512, 7, U8))
LOAD_TILE = LoadTile(weights=state(4, 4, 0, 3), **PLACE)
DMA = DmaCopy(dma_queue=0, source=A, target=TARGET)
TURNED = DmaTranspose(dma_queue=0, source=A, target=state(0, ELEMENTS, 40960, 4))
LEGAL: dict[str, Any] = {
    "load": LOAD,
    "matmul": MUL,
    "pass_through": THROUGH,
    "load_tile": LOAD_TILE,
    "load_double_row": LOAD_PAIRS,
    "matmul_double_row": MatMulDoubleRow(moving=state(0, 8, 4096, 10), result=psum(0, 7, 0, 5)),
    "load_mx": LOAD_MX,
    "matmul_mx": MatMulMx(moving=state(0, 8, 4096, 20, F8), result=psum(0, 7, 0, 5),
                          scales=state(0, 1, 8192, 5, U8)),
    "quantize_mx": QuantizeMx(engine="pooling", source=state(0, 8, 0, ELEMENTS, "f16"),
                              target=state(0, 8, 40960, ELEMENTS, F8),
                              scales=state(0, 1, 49152, ELEMENTS // 4, U8)),
    "matmul_tile": MatMulTile(moving=state(4, 4, 4096, 5), result=psum(4, 3, 0, 5), **PLACE),
    "copy": Copy(engine="pooling", source=A, target=TARGET),
    "memset": Memset(engine="pooling", target=TARGET, value=1),
    "dma": DMA,
    "dma_transpose": TURNED,
    "activate": Activate(function="sin", source=A, target=TARGET, bias=ONE),
    "pool": Pool(function="max", window=3, source=WIDE, target=TARGET),
    "tensor_tensor": TensorTensor(engine="pooling", op="add", left=A, right=B, target=TARGET),
    "tensor_scalar": TensorScalar(engine="pooling", op="add", source=A, scalar=ONE, target=TARGET,
                                  then="add", other=ONE),
    "iota": Iota(engine="pooling", target=TARGET),
    "select": Select(engine="pooling", compare="equal", value=A, target=TARGET),
    "activate_reduce": ActivateReduce(engine="activation", function="sin", source=A,
                                      target=TARGET, bias=ONE, reduced=SUM),
    "tensor_scalar_reduce": TensorScalarReduce(engine="pooling", op="add", fold="sum", source=A,
                                               scalar=ONE, target=TARGET, reduced=SUM),
    "scalar_tensor_tensor": ScalarTensorTensor(engine="pooling", op="add", then="max", source=A,
                                               scalar=ONE, tensor=B, target=TARGET),
    "transpose": Transpose(engine="pooling", source=A, target=TARGET, side=4),
    "shuffle": Shuffle(engine="pooling", source=A, target=TARGET, mask=(1, 255)),
    "scan": Scan(engine="pooling", op="add", then="max", left=A, right=B, target=TARGET,
                 initial=ONE),
    "copy_predicated": CopyPredicated(engine="pooling", source=A, predicate=B, target=TARGET),
    "select_reduce": SelectReduce(engine="pooling", fold="max", source=A, predicate=B, other=ONE,
                                  target=TARGET, reduced=SUM),
    "range_select": RangeSelect(engine="pooling", fold="max", compare="less", compare_end="less",
                                source=A, bound=ONE, end=ONE, target=TARGET, reduced=SUM),
    "bn_stats": BnStats(engine="pooling", source=A, target=state(0, 4, 40960, 6)),
    "bn_aggr": BnAggr(engine="pooling", source=A, target=state(0, 4, 40960, 2)),
    "max8": Max8(engine="pooling", source=A, target=state(0, 4, 40960, 8)),
    "dropout": Dropout(engine="pooling", source=A, target=TARGET, probability=ONE),
    "find_index8": FindIndex8(engine="pooling", source=A, values=EIGHT, target=INDICES),
    "match_replace8": MatchReplace8(engine="pooling", source=A, values=EIGHT, target=TARGET,
                                    other=0.0, indices=INDICES),
    "partition_reduce": PartitionReduce(engine="pooling", fold="max", source=A,
                                        target=state(0, 1, 40960, ELEMENTS)),
    "copy_dynamic_src": CopyDynamicSrc(engine="pooling", source=A, offset=OFFSET, most=5,
                                       target=TARGET),
    "copy_dynamic_dst": CopyDynamicDst(engine="pooling", source=A, target=TARGET, offset=OFFSET,
                                       most=5),
    "local_gather": LocalGather(engine="pooling", source=A, index=INDEX, target=TARGET, group=4),
    "topk": TopK(engine="pooling", source=replace(A, dtype="bf16"), indices=INDEX,
                 target=state(0, 4, 40960, 3, "bf16"), count=45, k=9, group=4),
    "requantise": Requantise(engine="pooling", source=A, target=replace(TARGET, dtype="s32"),
                             scale=ONE, bias=ONE),
}  # fmt: skip
DRAM = replace(A, buffer=Buffer.DRAM, partitions=1)


def modal_chip() -> Chip:
    """Return a chip that does everything, whose array has every mode and whose DMA transposes."""
    turns = {"element_bytes": (4,), "dram_percent": 90, "state_buffer_percent": 50}
    array = {"pass_through": {"f32": 2}, "tile_sizes": [[4, 4]], "double_row": {"f32": 1}}
    array["mx"] = {"f8e4m3fn": 1}
    return able_chip(
        8, 8, dma={"transposes": turns}, state_buffer={"partitions": 16}, pe_array=array
    )


def is_legal(instruction: Any) -> bool:
    loads = {MatMulTile: LOAD_TILE, MatMulDoubleRow: LOAD_PAIRS, MatMulMx: LOAD_MX}
    load = loads.get(type(instruction), LOAD)
    queue = (load, instruction) if isinstance(instruction, MatMul) else (instruction,)
    try:
        check_program(Program("p", queue), modal_chip())
    except ProgramError:
        return False
    return True


def test_what_the_rules_are_tried_on_is_legal() -> None:
    assert LEGAL.keys() == BY_MNEMONIC.keys()
    assert [name for name, instruction in LEGAL.items() if not is_legal(instruction)] == []


def elementwise(instruction: Any) -> list[str]:
    names = ("source", "left", "right", "value", "tensor", "predicate")
    return [n for n in names if hasattr(getattr(instruction, n, None), "pattern")]


def wrong_scales(instruction: Any) -> list[dict[str, Any]]:
    """Return scales that are none of the instruction's: type, place, partitions, elements."""
    scales = instruction.scales
    return [
        {"scales": replace(scales, **change)}
        for change in (
            {"dtype": "s8"},
            {"partition": 8},
            {"partitions": 2},
            {"pattern": ((1, scales.elements + 1),)},
            {"buffer": Buffer.DRAM},
        )
    ]


def breaks(rule: str, instruction: Any) -> list[Any]:
    """Return instructions that break the rule of a row of the table of legality."""
    cls = type(instruction)
    if rule.startswith("operands in the state buffer"):
        if cls is LoadWeights:
            changes: list[dict[str, Any]] = [
                {"weights": w} for w in (psum(0, 8, 0, 7), state(1, 8, 0, 7), state(0, 9, 0, 7),
                                         state(0, 8, 0, 9), state(0, 8, 0, 7, "s32"))
            ]  # fmt: skip
        else:
            changes = [
                *({"moving": m} for m in (psum(0, 8, 0, 5), state(1, 8, 0, 5), state(0, 9, 0, 5),
                                          state(0, 8, 0, 5, "bf16"))),
                *({"result": r} for r in (psum(1, 7, 0, 5), psum(0, 8, 0, 5), psum(0, 7, 511, 5),
                                          psum(0, 7, 0, 5, "s32"), state(0, 7, 0, 5),
                                          psum(0, 7, 0, 4))),
            ]  # fmt: skip
        return [replace(instruction, **change) for change in changes]
    if rule.startswith("as `load` and `matmul`, of a type that the PEs take in double rows"):
        name = "weights" if cls is LoadDoubleRow else "moving"
        access = getattr(instruction, name)
        odd, short = replace(access, pattern=((1, 9),)), replace(access, dtype="bf16")
        changed = [replace(instruction, **{name: found}) for found in (odd, short)]
        if cls is MatMulDoubleRow:
            changed.append(replace(instruction, result=psum(0, 7, 0, 10)))
        return changed
    if rule.startswith("as `load` and `matmul`, of a type that the PEs take with scales"):
        name = "weights" if cls is LoadMx else "moving"
        access, place = getattr(instruction, name), {"tile_position": (0, 0)}
        changes = [
            {name: replace(access, dtype="f8e5m2")},
            {name: replace(access, pattern=((1, 18),))},
            {"tile_size": (4, 4), **place},
            *wrong_scales(instruction),
        ]
        return [replace(instruction, **change) for change in changes]
    if rule.startswith("source of bf16 or f16"):
        source = instruction.source
        changes = [
            {"source": replace(source, dtype="f32")},
            {"target": replace(instruction.target, dtype="bf16")},
            {"source": replace(psum(0, 8, 0, ELEMENTS), dtype="f32")},
            {"headroom": 2},
            *wrong_scales(instruction),
        ]
        return [replace(instruction, **change) for change in changes]
    if rule.startswith("as `load` and `matmul`, R"):
        name = "weights" if cls is LoadTile else "moving"
        access = getattr(instruction, name)
        moves = [
            {name: replace(access, partition=0)},
            {name: replace(access, partitions=5)},
            {"tile_size": (4, 8)},
            {"tile_size": (4,)},
            {"tile_position": (4, 2)},
            {"tile_position": (8, 4)},
        ]
        if cls is LoadTile:
            moves.append({name: replace(access, pattern=((1, 5),))})
        else:
            moves += [
                {"result": replace(instruction.result, partition=0)},
                {"result": replace(instruction.result, partitions=5)},
                {"tile_position": (4, 0), "result": psum(0, 3, 0, 5)},  # not loaded
            ]
        return [replace(instruction, **move) for move in moves]
    if rule.startswith("of a type that passes through"):
        short = replace(instruction.moving, dtype="bf16"), replace(instruction.result, dtype="bf16")
        return [
            replace(instruction, moving=short[0], result=short[1]),
            replace(instruction, result=replace(instruction.result, dtype="s32")),
            replace(instruction, accumulate=True),
        ]
    if rule.startswith("the queue exists"):
        short = replace(TARGET, pattern=((1, ELEMENTS - 1),))
        return [
            replace(instruction, dma_queue=99),
            replace(instruction, source=psum(0, 4, 0, ELEMENTS)),
            replace(instruction, target=short),
            replace(instruction, target=replace(TARGET, dtype="s32")),
        ]
    if rule.startswith("obeys the rules of `dma`"):
        source, target = instruction.source, instruction.target
        short = replace(source, dtype="bf16"), replace(target, dtype="bf16")
        return [
            replace(instruction, dma_queue=99),
            replace(instruction, source=short[0], target=short[1]),
            replace(instruction, target=replace(DRAM, pattern=((1, 4 * ELEMENTS),))),
            replace(instruction, source=replace(DRAM, pattern=((1, 4), (4, ELEMENTS)))),
            replace(instruction, source=state(0, 8, 0, ELEMENTS // 2)),
            replace(instruction, source=state(0, 4, 8192 - 4, ELEMENTS)),
        ]
    if rule.startswith("all operands on chip"):
        places = [f.name for f in BY_MNEMONIC[mnemonic_of(instruction)].fields
                  if hasattr(getattr(instruction, f.name), "pattern")]  # fmt: skip
        elsewhere = [replace(instruction, **{name: DRAM}) for name in places]
        return [*elsewhere, replace(instruction, engine="vector")]
    if rule.startswith("operands have as many partitions"):
        return [
            replace(instruction, **{name: replace(getattr(instruction, name), **change)})
            for name in elementwise(instruction)
            for change in ({"partitions": 3}, {"pattern": ((1, ELEMENTS + 1),)})
        ]
    if rule.startswith("as many partitions as the target, window"):
        return [replace(instruction, window=w) for w in (0, -1, 2, 4)]
    if rule.startswith("the target is of an integer type"):
        return [
            replace(instruction, target=TARGET),
            replace(instruction, scale=replace(ONE, dtype="s32")),
            replace(instruction, lowest=5, highest=4),
        ]
    if rule.startswith("blocks of side x side"):
        return [replace(instruction, side=side) for side in (0, -4, 3, 8)]
    if rule.startswith("groups of as many partitions as the mask"):
        return [replace(instruction, mask=mask) for mask in ((), (0, 1, 2), (2, 0), (0, -1))]
    if rule.startswith("the target has as many partitions, and 6"):
        target = instruction.target
        short = replace(A, pattern=((1, 7),))
        return [
            replace(instruction, target=replace(target, partitions=3)),
            replace(instruction, target=replace(target, pattern=((1, target.elements + 1),))),
            *([] if isinstance(instruction, BnStats) else [replace(instruction, source=short)]),
        ]
    if rule.startswith("the target has as many partitions, eight elements"):
        short = replace(A, pattern=((1, 7),))
        targets = (
            replace(INDICES, partitions=3),
            replace(INDICES, pattern=((1, 9),)),
            replace(INDICES, dtype="f32"),
        )
        return [
            *(replace(instruction, target=target) for target in targets),
            *(replace(instruction, source=source) for source in (short, LONG)),
        ]
    if rule.startswith("at most 16,384 elements"):
        return [
            replace(instruction, source=LONG, target=replace(LONG, start=20480)),
            replace(instruction, indices=replace(INDICES, dtype="f32")),
        ]
    if rule.startswith("`offset` is one s32"):
        name = "source" if cls is CopyDynamicSrc else "target"
        last = replace(getattr(instruction, name), start=2 * BANK - 4 * (ELEMENTS + 4))
        offsets = ({"dtype": "f32"}, {"partitions": 2}, {"pattern": ((1, 2),)},
                   {"buffer": Buffer.RESULT})  # fmt: skip
        return [
            *(replace(instruction, offset=replace(OFFSET, **change)) for change in offsets),
            replace(instruction, most=-1),
            replace(instruction, **{name: last}),
        ]
    if rule.startswith("all of the source lies in one bank"):
        wide = state(0, 4, 0, 4097, "s8")
        many = {"source": replace(wide, pattern=((1, 1),)), "target": replace(wide, start=20480)}
        return [
            replace(instruction, source=replace(A, pattern=((1, BANK // 4 + 1),))),
            replace(instruction, each=4, source=replace(A, pattern=((1, 3),))),
            *(replace(instruction, group=group) for group in (0, 3, 8)),
            replace(instruction, source=replace(A, partition=2), index=replace(INDEX, partition=2)),
            replace(instruction, each=3),
            replace(instruction, each=8),
            replace(instruction, target=replace(TARGET, partitions=3)),
            replace(instruction, target=replace(TARGET, dtype="s32")),
            replace(instruction, **many, index=replace(INDEX, pattern=((1, 1025),))),
            replace(instruction, index=replace(INDEX, dtype="f32")),
            replace(instruction, index=replace(INDEX, partition=4)),
            replace(instruction, index=replace(INDEX, pattern=((1, 4),))),
        ]
    if rule.startswith("groups as for `local_gather`"):
        changes = [
            *({"group": group} for group in (0, 3, 8)),
            *({"count": count} for count in (7, 49, 65536)),
            *({"k": k} for k in (0, 13, 46)),
            {"source": A},
            {"source": replace(A, dtype="bf16", pattern=((1, 13),))},
            {"target": state(0, 4, 40960, 3)},
            {"target": state(0, 3, 40960, 3, "bf16")},
            {"indices": state(0, 4, 49152, 3)},
            {"indices": state(0, 4, 49152, 4, "s32")},
            {"indices": psum(0, 4, 0, 3, "s32")},
        ]
        return [replace(instruction, **change) for change in changes]
    if rule.startswith("the target has one partition"):
        target = instruction.target
        return [
            replace(instruction, target=replace(target, partitions=4)),
            replace(instruction, target=replace(target, pattern=((1, ELEMENTS + 1),))),
        ]
    raise AssertionError(f"no test for the rule {rule!r}")


def mnemonic_of(instruction: Any) -> str:
    return next(o.mnemonic for o in OPCODES if o.cls is type(instruction))


def rows_of_legality() -> list[tuple[list[str], str]]:
    found = []
    for cell, rule in table("| operation | rules |"):
        numbers = re.fullmatch(r"3, 4, 6 to (\d+), 40", cell)
        last = int(numbers[1]) if numbers else 0
        names = [o.mnemonic for o in OPCODES if o.number in (3, 4, *range(6, last + 1), 40)]
        found.append((names if numbers else words(cell), rule))
    return found


RULES = [(name, rule) for names, rule in rows_of_legality() for name in names if name in LEGAL]


@pytest.mark.parametrize(("name", "rule"), RULES)
def test_what_breaks_a_rule_is_refused(name: str, rule: str) -> None:
    broken = breaks(rule, LEGAL[name])
    assert broken
    for instruction in broken:
        assert not is_legal(instruction), instruction


def test_every_operation_has_a_rule_and_no_rule_is_left_out() -> None:
    assert {name for name, _ in RULES} == BY_MNEMONIC.keys()
    rows = {" ".join(names): rule for names, rule in rows_of_legality()}
    others = {key for key in rows if key.split()[:1] not in [[name] for name in LEGAL]}
    assert others == {
        "bias scalar other reduced initial bound end probability",
        "values indices",
        "reduced indices",
        " ".join(INTEGERS_ONLY),
        "",
    }
    assert rows[""] == "whole numbers fit 32 bits"


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("bias", "activate"),
        ("bias", "activate_reduce"),
        ("scalar", "tensor_scalar"),
        ("other", "tensor_scalar"),
        ("scalar", "tensor_scalar_reduce"),
        ("scalar", "scalar_tensor_tensor"),
        ("reduced", "activate_reduce"),
        ("reduced", "tensor_scalar_reduce"),
        ("initial", "scan"),
        ("other", "select_reduce"),
        ("reduced", "select_reduce"),
        ("bound", "range_select"),
        ("end", "range_select"),
        ("reduced", "range_select"),
        ("probability", "dropout"),
    ],
)
def test_one_element_in_each_partition(field: str, name: str) -> None:
    instruction = LEGAL[name]
    for access in (replace(ONE, partitions=3), replace(ONE, pattern=((1, 2),))):
        assert not is_legal(replace(instruction, **{field: access}))


@pytest.mark.parametrize(
    ("field", "name"),
    [("values", "find_index8"), ("values", "match_replace8"), ("indices", "match_replace8")],
)
def test_eight_elements_in_each_partition(field: str, name: str) -> None:
    instruction = LEGAL[name]
    eight = getattr(instruction, field)
    for access in (replace(eight, partitions=3), replace(eight, pattern=((1, 7),))):
        assert not is_legal(replace(instruction, **{field: access}))
    assert is_legal(replace(LEGAL["match_replace8"], indices=None))


@pytest.mark.parametrize(
    "name", ["activate_reduce", "tensor_scalar_reduce", "select_reduce", "range_select"]
)
def test_reduced_lies_in_the_buffer_of_the_target(name: str) -> None:
    assert not is_legal(replace(LEGAL[name], reduced=psum(0, 4, 0, 1)))
    assert is_legal(replace(LEGAL[name], reduced=psum(0, 4, 0, 1), target=psum(0, 4, 1, ELEMENTS)))


def test_indices_lie_in_the_buffer_of_the_target() -> None:
    there = psum(0, 4, 0, 8, "s32")
    assert not is_legal(replace(LEGAL["match_replace8"], indices=there))
    target = psum(0, 4, 8, ELEMENTS)
    assert is_legal(replace(LEGAL["match_replace8"], indices=there, target=target))


@pytest.mark.parametrize("op", typing.get_args(AluOperation))
def test_integer_operations(op: str) -> None:
    whole = replace(LEGAL["tensor_tensor"], left=replace(A, dtype="s32"),
                    right=replace(B, dtype="s32"), op=op)  # fmt: skip
    assert is_legal(whole)
    assert is_legal(replace(whole, right=B)) == (op not in INTEGERS_ONLY)
    assert is_legal(replace(whole, left=A)) == (op not in INTEGERS_ONLY)


def test_numbers_of_every_access() -> None:
    assert "one to four pairs" in TEXT
    assert MAX_PAIRS == 4
    assert "at most 2^24 elements in a partition on chip and 2^32 in DRAM" in TEXT
    assert (MAX_ELEMENTS, MAX_DRAM_ELEMENTS, MAX_STEP) == (2**24, 2**32, 2**40)
    assert "steps of at most 2^40" in TEXT
    for pattern in (((0, 2**24 + 1),), ((2**40 + 1, 1), (1, ELEMENTS)), ((1, 1),) * 5):
        target = replace(TARGET, pattern=pattern)
        assert not is_legal(Memset(engine="pooling", target=target, value=1))
    far = replace(DRAM, pattern=((0, 2**32 + 1),))
    assert not is_legal(replace(DMA, source=far, target=far))
    for value in (1 << 31, -(1 << 31) - 1):
        assert not is_legal(replace(LEGAL["memset"], value=value))
