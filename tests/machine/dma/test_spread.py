"""Copies spread over DMA engines by partition: how long they take, worked by hand, both engines.

Engine e serves partitions 8e to 8e + 7 here. A round moves the next descriptor of each engine.
"""

from __future__ import annotations

from random import Random

import pytest

from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.random_programs import RandomProgram, random_chip, spread_over_engines
from support.random_transfers import RandomTransfers
from support.tiers import quick_first
from systolic.engine_kind import EngineKind
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import dma_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate
from systolic.trace.words import KINDS

ENGINES: tuple[EngineKind, ...] = ("event", "register")
both = pytest.mark.parametrize("engine", ENGINES)
LATENCY, COST, RATE = 6, 105, 23


def chip(**dma: object) -> Chip:
    """Return a chip with the DMA engines of the third NeuronCore."""
    keys = {
        "queues": 4,
        "engines": 16,
        "partitions_per_engine": 8,
        "bytes_per_cycle": RATE,
        "latency_cycles": LATENCY,
        "descriptor_cycles": COST,
        "descriptor_cost": "max",
        **dma,
    }
    return ideal_chip(128, 128, dma=keys, dram={"bytes_per_cycle": 2900},
                      state_buffer={"bytes_per_partition": 131072})  # fmt: skip


def load(rows: int, row_bytes: int, *, first: int = 0, queue: int = 0, at: int = 0) -> DmaCopy:
    """Return a copy from DRAM of `row_bytes` to each of `rows` partitions, beginning at `first`."""
    there = Access(Buffer.DRAM, "u8", 0, 1, at, ((1, rows * row_bytes),))
    here = Access(Buffer.STATE, "u8", first, rows, at % 131072, ((1, row_bytes),))
    return DmaCopy(dma_queue=queue, source=there, target=here)


def ends(on: Chip, engine: EngineKind, *copies: DmaCopy) -> list[int]:
    """Return the cycle after the last byte of each copy, counted from the latency's end."""
    trace = simulate(on, Program("p", copies), values=False, engine=engine).trace
    return [time.done + 1 - LATENCY for time in sorted(trace.times)]


@both
@pytest.mark.parametrize(
    ("rows", "row_bytes", "first", "cycles"),
    [
        (128, 64, 0, 8 * 105),  # 16 engines, 8 rounds; short rows take what a descriptor costs
        (128, 4096, 0, 8 * 179),  # 4096 / 23 is 178.1
        (4, 8192, 0, 4 * 357),  # one engine, one row after another; 8192 / 23 is 356.2
        (8, 64, 0, 8 * 105),
        (9, 64, 0, 8 * 105),  # the second engine has one row, in the first round
        (8, 64, 4, 4 * 105),  # four rows of two engines each
        (2, 64, 7, 105),
        (1, 64, 127, 105),
    ],
)
def test_a_copy_takes_as_many_rounds_as_its_engine_with_most_rows(
    engine: EngineKind, rows: int, row_bytes: int, first: int, cycles: int
) -> None:
    assert ends(chip(), engine, load(rows, row_bytes, first=first)) == [cycles]


@both
def test_engines_are_taken_in_turn_where_there_are_more_partitions(engine: EngineKind) -> None:
    """Two engines of 8 partitions: the first serves 0 to 7 and 16 to 23, so 12 of these 20."""
    assert ends(chip(engines=2), engine, load(20, 64)) == [12 * 105]


@both
def test_a_cost_that_adds_up_is_paid_once_a_round(engine: EngineKind) -> None:
    found = ends(chip(descriptor_cost="sum"), engine, load(128, 230))
    assert found == [8 * (105 + 10)]


@both
def test_a_store_goes_by_the_partitions_that_it_reads(engine: EngineKind) -> None:
    there = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, 9 * 64),))
    here = Access(Buffer.STATE, "u8", 1, 9, 0, ((1, 64),))  # 7 of engine 0, 2 of engine 1
    copy = DmaCopy(dma_queue=0, source=here, target=there)
    assert ends(chip(), engine, copy) == [7 * 105]


@both
def test_a_move_on_the_chip_goes_by_the_partitions_that_it_writes(engine: EngineKind) -> None:
    """From 8 partitions of one engine to 4 of either of two; no latency of DRAM."""
    source = Access(Buffer.STATE, "u8", 0, 8, 0, ((1, 64),))
    target = Access(Buffer.STATE, "u8", 12, 8, 512, ((1, 64),))
    copy = DmaCopy(dma_queue=0, source=source, target=target)
    assert ends(chip(), engine, copy) == [4 * 105]


@both
def test_a_copy_within_dram_has_all_engines_whatever_its_runs(engine: EngineKind) -> None:
    """2900 bytes a cycle for reads and writes together are more than 16 x 23 twice."""
    source = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, 36800),))
    target = Access(Buffer.DRAM, "u8", 0, 1, 65536, ((1, 36800),))
    copy = DmaCopy(dma_queue=0, source=source, target=target)
    assert ends(chip(descriptor_cycles=0), engine, copy) == [100]


@both
def test_queues_share_the_engines_that_they_have_in_common(engine: EngineKind) -> None:
    """Three copies of 8 rows: two at engine 0, where each has half of 46 bytes, one at engine 1."""
    on = chip(descriptor_cycles=0, bytes_per_cycle=46)
    at_0, again = load(8, 2300), load(8, 2300, queue=1, at=32768)
    at_1 = load(8, 2300, first=8, queue=2, at=65536)
    assert ends(on, engine, at_0, again, at_1) == [800, 800, 400]


@both
def test_a_copy_keeps_pace_with_the_most_shared_of_its_engines(engine: EngineKind) -> None:
    """16 rows, 8 of engine 0 that it shares and 8 of engine 1 that it has alone: half the rate.

    The other copy of 4 rows is over after 400 cycles, in which half of the first has moved too.
    """
    on = chip(descriptor_cycles=0, bytes_per_cycle=46)
    wide, narrow = load(16, 2300), load(4, 2300, queue=1, at=65536)
    assert ends(on, engine, wide, narrow) == [400 + 200, 400]


@both
def test_dram_holds_all_engines_back_together(engine: EngineKind) -> None:
    slow = chip(descriptor_cycles=0).model_dump()
    slow["dram"]["bytes_per_cycle"] = 46  # as two engines
    assert ends(Chip.model_validate(slow), engine, load(128, 460)) == [8 * 160]


@pytest.mark.parametrize("rows", [128, 64, 16])
@pytest.mark.parametrize("row_bytes", [64, 2048, 8192])
def test_the_closed_form_says_the_same_of_rows_side_by_side(rows: int, row_bytes: int) -> None:
    beside = rows // 8
    formula = dma_cycles(chip(), [(rows, row_bytes)], dram=True, rows=beside) - LATENCY
    assert ends(chip(), "event", load(rows, row_bytes)) == [formula]


def test_one_queue_has_the_rate_of_all_engines() -> None:
    assert dram_rate(chip(), 1) == dram_rate(chip(), 4) == 16 * RATE


@pytest.mark.parametrize("seed", quick_first(range(300), 13))
def test_both_engines_say_the_same_of_random_programs(seed: int) -> None:
    rng = Random(seed)
    on = spread_over_engines(random_chip(rng, clocks=seed % 3 == 0, largest=9), rng)
    made = RandomTransfers(rng, on) if seed % 2 else RandomProgram(rng, on)
    program, images = made.build(rng.randint(2, 16))
    event = simulate(on, program, images, kinds=KINDS)
    assert_same(event, simulate(on, program, images, kinds=KINDS, engine="register"))


@pytest.mark.parametrize("seed", quick_first(range(30), 7))
def test_one_engine_of_all_partitions_is_a_queue_as_ever(seed: int) -> None:
    """With a single engine nothing is side by side: the model without the key says the same."""
    rng = Random(seed)
    tables = spread_over_engines(random_chip(rng, largest=9), rng).model_dump()
    tables["dma"] |= {"engines": 1, "partitions_per_engine": 128}
    spread = Chip.model_validate(tables)
    tables["dma"] |= {"partitions_per_engine": None, "posts": "once"}
    program, images = RandomTransfers(rng, spread).build(rng.randint(2, 16))
    plain = simulate(Chip.model_validate(tables), program, images, kinds=KINDS)
    assert_same(simulate(spread, program, images, kinds=KINDS), plain)
