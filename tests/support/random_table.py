"""Random programs that draw from the whole table of instructions, and chips that execute them all.

An instruction is drawn from its row: what it reads are constants, what it writes is its own, words
and numbers are any that its fields allow; `_FITTED` has what its shape asks for. Only what is legal
is kept. So a new row of the table is drawn from the day on which it stands there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd
from random import Random
from typing import Any

import numpy as np

from support.random_programs import random_chip, spread_over_engines
from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.hw.units import CAPABILITIES
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose, Instruction, Program, check_program
from systolic.isa.instruction import (
    BnAggr,
    BnStats,
    CopyDynamicDst,
    CopyDynamicSrc,
    FindIndex8,
    LoadDoubleRow,
    LoadMx,
    LoadTile,
    LoadWeights,
    LocalGather,
    MatchReplace8,
    MatMul,
    MatMulDoubleRow,
    MatMulMx,
    MatMulTile,
    Max8,
    PartitionReduce,
    PassThrough,
    Pool,
    QuantizeMx,
    Requantise,
    Shuffle,
    TopK,
    Transpose,
)
from systolic.isa.opcodes import BY_CLASS, BY_MNEMONIC, Field, Kind
from systolic.isa.scales import scale_span
from systolic.machine import Image

SIDE = 8
"""Rows and columns of the array: a group that shares a scale has 8 partitions."""
CONSTANTS, NUMBERS, OWN = 0, 2048, 4096
"""Bytes of a partition: of any value, small numbers, and what is written."""
MOST = 6
"""The largest of the small numbers."""
MX, FLOATS = ("f8e4m3fn", "f8e5m2"), ("f32", "bf16", "f16")
TRIES = 60
_ROWS = [*BY_MNEMONIC.values()]
"""What the units of a core execute; rows of several cores have no line of their own in text."""
Fields = dict[str, Any]
_WEIGHTS: dict[type, Any] = {
    MatMul: LoadWeights,
    PassThrough: LoadWeights,
    MatMulTile: LoadTile,
    MatMulDoubleRow: LoadDoubleRow,
    MatMulMx: LoadMx,
}
"""Which load a multiply needs."""


def whole_chip(rng: Random, *, clocks: bool = False) -> Chip:
    """Return a random chip that executes every instruction of the table."""
    parts = random_chip(rng, clocks=clocks, largest=6).model_dump()
    cell = rng.choice([(1, 1), (1, 1), (2, 1), (1, 2), (2, 2)])
    types = ("f32", "bf16", "f16", "s8", *MX)
    parts["pe_array"] |= {
        "rows": SIDE,
        "cols": SIDE,
        "cell": cell,
        "weight_path": "left",
        "cycles_per_vector": {name: rng.choice([1, 1, 2]) for name in types},
        "pass_through": {"f32": rng.choice([1, 2])},
        "double_row": {"f32": 1, "s8": rng.choice([1, 3])},
        "mx": {name: rng.choice([1, 2]) for name in MX},
        "tile_sizes": [(4, 4), (8, 4), (4, 8), (8, 8)],
    }
    parts["state_buffer"] |= {
        "partitions": SIDE,
        "bytes_per_partition": 1 << 16,
        "port_bytes": rng.choice([None, 8, 16]),
    }
    parts["result_buffer"]["bank_bytes"] = 4096
    for name in ("activation", "pooling"):
        parts[name]["does"] = CAPABILITIES
    chip = Chip.model_validate(parts)
    if rng.random() < 0.3:
        parts = spread_over_engines(chip, rng).model_dump()
    parts["dma"]["transposes"] = {
        "element_bytes": (2, 4),
        "dram_percent": rng.choice([100, 90, 50]),
        "state_buffer_percent": rng.choice([100, 66]),
    }
    parts["dram"]["bytes_per_cycle"] = max(
        parts["dram"]["bytes_per_cycle"], 2 * parts["dma"]["queues"]
    )
    return Chip.model_validate(parts)


class TableProgram:
    """Builds one program, instruction by instruction, each of a row drawn at random."""

    def __init__(self, rng: Random, chip: Chip) -> None:
        self.rng, self.chip = rng, chip
        self.instructions: list[Instruction] = []
        self._state_used, self._dram_used = OWN, OWN
        self._words = [0] * chip.result_buffer.banks
        self._loads: dict[tuple[int, int, int, int], LoadWeights] = {}

    def build(self, length: int) -> tuple[Program, list[Image]]:
        """Return a program of that many instructions, and the memories' contents."""
        for _ in range(length):
            cls = self.rng.choice(_ROWS).cls
            if cls in _WEIGHTS and self.rng.random() < 0.6:
                self._add(_WEIGHTS[cls])
            self._add(cls)
        return Program("table", tuple(self.instructions)), self._images()

    def _images(self) -> list[Image]:
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        lanes = self.chip.state_buffer.partitions
        state = Access(Buffer.STATE, "u8", 0, lanes, CONSTANTS, ((1, NUMBERS),))
        small = Access(Buffer.STATE, "s32", 0, lanes, NUMBERS, ((1, (OWN - NUMBERS) // 4),))
        dram = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, OWN),))
        return [
            Image(state, numbers.integers(0, 256, (lanes, NUMBERS), np.uint8)),
            Image(small, numbers.integers(0, MOST + 1, (lanes, small.elements)).astype(np.int32)),
            Image(dram, numbers.integers(0, 256, (1, OWN), np.uint8)),
        ]

    def _add(self, cls: Any) -> None:
        for _ in range(TRIES):
            if self._is_added(cls):
                return

    def _is_added(self, cls: Any) -> bool:
        used = self._state_used, self._dram_used, list(self._words)
        made = self._made(cls)
        if made is not None:
            try:
                others = tuple(self.instructions) if isinstance(made, MatMul) else ()
                check_program(Program("p", (*others, made)), self.chip)
            except ProgramError:
                made = None
        if made is None:
            self._state_used, self._dram_used, self._words = used
            return False
        self.instructions.append(made)
        return True

    def _made(self, cls: Any) -> Instruction | None:
        try:
            if issubclass(cls, LoadWeights):
                return self._load(cls)
            if issubclass(cls, MatMul):
                return self._multiply(cls)
            if issubclass(cls, DmaCopy):
                return self._dma(cls)
            return self._on_engine(cls)
        except OverflowError:  # no room is left
            return None

    # -- places ----------------------------------------------------------------------------------

    def _constant(
        self, dtype: str, first: int, lanes: int, elements: int, *, small: bool = False
    ) -> Access:
        size = data_type(dtype).size_bytes
        step = self.rng.choice([1, 1, 1, 2])
        room = NUMBERS // size - step * (elements - 1) - 1
        start = (NUMBERS if small else CONSTANTS) + self.rng.randint(0, room) * size
        start -= start % max(4, size)
        return Access(Buffer.STATE, dtype, first, lanes, start, ((step, elements),))

    def _target(self, dtype: str, first: int, lanes: int, elements: int) -> Access:
        if dtype in ("f32", "s32") and first == 0 and self.rng.random() < 0.3:
            return self._psum(dtype, 0, lanes, elements)
        size = data_type(dtype).size_bytes
        gap = self.rng.choice([0, 0, self.chip.state_buffer.bank_bytes // 2])
        start = -(-self._state_used // 4) * 4
        if self._state_used + gap + elements * size < self.chip.state_buffer.bytes_per_partition:
            start += gap - gap % 4
        self._state_used = start + elements * size
        if self._state_used > self.chip.state_buffer.bytes_per_partition:
            raise OverflowError
        return Access(Buffer.STATE, dtype, first, lanes, start, ((1, elements),))

    def _psum(self, dtype: str, first: int, lanes: int, elements: int) -> Access:
        bank = self.rng.randrange(len(self._words))
        word = self._words[bank]
        self._words[bank] += elements
        if self._words[bank] > self.chip.result_buffer.bank_words:
            raise OverflowError
        start = bank * self.chip.result_buffer.bank_bytes + 4 * word
        return Access(Buffer.RESULT, dtype, first, lanes, start, ((1, elements),))

    # -- the array -------------------------------------------------------------------------------

    def _load(self, cls: Any) -> LoadWeights:
        tile = self._a_tile() if issubclass(cls, LoadTile | LoadMx) else {}
        (rows, cols), (row, _) = _place(tile)
        K, N = self.rng.randint(1, rows), self.rng.randint(1, cols)
        if cls is LoadMx:
            data = self._constant(self.rng.choice(MX), row, SIDE, 4 * N)
            return LoadMx(weights=data, scales=self._scales(data, N), **tile)
        each = 2 if cls is LoadDoubleRow else 1
        dtype = self.rng.choice(("f32", "s8") if each == 2 else ("f32", "s8", "bf16"))
        return cls(weights=self._constant(dtype, row, K, each * N), **tile)

    def _a_tile(self) -> Fields:
        sizes = self.chip.pe_array.tile_sizes
        size = self.rng.choice(sizes)
        place = self.rng.randrange(0, SIDE, size[0]), self.rng.randrange(0, SIDE, size[1])
        return {"tile_size": size, "tile_position": place}

    def _scales(self, data: Access, columns: int) -> Access:
        lanes = scale_span(data.partitions)
        return self._constant("u8", data.partition, lanes, columns)

    def _multiply(self, cls: Any) -> MatMul | None:
        needed = _WEIGHTS[cls]
        loads = [i for i in self.instructions if type(i) is needed]
        if not loads:
            return None
        load = loads[-self.rng.randint(1, min(3, len(loads)))]
        K = self.rng.randint(1, load.weights.partitions)
        N, M = self.rng.randint(1, load.columns), self.rng.randint(1, 6)
        fields: Fields = {"accumulate": cls is not PassThrough and self.rng.random() < 0.3}
        if needed in (LoadTile, LoadMx):
            fields |= {"tile_size": load.tile_size, "tile_position": load.tile_position}
        _, (row, col) = _place(fields)
        dtype = load.weights.dtype
        if cls is MatMulMx:
            moving = self._constant(self.rng.choice(MX), row, SIDE, 4 * M)
            fields["scales"] = self._scales(moving, M)
        else:
            each = 2 if cls is MatMulDoubleRow else 1
            moving = self._constant(dtype, row, K, each * M)
        result_type = dtype if cls is PassThrough else data_type(moving.dtype).accumulator
        return cls(moving=moving, result=self._psum(result_type, col, N, M), **fields)

    # -- DMA -------------------------------------------------------------------------------------

    def _dma(self, cls: Any) -> DmaCopy:
        queue = self.rng.randrange(self.chip.dma.queues)
        dtype = self.rng.choice(["f32", "bf16"] if cls is DmaTranspose else ["f32", "bf16", "u8"])
        lanes, elements = self.rng.choice([1, 2, SIDE]), self.rng.randint(1, 40)
        if cls is DmaTranspose:
            rows, cols = self.rng.randint(1, SIDE), self.rng.randint(1, SIDE)
            source = self._in_dram(dtype, rows * cols)
            if self.rng.random() < 0.5:
                source = self._constant(dtype, 0, rows, cols)
            return cls(dma_queue=queue, source=source, target=self._target(dtype, 0, cols, rows))
        ends = [
            lambda: self._in_dram(dtype, lanes * elements),
            lambda: self._constant(dtype, self.rng.randint(0, SIDE - lanes), lanes, elements),
        ]
        source, target = self.rng.choice(ends)(), self._target(dtype, 0, lanes, elements)
        if self.rng.random() < 0.5:
            size = data_type(dtype).size_bytes
            target = Access(
                Buffer.DRAM, dtype, 0, 1, self._dram_used, ((1, lanes * elements),)
            )  # fmt: skip
            self._dram_used += -(-lanes * elements * size // 4) * 4
        return cls(dma_queue=queue, source=source, target=target)

    def _in_dram(self, dtype: str, elements: int) -> Access:
        room = OWN // data_type(dtype).size_bytes - elements
        start = self.rng.randint(0, room) * data_type(dtype).size_bytes
        return Access(Buffer.DRAM, dtype, 0, 1, start, ((1, elements),))

    # -- engines ---------------------------------------------------------------------------------

    def _on_engine(self, cls: Any) -> Any:
        rng, row = self.rng, BY_CLASS[cls]
        lanes = rng.randint(1, SIDE)
        first = rng.randint(0, SIDE - lanes)
        shape = _Shape(cls, first, lanes, rng.randint(1, 16), rng.choice(FLOATS), rng)
        _FITTED.get(cls, lambda _: None)(shape)
        fields: Fields = {"engine": rng.choice(list(self.chip.lane_engines))}
        parts = row.operands
        for field in row.fields:
            if field.name == "engine":
                continue
            if field.name in shape.values:
                fields[field.name] = shape.values[field.name]
            elif field.name in parts.all_written:
                dtype, found, count = shape.written(field.name)
                if field.optional and rng.random() < 0.5:
                    continue
                room = self._target(dtype, shape.first, found, count + shape.further)
                fields[field.name] = replace(room, pattern=((1, count),))
            elif field.name in parts.scales:
                fields[field.name] = self._own_scales(fields["target"], shape.elements // 4)
            elif field.kind in (Kind.ACCESS, Kind.OPERAND):
                fields[field.name] = self._operand(field, shape)
            elif (value := self._value(field)) is not None:
                fields[field.name] = value
        return cls(**fields)

    def _own_scales(self, data: Access, columns: int) -> Access:
        size = scale_span(data.partitions)
        start, self._state_used = self._state_used, self._state_used + columns
        return Access(Buffer.STATE, "u8", data.partition, size, start, ((1, columns),))

    def _operand(self, field: Field, shape: _Shape) -> Any:
        per_lane = BY_CLASS[shape.cls].operands.per_lane
        if field.name == "offset":
            return self._constant("s32", 0, 1, 1, small=True)
        if field.kind is Kind.OPERAND and self.rng.random() < 0.5:
            return self.rng.choice([0, 1, -3, 0.5])
        dtype, count = shape.read(field.name)
        if field.name in per_lane:
            count = 1
        is_small = field.name == "index"
        return self._constant(dtype, shape.first, shape.lanes, count, small=is_small)

    def _value(self, field: Field) -> Any:
        """Return a word, a flag or a number; None leaves the default."""
        if field.words:
            return self.rng.choice(field.words)
        if field.kind is Kind.FLAG:
            return self.rng.random() < 0.5
        if field.kind in (Kind.INTEGER, Kind.NUMBER) and (
            field.required or self.rng.random() < 0.5
        ):
            return self.rng.choice([0, 1, 2, -3])
        return None


class _Shape:
    """Lanes, elements and types of an instruction of an engine, and fields that follow from them.

    values: fields; made: elements of the target; further: elements behind it that it may be moved
    to; types, counts: of operands and targets that ask for some.
    """

    def __init__(
        self, cls: Any, first: int, lanes: int, elements: int, dtype: str, rng: Random
    ) -> None:
        self.cls, self.first, self.lanes, self.elements, self.rng = cls, first, lanes, elements, rng
        self.values: Fields = {}
        self.made = elements
        self.made_lanes = lanes
        self.further = 0
        self.dtype = dtype
        self.types: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def read(self, name: str) -> tuple[str, int]:
        """Return type and elements of an operand."""
        usual = self.rng.choice(["f32", "s8", "bf16", "s32"])
        return self.types.get(name, usual), self.counts.get(name, self.elements)

    def written(self, name: str) -> tuple[str, int, int]:
        """Return type, lanes and elements of a target."""
        dtype = self.types.get(name, self.rng.choice(["f32", "s8", "bf16", "s32"]))
        usual = self.made if name == "target" else 1
        return dtype, self.made_lanes, self.counts.get(name, usual)


def _divisor(rng: Random, number: int) -> int:
    return rng.choice([n for n in range(1, number + 1) if number % n == 0])


def _pool(shape: _Shape) -> None:
    window = _divisor(shape.rng, shape.elements)
    shape.values["window"], shape.made = window, shape.elements // window


def _transpose(shape: _Shape) -> None:
    shape.values["side"] = _divisor(shape.rng, gcd(shape.lanes, shape.elements))


def _shuffle(shape: _Shape) -> None:
    size = _divisor(shape.rng, shape.lanes)
    shape.values["mask"] = tuple(shape.rng.choice([*range(size), 255]) for _ in range(size))


def _statistics(shape: _Shape) -> None:
    if shape.cls is BnAggr:
        shape.elements *= 3
    if shape.cls is Max8:
        shape.elements += 7
    shape.made = {BnStats: 6, BnAggr: 2, Max8: 8}[shape.cls]


def _search(shape: _Shape) -> None:
    shape.elements += 7
    shape.counts |= {"values": 8, "indices": 8}
    shape.types["indices"] = "s32"
    shape.made = shape.elements
    if shape.cls is FindIndex8:
        shape.made, shape.types["target"] = 8, "s32"


def _across(shape: _Shape) -> None:
    shape.made_lanes = 1


def _quantise(shape: _Shape) -> None:
    shape.first, shape.lanes, shape.made_lanes = 0, SIDE, SIDE
    shape.elements = shape.made = 4 * shape.rng.randint(1, 4)
    types = {"source": shape.rng.choice(["bf16", "f16"]), "target": shape.rng.choice(MX)}
    shape.types |= types
    shape.values["headroom"] = shape.rng.randint(0, 1)


def _dynamic(shape: _Shape) -> None:
    shape.values["most"] = MOST
    shape.further = MOST * (shape.cls is CopyDynamicDst)


def _requantise(shape: _Shape) -> None:
    shape.types["target"] = shape.rng.choice(["s8", "s32"])
    shape.values |= {"lowest": -9, "highest": shape.rng.randint(0, 99)}


def _gather(shape: _Shape) -> None:
    rng, group = shape.rng, shape.rng.choice([1, 2, 4, 8])
    shape.first, shape.lanes, shape.made_lanes = 0, SIDE, SIDE
    each, found = rng.choice([1, 2, 4]), rng.randint(1, 12)
    shape.values |= {"group": group, "each": each}
    shape.types |= dict.fromkeys(("source", "target"), rng.choice(["f32", "bf16"]))
    shape.types["index"] = "s32"
    shape.counts |= {"index": -(-found // group)}
    shape.elements, shape.made = MOST + each, found * each


def _top(shape: _Shape) -> None:
    rng, group = shape.rng, shape.rng.choice([1, 2, 4, 8])
    shape.first, shape.lanes, shape.made_lanes = 0, SIDE, SIDE
    count = rng.randint(8, 24)
    k = rng.randint(1, count)
    shape.values |= {"group": group, "count": count, "k": k}
    shape.types |= {"source": "bf16", "target": "bf16", "indices": "s32"}
    shape.elements, shape.made = -(-count // group), -(-k // group)
    shape.counts["indices"] = shape.made


_FITTED: dict[type, Callable[[_Shape], None]] = {
    Pool: _pool,
    Transpose: _transpose,
    Shuffle: _shuffle,
    BnStats: _statistics,
    BnAggr: _statistics,
    Max8: _statistics,
    FindIndex8: _search,
    MatchReplace8: _search,
    PartitionReduce: _across,
    QuantizeMx: _quantise,
    CopyDynamicSrc: _dynamic,
    CopyDynamicDst: _dynamic,
    LocalGather: _gather,
    TopK: _top,
    Requantise: _requantise,
}
"""What the shape of an instruction asks for, where lanes and elements may not be any."""


def _place(tile: Fields) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return size and position of a tile; of the whole array without one."""
    return tile.get("tile_size") or (SIDE, SIDE), tile.get("tile_position") or (0, 0)
