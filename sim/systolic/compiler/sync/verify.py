"""Checks of the result of `sync` for the machine: semaphores keep every dependency.

The checks follow what is known when an instruction starts: the waits of its queue so far, and what
is known from each post that it waits for. Nothing is assumed about time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.ir.dependencies import Key, Ref
from systolic.compiler.ir.drafts import Draft
from systolic.compiler.sync.semaphores import follows
from systolic.hw.spec import Chip
from systolic.isa import DmaCopy, Instruction, Program

StepSet = int
"""A set of instructions: bit n says that the n-th is in it."""


@dataclass(frozen=True, slots=True)
class _Posted:
    """A post, in the order of the program: instruction `step` makes it as `part` of `parts`."""

    step: int
    part: int
    parts: int


def verify_synchronised(drafts: Sequence[Draft], program: Program, chip: Chip) -> None:
    """Raise BrokenPassError unless semaphores keep every dependency of the drafts on a chip.

    The program has the drafts' instructions in order. Every wait can be satisfied by posts of
    earlier instructions. Posts beyond a count in a wait come later than the posts in that count.
    Every dependency follows from waits and from the order in queues.
    """
    if len(drafts) != len(program.instructions):
        raise BrokenPassError("sync", f"{len(drafts)} drafts, {len(program.instructions)} steps")
    verifier = _Verifier(drafts, program, chip.dma.posts_per_copy)
    for step, instruction in enumerate(program.instructions):
        verifier.check(step, instruction)
    for semaphore in range(len(program.semaphores)):
        verifier.check_counts(semaphore)


class _Verifier:
    """Goes through a program, and notes the instructions known to be done when each starts."""

    def __init__(self, drafts: Sequence[Draft], program: Program, copy_posts: int) -> None:
        self._drafts, self._program, self._copy_posts = drafts, program, copy_posts
        self._posted: list[list[_Posted]] = [[] for _ in program.semaphores]
        self._waited: list[set[int]] = [set() for _ in program.semaphores]
        self._in_queue: dict[str, StepSet] = {}
        self._known_at: list[StepSet] = []

    def check(self, step: int, instruction: Instruction) -> None:
        """Check that an instruction waits for all that it depends on, and note its posts."""
        known, in_part = self._in_queue.get(instruction.queue, 0), dict[int, int]()
        for wait in instruction.waits:
            self._waited[wait.semaphore].add(wait.value)
            if wait.value > len(self._posted[wait.semaphore]):
                name = self._program.semaphores[wait.semaphore]
                raise self._broken(step, f'waits for {wait.value} posts of "{name}", too many')
            for post in self._posted[wait.semaphore][: wait.value]:
                in_part[post.step] = max(in_part.get(post.step, 0), post.part)
                known |= self._known_at[post.step]  # it has begun
                known |= (post.part == post.parts) << post.step
        self._known_at.append(known)
        self._in_queue[instruction.queue] = known
        for ref in self._drafts[step].needs:
            if not (0 < ref.part <= in_part.get(ref.step, 0) or self._is_known(ref, known)):
                raise self._broken(step, f"nothing makes it wait for {ref.step}, which it needs")
        self._note_posts(step, instruction)

    def _note_posts(self, step: int, instruction: Instruction) -> None:
        parts, whole = self._drafts[step].parts, 1
        if isinstance(instruction, DmaCopy):
            whole = self._copy_posts
        for post in instruction.posts:
            count = parts[2] if parts and post.on == parts[1] else whole
            made = (_Posted(step, part, count) for part in range(1, count + 1))
            self._posted[post.semaphore] += made

    def _is_known(self, ref: Ref, known: StepSet) -> bool:
        """Return whether an instruction is known to be done, or a later one that follows it."""
        if known >> ref.step & 1:
            return True
        return any(self._follows(ref.key, ref.step, later) for later in self._later(ref, known))

    def _later(self, ref: Ref, known: StepSet) -> Iterator[int]:
        """Yield the instructions behind a reference's in its queue that are known to be done."""
        for step in _members(known >> ref.step + 1):
            later = ref.step + 1 + step
            if self._drafts[later].instruction.queue == ref.queue:
                yield later

    def check_counts(self, semaphore: int) -> None:
        """Check that the count in a wait says which instructions have posted.

        Later posts must be of instructions that begin after all counted instructions have posted,
        or that post after them because their queue keeps this order.
        """
        posted, key = self._posted[semaphore], tuple(self._program.semaphores[semaphore].split())
        counted, place = 0, 0
        for value in sorted(self._waited[semaphore]):
            for post in posted[place:value]:
                counted |= 1 << post.step
            place = value
            following = min((v for v in self._waited[semaphore] if v > value), default=len(posted))
            for step in dict.fromkeys(post.step for post in posted[value:following]):
                before = counted & ~self._known_at[step] & ~(1 << step)
                if not all(self._follows(key, first, step) for first in _members(before)):
                    name = self._program.semaphores[semaphore]
                    raise self._broken(step, f'may post "{name}" before it has {value} posts')

    def _follows(self, key: Key, first: int, last: int) -> bool:
        """Return whether an earlier instruction of a queue has ended where a later one has."""
        return follows(key, self._drafts[first].instruction, self._drafts[last].instruction)

    def _broken(self, step: int, message: str) -> BrokenPassError:
        kind = type(self._program.instructions[step]).__name__
        return BrokenPassError("sync", f"instruction {step} ({kind}) {message}")


def _members(steps: StepSet) -> Iterator[int]:
    """Yield the numbers in a set."""
    while steps:
        lowest = steps & -steps
        yield lowest.bit_length() - 1
        steps ^= lowest
