"""Hypothesis strategies for modules: any values the formats must carry, legal or not."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from hypothesis import strategies as st

from systolic.isa import Access, Buffer, Instruction, Post, Program, Wait
from systolic.isa.formats.module import Binding, Module
from systolic.isa.opcodes import OPCODES, Field, Kind, Opcode

integers = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 200)
counts = st.integers(1, 1 << 40) | st.integers(1, 8)
names = st.text(max_size=12)
numbers = integers | st.floats(allow_nan=False)

accesses = st.builds(
    Access,
    buffer=st.sampled_from(Buffer),
    dtype=st.sampled_from(["f32", "bf16", "s8"]),
    partition=st.integers(-2, 200),
    partitions=st.integers(-2, 200),
    start=integers,
    pattern=st.lists(st.tuples(integers, integers), max_size=5).map(tuple),
)


def _value(field: Field) -> st.SearchStrategy[Any]:
    made = {
        Kind.ACCESS: accesses,
        Kind.FLAG: st.booleans(),
        Kind.INTEGER: integers,
        Kind.NUMBER: numbers,
        Kind.OPERAND: numbers | accesses,
        Kind.WORD: st.sampled_from(field.words) if field.words else names,
        Kind.LIST: st.lists(integers, max_size=4).map(tuple),
    }[field.kind]
    return st.none() | made if field.optional else made


def _instructions(opcode: Opcode) -> st.SearchStrategy[Instruction]:
    fields = {field.name: _value(field) for field in opcode.fields}
    return st.builds(
        opcode.cls,
        **fields,
        waits=st.lists(st.builds(Wait, integers, integers), max_size=3).map(tuple),
        posts=st.lists(
            st.builds(Post, integers, st.sampled_from(["done", "row", "partition"])), max_size=3
        ).map(tuple),
    )


programs = st.builds(
    Program,
    name=names,
    instructions=st.lists(st.one_of(*map(_instructions, OPCODES)), max_size=6).map(tuple),
    semaphores=st.lists(names, max_size=4).map(tuple),
)


@st.composite
def bindings(draw: st.DrawFn) -> Binding:
    """Return a binding of one part, or of the rows of its first axis."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    name = draw(names)
    access = dataclasses.replace(draw(accesses), partitions=1, pattern=((1, math.prod(shape)),))
    whole = Binding.whole(name, shape, access)
    if not shape or draw(st.booleans()):
        return whole
    row = dataclasses.replace(access, pattern=((2, math.prod(shape[1:])),))
    rest = whole.parts[0].box[1:]
    parts = tuple(
        dataclasses.replace(whole.parts[0], box=((r, r + 1), *rest), access=row)
        for r in range(shape[0])
    )
    return Binding(name, shape, parts)


unique = st.lists(bindings(), max_size=3, unique_by=lambda b: b.name).map(tuple)
modules = st.builds(Module, program=programs, inputs=unique, outputs=unique, chip=names)
