"""Are compiled programs right under any timing? An adversary runs them with random durations.

Each queue is in order, as the timing model has it; everything else takes as long as a random
number says. No two instructions may then use the same bytes at once, one of them writing, and
an instruction that reads must come after the instruction that wrote, by the program's order. Shares
no code with the compiler or the machine.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from compiler.test_graph_values import random_chip, random_graph
from support.refusals import is_for_room
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.errors import SystolicError
from systolic.isa import Buffer, Copy, DmaCopy, LoadWeights, MatMul

READS = ("weights", "moving", "source")
WRITES = ("result", "target")


def run_with_random_times(program, rng: Random) -> list[tuple[float, float, float]]:
    """Return (start, last read, done) of each instruction."""
    times: dict[int, tuple[float, float, float]] = {}
    queues = {name: list(steps) for name, steps in program.queues().items()}
    posts: dict[int, list[float]] = {}
    read_until: dict[str, float] = {}
    load_until = multiply_begun = 0.0
    last_start: dict[str, float] = {}
    lanes_until: dict[tuple[str, int], float] = {}
    while any(queues.values()):
        ready = []
        for name, steps in queues.items():
            if not steps:
                continue
            waits = program.instructions[steps[0]].waits
            if all(len(posts.get(w.semaphore, ())) >= w.value for w in waits):
                when = max([sorted(posts[w.semaphore])[w.value - 1] for w in waits], default=0.0)
                ready.append((when, name))
        assert ready, "deadlock"
        _, name = rng.choice(ready)
        step = queues[name].pop(0)
        instruction = program.instructions[step]
        start = max(next(t for t, n in ready if n == name), last_start.get(name, 0.0))
        if isinstance(instruction, DmaCopy):
            start = max(start, read_until.get(name, 0.0))
        elif isinstance(instruction, LoadWeights):
            start = max(start, load_until, multiply_begun)
        elif isinstance(instruction, MatMul):
            start = max(start, load_until, read_until.get(name, 0.0))
        lanes = [(name, lane) for lane in _lanes(instruction)]
        start = max([start, *(lanes_until.get(lane, 0.0) for lane in lanes)])
        last_read = start + rng.expovariate(1) * rng.choice([0.01, 1, 100])
        done = last_read
        if isinstance(instruction, LoadWeights):
            load_until = last_read
        else:
            if isinstance(instruction, MatMul):
                multiply_begun = start
                done += rng.expovariate(1) * rng.choice([0.01, 1, 100])
                done = max(done, read_until.get("psum", 0.0))  # sums leave the array in order
                read_until["psum"] = done
            elif not isinstance(instruction, DmaCopy):
                done += rng.expovariate(1) * rng.choice([0.01, 1, 100])
            read_until[name] = last_read
        lanes_until.update(dict.fromkeys(lanes, last_read))
        last_start[name] = start
        times[step] = start, last_read, done
        for post in instruction.posts:
            posts.setdefault(post.semaphore, []).append(done)
    return [times[step] for step in range(len(program.instructions))]


def _lanes(instruction):
    """Lanes an engine reads; it starts to read one when it has read all wanted of it before."""
    if isinstance(instruction, Copy):
        first = instruction.source.partition
        return range(first, first + instruction.source.partitions)
    return ()


def uses(instruction):
    for name in (*READS, *WRITES):
        access = getattr(instruction, name, None)
        if access is not None:
            yield access, name in WRITES


def touches(access):
    size = access.element_bytes
    cells = (access.offsets()[:, None] * size + np.arange(size)).ravel()
    return {(access.partition + p, int(c)) for p in range(access.partitions) for c in cells}


def small_program(rng):
    """Return the first random program small enough for an oracle that looks at every pair."""
    while True:
        chip, graph = random_chip(rng), random_graph(rng)
        try:
            program = compile_graph("test", graph, chip).program
        except SystolicError as error:
            assert is_for_room(error)  # noqa: PT017
            continue
        if len(program.instructions) <= 150:
            return program, graph


@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_no_two_meet_in_the_same_bytes(seed):
    rng = Random(seed)
    program, graph = small_program(rng)
    cells = [[(a.buffer, w, touches(a)) for a, w in uses(i)] for i in program.instructions]
    conflicts = [
        (a, b, any(writes for writes, _ in shared))
        for b in range(len(cells))
        for a in range(b)
        if _may_meet(program.instructions[a], program.instructions[b])
        and (shared := [
            (writes, also)
            for buffer, writes, mine in cells[a]
            for other, also, theirs in cells[b]
            if buffer == other and (writes or also) and not mine.isdisjoint(theirs)
        ])
    ]  # fmt: skip
    for _ in range(8):
        times = run_with_random_times(program, rng)
        for a, b, written in conflicts:
            until = times[a][2 if written else 1]  # what it only reads is free after the last read
            assert until <= times[b][0], f"{a} and {b} meet: {graph}"


def _may_meet(a, b) -> bool:
    """Within the array, and within a DMA queue, the order of accesses is the queue's."""
    return a.queue != b.queue or not (a.queue == "pe_array" or a.queue.startswith("dma"))


def test_the_oracle_notices_a_missing_wait():
    rng = Random(1)
    chip = random_chip(rng)
    from dataclasses import replace

    from systolic.workload import GraphBuilder

    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[9,7]{0,1}"), builder.tensor("w", "f32[7,5]")
    builder.matmul(x, w, "f32[9,5]")
    program = compile_graph("test", builder.graph(), chip).program
    bare = replace(program, instructions=tuple(replace(i, waits=()) for i in program.instructions))
    times = run_with_random_times(bare, rng)
    load = next(n for n, i in enumerate(bare.instructions) if isinstance(i, LoadWeights))
    copies = [n for n, i in enumerate(bare.instructions) if isinstance(i, DmaCopy)
              and i.target.buffer is Buffer.STATE]  # fmt: skip
    assert any(times[n][2] > times[load][0] for n in copies)
