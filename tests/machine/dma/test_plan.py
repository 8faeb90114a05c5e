"""Which copies are alike, so that they share what they ask of the ports, and do all end right?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate
from systolic.machine.event.dma import plan, unit
from systolic.machine.event.dma.plan import CopyPlan, likeness

SHARES = {"queues": 2, "bytes_per_cycle": 4, "descriptor_cycles": 2}


def chip(dram_bytes: int = 64) -> Chip:
    return ideal_chip(4, 4, dma=SHARES, dram={"bytes_per_cycle": dram_bytes})


BANK = chip().state_buffer.bank_bytes
THERE = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 12),))
COPY = DmaCopy(dma_queue=0, source=THERE, target=state(0, 4, 0, 3))


def moved(copy: DmaCopy, *, source: int = 0, target: int = 0) -> DmaCopy:
    """Return a copy between places so many bytes further on."""
    return replace(
        copy,
        source=replace(copy.source, start=copy.source.start + source),
        target=replace(copy.target, start=copy.target.start + target),
    )


def test_where_in_dram_and_in_its_bank_a_copy_lies_makes_no_difference() -> None:
    assert likeness(moved(COPY, source=400, target=16), chip()) == likeness(COPY, chip())


@pytest.mark.parametrize(
    "other",
    [
        moved(COPY, target=BANK),
        moved(COPY, target=BANK - 4),  # over two banks
        replace(COPY, target=state(1, 3, 0, 4)),
        replace(COPY, source=replace(THERE, pattern=((2, 12),))),
        DmaCopy(dma_queue=0, source=COPY.target, target=COPY.source),
    ],
)
def test_ports_and_bundles_do(other: DmaCopy) -> None:
    assert likeness(other, chip()) != likeness(COPY, chip())


def test_copies_over_two_banks_are_alike_only_in_one_place() -> None:
    across = moved(COPY, target=BANK - 4)
    assert likeness(moved(across, source=8), chip()) == likeness(across, chip())
    assert likeness(moved(across, target=-4), chip()) != likeness(across, chip())


@pytest.mark.white_box
def test_alike_copies_have_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(CopyPlan):
        def __init__(self, copy: DmaCopy, chip: Chip) -> None:
            made.append(copy)
            super().__init__(copy, chip)

    monkeypatch.setattr(unit, "CopyPlan", Counted)
    copies = [moved(COPY, source=64 * n, target=16 * n) for n in range(8)]
    simulate(chip(), Program("alike", copies), values=False)
    assert len(made) == 1


@pytest.mark.parametrize("dram_bytes", [64, 5])
def test_copies_of_one_plan_end_as_if_each_had_its_own(dram_bytes: int) -> None:
    """Two queues meet at the ports of a bank; behind them come copies over two banks."""
    copies = []
    for number in range(6):
        place = {"source": 64 * number, "target": 16 * number}
        copies.append(replace(moved(COPY, **place), dma_queue=number % 2))
        over = moved(COPY, source=64 * number, target=BANK * (1 + number) - 4)
        copies.append(replace(over, dma_queue=(number + 1) % 2))
    program, one = Program("alike", copies), chip(dram_bytes)
    assert_same(simulate(one, program), simulate(one, program, engine="register"))
    assert plan.likeness(copies[0], one) == plan.likeness(copies[2], one)
