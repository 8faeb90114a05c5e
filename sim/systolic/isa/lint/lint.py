"""The program checker: everything that can be said of a program and a chip without running it.

`lint` collects findings, `require_clean` refuses a program that has errors. A program without
findings is legal, comes to its end, and gives the same values whichever ports are refused, under
the guarantees of `systolic.isa.lint.guarantees` and `systolic.isa.lint.overtaking`. The converse
does not hold: a race may be reported that the timing of this chip happens to exclude.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from systolic.collector import collector_at_rest
from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa.access import Access
from systolic.isa.array_tile import ArrayTile
from systolic.isa.effects import effects_of, times
from systolic.isa.instruction import Instruction, LoadWeights, MatMul
from systolic.isa.legality.program import check_program
from systolic.isa.lint.diagnostic import Code, Diagnostic, named
from systolic.isa.lint.races import find_hazards
from systolic.isa.lint.self_overlap import self_overlaps
from systolic.isa.lint.untimed import deadlocks, execute, waiting
from systolic.isa.program import Program

MOST_SHOWN = 5


def lint(program: Program, chip: Chip, inputs: Iterable[Access] | None = None) -> list[Diagnostic]:
    """Return all findings, illegal instructions first.

    inputs: the accesses to memory that has contents at cycle 0. None if they are not known; then
    nothing is reported as "unwritten". Deadlocks are looked for only in a legal program, and races
    only in a program that comes to its end.
    """
    found = _illegal(program, chip)
    if found:
        return found
    execution = execute(program, chip)
    if execution.stuck:
        found = _never_posted(program, chip) or deadlocks(program, execution)
    else:
        with collector_at_rest():  # nothing that is made here is dropped before its end
            effects = effects_of(program)
            found += self_overlaps(program, chip, effects)
            found += find_hazards(program, chip, execution.order, effects, inputs)
    return found + list(_unused_posts(program))


def require_clean(program: Program, chip: Chip, inputs: Iterable[Access] | None = None) -> None:
    """Raise ProgramError with the first errors of a program; nothing happens if it has none."""
    errors = [d for d in lint(program, chip, inputs) if d.severity == "error"]
    if errors:
        shown = "; ".join(f"{d.code}: {d.message}" for d in errors[:MOST_SHOWN])
        more = len(errors) - MOST_SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise ProgramError(f"{program.name}: {shown}{rest}")


def _illegal(program: Program, chip: Chip) -> list[Diagnostic]:
    """Return the findings of the legality check: one for each illegal instruction."""
    refused = _refusal(program, chip)
    if refused is None:
        return []
    return list(_each_illegal(program, chip)) or [Diagnostic("illegal", "error", refused)]


def _each_illegal(program: Program, chip: Chip) -> Iterator[Diagnostic]:
    """Check each instruction alone, and a multiply together with the loads of tiles before it.

    A multiply behind an illegal load is not checked.
    """
    loads, is_bad_load = dict[ArrayTile | None, Instruction](), False
    for index, instruction in enumerate(program.instructions):
        is_multiply = isinstance(instruction, MatMul)
        if is_multiply and is_bad_load:
            continue
        alone = (*(loads.values() if is_multiply else ()), instruction)
        kind = type(instruction).__name__
        refused = _refusal(Program("", alone, program.semaphores), chip)
        if refused is not None:
            reason = refused.removeprefix(f": instruction {len(alone) - 1} ({kind}): ")
            code: Code = "no-weights" if reason.startswith("no LoadWeights") else "illegal"
            message = f"{named(index, instruction)}: {reason}"
            yield Diagnostic(code, "error", message, ((index, kind),))
        if isinstance(instruction, LoadWeights):
            is_bad_load = refused is not None
            if not is_bad_load:
                loads.pop(instruction.tile, None)
                loads[instruction.tile] = instruction


def _refusal(program: Program, chip: Chip) -> str | None:
    """Return why a program is illegal, None if it is not."""
    try:
        check_program(program, chip)
    except ProgramError as error:
        return str(error)
    return None


def _never_posted(program: Program, chip: Chip) -> list[Diagnostic]:
    """Return a finding for each wait for more posts than the whole program makes."""
    totals = [0] * len(program.semaphores)
    for instruction in program.instructions:
        for post in instruction.posts:
            totals[post.semaphore] += times(instruction, post, chip)
    return [
        Diagnostic(
            "never-posted",
            "error",
            f"{waiting(program, index, wait)}, "
            f"but the whole program posts it {_times(totals[wait.semaphore])}",
            ((index, type(instruction).__name__),),
        )
        for index, instruction in enumerate(program.instructions)
        for wait in instruction.waits
        if wait.value > totals[wait.semaphore]
    ]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _unused_posts(program: Program) -> Iterator[Diagnostic]:
    """Yield a hint for each semaphore that is posted but never waited for."""
    waited = {wait.semaphore for i in program.instructions for wait in i.waits}
    said: set[int] = set()
    for index, instruction in enumerate(program.instructions):
        for post in instruction.posts:
            if post.semaphore in waited or post.semaphore in said:
                continue
            said.add(post.semaphore)
            yield Diagnostic(
                "unused-post",
                "hint",
                f"{named(index, instruction)} posts semaphore s{post.semaphore} "
                f'"{program.semaphores[post.semaphore]}", and nothing waits for it',
                ((index, type(instruction).__name__),),
            )
