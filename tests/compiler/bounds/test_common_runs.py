"""Runs that are side by side in both places of a move, and what DMA engines must pass for it.

Runs are counted place by place. Two programs on a chip whose copies are spread take no less than
the bound: one that goes by the chip, and one that copies within DRAM and then puts right what lies
elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from support.chips import ideal_chip
from systolic.compiler.bounds.common_runs import FARTHEST, common_runs
from systolic.compiler.bounds.run import run_bound
from systolic.hw.formulas.moves import CommonRuns, passed_bound
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.layout import Shape
from systolic.machine import Image, simulate
from systolic.workload import GraphBuilder

TILES = {"f32": [""], "bf16": ["", "(2,1)"], "s8": ["", "(4,1)"]}


def drawn(rng: Random, dims: list[int], dtype: str) -> Shape:
    """Return a shape in any order, in half of all cases in tiles."""
    order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
    tiles = f":T({rng.choice([4, 8])},{rng.choice([4, 16])}){rng.choice(TILES[dtype])}"
    tiles = tiles if rng.random() < 0.5 else ""
    return Shape.parse(f"{dtype}[{','.join(map(str, dims))}]{{{order}{tiles}}}")


def counted(source: Shape, result: Shape, axes: list[int] | None) -> tuple[int, int]:
    """Return the longest run and the least gap between runs of one distance, in elements."""
    numbers = np.arange(source.num_elements())
    index = np.unravel_index(numbers, source.dims)
    there = np.unravel_index(numbers, result.dims) if axes is None else [index[a] for a in axes]
    to = dict(
        zip(
            source.linear_index([*index]).tolist(),
            result.linear_index([*there]).tolist(),
            strict=True,
        )
    )
    by_distance = defaultdict(list)
    for place in sorted(to):
        by_distance[to[place] - place].append(place)
    longest, gap = 1, FARTHEST
    for places in by_distance.values():
        run = 1
        for one, other in pairwise(places):
            run = run + 1 if other == one + 1 else 1
            longest = max(longest, run)
            if other > one + 1:
                gap = min(gap, other - one - 1)
    return longest, gap


@pytest.mark.parametrize("seed", range(200))
def test_runs_are_those_of_memory(seed: int) -> None:
    rng = Random(seed)
    dims = [rng.choice([1, 2, 3, 4, 8, 9, 20]) for _ in range(rng.randint(2, 3))]
    dtype = rng.choice([*TILES])
    axes = rng.sample(range(len(dims)), len(dims)) if rng.random() < 0.7 else None
    after = [dims[axis] for axis in axes] if axes else [dims[0] * dims[1], *dims[2:]]
    after = after if len(after) > 1 else [dims[1], dims[0]]
    source, result = drawn(rng, dims, dtype), drawn(rng, after, dtype)
    found = common_runs(source, result, tuple(axes) if axes else None)
    assert found is not None
    size = source.dtype.itemsize
    longest, gap = counted(source, result, axes)
    assert found.size_bytes == source.num_elements() * size
    assert (found.longest_bytes, found.gap_bytes) == (longest * size, gap * size)


def spread(**dma: object):
    """Return a chip of four queues on four engines, each of a byte in a cycle."""
    return ideal_chip(8, 8, dma={
        "queues": 4, "engines": 4, "partitions_per_engine": 2, "bytes_per_cycle": 4,
        "descriptor_cost": "max", "descriptor_cycles": 64, "outstanding": 8, **dma,
    }, dram={"bytes_per_cycle": 64, "latency_cycles": 0}, state_buffer={
        "port_scope": "bank", "bytes_per_partition": 8192, "banks": 8})  # fmt: skip


def test_bytes_that_pass_twice_by_hand() -> None:
    """1,600 bytes in runs of 8, 24 apart: engines pass 16 in a cycle, queues fetch 16 in 64.

    So D = 4 cycles, B = 1/16: a = 4 * 16 / 8 = 8, h = 4 * 16 / 24 = 8/3. Twice all bytes take 200
    cycles, of which (8 + 8/3) / (1 + 8 + 16/3) = 32/43.
    """
    bound = passed_bound(spread(), CommonRuns(1600, 8, 24))
    assert bound.ticks == 200 * 32 // 43
    assert bound.why == "bytes that pass DMA engines twice"
    assert passed_bound(spread(latency_cycles=9), CommonRuns(1600, 8, 24)).ticks == 9 + 148


def lies(at: int, *pattern: tuple[int, int]) -> Access:
    return Access(Buffer.DRAM, "f32", 0, 1, at, pattern)


def within(queue: int, source: int, target: int, *pattern: tuple[int, int]) -> DmaCopy:
    return DmaCopy(dma_queue=queue, source=lies(source, *pattern), target=lies(target, *pattern))


@pytest.mark.parametrize("cost", [1, 4, 16, 64])
def test_a_program_that_brings_half_of_the_words_to_their_places_with_one_copy(cost: int) -> None:
    """f32[64,2,2] turned: of four words the second and the third change places.

    Each queue copies a quarter of all words, and then brings those two where they belong.
    """
    chip, builder = spread(descriptor_cycles=cost), GraphBuilder(home="dram")
    builder.tensor("x", "f32[64,2,2]")
    builder.transpose("x", "f32[64,2,2]", (0, 2, 1), name="y")
    part, result = 256, 4096
    copies = [
        copy
        for queue in range(4)
        for at in (queue * part,)
        for copy in (
            within(queue, at, result + at, (1, part // 4)),
            within(queue, at + 4, result + at + 8, (4, part // 16)),
            within(queue, at + 8, result + at + 4, (4, part // 16)),
        )
    ]
    words = np.arange(256, dtype=np.float32)
    ran = simulate(chip, Program("y", tuple(copies)), [Image(lies(0, (1, 256)), words[None])])
    made = ran.memory.read(lies(result, (1, 256))).reshape(64, 2, 2)
    assert (made == words.reshape(64, 2, 2).transpose(0, 2, 1)).all()
    assert ran.trace.ticks >= run_bound(builder.graph(), chip).ticks
