"""Checks of the drafts for `sync`: legal instructions, and no dependency missing.

The program checker decides (`systolic.isa.lint`), which knows nothing of the compiler. The drafts
become a program in the plainest way: with a semaphore for each instruction on which another
depends, and a wait for each dependency. That program must be legal and without races. The checker
takes longer than the compiler, so a run omits this check; the finished program is checked in any
case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.ir.dma_posts import waits_for_dma_engines
from systolic.compiler.ir.drafts import Draft
from systolic.hw.spec import Chip
from systolic.isa import Post, Program, Wait, lint
from systolic.isa.instruction import Event


def verify_references(drafts: Sequence[Draft]) -> None:
    """Raise BrokenPassError unless every dependency points at an earlier draft that can post it."""
    for step, draft in enumerate(drafts):
        for ref in draft.needs:
            if not 0 <= ref.step < step:
                raise _broken(step, draft, f"depends on {ref.step}, which does not come before")
            earlier = drafts[ref.step]
            if ref.queue != earlier.instruction.queue or ref.key not in earlier.keys:
                raise _broken(step, draft, f"{ref.step} does not post {' '.join(ref.key)}")
            if ref.part > earlier.posts_of(ref.key)[1]:
                raise _broken(step, draft, f"{ref.step} has no part {ref.part}")


def verify_drafts(drafts: Sequence[Draft], chip: Chip) -> None:
    """Raise BrokenPassError unless the drafts are legal and their dependencies order all of them.

    That is read after write, write after read and write after write: if two instructions use the
    same byte and one of them writes it, one is done before the other begins.
    """
    verify_references(drafts)
    program = waits_for_dma_engines(plain_program(drafts), chip)
    errors = [d for d in lint(program, chip) if d.severity == "error"]
    if errors:
        raise BrokenPassError("schedule", f"{errors[0].code}: {errors[0].message}")


def plain_program(drafts: Sequence[Draft]) -> Program:
    """Return the drafts as a program: one wait for each dependency, nothing left out."""
    numbers: dict[tuple[int, Event], int] = {}
    waits: list[tuple[Wait, ...]] = []
    for draft in drafts:
        mine: dict[int, int] = {}
        for ref in draft.needs:
            event, count = drafts[ref.step].posts_of(ref.key)
            semaphore = numbers.setdefault((ref.step, event), len(numbers))
            mine[semaphore] = max(mine.get(semaphore, 0), ref.part or count)
        waits.append(tuple(Wait(semaphore, value) for semaphore, value in mine.items()))
    posts: dict[int, list[Post]] = {}
    for (step, event), semaphore in numbers.items():
        posts.setdefault(step, []).append(Post(semaphore, event))
    instructions = tuple(
        replace(draft.instruction, waits=waits[step], posts=tuple(posts.get(step, ())))
        for step, draft in enumerate(drafts)
    )
    return Program("drafts", instructions, tuple(f"{step} {event}" for step, event in numbers))


def _broken(step: int, draft: Draft, message: str) -> BrokenPassError:
    kind = type(draft.instruction).__name__
    return BrokenPassError("schedule", f"draft {step} ({kind}): {message}")
