"""Is a Program legal on a chip? Static rules of each instruction; not timing, not races.

Runs after the compiler and again before a machine starts. Errors name instruction and rule. The
rules are listed in docs/instruction_set.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa.accumulation_groups import OpenGroups
from systolic.isa.engines import access_faults
from systolic.isa.instruction import (
    Command,
    DmaCopy,
    DmaMove,
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
    RemotePost,
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
NEEDS_CORES = "needed a chip of several cores ([[cores]])"


class AroundCore(Protocol):
    """What holds the copies and posts of a core that concern others against a chip of several."""

    def check_move(self, copy: DmaCopy) -> None:
        """Raise ProgramError unless the chip can make the copy."""

    def check_post(self, post: RemotePost) -> None:
        """Raise ProgramError unless the place posted to is there."""


def check_program(program: Program, chip: Chip, around: AroundCore | None = None) -> None:
    """Raise ProgramError for the first instruction that the chip cannot execute.

    The program that was found legal last is not looked through again for the same chip. around: of
    the core of a chip of several.
    """
    if around is None and _LAST_LEGAL.holds(program, chip):
        return
    loaded, groups, forms = LoadedTiles(chip.pe_array), OpenGroups(chip), LegalForms(chip)
    for index, instruction in enumerate(program.instructions):
        try:
            _check_semaphores(instruction, len(program.semaphores), around)
            if isinstance(instruction, DmaMove | Command):
                _check_of_several(instruction, around)
            else:
                _check_instruction(instruction, chip, forms)
            if isinstance(instruction, LoadWeights):
                loaded.note(instruction)
            elif isinstance(instruction, MatMul):
                check_weights(instruction, loaded)
                groups.admit(instruction)
        except ProgramError as error:
            kind = type(instruction).__name__
            raise ProgramError(f"{program.name}: instruction {index} ({kind}): {error}") from None
    if around is None:
        _LAST_LEGAL.note(program, chip)


def _check_semaphores(instruction: Instruction, count: int, around: AroundCore | None) -> None:
    used = [wait.semaphore for wait in instruction.waits]
    for post in instruction.posts:
        if not isinstance(post, RemotePost):
            used.append(post.semaphore)
        elif around is None:
            raise ProgramError(f"post to {post.at}: {NEEDS_CORES}")
        else:
            around.check_post(post)
    for semaphore in used:
        if not 0 <= semaphore < count:
            raise ProgramError(f"semaphore {semaphore} does not exist (there are {count})")
    for post in instruction.posts:
        if post.on != "done" and not isinstance(instruction, MatMul):
            raise ProgramError(f'only a MatMul can post on "{post.on}"')


def _check_of_several(instruction: DmaMove | Command, around: AroundCore | None) -> None:
    """Hold what only programs of several cores have against the chip."""
    if isinstance(instruction, Command):
        raise ProgramError(f"{instruction.word} is a command of processors, not of a core")
    if around is None:
        raise ProgramError(f"a copy of several cores: {NEEDS_CORES}")
    around.check_move(instruction)


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
    "legality.program._RULES",
    _RULES,
    [c for c in BY_CLASS if not issubclass(c, OnEngine | DmaMove | Command)],
)
