"""Bursts in the busiest channel of DRAM, counted element by element; rows opened, by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler.bounds.channels import busiest_channel
from systolic.hw.formulas.dram import opened_cycles, place
from systolic.hw.formulas.timing import dram_bound
from systolic.hw.spec import Chip, DramOrganisation
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.layout import Shape
from systolic.machine import simulate
from systolic.workload import GraphBuilder


def drawn(rng: Random) -> Shape:
    """Return a shape in tiles of 8 rows that mostly stand over its edges."""
    dims = [rng.choice([1, 2, 3, 8, 12, 20]) for _ in range(rng.randint(2, 3))]
    order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
    dtype, pairs = rng.choice([("f32", ""), ("bf16", "(2,1)"), ("s8", "(4,1)"), ("s8", "")])
    return Shape.parse(f"{dtype}[{','.join(map(str, dims))}]{{{order}:T(8,16){pairs}}}")


def organised(rng: Random) -> DramOrganisation:
    burst = rng.choice([16, 32, 64])
    return DramOrganisation(
        channels=rng.choice([1, 2, 4]), banks=2, row_bytes=256, burst_bytes=burst,
        interleave_bytes=burst * rng.choice([1, 2, 4]), activate_cycles=3, precharge_cycles=2,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_no_beginning_has_fewer_bursts_in_its_busiest_channel(seed: int) -> None:
    rng = Random(seed)
    shapes, parts = [drawn(rng) for _ in range(rng.randint(1, 2))], organised(rng)
    found = busiest_channel(shapes, parts)
    if all(shape.padded_elements() == shape.num_elements() for shape in shapes):
        assert found == 0
        return
    counts = []
    for shape in shapes:
        index = np.unravel_index(np.arange(shape.num_elements()), shape.dims)
        first = shape.linear_index([*index]) * shape.dtype.itemsize
        counts.append([])
        for begin in range(0, parts.interleave_bytes * parts.channels, 64):
            bursts = sorted({(byte + begin) // parts.burst_bytes for byte in first.tolist()})
            channels = [int(place(parts, n * parts.burst_bytes).channel) for n in bursts]
            counts[-1].append([channels.count(n) for n in range(parts.channels)])
    pairs = [[one] for one in counts[0]] if len(counts) == 1 else [
        [one, other] for one in counts[0] for other in counts[1]
    ]  # fmt: skip
    assert found == min(max(map(sum, zip(*pair, strict=True))) for pair in pairs)


def test_hashed_channels_are_not_counted() -> None:
    parts = organised(Random(0)).model_copy(update={"channels": 4, "hash_channels": True})
    assert busiest_channel([Shape.parse("f32[64,4]{1,0:T(8,16)}")], parts) == 0


def one_in_hand(**parts: int) -> Chip:
    """Return a chip with one channel of 4 bytes in a cycle, and bursts of 16: four cycles each."""
    return ideal_chip(4, 4, dma={"queues": 1, "bytes_per_cycle": 4}, dram={
        "bytes_per_cycle": 4, "size_bytes": 1 << 20, "latency_cycles": 0, "organisation": {
            "channels": 1, "banks": 2, "row_bytes": 64, "burst_bytes": 16, "interleave_bytes": 16,
            "activate_cycles": 3, "precharge_cycles": 2, **parts,
        },
    })  # fmt: skip


def test_every_row_is_opened_once_and_all_but_the_first_of_a_bank_close_another() -> None:
    """320 bytes are 20 bursts of four cycles in five rows: 5 x 3 + 3 x 2 cycles beside them."""
    chip = one_in_hand()
    there = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, 320),))
    here = Access(Buffer.STATE, "u8", 0, 1, 0, ((1, 320),))
    program = Program("rows", (DmaCopy(dma_queue=0, source=there, target=here),))
    trace = simulate(chip, program, values=False).trace
    assert opened_cycles(chip, 320) == 20 * 4 + 5 * 3 + 3 * 2 == trace.cycles("dma0")
    assert dram_bound(chip, 320).ticks == trace.ticks
    assert opened_cycles(one_in_hand(outstanding=2), 320) == 0
    refreshed = one_in_hand(refresh_interval_cycles=90, refresh_cycles=5)
    assert opened_cycles(refreshed, 320) == 20 * 4 + 5 * 3


def test_columns_of_tiles_that_are_mostly_gaps_lie_in_one_channel() -> None:
    """s8[2,1024,12,64]{2,0,1,3:T(8,128)(4,1)}: 48 bytes of each 1,024, so 65,536 in one channel.

    The result has 24,576 bursts, a quarter of them in each channel. A burst takes four cycles of
    1,200 MHz behind a latency of 737; the array's clock is 1,000 MHz.
    """
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[2,1024,12,64]{2,0,1,3:T(8,128)(4,1)}")
    builder.add("relayout", ("x",), "s8[2,1024,12,64]", name="y")
    result = systolic.run(builder.graph(), "ddr4_128x128", values=False)
    cycles = (737 + 4 * (65536 + 24576 // 4)) * 10 // 12
    bound = result.summary["bound"]
    assert bound["why"] == "bursts of one channel of DRAM"
    assert abs(bound["cycles"] - cycles) <= 1
    assert result.cycles >= bound["cycles"]
