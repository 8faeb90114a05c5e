"""Do DMA queues take the time the formula of section 6 gives, and share what they share?"""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import state
from support.chips import ideal_chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import Image, simulate
from systolic.trace.records import Stall


def dram(start, *pattern, dtype="f32"):
    return Access(Buffer.DRAM, dtype, 0, 1, start, pattern)


def chip(dma=None, dram=None):
    return ideal_chip(
        4,
        4,
        dma={"queues": 3, "bytes_per_cycle": 8, **(dma or {})},
        dram={"bytes_per_cycle": 64, **(dram or {})},
    )


def run(chip, *copies, images=(), kinds=()):
    return simulate(chip, Program("dma", copies), images, engine="register", kinds=kinds)


def move(source, target, queue=0):
    return DmaCopy(dma_queue=queue, source=source, target=target)


@pytest.mark.parametrize(
    ("source", "target", "runs"),
    [
        (dram(0, (1, 12)), state(0, 1, 0, 12), [48]),
        (dram(0, (1, 12)), state(0, 4, 0, 3), [12] * 4),  # a partition ends a run
        (dram(0, (1, 12)), Access(Buffer.STATE, "f32", 0, 1, 0, ((5, 3), (1, 4))), [16] * 3),
        (dram(0, (2, 5)), state(0, 1, 0, 5), [4] * 5),
        (dram(16, (-1, 3)), state(0, 1, 0, 3), [4] * 3),
        # the last element of a partition and the first of the next: 0 and 1, but no run
        (dram(0, (1, 4)), Access(Buffer.STATE, "f32", 0, 2, 4, ((-1, 2),)), [4] * 4),
        (dram(0, (3, 2), (1, 3)), state(0, 1, 0, 6), [24]),  # contiguous after all
        (state(0, 2, 0, 5, "s8"), dram(0, (5, 2), (1, 5), dtype="s8"), [5, 5]),
    ],
)
def test_a_copy_costs_its_latency_and_each_descriptor_its_fetch_and_bytes(source, target, runs):
    spec = chip({"latency_cycles": 3, "descriptor_cycles": 2}, {"latency_cycles": 4})
    trace = run(spec, move(source, target)).trace
    cycles = 3 + 4 + sum(2 + -(-size // 8) for size in runs)
    assert trace.times[0].done == cycles - 1
    assert trace.times[0].first == 3 + 4 + 2
    labels = [run.label for run in trace.labels["dma0"]]
    assert labels == ["filling", "streaming"]
    assert trace.labels["dma0"][0].stop == 7


def test_state_to_state_pays_no_dram_latency():
    spec = chip({"latency_cycles": 3}, {"latency_cycles": 4, "bytes_per_cycle": 1})
    trace = run(spec, move(state(0, 1, 0, 4), state(1, 1, 8192, 4))).trace
    assert (trace.times[0].first, trace.times[0].done) == (3, 4)


def test_the_dram_is_shared_by_the_copies_past_their_latency():
    spec = chip({"bytes_per_cycle": 8}, {"bytes_per_cycle": 12})
    trace = run(
        spec,
        move(dram(0, (1, 16)), state(0, 1, 0, 16), queue=0),
        move(dram(0, (1, 4)), state(1, 1, 8192, 4), queue=1),
        move(state(2, 1, 2 * 8192, 2), state(3, 1, 3 * 8192, 2), queue=2),
    ).trace
    # two share 12 bytes: 6 each. Queue 1 has its 16 bytes after 3 cycles; queue 0 then has moved
    # 18 and goes on at 8: 46 more take 6. Queue 2 does not touch DRAM.
    assert [t.done for t in trace.times] == [2 + 6, 2, 0]


def test_with_fewer_bytes_than_queues_they_take_turns():
    trace = run(
        chip(dram={"bytes_per_cycle": 1}),
        *[move(dram(64 * q, (1, 1)), state(q, 1, 8192 * q, 1), queue=q) for q in range(3)],
    ).trace
    # cycle t is queue t mod 3's; each has 4 bytes to move
    assert [t.first for t in trace.times] == [0, 1, 2]
    assert [t.done for t in trace.times] == [9, 10, 11]


def test_a_queue_starts_its_next_copy_in_the_cycle_after():
    copies = [move(dram(0, (1, 4)), state(0, 1, 16 * n, 4)) for n in range(3)]
    trace = run(chip(), *copies).trace
    assert [(t.start, t.done) for t in trace.times] == [(0, 1), (2, 3), (4, 5)]


def test_the_lower_queue_wins_a_port():
    trace = run(
        chip(),
        move(state(0, 1, 0, 4), dram(0, (1, 4)), queue=1),
        move(state(1, 1, 64, 4), dram(64, (1, 4)), queue=0),
    ).trace
    assert [(t.first, t.done) for t in trace.times] == [(2, 3), (0, 1)]
    assert trace.stalls == (Stall(0, "dma1", 0, 2, "state_buffer", 0, "read", "dma"),)
    assert trace.labels["dma1"][0].label == "stalled by dma"


def test_bytes_of_a_cycle_may_need_two_banks():
    trace = run(chip(), move(state(0, 1, 8192 - 4, 2), dram(0, (1, 2)))).trace
    assert trace.port_cycles == {
        ("state_buffer", 0, "read"): 1,
        ("state_buffer", 1, "read"): 1,
    }


def test_elements_arrive_in_order_and_words_are_noted_when_their_descriptor_ends():
    values = np.arange(12, dtype=np.float32)[None]
    source, target = dram(0, (1, 12)), state(1, 3, 8, 4)
    outcome = run(
        chip(), move(source, target), images=[Image(source, values)], kinds=["read", "write"]
    )
    assert outcome.memory.read(target).tolist() == values.reshape(3, 4).tolist()
    rows = outcome.trace.words.of("write").rows
    assert rows["tick"].tolist() == [1] * 4 + [3] * 4 + [5] * 4
    assert rows["partition"].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert rows["address"].tolist() == [2, 3, 4, 5] * 3
    assert outcome.trace.words.of("read").rows["address"].tolist() == list(range(12))
