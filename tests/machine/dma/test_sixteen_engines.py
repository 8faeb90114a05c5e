"""Do 16 DMA engines of 16 queues move what the published curve says? Trn2's figures, both engines.

A transfer of 128 rows is dealt out by partition, 8 rows to each engine, and each engine posts once:
what needs the transfer waits for 16 posts. A row takes an engine the longer of 105 ns and its bytes
at 23 bytes per ns. The curve (aws-neuron-sdk, nki/deep-dives/nki-dma-bandwidth-guide) has 81 % of
the peak at 2 KiB per partition and 97 % at 4 KiB; below 2 KiB a row takes about 105 ns.
"""

from __future__ import annotations

import pytest

from support.chips import ideal_chip
from systolic.engine_kind import EngineKind
from systolic.isa import Access, Buffer, Copy, DmaCopy, Post, Program, Wait
from systolic.machine import simulate
from systolic.trace.records import Trace

ENGINES, ROWS, RATE, LATENCY = 16, 8, 23, 600
CHIP = ideal_chip(
    128, 128,
    state_buffer={"bytes_per_partition": 229376, "port_scope": "partition"},
    dma={"queues": 256, "engines": ENGINES, "bytes_per_cycle": RATE, "latency_cycles": LATENCY,
         "descriptor_cycles": 105, "descriptor_cost": "max", "outstanding": 4},
    dram={"bytes_per_cycle": 2900},
)  # fmt: skip


def part(engine: int, row_bytes: int, number: int) -> DmaCopy:
    """Return what an engine brings of transfer `number`: 8 rows, by the first of its queues."""
    elements = row_bytes // 2
    base = (number * 128 + engine * ROWS) * row_bytes
    source = Access(Buffer.DRAM, "bf16", 0, 1, base, ((elements, ROWS), (1, elements)))
    target = Access(Buffer.STATE, "bf16", engine * ROWS, ROWS, number * 8192, ((1, elements),))
    return DmaCopy(dma_queue=engine, source=source, target=target, posts=(Post(number),))


def transfers(row_bytes: int, count: int) -> list[DmaCopy]:
    return [part(engine, row_bytes, n) for n in range(count) for engine in range(ENGINES)]


def run(program: Program, engine: EngineKind = "event") -> Trace:
    return simulate(CHIP, program, values=engine == "register", engine=engine).trace


def share_of_peak(row_bytes: int) -> float:
    """Return the part of the peak rate at which one transfer follows another."""
    trace = run(Program("curve", tuple(transfers(row_bytes, 2)), ("first", "second")))
    ends = [time.done for time in trace.times]
    apart = max(ends) - min(ends)
    return 128 * row_bytes / apart / (ENGINES * RATE)


@pytest.mark.parametrize(("row_bytes", "published"), [(2048, 0.81), (4096, 0.97)])
def test_the_points_of_the_curve(row_bytes: int, published: float) -> None:
    assert share_of_peak(row_bytes) == pytest.approx(published, abs=0.05)


@pytest.mark.parametrize("row_bytes", [64, 512, 1024, 2048])
def test_short_rows_take_105_ns_whatever_their_length(row_bytes: int) -> None:
    assert share_of_peak(row_bytes) == pytest.approx(row_bytes / 105 / RATE)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_a_wait_for_16_posts_is_one_for_the_whole_transfer(engine: EngineKind) -> None:
    """15 engines bring rows of 64 bytes, in 600 + 8 x 105 cycles; the last brings rows of 4096.

    It has no use for the rest of a row's last cycle: 600 + 8 x 179 (4096 / 23 is 178.1). The wait
    for 16 posts ends behind it.
    """
    short = [part(number, 64, 0) for number in range(ENGINES - 1)]
    here, there = (Access(Buffer.STATE, "f32", 0, 1, byte, ((1, 2),)) for byte in (65536, 98304))
    use = Copy(engine="activation", source=here, target=there, waits=(Wait(0, 16),))
    program = Program("sixteen", (*short, part(15, 4096, 0), use), ("done",))
    trace = run(program, engine)
    ends = {time.instruction: time.done + 1 for time in trace.times}
    assert {ends[number] for number in range(ENGINES - 1)} == {LATENCY + ROWS * 105}
    assert ends[15] == LATENCY + ROWS * 179
    (start,) = [time.start for time in trace.times if time.instruction == 16]
    assert start == ends[15]
