"""Streams of several clocks at a bank's port: are they decided as often as is needed, no oftener?

The register engine decides in every cycle; both must leave the same records.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.random_programs import RandomProgram, random_chip, spread_over_engines
from support.random_transfers import RandomTransfers
from support.tiers import quick_first
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, LoadWeights, MatMul, Program
from systolic.machine import simulate
from systolic.machine.event.ports.arbiter import Arbiter
from systolic.trace.words import KINDS


def chip_of(rng: Random, seed: int) -> Chip:
    """Return a chip of several clocks, whose few banks serve all partitions together."""
    chip = random_chip(rng, clocks=True, largest=rng.choice([4, 6, 9]), engines=seed % 2 == 0)
    tables = chip.model_dump()
    tables["state_buffer"] |= {"port_scope": "bank", "banks": rng.choice([1, 1, 2, 4])}
    if seed % 3 == 0:
        vectors = {"f32": rng.choice([1, 2, 3, 4]), "s8": rng.choice([1, 2]), "bf16": 3}
        tables["pe_array"]["cycles_per_vector"] = vectors
    made = Chip.model_validate(tables)
    return spread_over_engines(made, rng) if seed % 5 == 0 else made


@pytest.mark.parametrize("seed", quick_first(range(400), 6))
def test_both_engines_say_the_same_of_random_programs(seed: int) -> None:
    rng = Random(seed)
    chip = chip_of(rng, seed)
    patents = chip.engines is None and seed % 4 == 1
    made = RandomTransfers(rng, chip) if patents else RandomProgram(rng, chip)
    program, images = made.build(rng.randint(6, 30))
    event = simulate(chip, program, images, kinds=KINDS)
    assert_same(event, simulate(chip, program, images, kinds=KINDS, engine="register"))


def test_a_copy_beside_vectors_costs_few_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """2000 vectors in every other cycle of one clock, 1000 cycles of a copy with another clock.

    Both read one bank. Decided at every edge of either clock these were 8,008 decisions.
    """
    chip = ideal_chip(
        8, 8,
        clock={"core": 2400, "dma": 1000},
        state_buffer={"bytes_per_partition": 65536, "banks": 1, "port_scope": "bank"},
        pe_array={"cycles_per_vector": {"f32": 2}, "clock": "core"},
        result_buffer={"banks": 1, "bank_bytes": 16384},
        dma={"bytes_per_cycle": 8, "clock": "dma"},
    )  # fmt: skip
    moving = Access(Buffer.STATE, "f32", 0, 8, 4096, ((1, 2000),))
    weights = Access(Buffer.STATE, "f32", 0, 8, 0, ((1, 8),))
    result = Access(Buffer.RESULT, "f32", 0, 8, 0, ((1, 2000),))
    source = Access(Buffer.STATE, "f32", 0, 1, 20000, ((1, 2000),))
    target = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 2000),))
    program = Program("p", (
        LoadWeights(weights=weights),
        MatMul(moving=moving, result=result),
        DmaCopy(dma_queue=0, source=source, target=target),
    ))  # fmt: skip
    decided = []
    plain = Arbiter._arbitrate

    def counted(self: Arbiter, *args: object) -> int:
        decided.append(args)
        return plain(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Arbiter, "_arbitrate", counted)
    event = simulate(chip, program, values=False)
    register = simulate(chip, program, values=False, engine="register")
    assert event.trace.times == register.trace.times
    assert event.trace.stalls == register.trace.stalls
    assert len(decided) < 1600


def test_a_load_reads_between_vectors_while_a_copy_is_refused() -> None:
    """Vectors, weights and a copy of another clock read one bank, one of them at a time.

    Vectors are read in 8, 11, 14, 17 and 20; the second load in the eight cycles between them. The
    copy needs two of these cycles, from an even one on: it gets 22 and 23.
    """
    chip = ideal_chip(
        8, 8,
        clock={"core": 2000, "dma": 1000},
        state_buffer={"bytes_per_partition": 65536, "banks": 1, "port_scope": "bank"},
        pe_array={"cycles_per_vector": {"f32": 3}, "clock": "core"},
        dma={"bytes_per_cycle": 4, "clock": "dma", "latency_cycles": 0},
    )  # fmt: skip
    weights = Access(Buffer.STATE, "f32", 0, 8, 0, ((1, 8),))
    moving = Access(Buffer.STATE, "f32", 0, 8, 4096, ((1, 20),))
    source = Access(Buffer.STATE, "f32", 0, 1, 20000, ((1, 1),))
    program = Program("p", (
        LoadWeights(weights=weights),
        MatMul(moving=moving, result=Access(Buffer.RESULT, "f32", 0, 8, 0, ((1, 20),))),
        LoadWeights(weights=weights),
        DmaCopy(dma_queue=0, source=source, target=replace(source, buffer=Buffer.DRAM)),
    ))  # fmt: skip
    event, register = (
        simulate(chip, program, kinds=KINDS, engine=engine) for engine in ("event", "register")
    )
    assert_same(event, register)
    load, copy = event.trace.times[2:]
    assert (load.first, load.last, copy.first) == (9, 19, 22)
