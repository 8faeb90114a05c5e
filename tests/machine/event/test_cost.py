"""What a run costs: events by the number of stretches, not of cycles, and no garbage of cycles."""

from __future__ import annotations

import gc

import pytest

from support.blocks import block_program, state
from support.chips import ideal_chip
from support.events import events_and_cycles
from systolic.isa import Buffer, Copy, DmaCopy, Program
from systolic.isa.access import Access
from systolic.machine import simulate
from systolic.machine.event.ports.stream import Stream


def test_a_block_costs_the_same_events_at_any_size():
    small = events_and_cycles(ideal_chip(4, 4), block_program(4, 4))
    large = events_and_cycles(ideal_chip(64, 64), block_program(64, 64))
    assert large[0] == small[0]
    assert large[1] > 10 * small[1]


def test_a_contended_stretch_costs_events_by_its_runs():
    """Two engines read one bank: the loser waits for the winner, however long that takes."""

    def both(elements: int) -> Program:
        return Program(
            "both",
            (
                Copy(engine="activation", source=state(0, 2, 0, elements),
                     target=state(0, 2, 16384, elements)),
                Copy(engine="pooling", source=state(2, 2, 0, elements),
                     target=state(2, 2, 32768, elements)),
            ),
        )  # fmt: skip

    chip = ideal_chip(4, 4)
    small, large = events_and_cycles(chip, both(8)), events_and_cycles(chip, both(800))
    assert large[1] > 50 * small[1]
    assert large[0] == small[0]


def test_a_transfer_costs_the_same_events_at_any_size():
    def copy(elements: int) -> Program:
        dram = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, elements),))
        return Program(
            "copy", (DmaCopy(dma_queue=0, source=dram, target=state(0, 1, 0, elements)),)
        )

    chip = ideal_chip(4, 4)
    small, large = events_and_cycles(chip, copy(64)), events_and_cycles(chip, copy(2048))
    assert large[0] == small[0]
    assert large[1] > small[1]


@pytest.mark.white_box
def test_a_stream_that_meets_no_other_is_not_looked_at_before_its_end(monkeypatch):
    """However many instructions come and go beside a long copy, it costs as often as it is told."""
    seen = []
    move = Stream.advance

    def note(stream, tick):
        seen.append(stream.unit)
        move(stream, tick)

    monkeypatch.setattr(Stream, "advance", note)
    copy = Copy(engine="pooling", source=state(0, 2, 0, 2000), target=state(0, 2, 8192, 2000))
    small = [
        Copy(engine="activation", source=state(2, 2, 16384, 8), target=state(2, 2, 24576, 8))
        for _ in range(100)
    ]
    simulate(ideal_chip(4, 4), Program("beside", (copy, *small)), values=False)
    assert seen.count("activation") >= 100
    assert seen.count("pooling") == 1


@pytest.mark.slow
@pytest.mark.parametrize("values", [False, True])
def test_a_run_leaves_no_reference_cycles(values):
    """The collector rests during a run, so what a run drops must be freed by counting alone."""
    chip = ideal_chip(4, 4)
    block = block_program(4, 4)
    gc.collect()
    gc.disable()
    try:
        found = []
        for repeats in (1, 50):
            program = Program("many", block.instructions[:2] * repeats, block.semaphores)
            outcome = simulate(chip, program, values=values)
            del outcome
            found.append(gc.collect())
    finally:
        gc.enable()
    assert found[1] <= found[0] + 20
