"""Queues with equal descriptors at one bank: by hand, by their events, and by the register engine.

What is decided of them repeats, so that a run costs events by its instructions, not by its
descriptors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.events import events_and_cycles
from support.random_programs import random_chip, random_dma
from support.random_transfers import RandomTransfers
from support.tiers import quick_first
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, Instruction, Memset, Post, Program, Wait
from systolic.machine import simulate
from systolic.machine.event.dma import stream
from systolic.machine.event.dma.stream import DmaStream
from systolic.machine.event.ports.arbiter import Arbiter
from systolic.machine.event.ports.stream import RoundPart, Stream
from systolic.trace.records import Stall

NO_WAIT = {"latency_cycles": 0}


def chip_of(scope: str = "bank", dma: dict[str, Any] | None = None, **tables: Any) -> Chip:
    """Return a chip of 4 x 4 whose DRAM gives each queue all that it can take."""
    queues = {"queues": 2, "descriptor_cycles": 2, "bytes_per_cycle": 4, **NO_WAIT, **(dma or {})}
    dram = {"bytes_per_cycle": 1024, **NO_WAIT}
    return ideal_chip(
        4, 4, **{"dma": queues, "dram": dram, "state_buffer": {"port_scope": scope}, **tables}
    )


def copy(
    queue: int, size: int, count: int, start: int, partitions: int = 1, **links: Any
) -> DmaCopy:
    """Return a copy of descriptors of so many bytes, each with a byte behind it that stays free."""
    source = Access(Buffer.DRAM, "u8", 0, 1, queue << 24, ((1, partitions * size * count),))
    target = Access(Buffer.STATE, "u8", 0, partitions, start, ((size + 1, count), (1, size)))
    return DmaCopy(dma_queue=queue, source=source, target=target, **links)


def pairs(count: int, scope: str = "bank") -> tuple[Chip, Program]:
    """Return two queues at bank 0: 3 descriptors of 4 bytes for 2 of 8 bytes, `count` times.

    Queue 0 fetches for two cycles and moves in one, 2, 5, 8 and so on. Queue 1 moves in two. It is
    refused in cycle 2, ends its first descriptor in 4, and then works through two in 9 cycles,
    of which queue 0 takes one from it: it moves in 7 and 9, not in 8, and in 12 and 13.
    """
    chip = chip_of(scope, state_buffer={"port_scope": scope, "bytes_per_partition": 1 << 20})
    program = (copy(0, 4, 3 * count + 3, 0), copy(1, 8, 2 * count + 1, 1 << 16))
    return chip, Program("pairs", program)


@pytest.mark.parametrize("scope", ["bank", "partition"])
@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_two_queues_meet_every_nine_cycles(scope: str, count: int) -> None:
    chip, program = pairs(count, scope)
    trace = simulate(chip, program).trace
    partition = 0 if scope == "partition" else -1
    assert trace.stalls == tuple(
        Stall(tick, "dma1", 1, 1, "state_buffer", 0, "write", "dma", partition)
        for tick in (2, *range(8, 9 * count, 9))
    )
    assert [time.done for time in trace.times] == [9 * count + 8, 9 * count + 4]
    assert trace.port_cycles["state_buffer", 0, "write"] == (3 * count + 3) + 2 * (2 * count + 1)


@pytest.mark.parametrize("scope", ["bank", "partition"])
def test_they_cost_the_same_events_however_many_descriptors_they_have(scope: str) -> None:
    few, many = events_and_cycles(*pairs(20, scope)), events_and_cycles(*pairs(2000, scope))
    assert many[1] > 90 * few[1]
    assert many[0] == few[0]


@pytest.mark.parametrize("dma", [
    {"queues": 4},
    {"descriptor_cost": "max", "descriptor_cycles": 7},
    {"queues": 4, "engines": 1, "bytes_per_cycle": 5},
    {"partitions_per_cycle": 2},
    {"outstanding": 2},
])  # fmt: skip
@pytest.mark.parametrize("scope", ["bank", "partition"])
def test_events_follow_the_instructions(scope: str, dma: dict[str, Any]) -> None:
    """Queues that share an engine or DRAM, whose descriptors overlap, or go side by side."""

    def events(count: int) -> int:
        buffer = {"port_scope": scope, "bytes_per_partition": 1 << 20}
        dram = {"bytes_per_cycle": 10, **NO_WAIT}
        chip = chip_of(dma=dma, dram=dram, state_buffer=buffer)
        steps = [copy(q, 1 + q % 3, count, q << 14, 2) for q in range(chip.dma.queues)]
        return events_and_cycles(chip, Program("alike", tuple(steps)))[0]

    # Not the same number: the copies may end in another order.
    assert events(2400) < 2 * events(150)


def test_an_engine_elsewhere_leaves_them_to_their_round() -> None:
    """Two engines take turns at bank 1 a hundred times while queues go on at bank 0."""
    chip, program = pairs(2000)
    place = chip.state_buffer.bytes_per_partition // 8
    fills = tuple(
        Memset(engine=engine, target=state(0, 2, place + 40 * n, 9), value=1)
        for n in range(100)
        for engine in ("activation", "pooling")
    )
    alone, both = (
        events_and_cycles(chip, Program("fills", fills)),
        events_and_cycles(chip, Program("both", (*program.instructions, *fills))),
    )
    assert both[0] < alone[0] + 100
    assert_same(
        simulate(chip, Program("both", (*pairs(200)[1].instructions, *fills))),
        simulate(chip, Program("both", (*pairs(200)[1].instructions, *fills)), engine="register"),
    )


def random_contest(rng: Random) -> tuple[Chip, Program]:
    """Return queues with descriptors of few sizes at few banks, and engines that join them."""
    queues = rng.choice([2, 2, 3, 4])
    engines = rng.choice([n for n in (1, 2, 3, 4) if queues % n == 0])
    dma = {
        "queues": queues,
        "engines": engines,
        "bytes_per_cycle": queues // engines + rng.choice([0, 1, 2, 7]),
        "descriptor_cycles": rng.choice([0, 1, 2, 5]),
        "descriptor_cost": rng.choice(["sum", "max"]),
        "partitions_per_cycle": rng.choice([1, 1, 2]),
        "outstanding": rng.choice([1, 1, 2]),
    }
    buffer = {
        "port_scope": rng.choice(["bank", "partition"]),
        "bytes_per_partition": 4096,
        "banks": 2,
    }
    dram = {"bytes_per_cycle": rng.choice([2, 3, 5, 64]), **NO_WAIT}
    if rng.random() < 0.3:
        dma["clock"] = "slow"
    clocks = {"core": 1000, "slow": rng.choice([500, 750])}
    chip = chip_of(dma=dma, dram=dram, state_buffer=buffer, clock=clocks)
    steps: list[Instruction] = []
    for number in range(rng.randint(2, 7)):
        links: dict[str, Any] = {"posts": (Post(number),)}
        if number and rng.random() < 0.3:
            links["waits"] = (Wait(rng.randrange(number), 1),)
        steps.append(_step(rng, number, queues, links))
    return chip, Program("contest", tuple(steps), tuple(f"s{n}" for n in range(len(steps))))


def _step(rng: Random, number: int, queues: int, links: dict[str, Any]) -> Instruction:
    """Return an instruction whose target is bytes 512 n to 512 n + 511 of the partitions."""
    place = 512 * number
    if rng.random() < 0.2:
        source, target = state(0, 2, 0, 20), state(0, 2, place, 20)
        return Copy(engine="activation", source=source, target=target, **links)
    queue, size, partitions = rng.randrange(queues), rng.choice([1, 1, 2, 5]), rng.choice([1, 2, 4])
    count = rng.randint(1, 480 // (size + 1) // partitions)
    made = copy(queue, size, count, place, partitions, **links)
    if rng.random() < 0.3:  # from the state buffer to DRAM, or within the state buffer
        there = Access(Buffer.DRAM, "u8", 0, 1, (1 + number) << 20, made.source.pattern)
        origin = replace(made.target, start=512 * rng.randrange(number + 1))
        return DmaCopy(dma_queue=queue, source=origin, target=there, **links)
    return made


def compare(seed: int) -> None:
    chip, program = random_contest(Random(seed))
    assert_same(simulate(chip, program), simulate(chip, program, engine="register"))


@pytest.mark.parametrize("seed", quick_first(range(30), 7))
def test_random_contests(seed: int) -> None:
    compare(seed)


@pytest.mark.parametrize("seed", range(100, 120))
def test_random_contests_byte_by_byte(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bundle of more than a cycle is taken to be long."""
    monkeypatch.setattr(stream, "LONG_CYCLES", 1)
    compare(seed)


def in_turn(size: int, scope: str, count: int = 1) -> tuple[Chip, Program]:
    """Return three queues that share 2 bytes a cycle, each with `count` long descriptors.

    Two of them write bank 0 and partition 0, the third is at bank 1.
    """
    dma = {"queues": 3, "descriptor_cycles": 0}
    buffer = {"port_scope": scope, "bytes_per_partition": 1 << 20, "banks": 2}
    chip = chip_of(dma=dma, dram={"bytes_per_cycle": 2, **NO_WAIT}, state_buffer=buffer)
    places = [(0, 0), (1, 1 << 18), (2, 1 << 19)]
    return chip, Program("in turn", tuple(copy(q, size, count, at) for q, at in places))


@pytest.mark.parametrize("scope", ["bank", "partition"])
@pytest.mark.parametrize(("size", "count"), [(40, 3), (700, 1), (400, 2)])
def test_queues_that_take_turns_at_single_bytes(size: int, count: int, scope: str) -> None:
    chip, program = in_turn(size, scope, count)
    found = simulate(chip, program)
    assert found.trace.stalls
    assert_same(found, simulate(chip, program, engine="register"))


@pytest.mark.white_box
@pytest.mark.parametrize("scope", ["bank", "partition"])
def test_they_cost_as_few_decisions_however_long_their_descriptors_are(
    scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided, arbitrate = [0], Arbiter._arbitrate

    def counted(arbiter: Arbiter, contended: set[Stream], now: int) -> int:
        decided[-1] += 1
        return arbitrate(arbiter, contended, now)

    monkeypatch.setattr(Arbiter, "_arbitrate", counted)
    for size in (600, 6000):
        simulate(*in_turn(size, scope), values=False)
        decided.append(0)
    few, many, _ = decided
    assert 0 < many < few + 10


def test_a_descriptor_whose_bytes_have_all_moved_is_in_no_round() -> None:
    """Of both descriptors the cost lasts longer than the bytes; queue 1 is refused in cycle 0."""
    dma = {"descriptor_cost": "max", "descriptor_cycles": 7}
    program = Program("over", (copy(0, 4, 1, 0), copy(1, 6, 1, 1 << 10)))
    found = simulate(chip_of(dma=dma), program)
    trace = found.trace
    assert trace.stalls == (Stall(0, "dma1", 1, 1, "state_buffer", 0, "write", "dma"),)
    assert [time.done for time in trace.times] == [6, 6]
    assert trace.port_cycles["state_buffer", 0, "write"] == 1 + 2
    assert_same(found, simulate(chip_of(dma=dma), program, engine="register"))


@pytest.mark.white_box
def test_random_contests_have_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared does repeat: in a quarter of the contests at least."""
    seeds_with_rounds, follow = set(), DmaStream.follow
    for seed in range(12):

        def followed(stream: DmaStream, parts: Sequence[RoundPart], seed: int = seed) -> None:
            seeds_with_rounds.update([seed] if parts else [])
            follow(stream, parts)

        monkeypatch.setattr(DmaStream, "follow", followed)
        simulate(*random_contest(Random(seed)), values=False)
    assert len(seeds_with_rounds) >= 3


def compare_transfers(seed: int) -> None:
    """Compare copies of all kinds, with engines in their way; DRAM has no banks."""
    rng = Random(seed)
    tables = random_chip(rng, clocks=seed % 3 == 0).model_dump()
    tables["dma"] |= random_dma(rng, 4)
    chip = Chip.model_validate(tables)
    program, images = RandomTransfers(rng, chip).build(14)
    assert_same(simulate(chip, program, images), simulate(chip, program, images, engine="register"))


@pytest.mark.parametrize("seed", range(6))
def test_random_transfers(seed: int) -> None:
    compare_transfers(seed)


def test_a_copy_that_meets_none_ends_and_changes_the_pace_of_others_in_rounds() -> None:
    compare(1029)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_contests(part: int) -> None:
    for seed in range(1000 + 50 * part, 1050 + 50 * part):
        compare(seed)
