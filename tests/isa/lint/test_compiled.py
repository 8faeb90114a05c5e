"""Are compiled programs clean, and does the loss of any one wait show?"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from support.calls import calls
from support.chips import ideal_chip
from support.runs import compile_transpose
from systolic.compiler import CompiledGraph, Options
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.isa.lint.lint import lint
from systolic.run.tensors import initial_accesses as inputs

HOMES = ("state_buffer", "dram")
DRAINS = ("block", "row", "partition")
IDENTITIES = ("stored", "built")
WAYS = ("pe", "dram")


def narrow_chip(*, independent: bool = True) -> Chip:
    """Return a 4 x 3 chip so small that every slot is used again and again."""
    lanes = {"independent_lanes": independent}
    return ideal_chip(
        4, 3,
        state_buffer={"partitions": 4, "bytes_per_partition": 512, "banks": 8},
        result_buffer={"banks": 2, "bank_bytes": 16},
        activation=lanes, pooling=lanes,
    )  # fmt: skip


def compiled(
    chip: Chip, shape: str, home: Any, drain: Any, identity: Any, via: Any
) -> CompiledGraph:
    options = Options(drain=drain, identity=identity, via=via)
    return compile_transpose(shape, (1, 0), chip, options, home)


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize(
    ("home", "drain", "identity", "via"), list(itertools.product(HOMES, DRAINS, IDENTITIES, WAYS))
)
def test_transposes_are_clean(
    home: str, drain: str, identity: str, via: str, independent: bool
) -> None:
    for chip, shape in (
        (narrow_chip(independent=independent), "f32[9,14]"),
        (ideal_chip(16, 8, activation={"independent_lanes": independent}), "f32[40,30]"),
        (ideal_chip(16, 8, activation={"independent_lanes": independent}), "s8[3,17,31]"),
    ):
        permutation = (1, 0) if shape.startswith("f32") else (0, 2, 1)
        options: Any = {"drain": drain, "identity": identity, "via": via}
        result = compile_transpose(shape, permutation, chip, Options(**options), home)
        assert lint(result.program, chip, inputs(result)) == []


def without(program: Program, index: int, **fields: Any) -> Program:
    """Return the program with other fields in one instruction."""
    instructions = list(program.instructions)
    instructions[index] = replace(instructions[index], **fields)
    return replace(program, instructions=tuple(instructions))


def found(program: Program, chip: Chip, result: CompiledGraph) -> set[str]:
    return {d.code for d in lint(program, chip, inputs(result)) if d.severity == "error"}


CUTS = [("dram", "block", "pe"), ("dram", "row", "pe"), ("dram", "partition", "pe"),
        ("state_buffer", "row", "pe"), ("dram", "block", "dram"),
        ("state_buffer", "block", "dram")]  # fmt: skip


@pytest.mark.parametrize(("home", "drain", "via"), CUTS)
def test_every_wait_is_missed(home: str, drain: str, via: str) -> None:
    chip = narrow_chip()
    result = compiled(chip, "f32[9,14]", home, drain, "built", via)
    program = result.program
    waits = [(i, w) for i, x in enumerate(program.instructions) for w in x.waits]
    for index, wait in waits[:: max(1, len(waits) // 40)]:
        rest = tuple(w for w in program.instructions[index].waits if w is not wait)
        codes = found(without(program, index, waits=rest), chip, result)
        assert codes & {"read-after-write", "write-after-read", "write-after-write"}, (index, wait)


@pytest.mark.parametrize(("home", "drain", "via"), CUTS)
def test_waiting_for_one_less_is_noticed(home: str, drain: str, via: str) -> None:
    chip = narrow_chip()
    # Sides divide by 4: where the last tiles are smaller some waits ask for more than they need.
    result = compiled(chip, "f32[8,16]", home, drain, "stored", via)
    program = result.program
    waits = [(i, w) for i, x in enumerate(program.instructions) for w in x.waits]
    for index, wait in waits[:: max(1, len(waits) // 40)]:
        less = tuple(
            replace(w, value=w.value - 1) if w is wait else w
            for w in program.instructions[index].waits
        )
        assert found(without(program, index, waits=less), chip, result), (index, wait)


def test_every_post_that_is_waited_for_is_missed() -> None:
    chip = narrow_chip()
    result = compiled(chip, "f32[9,14]", "dram", "block", "built", "pe")
    program = result.program
    totals = [0] * len(program.semaphores)
    needed = [0] * len(program.semaphores)
    for instruction in program.instructions:
        for post in instruction.posts:
            totals[post.semaphore] += 1
        for wait in instruction.waits:
            needed[wait.semaphore] = max(needed[wait.semaphore], wait.value)
    for index, instruction in enumerate(program.instructions):
        for post in instruction.posts:
            if totals[post.semaphore] == needed[post.semaphore]:
                rest = tuple(p for p in instruction.posts if p is not post)
                assert "never-posted" in found(without(program, index, posts=rest), chip, result)


def test_a_result_slot_used_too_early_is_noticed() -> None:
    chip = ideal_chip(4, 4, result_buffer={"banks": 2, "bank_bytes": 64})
    result = compiled(chip, "f32[4,32]", "state_buffer", "block", "stored", "pe")
    program = result.program
    multiplies = [i for i, x in enumerate(program.instructions) if type(x).__name__ == "MatMul"]
    first, second = (program.instructions[i] for i in multiplies[:2])
    assert first.result != second.result  # type: ignore[union-attr]
    codes = found(without(program, multiplies[1], result=first.result), chip, result)  # type: ignore[union-attr]
    assert {"undrained", "write-after-read"} & codes


def test_an_address_moved_onto_another_is_noticed() -> None:
    chip = narrow_chip()
    result = compiled(chip, "f32[9,14]", "dram", "block", "stored", "pe")
    program = result.program
    copies = [i for i, x in enumerate(program.instructions) if type(x).__name__ == "Copy"]
    for one, other in itertools.pairwise(copies[:6]):
        target = program.instructions[one].target  # type: ignore[union-attr]
        source = program.instructions[other].source  # type: ignore[union-attr]
        moved = replace(target, partitions=source.partitions, partition=0, pattern=source.pattern)
        assert found(without(program, other, target=moved), chip, result)


def test_the_work_of_a_lint_follows_the_instructions() -> None:
    chip = ideal_chip(
        128, 64, state_buffer={"partitions": 128, "bytes_per_partition": 196608, "banks": 8}
    )

    def calls_per_instruction(size: int) -> float:
        result = compiled(chip, f"f32[{size},{size}]", "dram", "row", "built", "pe")
        program = result.program
        return calls(lambda: lint(program, chip, inputs(result))) / len(program.instructions)

    small, large = calls_per_instruction(256), calls_per_instruction(512)
    assert large < 1.25 * small
