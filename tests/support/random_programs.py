"""Random chips and random race-free programs for them: everything the timing model speaks of.

Race-free by construction: an instruction reads either what is there at cycle 0 and never written,
or what an instruction it waits for has written; every result has a place of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import gcd
from random import Random
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np

from support.chips import ideal_chip
from systolic.hw.datatypes import DATA_TYPES, data_type
from systolic.hw.functions import FUNCTIONS
from systolic.hw.spec import Chip
from systolic.hw.units import (
    BUFFERS,
    CAPABILITIES,
    PATENT_CAPABILITIES,
    PATENT_ENGINES,
    clients_of,
    units_of,
)
from systolic.isa import (
    Access,
    Activate,
    ActivateReduce,
    BnAggr,
    BnStats,
    Buffer,
    Copy,
    CopyPredicated,
    DmaCopy,
    Dropout,
    FindIndex8,
    Instruction,
    Iota,
    LoadWeights,
    MatchReplace8,
    MatMul,
    Max8,
    Memset,
    PartitionReduce,
    PassThrough,
    Pool,
    Post,
    Program,
    RangeSelect,
    Requantise,
    ScalarTensorTensor,
    Scan,
    Select,
    SelectReduce,
    Shuffle,
    TensorScalar,
    TensorScalarReduce,
    TensorTensor,
    Transpose,
    Wait,
)
from systolic.isa.instruction import ActivationFunction, AluOperation, Fold, Reduction, Relation
from systolic.isa.legality.own_rules import INTEGERS_ONLY, MAX_SEARCHED
from systolic.isa.opcodes import BY_CLASS
from systolic.machine import Image

CONSTANT_BYTES = 256
FIRST_FUNCTIONS, FIRST_OPERATIONS = get_args(ActivationFunction)[:19], get_args(AluOperation)[:19]
"""What is drawn of them where no later capabilities are, so that seeds keep their programs."""
OF_MX = ("quantize_mx",)
"""Groups of 8 partitions are rare here; `pe_array/test_mx.py` has random programs of them."""
BY_PLACES_READ = ("copy_dynamic_src", "copy_dynamic_dst", "local_gather", "topk")
"""Numbers that are places are rare in random data; `lane_engine/test_places_read.py` has them."""
LATER_CAPABILITIES = tuple(
    word for word in CAPABILITIES if word not in (*PATENT_CAPABILITIES, *OF_MX, *BY_PLACES_READ)
)


def aside(rng: Random, what: str) -> Random:
    """Return a generator for `what` that leaves the draws of `rng` as they are.

    A key that is drawn aside leaves the chips and programs of all seeds otherwise the same, so
    that a seed with a name in a test still makes what it made.
    """
    copy = Random()
    copy.setstate(rng.getstate())
    return Random(f"{copy.getrandbits(64)} {what}")


def random_chip(
    rng: Random, *, clocks: bool = False, largest: int = 6, engines: bool = False
) -> Chip:
    """Return a chip whose every number is drawn at random.

    engines: it lists its engines, one to six, instead of having the patent's two.
    """
    ports = aside(rng, "ports")
    tr, tc = rng.choice([(1, 1)] * 3 + [(2, 1), (1, 2), (2, 2), (3, 1)])
    rows, cols = tr * rng.randint(1, largest // tr), tc * rng.randint(1, largest // tc)
    names = {"core": 1000}
    if clocks:
        names |= {"fast": rng.choice([2000, 1500]), "slow": rng.choice([500, 750])}
    scope = ports.choice(["partition", "partition", "bank"])
    width = ports.choice([None, None, 4, 6, 8, 13, 64])
    listed = engine_tables(rng, list(names)) if engines else {}
    for table in listed.values():
        table["rates"] = [within_port(row, width) for row in table["rates"]]
    priority = list(clients_of(listed or PATENT_ENGINES))
    rng.shuffle(priority)
    return ideal_chip(
        rows,
        cols,
        clock=names,
        semaphore_cycles=rng.randint(1, 3),
        handoff_cycles=random_handoff(aside(rng, "handoff"), listed or PATENT_ENGINES),
        port_priority=tuple(priority),
        state_buffer={
            "partitions": max(rows, cols) + rng.randint(0, 2),
            "bytes_per_partition": 4096,
            "banks": rng.choice([1, 2, 4, 16]),
            "port_scope": scope,
            "port_bytes": width,
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
            **_streaming(aside(rng, "streaming")),
            "pass_through": _pass_through(aside(rng, "pass through")),
            **_warm_up(aside(rng, "warm-up")),
            "clock": rng.choice(list(names)),
        },
        result_buffer={
            "banks": rng.choice([1, 2, 4]),
            "bank_bytes": 1024,
            "write_latency_cycles": rng.choice([0, 0, 1, 3]),
            "dma_readable": aside(rng, "bypass").random() < 0.5,
        },
        exclusions=random_exclusions(aside(rng, "exclusions"), [*(listed or PATENT_ENGINES)]),
        **({"engines": listed} if engines else _patent_engines(rng, list(names))),
        dma={**random_dma(rng, 3), "clock": rng.choice(list(names))},
        dram={
            "size_bytes": 1 << 20,
            "bytes_per_cycle": rng.choice([1, 5, 16]),
            "latency_cycles": rng.choice([0, 2]),
        },
    )


def _streaming(rng: Random) -> dict[str, Any]:
    """Return keys of [pe_array] that say how often and how long vectors are streamed."""
    types = ("f32", "s8", "bf16")
    passes = {name: rng.choice([1, 2, 3]) for name in types if rng.random() < 0.3}
    return {"passes": passes, "min_vectors": rng.choice([0, 0, 2, 9])}


def _warm_up(rng: Random) -> dict[str, int]:
    """Return keys of an array that is never cold, or of one that is now and then."""
    return {"warm_up_cycles": rng.choice([0, 0, 1, 9, 40]), "warm_up_factor": rng.choice([1, 2, 3])}


def _pass_through(rng: Random) -> dict[str, int]:
    """Return the types that pass through the array, if any, and the cycles of a vector of each."""
    return {name: rng.choice([1, 2, 3]) for name in ("f32", "s8", "bf16") if rng.random() < 0.4}


def random_handoff(rng: Random, engines: Iterable[str]) -> dict[str, int]:
    """Return handoff_cycles of no unit, or of some."""
    units = units_of(engines)
    return {unit: rng.randint(1, 9) for unit in units if rng.random() < 0.25}


def random_exclusions(rng: Random, engines: list[str]) -> list[dict[str, Any]]:
    """Return no engines that exclude one another, or some, in one buffer or both."""
    count = rng.choice([0, 0, 1, 2, 3]) if len(engines) > 1 else 0
    return [
        {"engines": rng.sample(engines, rng.choice([2, len(engines)])),
         "buffer": rng.choice(BUFFERS)}
        for _ in range(count)
    ]  # fmt: skip


ENGINE_NAMES = ("vector", "scalar", "gpsimd", "activation", "pooling", "x", "e_17")


def engine_tables(rng: Random, clocks: list[str]) -> dict[str, dict[str, Any]]:
    """Return the tables of one to six engines: what they do and reach, their rates."""
    names = rng.sample(ENGINE_NAMES, rng.choice([1, 2, 3, 3, 6]))
    made = {
        name: _engine(rng, clocks) | {"does": _some(rng, PATENT_CAPABILITIES)} for name in names
    }
    later = aside(rng, "later capabilities")
    for table in made.values():
        table["does"] += _some(later, LATER_CAPABILITIES)
        if rng.random() < 0.3:
            table["reads"] = _some(rng, BUFFERS)
        if rng.random() < 0.3:
            table["writes"] = _some(rng, BUFFERS)
        table |= _tables(aside(rng, "tables"))
        table["rates"] = [_rate(rng, table) for _ in range(rng.choice([0, 0, 1, 2, 3]))]
    return made


def _tables(rng: Random) -> dict[str, Any]:
    """Return no tables of functions, or some; a function may stand in two of them."""
    tables = [rng.sample(FUNCTIONS, 12) for _ in range(rng.choice([0, 0, 1, 3]))]
    return {"tables": tables, "table_cycles": rng.choice([0, 3, 11])}


def _patent_engines(rng: Random, clocks: list[str]) -> dict[str, dict[str, Any]]:
    """Return the tables of the patent's two, which here do what they do not do by default."""
    usual = {"activation": "pool", "pooling": "activate"}
    return {
        name: _engine(rng, clocks)
        | {"does": [word for word in CAPABILITIES if word != usual[name]]}
        for name in PATENT_ENGINES
    }


def _some(rng: Random, words: tuple[str, ...], least: int = 1) -> list[str]:
    return rng.sample(words, rng.randint(least, len(words)))


def _rate(rng: Random, engine: dict[str, Any]) -> dict[str, Any]:
    """Return a rate with some of its keys, so that later ones and none are needed as well."""
    more = aside(rng, "rate")
    special: dict[str, Any] = {
        "functions": _some(more, FUNCTIONS),
        "value": more.choice([3, 3, 0]),
        "min_interval_cycles": more.choice([0, 3, 9]),
    }
    special = {key: value for key, value in special.items() if more.random() < 0.15}
    reads, writes = engine.get("reads", BUFFERS), engine.get("writes", BUFFERS)
    keys: dict[str, Any] = {
        "does": _some(rng, engine["does"]),
        "types": _some(rng, ("f32", "s8", "bf16", "s32")),
        "operands": rng.choices(reads, k=rng.randint(0, 2)),
        "target": rng.choice(writes),
        "stride_bytes": rng.choice([0, 1, 4, 8]),
        "fixed_cycles": rng.choice([0, 1, 5]),
    }
    kept = {key: value for key, value in keys.items() if rng.random() < 0.3}
    kept |= {"elements": rng.choice([1, 1, 2, 4]), "cycles": rng.choice([1, 2, 3, 5])}
    return kept | special


def within_port(rate: dict[str, Any], width: int | None) -> dict[str, Any]:
    """Return a rate that some of its types can reach through a port: without types if need be."""
    least = min([data_type(name).size_bytes for name in rate.get("types", ())], default=1)
    if width is None or rate["elements"] <= rate["cycles"] * (width // least):
        return rate
    return {key: value for key, value in rate.items() if key != "types"}


def random_dma(rng: Random, queues: int) -> dict[str, Any]:
    """Return keys of [dma]: up to that many queues, that share engines or have one each."""
    more = aside(rng, "dma")
    count = rng.randint(1, queues)
    engines = more.choice([None, *(n for n in range(1, count + 1) if count % n == 0)])
    return {
        "queues": count,
        "engines": engines,
        "latency_cycles": rng.choice([0, 1, 5]),
        "partitions_per_cycle": more.choice([1, 2, 3, 16]),
        "outstanding": more.choice([1, 1, 2, 3]),
        "descriptor_cycles": rng.choice([0, 1, 3]) * more.choice([1, 1, 3]),
        "descriptor_cost": more.choice(["sum", "max"]),
        "bytes_per_cycle": max(count // (engines or count), rng.choice([1, 3, 8, 64])),
    }


def spread_over_engines(chip: Chip, rng: Random) -> Chip:
    """Return the chip with copies that are spread over several DMA engines by partition."""
    parts = chip.model_dump()
    engines = rng.choice([1, 2, 3, 5, 16])
    parts["dma"] |= {
        "engines": engines,
        "posts": "each_engine" if engines in (2, 5) else "once",
        "partitions_per_engine": rng.choice([1, 1, 2, 3, 8]),
        "partitions_per_cycle": 1,
        "bytes_per_cycle": max(parts["dma"]["queues"], parts["dma"]["bytes_per_cycle"]),
    }
    parts["state_buffer"]["port_scope"] = "bank"
    parts["dram"]["organisation"] = None
    return Chip.model_validate(parts)


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
    """Builds a program instruction by instruction.

    elementwise: with arithmetic in the engines; later: with that of `LATER_CAPABILITIES` besides,
    which leaves the programs of all seeds without it as they are.
    """

    rng: Random
    chip: Chip
    elementwise: bool = False
    later: bool = False
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
        if self.elementwise:
            makers += [self._activate, self._pool, self._scalar, self._generate]
            makers += [self._tensors, self._tensors, self._tensors]
        if self.later:
            makers += [self._activate_reduce, self._scalar_reduce, self._three] * 2
            makers += [self._move, self._pair, self._range, self._statistics] * 2
        for _ in range(length):
            self.rng.choice(makers)()
        self.rng = aside(self.rng, "requantise")  # behind all draws, so that these stay as they are
        for _ in range(length // 8 if self.elementwise else 0):
            self._requantise()
        self.rng = aside(self.rng, "search")
        for _ in range(length // 8 if self.later else 0):
            self._search()
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
        through = None if accumulate else self._pass_through(result, K)
        if through is not None:
            result = replace(result, dtype=through.dtype)
        elif accumulate:
            result = replace(result, dtype=data_type(self.loaded.dtype).accumulator)
        self._emit(MatMul, (), None)
        semaphore = self.semaphores - 1
        count = {"done": 1, "row": M, "partition": result.partitions}[self._on]
        if not accumulate:
            # Later accumulations onto it make it unreadable: only a result without them is read.
            self.last_result = result if self.rng.random() < 0.5 else None
        if self.last_result is None:
            self.written.append((result, (semaphore, count)))  # type: ignore[arg-type]
        moving = self._constant(self.loaded.dtype, K, M)
        self.instructions.append(
            (PassThrough if through else MatMul)(
                moving=through or moving,
                result=result,
                accumulate=accumulate,
                waits=self._waits,
                posts=self._posts,
            )
        )

    def _pass_through(self, result: Access, K: int) -> Access | None:
        """Return vectors most of whose elements are 0, if weights are to pass through."""
        assert self.loaded is not None
        rng, dtype = aside(self.rng, "pass through"), self.loaded.dtype
        if dtype not in self.chip.pe_array.pass_through or rng.random() < 0.5:
            return None
        if (moving := self._state(dtype, 0, K, result.elements)) is not None:
            values = rng.choices([0, 0, 0, 0, 1, -3], k=K * result.elements)
            shape = K, result.elements
            found = np.array(values).reshape(shape).astype(data_type(dtype).numpy)
            if dtype == "f32":
                found[found == -3] = rng.choice([-0.0, np.nan, 1e-45])
            self.images.append(Image(moving, found))
        return moving

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
        if (engine := self._engine_for(Copy, [source], target, self._engine())) is None:
            return
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
        if (engine := self._engine_for(Memset, [], target, self._engine())) is None:
            return
        self._emit(Memset, (), target)
        self.instructions.append(
            Memset(engine=engine, target=target, value=3, waits=self._waits, posts=self._posts)
        )

    def _dma(self) -> None:
        queue = self.rng.randrange(self.chip.dma.queues)
        source, waits = self._source()
        if source.buffer is Buffer.RESULT and not self.chip.result_buffer.dma_readable:
            return
        if source.buffer is Buffer.RESULT and source.dtype not in ("f32", "s32"):
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

    # -- arithmetic in the engines ----------------------------------------------------------------

    def _operands(self) -> tuple[Access, tuple[Wait, ...]] | None:
        """Return something on chip to read, in any order of its elements, and the wait it takes."""
        source, waits = self._source()
        if source.buffer is Buffer.DRAM:
            return None
        return (source if waits else self._shuffled(source)), waits

    def _shuffled(self, constant: Access) -> Access:
        """Return constants in other partitions, in two pairs, or one element again and again."""
        room = self.chip.state_buffer.partitions - constant.partitions
        constant = replace(constant, partition=self.rng.randint(0, room))
        ((step, count),) = constant.pattern
        inner = self.rng.choice([n for n in range(1, count + 1) if count % n == 0])
        outer = count // inner
        pattern = self.rng.choice(
            [
                ((step, count),),
                ((step * inner, outer), (step, inner)),
                ((step, outer), (step * outer, inner)),
                ((0, outer), (step, inner)),
                ((step, outer), (0, inner)),
            ]
        )
        return replace(constant, pattern=pattern)

    def _like(self, source: Access) -> tuple[Access, tuple[Wait, ...]]:
        """Return an operand of the same shape: itself backwards, another result, or constants."""
        if source.elements > CONSTANT_BYTES // 4 or self.rng.random() < 0.3:
            return _backwards(source), ()
        shape = source.partitions, source.elements
        results = [
            (access, posted)
            for access, posted in self.written
            if (access.partitions, access.elements) == shape and access.buffer is not Buffer.DRAM
        ]
        if results and self.rng.random() < 0.5:
            access, posted = self.rng.choice(results)
            semaphore, count = posted if isinstance(posted, tuple) else (posted, 1)
            return access, (Wait(semaphore, count),)
        return self._shuffled(self._constant(self.rng.choice(["f32", "s8"]), *shape)), ()

    def _number(self, partitions: int) -> Any:
        """Return a number, or one element for each lane."""
        if self.rng.random() < 0.5:
            dtype = self.rng.choice(["f32", "s8"])
            return replace(
                self._constant(dtype, partitions, 1),
                partition=self.rng.randint(0, self.chip.state_buffer.partitions - partitions),
            )
        return self.rng.choice([0, 1, -3, 7, 0.5, -1.25, 1e-3, float("inf")])

    def _place(self, partitions: int, elements: int) -> Access | None:
        """Return somewhere to write, in the state or in the result buffer."""
        if partitions <= self.chip.pe_array.cols and self.rng.random() < 0.3:
            return self._psum(partitions, elements, self.rng.choice(["f32", "s32"]))
        first = self.rng.randint(0, self.chip.state_buffer.partitions - partitions)
        dtype = self.rng.choice(list(DATA_TYPES))
        if self.rng.random() < 0.5:
            self._approach_next_bank(data_type(dtype).size_bytes * elements // 2)
        return self._state(dtype, first, partitions, elements)

    def _approach_next_bank(self, distance: int) -> None:
        """Skip bytes, if not many, so that what comes next lies in two banks."""
        gap = (-distance - self.state_used) % self.chip.state_buffer.bank_bytes
        if gap < CONSTANT_BYTES:
            self.state_used += gap

    def _add(
        self, make: Any, waits: tuple[Wait, ...], shape: tuple[int, int], **fields: Any
    ) -> None:
        if shape[0] > self.chip.state_buffer.partitions:
            return
        target = self._place(*shape)
        if target is None:
            return
        if make is FindIndex8:
            if target.element_bytes != 4:
                return
            target = replace(target, dtype="s32")
        if make is Requantise and data_type(target.dtype).accumulator != "s32":
            same_size = {4: "s32", 1: "s8"}
            if target.element_bytes not in same_size:
                return
            target = replace(target, dtype=same_size[target.element_bytes])
        reads = [value for value in fields.values() if isinstance(value, Access)]
        engine = self._engine_for(make, reads, target, fields.get("engine", ""))
        if engine is None:
            return
        fields["engine"] = engine
        if "reduced" in BY_CLASS[make].operands.results:
            if (reduced := self._reduced(target)) is None:
                return
            fields["reduced"] = reduced
        if fields.pop("has_indices", False):
            if (indices := self._eight_indices(target)) is None:
                return
            fields["indices"] = indices
        keeps = BY_CLASS[make].operands.keeps
        if keeps is not None and keeps(SimpleNamespace(**fields)):
            if (filled := self._filled(target)) is None:
                return
            waits = (*waits, *filled)
        self._emit(make, waits, target)
        for name in ("reduced", "indices"):
            if name in fields:
                self.written.append((fields[name], self.semaphores - 1))
        self.instructions.append(
            make(target=target, waits=self._waits, posts=self._posts, **fields)
        )

    def _engine(self) -> str:
        return self.rng.choice(list(self.chip.lane_engines))

    def _engine_for(
        self, make: Any, reads: list[Access], target: Access, wished: str
    ) -> str | None:
        """Return an engine that may execute the instruction, the one wished if it may."""
        able = [
            name
            for name, engine in self.chip.lane_engines.items()
            if BY_CLASS[make].mnemonic in engine.does
            and all(access.buffer in engine.reads for access in reads)
            and target.buffer in engine.writes
        ]
        if wished in able:
            return wished
        return able[len(self.instructions) % len(able)] if able else None

    def _operation(self, *operands: Any) -> Any:
        def is_integer(operand: Any) -> bool:
            if isinstance(operand, Access):
                return data_type(operand.dtype).accumulator == "s32"
            return isinstance(operand, int)

        usable = [
            name
            for name in (get_args(AluOperation) if self.later else FIRST_OPERATIONS)
            if name not in INTEGERS_ONLY or all(map(is_integer, operands))
        ]
        return self.rng.choice(usable)

    def _activate(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        self._add(
            Activate,
            waits,
            (source.partitions, source.elements),
            function=self.rng.choice(FIRST_FUNCTIONS),
            source=source,
            scale=self.rng.choice([1.0, -0.25, 3]),
            bias=self._number(source.partitions),
        )

    def _filled(self, target: Access) -> tuple[Wait, ...] | None:
        """Give the target contents before an instruction that keeps some of them, if possible."""
        values = np.arange(target.partitions * target.elements) % 100
        dtype = data_type(target.dtype).numpy
        shape = target.partitions, target.elements
        if target.buffer is Buffer.STATE:
            self.images.append(Image(target, values.reshape(shape).astype(dtype)))
            return ()
        engine = self._engine_for(Memset, [], target, "")
        if engine is None:
            return None
        self._emit(Memset, (), target)
        fill = Memset(
            engine=engine, target=target, value=5, waits=self._waits, posts=self._posts
        )  # fmt: skip
        self.instructions.append(fill)
        self.written.pop()
        return (Wait(self.semaphores - 1, 1),)

    def _reduced(self, target: Access) -> Access | None:
        """Return one element for each lane in the target's buffer, in any partitions."""
        if target.buffer is Buffer.RESULT:
            return self._psum(target.partitions, 1, self.rng.choice(["f32", "s32"]))
        first = self.rng.randint(0, self.chip.state_buffer.partitions - target.partitions)
        return self._state(self.rng.choice(list(DATA_TYPES)), first, target.partitions, 1)

    def _activate_reduce(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        self._add(
            ActivateReduce,
            waits,
            (source.partitions, source.elements),
            function=self.rng.choice(get_args(ActivationFunction)),
            source=source,
            scale=self.rng.choice([1.0, -0.25, 3]),
            bias=self._number(source.partitions),
        )

    def _scalar_reduce(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        scalar = self._number(source.partitions)
        self._add(
            TensorScalarReduce,
            waits,
            (source.partitions, source.elements),
            op=self._operation(source, scalar),
            fold=self.rng.choice(get_args(Fold)),
            source=source,
            scalar=scalar,
            reverse=self.rng.random() < 0.5,
        )

    def _three(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        tensor, more = self._like(source)
        scalar = self._number(source.partitions)
        self._add(
            ScalarTensorTensor,
            (*waits, *more),
            (source.partitions, source.elements),
            op=self._operation(source, scalar),
            then=self._operation(0.0),
            source=source,
            scalar=scalar,
            tensor=tensor,
            reverse=self.rng.random() < 0.5,
            then_reverse=self.rng.random() < 0.5,
        )

    def _move(self) -> None:
        """Add a transpose of blocks, a shuffle, or a fold over the partitions."""
        if (found := self._operands()) is None:
            return
        source, waits = found
        lanes, elements = source.partitions, source.elements
        make = self.rng.choice([Transpose, Shuffle, PartitionReduce, Dropout])
        fields: dict[str, Any] = {"source": source}
        if make is Transpose:
            fields["side"] = self.rng.choice(_divisors(gcd(lanes, elements)))
        elif make is Shuffle:
            size = self.rng.choice(_divisors(lanes))
            fields["mask"] = tuple(self.rng.choice([*range(size), 255]) for _ in range(size))
        elif make is Dropout:
            fields |= {"probability": self._number(lanes), "seed": self.rng.randint(-9, 9)}
        else:
            fields["fold"], lanes = self.rng.choice(get_args(Fold)), 1
        self._add(make, waits, (lanes, elements), **fields)

    def _pair(self) -> None:
        """Add a scan, or what takes some of its operand by a predicate."""
        if (found := self._operands()) is None:
            return
        source, waits = found
        other, more = self._like(source)
        make = self.rng.choice([Scan, CopyPredicated, SelectReduce])
        fields: dict[str, Any] = {"source": source, "predicate": other}
        number = self._number(source.partitions)
        if make is Scan:
            floats = self._operation(0.0), self._operation(0.0)
            fields = {"left": source, "right": other, "initial": number}
            fields |= dict(zip(("op", "then"), floats, strict=True))
        elif make is SelectReduce:
            fields |= {"other": number, "fold": self.rng.choice(get_args(Fold))}
            fields["reverse"] = self.rng.random() < 0.5
        self._add(make, (*waits, *more), (source.partitions, source.elements), **fields)

    def _range(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        self._add(
            RangeSelect,
            waits,
            (source.partitions, source.elements),
            source=source,
            fold=self.rng.choice(get_args(Fold)),
            compare=self.rng.choice(get_args(Relation)),
            compare_end=self.rng.choice(get_args(Relation)),
            bound=self._number(source.partitions),
            end=self._number(source.partitions),
            base=self.rng.randint(-3, 3),
            other=self.rng.choice([0, -1.5]),
        )

    def _statistics(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        makes: list[tuple[Any, int]] = [(BnStats, 6)]
        makes += [(BnAggr, 2)] * 9 * (source.elements % 3 == 0)
        makes += [(Max8, 8)] * (source.elements >= 8)
        make, made = self.rng.choice(makes)
        self._add(make, waits, (source.partitions, made), source=source)

    def _search(self) -> None:
        """Add a search for eight values: constants, part of the source itself, or a result."""
        if (found := self._operands()) is None:
            return
        source, waits = found
        results = [
            (access, (Wait(*posted),) if isinstance(posted, tuple) else (Wait(posted, 1),))
            for access, posted in self.written
            if (access.partitions, access.elements) == (source.partitions, 8)
            and access.buffer is not Buffer.DRAM
        ]
        values, more = self._shuffled(self._constant("f32", source.partitions, 8)), ()
        kind = self.rng.random()
        if results and kind < 0.4:
            values, more = self.rng.choice(results)
        elif kind < 0.7 and len(source.pattern) == 1 and source.elements >= 8:
            ((step, _),) = source.pattern
            values = replace(source, pattern=((step, 8),))
        shape = source.partitions, source.elements
        waits = (*waits, *more)
        if self.rng.random() < 0.5 and 8 <= source.elements <= MAX_SEARCHED:
            for _ in range(4):  # until a place has elements of 32 bits
                self._add(FindIndex8, waits, (shape[0], 8), source=source, values=values)
        elif source.elements <= MAX_SEARCHED:
            self._add(
                MatchReplace8,
                waits,
                shape,
                source=source,
                values=values,
                other=self.rng.choice([0, 1.5, float("-inf")]),
                has_indices=self.rng.random() < 0.5,
            )

    def _eight_indices(self, target: Access) -> Access | None:
        """Return eight s32 for each lane in the target's buffer, in any partitions."""
        if target.buffer is Buffer.RESULT:
            return self._psum(target.partitions, 8, "s32")
        first = self.rng.randint(0, self.chip.state_buffer.partitions - target.partitions)
        return self._state("s32", first, target.partitions, 8)

    def _pool(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        count = source.elements
        window = self.rng.choice([n for n in range(1, count + 1) if count % n == 0])
        self._add(
            Pool,
            waits,
            (source.partitions, count // window),
            function=self.rng.choice(get_args(Reduction)),
            window=window,
            source=source,
        )

    def _tensors(self) -> None:
        if (found := self._operands()) is None:
            return
        left, waits = found
        right, more = (left, ()) if self.rng.random() < 0.2 else self._like(left)
        shape = left.partitions, left.elements
        operation = self._operation(left, right)
        if self.rng.random() < 0.5:
            left, right = right, left
        self._add(
            TensorTensor,
            (*waits, *more),
            shape,
            engine=self._engine(),
            op=operation,
            left=left,
            right=right,
        )

    def _scalar(self) -> None:
        if (found := self._operands()) is None:
            return
        source, waits = found
        scalar, other = self._number(source.partitions), self._number(source.partitions)
        fields: dict[str, Any] = {"op": self._operation(source, scalar)}
        if self.rng.random() < 0.5:
            then = self._operation(0.0)
            fields |= {"then": then, "other": other, "then_reverse": self.rng.random() < 0.5}
        self._add(
            TensorScalar,
            waits,
            (source.partitions, source.elements),
            engine=self._engine(),
            source=source,
            scalar=scalar,
            reverse=self.rng.random() < 0.5,
            **fields,
        )

    def _requantise(self) -> None:
        """Add a requantisation to integers: with numbers or an element for each lane."""
        if (found := self._operands()) is None:
            return
        source, waits = found
        lanes = source.partitions
        bias, scale = self._number(lanes), self._number(lanes)
        if isinstance(scale, Access) and scale.dtype != "f32":
            scale = 0.3
        fields: dict[str, Any] = {"bias": bias, "scale": scale, "engine": self._engine()}
        if self.rng.random() < 0.5:
            fields |= {"lowest": self.rng.randint(-200, 0), "highest": self.rng.randint(1, 300)}
        self._add(Requantise, waits, (lanes, source.elements), source=source, **fields)

    def _generate(self) -> None:
        shape = self.rng.randint(1, self.chip.state_buffer.partitions), self.rng.randint(1, 12)
        fields: dict[str, Any] = {
            "engine": self._engine(),
            "base": self.rng.randint(-3, 3),
            "per_partition": self.rng.randint(-2, 2),
            "per_element": self.rng.randint(-2, 2),
        }
        if self.rng.random() < 0.5:
            self._add(Iota, (), shape, **fields)
            return
        fields |= {"compare": self.rng.choice(get_args(Relation)), "other": -0.5}
        if self.rng.random() < 0.5 and (found := self._operands()) is not None:
            value, waits = found
            self._add(Select, waits, (value.partitions, value.elements), value=value, **fields)
        else:
            self._add(Select, (), shape, value=1, **fields)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _backwards(access: Access) -> Access:
    """Return the same elements, the last one first."""
    last = sum(step * (count - 1) for step, count in access.pattern)
    return replace(
        access,
        start=access.start + last * access.element_bytes,
        pattern=tuple((-step, count) for step, count in access.pattern),
    )
