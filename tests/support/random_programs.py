"""Random chips and random race-free programs for them: everything the timing model speaks of.

Race-free by construction: an instruction reads either what is there at cycle 0 and never written,
or what an instruction it waits for has written; every result has a place of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from sim.hw.datatypes import data_type
from sim.hw.spec import CLIENTS, Chip
from sim.isa import (
    Access,
    Buffer,
    Copy,
    DmaCopy,
    Instruction,
    LoadWeights,
    MatMul,
    Memset,
    Post,
    Program,
    Wait,
)
from sim.machine import Image
from support.chips import ideal_chip

CONSTANT_BYTES = 256


def random_chip(rng: Random, *, clocks: bool = False, largest: int = 6) -> Chip:
    """Return a chip whose every number is drawn at random."""
    tr, tc = rng.choice([(1, 1)] * 3 + [(2, 1), (1, 2), (2, 2), (3, 1)])
    rows, cols = tr * rng.randint(1, largest // tr), tc * rng.randint(1, largest // tc)
    names = {"core": 1000}
    if clocks:
        names |= {"fast": rng.choice([2000, 1500]), "slow": rng.choice([500, 750])}
    priority = list(CLIENTS)
    rng.shuffle(priority)
    return ideal_chip(
        rows,
        cols,
        clock=names,
        semaphore_cycles=rng.randint(1, 3),
        port_priority=tuple(priority),
        state_buffer={
            "partitions": max(rows, cols) + rng.randint(0, 2),
            "bytes_per_partition": 4096,
            "banks": rng.choice([1, 2, 4, 16]),
        },
        pe_array={
            "weight_path": rng.choice(["left", "left", "top"]),
            "weight_buffer": rng.choice(["double", "double", "single", "serial"]),
            "fast_load": rng.choice([1, 1, 2, 3]),
            "hop": (rng.choice([1, 1, 2]), rng.choice([1, 1, 3])),
            "cell": (tr, tc),
            "entry_cycles": rng.choice([0, 0, 2]),
            "dispatch_cycles": rng.choice([0, 0, 0, 3]),
            "fused_multiply_add": rng.random() < 0.2,
            "cycles_per_vector": {"f32": rng.choice([1, 1, 2, 4]), "s8": 1, "bf16": 1},
            "clock": rng.choice(list(names)),
        },
        result_buffer={
            "banks": rng.choice([1, 2, 4]),
            "bank_bytes": 1024,
            "write_latency_cycles": rng.choice([0, 0, 1, 3]),
        },
        activation=_engine(rng, list(names)),
        pooling=_engine(rng, list(names)),
        dma={
            "queues": rng.randint(1, 3),
            "latency_cycles": rng.choice([0, 1, 5]),
            "descriptor_cycles": rng.choice([0, 1, 3]),
            "bytes_per_cycle": rng.choice([1, 3, 8, 64]),
            "clock": rng.choice(list(names)),
        },
        dram={
            "size_bytes": 1 << 20,
            "bytes_per_cycle": rng.choice([1, 5, 16]),
            "latency_cycles": rng.choice([0, 2]),
        },
    )


def _engine(rng: Random, clocks: list[str]) -> dict[str, Any]:
    return {
        "latency_cycles": rng.randint(1, 4),
        "elements_per_cycle": rng.choice([1, 1, 2, 3]),
        "min_interval_cycles": rng.choice([0, 0, 4]),
        "fixed_cycles": rng.choice([0, 0, 2]),
        "independent_lanes": rng.random() < 0.5,
        "dispatch_cycles": rng.choice([0, 0, 1]),
        "clock": rng.choice(clocks),
    }


@dataclass
class RandomProgram:
    """Builds a program instruction by instruction."""

    rng: Random
    chip: Chip
    instructions: list[Instruction] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    semaphores: int = 0
    loaded: Access | None = None
    last_result: Access | None = None
    state_used: int = CONSTANT_BYTES * 2
    psum_used: list[int] = field(default_factory=list)
    dram_used: int = 4096
    written: list[tuple[Access, int]] = field(default_factory=list)

    def build(self, length: int) -> tuple[Program, list[Image]]:
        """Return a program of about that many instructions, and its initial memory contents."""
        self.psum_used = [0] * self.chip.result_buffer.banks
        self._constants()
        makers = [self._load, self._load, self._multiply, self._multiply, self._multiply]
        makers += [self._copy, self._copy, self._copy, self._memset, self._dma, self._dma]
        for _ in range(length):
            self.rng.choice(makers)()
        names = tuple(f"s{n}" for n in range(self.semaphores))
        return Program("random", tuple(self.instructions), names), self.images

    def _constants(self) -> None:
        """Fill the first bytes of the state buffer and of DRAM: f32, then s8 values."""
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        partitions = self.chip.state_buffer.partitions
        words = CONSTANT_BYTES // 4
        floats = rng.standard_normal((partitions, words)).astype(np.float32)
        special = rng.random(floats.shape) < 0.02
        floats[special] = rng.choice([np.inf, -np.inf, np.nan, -0.0, 1e-42], special.sum())
        self._image(Buffer.STATE, "f32", 0, floats)
        self._image(
            Buffer.STATE,
            "s8",
            CONSTANT_BYTES,
            rng.integers(-128, 128, (partitions, CONSTANT_BYTES), dtype=np.int8),
        )
        self._image(Buffer.DRAM, "f32", 0, rng.standard_normal((1, 1024)).astype(np.float32))

    def _image(self, buffer: Buffer, dtype: str, start: int, values: Any) -> None:
        partitions, elements = values.shape
        access = Access(buffer, dtype, 0, partitions, start, ((1, elements),))
        self.images.append(Image(access, values))

    def _constant(self, dtype: str, partitions: int, elements: int) -> Access:
        """Return an access to constants: a stride, sometimes backwards."""
        size = data_type(dtype).size_bytes
        room = CONSTANT_BYTES // size
        step = self.rng.choice([1, 1, 2, -1, 5])
        if abs(step) * (elements - 1) >= room:
            step = 1
        span = abs(step) * (elements - 1)
        low = self.rng.randint(0, room - span - 1)
        first = low + (span if step < 0 else 0)
        base = CONSTANT_BYTES if dtype == "s8" else 0
        return Access(Buffer.STATE, dtype, 0, partitions, base + first * size, ((step, elements),))

    def _emit(self, make: Any, waits: tuple[Wait, ...], target: Access | None) -> None:
        """Append an instruction with a semaphore of its own and perhaps a stray wait."""
        if self.semaphores and self.rng.random() < 0.3:
            waits = (*waits, Wait(self.rng.randrange(self.semaphores), 1))
        semaphore = self.semaphores
        self.semaphores += 1
        on = self.rng.choice(["done", "row", "partition"]) if make is MatMul else "done"
        self._on = on
        self._posts = (Post(semaphore, on),)
        self._waits = waits
        if target is not None:
            self.written.append((target, semaphore))

    def _load(self) -> None:
        array = self.chip.pe_array
        K, N = self.rng.randint(1, array.rows), self.rng.randint(1, array.cols)
        access = self._constant(self.rng.choice(["f32", "s8"]), K, N)
        if array.weight_path == "top":
            size = self.chip.state_buffer.bank_bytes
            low, high = access.span
            if low // size != (high - 1) // size:
                return
        self.loaded, self.last_result = access, None
        self._emit(LoadWeights, (), None)
        self.instructions.append(LoadWeights(weights=access, waits=self._waits, posts=self._posts))

    def _multiply(self) -> None:
        if self.loaded is None:
            return
        K = self.rng.randint(1, self.loaded.partitions)
        N = self.rng.randint(1, self.loaded.elements)
        accumulate = False
        if self.last_result is not None and self.rng.random() < 0.4:
            result = self.last_result
            accumulate, M = True, result.elements
        else:
            M = self.rng.randint(1, 12)
            found = self._psum(N, M, data_type(self.loaded.dtype).accumulator)
            if found is None:
                return
            result = found
        self._emit(MatMul, (), None)
        semaphore = self.semaphores - 1
        count = {"done": 1, "row": M, "partition": result.partitions}[self._on]
        if not accumulate:
            # Later accumulations onto it make it unreadable: only a result nobody adds to is read.
            self.last_result = result if self.rng.random() < 0.5 else None
        if self.last_result is None:
            self.written.append((result, (semaphore, count)))  # type: ignore[arg-type]
        self.instructions.append(
            MatMul(
                moving=self._constant(self.loaded.dtype, K, M),
                result=result,
                accumulate=accumulate,
                waits=self._waits,
                posts=self._posts,
            )
        )

    def _psum(self, N: int, M: int, dtype: str) -> Access | None:
        bank = self.rng.randrange(self.chip.result_buffer.banks)
        first = self.psum_used[bank]
        if first + M > self.chip.result_buffer.bank_words:
            return None
        self.psum_used[bank] += M
        start = bank * self.chip.result_buffer.bank_bytes + first * 4
        return Access(Buffer.RESULT, dtype, 0, N, start, ((1, M),))

    def _state(self, dtype: str, partition: int, partitions: int, elements: int) -> Access | None:
        size = data_type(dtype).size_bytes
        start = -(-self.state_used // 4) * 4
        if start + elements * size > self.chip.state_buffer.bytes_per_partition:
            return None
        self.state_used = start + elements * size
        return Access(Buffer.STATE, dtype, partition, partitions, start, ((1, elements),))

    def _source(self) -> tuple[Access, tuple[Wait, ...]]:
        """Return something to read and the wait it takes."""
        if self.written and self.rng.random() < 0.7:
            access, posted = self.rng.choice(self.written)
            semaphore, count = posted if isinstance(posted, tuple) else (posted, 1)
            return access, (Wait(semaphore, count),)
        partitions = self.rng.randint(1, self.chip.state_buffer.partitions)
        dtype = self.rng.choice(["f32", "s8"])
        return self._constant(dtype, partitions, self.rng.randint(1, 20)), ()

    def _copy(self) -> None:
        source, waits = self._source()
        if source.buffer is Buffer.DRAM:
            return
        limit = self.chip.state_buffer.partitions - source.partitions
        if limit < 0:
            return
        first = self.rng.randint(0, limit)
        dtype = self.rng.choice(["f32", "s8", "bf16", "s32"])
        target = self._state(dtype, first, source.partitions, source.elements)
        if self.rng.random() < 0.3 and source.partitions <= self.chip.pe_array.cols:
            accumulator = self.rng.choice(["f32", "s32"])
            target = self._psum(source.partitions, source.elements, accumulator) or target
        if target is None:
            return
        engine: Any = self.rng.choice(["activation", "pooling"])
        self._emit(Copy, waits, target)
        self.instructions.append(
            Copy(engine=engine, source=source, target=target, waits=self._waits, posts=self._posts)
        )

    def _memset(self) -> None:
        partitions = self.rng.randint(1, self.chip.state_buffer.partitions)
        first = self.rng.randint(0, self.chip.state_buffer.partitions - partitions)
        target = self._state("f32", first, partitions, self.rng.randint(1, 9))
        if target is None:
            return
        engine: Any = self.rng.choice(["activation", "pooling"])
        self._emit(Memset, (), target)
        self.instructions.append(
            Memset(engine=engine, target=target, value=3, waits=self._waits, posts=self._posts)
        )

    def _dma(self) -> None:
        queue = self.rng.randrange(self.chip.dma.queues)
        source, waits = self._source()
        if source.buffer is Buffer.RESULT:
            return
        elements = source.partitions * source.elements
        if self.rng.random() < 0.6:
            size = source.element_bytes
            start = -(-self.dram_used // 4) * 4
            self.dram_used = start + elements * size
            target: Access | None = Access(Buffer.DRAM, source.dtype, 0, 1, start, ((1, elements),))
        else:
            target = self._state(source.dtype, 0, source.partitions, source.elements)
        if target is None:
            return
        self._emit(DmaCopy, waits, target)
        self.instructions.append(
            DmaCopy(
                dma_queue=queue, source=source, target=target,
                waits=self._waits, posts=self._posts,
            )
        )  # fmt: skip
