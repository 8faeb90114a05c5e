"""Is a Program legal on a chip? Static rules of each instruction; not timing, not races.

Runs after the compiler and again before a machine starts. Errors name instruction and rule. The
rules are listed in docs/instruction_set.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa.accumulation_groups import OpenGroups
from systolic.isa.engines import access_faults
from systolic.isa.instruction import (
    DmaCopy,
    DmaTranspose,
    Instruction,
    LoadDoubleRow,
    LoadMx,
    LoadTile,
    LoadWeights,
    MatMul,
    MatMulDoubleRow,
    MatMulMx,
    MatMulTile,
    OnEngine,
    PassThrough,
)
from systolic.isa.legality.array import check_load, check_matmul
from systolic.isa.legality.dma import check_dma, check_dma_transpose
from systolic.isa.legality.engines import check_on_engine
from systolic.isa.legality.forms import LegalForms, form_of
from systolic.isa.legality.last_legal import LastLegal
from systolic.isa.legality.tiles import check_weights
from systolic.isa.opcodes import BY_CLASS, require_rows
from systolic.isa.program import Program
from systolic.isa.tiling import LoadedTiles

_LAST_LEGAL = LastLegal()


def check_program(program: Program, chip: Chip) -> None:
    """Raise ProgramError for the first instruction that the chip cannot execute.

    The program that was found legal last is not looked through again for the same chip.
    """
    if _LAST_LEGAL.holds(program, chip):
        return
    loaded, groups, forms = LoadedTiles(chip.pe_array), OpenGroups(chip), LegalForms(chip)
    for index, instruction in enumerate(program.instructions):
        try:
            _check_semaphores(instruction, len(program.semaphores))
            _check_instruction(instruction, chip, forms)
            if isinstance(instruction, LoadWeights):
                loaded.note(instruction)
            elif isinstance(instruction, MatMul):
                check_weights(instruction, loaded)
                groups.admit(instruction)
        except ProgramError as error:
            kind = type(instruction).__name__
            raise ProgramError(f"{program.name}: instruction {index} ({kind}): {error}") from None
    _LAST_LEGAL.note(program, chip)


def _check_semaphores(instruction: Instruction, count: int) -> None:
    used = [wait.semaphore for wait in instruction.waits]
    used += [post.semaphore for post in instruction.posts]
    for semaphore in used:
        if not 0 <= semaphore < count:
            raise ProgramError(f"semaphore {semaphore} does not exist (there are {count})")
    for post in instruction.posts:
        if post.on != "done" and not isinstance(instruction, MatMul):
            raise ProgramError(f'only a MatMul can post on "{post.on}"')


def _check_instruction(instruction: Instruction, chip: Chip, forms: LegalForms) -> None:
    form = form_of(instruction)
    if forms.hold(form, instruction):
        return
    if isinstance(instruction, OnEngine):
        check_on_engine(instruction, chip)
    else:
        _RULES[type(instruction)](instruction, chip)
    for name, fault in access_faults(instruction, chip):
        raise ProgramError(f"{name}: {fault}")
    forms.note(form)


_RULES: dict[type, Callable[[Any, Chip], None]] = {
    LoadWeights: check_load,
    MatMul: check_matmul,
    PassThrough: check_matmul,
    LoadTile: check_load,
    MatMulTile: check_matmul,
    LoadDoubleRow: check_load,
    MatMulDoubleRow: check_matmul,
    LoadMx: check_load,
    MatMulMx: check_matmul,
    DmaCopy: check_dma,
    DmaTranspose: check_dma_transpose,
}
require_rows(
    "legality.program._RULES", _RULES, [c for c in BY_CLASS if not issubclass(c, OnEngine)]
)
