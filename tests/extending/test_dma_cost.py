"""docs/extending.md, "A DMA or DRAM cost": a toy one of each, in the places that the recipe names.

The two engines and the closed formula state a cost each on its own, so a toy is added three times.
"""

from __future__ import annotations

import pytest
from pydantic import Field

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.config import to_toml
from systolic.hw.formulas import dram as dram_formulas
from systolic.hw.formulas import timing
from systolic.hw.spec import Chip, Cycles, Dma
from systolic.isa import Access, Buffer, DmaCopy, Module, Program, decode, encode, lint
from systolic.machine import simulate
from systolic.machine.event.dma import unit as event_dma
from systolic.machine.event.dram import control
from systolic.machine.register.dma import unit as register_dma
from systolic.machine.register.dram import channels
from systolic.report.summary.summarize import summarize
from systolic.trace.words import KINDS

TOY_CYCLES = 5
SOURCE = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 64),))
PROGRAM = Program("toy", (DmaCopy(dma_queue=0, source=SOURCE, target=state(0, 1, 0, 64)),))


class ToyDma(Dma):
    """The DMA engine with one key more."""

    handshake_cycles: Cycles = Field(default=0, description="cycles before a copy")


class ToyChip(Chip):
    """A chip whose DMA engine has the key."""

    dma: ToyDma


def toy_chip(**tables) -> ToyChip:
    plain = ideal_chip(4, 4, **tables).model_dump()
    plain["dma"]["handshake_cycles"] = TOY_CYCLES
    return ToyChip.model_validate(plain)


def both(chip: Chip):
    event, register = (
        simulate(chip, PROGRAM, engine=engine, kinds=KINDS) for engine in ("event", "register")
    )
    assert_same(event, register)
    summary = summarize(
        run="toy", chip=chip, engine="event", trace=event.trace, instructions=PROGRAM.count()
    )
    return event.trace.cycles("dma0"), summary


def later(monkeypatch, module, name: str) -> None:
    """Let a function that returns the latency of a copy add the toy cost."""
    usual = getattr(module, name)
    monkeypatch.setattr(
        module, name, lambda chip, *rest, **more: usual(chip, *rest, **more) + _toy(chip)
    )


def _toy(chip: Chip) -> int:
    return chip.dma.handshake_cycles if isinstance(chip, ToyChip) else 0


def test_a_dma_cost(monkeypatch):
    chip = toy_chip()
    before, _ = both(chip)
    for module, name in (
        (event_dma, "latency_cycles"),
        (register_dma, "latency_cycles"),
        (timing, "dma_latency_cycles"),
    ):
        later(monkeypatch, module, name)
    after, summary = both(chip)
    assert after == before + TOY_CYCLES == summary["cycles"]
    assert timing.dma_cycles(chip, [(1, 256)], dram=True) == after
    assert both(ideal_chip(4, 4))[0] == before, "a chip without the key costs what it did"
    assert "handshake_cycles = 5" in to_toml(chip)
    assert lint(PROGRAM, chip, [SOURCE]) == []
    assert decode(encode(Module(PROGRAM))).program == PROGRAM


def test_a_dram_cost(monkeypatch):
    """A row that is opened costs a cycle more; the 256 bytes are of one row."""
    organisation = {
        "channels": 1,
        "banks": 2,
        "row_bytes": 1024,
        "burst_bytes": 64,
        "interleave_bytes": 64,
        "activate_cycles": 3,
        "precharge_cycles": 2,
    }
    chip = ideal_chip(4, 4, dram={"organisation": organisation})
    before, _ = both(chip)
    for module in (control, channels, dram_formulas):
        dearer(monkeypatch, module)
    after, summary = both(chip)
    assert after == before + 1 == summary["cycles"]
    assert (
        dram_formulas.lone_copy_cycles(chip, [dram_formulas.ContiguousBytes(0, None, 256)]) == after
    )


def dearer(monkeypatch, module) -> None:
    """Let the opening of a row take a cycle more, in one of the three places that say how long."""
    usual = module.opening_cycles

    def opening_cycles(parts, open_row, row):
        return usual(parts, open_row, row) + (open_row != row)

    monkeypatch.setattr(module, "opening_cycles", opening_cycles)


@pytest.mark.parametrize("chip", [ideal_chip(4, 4), toy_chip()])
def test_the_formula_agrees_before_the_cost_is_added(chip):
    assert timing.dma_cycles(chip, [(1, 256)], dram=True) == both(chip)[0]
