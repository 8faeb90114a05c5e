"""Are accesses that a chip cannot make refused with the legal list, and does the compiler obey?"""

from __future__ import annotations

from random import Random

import pytest

from compiler.test_graph_values import random_chip, random_graph, random_values
from support.blocks import psum, state
from support.chips import ideal_chip
from support.numpy_values import run_as_numpy
from support.tiers import quick_first
from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Buffer,
    Copy,
    DmaCopy,
    Instruction,
    MatMul,
    Program,
    TensorTensor,
    check_program,
)
from systolic.isa.instruction import LoadWeights

QUADRANTS = [
    {"partitions": 32, "starts": [0, 32, 64, 96]}, {"partitions": 64, "starts": [0, 64]},
    {"partitions": 128, "starts": [0]},
]  # fmt: skip
RULES = {"start": QUADRANTS, "max_count": 100, "max_step": 99}
ENGINES = {"v": {"does": ["copy", "tensor_tensor"], "result_operands": 1}}
CHIP = ideal_chip(128, 128, engines=ENGINES, access=RULES)


def at(first: int, partitions: int, start: int = 0, pattern=((1, 4),)) -> Access:
    return Access(Buffer.STATE, "f32", first, partitions, start, pattern)


def copy(source: Access, target: Access) -> Copy:
    return Copy(engine="v", source=source, target=target)


def moved(first: int, to: int, partitions: int) -> Copy:
    return copy(at(first, partitions), at(to, partitions, 1024))


def pair(left: Access, right: Access) -> TensorTensor:
    return TensorTensor(engine="v", op="add", left=left, right=right, target=at(0, 4, 1024))


def check(*instructions: Instruction) -> None:
    check_program(Program("p", instructions), CHIP)


@pytest.mark.parametrize("partitions", [1, 31, 32, 33, 63, 64, 65, 127, 128])
def test_where_accesses_begin(partitions: int) -> None:
    """The published rule: 0 for more than 64, 0 or 64 for 33 to 64, each quadrant up to 32."""
    allowed = {0} if partitions > 64 else {0, 64} if partitions > 32 else {0, 32, 64, 96}
    for first in range(129 - partitions):
        for one in (moved(first, 0, partitions), moved(0, first, partitions)):
            if first in allowed:
                check(one)
            else:
                with pytest.raises(ProgramError, match=f"found {first}$"):
                    check(one)


FAULTS = {
    "the legal list of a half": (moved(0, 32, 40),
                                 "target: 40 partitions begin at partition 0 or 64 here, found 32"),
    "of a quadrant": (moved(1, 0, 1),
                      "source: 1 partitions begin at partition 0 or 32 or 64 or 96 here, found 1"),
    "of all": (moved(0, 1, 100), "target: 100 partitions begin at partition 0 here, found 1"),
    "a count": (copy(at(0, 1, 0, ((0, 101),)), at(0, 1, 1024, ((1, 101),))),
                "source: a count is at most 100 here, found 101"),
    "a step": (copy(at(0, 1, 0, ((100, 2),)), at(0, 1, 1024, ((1, 2),))),
               "source: a step is -100 to 99 here, found 100"),
    "a step down": (copy(at(0, 1, 808, ((-101, 2),)), at(0, 1, 1024, ((1, 2),))),
                    "source: a step is -100 to 99 here, found -101"),
    "both operands in the result buffer": (
        pair(psum(0, 4, 0, 4), psum(0, 4, 2048, 4)),
        "operands: of those of v at most 1 may lie in result_buffer, found 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_faults(case: str) -> None:
    instruction, text = FAULTS[case]
    with pytest.raises(ProgramError) as caught:
        check(instruction)
    kind = type(instruction).__name__
    assert str(caught.value) == f"p: instruction 0 ({kind}): {text}"


def test_what_is_legal() -> None:
    """The greatest counts and steps, one operand in the result buffer, and all that DMA does."""
    check(
        copy(at(0, 1, 0, ((0, 100),)), at(0, 1, 1024, ((1, 100),))),
        copy(at(0, 1, 0, ((99, 2),)), at(0, 1, 1024, ((1, 2),))),
        copy(at(0, 1, 808, ((-100, 2),)), at(0, 1, 1024, ((1, 2),))),
        pair(psum(0, 4, 0, 4), at(0, 4)),
        DmaCopy(dma_queue=0, source=at(5, 40), target=at(7, 40, 1024)),
    )


def test_the_array_obeys_too() -> None:
    chip = ideal_chip(4, 4, access={"max_count": 3})
    load = LoadWeights(weights=state(0, 4, 0, 4))
    with pytest.raises(ProgramError, match="weights: a count is at most 3 here, found 4"):
        check_program(Program("p", (load,)), chip)
    load = LoadWeights(weights=state(0, 4, 0, 3))
    multiply = MatMul(moving=state(0, 4, 1024, 4), result=psum(0, 3, 0, 4))
    with pytest.raises(ProgramError, match="moving: a count is at most 3 here, found 4"):
        check_program(Program("p", (load, multiply)), chip)


def ruled(rng: Random) -> Chip:
    """Return a random chip of a square array whose accesses begin at quadrants and halves."""
    parts = random_chip(rng).model_dump(exclude={"engines"})
    side = max(parts["pe_array"]["rows"], parts["pe_array"]["cols"])
    parts["pe_array"] |= {"rows": side, "cols": side}
    parts["state_buffer"]["partitions"] = side
    quarter = max(1, side // 4)
    rows = [
        (quarter, [n * quarter for n in range(4)]),
        (2 * quarter, [0, 2 * quarter]),
        (4096, [0]),
    ]
    starts = [{"partitions": most, "starts": firsts} for most, firsts in rows]
    return Chip.model_validate(parts | {"access": {"start": starts}})


@pytest.mark.parametrize("seed", quick_first(range(15), 4))
def test_programs_of_random_graphs_obey(seed: int) -> None:
    """Compiling checks legality; values equal numpy, and the checker finds nothing."""
    rng = Random(seed)
    chip, graph = ruled(rng), random_graph(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    run_as_numpy(graph, chip, inputs)
