"""Small random programs, most with races, and chips that differ in timing only.

Nothing here knows what a race is: waits are drawn at random. All memory is a few words, so that
instructions meet often.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from support.chips import ideal_chip
from support.random_programs import aside
from support.random_sequencing import sequenced
from systolic.engine_kind import EngineKind
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
    Pool,
    Post,
    Program,
    TensorScalar,
    TensorTensor,
    Wait,
)
from systolic.machine import Image, simulate

WORDS, BANK_WORDS = 16, 4


@dataclass(frozen=True)
class Shape:
    """What all chips of a program share: all that is not timing, or that the checker relies on."""

    rows: int
    cols: int
    banks: int
    independent: bool
    hop: int
    vector_cycles: int
    port_scope: str = "bank"

    @classmethod
    def draw(cls, rng: Random) -> Shape:
        ports = aside(rng, "ports")
        return cls(
            rows=rng.randint(1, 3),
            cols=rng.randint(1, 3),
            banks=rng.choice([1, 2, 4]),
            independent=rng.random() < 0.6,
            hop=rng.choice([1, 3]),
            vector_cycles=rng.choice([1, 2]),
            port_scope=ports.choice(["bank", "partition"]),
        )

    @property
    def partitions(self) -> int:
        return max(self.rows, self.cols)

    def chip(self, rng: Random) -> Chip:
        """Return a chip of this shape with latencies, rates and priorities drawn at random."""
        lanes: dict[str, Any] = {"independent_lanes": self.independent}
        width = aside(rng, "width").choice([None, 4, 8])
        copies = aside(rng, "copies")

        def engine() -> dict[str, Any]:
            rate, fixed = rng.choice([1, 1, 2]), rng.choice([0, 0, 3])
            latency = rng.randint(1, 6)
            slow = [{"elements": rate, "cycles": rng.choice([2, 3])}] if fixed else []
            return lanes | {
                "latency_cycles": latency, "fixed_cycles": fixed, "elements_per_cycle": rate,
                "rates": slow,
            }  # fmt: skip

        chip = ideal_chip(
            self.rows,
            self.cols,
            semaphore_cycles=rng.randint(1, 3),
            port_priority=tuple(rng.sample(CLIENTS, len(CLIENTS))),
            state_buffer={
                "partitions": self.partitions, "bytes_per_partition": 4 * WORDS,
                "banks": self.banks, "port_scope": self.port_scope, "port_bytes": width,
            },
            result_buffer={
                "banks": 2, "bank_bytes": 4 * BANK_WORDS,
                "write_latency_cycles": rng.choice([0, 0, 3]),
            },
            pe_array={
                "weight_buffer": rng.choice(["double", "single", "serial"]),
                "hop": (1, self.hop),
                "cycles_per_vector": dict.fromkeys(("f32", "s8"), self.vector_cycles),
                "dispatch_cycles": rng.choice([0, 0, 2]),
            },
            activation=engine(),
            pooling=engine(),
            dma={
                "outstanding": copies.choice([1, 2, 3]),
                "partitions_per_cycle": copies.choice([1, 2, 4]),
                "descriptor_cost": copies.choice(["sum", "max"]),
                "latency_cycles": rng.choice([0, 0, 4]),
                "bytes_per_cycle": rng.choice([1, 4, 16]),
            },
            dram={"size_bytes": 4 * WORDS, "bytes_per_cycle": 8},
        )  # fmt: skip
        return sequenced(chip, rng) if rng.random() < 0.5 else chip


@dataclass
class RacyProgram:
    """Builds a program in which nothing is ordered on purpose."""

    rng: Random
    shape: Shape
    instructions: list[Instruction] = field(default_factory=list)
    loaded: Access | None = None

    def build(self) -> Program:
        """Return a program of a few instructions that comes to its end."""
        rng = self.rng
        self.counts = [0] * rng.randint(1, 4)
        self.eager = rng.choice([0.3, 0.6, 0.9])
        makers = [self._load, self._multiply, self._multiply, self._memset]
        makers += [self._copy] * 3 + [self._dma] * 2
        makers += [self._tensors, self._tensors, self._pool, self._scalar]
        for _ in range(rng.randint(3, 9)):
            rng.choice(makers)()
        names = tuple(f"s{n}" for n in range(len(self.counts)))
        return Program("racy", tuple(self.instructions), names)

    def _add(self, cls: Any, events: dict[Any, int] | None = None, **fields: Any) -> None:
        rng = self.rng
        all_of_it = rng.random() < 0.5
        waits = tuple(
            Wait(semaphore, count if all_of_it else rng.randint(1, count))
            for semaphore, count in enumerate(self.counts)
            if count and rng.random() < self.eager
        )
        events = events or {"done": 1}
        on, semaphore = rng.choice([*events]), rng.randrange(len(self.counts))
        posts = (Post(semaphore, on),) if rng.random() < 0.85 else ()
        self.instructions.append(cls(**fields, waits=waits, posts=posts))
        if posts:
            self.counts[semaphore] += events[on]

    def _state(self, partition: int, partitions: int, elements: int) -> Access:
        step = self.rng.choice([1, 1, 1, 2])
        room = WORDS - step * (elements - 1)
        first = self.rng.randrange(room)
        if self.rng.random() < 0.6:
            first = first // 4 * 4
        pattern = ((step, elements),)
        return Access(Buffer.STATE, "f32", partition, partitions, 4 * first, pattern)

    def _psum(self, partition: int, partitions: int, elements: int) -> Access:
        word = self.rng.randrange(2) * BANK_WORDS + self.rng.randint(0, BANK_WORDS - elements)
        return Access(Buffer.RESULT, "f32", partition, partitions, 4 * word, ((1, elements),))

    def _load(self) -> None:
        K, N = self.rng.randint(1, self.shape.rows), self.rng.randint(1, self.shape.cols)
        self.loaded = self._state(0, K, N)
        self._add(LoadWeights, weights=self.loaded)

    def _multiply(self) -> None:
        if self.loaded is None:
            self._load()
            return
        M, N = self.rng.randint(1, 4), self.rng.randint(1, self.loaded.elements)
        self._add(
            MatMul,
            {"done": 1, "row": M, "partition": N},
            moving=self._state(0, self.rng.randint(1, self.loaded.partitions), M),
            result=self._psum(0, N, M),
            accumulate=self.rng.random() < 0.3,
        )

    def _lanes(self, limit: int) -> tuple[int, int]:
        first = self.rng.randrange(limit)
        return first, self.rng.randint(1, limit - first)

    def _engine(self) -> str:
        return self.rng.choice(["activation", "activation", "pooling"])

    def _copy(self) -> None:
        elements = self.rng.randint(1, 4)
        from_psum = self.rng.random() < 0.5
        first, lanes = self._lanes(self.shape.cols if from_psum else self.shape.partitions)
        source = (self._psum if from_psum else self._state)(first, lanes, elements)
        target = self._state(self.rng.randint(0, self.shape.partitions - lanes), lanes, elements)
        self._add(Copy, engine=self._engine(), source=source, target=target)

    def _operand(self, first: int, lanes: int, elements: int) -> Access:
        if first + lanes <= self.shape.cols and elements <= BANK_WORDS and self.rng.random() < 0.3:
            return self._psum(first, lanes, elements)
        return self._state(first, lanes, elements)

    def _anywhere(self, lanes: int, elements: int) -> Access:
        return self._operand(self.rng.randint(0, self.shape.partitions - lanes), lanes, elements)

    def _tensors(self) -> None:
        elements = self.rng.randint(1, 6)
        first, lanes = self._lanes(self.shape.partitions)
        left, right = self._operand(first, lanes, elements), self._anywhere(lanes, elements)
        target = self.rng.choice([left, right, self._anywhere(lanes, elements)])
        self._add(
            TensorTensor, engine=self._engine(), op="add", left=left, right=right, target=target
        )

    def _pool(self) -> None:
        window, outputs = self.rng.randint(1, 3), self.rng.randint(1, 2)
        first, lanes = self._lanes(self.shape.partitions)
        source = self._operand(first, lanes, window * outputs)
        target = self._anywhere(lanes, outputs)
        self._add(Pool, function="sum", window=window, source=source, target=target)

    def _scalar(self) -> None:
        elements = self.rng.randint(1, 4)
        first, lanes = self._lanes(self.shape.partitions)
        source = self._operand(first, lanes, elements)
        scalar, other = self._anywhere(lanes, 1), self._anywhere(lanes, 1)
        target = self.rng.choice([source, self._anywhere(lanes, elements)])
        fields = {"then": "subtract", "other": other} if self.rng.random() < 0.5 else {}
        self._add(
            TensorScalar, engine=self._engine(), op="multiply", source=source, scalar=scalar,
            target=target, **fields,
        )  # fmt: skip

    def _memset(self) -> None:
        target = self._state(*self._lanes(self.shape.partitions), self.rng.randint(1, 4))
        self._add(Memset, engine=self._engine(), target=target, value=self.rng.randint(0, 9))

    def _dma(self) -> None:
        elements = self.rng.randint(1, 6)
        start = 4 * self.rng.randint(0, WORDS - elements)
        dram = Access(Buffer.DRAM, "f32", 0, 1, start, ((1, elements),))
        pair = [dram, self._state(self.rng.randrange(self.shape.partitions), 1, elements)]
        self.rng.shuffle(pair)
        queue = self.rng.randrange(2)
        self._add(DmaCopy, dma_queue=queue, source=pair[0], target=pair[1])


def images(shape: Shape) -> list[Image]:
    """Return contents for all memory, every word different."""
    values = np.arange(1.0, 1000.0, dtype=np.float32)

    def image(buffer: Buffer, partitions: int, words: int, first: int) -> Image:
        access = Access(buffer, "f32", 0, partitions, 0, ((1, words),))
        found = values[first : first + partitions * words].reshape(partitions, words)
        return Image(access, found)

    return [
        image(Buffer.STATE, shape.partitions, WORDS, 0),
        image(Buffer.RESULT, shape.cols, 2 * BANK_WORDS, 100),
        image(Buffer.DRAM, 1, WORDS, 200),
    ]


def outcome(chip: Chip, program: Program, contents: list[Image], engine: EngineKind) -> bytes:
    """Return all memory as it stands at the end of a run."""
    memory = simulate(chip, program, contents, engine=engine).memory
    return b"".join(memory.bytes_of(buffer).tobytes() for buffer in Buffer)
