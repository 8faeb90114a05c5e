"""A partition as a memory of its own: what meets there? Section 5, by hand and by a third model.

The third model (`support.port_reference`) asks for every port of every partition in every tick.
"""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest
import simpy

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import FIELDS, assert_same
from support.port_reference import PortReference
from support.random_programs import aside
from systolic.hw.spec import Chip
from systolic.hw.units import CLIENTS
from systolic.isa import (
    Access,
    Buffer,
    Copy,
    DmaCopy,
    Instruction,
    LoadWeights,
    MatMul,
    Memset,
    Program,
)
from systolic.machine import simulate
from systolic.trace.records import Stall, Trace

SCOPES = ("partition", "bank")
OWN = 16384
"""A byte in bank 2, which nothing else uses."""


def run(chip: Chip, *instructions: Instruction) -> Trace:
    """Return what the event engine observes, which the register engine observes as well."""
    program = Program("scope", instructions)
    event = simulate(chip, program)
    assert_same(event, simulate(chip, program, engine="register"))
    return event.trace


def chip_of(scope: str, **tables: Any) -> Chip:
    return ideal_chip(8, 8, **{"state_buffer": {"port_scope": scope}, **tables})


def copy(engine: Any, first: int, count: int, elements: int, target: int = OWN) -> Copy:
    source, place = state(first, count, 0, elements), state(first, count, target, elements)
    return Copy(engine=engine, source=source, target=place)


def spans(trace: Trace) -> list[tuple[int, int]]:
    return [(t.first, t.last) for t in trace.times]


@pytest.mark.parametrize("scope", SCOPES)
def test_two_engines_on_disjoint_partitions_of_one_bank(scope: str) -> None:
    """Both read bank 0 and write bank 2: side by side, or one after the other."""
    trace = run(chip_of(scope), copy("activation", 0, 4, 3), copy("pooling", 4, 4, 3))
    if scope == "partition":
        assert spans(trace) == [(0, 2), (0, 2)]
        assert trace.stalls == ()
        # three cycles in each of eight partitions
        assert trace.port_cycles["state_buffer", 0, "read"] == 3 * 8
    else:
        assert spans(trace) == [(0, 2), (3, 5)]
        assert trace.stalls == (Stall(0, "pooling", 1, 3, "state_buffer", 0, "read", "activation"),)
        assert trace.port_cycles["state_buffer", 0, "read"] == 6


def test_partitions_that_overlap_in_part() -> None:
    """They share partition 3 alone, which is enough, and which the stall names."""
    trace = run(chip_of("partition"), copy("activation", 0, 4, 3), copy("pooling", 3, 4, 3))
    assert spans(trace) == [(0, 2), (3, 5)]
    assert trace.stalls == (Stall(0, "pooling", 1, 3, "state_buffer", 0, "read", "activation", 3),)


@pytest.mark.parametrize("scope", SCOPES)
def test_dma_walks_over_the_partitions(scope: str) -> None:
    """Descriptors of 12 bytes, 4 per cycle: partition p is read in cycles 3p to 3p + 2.

    A fill of the pooling engine (10 elements, written in cycles 1 to 10) has partitions 2 and 3 of
    the bank that the queue writes to. The queue comes to partition 2 in cycle 6 and goes on in 11.
    """
    trace = run(
        chip_of(scope, dma={"bytes_per_cycle": 4}),
        Memset(engine="pooling", target=state(2, 2, OWN + 64, 10), value=1),
        DmaCopy(source=state(0, 4, 0, 3), target=state(0, 4, OWN, 3), dma_queue=0),
    )
    stall = Stall(6, "dma0", 1, 5, "state_buffer", 2, "write", "pooling", 2)
    if scope == "bank":  # refused from the first cycle of the fill on
        stall = Stall(1, "dma0", 1, 10, "state_buffer", 2, "write", "pooling")
    assert trace.stalls == (stall,)
    assert trace.times[1].done == (16 if scope == "partition" else 21)
    cycles = 12 + (20 if scope == "partition" else 10)
    assert trace.port_cycles["state_buffer", 2, "write"] == cycles


@pytest.mark.parametrize(
    ("rows", "first", "done"),
    [
        (2, 6, 16),  # partitions 0 and 1 in cycles 0 to 5, 2 and 3 in 11 to 16
        (3, 1, 21),  # 0 to 2 in cycle 0, and from 11 to 18; then 3
        (4, 1, 21),  # a byte of each in cycle 0, the others from 11 on
    ],
)
def test_rows_side_by_side_take_the_ports_of_all_of_them(rows: int, first: int, done: int) -> None:
    """The same copy and the same fill, in partitions 2 and 3, with ports of each partition."""
    trace = run(
        chip_of("partition", dma={"bytes_per_cycle": 4, "partitions_per_cycle": rows}),
        Memset(engine="pooling", target=state(2, 2, OWN + 64, 10), value=1),
        DmaCopy(source=state(0, 4, 0, 3), target=state(0, 4, OWN, 3), dma_queue=0),
    )
    stall = Stall(first, "dma0", 1, 11 - first, "state_buffer", 2, "write", "pooling", 2)
    assert trace.stalls == (stall,)
    assert trace.times[1].done == done
    moving = {2: 12 * 2, 3: 9 * 3 + 3, 4: 12 * 4}[rows]
    assert trace.port_cycles["state_buffer", 2, "write"] == moving + 20


def test_rows_read_from_the_result_buffer_take_its_bank_and_the_partitions_they_go_to() -> None:
    """The activation engine reads partitions 6 and 7 of a bank that a copy reads, in cycles 0 to 4.

    The result buffer has bank scope, so the copy begins in 5. It goes to partitions 4 and 5, of
    which the pooling engine fills 5 in cycles 6 to 8.
    """
    trace = run(
        chip_of(
            "partition",
            result_buffer={"dma_readable": True},
            pooling={"latency_cycles": 6},
            dma={"bytes_per_cycle": 8, "partitions_per_cycle": 2},
        ),
        Copy(engine="activation", source=psum(6, 2, 64, 5), target=state(6, 2, 64, 5)),
        Memset(engine="pooling", target=state(5, 1, OWN + 64, 3), value=1),
        DmaCopy(source=psum(0, 2, 0, 3), target=state(4, 2, OWN, 3), dma_queue=0),
    )
    assert [s for s in trace.stalls if s.unit == "dma0"] == [
        Stall(0, "dma0", 2, 5, "result_buffer", 0, "read", "activation"),
        Stall(6, "dma0", 2, 3, "state_buffer", 2, "write", "pooling", 5),
    ]
    # 24 bytes, 8 in a cycle: in 5, 9 and 10
    assert trace.times[2].done == 10


@pytest.mark.parametrize("scope", SCOPES)
def test_two_queues_one_behind_the_other(scope: str) -> None:
    """Queue 1 writes where queue 0 writes, but begins in partition 4: they never meet there."""
    trace = run(
        chip_of(scope, dma={"bytes_per_cycle": 4, "queues": 2}),
        DmaCopy(source=state(0, 4, 0, 3), target=state(0, 4, OWN, 3), dma_queue=0),
        DmaCopy(source=state(4, 4, 8192, 3), target=state(4, 4, OWN, 3), dma_queue=1),
    )
    dones = [11, 11] if scope == "partition" else [11, 23]
    assert [t.done for t in trace.times] == dones
    assert bool(trace.stalls) == (scope == "bank")


def test_of_several_partitions_the_lowest_is_named() -> None:
    """The activation engine has partitions 4 to 7 of bank 0, a queue partition 1."""
    order = ("dma", "activation", "pooling", "moving", "weights")
    trace = run(
        chip_of("partition", port_priority=order, dma={"bytes_per_cycle": 4}),
        copy("activation", 4, 4, 6),
        copy("pooling", 0, 8, 2, target=3 * 8192),
        DmaCopy(source=state(1, 1, 0, 3), target=state(1, 1, OWN, 3), dma_queue=0),
    )
    assert [s for s in trace.stalls if s.unit == "pooling"] == [
        Stall(0, "pooling", 1, 3, "state_buffer", 0, "read", "dma", 1),
        Stall(3, "pooling", 1, 3, "state_buffer", 0, "read", "activation", 4),
    ]


@pytest.mark.parametrize("scope", SCOPES)
def test_weights_from_the_top_take_one_partition_at_a_time(scope: str) -> None:
    """Row r is read in cycle r. The pooling engine has partitions 2 and 3 in cycles 0 to 4."""
    order = ("pooling", "weights", "moving", "activation", "dma")
    array = {"weight_path": "top"}
    trace = run(
        chip_of(scope, port_priority=order, pe_array=array),
        LoadWeights(weights=state(0, 4, 64, 8)),
        copy("pooling", 2, 2, 5),
    )
    assert spans(trace)[0] == ((0, 6) if scope == "partition" else (5, 8))
    (stall,) = trace.stalls
    expected = (2, 3, 2) if scope == "partition" else (0, 5, -1)
    assert (stall.tick, stall.cycles, stall.partition) == expected


@pytest.mark.parametrize("scope", SCOPES)
def test_sums_keep_a_bank_of_the_result_buffer_in_all_partitions(scope: str) -> None:
    """The result buffer has one port for a bank whatever the state buffer has."""
    trace = run(
        chip_of(scope),
        LoadWeights(weights=state(0, 1, 0, 1)),
        MatMul(moving=state(0, 1, 64, 9), result=psum(0, 1, 0, 9)),
        Memset(engine="pooling", target=psum(4, 4, 64, 20), value=1),
    )
    # injected in 1 to 9, one row of eight below: sums in 8 to 16
    assert trace.stalls == (Stall(8, "pooling", 2, 9, "result_buffer", 0, "write", "moving"),)


def test_a_slow_access_keeps_its_partitions_alone() -> None:
    """The activation engine, 4 ticks to its cycle, reads partitions 0 to 3 in ticks 0 to 11."""
    clocks = {"core": 1000, "slow": 250}
    chip = chip_of("partition", clock=clocks, activation={"clock": "slow"})
    trace = run(
        chip,
        copy("activation", 0, 4, 3),
        copy("pooling", 4, 4, 5),
        copy("pooling", 3, 2, 2, target=3 * 8192),
    )
    assert spans(trace) == [(0, 8), (0, 4), (12, 13)]
    (stall,) = trace.stalls
    assert stall == Stall(5, "pooling", 2, 7, "state_buffer", 0, "read", "activation", 3)


def test_a_slow_queue_is_met_in_the_partition_to_which_it_has_come() -> None:
    """A queue, 4 ticks to its cycle, reads partition p in ticks 4p to 4p + 3, a descriptor each.

    It has gone through four of them undisturbed when the pooling engine comes, in tick 13.
    """
    chip = chip_of(
        "partition", clock={"core": 1000, "slow": 250},
        dma={"clock": "slow", "bytes_per_cycle": 16}, pooling={"fixed_cycles": 13},
    )  # fmt: skip
    walk = DmaCopy(source=state(0, 8, 0, 4), target=state(0, 8, OWN, 4), dma_queue=0)
    trace = run(chip, walk, copy("pooling", 3, 1, 2, target=3 * 8192))
    assert trace.stalls == (Stall(13, "pooling", 1, 3, "state_buffer", 0, "read", "dma", 3),)
    assert spans(trace)[1] == (16, 17)
    elsewhere = run(chip, walk, copy("pooling", 0, 3, 2, target=3 * 8192))
    assert elsewhere.stalls == ()
    assert spans(elsewhere)[1] == (13, 14)


# -- cost in events ------------------------------------------------------------------------------


def events(monkeypatch: pytest.MonkeyPatch, chip: Chip, *instructions: Instruction) -> int:
    """Return the simpy events of a run in which nothing is refused."""
    steps, step = itertools.count(), simpy.Environment.step
    with monkeypatch.context() as patch:
        patch.setattr(simpy.Environment, "step", lambda env: (next(steps), step(env))[1])
        trace = simulate(chip, Program("events", instructions), values=False).trace
    assert trace.stalls == ()
    return next(steps)


def wide_chip(scope: str) -> Chip:
    memory = {"partitions": 256, "port_scope": scope}
    return ideal_chip(8, 8, state_buffer=memory, dma={"bytes_per_cycle": 4, "queues": 2})


def test_events_do_not_grow_while_streams_that_may_meet_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Queue 1 is two partitions ahead of queue 0 in the same bank, all the way."""
    counts = set()
    for partitions in (8, 80, 250):
        behind, ahead = (
            DmaCopy(
                source=state(first, partitions, 8192 * (2 + first), 3),
                target=state(first, partitions, 0, 3), dma_queue=queue,
            )
            for queue, first in ((0, 0), (1, 2))
        )  # fmt: skip
        counts.add(events(monkeypatch, wide_chip("partition"), behind, ahead))
    assert len(counts) == 1, counts


def test_a_copy_walks_up_to_the_partitions_of_an_engine_in_one_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine is through with the upper half before the queue comes there."""
    counts = set()
    for partitions in (8, 80, 250):
        half = partitions // 2
        elements = 3 * half - 2  # written in cycles 1 to 3 * half - 2
        fill = Memset(engine="pooling", target=state(half, half, 64, elements), value=1)
        walk = DmaCopy(
            source=state(0, partitions, 8192, 3), target=state(0, partitions, 0, 3), dma_queue=0
        )
        counts.add(events(monkeypatch, wide_chip("partition"), fill, walk))
    assert len(counts) == 1, counts


# -- against the third model ----------------------------------------------------------------------


def random_scene(seed: int) -> tuple[Chip, Program]:
    """Return a chip and accesses that get in one another's way; what they write does not matter."""
    rng = Random(seed)
    bundles = aside(rng, "bundles")
    is_wide = bundles.random() < 0.3  # then the width of a port binds copies, and nothing else
    names = {"core": 1000} | ({"fast": 1500, "slow": 500} if seed % 3 == 0 else {})
    clocks = list(names)

    def engine() -> dict[str, Any]:
        return {
            "independent_lanes": False,
            "clock": rng.choice(clocks),
            "latency_cycles": rng.randint(1, 3),
            "elements_per_cycle": rng.choice([1, 1, 2, 3]),
        }

    chip = ideal_chip(
        6, 5, clock=names,
        port_priority=tuple(rng.sample(CLIENTS, len(CLIENTS))),
        state_buffer={
            "partitions": 6, "bytes_per_partition": 192, "banks": rng.choice([1, 2, 3]),
            "port_scope": rng.choice(["partition", "partition", "bank"]),
            "port_bytes": 20 if is_wide else None,
        },
        pe_array={
            "fast_load": rng.choice([1, 2]), "weight_path": rng.choice(["left", "top"]),
            "clock": rng.choice(clocks),
        },
        activation=engine(), pooling=engine(),
        dma={
            "queues": 3, "latency_cycles": rng.choice([0, 2]), "clock": rng.choice(clocks),
            "descriptor_cycles": rng.choice([0, 1]),
            "bytes_per_cycle": 48 if is_wide else rng.choice([1, 4, 9]),
            "partitions_per_cycle": bundles.choice([1, 2, 3, 6]),
        },
    )  # fmt: skip
    made = [_random_instruction(rng, chip) for _ in range(rng.randint(2, 12))]
    return chip, Program("scene", tuple(made))


def _random_instruction(rng: Random, chip: Chip) -> Instruction:
    count, elements = rng.randint(1, 6), rng.randint(1, 10)
    kind = rng.choice(["copy", "copy", "fill", "load", "dma", "dma"])
    unit: Any = rng.choice(["activation", "pooling"])
    if kind == "load":
        rows, cols = rng.randint(1, 6), rng.randint(1, 5)
        bank = chip.state_buffer.bank_bytes // 4
        start = bank * rng.randrange(chip.state_buffer.banks) + rng.randint(0, bank - cols)
        return LoadWeights(weights=state(0, rows, 4 * start, cols))
    target = _random_place(rng, count, elements)
    if kind == "fill":
        return Memset(engine=unit, target=target, value=1)
    if kind == "copy":
        return Copy(engine=unit, source=_random_place(rng, count, elements), target=target)
    size = count * elements
    rows = rng.choice([n for n in range(1, 7) if size % n == 0 and size <= 12 * n])
    source = _random_place(rng, rows, size // rows)
    return DmaCopy(source=source, target=target, dma_queue=rng.randrange(3))


def _random_place(rng: Random, count: int, elements: int) -> Access:
    step = rng.choice([1, 1, 2, -1, 3])
    if abs(step) * (elements - 1) > 40:
        step = 1
    span = abs(step) * (elements - 1)
    start = rng.randint(0, 47 - span) + (span if step < 0 else 0)
    first = rng.randint(0, 6 - count)
    return Access(Buffer.STATE, "f32", first, count, 4 * start, ((step, elements),))


def compare(seed: int) -> Counter[str]:
    """Compare both engines with the third model; count what the scene has in it."""
    chip, program = random_scene(seed)
    trace = simulate(chip, program).trace
    register = simulate(chip, program, engine="register").trace
    for name in FIELDS:  # not the values: the accesses race
        assert getattr(trace, name) == getattr(register, name), (seed, name)
    reference = PortReference(chip, program)
    assert {t.instruction: tuple(t[2:]) for t in trace.times} == reference.times, seed
    assert trace.stalls == reference.stalls, seed
    scope = chip.state_buffer.port_scope
    return Counter({f"{scope} {s.unit[:3]} {s.winner[:3]}": 1 for s in trace.stalls})


@pytest.mark.parametrize("block", range(4))
def test_random_accesses_are_those_of_the_third_model(block: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(100 * block, 100 * block + 100):
        met += compare(seed)
    units, winners = ("act", "poo", "dma", "pe_"), ("act", "poo", "dma", "wei")
    pairs = set(zip(units, winners, strict=True)) - {("dma", "dma")}
    both = [f"partition {u} {w}" for u in units for w in winners if (u, w) not in pairs]
    assert min(met[each] for each in both) > 0, met


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_many_random_accesses_are_those_of_the_third_model(block: int) -> None:
    for seed in range(400 + 1500 * block, 400 + 1500 * block + 1500):
        compare(seed)


@pytest.mark.parametrize("seed", [1311, 3101])
def test_a_copy_that_is_refused_in_rounds_ends_no_sooner_than_they_let_it(seed):
    """Its end is not foretold as if what rounds are still to refuse were granted."""
    compare(seed)
