"""When are results of one element per lane written, and what do instructions with them cost?

The steps of section 4 of the timing model by hand, for both engines, and nki.isa of SDK 2.26.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import able_chip, ideal_chip
from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa import (
    ActivateReduce,
    Copy,
    Program,
    ScalarTensorTensor,
    TensorScalarReduce,
    check_program,
    lint,
)
from systolic.machine import simulate

BANK = 8192
SOURCE, TARGET, SUM, ONE = (state(0, 4, n * BANK, size) for n, size in enumerate((7, 7, 1, 1)))
ENGINES = pytest.mark.parametrize("engine", ["event", "register"])


def fold(**fields: Any) -> ActivateReduce:
    made = {"source": SOURCE, "target": TARGET, "reduced": SUM, **fields}
    return ActivateReduce(engine="activation", function="ramp", **made)


def outcome(engine: str, *instructions: Any, **keys: Any) -> Any:
    chip = able_chip(4, 4, activation={"independent_lanes": False, **keys})
    return simulate(
        chip, Program("folds", instructions), engine=engine, kinds=["read", "write"]
    )  # fmt: skip


def moved(found: Any, kind: str) -> list[int]:
    """Return the ticks in which lane 0 moved something, in order."""
    rows = found.trace.words.of(kind).rows
    return sorted(int(row["tick"]) for row in rows if row["partition"] == 0)


@ENGINES
@pytest.mark.parametrize(
    ("keys", "last", "written"),
    [
        ({}, 6, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"latency_cycles": 5}, 6, [5, 6, 7, 8, 9, 10, 11, 12]),
        ({"elements_per_cycle": 3}, 2, [1, 1, 1, 2, 2, 2, 3, 4]),
        ({"fixed_cycles": 4}, 10, [5, 6, 7, 8, 9, 10, 11, 12]),
    ],
)
def test_the_fold_is_written_one_step_behind_the_target(engine, keys, last, written):
    found = outcome(engine, fold(), **keys)
    assert moved(found, "write") == written
    (times,) = found.trace.times
    assert (times.last, times.done) == (last, written[-1])


@ENGINES
def test_the_lanes_are_free_after_the_last_read(engine):
    """The next one starts while the fold is written, and writes in the same cycle elsewhere."""
    found = outcome(engine, fold(), Copy(engine="activation", source=SOURCE, target=TARGET))
    assert [t.start for t in found.trace.times] == [0, 7]
    assert [t.done for t in found.trace.times] == [8, 14]


@ENGINES
def test_a_refused_port_of_the_fold_holds_the_instruction_back(engine):
    """The fold of the first and the first result of the second want one bank in cycle 8."""
    near = state(0, 4, BANK + 64, 1)
    again = Copy(engine="activation", source=SOURCE, target=state(0, 4, BANK + 128, 7))
    found = outcome(engine, fold(reduced=near), again)
    assert [t.done for t in found.trace.times] == [8, 15]
    (stall,) = found.trace.stalls
    assert (stall.instruction, stall.tick, stall.cycles) == (1, 8, 1)


def test_a_fold_over_the_target_is_found():
    for place, codes in (
        (TARGET.start + 8, ["self-overlap", "write-after-write"]),
        (TARGET.start + 28, []),
    ):
        program = Program("over", (fold(reduced=state(0, 4, place, 1)),))
        assert [d.code for d in lint(program, able_chip(4, 4), [SOURCE])] == codes


def test_a_fold_over_its_source_is_none():
    program = Program("over", (fold(reduced=state(0, 4, 0, 1)),))
    assert lint(program, able_chip(4, 4), [SOURCE]) == []


def test_what_reads_the_fold_must_wait():
    read = Copy(engine="activation", source=SUM, target=state(0, 4, 5 * BANK, 1))
    found = lint(Program("early", (fold(), read)), able_chip(4, 4), [SOURCE])
    assert [d.code for d in found] == ["read-after-write"]


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (fold(reduced=SOURCE), "reduced: needed one element in each of 4 partitions, found 4 x 7"),
        (fold(reduced=psum(0, 4, 0, 1)),
         "reduced: must lie in the target's buffer, state_buffer, found result_buffer"),
        (fold(source=ONE), "source has 4 x 1 elements, target 4 x 7"),
        (TensorScalarReduce(engine="pooling", op="add", fold="mean", source=SOURCE,
                            scalar=1, target=TARGET, reduced=SUM),  # type: ignore[arg-type]
         'fold: there is no "mean" (there are: max, min, sum, product)'),
        (TensorScalarReduce(engine="pooling", op="xor", fold="max", source=SOURCE, scalar=1,
                            target=TARGET, reduced=SUM),
         "op: xor takes integers, but source is floating-point"),
        (ScalarTensorTensor(engine="pooling", op="add", then="or", source=SOURCE, scalar=1,
                            tensor=SOURCE, target=TARGET),
         "then: or takes integers, but the result of add is floating-point"),
        (ScalarTensorTensor(engine="pooling", op="add", then="add", source=SOURCE, scalar=1,
                            tensor=ONE, target=TARGET),
         "tensor has 4 x 1 elements, target 4 x 7"),
    ],
)  # fmt: skip
def test_illegal(instruction: Any, text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (instruction,)), able_chip(4, 4))
    assert str(caught.value) == f"p: instruction 0 ({type(instruction).__name__}): {text}"


def test_the_patents_engines_do_not_do_them_unasked() -> None:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (fold(),)), ideal_chip(4, 4))
    assert "engine: no engine of test 4 x 4 does activate_reduce (" in str(caught.value)


# -- what they cost ------------------------------------------------------------------------------


def core() -> Chip:
    """Return a chip with the keys that the published costs ask for: a vector and a scalar engine.

    The sum of an activation is read out of its register in 64 cycles; those of a
    tensor_scalar_reduce are as many.
    """
    out = {"elements": 1, "fixed_cycles": 64}
    return ideal_chip(4, 4, engines={
        "vector": {
            "does": ["tensor_scalar_reduce", "scalar_tensor_tensor"],
            "min_interval_cycles": 64,
            "rates": [
                {"does": ["tensor_scalar_reduce"], **out},
                {"does": ["scalar_tensor_tensor"], "types": ["bf16"], "elements": 2, "cycles": 2},
                {"does": ["scalar_tensor_tensor"], "elements": 1, "cycles": 2},
            ],
        },
        "scalar": {
            "does": ["activate_reduce"], "min_interval_cycles": 64,
            "rates": [{"does": ["activate_reduce"], **out}],
        },
    })  # fmt: skip


def rows(n: int, dtype: str = "f32") -> list[Any]:
    return [state(0, 4, bank * BANK, n, dtype) for bank in range(3)]


def published(n: int) -> dict[str, tuple[Any, int]]:
    """Return an instruction of n elements per lane, and its cycles, by its row in the tables."""
    a, b, c = rows(n)
    x, y, z = rows(n, "bf16")
    return {
        "activation_reduce, max(64, N) + 64": (
            ActivateReduce(engine="scalar", function="exponential", source=a, target=b,
                           reduced=state(0, 4, 4 * BANK, 1)), max(64, n) + 64),
        "tensor_scalar_reduce, max(64, N) + 64": (
            TensorScalarReduce(engine="vector", op="add", fold="sum", source=a, scalar=1.0,
                               target=b, reduced=state(0, 4, 4 * BANK, 1)), max(64, n) + 64),
        "scalar_tensor_tensor, bf16, N": (
            ScalarTensorTensor(engine="vector", op="subtract", then="multiply", source=x,
                               scalar=1.0, tensor=y, target=z), n),
        "scalar_tensor_tensor otherwise, 2 N": (
            ScalarTensorTensor(engine="vector", op="subtract", then="multiply", source=a,
                               scalar=1.0, tensor=b, target=c), 2 * n),
    }  # fmt: skip


@ENGINES
@pytest.mark.parametrize("name", published(64))
@pytest.mark.parametrize("n", [64, 200, 512])
def test_published_cost(engine: str, name: str, n: int) -> None:
    """In a chain: the distance of two starts."""
    one, cycles = published(n)[name]
    trace = simulate(core(), Program("chain", (one,) * 3), engine=engine, values=False).trace
    starts = [times.start for times in trace.times]
    assert [b - a for a, b in pairwise(starts)] == [cycles] * 2
