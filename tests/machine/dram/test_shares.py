"""Do the copies that share DRAM get all of its bandwidth, never more, and each queue in turn?

The event engine sums shares in closed form, the register engine forms them cycle by cycle, and a
third model in `support.share_reference` deals out the bytes one by one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.command_line import run_command
from support.compare_traces import assert_same
from support.random_programs import random_chip, random_dma
from support.random_transfers import RandomTransfers
from support.share_reference import Timing, Work, reference, shares_of
from support.tiers import quick_first
from systolic.hw.formulas import dram as formulas
from systolic.hw.formulas import timing
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, Post, Program, Wait
from systolic.machine import simulate
from systolic.machine.event.dma.pace import (
    FOREVER,
    BytePace,
    HeldShares,
    PacedDescriptor,
    pace_of,
    shared_pace,
)
from systolic.trace.words import KINDS

QUEUES, BANK = 8, 4096


def _dram(start, *pattern):
    return Access(Buffer.DRAM, "u8", 0, 1, start, pattern)


def _chip(queues=QUEUES, **numbers):
    return ideal_chip(
        2, 2,
        state_buffer={"partitions": 5, "bytes_per_partition": 2 * QUEUES * BANK,
                      "banks": 2 * QUEUES, "port_bytes": numbers.get("width") or None},
        dma={"queues": queues, "bytes_per_cycle": numbers.get("own", 64),
             "engines": numbers.get("engines"), "outstanding": numbers.get("outstanding", 1),
             "descriptor_cost": numbers.get("cost", "sum"),
             "partitions_per_cycle": numbers.get("beside", 1),
             "latency_cycles": numbers.get("latency", 0),
             "descriptor_cycles": numbers.get("fetch", 0)},
        dram={"bytes_per_cycle": numbers["total"]},
    )  # fmt: skip


# -- the law --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", range(1, 17))
def test_all_of_the_bandwidth_is_dealt_out_and_everybody_has_his_turn(shares):
    for total in range(1, 21):
        _check_law(total, shares)


def _check_law(total, shares):
    paces = [shared_pace(HeldShares(99), HeldShares(total, j, 1, shares)) for j in range(shares)]
    rows = [[pace.amount(t) for pace in paces] for t in range(3 * shares)]
    assert rows == [shares_of(total, t, shares) for t in range(3 * shares)]
    for first in range(2 * shares):
        window = rows[first : first + shares]
        assert [sum(row) for row in window] == [total] * shares
        assert [sum(column) for column in zip(*window, strict=True)] == [total] * shares


@pytest.mark.parametrize("shares", range(2, 12))
def test_no_share_waits_longer_than_the_bytes_of_the_others_take(shares):
    for total in range(1, shares):
        for j in range(shares):
            pace = shared_pace(HeldShares(99), HeldShares(total, j, 1, shares))
            turns = [t for t in range(4 * shares) if pace.amount(t)]
            assert max(b - a for a, b in pairwise(turns)) == -(-shares // total)


@pytest.mark.parametrize("shares", range(1, 9))
def test_the_closed_formula_of_a_share_is_the_sum_of_its_cycles(shares):
    for total in range(1, 10):
        for j in range(shares):
            got = [shares_of(total, t, shares)[j] for t in range(30)]
            for first in range(9):
                for stop in range(first, 30):
                    found = formulas.share_bytes(total, shares, j, first, stop)
                    assert found == sum(got[first:stop])


@pytest.mark.parametrize("make", [BytePace, pace_of])
@pytest.mark.parametrize("choice", [[0, 0, 1, 2, 5], [3]], ids=["uneven", "steady"])
def test_a_pace_sums_and_ends_as_its_cycles_do(make, choice):
    rng = Random(2)
    for _ in range(300):
        amounts = tuple(rng.choice(choice) for _ in range(rng.randint(1, 6)))
        if not any(amounts):
            continue
        pace, first = make(amounts), rng.randint(0, 20)
        row = [amounts[t % len(amounts)] for t in range(first, first + 400)]
        cycles, size = rng.randint(0, 40), rng.randint(1, 60)
        assert pace.moved(first, cycles) == sum(row[:cycles])
        assert pace.busy(first, cycles) == sum(a > 0 for a in row[:cycles])
        assert pace.cycles(first, size) == next(n for n in range(400) if sum(row[:n]) >= size)
        assert pace.amount(first) == row[0]
        others = (n for n in range(1, 400) if (row[n] > 0) != (row[0] > 0))
        assert pace.alike(first) == next(others, FOREVER)
        assert pace.at_most(1).moved(first, cycles) == sum(min(a, 1) for a in row[:cycles])


def test_descriptors_in_a_row_are_those_one_by_one():
    rng = Random(3)
    for _ in range(200):
        amounts = tuple(rng.choice([0, 1, 2, 5]) for _ in range(rng.randint(1, 7)))
        if not any(amounts):
            continue
        pace, first = BytePace(amounts), rng.randint(0, 9)
        piece = PacedDescriptor(rng.randint(0, 6), rng.randint(1, 12), rng.random() < 0.5)
        count, at, busy, ends = rng.randint(1, 40), first, 0, []
        for _ in range(count):
            begin = at if piece.overlaps else at + piece.fetch
            moving = pace.cycles(begin, piece.size)
            busy += pace.busy(begin, moving)
            took = max(piece.fetch, moving) if piece.overlaps else piece.fetch + moving
            at += took
            ends.append(at - first)
        orbit = pace.orbit(piece, first)
        assert [orbit.cycles(n) for n in range(count + 1)] == [0, *ends]
        assert orbit.busy(count) == busy
        assert all(
            orbit.whole(cycles) == sum(end <= cycles for end in ends) for cycles in range(ends[-1])
        )
        assert orbit.ends(count).tolist() == [0, *ends]


# -- both engines, and the third model ------------------------------------------------------------


def _rows(rng: Random, queue: int, place: int, beside: int):
    """Return a copy of some rows, each in a partition of its own, and its bundles."""
    size, rows = rng.choice([1, 2, 7, 20, 61]), rng.randint(2, 5)
    there = _dram(4096 * place, (size + rng.choice([0, 1]), rows), (1, size))
    here = Access(Buffer.STATE, "u8", rng.randint(0, 5 - rows), rows, 2 * queue * BANK,
                  ((1, size),))  # fmt: skip
    bundles = tuple(min(beside, rows - first) for first in range(0, rows, beside))
    work = Work(1, tuple(size * bundle for bundle in bundles), bundles)
    source, target = rng.choice([(there, here), (here, there)])
    if rng.random() < 0.3:
        source, target = here, replace(here, start=here.start + BANK)
        work = work._replace(ends=0)
    return DmaCopy(dma_queue=queue, source=source, target=target), work


def _stream(rng: Random, queue: int, place: int, beside: int):
    """Return a copy with bytes and banks of its own, and what the third model needs of it."""
    if rng.random() < 0.3:
        return _rows(rng, queue, place, beside)
    size, count = rng.choice([1, 1, 2, 3, 7, 20, 61]), rng.choice([1, 1, 2, 5, 30])
    there = _dram(4096 * place, (size + 1, count), (1, size))
    kind = rng.choice(["in", "in", "out", "out", "within", "chip"])
    here = Access(Buffer.STATE, "u8", 0, 1, (2 * queue + (kind == "in")) * BANK,
                  ((size + 1, count), (1, size)))  # fmt: skip
    if kind == "within":
        target = _dram(4096 * (place + 100), (size + 1, count), (1, size))
        return DmaCopy(dma_queue=queue, source=there, target=target), Work(2, (size,) * count)
    if kind == "chip":
        target = replace(here, start=here.start + BANK)
        return DmaCopy(dma_queue=queue, source=here, target=target), Work(0, (size,) * count)
    source, target = (there, here) if kind == "in" else (here, there)
    return DmaCopy(dma_queue=queue, source=source, target=target), Work(1, (size,) * count)


def _streams(seed: int):
    rng = Random(seed)
    count = rng.randint(1, QUEUES)
    engines = rng.choice([n for n in range(1, count + 1) if count % n == 0])
    numbers = {"own": max(count // engines, rng.choice([1, 2, 5, 7, 64])),
               "total": rng.randint(1, 9), "engines": rng.choice([engines, None]),
               "latency": rng.choice([0, 0, 3, 20]), "fetch": rng.choice([0, 0, 1, 3, 8]),
               "cost": rng.choice(["sum", "max"]),
               "outstanding": rng.choice([1, 1, 2, 5]), "beside": rng.choice([1, 2, 3, 8]),
               "width": rng.choice([0, 4, 6, 16])}  # fmt: skip
    copies, works = [], [[] for _ in range(count)]
    for place in range(rng.randint(1, 14)):
        queue = rng.randrange(count)
        copy, work = _stream(rng, queue, place, numbers["beside"])
        copies.append(copy)
        works[queue].append(work)
    timed = Timing(
        numbers["own"], numbers["total"], numbers["latency"], numbers["fetch"],
        numbers["engines"] or 0, numbers["cost"] == "max", numbers["outstanding"],
        numbers["width"],
    )  # fmt: skip
    return _chip(count, **numbers), Program("streams", tuple(copies)), timed, works


@pytest.mark.parametrize("seed", quick_first(range(100), 8))
def test_random_streams(seed):
    chip, program, timed, works = _streams(seed)
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    expected = reference(timed, works)
    found = [
        sorted(t.done for t in event.trace.times if t.unit == f"dma{queue}")
        for queue in range(len(works))
    ]
    assert found == expected.ends
    assert max(expected.traffic) <= timed.total


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("queues", [1, 2, 3, 5, 8])
def test_no_window_moves_more_than_the_bandwidth_and_a_full_one_no_less(engine, queues):
    """Single bytes, each noted in the cycle in which it moves, from and to DRAM."""
    for total in range(1, 10):
        _check_bytes_by_cycle(engine, queues, total)


def _check_bytes_by_cycle(engine, queues, total):
    copies = []
    for q in range(queues):
        there = _dram(4096 * q, (1, 60))
        here = Access(Buffer.STATE, "u8", 0, 1, 2 * q * BANK, ((2, 60),))
        source, target = (here, there) if q % 2 else (there, here)
        copies.append(DmaCopy(dma_queue=q, source=source, target=target))
    chip = _chip(queues, total=total, own=1)
    trace = simulate(chip, Program("bytes", tuple(copies)), kinds=("read",), engine=engine).trace
    ticks = trace.words.of("read").rows["tick"].tolist()
    by_cycle = [ticks.count(t) for t in range(max(ticks) + 1)]
    assert max(by_cycle) <= total
    # a queue moves a byte in a cycle at most; until the first has ended, nothing of DRAM is wasted
    full = min(t.done for t in trace.times)
    assert by_cycle[:full] == [min(total, queues)] * full


@pytest.mark.parametrize("seed", quick_first(range(120), 20))
def test_random_transfers_that_meet_at_ports_too(seed):
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 2 == 0).model_dump()
    chip["dram"]["bytes_per_cycle"] = rng.randint(1, 9)
    chip["dma"] |= random_dma(rng, 8)
    chip["state_buffer"]["banks"] = rng.choice([1, 2, 4, 16])
    made = Chip.model_validate(chip)
    program, images = RandomTransfers(rng, made).build(rng.randint(2, 14))
    event = simulate(made, program, images, kinds=KINDS)
    assert_same(event, simulate(made, program, images, kinds=KINDS, engine="register"))


@pytest.mark.parametrize("engine", ["event", "register"])
def test_cycles_are_those_of_the_dma_engine(engine):
    """At a third of the array's clock ticks 0 to 2 are cycle 0, in which queue 0 has its turn."""
    chip = ideal_chip(
        2, 2,
        clock={"core": 999, "slow": 333},
        dma={"queues": 2, "bytes_per_cycle": 4, "clock": "slow"},
        dram={"bytes_per_cycle": 1},
    )  # fmt: skip
    wake = Copy(engine="activation", source=state(0, 1, 0, 2), target=state(0, 1, 64, 2),
                posts=(Post(0),))  # fmt: skip
    copies = [
        DmaCopy(
            dma_queue=q, source=_dram(64 * q, (1, 2)),
            target=state(0, 1, 8192 * (q + 1), 2, "u8"), waits=(Wait(0, 1),),
        )
        for q in range(2)
    ]  # fmt: skip
    trace = simulate(chip, Program("slow", (wake, *copies), ("go",)), engine=engine).trace
    ends = {t.unit: (t.start, t.first, t.done) for t in trace.times if t.unit.startswith("dma")}
    # the copy of the engine is done in tick 2 and seen in tick 3: cycle 1, an odd one
    assert ends == {"dma0": (3, 6, 12), "dma1": (3, 3, 9)}


# -- queues of one engine -------------------------------------------------------------------------


def _here(queue, size, **links):
    return DmaCopy(dma_queue=queue, source=state(0, 1, 2 * queue * BANK, size, "u8"),
                   target=state(0, 1, (2 * queue + 1) * BANK, size, "u8"), **links)  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize(
    ("engines", "ends"),
    [
        # five bytes for one, or two for each of two: 3 and 2, then 2 and 3, and so on; 0 and 2
        # are of engine 0, so each of 0 and 2 shares, and 1 and 3 do
        (4, [2, 2, 2, 2]),
        (2, [5, 5, 5, 5]),
        # 5 bytes for 4: 60 in 12 cycles; every fourth cycle the one byte over is the queue's
        (1, [11, 11, 11, 11]),
    ],
)
def test_queues_of_an_engine_share_its_bytes(engine, engines, ends):
    chip = _chip(4, total=1, own=5, engines=engines)
    trace = simulate(chip, Program("mates", tuple(_here(q, 15) for q in range(4))), engine=engine)
    assert [t.done for t in sorted(trace.trace.times, key=lambda t: t.unit)] == ends


@pytest.mark.parametrize("engine", ["event", "register"])
def test_a_queue_moves_the_lesser_of_its_engines_share_and_drams(engine):
    """DRAM has 6: 3 for each; the engine of queues 0 and 2 has 4: 2 for each while both are there.

    Queue 0 from DRAM, queue 2 on the chip, both of engine 0, queue 1 from DRAM with engine 1.
    """
    chip = _chip(4, total=6, own=4, engines=2)
    copies = (
        DmaCopy(dma_queue=0, source=_dram(0, (1, 24)), target=state(0, 1, 0, 24, "u8")),
        DmaCopy(dma_queue=1, source=_dram(64, (1, 12)), target=state(0, 1, 2 * BANK, 12, "u8")),
        _here(2, 12),
    )
    times = simulate(chip, Program("lesser", copies), engine=engine).trace.times
    # queue 1: 3 per cycle; queue 2: 2 per cycle; queue 0: 2 per cycle to cycle 5, then 4
    assert {t.unit: t.done for t in times} == {"dma1": 3, "dma2": 5, "dma0": 8}


# -- from DRAM to DRAM ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize(
    ("total", "own", "cycles"),
    # 80 bytes are read and written; 7 // 2 and 3 // 2: the lesser share counts
    [(8, 64, 20), (7, 64, 27), (3, 64, 80), (2, 64, 80), (1, 64, 160), (64, 5, 16), (64, 64, 3)],
)
def test_a_copy_within_dram_pays_for_both_ends(engine, total, own, cycles):
    chip = _chip(1, total=total, own=own)
    copy = DmaCopy(dma_queue=0, source=_dram(0, (1, 80)), target=_dram(4096, (1, 80)))
    trace = simulate(chip, Program("within", (copy,)), engine=engine).trace
    assert trace.cycles() == cycles
    assert timing.dma_cycles(chip, [(1, 80)], dram=True, within=True) == cycles


@pytest.mark.parametrize("engine", ["event", "register"])
def test_a_copy_within_dram_is_served_although_its_shares_never_come_together(engine):
    """Two bytes for four shares: 0 and 1 have their turn in one cycle, 2 and 3 in the next."""
    chip = _chip(3, total=2)
    copies = (
        DmaCopy(dma_queue=0, source=_dram(0, (1, 40)), target=state(0, 1, 0, 40, "u8")),
        DmaCopy(dma_queue=1, source=_dram(64, (1, 20)), target=_dram(4096, (1, 20))),
        DmaCopy(dma_queue=2, source=_dram(128, (1, 40)), target=state(0, 1, BANK, 40, "u8")),
    )
    trace = simulate(chip, Program("within", copies), engine=engine).trace
    # each share has a byte in every other cycle: 20 bytes read and written in 40 cycles
    assert [t.done for t in trace.times if t.unit == "dma1"] == [39]


# -- second oracle --------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1, 2, 3, 5, 7, 8])
@pytest.mark.parametrize("queues", [2, 3, 4, 8])
def test_equal_copies_end_when_the_closed_formula_has_dealt_out_their_bytes(total, queues):
    size = 96
    copies = tuple(
        DmaCopy(dma_queue=q, source=_dram(128 * q, (1, size)), target=state(0, 1, 2 * q * BANK,
                size, "u8"))
        for q in range(queues)
    )  # fmt: skip
    trace = simulate(_chip(queues, total=total), Program("equal", copies), values=False).trace
    first = {t.unit: t.done for t in trace.times}
    soonest = min(first.values())
    for q in range(queues):
        moved = formulas.share_bytes(total, queues, q, 0, soonest + 1)
        before = formulas.share_bytes(total, queues, q, 0, soonest)
        assert (moved >= size > before) == (first[f"dma{q}"] == soonest)
    # together they never beat the bandwidth, and lose at most the rest of the last round
    assert -(-queues * size // total) <= trace.cycles() <= -(-queues * size // total) + queues


# -- runs that were refused, since they took less than DRAM's bandwidth allows ---------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "total"),
    [("matmul_chain", 1), ("matmul_chain", 2), *(("transpose_4096", n) for n in (1, 2, 3))],
)
def test_shipped_runs_from_a_slow_dram_keep_to_their_bound(run, total, tmp_path):
    slow = f"chip.dram.bytes_per_cycle={total}"
    file = f"configs/runs/{run}.toml"
    status, out, err = run_command(
        "run", file, "--set", slow, "--values", "none", "--no-plots", "--out", tmp_path
    )
    assert (status, err) == (0, ""), out
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["bound"]["why"] == "DRAM bandwidth"
    assert found["bound"]["cycles"] <= found["cycles"] < 1.05 * found["bound"]["cycles"]
