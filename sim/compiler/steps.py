"""Steps: instructions whose order is still said by signals, not yet by semaphores.

A signal is any hashable key. A step may need a signal to have been given a number of times, and
gives signals itself. The last pass, `synchronise`, turns signals into semaphores.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from sim.isa import Instruction, Post, Program, Wait
from sim.isa.instruction import Event

Signal = Hashable


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction, the signals it needs (with how often), and those it gives (and when)."""

    instruction: Instruction
    needs: tuple[tuple[Signal, int], ...] = ()
    gives: tuple[tuple[Signal, Event], ...] = ()


@dataclass(frozen=True, slots=True)
class Synchronised:
    """A program, and how many waits and posts were found redundant."""

    program: Program
    removed_waits: int
    removed_posts: int


def synchronise(name: str, steps: Iterable[Step]) -> Synchronised:
    """Return the program of these steps, with no more semaphores than there are signals waited for.

    A wait is redundant if an earlier instruction of the same queue has waited for as much; a post
    if nobody waits for its signal.
    """
    steps = tuple(steps)
    asked: dict[tuple[str, Signal], int] = {}
    kept: list[tuple[tuple[Signal, int], ...]] = []
    removed = 0
    for step in steps:
        mine = []
        for signal, value in step.needs:
            key = step.instruction.queue, signal
            if value <= asked.get(key, 0):
                removed += 1
                continue
            asked[key] = value
            mine.append((signal, value))
        kept.append(tuple(mine))
    number = {signal: n for n, signal in enumerate(dict.fromkeys(s for _, s in asked))}
    posts_before = sum(len(step.gives) for step in steps)
    instructions = [
        replace(
            step.instruction,
            waits=tuple(Wait(number[s], value) for s, value in waits),
            posts=tuple(Post(number[s], on) for s, on in step.gives if s in number),
        )
        for step, waits in zip(steps, kept, strict=True)
    ]
    names = tuple(" ".join(map(str, s)) if isinstance(s, tuple) else str(s) for s in number)
    program = Program(name, tuple(instructions), names)
    return Synchronised(program, removed, posts_before - sum(len(i.posts) for i in instructions))
