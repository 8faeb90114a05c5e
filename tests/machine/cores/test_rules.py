"""Is the cycle right? The rules of several cores, one at a time: cycles by hand, on both engines.

Two cores of 4 x 4 with clocks of a tick, and copies of 4 bytes per cycle, on a ring whose two links
each have one pool.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.cores_by_seed import same
from systolic.errors import ProgramError, SimulationError
from systolic.hw.spec import MultiCoreChip
from systolic.isa import Access, Buffer, ChipModule, Memset, Module, Program, Section, Wait
from systolic.isa.instruction import Command, DmaMove, RemotePost
from systolic.isa.legality.chip_program import code_bytes
from systolic.machine import Image
from systolic.machine.simulate_chip import ChipOutcome, simulate_chip
from systolic.trace.words import KINDS

BANK = 8192
ROW = 16
"""Bytes of the copies below: a row of four float32."""


def chip_of(
    wires: dict[str, Any] | None = None, dma: dict[str, Any] | None = None, **tables: Any
) -> MultiCoreChip:
    """Return two cores on a ring with a pool of 4 bytes, unless said otherwise."""
    core = ideal_chip(4, 4, dma={"queues": 2, "bytes_per_cycle": 4, **(dma or {})})
    ring = {"kind": "ring", "bytes_per_cycle": 4, **(wires or {})}
    return MultiCoreChip.model_validate(
        {
            "name": "two",
            "cores": [{"count": 2, "core": core}],
            "controllers": [{"dram": {"size_bytes": 4096, "bytes_per_cycle": 64}}],
            "interconnect": ring,
            **tables,
        }
    )


def dram(start: int, elements: int = 4) -> Access:
    return Access(Buffer.DRAM, "f32", 0, 1, start, ((1, elements),))


def move(
    source_at: str, target_at: str, *, queue: int = 0, bank: int = 2, **fields: Any
) -> DmaMove:
    """Return a copy of a row from bank 0 of one core to a bank of another."""
    parts = {"source": state(0, 1, 0, 4), "target": state(0, 1, bank * BANK, 4), **fields}
    return DmaMove(dma_queue=queue, source_at=source_at, target_at=target_at, **parts)


def run(chip: MultiCoreChip, images: Any = None, **programs: Any) -> ChipOutcome:
    """Run the programs of places (core0, core1, ...), which have four semaphores each."""
    names = ("s0", "s1", "s2", "s3")
    sections = tuple(
        Section(at, Module(Program(at, tuple(instructions), names)))
        for at, instructions in programs.items()
    )
    module = ChipModule("p", sections)
    found = [
        simulate_chip(chip, module, images, engine=engine, kinds=KINDS)  # type: ignore[arg-type]
        for engine in ("event", "register")
    ]
    same(*found)
    return found[0]


def spans(outcome: ChipOutcome) -> list[tuple[int, int]]:
    """Return the first and the last cycle in which each instruction moved something."""
    return [(each.first, each.last) for each in outcome.trace.times]


def test_a_copy_alone_has_the_whole_pool() -> None:
    """16 bytes, 4 in a cycle."""
    assert spans(run(chip_of(), core0=[move("core0", "core1")])) == [(0, 3)]


def test_two_copies_on_one_link_have_half_each_and_the_rest_is_lost() -> None:
    """5 // 2 = 2 bytes each: 8 cycles; the other link is another pool."""
    chip = chip_of({"bytes_per_cycle": 5})
    beside = move("core0", "core1", queue=1, bank=3, source=state(0, 1, BANK, 4))
    assert spans(run(chip, core0=[move("core0", "core1"), beside])) == [(0, 7), (0, 7)]
    back = move("core1", "core0", source=state(0, 1, BANK, 4))
    assert spans(run(chip, core0=[move("core0", "core1")], core1=[back])) == [(0, 3), (0, 3)]


def test_a_share_is_held_to_the_last_cycle_and_not_longer() -> None:
    """2 bytes each: the short one's 8 in 0 to 3, 8 of the long one's there, and 8 in 4 and 5."""
    chip = chip_of()
    short = move("core0", "core1", source=state(0, 1, 0, 2), target=state(0, 1, 2 * BANK, 2))
    long = move("core0", "core1", queue=1, bank=3, source=state(0, 1, BANK, 4))
    assert spans(run(chip, core0=[short, long])) == [(0, 3), (0, 5)]


def test_a_hop_is_latency_and_a_controller_next_door_is_none() -> None:
    """DRAM hangs at core 0: from core 1 the way to it is a hop of 3 cycles."""
    chip = chip_of({"hop_cycles": 3, "bytes_per_cycle": 8})
    fields: dict[str, Any] = {"source": dram(0), "target": state(0, 1, BANK, 4)}
    near = move("", "core0", **fields)
    far = move("", "core1", queue=1, **fields)
    assert spans(run(chip, core0=[near, far])) == [(0, 3), (3, 6)]


def test_a_post_takes_its_hops() -> None:
    """Made in 3, visible a cycle and a hop of 4 later, in 8."""
    chip = chip_of({"post_cycles": 4})
    told = move("core0", "core1", posts=(RemotePost(0, "done", at="core1"),))
    waiter = Memset(engine="pooling", target=state(0, 1, 5 * BANK, 1), value=1, waits=(Wait(0, 1),))
    assert run(chip, core0=[told], core1=[waiter]).trace.times[-1].start == 8


def test_a_copy_refused_at_one_end_takes_nothing_at_the_other() -> None:
    """The fill writes bank 2 of core 1 in 1 to 6; meanwhile the port of the source is free.

    So the second queue reads the same bank of core 0 in 1 to 4, and not a cycle later.
    """
    fill = Memset(engine="activation", target=state(0, 1, 2 * BANK + 512, 6), value=1)
    within = move("core0", "core0", queue=1, bank=3, source=state(0, 1, 512, 4))
    outcome = run(chip_of(), core0=[move("core0", "core1"), within], core1=[fill])
    # in cycle 0 the lower queue has the port of the source; from 1 on it is refused at core 1
    assert spans(outcome)[:2] == [(0, 9), (1, 4)]
    stalls = [(s.tick, s.cycles, s.buffer, s.winner) for s in outcome.trace.stalls]
    assert stalls == [
        (0, 1, "core0.state_buffer", "core0.dma"),
        (1, 6, "core1.state_buffer", "core1.activation"),
    ]


def test_accumulate_adds_and_holds_two_shares() -> None:
    """5 // 2 = 2 bytes a cycle: 16 bytes in 8. Sums are rounded once."""
    numbers = np.array([[1.0, 2.0**24, -0.0, np.inf]], np.float32)
    more = np.array([[0.5, 1.0, 0.0, 1.0]], np.float32)
    images = {
        "core0": [Image(state(0, 1, 0, 4), more)],
        "core1": [Image(state(0, 1, 2 * BANK, 4), numbers)],
    }
    chip = chip_of({"bytes_per_cycle": 5})
    outcome = run(chip, images, core0=[move("core0", "core1", accumulate=True)])
    assert spans(outcome) == [(0, 7)]
    found = outcome.memory.cores[1].read(state(0, 1, 2 * BANK, 4))
    assert np.array_equal(found, numbers + more)


def test_a_duplicate_is_read_once_and_written_twice() -> None:
    """To the other core and to DRAM at core 0, which the link does not lead to: 4 bytes a cycle."""
    values = np.arange(4, dtype=np.float32)[None]
    copy = move("core0", "core1", duplicate=dram(256))
    outcome = run(chip_of(), {"core0": [Image(state(0, 1, 0, 4), values)]}, core0=[copy])
    assert spans(outcome) == [(0, 3)]
    assert np.array_equal(outcome.memory.cores[1].read(state(0, 1, 2 * BANK, 4)), values)
    assert np.array_equal(outcome.memory.dram.read(dram(256)), values)
    assert len(outcome.trace.words.of("read").rows) == 4
    assert len(outcome.trace.words.of("write").rows) == 8


def test_a_copy_is_cut_where_the_controller_changes() -> None:
    """Blocks of 16 bytes: 24 bytes from 8 on are 8 and 16, each with its descriptor's cycle."""
    drams = [{"count": 2, "dram": {"size_bytes": 4096, "bytes_per_cycle": 64}}]
    chip = chip_of(dma={"descriptor_cycles": 1}, controllers=drams, interleave_bytes=16)
    copy = move("", "core0", source=dram(8, 6), target=state(0, 1, BANK, 6))
    # fetched in 0, 8 bytes in 1 and 2; fetched in 3, 16 bytes in 4 to 7
    outcome = run(chip, core0=[copy])
    assert spans(outcome) == [(1, 7)]
    assert outcome.trace.transfers.runs == {8: 1, 16: 1}


# -- processors ------------------------------------------------------------------------------------


PROCESSOR = {"command_cycles": {"copy": 2, "start": 3}, "start_cycles": 2, "dma": {"queues": 1}}
FILL = Memset(engine="pooling", target=state(0, 1, 0, 3), value=1)


def with_processor(**keys: Any) -> MultiCoreChip:
    dma = {"bytes_per_cycle": 16}
    return chip_of(
        {"bytes_per_cycle": 64},
        processors=[{**PROCESSOR, "dma": {"queues": 1, **dma}, **keys.pop("processor", {})}],
        **keys,
    )


def test_a_processor_brings_code_and_starts_a_core() -> None:
    """The copy of C bytes is a command of 2 cycles, and moves 16 bytes a cycle from 2 on.

    It ends in e = 2 + ceil(C / 16) - 1. The start waits for that: it begins in e + 1, takes 3
    cycles, and 2 cycles later, in e + 6, the core's first cycle comes. It fills in e + 6 to e + 8.
    """
    size = code_bytes(Program("core1", (FILL,), ("s0", "s1", "s2", "s3")))
    source = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, size),))
    target = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, size),))
    bring = DmaMove(dma_queue=0, source=source, target=target, target_at="core1.code")
    commands = [bring, Command(word="start", at="core1"), Command(word="stop")]
    chip = with_processor(code="dram", fetch={"code_bytes": 4096})
    outcome = run(chip, processor0=commands, core1=[FILL])
    end = 2 + -(-size // 16) - 1
    by_unit = {each.unit: each for each in outcome.trace.times if each.unit != "processor0"}
    assert (by_unit["processor0.dma0"].start, by_unit["processor0.dma0"].done) == (2, end)
    assert by_unit["core1.pooling"].start == end + 6
    assert outcome.trace.ticks == end + 6 + 4
    labels = [(r.label, r.first, r.stop) for r in outcome.trace.labels["processor0"]]
    assert labels[:3] == [
        ("streaming", 0, 2),
        ("waiting for core1.code", 2, end + 1),
        ("streaming", end + 1, end + 5),
    ]


def test_a_core_is_started_again_when_it_has_stopped() -> None:
    """The first fill is done in 8, 3 + 2 + 3: so the second start begins in 9."""
    first = Program("first", (FILL,))
    second = Program("second", (FILL,))
    commands = (
        Command(word="start", at="core0", program="first"),
        Command(word="start", at="core0", program="second"),
    )
    sections = (
        Section("core0", Module(first)),
        Section("core0", Module(second)),
        Section("processor0", Module(Program("q", commands))),
    )
    module = ChipModule("p", sections)
    outcomes = [
        simulate_chip(with_processor(), module, engine=engine)  # type: ignore[arg-type]
        for engine in ("event", "register")
    ]
    same(*outcomes)
    starts = [t.start for t in outcomes[0].trace.times if t.unit == "core0.pooling"]
    assert starts == [5, 9 + 3 + 2]


@pytest.mark.parametrize(("cycles", "is_lost"), [(4, False), (5, True)])
def test_a_post_before_the_start_is_lost(cycles: int, is_lost: bool) -> None:
    """Made in cycle 0 and visible in 9; the core's first cycle is 1 + 4 + `start_cycles`."""
    waiter = Memset(engine="pooling", target=state(0, 1, 0, 1), value=1, waits=(Wait(0, 1),))
    processor = {
        "semaphore_cycles": 9,
        "start_cycles": cycles,
        "command_cycles": {"post": 1, "start": 4},
    }
    commands = [
        Command(word="post", posts=(RemotePost(0, "done", at="core0"),)),
        Command(word="start", at="core0"),
    ]
    chip = with_processor(processor=processor)
    if is_lost:
        with pytest.raises(SimulationError, match="deadlock"):
            run(chip, processor0=commands, core0=[waiter])
    else:
        outcome = run(chip, processor0=commands, core0=[waiter])
        (fill,) = (each for each in outcome.trace.times if each.unit == "core0.pooling")
        assert fill.start == 9
        assert [each.kind for each in outcome.trace.semaphores] == ["post", "wait"]


def test_both_engines_find_the_deadlock() -> None:
    waiter = Memset(engine="pooling", target=state(0, 1, 0, 1), value=1, waits=(Wait(0, 1),))
    module = ChipModule(
        "p", (Section("core0", Module(Program("p", (waiter,), ("s0",)))),)
    )  # fmt: skip
    for engine in ("event", "register"):
        with pytest.raises(SimulationError, match="deadlock"):
            simulate_chip(chip_of(), module, engine=engine)  # type: ignore[arg-type]


# -- DRAM with channels and banks ------------------------------------------------------------------


def with_banks(pool_bytes: int, **tables: Any) -> MultiCoreChip:
    """Return two cores, and two controllers of one bank each: bursts of 16 bytes, 4 in a cycle."""
    organisation = {
        "channels": 1,
        "banks": 1,
        "row_bytes": 16,
        "burst_bytes": 16,
        "interleave_bytes": 16,
        "activate_cycles": 3,
        "precharge_cycles": 0,
    }
    drams = {"size_bytes": 4096, "bytes_per_cycle": 4, "organisation": organisation}
    return chip_of(
        {"kind": "crossbar", "bytes_per_cycle": pool_bytes},
        {"queues": 1},
        controllers=[{"count": 2, "dram": drams, "interleave_bytes": 16}],
        **tables,
    )


READ = {"source_at": "", "target_at": "core0"}


@pytest.mark.parametrize(("pool_bytes", "last"), [(4, 13), (3, 17), (2, 21)])
def test_bursts_move_what_the_pools_give_and_what_is_left_is_kept(
    pool_bytes: int, last: int
) -> None:
    """3 + 4 cycles for each half over 4 bytes; over fewer, beats wait for their bytes."""
    copy = move(**READ, source=dram(0, 8), target=state(0, 1, 2 * BANK, 8))
    outcome = run(with_banks(pool_bytes), core0=[copy])
    assert spans(outcome)[0][1] == last
    assert [c.bursts for c in outcome.trace.transfers.channels.values()] == [1, 1]


def test_what_is_added_behind_banks_takes_twice_as_long_and_a_second_target_is_read_once() -> None:
    image = Image(dram(0), np.arange(4, dtype=np.float32))
    added = move("core0", "", target=dram(0), accumulate=True)
    outcome = run(with_banks(16), images={"core0": [image]}, core0=[added])
    assert spans(outcome)[0][1] == 3 + 16 // 2 - 1
    twice = move("", "core0", source=dram(0), duplicate=state(1, 1, BANK, 4), duplicate_at="core1")
    outcome = run(with_banks(16), images={"core0": [image]}, core0=[twice])
    assert spans(outcome)[0][1] == 3 + 4 - 1
    for number, access in ((0, twice.target), (1, twice.duplicate)):
        assert access is not None
        assert outcome.memory.cores[number].read(access).ravel().tolist() == [0, 1, 2, 3]


def test_bursts_of_two_cores_take_turns_at_a_bank() -> None:
    """The second burst gets the bank when the first has ended, and finds its row open."""
    copies = [move("", at, source=dram(0)) for at in ("core0", "core1")]
    outcome = run(with_banks(16), core0=[copies[0]], core1=[copies[1]])
    assert [stop for _, stop in spans(outcome)] == [6, 10]


def test_a_copy_between_controllers_with_banks_reads_and_then_writes() -> None:
    outcome = run(with_banks(16), core0=[move("", "", source=dram(0), target=dram(16))])
    assert spans(outcome)[0][1] == 3 + 4 + 3 + 4 - 1


def test_two_targets_behind_banks_are_refused() -> None:
    copy = move("core0", "", target=dram(0), duplicate=dram(64))
    with pytest.raises(ProgramError, match="both lie in DRAM, which has banks on two"):
        run(with_banks(16), core0=[copy])
