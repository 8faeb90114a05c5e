"""The table of instructions: one row for each, with its number, its name and its operands.

The fields of an instruction and their types come from its dataclass; a new instruction is one row
in `OPCODES`. Numbers are part of the binary format: they are never reused, and a change to the
fields of an instruction needs a new number. A row also says which fields are read and written, and
in which rhythm an engine does so; lint and both engines go by that. Nothing is printed, parsed or
encoded here.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal

from systolic.hw.units import CAPABILITIES
from systolic.isa.access import Access
from systolic.isa.instruction import (
    Activate,
    ActivateReduce,
    BnAggr,
    BnStats,
    Command,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    CopyPredicated,
    DmaCopy,
    DmaMove,
    DmaTranspose,
    Dropout,
    FindIndex8,
    Iota,
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
    Memset,
    OnEngine,
    PartitionReduce,
    PassThrough,
    Pool,
    QuantizeMx,
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
    TopK,
    Transpose,
)
from systolic.isa.instruction.on_engine import UNCHANGED
from systolic.isa.scales import GROUP_ELEMENTS

OFFSET, MOST = "offset", "most"
"""The fields of an instruction that moves an access: by how many elements, and the most."""


class Kind(Enum):
    """How a field is written."""

    ACCESS = auto()
    FLAG = auto()
    INTEGER = auto()
    NUMBER = auto()
    OPERAND = auto()
    """An access or a number."""
    WORD = auto()
    LIST = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an instruction: name, kind, whether None is allowed, its words, its default."""

    name: str
    kind: Kind
    optional: bool
    words: tuple[str, ...]
    default: Any

    @property
    def required(self) -> bool:
        """Return whether the field has no default."""
        return self.default is dataclasses.MISSING


class Rhythm(Enum):
    """In which of its steps an engine reads the elements of an instruction, and completes results.

    How long a step takes, and how long the way from a read to its write, are chip data.
    """

    ELEMENTWISE = auto()
    """A group of elements of the one operand, or of none, completes as many of the target."""
    PAIRED = auto()
    """A group of both operands in one step, or in two where both need the same port."""
    WINDOWED = auto()
    """As ELEMENTWISE, but only the last element of each window completes one of the target."""
    BLOCKWISE = auto()
    """The last element of each block of the operand completes a block of the target.

    The first group of the block is complete in that step, and one more group in each step that
    follows. Groups that come behind the last read hold up nothing.
    """
    BESIDE = auto()
    """Beside the first groups of the operand, groups of another one with few elements are read.

    A group of each is read in one step, or in two where both need the same port. Nothing of the
    target is complete before all of the other operand has been read. From then on its order is
    ELEMENTWISE, or of BLOCKWISE with a block of all elements, a group in a step.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """The names of the fields through which an instruction reads and writes memory, by their part.

    Every field that is an access, or an access or a number, stands in one of the first six; a
    field that holds a number, or None, moves nothing.

    Args:
        reads: read element by element.
        per_lane: read once per lane: one element in each partition, before all others.
        beside: read beside the first elements of the operand: `few` elements in each partition.
        writes: written element by element.
        results: written once per lane: `few` elements in each partition, each in a step of its own
            behind all that is written element by element.
        scales: scales of the operand, read with what they are for; or of what is written, written
            with it: one for each group (`systolic.isa.scales`), which has `group` elements of a
            partition.
        few: how many elements of each partition `beside` and `results` have; None: the rules of the
            instruction say it.
        accumulate: a flag; where it is set, what is written is read as well.
        window: how many elements of the operand make one of the target (WINDOWED).
        block: how many elements of the operand make as many of the target (BLOCKWISE).
        group: as many elements of the operand make as many of the target (BLOCKWISE).
        made: how many elements of the target all of the operand makes (BLOCKWISE without block, and
            BESIDE if the target has not as many elements as the operand).
        is_whole: all of the operand makes all of the target, however many elements that has
            (BLOCKWISE).
        keeps: whether an instruction leaves some of what it writes as it is, and so reads it too,
            at no cost.
        is_running: an element of the target depends on those before it.
        is_across: what is made of all lanes goes to the one partition of the target.
        moved: read or written that many elements further as the operand `offset` says, `most` at
            most.
        picked: of what it names, an instruction reads as many elements as its target has: which
            ones is a value.
        rhythm: of an instruction of an engine; None for all others.

    """

    reads: tuple[str, ...] = ()
    per_lane: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    few: int | None = 1
    accumulate: str | None = None
    window: str | None = None
    block: str | None = None
    group: int | None = None
    made: int | None = None
    is_whole: bool = False
    keeps: Callable[[Any], bool] | None = None
    is_running: bool = False
    is_across: bool = False
    moved: str | None = None
    picked: str | None = None
    rhythm: Rhythm | None = None
    all_read: tuple[str, ...] = field(init=False)
    all_written: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Put together once what is asked for again and again."""
        object.__setattr__(self, "all_read", self.reads + self.per_lane + self.beside)
        object.__setattr__(self, "all_written", self.writes + self.results)


def operands(
    reads: str = "", writes: str = "", rhythm: Rhythm | None = None, **others: Any
) -> Operands:
    """Return operands whose names are given in one string, a blank between two."""
    read, written = tuple(reads.split()), tuple(writes.split())
    return Operands(reads=read, writes=written, rhythm=rhythm, **others)


@dataclass(frozen=True, slots=True)
class Opcode:
    """A row: number (binary), mnemonic (text), class, fields besides waits and posts, operands."""

    number: int
    mnemonic: str
    cls: Any
    fields: tuple[Field, ...]
    operands: Operands


def _kind(hint: Any) -> tuple[Kind, bool, tuple[str, ...]]:
    """Return (kind, optional, words) of a type annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        rest = tuple(a for a in arguments if a is not type(None))
        if len(rest) == 1:
            kind, _, words = _kind(rest[0])
            return kind, True, words
        if Access in rest and set(rest) <= {Access, int, float}:
            return Kind.OPERAND, len(rest) < len(arguments), ()
        if set(rest) == {int, float}:
            return Kind.NUMBER, len(rest) < len(arguments), ()
    elif origin is Literal:
        return Kind.WORD, False, tuple(str(a) for a in arguments)
    elif origin is tuple and arguments == (int, ...):
        return Kind.LIST, False, ()
    known = {Access: Kind.ACCESS, bool: Kind.FLAG, int: Kind.INTEGER, float: Kind.NUMBER}
    if hint in known:
        return known[hint], False, ()
    if hint is str:
        return Kind.WORD, False, ()
    raise TypeError(f"a field of type {hint} has no text or binary form yet")


def _fields(cls: Any) -> tuple[Field, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        Field(f.name, *_kind(hints[f.name]), f.default)
        for f in dataclasses.fields(cls)
        if f.name not in ("waits", "posts")
    )


def opcode(number: int, mnemonic: str, cls: Any, parts: Operands) -> Opcode:
    """Return the row of an instruction.

    Raises:
        TypeError: the operands do not fit the fields.

    """
    row = Opcode(number, mnemonic, cls, _fields(cls), parts)
    _check_operands(row)
    _check_rhythm(row)
    return row


def _check_operands(row: Opcode) -> None:
    """Hold the names of operands against the fields: each has one part, and is of its kind."""
    found, kinds = row.operands, {field.name: field.kind for field in row.fields}
    parts = [*found.all_read, *found.all_written, *found.scales]
    for name, kind in kinds.items():
        wanted = kind in (Kind.ACCESS, Kind.OPERAND)
        if parts.count(name) != wanted:
            raise TypeError(
                f"{row.mnemonic}: {name} stands {parts.count(name)} times in reads, per_lane, "
                f"beside, writes, results and scales of its row in OPCODES, needed {int(wanted)}"
            )
    needed: list[tuple[str, tuple[Kind, ...]]] = [
        (name, (Kind.ACCESS, Kind.OPERAND)) for name in parts
    ]
    always = found.beside + found.writes + found.results + found.scales
    needed += [(name, (Kind.ACCESS,)) for name in always]
    needed += [(found.accumulate, (Kind.FLAG,))] if found.accumulate else []
    needed += [(name, (Kind.INTEGER,)) for name in (found.window, found.block) if name]
    if found.moved is not None:
        needed += [(found.moved, (Kind.ACCESS,)), (OFFSET, (Kind.ACCESS,)), (MOST, (Kind.INTEGER,))]
    for name, allowed in needed:
        if kinds.get(name) not in allowed:
            raise TypeError(f"{row.mnemonic}: {name}, in its row in OPCODES, is no such field")


def _check_rhythm(row: Opcode) -> None:
    """Hold a rhythm against the instruction's class, and against how many operands it has."""
    found, rhythm = row.operands, row.operands.rhythm
    if (rhythm is not None) != issubclass(row.cls, OnEngine):
        raise TypeError(f"{row.mnemonic}: instructions of engines, and no others, have a rhythm")
    if rhythm is None:
        return
    if len(found.writes) != 1 or len(found.reads) not in _READS[rhythm]:
        raise TypeError(f"{row.mnemonic}: {rhythm.name} does not fit its operands")
    if (found.window is not None) != (rhythm is Rhythm.WINDOWED):
        raise TypeError(f"{row.mnemonic}: WINDOWED instructions, and no others, have a window")
    if len(found.beside) != (rhythm is Rhythm.BESIDE):
        raise TypeError(f"{row.mnemonic}: BESIDE instructions, and no others, have one beside")
    makes = (found.made is not None or found.is_whole) and rhythm is not Rhythm.BESIDE
    blocks = (found.block is not None) + (found.group is not None)
    if makes + blocks != (rhythm is Rhythm.BLOCKWISE):
        raise TypeError(f"{row.mnemonic}: BLOCKWISE instructions, and no others, have a block")


_READS = {
    Rhythm.ELEMENTWISE: (0, 1),
    Rhythm.PAIRED: (2,),
    Rhythm.WINDOWED: (1,),
    Rhythm.BLOCKWISE: (1,),
    Rhythm.BESIDE: (1,),
}
"""How many operands that are read element by element a rhythm has."""


def require_rows(table: str, found: Collection[Any], needed: Iterable[Any]) -> None:
    """Raise TypeError unless a table has a row for each of `needed`, and no other.

    Modules call it when they are imported, so that a new instruction, or a new rhythm, is not
    silently treated as some other one.
    """
    wanted = list(needed)
    for what, rows in (
        ("has no row for", [row for row in wanted if row not in found]),
        ("has a row for what does not exist:", [row for row in found if row not in wanted]),
    ):
        if rows:
            names = ", ".join(getattr(row, "__name__", str(row)) for row in rows)
            raise TypeError(f"{table} {what} {names}")


def _always(_: Any) -> bool:
    return True


def _is_masked(shuffle: Shuffle) -> bool:
    return UNCHANGED in shuffle.mask


def engine_instructions() -> list[type]:
    """Return the classes of the instructions of engines."""
    return [cls for cls in BY_CLASS if issubclass(cls, OnEngine)]


OPCODES = tuple(
    opcode(*row)
    for row in (
        (1, "load", LoadWeights, operands("weights")),
        (2, "matmul", MatMul, operands("moving", "result", accumulate="accumulate")),
        (3, "copy", Copy, operands("source", "target", Rhythm.ELEMENTWISE)),
        (4, "memset", Memset, operands("", "target", Rhythm.ELEMENTWISE)),
        (5, "dma", DmaCopy, operands("source", "target")),
        (6, "activate", Activate,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=("bias",))),
        (7, "pool", Pool, operands("source", "target", Rhythm.WINDOWED, window="window")),
        (8, "tensor_tensor", TensorTensor, operands("left right", "target", Rhythm.PAIRED)),
        (9, "tensor_scalar", TensorScalar,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=("scalar", "other"))),
        (10, "iota", Iota, operands("", "target", Rhythm.ELEMENTWISE)),
        (11, "select", Select, operands("value", "target", Rhythm.ELEMENTWISE)),
        (12, "activate_reduce", ActivateReduce,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=("bias",),
                     results=("reduced",))),
        (13, "tensor_scalar_reduce", TensorScalarReduce,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=("scalar",),
                     results=("reduced",))),
        (14, "scalar_tensor_tensor", ScalarTensorTensor,
            operands("source tensor", "target", Rhythm.PAIRED, per_lane=("scalar",))),
        (15, "transpose", Transpose,
            operands("source", "target", Rhythm.BLOCKWISE, block="side")),
        (16, "shuffle", Shuffle,
            operands("source", "target", Rhythm.ELEMENTWISE, keeps=_is_masked)),
        (17, "scan", Scan,
            operands("left right", "target", Rhythm.PAIRED, per_lane=("initial",),
                     is_running=True)),
        (18, "copy_predicated", CopyPredicated,
            operands("source predicate", "target", Rhythm.PAIRED, keeps=_always)),
        (19, "select_reduce", SelectReduce,
            operands("source predicate", "target", Rhythm.PAIRED, per_lane=("other",),
                     results=("reduced",))),
        (20, "range_select", RangeSelect,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=("bound", "end"),
                     results=("reduced",))),
        (21, "bn_stats", BnStats, operands("source", "target", Rhythm.BLOCKWISE, made=6)),
        (22, "bn_aggr", BnAggr, operands("source", "target", Rhythm.BLOCKWISE, made=2)),
        (23, "max8", Max8, operands("source", "target", Rhythm.BLOCKWISE, made=8)),
        (24, "partition_reduce", PartitionReduce,
            operands("source", "target", Rhythm.ELEMENTWISE, is_across=True)),
        (25, "dropout", Dropout,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=("probability",))),
        (26, "find_index8", FindIndex8,
            operands("source", "target", Rhythm.BESIDE, beside=("values",), few=8, made=8)),
        (27, "match_replace8", MatchReplace8,
            operands("source", "target", Rhythm.BESIDE, beside=("values",), results=("indices",),
                     few=8, is_running=True)),
        (28, "quantize_mx", QuantizeMx,
            operands("source", "target", Rhythm.BLOCKWISE, scales=("scales",),
                     group=GROUP_ELEMENTS)),
        (32, "copy_dynamic_src", CopyDynamicSrc,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=(OFFSET,), moved="source")),
        (33, "copy_dynamic_dst", CopyDynamicDst,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=(OFFSET,), moved="target",
                     keeps=_always)),
        (34, "local_gather", LocalGather,
            operands("source", "target", Rhythm.BESIDE, beside=("index",), few=None,
                     picked="source")),
        (35, "topk", TopK,
            operands("source", "target", Rhythm.BLOCKWISE, results=("indices",), few=None,
                     is_whole=True)),
        (40, "requantise", Requantise,
            operands("source", "target", Rhythm.ELEMENTWISE, per_lane=("bias", "scale"))),
        (41, "pass_through", PassThrough,
            operands("moving", "result", accumulate="accumulate")),
        (42, "load_tile", LoadTile, operands("weights")),
        (43, "matmul_tile", MatMulTile, operands("moving", "result", accumulate="accumulate")),
        (44, "load_double_row", LoadDoubleRow, operands("weights")),
        (45, "matmul_double_row", MatMulDoubleRow,
            operands("moving", "result", accumulate="accumulate")),
        (46, "dma_transpose", DmaTranspose, operands("source", "target")),
        (47, "load_mx", LoadMx, operands("weights", scales=("scales",))),
        (48, "matmul_mx", MatMulMx,
            operands("moving", "result", accumulate="accumulate", scales=("scales",))),
    )
)  # fmt: skip
CHIP_OPCODES = (
    opcode(49, "dma_move", DmaMove,
           operands("source", "target duplicate", accumulate="accumulate")),
    opcode(50, "command", Command, operands()),
)  # fmt: skip
"""What only programs of several cores have. The text form writes a copy as a plain copy, and each
command by its own word.
"""
require_rows(
    "hw.units.CAPABILITIES", CAPABILITIES, [r.mnemonic for r in OPCODES if r.operands.rhythm]
)
BARE = {"engine": "", "dma_queue": "q"}
"""Fields the text form writes without their name, and what it puts before their value."""
BY_NUMBER = {row.number: row for row in (*OPCODES, *CHIP_OPCODES)}
BY_MNEMONIC = {row.mnemonic: row for row in OPCODES}
BY_CLASS: dict[type, Opcode] = {row.cls: row for row in (*OPCODES, *CHIP_OPCODES)}
