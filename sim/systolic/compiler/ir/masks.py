"""A select without an instruction of its own: three operations on the bits of the elements.

Where the predicate p is 0 or 1, b ^ ((a ^ b) * p) has all bits of a or of b, so that a NaN or an
infinity of the operand that is not taken leaves no trace. Elements of four bytes are seen as s32,
all others as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from systolic.compiler.ir.lane_step import LaneStep, with_each
from systolic.hw.datatypes import SIZE_BYTES
from systolic.isa.access import MAX_PAIRS, Access

SelectAccesses = tuple[Access, ...]
"""Accesses to the same elements: what is taken where p is 0, p, what is taken elsewhere, target."""
BIT_TYPES = {4: "s32", 1: "u8"}
"""The type whose bits engines calculate with, by the bytes of an element."""


def mask_steps(
    operands: SelectAccesses,
) -> Iterator[tuple[LaneStep, dict[str, Access], tuple[int, ...]]]:
    """Yield the instructions of a select: steps, their fields, and the operands that are read.

    SelectAccesses are numbered as in `SelectAccesses`; all instructions write the last one.
    """
    for on_false, predicate, on_true, target in _named_by_four(_in_bits(operands)):
        first = {"left": on_true, "right": on_false, "target": target}
        yield with_each("xor"), first, (0, 2)
        second = {"left": target, "right": predicate, "target": target}
        yield with_each("multiply"), second, (1, 3)
        third = {"left": target, "right": on_false, "target": target}
        yield with_each("xor"), third, (0, 3)


def _in_bits(operands: SelectAccesses) -> SelectAccesses:
    """Return accesses to the same bytes as integers; an element of two bytes is two of them."""
    on_false, predicate, on_true, target = operands
    size = SIZE_BYTES[target.dtype]
    if size in BIT_TYPES:
        dtype = BIT_TYPES[size]
        whole = (replace(each, dtype=dtype) for each in (on_false, on_true, target))
        below, above, made = whole
        return below, predicate, above, made
    below, above, made = (
        replace(
            each,
            dtype=BIT_TYPES[1],
            pattern=(*((size * step, count) for step, count in each.pattern), (1, size)),
        )
        for each in (on_false, on_true, target)
    )
    again = replace(predicate, pattern=(*predicate.pattern, (0, size)))
    return below, again, above, made


def _named_by_four(operands: SelectAccesses) -> Iterator[SelectAccesses]:
    """Yield the accesses, or several to parts of them if they have too many pairs."""
    long = max(operands, key=lambda each: len(each.pattern))
    if len(long.pattern) <= MAX_PAIRS:
        yield operands
        return
    many = long.pattern[0][1]
    for number in range(many):
        yield from _named_by_four(tuple(_part(each, number, many) for each in operands))


def _part(access: Access, number: int, many: int) -> Access:
    """Return one of many equal parts of an access, in the order of its elements."""
    (step, count), *inner = access.pattern
    if count % many == 0:
        start = access.start + number * (count // many) * step * access.element_bytes
        return replace(access, start=start, pattern=((step, count // many), *inner))
    assert many % count == 0, "the pairs of operands go over the same elements"
    outer, within = divmod(number, many // count)
    moved = replace(
        access, start=access.start + outer * step * access.element_bytes, pattern=tuple(inner)
    )
    return _part(moved, within, many // count)
