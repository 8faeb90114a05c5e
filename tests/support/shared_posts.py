"""Several posters to one semaphore: posts and waits that a program gets besides its own.

Waits make a program slower and nothing else: an instruction waits for no more posts than those
before it in the program make, so nothing stands still, and what was ordered stays so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from systolic.hw.spec import Chip
from systolic.isa import MatMul, Post, Program, Wait
from systolic.isa.effects import times


def with_shared_posts(program: Program, chip: Chip, rng: Random) -> Program:
    """Return the program with one to three more semaphores, each for all queues or for one."""
    names = list(program.queues())
    shared = [
        _Shared(len(program.semaphores) + n, _posters(rng, names)) for n in range(rng.randint(1, 3))
    ]
    instructions = []
    for instruction in program.instructions:
        waits, posts = instruction.waits, instruction.posts
        known = rng.choice(shared)
        if known.made and rng.random() < 0.4:
            value = known.made - min(int(rng.expovariate(0.5)), known.made - 1)
            waits = (*waits, Wait(known.number, value))
        mine = [one for one in shared if instruction.queue in one.queues]
        if mine and rng.random() < 0.7:
            chosen = rng.choice(mine)
            is_multiply = isinstance(instruction, MatMul)
            on = rng.choice(["done", "row", "partition"]) if is_multiply else "done"
            post = Post(chosen.number, on)
            chosen.made += times(instruction, post, chip)
            posts = (*posts, post)
        instructions.append(replace(instruction, waits=waits, posts=posts))
    semaphores = (*program.semaphores, *(f"shared{one.number}" for one in shared))
    return replace(program, instructions=tuple(instructions), semaphores=semaphores)


@dataclass
class _Shared:
    """A semaphore, the queues that post it, and the posts of the instructions so far."""

    number: int
    queues: list[str]
    made: int = 0


def _posters(rng: Random, names: list[str]) -> list[str]:
    is_any = rng.random() < 0.4 or not names
    return names if is_any else [rng.choice(names)]
