"""Random DRAM organisations, and random programs that mostly move bytes to and from DRAM.

Copies of all kinds (in, out, DRAM to DRAM, on the chip) with runs of every length, that do not
wait for one another but for a few; fills and copies by the engines that get in their way at the
ports. Every copy has bytes of its own to write, so nothing races.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from support.random_programs import aside, random_chip, random_dma
from support.random_sequencing import sequenced
from systolic.hw.spec import ADDRESS_FIELDS, Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, Instruction, Memset, Post, Program, Wait
from systolic.machine import Image

CONSTANTS = 1024
"""Bytes at the start of DRAM and of every partition that no instruction writes."""


def random_organisation(rng: Random, *, plain: bool = False) -> dict[str, Any]:
    """Return keys of [dram]: an organisation, and a bandwidth and a size that suit it.

    plain: without the keys that have a default.
    """
    channels, banks = rng.choice([1, 2, 3, 4]), rng.choice([1, 2, 4])
    burst = rng.choice([4, 8, 16, 64])
    row = burst * rng.choice([1, 2, 3, 8])
    organisation = {
        "channels": channels,
        "banks": banks,
        "row_bytes": row,
        "burst_bytes": burst,
        "interleave_bytes": burst * rng.choice([1, 1, 2, 3, 16]),
        "activate_cycles": rng.choice([0, 1, 3, 9]),
        "precharge_cycles": rng.choice([0, 1, 4]),
    }
    if not plain:
        organisation |= _random_order(rng, organisation) | random_timings(rng, organisation)
    return {
        "size_bytes": channels * banks * row * 16384 * 3,
        "bytes_per_cycle": channels * rng.choice([1, 4, 5, 16, 64]),
        "latency_cycles": rng.choice([0, 0, 2, 7]),
        "organisation": organisation,
    }


def _random_order(rng: Random, organisation: dict[str, Any]) -> dict[str, Any]:
    """Return how addresses are cut, and which bursts are in hand and go first."""
    channels, banks = organisation["channels"], organisation["banks"]
    fair = rng.random() < 0.5
    return {
        "outstanding": rng.choice([1, 1, 2, 3, 8]),
        "scheduling": "fcfs" if fair else "fr_fcfs",
        "patience_cycles": 0 if fair else rng.choice([0, 1, 9, 40]),
        "bank_groups": rng.choice([n for n in (1, 2, 4) if n <= banks]),
        "address_order": tuple(rng.sample(ADDRESS_FIELDS, 4)),
        "hash_channels": channels != 3 and rng.random() < 0.3,
        "hash_banks": rng.random() < 0.3,
    }


def random_timings(rng: Random, organisation: dict[str, Any]) -> dict[str, Any]:
    """Return timings that do not contradict one another, each 0 every other time."""
    activate, precharge = organisation["activate_cycles"], organisation["precharge_cycles"]

    def some(least: int, most: int) -> int:
        return 0 if rng.random() < 0.5 else rng.randint(least, most)

    active = some(activate, activate + 9)
    gap, burst_gap = some(1, 5), some(1, 6)
    refresh = some(1, 20)
    return {
        "row_active_cycles": active,
        "row_cycle_cycles": some(active + precharge, active + precharge + 12),
        "activate_gap_cycles": gap,
        "activate_gap_in_group_cycles": some(gap, gap + 6),
        "four_activates_cycles": some(max(gap, 6), 30),
        "burst_gap_cycles": burst_gap,
        "burst_gap_in_group_cycles": some(burst_gap, burst_gap + 8),
        "write_to_read_cycles": some(1, 9),
        "read_to_write_cycles": some(1, 5),
        "refresh_cycles": refresh,
        "refresh_interval_cycles": refresh and refresh + precharge + rng.choice([1, 5, 30, 200]),
    }


def organised_chip(rng: Random, *, clocks: bool = False, at_once: bool = False) -> Chip:
    """Return a random chip whose DRAM has channels and banks.

    at_once: the first instruction of a queue starts in cycle 0; else every other chip has dispatch
    cycles, and most of those fetch instructions.
    """
    chip = random_chip(rng, clocks=clocks).model_dump()
    chip["dram"] |= random_organisation(rng)
    chip["dma"] |= random_dma(rng, 5)
    chip["dma"]["bytes_per_cycle"] *= aside(rng, "wide").choice([1, 16])
    chip["state_buffer"]["banks"] = rng.choice([1, 2, 4, 16])
    sequencing = aside(rng, "sequencing")
    organised = Chip.model_validate(chip)
    if at_once or sequencing.random() < 0.5:
        return organised
    return sequenced(organised, sequencing)


class RandomTransfers:
    """Builds one program, copy by copy."""

    def __init__(self, rng: Random, chip: Chip) -> None:
        self.rng, self.chip = rng, chip
        self.instructions: list[Instruction] = []
        self.dram_used = CONSTANTS
        self.state_used = CONSTANTS
        self.posts = 0

    def build(self, length: int) -> tuple[Program, list[Image]]:
        """Return a program of at most that many instructions, and the memories' contents."""
        for _ in range(length):
            self.rng.choice([self._copy] * 6 + [self._engine, self._bypass])()
        names = tuple(f"s{n}" for n in range(self.posts))
        return Program("transfers", tuple(self.instructions), names), self._images()

    def _images(self) -> list[Image]:
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        partitions = self.chip.state_buffer.partitions
        dram = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, CONSTANTS),))
        state = Access(Buffer.STATE, "u8", 0, partitions, 0, ((1, CONSTANTS),))
        return [
            Image(dram, numbers.integers(0, 64, (1, CONSTANTS), dtype=np.uint8)),
            Image(state, numbers.integers(0, 64, (partitions, CONSTANTS), dtype=np.uint8)),
        ]

    def _copy(self) -> None:
        dtype = self.rng.choice(["u8", "bf16", "f32"])
        size = {"u8": 1, "bf16": 2, "f32": 4}[dtype]
        there = self.chip.state_buffer.partitions
        partitions = self.rng.choice([1, 1, min(2, there), there])
        most = max(1, CONSTANTS // size // self.rng.choice([4, 8, 16, 40]))
        elements = self.rng.randint(1, max(1, most // partitions))
        kind = self.rng.choice(["in", "in", "out", "out", "within", "chip"])
        source = (
            self._from_dram(dtype, size, partitions * elements)
            if kind in ("in", "within")
            else self._from_state(dtype, size, partitions, elements)
        )
        target = (
            self._into_dram(dtype, size, partitions * elements)
            if kind in ("out", "within")
            else self._into_state(dtype, size, partitions, elements)
        )
        if target is not None:
            queue = self.rng.randrange(self.chip.dma.queues)
            copy = DmaCopy(dma_queue=queue, source=source, target=target, **self._links())
            self.instructions.append(copy)

    def _bypass(self) -> None:
        """Read the result buffer, from any bank and across banks, where the chip lets DMA."""
        results, there = self.chip.result_buffer, self.chip.pe_array.cols
        elements = self.rng.randint(1, 30)
        aside_, partitions = aside(self.rng, "bypass"), 1
        if aside_.random() < 0.6:
            partitions = aside_.choice([1, min(2, there), there])
            target = self._into_dram("f32", 4, partitions * elements)
        else:
            target = self._into_state("f32", 4, 1, elements)
        if not results.dma_readable or target is None:
            return
        start = self.rng.randint(0, results.bytes_per_partition // 4 - elements) * 4
        first = aside_.randint(0, there - partitions)
        source = Access(Buffer.RESULT, "f32", first, partitions, start, ((1, elements),))
        queue = self.rng.randrange(self.chip.dma.queues)
        copy = DmaCopy(dma_queue=queue, source=source, target=target, **self._links())
        self.instructions.append(copy)

    def _engine(self) -> None:
        """Fill or copy something, so that ports are taken."""
        elements = self.rng.randint(1, 40)
        target = self._into_state("f32", 4, 1, elements)
        if target is None:
            return
        engine: Any = self.rng.choice(["activation", "pooling"])
        if self.rng.random() < 0.5:
            fill = Memset(engine=engine, target=target, value=1, **self._links())
            self.instructions.append(fill)
        else:
            source = self._from_state("f32", 4, 1, elements)
            copy = Copy(engine=engine, source=source, target=target, **self._links())
            self.instructions.append(copy)

    def _links(self) -> dict[str, Any]:
        """Return a post of its own, and now and then a wait for an earlier instruction."""
        waits: tuple[Wait, ...] = ()
        if self.posts and self.rng.random() < 0.3:
            waits = (Wait(self.rng.randrange(self.posts), 1),)
        self.posts += 1
        return {"waits": waits, "posts": (Post(self.posts - 1, "done"),)}

    def _pattern(self, elements: int, room: int) -> tuple[tuple[int, int], ...]:
        """Return that many elements in runs of some length, within `room` elements."""
        inner = self.rng.choice([n for n in range(1, elements + 1) if elements % n == 0])
        outer = elements // inner
        step = inner + self.rng.choice([0, 0, 1, 3, 8])
        if step * (outer - 1) + inner > room or self.rng.random() < 0.3:
            return ((1, elements),)
        if self.rng.random() < 0.3:
            return ((1, outer), (outer, inner))  # each run is a single element
        return ((step, outer), (1, inner))

    def _from_dram(self, dtype: str, size: int, elements: int) -> Access:
        pattern = self._pattern(elements, CONSTANTS // size)
        return Access(Buffer.DRAM, dtype, 0, 1, self._start(size, pattern), pattern)

    def _from_state(self, dtype: str, size: int, partitions: int, elements: int) -> Access:
        pattern = self._pattern(elements, CONSTANTS // size)
        first = self.rng.randint(0, self.chip.state_buffer.partitions - partitions)
        return Access(Buffer.STATE, dtype, first, partitions, self._start(size, pattern), pattern)

    def _start(self, size: int, pattern: tuple[tuple[int, int], ...]) -> int:
        span = sum(step * (count - 1) for step, count in pattern) + 1
        return self.rng.randint(0, CONSTANTS // size - span) * size

    def _into_dram(self, dtype: str, size: int, elements: int) -> Access | None:
        pattern = self._pattern(elements, 4 * elements)
        span = sum(step * (count - 1) for step, count in pattern) + 1
        start = -(-self.dram_used // size) * size + size * self.rng.choice([0, 1, 5])
        if start + span * size > self.chip.dram.size_bytes:
            return None
        self.dram_used = start + span * size
        return Access(Buffer.DRAM, dtype, 0, 1, start, pattern)

    def _into_state(self, dtype: str, size: int, partitions: int, elements: int) -> Access | None:
        pattern = self._pattern(elements, 4 * elements)
        span = sum(step * (count - 1) for step, count in pattern) + 1
        start = -(-self.state_used // size) * size
        if start + span * size > self.chip.state_buffer.bytes_per_partition:
            return None
        self.state_used = start + span * size
        first = self.rng.randint(0, self.chip.state_buffer.partitions - partitions)
        return Access(Buffer.STATE, dtype, first, partitions, start, pattern)
