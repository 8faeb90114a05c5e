"""The joint program of a chip: the instructions of all launches, numbered through.

Both engines run it, and all records and reports number instructions and semaphores as it does.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from systolic.hw.spec import MultiCoreChip
from systolic.hw.spec.places import ChipPlace, joined
from systolic.isa.formats.chip_module import ChipModule
from systolic.isa.instruction import Command, Instruction, Post, RemotePost, Wait
from systolic.isa.launches import Launch, launches
from systolic.isa.program import Program


@dataclass(frozen=True)
class JointProgram:
    """What a chip of several cores runs.

    program: its instructions wait for and post semaphores of the whole chip. A post to another
    place is one to the same semaphore of each launch there: one that has ended, or has not begun
    when the post becomes visible, does not count it.
    """

    module: ChipModule
    chip: MultiCoreChip
    launches: tuple[Launch, ...]
    program: Program

    @classmethod
    def of(cls, module: ChipModule, chip: MultiCoreChip) -> JointProgram:
        """Return the joint program of one that is legal on the chip."""
        found = launches(module, chip)
        at: defaultdict[str, list[Launch]] = defaultdict(list)
        for launch in found:
            at[launch.at].append(launch)
        instructions = [
            _renumbered(instruction, launch, at)
            for launch in found
            for instruction in launch.program.instructions
        ]
        names = [joined(launch.at, name) for launch in found for name in launch.program.semaphores]
        return cls(module, chip, found, Program(module.name, tuple(instructions), tuple(names)))

    @cached_property
    def launch_of(self) -> tuple[int, ...]:
        """Return, by instruction, the number of its launch."""
        return tuple(
            number
            for number, launch in enumerate(self.launches)
            for _ in launch.program.instructions
        )

    @cached_property
    def launch_of_semaphore(self) -> tuple[int, ...]:
        """Return, by semaphore, the number of the launch that it belongs to."""
        return tuple(
            number for number, launch in enumerate(self.launches) for _ in launch.program.semaphores
        )

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Return, by instruction, the queue of the chip that has it: ``core1.pe_array``."""
        return tuple(
            str(launch.at)
            if isinstance(instruction, Command)
            else joined(launch.at, instruction.queue)
            for launch in self.launches
            for instruction in launch.program.instructions
        )

    @cached_property
    def queues(self) -> tuple[dict[str, list[int]], ...]:
        """Return, by launch, the instructions of each of its queues, by their local names."""
        found: tuple[dict[str, list[int]], ...] = tuple({} for _ in self.launches)
        for index, (number, instruction) in enumerate(
            zip(self.launch_of, self.program.instructions, strict=True)
        ):
            found[number].setdefault(instruction.queue, []).append(index)
        return found

    @cached_property
    def posters(self) -> tuple[str, ...]:
        """Return, by semaphore number, the units that post it, joined by "+"."""
        units: list[dict[str, None]] = [{} for _ in self.program.semaphores]
        for unit, instruction in zip(self.units, self.program.instructions, strict=True):
            for post in instruction.posts:
                units[post.semaphore][unit] = None
        return tuple("+".join(names) or "no unit" for names in units)

    def hops(self, poster: ChipPlace, semaphore: int) -> int:
        """Return the hops of a post from a place to a semaphore."""
        owner = self.launches[self.launch_of_semaphore[semaphore]].section.place
        return self.chip.post_hops(poster, owner) or 0


def _renumbered(
    instruction: Instruction, launch: Launch, at: dict[str, list[Launch]]
) -> Instruction:
    first = launch.first_semaphore
    if not (instruction.waits or instruction.posts):
        return instruction
    waits = tuple(Wait(w.semaphore + first, w.value) for w in instruction.waits)
    posts = tuple(chain.from_iterable(_posts(post, first, at) for post in instruction.posts))
    return replace(instruction, waits=waits, posts=posts)


def _posts(post: Post, first: int, at: dict[str, list[Launch]]) -> list[Post]:
    if not isinstance(post, RemotePost):
        return [Post(post.semaphore + first, post.on)]
    return [
        Post(post.semaphore + launch.first_semaphore, post.on)
        for launch in at.get(post.at, ())
        if post.semaphore < len(launch.program.semaphores)
    ]
