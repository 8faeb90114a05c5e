"""Do the compiler's costs know what the chip's DRAM and DMA engines do with a copy?"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import systolic
from support.chips import TYPES, ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.cost.dma import copy_time
from systolic.compiler.cost.pace import estimated_ticks
from systolic.hw.formulas.dram import place
from systolic.hw.spec import ADDRESS_FIELDS, DramOrganisation
from systolic.isa import Access, Buffer, DmaCopy
from systolic.machine import simulate
from systolic.machine.register.dram.address import AddressMap
from systolic.workload import GraphBuilder
from systolic.workload.options import Options

ORGANISATION = {
    "channels": 4, "banks": 8, "row_bytes": 512, "burst_bytes": 16, "interleave_bytes": 16,
    "activate_cycles": 10, "precharge_cycles": 10, "hash_channels": True,
}  # fmt: skip


def _chip(cycles_per_vector=1, dma=(), **organisation):
    return ideal_chip(
        8,
        8,
        pe_array={"cycles_per_vector": dict.fromkeys(TYPES, cycles_per_vector)},
        dma={"queues": 2, "bytes_per_cycle": 32, "latency_cycles": 20, **dict(dma)},
        dram={
            "size_bytes": 1 << 20,
            "bytes_per_cycle": 32,
            "organisation": ORGANISATION | organisation,
        },
    )


def _transpose():
    builder = GraphBuilder(home="dram")
    source = builder.tensor("x", "f32[60,44]")
    builder.transpose(source, "f32[44,60]", (1, 0), name="y")
    return builder.graph()


@pytest.mark.parametrize("order", list(itertools.permutations(ADDRESS_FIELDS)))
def test_many_bytes_lie_where_the_register_engine_finds_each(order):
    rng = random.Random(str(order))
    parts = DramOrganisation.model_validate(
        ORGANISATION
        | {"interleave_bytes": 64, "bank_groups": rng.choice((1, 2, 4)), "address_order": order}
        | {key: rng.random() < 0.5 for key in ("hash_channels", "hash_banks")}
    )
    addresses = np.array([rng.randrange(1 << 20) for _ in range(100)])
    found = place(parts, addresses, 1 << 20)
    chip = ideal_chip(2, 2, dram={"size_bytes": 1 << 20, "bytes_per_cycle": parts.channels * 4,
                                  "organisation": parts.model_dump()})  # fmt: skip
    there = AddressMap(chip)
    for number, address in enumerate(addresses.tolist()):
        here = int(found.channel[number]), int(found.bank[number]), int(found.row[number])
        expected = there.place(address)
        assert here == (expected.channel, expected.bank, expected.row)
        assert here == place(parts, address, 1 << 20)


@pytest.mark.parametrize(("in_hand", "way"), [(1, "pe"), (16, "dram")])
def test_bursts_in_hand_decide_the_way_and_the_cycles_confirm_it(in_hand, way):
    """With one burst in hand every element waits for its row; with sixteen, rows open together.

    A way that is no turn of matrices may be sooner than both.
    """
    chip, graph = _chip(12, outstanding=in_hand), _transpose()
    cycles = {
        via: simulate(
            chip, compile_graph("t", graph, chip, Options(via=via)).program, values=False
        ).trace.cycles()
        for via in ("pe", "dram")
    }
    assert min(cycles, key=cycles.__getitem__) == way
    inputs = {"x": np.arange(60 * 44, dtype=np.float32).reshape(60, 44)}
    run = systolic.run(graph, chip, inputs)
    assert run.cycles <= cycles[way]
    assert np.array_equal(run.outputs["y"], inputs["x"].T)


@pytest.mark.parametrize(("hashed", "channels"), [(False, 1), (True, 4)])
def test_a_stride_that_keeps_to_one_channel_takes_four_times_as_long(hashed, channels):
    chip = _chip(outstanding=16, hash_channels=hashed)
    column = Access(Buffer.DRAM, "f32", 0, 1, 0, ((64, 32), (1, 4)))
    there = Access(Buffer.STATE, "f32", 0, 1, 0, ((1, 128),))
    time = copy_time(chip, column, there)
    assert sum(cycles > 0 for cycles in time.channels) == channels
    assert max(time.channels) * channels >= 32 * 2


def test_refresh_takes_its_share():
    access = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 1024),))
    there = Access(Buffer.STATE, "f32", 0, 1, 0, ((1, 1024),))
    plain = copy_time(_chip(outstanding=64), access, there)
    refreshed = _chip(outstanding=64, refresh_interval_cycles=100, refresh_cycles=40)
    assert copy_time(refreshed, access, there).moving == plain.moving * 2


def test_copies_are_dealt_out_over_engines():
    """Of four queues, 0 and 2 belong to one engine and 1 and 3 to the other."""
    chip = ideal_chip(
        8, 8, dma={"queues": 4, "engines": 2, "bytes_per_cycle": 16, "latency_cycles": 0},
        dram={"size_bytes": 1 << 20, "bytes_per_cycle": 64},
    )  # fmt: skip
    program = compile_graph("t", _transpose(), chip, Options(via="pe")).program
    brought, stored = {0: 0, 1: 0}, 0
    for instruction in program.instructions:
        if isinstance(instruction, DmaCopy):
            if instruction.source.buffer == Buffer.DRAM:
                brought[int(instruction.queue[3:]) % 2] += instruction.source.size_bytes
            else:
                stored += instruction.source.size_bytes
    assert sum(brought.values()) == stored == 60 * 44 * 4
    assert max(brought.values()) < 2 * min(brought.values())


@pytest.mark.parametrize("in_hand", [8, 32])
def test_the_estimate_of_a_product_from_dram_is_near_its_cycles(in_hand):
    chip = _chip(outstanding=in_hand, scheduling="fr_fcfs", refresh_interval_cycles=400,
                 refresh_cycles=40)  # fmt: skip
    builder = GraphBuilder(home="dram")
    x, w = builder.tensor("x", "bf16[64,48]{0,1}"), builder.tensor("w", "bf16[48,80]")
    builder.matmul(x, w, "bf16[64,80]", name="y")
    compiled = compile_graph("t", builder.graph(), chip)
    cycles = simulate(chip, compiled.program, values=False).trace.cycles()
    assert estimated_ticks(compiled.scheduled.drafts, chip) == pytest.approx(cycles, rel=0.2)
