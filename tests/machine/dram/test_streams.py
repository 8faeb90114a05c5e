"""Is the cycle right? Random streams of descriptors against a third model of DRAM, in tests alone.

The event engine computes, `support.dram_reference` steps burst by burst; pure transfers, every
queue with state-buffer banks of its own, so that nothing but DRAM decides.
"""

from __future__ import annotations

from random import Random

import pytest

from support.chips import ideal_chip
from support.dram_reference import Rules, Run, reference
from support.random_programs import aside
from support.random_transfers import random_organisation
from support.tiers import quick_first
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate

QUICK, MANY = 100, 1000
QUEUES, BANK = 4, 4096
ENGINES = "event", "register"


def _chip(rng: Random):
    return ideal_chip(
        2,
        2,
        state_buffer={
            "bytes_per_partition": 2 * QUEUES * BANK,
            "banks": 2 * QUEUES,
            "port_bytes": aside(rng, "ports").choice([None, 4, 6, 16, 40]),
            "port_scope": aside(rng, "scope").choice(["partition", "bank"]),
        },
        dma={
            "queues": QUEUES,
            "latency_cycles": rng.choice([0, 1, 4]),
            "descriptor_cycles": rng.choice([0, 0, 1, 3]) * aside(rng, "more").choice([1, 4]),
            "bytes_per_cycle": rng.choice([1, 3, 8, 64]) * aside(rng, "wide").choice([1, 16]),
            "descriptor_cost": aside(rng, "cost").choice(["sum", "max"]),
        },
        dram=random_organisation(rng),
        result_buffer={"dma_readable": True},
    )


def rules_of(chip) -> Rules:
    """Return what the third model needs to know of a chip."""
    parts = chip.dram.organisation.model_dump()
    return Rules(
        **parts,
        size_bytes=chip.dram.size_bytes,
        bytes_per_cycle=chip.dram.bytes_per_cycle // parts["channels"],
        queue_bytes_per_cycle=chip.dma.bytes_per_cycle // chip.dma.queues_per_engine,
        latency=chip.dma.latency_cycles + chip.dram.latency_cycles,
        fetch=chip.dma.descriptor_cycles,
        descriptor_cost=chip.dma.descriptor_cost,
        port_bytes=chip.state_buffer.port_bytes,
        port_bank_bytes=chip.state_buffer.bank_bytes,
    )


def _copy(rng: Random, queue: int) -> tuple[DmaCopy, list[Run]]:
    """Return a copy of `count` runs with gaps between them, and its descriptors.

    On the chip it lies in one partition or in two, perhaps across two banks.
    """
    more = aside(rng, "near")
    count, length, gap = rng.randint(1, 9), rng.randint(1, 90), rng.choice([1, 7, 64, 250])
    step = length + gap
    span = step * (count - 1) + length
    a, b = (rng.randint(0, 4096 - span) if span < 4096 else 0 for _ in range(2))
    kind = rng.choice(["in", "out", "within"])
    if kind == "out" and more.random() < 0.3:
        return _bypass(more, queue)
    rows = 1 if kind == "within" else more.choice([1, 1, 2])
    near = (2 * queue * BANK) + (a if kind == "out" else b) + more.choice([0, 0, BANK - span // 2])
    on_chip = Access(Buffer.STATE, "u8", 0, rows, near, ((step, count), (1, length)))
    pattern = ((step, rows * count), (1, length))
    into = 8192 * (queue + 1) + b
    source = on_chip if kind == "out" else Access(Buffer.DRAM, "u8", 0, 1, a, pattern)
    target = on_chip if kind == "in" else Access(Buffer.DRAM, "u8", 0, 1, into, pattern)
    runs = [
        Run(
            None if kind == "out" else a + n * step,
            None if kind == "in" else into + n * step,
            length,
            None if kind == "within" else (n // count, near + n % count * step),
        )
        for n in range(rows * count)
    ]
    return DmaCopy(dma_queue=queue, source=source, target=target), runs


def _bypass(rng: Random, queue: int) -> tuple[DmaCopy, list[Run]]:
    """Return a copy from the queue's bank of the result buffer to DRAM."""
    count, words, gap = rng.randint(1, 6), rng.randint(1, 24), rng.choice([0, 1, 9])
    rows, step, into = rng.choice([1, 2]), words + gap, 8192 * (queue + 1) + 4 * rng.randint(0, 99)
    source = Access(Buffer.RESULT, "f32", 0, rows, queue * 2048, ((step, count), (1, words)))
    target = Access(Buffer.DRAM, "f32", 0, 1, into, ((step + 1, rows * count), (1, words)))
    return DmaCopy(dma_queue=queue, source=source, target=target), [
        Run(None, into + 4 * n * (step + 1), 4 * words) for n in range(rows * count)
    ]


def _compare(seed: int, engines=ENGINES):
    rng = Random(seed)
    chip = _chip(rng)
    copies, queues = [], [[] for _ in range(QUEUES)]
    for _ in range(rng.randint(1, 14)):
        queue = rng.randrange(QUEUES)
        copy, runs = _copy(rng, queue)
        copies.append(copy)
        queues[queue].append(runs)
    program = Program("streams", tuple(copies))
    expected = reference(rules_of(chip), queues)
    for engine in engines:
        trace = simulate(chip, program, values=False, engine=engine).trace
        found = [[t.done for t in trace.times if t.unit == f"dma{q}"] for q in range(QUEUES)]
        assert [sorted(ends) for ends in found] == expected.ends
        channels = trace.transfers.channels.values()
        assert sum(c.hits for c in channels) == expected.hits
        assert sum(c.opened for c in channels) == expected.opened
        assert sum(c.conflicts for c in channels) == expected.conflicts
    return expected


FOUND = 212  # a queue that has all the buses it can use lets others go first, in every channel


@pytest.mark.parametrize("seed", quick_first([FOUND, *range(QUICK)], 10))
def test_random_descriptor_streams(seed):
    _compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_descriptor_streams(part):
    for seed in range(QUICK + part, QUICK + MANY, 4):
        _compare(seed)


@pytest.mark.slow
def test_the_streams_find_rows_open_closed_and_in_conflict():
    results = [_compare(seed) for seed in range(40)]
    for kind in ("hits", "opened", "conflicts"):
        assert sum(bool(getattr(result, kind)) for result in results) > 20, kind
