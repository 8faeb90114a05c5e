"""Does the table of legality in docs/instruction_set.md say what is refused, and nothing else?"""

from __future__ import annotations

import re
import typing
from dataclasses import replace
from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.page_tables import TEXT, table, words
from systolic.errors import ProgramError
from systolic.isa import (
    Activate,
    AluOperation,
    Buffer,
    Copy,
    DmaCopy,
    Iota,
    LoadWeights,
    MatMul,
    Memset,
    Pool,
    Program,
    Select,
    TensorScalar,
    TensorTensor,
    check_program,
)
from systolic.isa.access import MAX_PAIRS
from systolic.isa.legality import INTEGERS_ONLY, MAX_DRAM_ELEMENTS, MAX_ELEMENTS, MAX_STEP
from systolic.isa.opcodes import BY_MNEMONIC, OPCODES

ELEMENTS = 12
A, B = state(0, 4, 0, ELEMENTS), state(0, 4, 2048, ELEMENTS)
OTHER_BANK, TARGET = state(0, 4, 16384, ELEMENTS), state(0, 4, 40960, ELEMENTS)
ONE = state(0, 4, 32768, 1)
WIDE = state(0, 4, 0, 3 * ELEMENTS)
LOAD = LoadWeights(weights=state(0, 8, 0, 7))
MUL = MatMul(moving=state(0, 8, 4096, 5), result=psum(0, 7, 0, 5))
# -- legality -------------------------------------------------------------------------------------

DMA = DmaCopy(dma_queue=0, source=A, target=TARGET)
LEGAL: dict[str, Any] = {
    "load": LOAD,
    "matmul": MUL,
    "copy": Copy(engine="pooling", source=A, target=TARGET),
    "memset": Memset(engine="pooling", target=TARGET, value=1),
    "dma": DMA,
    "activate": Activate(function="sin", source=A, target=TARGET, bias=ONE),
    "pool": Pool(function="max", window=3, source=WIDE, target=TARGET),
    "tensor_tensor": TensorTensor(engine="pooling", op="add", left=A, right=B, target=TARGET),
    "tensor_scalar": TensorScalar(engine="pooling", op="add", source=A, scalar=ONE, target=TARGET,
                                  then="add", other=ONE),
    "iota": Iota(engine="pooling", target=TARGET),
    "select": Select(engine="pooling", compare="equal", value=A, target=TARGET),
}  # fmt: skip
DRAM = replace(A, buffer=Buffer.DRAM, partitions=1)


def is_legal(instruction: Any) -> bool:
    queue = (LOAD, instruction) if isinstance(instruction, MatMul) else (instruction,)
    try:
        check_program(Program("p", queue), ideal_chip(8, 8))
    except ProgramError:
        return False
    return True


def test_what_the_rules_are_tried_on_is_legal() -> None:
    assert LEGAL.keys() == BY_MNEMONIC.keys()
    assert [name for name, instruction in LEGAL.items() if not is_legal(instruction)] == []


def elementwise(instruction: Any) -> list[str]:
    names = ("source", "left", "right", "value")
    return [n for n in names if hasattr(getattr(instruction, n, None), "pattern")]


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
                                          psum(0, 7, 0, 5, "s32"), state(0, 7, 0, 5))),
            ]  # fmt: skip
        return [replace(instruction, **change) for change in changes]
    if rule.startswith("the queue exists"):
        short = replace(TARGET, pattern=((1, ELEMENTS - 1),))
        return [
            replace(instruction, dma_queue=99),
            replace(instruction, source=psum(0, 4, 0, ELEMENTS)),
            replace(instruction, target=short),
            replace(instruction, target=replace(TARGET, dtype="s32")),
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
    raise AssertionError(f"no test for the rule {rule!r}")


def mnemonic_of(instruction: Any) -> str:
    return next(o.mnemonic for o in OPCODES if o.cls is type(instruction))


def rows_of_legality() -> list[tuple[list[str], str]]:
    found = []
    for cell, rule in table("| operation | rules |"):
        numbers = re.fullmatch(r"3, 4, 6 to 11", cell)
        names = [o.mnemonic for o in OPCODES if o.number in (3, 4, *range(6, 12))]
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
    assert others == {"bias scalar other", " ".join(INTEGERS_ONLY), ""}
    assert rows[""] == "whole numbers fit 32 bits"


@pytest.mark.parametrize("field", ["bias", "scalar", "other"])
def test_one_element_in_each_partition(field: str) -> None:
    instruction = LEGAL["activate" if field == "bias" else "tensor_scalar"]
    for access in (replace(ONE, partitions=3), replace(ONE, pattern=((1, 2),))):
        assert not is_legal(replace(instruction, **{field: access}))


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
