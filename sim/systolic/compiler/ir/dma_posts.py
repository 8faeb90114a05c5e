"""Waits for copies on a chip whose DMA engines each post for a copy: for all of these posts.

The passes count a copy as one post. A wait for n copies is then for n times as many posts as a copy
makes on the chip.
"""

from __future__ import annotations

from dataclasses import replace

from systolic.hw.spec import Chip
from systolic.isa import DmaCopy, Instruction, Program, Wait


def waits_for_dma_engines(program: Program, chip: Chip) -> Program:
    """Return a program that counts a copy as one post, with the waits that the chip needs.

    A semaphore that copies post, nothing else posts.
    """
    posts = chip.dma.posts_per_copy
    if posts == 1:
        return program
    of_copies = {
        post.semaphore
        for instruction in program.instructions
        if isinstance(instruction, DmaCopy)
        for post in instruction.posts
    }
    found = tuple(_scaled(each, of_copies, posts) for each in program.instructions)
    return replace(program, instructions=found)


def _scaled(instruction: Instruction, semaphores: set[int], posts: int) -> Instruction:
    if not any(wait.semaphore in semaphores for wait in instruction.waits):
        return instruction
    waits = tuple(
        Wait(wait.semaphore, wait.value * posts) if wait.semaphore in semaphores else wait
        for wait in instruction.waits
    )
    return replace(instruction, waits=waits)
