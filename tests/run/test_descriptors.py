"""Are the descriptors of a run told as they were: addresses, bytes, direction, cycles?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.command_line import run_command
from support.random_programs import random_chip, random_dma, spread_over_engines
from support.random_transfers import RandomTransfers
from support.tiers import quick_first
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate
from systolic.machine.memory import Memory
from systolic.run.descriptors import WORDS_NEEDED, DescriptorSide, csv, descriptors
from systolic.run.result import Result


def told(chip: Chip, program: Program, images=(), engine="event"):
    run = simulate(chip, program, images, kinds=WORDS_NEEDED, engine=engine)
    return run, list(descriptors(Result({}, {}, run.trace, chip, program)))


@pytest.mark.parametrize("engine", ["event", "register"])
def test_two_rows_for_each_descriptor(engine):
    """Two copies of a queue at 8 bytes per cycle: 2 runs of 20 bytes behind 10 + 1, then one of 4.

    A descriptor is fetched in 2 cycles and moves 20 bytes in 3. Both latencies overlap.
    """
    chip = ideal_chip(
        4, 4,
        dma={"queues": 1, "bytes_per_cycle": 8, "latency_cycles": 10, "descriptor_cycles": 2,
             "outstanding": 2},
        dram={"bytes_per_cycle": 8, "latency_cycles": 1},
    )  # fmt: skip
    rows = Access(Buffer.DRAM, "f32", 0, 1, 400, ((7, 2), (1, 5)))
    copies = (
        DmaCopy(dma_queue=0, source=rows, target=state(1, 2, 64, 5)),
        DmaCopy(dma_queue=0, source=state(3, 1, 8192, 1), target=state(0, 1, 16384, 1)),
    )
    _, found = told(chip, Program("rows", copies), engine=engine)
    assert list(csv(found)) == [
        "unit,first,last,direction,buffer,partition,address,bytes",
        "dma0,11,15,read,dram,0,400,20",
        "dma0,11,15,write,state_buffer,1,64,20",
        "dma0,16,20,read,dram,0,428,20",
        "dma0,16,20,write,state_buffer,2,64,20",
        "dma0,21,23,read,state_buffer,3,8192,4",
        "dma0,21,23,write,state_buffer,0,16384,4",
    ]


def _copies_only(seed: int):
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 2 == 0).model_dump()
    chip["dma"] |= random_dma(rng, 4)
    made = Chip.model_validate(chip)
    if seed % 4 == 3:
        made = spread_over_engines(made, rng)
    program, images = RandomTransfers(rng, made).build(rng.randint(2, 10))
    copies = [
        replace(step, waits=(), posts=())
        for step in program.instructions
        if isinstance(step, DmaCopy)
    ]
    return made, Program("copies", tuple(copies)), images


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_they_move_what_the_run_moves_in_order_and_one_at_a_time(seed):
    """Replayed one by one they leave the bytes that the run leaves; both engines tell the same."""
    chip, program, images = _copies_only(seed)
    run, found = told(chip, program, images)
    assert told(chip, program, images, engine="register")[1] == found
    memory = Memory(chip, program, images)
    for read, write in zip(found[::2], found[1::2], strict=True):
        assert (read.direction, write.direction, read.bytes) == ("read", "write", write.bytes)
        _bytes(memory, write)[:] = _bytes(memory, read)
    for buffer in Buffer:
        assert np.array_equal(memory.bytes_of(buffer), run.memory.bytes_of(buffer))
    for unit in {side.unit for side in found}:
        mine = [side for side in found[::2] if side.unit == unit]
        assert all(side.first <= side.last for side in mine)
        for one, two in pairwise(mine):  # side by side, or one after the other
            assert one[:3] == two[:3] or one.last < two.first
        copies = [t for t in run.trace.times if t.unit == unit]
        assert mine[-1].last == max(t.done for t in copies) // run.trace.periods[unit]


def _bytes(memory: Memory, side: DescriptorSide):
    rows = memory.bytes_of(Buffer(side.buffer))
    return rows[side.partition, side.address : side.address + side.bytes]


def test_the_command_prints_them(tmp_path):
    status, out, err = run_command(
        "trace", "configs/runs/transpose_dram.toml", "--kind", "descriptor",
        "--set", "workload.shape=f32[8,8]",
    )  # fmt: skip
    assert (status, err) == (0, "")
    lines = out.splitlines()
    # Within DRAM, element by element; a latency of 600 + 42 and 7 cycles to fetch a descriptor
    assert lines[0] == "unit,first,last,direction,buffer,partition,address,bytes"
    assert lines[1] == "dma0,642,649,read,dram,0,0,4"
    assert len(lines) == 1 + 2 * 64
