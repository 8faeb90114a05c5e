"""Bursts of one bank group: counted element by element, every order tried, and simulated."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler.bounds.channels import grouped_bursts
from systolic.hw.formulas.bank_groups import GroupedBursts, grouped_bound
from systolic.hw.formulas.dram import place
from systolic.hw.spec import Chip, DramOrganisation
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.layout import Shape
from systolic.machine import simulate
from systolic.workload import GraphBuilder

PARTS = DramOrganisation(
    channels=2, banks=8, bank_groups=4, row_bytes=256, burst_bytes=32, interleave_bytes=128,
    address_order=("bank_group", "column", "bank", "row"), hash_channels=True,
    activate_cycles=3, precharge_cycles=2,
)  # fmt: skip


def one_channel(**parts: int) -> Chip:
    """Return a chip with one channel of 4 bytes in a cycle, and bursts of 16: four cycles each."""
    return ideal_chip(4, 4, dma={"queues": 2, "bytes_per_cycle": 4, "latency_cycles": 0}, dram={
        "bytes_per_cycle": 4, "size_bytes": 1 << 20, "latency_cycles": 0, "organisation": {
            "channels": 1, "banks": 4, "bank_groups": 2, "row_bytes": 64, "burst_bytes": 16,
            "interleave_bytes": 32, "outstanding": 8, "scheduling": "fr_fcfs",
            "address_order": ("bank_group", "column", "bank", "row"),
            "activate_cycles": 3, "precharge_cycles": 2, **parts,
        },
    })  # fmt: skip


def drawn(rng: Random) -> Shape:
    """Return a shape in tiles that mostly stand over its edges."""
    dims = [rng.choice([1, 2, 3, 8, 12, 40]) for _ in range(rng.randint(2, 3))]
    order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
    dtype, pairs = rng.choice([("f32", ""), ("bf16", "(2,1)"), ("s8", "(4,1)"), ("s8", "")])
    return Shape.parse(f"{dtype}[{','.join(map(str, dims))}]{{{order}:T(8,128){pairs}}}")


def by_group(shape: Shape) -> list[list[int]]:
    """Return how many bursts of each group hold elements, for each place where it may begin."""
    index = np.unravel_index(np.arange(shape.num_elements()), shape.dims)
    first = (shape.linear_index([*index]) * shape.dtype.itemsize).tolist()
    found = list[list[int]]()
    for begin in range(0, 512, 64):
        bursts = {(byte + begin) // 32 * 32 for byte in first}
        groups = [int(place(PARTS, byte).bank) % 4 for byte in bursts]
        found.append([groups.count(n) for n in range(4)])
    return found


@pytest.mark.parametrize("tensors", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_every_beginning_is_counted(seed: int, tensors: int) -> None:
    rng = Random(seed)
    shapes = [drawn(rng) for _ in range(tensors)]
    counts = set()
    for found in product(*(by_group(shape) for shape in shapes)):
        groups = [sum(each) for each in zip(*found, strict=True)]
        counts.add(GroupedBursts(sum(groups), max(groups)))
    assert grouped_bursts(shapes, PARTS) == counts


def test_hashed_banks_and_other_orders_are_not_counted() -> None:
    shape = Shape.parse("f32[64,4]{1,0:T(8,128)}")
    assert grouped_bursts([shape], PARTS)
    for other in ({"hash_banks": True}, {"address_order": ("column", "bank_group", "bank", "row")}):
        assert not grouped_bursts([shape], PARTS.model_copy(update=other))


Burst = tuple[bool, int]
"""Whether it writes, and its group."""


def quickest(bursts: tuple[Burst, ...], chip: Chip) -> int:
    """Return the cycles from the first burst to the end of the last, in the best of all orders."""
    parts, (_, length) = chip.dram.organisation, chip.burst_cycles()
    best = 10**9
    for order in set(permutations(bursts)):
        starts: list[int] = []
        for writes, group in order:
            least = [0]
            for before, (wrote, where) in zip(starts, order, strict=False):
                last = before == starts[-1]
                least += [before + length] if last else []
                least += [before + parts.burst_gap_cycles] if last else []
                least += [before + parts.burst_gap_in_group_cycles] if where == group else []
                turn = parts.read_to_write_cycles if writes else parts.write_to_read_cycles
                least += [before + length + turn] if last and wrote != writes else []
            starts.append(max(least))
        best = min(best, starts[-1] + length)
    return best


@pytest.mark.parametrize("seed", quick_first(range(30), 4))
def test_no_order_of_bursts_is_quicker_and_some_are_as_quick(seed: int) -> None:
    """Also with bursts that none needs: these lie where neither tensor has one of its own."""
    rng = Random(seed)
    chip = one_channel(
        burst_gap_in_group_cycles=rng.randint(4, 10), read_to_write_cycles=rng.randint(0, 5),
        write_to_read_cycles=rng.randint(0, 5),
    )  # fmt: skip
    near = 0
    for few, many, others in product((0, 1, 2), (1, 3, 4), (0, 1, 2)):
        needed: list[Burst] = [(True, 0)] * many + [(True, 1)] * few + [(False, 1)] * others
        source = GroupedBursts(others, others)
        result = GroupedBursts(many + few, max(many, few))
        bound = grouped_bound(chip, [source], [result]).ticks
        for extra in ((), ((True, 1),), ((False, 0),)):
            if len(needed) + len(extra) <= 7:
                best = quickest((*needed, *extra), chip)
                assert best >= bound, (needed, extra)
                near += best == bound
    assert near > 0


def stores(count: int, step: int) -> Program:
    """Return a program that stores so many runs of 16 bytes, from each partition a quarter."""
    here = Access(Buffer.STATE, "u8", 0, 4, 0, ((1, 16 * count // 4),))
    there = Access(Buffer.DRAM, "u8", 0, 1, 0, ((step, count), (1, 16)))
    return Program("stores", (DmaCopy(dma_queue=0, source=here, target=there),))


@pytest.mark.parametrize("refresh", [{}, {"refresh_interval_cycles": 150, "refresh_cycles": 40}])
def test_a_program_comes_near(refresh: dict[str, int]) -> None:
    """Every second burst of 16 bytes lies in group 0: 9 cycles each, of which the bound knows 8.

    In five refreshes of 40 cycles nothing moves.
    """
    turns = {"read_to_write_cycles": 5, "write_to_read_cycles": 5}
    chip = one_channel(burst_gap_in_group_cycles=9, **turns, **refresh)
    bound = grouped_bound(chip, [GroupedBursts(0, 0)], [GroupedBursts(96, 96)])
    ticks = simulate(chip, stores(96, 32), values=False).trace.ticks
    assert bound.ticks == 96 * 8 - 4 + (4 * 39 if refresh else 0)
    assert bound.ticks <= ticks < 1.3 * bound.ticks
    beside = simulate(chip, stores(96, 16), values=False).trace.ticks
    assert beside < ticks


def test_a_tile_of_few_columns_is_one_burst_of_each_eight() -> None:
    """s8[1024,256,16] in T(8,128)(4,1) is 64 of each 512 bytes: 65,536 bursts, all in one group.

    Each takes six cycles of 1,200 MHz, those of the source four, and a quarter lies in each
    channel; the latency is 737. The refreshes come every 9,360 cycles and take 420.
    """
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[16,256,1024]")
    builder.transpose("x", "s8[1024,256,16]{2,1,0:T(8,128)(4,1)}", [2, 1, 0], name="y")
    result = systolic.run(builder.graph(), "ddr4_2400_128x128", values=False)
    moving = 65536 // 4 * (6 + 4)
    cycles = (737 + moving - 6 + 4 + (moving - 17 * 6 - 1) // 9360 * 420) * 10 // 12
    bound = result.summary["bound"]
    assert bound["why"] == "bursts of one bank group of DRAM"
    assert abs(bound["cycles"] - cycles) <= 1
    assert result.cycles >= bound["cycles"]


def test_a_product_s_result_of_few_columns_counts_as_well() -> None:
    """s32[4096,4] in T(8,128) is 16 of each 512 bytes: 4,096 bursts of one group, a quarter of
    them in each channel, four cycles of 800 MHz each; the operands' bursts take two."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[4096,32]")
    builder.tensor("w", "s8[32,4]")
    builder.matmul("x", "w", "s32[4096,4]{1,0:T(8,128)}", name="y")
    result = systolic.run(builder.graph(), "lpddr5_6400_128x128", values=False)
    operands = (4096 * 32 + 32 * 4) // 32
    moving = (4096 * 4 + operands * 2) // 4
    late = (moving - 17 * 4 - 1) // 3125
    cycles = (480 + 17 + moving - 4 + 2 + late * (224 - max(0, 4 - 2 - 15))) * 10 // 8
    bound = result.summary["bound"]
    assert bound["why"] == "bursts of one bank group of DRAM"
    assert abs(bound["cycles"] - cycles) <= 2
    assert result.cycles >= bound["cycles"]


ORGANISED = "ddr4_2400_128x128", "hbm2e_128x128", "hbm3_128x128", "lpddr5_6400_128x128"


@pytest.mark.parametrize("batch", quick_first(range(40), 4))
def test_no_move_of_mostly_padding_is_quicker(batch: int) -> None:
    """A run that is quicker than its bound ends with an error."""
    counted = 0
    for seed in range(batch * 8, batch * 8 + 8):
        rng = Random(seed)
        minor, deep = rng.choice([1, 2, 3, 8, 16, 40]), rng.choice([8, 24, 64, 100])
        dims = [minor, rng.choice([4, 32, 77, 300]), deep]
        order = ",".join(map(str, [0, *rng.sample([1, 2], 2)]))
        dtype, pairs = rng.choice([("f32", ""), ("bf16", "(2,1)"), ("s8", "(4,1)")])
        shape = f"{dtype}[{','.join(map(str, dims))}]"
        ends = [shape, f"{shape}{{{order}:T(8,128){pairs}}}"]
        rng.shuffle(ends)
        builder = GraphBuilder(home="dram")
        builder.tensor("x", ends[0])
        builder.add("relayout", ("x",), ends[1], name="y")
        found = systolic.run(builder.graph(), rng.choice(ORGANISED), values=False)
        counted += found.summary["bound"]["why"] == "bursts of one bank group of DRAM"
    assert counted > 0
