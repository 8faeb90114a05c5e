"""The table of operations that both program formats are driven by: one row per instruction.

The fields of an instruction and their types come from its dataclass; a new instruction is one row
in `OPCODES`. Numbers are part of the binary format: they are never reused, and a change to the
fields of an instruction needs a new number. Nothing is printed, parsed or encoded here.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Literal

from systolic.isa.access import Access
from systolic.isa.instruction import (
    Activate,
    Copy,
    DmaCopy,
    Iota,
    LoadWeights,
    MatMul,
    Memset,
    Pool,
    Select,
    TensorScalar,
    TensorTensor,
)


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


@dataclass(frozen=True, slots=True)
class Opcode:
    """A row: number (binary), mnemonic (text), class, and the fields besides waits and posts."""

    number: int
    mnemonic: str
    cls: Any
    fields: tuple[Field, ...]


def _kind(hint: Any) -> tuple[Kind, bool, tuple[str, ...]]:
    """Return (kind, optional, words) of a type annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        rest = tuple(a for a in arguments if a is not type(None))
        if Access in rest and set(rest) <= {Access, int, float}:
            return Kind.OPERAND, len(rest) < len(arguments), ()
        if set(rest) == {int, float}:
            return Kind.NUMBER, len(rest) < len(arguments), ()
        if len(rest) == 1:
            kind, _, words = _kind(rest[0])
            return kind, True, words
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


def _table(rows: Iterable[tuple[int, str, Any]]) -> tuple[Opcode, ...]:
    return tuple(Opcode(number, mnemonic, cls, _fields(cls)) for number, mnemonic, cls in rows)


OPCODES = _table(
    (
        (1, "load", LoadWeights),
        (2, "matmul", MatMul),
        (3, "copy", Copy),
        (4, "memset", Memset),
        (5, "dma", DmaCopy),
        (6, "activate", Activate),
        (7, "pool", Pool),
        (8, "tensor_tensor", TensorTensor),
        (9, "tensor_scalar", TensorScalar),
        (10, "iota", Iota),
        (11, "select", Select),
    )
)
BARE = {"engine": "", "dma_queue": "q"}
"""Fields the text form writes without their name, and what it puts before their value."""
BY_NUMBER = {opcode.number: opcode for opcode in OPCODES}
BY_MNEMONIC = {opcode.mnemonic: opcode for opcode in OPCODES}
BY_CLASS: dict[type, Opcode] = {opcode.cls: opcode for opcode in OPCODES}
