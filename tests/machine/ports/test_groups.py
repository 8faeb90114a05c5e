"""What is decided together, and what costs no decision at all. The cycles are those of stepping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.events import events_and_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, LoadWeights, Program
from systolic.machine import simulate
from systolic.machine.event.dma.stream import DmaStream
from systolic.machine.event.ports import arbiter
from systolic.machine.event.ports.arbiter import Arbiter
from systolic.machine.event.ports.course import FIRST, STOP, PlacedCourse, UseTable
from systolic.machine.event.ports.group import PortGroup, may_meet
from systolic.machine.event.ports.stream import Stream

BANK_BYTES = 8192


def chip_of(scope: str, dram_bytes: int = 1024, **dma: Any) -> Chip:
    queues = {"queues": 2, "descriptor_cycles": 2, "bytes_per_cycle": 4, "latency_cycles": 0, **dma}
    dram = {"bytes_per_cycle": dram_bytes, "latency_cycles": 0}
    return ideal_chip(4, 4, state_buffer={"port_scope": scope}, dram=dram, dma=queues)


def clients_arbitrated(chip: Chip, program: Program, patch: pytest.MonkeyPatch) -> list[set[str]]:
    """Run a program for times only; return the units between which the arbiter decided."""
    found: list[set[str]] = []
    arbitrate = Arbiter._arbitrate

    def noted(arbiter: Arbiter, group: PortGroup, now: int) -> int:
        found.append({stream.unit for stream in group.streams})
        return arbitrate(arbiter, group, now)

    patch.setattr(Arbiter, "_arbitrate", noted)
    event = simulate(chip, program, values=False)
    assert_same(event, simulate(chip, program, values=False, engine="register"))
    return found


def row(queue: int, partition: int, start: int, size: int) -> DmaCopy:
    """Return a copy of bytes from DRAM into one partition."""
    source = Access(Buffer.DRAM, "u8", 0, 1, queue << 20, ((1, size),))
    return DmaCopy(
        dma_queue=queue,
        source=source,
        target=Access(Buffer.STATE, "u8", partition, 1, start, ((1, size),)),
    )


def test_the_ends_of_streams_that_stand_alone_are_no_events() -> None:
    """A load that meets no other instruction costs the event that starts it."""

    def loads(count: int) -> Program:
        return Program("alone", (LoadWeights(weights=state(0, 4, 0, 4)),) * count)

    few, many = (events_and_cycles(chip_of("bank"), loads(n))[0] for n in (10, 110))
    assert many - few == 100


@pytest.mark.white_box
def test_streams_that_meet_at_other_ports_are_not_decided_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two engines meet at one bank for long; two queues at another refuse each other meanwhile."""
    engines = (
        Copy(engine="activation", source=state(0, 2, 0, 400), target=state(0, 2, 8192, 400)),
        Copy(engine="pooling", source=state(2, 2, 0, 400), target=state(2, 2, 16384, 400)),
    )
    queues = [row(q, q, 5 * BANK_BYTES + 40 * n, 12 + q) for n in range(20) for q in (0, 1)]
    found = clients_arbitrated(chip_of("bank"), Program("apart", (*engines, *queues)), monkeypatch)
    assert sum("dma0" in units for units in found) > 10
    assert sum("pooling" in units for units in found) < 5
    assert not any({"dma0", "pooling"} <= units for units in found)


@pytest.mark.white_box
def test_whether_two_streams_may_meet_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again when a third one ends and its group falls apart."""
    asked: list[tuple[int, int]] = []

    def noted(one: Stream, other: Stream, *, is_split: bool) -> bool:
        asked.append((one.instruction, other.instruction))
        return may_meet(one, other, is_split=is_split)

    monkeypatch.setattr(arbiter, "may_meet", noted)
    engines = [
        Copy(engine=engine, source=state(p, 1, 8 * p, 40), target=state(p, 1, 8192 + 8 * p, 40))
        for p in range(4)
        for engine in ("activation", "pooling")
    ]
    queues = [row(q, q, 40 * n, 12 + q) for n in range(20) for q in (0, 1)]
    program = Program("apart", (*engines, *queues))
    event = simulate(chip_of("bank"), program, values=False)
    assert_same(event, simulate(chip_of("bank"), program, values=False, engine="register"))
    pairs = [tuple(sorted(pair)) for pair in asked]
    assert len(pairs) > 40
    assert len(pairs) == len(set(pairs))


@pytest.mark.white_box
def test_streams_that_meet_in_no_tick_are_not_arbitrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue comes to the engine's partitions when the engine has left them."""
    engine = Copy(engine="pooling", source=state(2, 2, 16384, 8), target=state(2, 2, 0, 8))
    source = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, 4 * 64),))
    target = Access(Buffer.STATE, "u8", 0, 4, 4096, ((1, 64),))
    queue = DmaCopy(dma_queue=0, source=source, target=target)
    assert (
        clients_arbitrated(chip_of("partition"), Program("by", (engine, queue)), monkeypatch) == []
    )


def uses_from(tick: int, table: UseTable) -> list[list[int]]:
    """Return the uses of a table that are not over at a tick, as they are from then on."""
    ahead = table[:, table[STOP] > tick].copy()
    np.maximum(ahead[FIRST], tick, out=ahead[FIRST])
    found: list[list[int]] = sorted(ahead.T.tolist())
    return found


@pytest.mark.white_box
@pytest.mark.parametrize("dram_bytes", [1024, 4])
@pytest.mark.parametrize("cost", ["sum", "max"])
def test_the_course_of_a_copy_is_the_one_found_bundle_by_bundle(
    cost: str, dram_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the copy stands: it is refused in the middle of bundles and between them.

    Where DRAM has few bytes the queues share them, and their pace changes as one begins or ends.
    """
    places = set()
    course = DmaStream.course

    def compared(stream: DmaStream) -> PlacedCourse:
        found, now = course(stream), stream._env.tick
        tables = [uses.table.copy() for uses in found.course.ports.values()]
        for table in tables:
            table[: STOP + 1] += found.origin
        stated = sorted(use for table in tables for use in uses_from(now, table))
        assert stated == uses_from(now, stream._table_ahead())
        places.add((stream._group, stream._index, stream._fetched, stream._moved))
        return found

    monkeypatch.setattr(DmaStream, "course", compared)
    source = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, 4 * 3 * 12),))
    target = Access(Buffer.STATE, "u8", 0, 4, 4096, ((32, 3), (1, 12)))
    near = DmaCopy(dma_queue=1, source=state(0, 1, 24576, 27), target=state(0, 1, 28672, 27))
    copies = [near, *(DmaCopy(dma_queue=q, source=source, target=target) for q in (0, 1))]
    engines = [
        Copy(engine="pooling", source=state(p, 1, 16384, n), target=state(p, 1, 0, n))
        for p, n in ((0, 2), (0, 19), (3, 21), (3, 29), (0, 9), (0, 11))
    ]
    chip = chip_of("partition", dram_bytes, descriptor_cost=cost, descriptor_cycles=6)
    program = Program("courses", (*copies, *engines))
    event = simulate(chip, program, values=False)
    assert event.trace.stalls
    assert_same(event, simulate(chip, program, values=False, engine="register"))
    assert len(places) > 3
