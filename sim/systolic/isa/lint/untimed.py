"""Run a program without time: does it come to its end, and in which order can it start?

Semaphores only count up and queues are in order, so whether a program gets stuck does not depend on
timing. Executing instructions that can start, in any order, decides it. In the order that is found
every instruction comes after all instructions that must come before it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

from systolic.hw.spec import Chip
from systolic.isa.effects import times
from systolic.isa.instruction import Wait
from systolic.isa.lint.diagnostic import Diagnostic, named
from systolic.isa.program import Program


@dataclass(frozen=True, slots=True)
class Execution:
    """order: instructions in the order of their starts; counts: posts of each semaphore at the end;
    stuck: (instruction, its first wait that is not satisfied) at the head of each stuck queue.
    """

    order: tuple[int, ...]
    counts: tuple[int, ...]
    stuck: tuple[tuple[int, Wait], ...]


def execute(program: Program, chip: Chip) -> Execution:
    """Start instructions as soon as they can, the lowest index first."""
    queues = program.queues()
    counts = [0] * len(program.semaphores)
    asleep: dict[int, list[tuple[int, str]]] = defaultdict(list)
    places = dict.fromkeys(queues, 0)
    ready = [(queue[0], name) for name, queue in queues.items()]
    heapq.heapify(ready)
    order: list[int] = []
    stuck: dict[str, tuple[int, Wait]] = {}
    while ready:
        index, name = heapq.heappop(ready)
        instruction = program.instructions[index]
        wait = next((w for w in instruction.waits if counts[w.semaphore] < w.value), None)
        if wait is not None:
            heapq.heappush(asleep[wait.semaphore], (wait.value, name))
            stuck[name] = index, wait
            continue
        stuck.pop(name, None)
        order.append(index)
        places[name] += 1
        if places[name] < len(queues[name]):
            heapq.heappush(ready, (queues[name][places[name]], name))
        for post in instruction.posts:
            counts[post.semaphore] += times(instruction, post, chip)
            sleepers = asleep[post.semaphore]
            while sleepers and sleepers[0][0] <= counts[post.semaphore]:
                _, other = heapq.heappop(sleepers)
                heapq.heappush(ready, (queues[other][places[other]], other))
    return Execution(tuple(order), tuple(counts), tuple(sorted(stuck.values(), key=_by_index)))


def _by_index(head: tuple[int, Wait]) -> int:
    return head[0]


def deadlocks(program: Program, execution: Execution) -> list[Diagnostic]:
    """Return a finding for the head of every stuck queue: its wait, and why that never ends.

    This is for programs that post every semaphore often enough; `systolic.isa.lint.lint` looks for
    other programs first.
    """
    done = set(execution.order)
    posters: dict[int, int] = {}
    for index, instruction in enumerate(program.instructions):
        for post in instruction.posts:
            if index not in done:
                posters.setdefault(post.semaphore, index)
    heads = {program.instructions[index].queue: index for index, _ in execution.stuck}
    return [
        _stuck(program, head, execution.counts[head[1].semaphore], posters, heads)
        for head in execution.stuck
    ]


def _stuck(
    program: Program,
    stuck: tuple[int, Wait],
    count: int,
    posters: dict[int, int],
    heads: dict[str, int],
) -> Diagnostic:
    instructions, (index, wait) = program.instructions, stuck
    poster = posters[wait.semaphore]
    message = (
        f"{waiting(program, index, wait)}, it stays at {count}: "
        f"{named(poster, instructions[poster])}, which posts it, "
        f"{_where(program, poster, heads[instructions[poster].queue], index)}"
    )
    involved = dict.fromkeys((index, poster))
    kinds = tuple((i, type(instructions[i]).__name__) for i in involved)
    return Diagnostic("deadlock", "error", message, kinds)


def _where(program: Program, poster: int, head: int, waiting: int) -> str:
    if poster == waiting:
        return "is that instruction itself"
    if poster == head:
        return f"is stuck at the head of {program.instructions[poster].queue}"
    stuck = named(head, program.instructions[head])
    return f"stands in {program.instructions[poster].queue} behind {stuck}, which is stuck"


def waiting(program: Program, index: int, wait: Wait) -> str:
    """Return ``instruction 3 (Copy) waits for semaphore s0 "ready" to reach 2``."""
    return (
        f"{named(index, program.instructions[index])} waits for semaphore s{wait.semaphore} "
        f'"{program.semaphores[wait.semaphore]}" to reach {wait.value}'
    )
