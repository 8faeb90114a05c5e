"""Do the compiler's costs know what the chip's DRAM and DMA engines do with a copy?"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import systolic
from support.chips import TYPES, ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.cost.dma import copy_time, queues_of_tile
from systolic.compiler.cost.dram import Streams, in_turn_cycles
from systolic.compiler.cost.pace import estimated_ticks
from systolic.config import load_chip
from systolic.hw.formulas.dram import place
from systolic.hw.spec import ADDRESS_FIELDS, DramOrganisation
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate
from systolic.machine.register.dram.address import AddressMap
from systolic.shipped import CHIPS
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
    there = AddressMap(chip.dram)
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


def _in_step(distance, queues=2):
    """Return the estimate and the run of runs of 256 bytes, one for each queue, so far apart."""
    chip = _chip(
        dma={"queues": queues, "latency_cycles": 0}, outstanding=1, hash_channels=False
    )  # fmt: skip
    pairs = ((distance, queues), (1, 256)) if queues > 1 else ((1, 256),)
    streams = Streams(Access(Buffer.DRAM, "u8", 0, 1, 0, pairs), 256, queues)
    copies = [
        DmaCopy(
            dma_queue=queue,
            source=Access(Buffer.DRAM, "u8", 0, 1, queue * distance, ((1, 256),)),
            target=Access(Buffer.STATE, "u8", queue, 1, 512 * queue, ((1, 256),)),
        )
        for queue in range(queues)
    ]
    trace = simulate(chip, Program("in_step", tuple(copies)), values=False).trace
    return in_turn_cycles(chip, streams), trace.ticks


def test_queues_with_one_burst_in_hand_wait_for_rows_that_others_close():
    """A run has 16 bursts of two cycles, four in a row of each of four channels.

    Alone it opens four rows, 20 cycles each. Two runs in other rows of the same banks open one for
    every burst; in other banks they only wait for the bus now and then, about half of two cycles.
    """
    alone, ran = _in_step(0, queues=1)
    assert alone == 16 * 2 + 4 * 20
    assert ran == 16 * 2 + 4 * 10  # the banks were closed before
    same_banks, ran_in_them = _in_step(8 * 2048)
    other_banks, ran_in_others = _in_step(2048)
    assert same_banks == 16 * (2 + 20 + 1)
    assert other_banks == 16 * (2 + 1) + 4 * 20
    assert ran_in_them > 2 * ran_in_others


def test_tiles_are_chosen_whose_rows_stay_open():
    """u8[8,77,12,128]{1,2,0,3} to [128,77,8,12] took 109,775 cycles on the chip with DDR4.

    One tile came through all queues, whose parts lay 231 KiB apart: always in the same channel.
    """
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "u8[8,77,12,128]{1,2,0,3}")
    builder.transpose("x", "u8[128,77,8,12]", (3, 1, 0, 2), name="y")
    assert systolic.run(builder.graph(), "ddr4_128x128", values=False).cycles < 70_000


@pytest.mark.parametrize(
    ("scope", "cycles", "estimate"), [("bank", 512, 512), ("partition", 256, 256 + 128)]
)
def test_queues_that_share_a_tile_take_turns_at_the_port_of_its_bank(scope, cycles, estimate):
    """2 KiB a queue, 128 bursts of two cycles; where one waits for a bus, about half a burst."""
    chip = _chip(dma={"latency_cycles": 0}, outstanding=1, hash_channels=False, row_bytes=4096,
                 activate_cycles=1, precharge_cycles=1)  # fmt: skip
    buffer = chip.state_buffer.model_copy(update={"port_scope": scope})
    chip = chip.model_copy(update={"state_buffer": buffer})
    far = 4 * 4096
    streams = Streams(Access(Buffer.DRAM, "u8", 0, 1, 0, ((far, 2), (1, 2048))), 2048, 2)
    copies = [
        DmaCopy(
            dma_queue=queue,
            source=Access(Buffer.DRAM, "u8", 0, 1, queue * far, ((1, 2048),)),
            target=Access(Buffer.STATE, "u8", queue, 1, 0, ((1, 2048),)),
        )
        for queue in range(2)
    ]
    ran = simulate(chip, Program("shared", tuple(copies)), values=False).trace.ticks
    assert ran == pytest.approx(cycles, rel=0.05)
    assert in_turn_cycles(chip, streams) == pytest.approx(estimate, rel=0.05)


def test_tiles_are_chosen_whose_banks_have_ports_of_their_own():
    """s8[96,64,64]{2,0,1} x s8[96,64,128] took 244,784 cycles on the chip with DDR4.

    Four queues shared each tile, so that one at a time wrote at the port of its bank.
    """
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[96,64,64]{2,0,1}")
    builder.tensor("w", "s8[96,64,128]")
    builder.matmul("x", "w", "s32[96,64,128]", name="y")
    assert systolic.run(builder.graph(), "ddr4_128x128", values=False).cycles < 150_000


SHARED_CHIPS = {
    "lpddr5_6400_128x128": 1, "ddr4_2400_128x128": 1, "hbm2e_128x128": 1, "hbm3_128x128": 1,
    "neuroncore_v2": 1, "neuroncore_v3": 1, "ddr4_128x128": 4, "multi_clock_128x128": 2,
    "ideal_128x128": 4, "patent_128x64": 2,
}  # fmt: skip


@pytest.mark.parametrize(("name", "queues"), SHARED_CHIPS.items())
def test_queues_share_a_tile_where_the_machine_gains_by_it(name, queues):
    """48 rows of 2,364 floats, whose ends lie within bursts: by one queue, or half by each of two.

    The port of the tile's bank decides, unless two queues bring more than one at the same time, or
    each waits for its descriptors and rows.
    """
    chip = load_chip(CHIPS / f"{name}.toml")
    assert queues_of_tile(chip) == queues

    def cycles(ways: int) -> int:
        rows, wide = 48 // ways, 2364
        copies = [
            DmaCopy(
                dma_queue=queue,
                source=Access(Buffer.DRAM, "f32", 0, 1, queue * rows * wide * 4,
                              ((wide, rows), (1, wide))),
                target=Access(Buffer.STATE, "f32", queue * rows, rows, 0, ((1, wide),)),
            )
            for queue in range(ways)
        ]  # fmt: skip
        return simulate(chip, Program("tile", tuple(copies)), values=False).trace.cycles()

    if queues == 1:
        assert cycles(2) > 1.4 * cycles(1)
    else:
        assert cycles(2) < 1.1 * cycles(1)


def test_short_runs_are_shared_by_all_queues():
    chip = load_chip(CHIPS / "hbm3_128x128.toml")
    assert queues_of_tile(chip, 8) == 4
    assert queues_of_tile(chip, 64) == 1


def test_no_two_queues_wait_at_the_port_of_one_bank():
    """s8[8,128,197] x s8[8,197,128] to s32[8,128,128]{1,0,2} took 39,400 cycles with LPDDR5."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[8,128,197]")
    builder.tensor("w", "s8[8,197,128]")
    builder.matmul("x", "w", "s32[8,128,128]{1,0,2}", name="y")
    assert systolic.run(builder.graph(), "lpddr5_6400_128x128", values=False).cycles < 27_000
