"""Bursts in the busiest channel of DRAM and its busiest bank group, counted element by element.

Rows opened, by hand.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler.bounds.channels import busiest_channel, busiest_group
from systolic.hw.formulas.dram import least_group_cycles, opened_cycles, place
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


GROUPS_FIRST = ("bank_group", "column", "bank", "row")


def organised(rng: Random, groups: int = 1) -> DramOrganisation:
    """Return channels whose banks fall into so many groups, which follow one another by bursts."""
    burst = rng.choice([16, 32, 64])
    return DramOrganisation(
        channels=rng.choice([1, 2, 4]), banks=2 * groups, bank_groups=groups, row_bytes=256,
        burst_bytes=burst, interleave_bytes=burst * groups * rng.choice([1, 2, 4]),
        address_order=GROUPS_FIRST, activate_cycles=3, precharge_cycles=2,
    )  # fmt: skip


def least_of_busiest(shapes: list[Shape], parts: DramOrganisation, *, groups: bool) -> int:
    """Return the bursts of the busiest channel, or group of all channels, at the best beginning."""
    width, count = parts.interleave_bytes, parts.bank_groups if groups else parts.channels
    counts = list[list[list[int]]]()
    for shape in shapes:
        index = np.unravel_index(np.arange(shape.num_elements()), shape.dims)
        first = shape.linear_index([*index]) * shape.dtype.itemsize
        counts.append([])
        for begin in range(0, width * parts.channels, 64):
            bursts = sorted({(byte + begin) // parts.burst_bytes for byte in first.tolist()})
            places = [place(parts, n * parts.burst_bytes) for n in bursts]
            found = [int(p.bank % parts.bank_groups if groups else p.channel) for p in places]
            counts[-1].append([found.count(n) for n in range(count)])
    pairs = [[one] for one in counts[0]] if len(counts) == 1 else [
        [one, other] for one in counts[0] for other in counts[1]
    ]  # fmt: skip
    return min(max(map(sum, zip(*pair, strict=True))) for pair in pairs)


@pytest.mark.parametrize("seed", range(60))
def test_no_beginning_has_fewer_bursts_in_its_busiest_channel(seed: int) -> None:
    rng = Random(seed)
    shapes, parts = [drawn(rng) for _ in range(rng.randint(1, 2))], organised(rng)
    even = all(shape.padded_elements() == shape.num_elements() for shape in shapes)
    expected = 0 if even or parts.channels == 1 else least_of_busiest(shapes, parts, groups=False)
    assert busiest_channel(shapes, parts) == expected


@pytest.mark.parametrize("seed", range(60))
def test_no_beginning_has_fewer_bursts_in_its_busiest_bank_group(seed: int) -> None:
    rng = Random(seed)
    shapes, parts = [drawn(rng) for _ in range(rng.randint(1, 2))], organised(rng, 4)
    even = all(shape.padded_elements() == shape.num_elements() for shape in shapes)
    expected = 0 if even else -(-least_of_busiest(shapes, parts, groups=True) // parts.channels)
    assert busiest_group(shapes, parts) == expected
    hashed = parts.model_copy(update={"hash_channels": True})
    assert busiest_group(shapes, hashed) == expected
    assert busiest_group(shapes, parts.model_copy(update={"hash_banks": True})) == 0


def test_hashed_channels_are_not_counted() -> None:
    parts = organised(Random(0)).model_copy(update={"channels": 4, "hash_channels": True})
    assert busiest_channel([Shape.parse("f32[64,4]{1,0:T(8,16)}")], parts) == 0


def one_in_hand(**parts: object) -> Chip:
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


def test_bursts_of_one_bank_group_are_as_far_apart_as_it_says() -> None:
    """Every second burst of 16: 7 * 7 + 4 cycles. A refresh of 9 cycles hides 3 of 7 that two
    bursts are apart; with one due every 30 cycles there is one before the last."""
    parts = {"banks": 4, "bank_groups": 2, "address_order": GROUPS_FIRST, "interleave_bytes": 32,
             "burst_gap_in_group_cycles": 7, "activate_cycles": 0, "precharge_cycles": 0,
             "outstanding": 8}  # fmt: skip
    there = Access(Buffer.DRAM, "u8", 0, 1, 0, ((32, 8), (1, 16)))
    here = Access(Buffer.STATE, "u8", 0, 1, 0, ((1, 128),))
    program = Program("group", (DmaCopy(dma_queue=0, source=there, target=here),))
    for refresh, cycles in ((0, 7 * 7 + 4), (30, 7 * 7 + 4 + 9 - 3)):
        timings = {"refresh_interval_cycles": refresh, "refresh_cycles": 9 if refresh else 0}
        chip = one_in_hand(**parts, **timings)
        taken = simulate(chip, program, values=False).trace.cycles("dma0")
        assert taken == least_group_cycles(chip, 8) == cycles


def test_short_rows_of_wide_tiles_lie_in_one_bank_group() -> None:
    """f32[4096,4] in T(8,128): 16 bytes of each 512, so 4,096 bursts, 1,024 in each channel, 4
    cycles apart, and the source's 2,048 bursts evenly: 128 more in each group of a channel."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "f32[4096,4]")
    builder.add("relayout", ("x",), "f32[4096,4]{1,0:T(8,128)}", name="y")
    result = systolic.run(builder.graph(), "lpddr5_6400_128x128", values=False)
    refreshes = (1024 + 128 - 1 - 4) * 4 // 3125
    cycles = 480 + 17 + (1024 + 128 - 1) * 4 + 2 + refreshes * (224 - 2)
    bound = result.summary["bound"]
    assert bound["why"] == "bursts of one bank group of DRAM"
    assert bound["cycles"] == -(-cycles * 10 // 8)
    assert result.cycles >= bound["cycles"]


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
