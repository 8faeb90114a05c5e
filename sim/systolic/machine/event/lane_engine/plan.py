"""Twin of `register.lane_engine.plan`: the slots of an instruction's reads and writes, in advance.

Slots count the cycles in which it is not held back, from its first read on: a closed form, or a
table with one entry per element where the slots are not regular. No ticks, no other clients.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip, Engine
from systolic.hw.units import EngineName
from systolic.isa import Access, Buffer, LocalGather, Memset, OnEngine
from systolic.isa.effects import (
    block,
    lanes,
    reads_beside,
    reads_per_element,
    reads_per_lane,
    results_per_lane,
    rhythm,
    scales_of,
    scales_touched,
    target_of,
    window,
)
from systolic.isa.opcodes import BY_CLASS, MOST, Rhythm, require_rows
from systolic.isa.scales import GROUP_ELEMENTS
from systolic.machine.event.lane_engine.pace import ONE_SLOT, SlotPace, pace_of
from systolic.machine.event.ports.ports import (
    Needs,
    Stretch,
    Timeline,
    beside,
    exclusive_needs,
    group_stretches,
    in_bank,
    merge,
    merged,
    with_scales,
)
from systolic.spans import Interval

Slots = npt.NDArray[np.int64]
BankNumbers = tuple[tuple[str, int], ...]
"""Buffers and the numbers of their banks."""


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """The elements of an access, element i in slot table[i], or shift + i // group without one."""

    access: Access
    direction: Literal["read", "write"]
    shift: int = 0
    group: int = 1
    table: Slots | None = None

    def slots(self) -> Slots:
        """Return the slot of every element, int64, never descending."""
        if self.table is not None:
            return self.table
        return self.shift + np.arange(self.access.elements, dtype=np.int64) // self.group

    @property
    def first(self) -> int:
        """Return the slot of the first element."""
        return self.shift if self.table is None else int(self.table[0])

    @property
    def last(self) -> int:
        """Return the slot of the last element."""
        if self.table is not None:
            return int(self.table[-1])
        return self.shift + (self.access.elements - 1) // self.group

    def timeline(self, chip: Chip, slots: int) -> Timeline:
        """Return the ports needed in each of the slots."""
        return Timeline(self.stretches(chip), slots)

    def stretches(self, chip: Chip) -> list[Stretch]:
        """Return the ports needed, slot by slot."""
        access, bank = self.access, bank_bytes(self.access, chip)
        if self.table is None:
            return group_stretches(access, self.group, bank, self.direction, self.shift)
        by_element = group_stretches(access, 1, bank, self.direction)
        return _spread(by_element, self.table)


@dataclass(frozen=True, slots=True, eq=False)
class LanePlan:
    """When an instruction moves what it moves, and through which ports.

    lanes: that it holds. steps: slots up to its last read; first_write: a slot.
    """

    lanes: Interval
    timeline: Timeline
    steps: int
    first_write: int
    fixed_cycles: int
    interval_cycles: int

    def in_banks(self, old: BankNumbers, new: BankNumbers) -> LanePlan:
        """Return the plan of an instruction of the same form that has other banks."""
        other = {bank: number for bank, (_, number) in zip(old, new, strict=True)}
        return replace(self, timeline=self.timeline.in_banks(other))


def plan_of(instruction: OnEngine, spec: Engine, chip: Chip) -> LanePlan:
    """Return when the instruction moves what it moves."""
    pace = pace_of(instruction, spec, chip)
    moves = _element_moves(instruction, pace, spec, chip)
    steps, write = _steps(moves, spec.latency_cycles), moves[-1]
    moves += _results(instruction, write)
    timeline = _timeline(moves, chip, instruction.engine, _scales(instruction, write, chip))
    return LanePlan(
        lanes(instruction), timeline, steps, write.first, pace.fixed_cycles, pace.interval_cycles
    )


def moves_of(instruction: OnEngine, spec: Engine, chip: Chip) -> list[Moves]:
    """Return what the instruction moves, in the order of the parts of `isa.opcodes.Operands`."""
    moves = _element_moves(instruction, pace_of(instruction, spec, chip), spec, chip)
    write, parts = moves[-1], scales_touched(instruction)
    with_groups = [Moves(part, "write", table=_with_groups(write)) for part in parts]
    return [*moves, *with_groups, *_results(instruction, write)]


def likeness(instruction: OnEngine, chip: Chip) -> Hashable:
    """Return all of an instruction on which its plan depends on an engine of the chip.

    Programs have few kinds of instructions that are alike.
    """
    state, result = chip.state_buffer.bank_bytes, chip.result_buffer.bank_bytes
    key: list[Any] = [type(instruction)]
    for name, counts in _what_counts(type(instruction)):
        value = getattr(instruction, name)
        if isinstance(value, Access):
            key.append(in_bank(value, state if value.buffer is Buffer.STATE else result))
        else:
            key.append(value if counts else None)
    return tuple(key)


class LaneForm(NamedTuple):
    """What instructions have in common whose plans differ in the banks alone.

    what: as `likeness`, with the places of banks in `banks` instead of them. banks: (buffer, bank)
    in the order in which the operands name them.
    """

    what: Hashable
    banks: BankNumbers


def form_of(instruction: OnEngine, chip: Chip) -> LaneForm | None:
    """Return the form of an instruction; None if an access of it reaches into several banks."""
    key: list[Any] = [type(instruction)]
    banks = dict[tuple[str, int], int]()
    for name, counts in _what_counts(type(instruction)):
        value = getattr(instruction, name)
        if isinstance(value, Access):
            bank = value.bank(bank_bytes(value, chip))
            if bank is None:
                return None
            place = banks.setdefault((value.buffer.value, bank), len(banks))
            width = value.partition, value.partitions
            key.append((value.buffer, place, width, value.dtype, value.pattern))
        else:
            key.append(value if counts else None)
    return LaneForm(tuple(key), tuple(banks))


def _what_counts(kind: type[OnEngine]) -> tuple[tuple[str, bool], ...]:
    """Return what instructions of a kind may have, and whether it counts if it is no access."""
    if kind in _KNOWN:
        return _KNOWN[kind]
    row = BY_CLASS[kind]
    numbers = {row.operands.window, row.operands.block}
    if row.operands.moved is not None:
        numbers.add(MOST)
    numbers.add({Memset: "value", LocalGather: "each"}.get(kind))  # on which the rate depends
    found = tuple((f.name, bool(f.words) or f.name in numbers) for f in row.fields)
    return _KNOWN.setdefault(kind, found)


_KNOWN: dict[type[OnEngine], tuple[tuple[str, bool], ...]] = {}
"""What counts of the kinds of instructions that have been asked for."""


def bank_bytes(access: Access, chip: Chip) -> int:
    """Return the bytes of a bank of the buffer in which an access lies."""
    in_state = access.buffer is Buffer.STATE
    return chip.state_buffer.bank_bytes if in_state else chip.result_buffer.bank_bytes


def _element_moves(instruction: OnEngine, pace: SlotPace, spec: Engine, chip: Chip) -> list[Moves]:
    """Return what is read, once per lane and by element, and what is written by element."""
    per_lane = reads_per_lane(instruction)
    moves = [Moves(access, "read", slot) for slot, access in enumerate(per_lane)]
    return moves + _MOVES[rhythm(instruction)](instruction, pace, spec.latency_cycles, chip)


def _results(instruction: OnEngine, before: Moves) -> list[Moves]:
    """Return what is written once per lane, behind the elements of the target."""
    found, last = list[Moves](), before.last
    for access in results_per_lane(instruction):
        found.append(Moves(access, "write", last + 1))
        last = found[-1].last
    return found


def _scales(instruction: OnEngine, write: Moves, chip: Chip) -> list[Stretch]:
    """Return the ports that the scales of the target need, each in the slot of its group."""
    scales = scales_of(instruction)
    if scales is None:
        return []
    return Moves(scales, "write", table=_with_groups(write)).stretches(chip)


def _with_groups(write: Moves) -> Slots:
    """Return the slots in which the last elements of groups that share a scale are written."""
    return write.slots()[GROUP_ELEMENTS - 1 :: GROUP_ELEMENTS]


def _steps(moves: list[Moves], latency: int) -> int:
    """Return the slots up to the last read; of what reads nothing, those that make its results."""
    *reads, write = moves
    return max((move.last for move in reads), default=write.last - latency) + 1


def _timeline(
    moves: list[Moves], chip: Chip, engine: EngineName, scales: list[Stretch]
) -> Timeline:
    """Return the ports that all of them need, the first ones' ports first.

    Scales go with what is written last, through its ports where these are theirs.
    """
    alone = {b: exclusive_needs(chip, engine, b) for b in (Buffer.STATE, Buffer.RESULT)}
    slots = max(move.last for move in moves) + 1
    *before, last = (beside(move.stretches(chip), alone[move.access.buffer]) for move in moves)
    needed: list[Stretch] = []
    for stretches in before:
        needed = merged(needed, stretches, slots) if needed else stretches
    return merge(needed, with_scales(last, scales, slots) if scales else last, slots)


def _elementwise(instruction: OnEngine, pace: SlotPace, latency: int, _: Chip) -> list[Moves]:
    """Return one group after another, of one operand or none, behind the operands per lane."""
    lead = len(reads_per_lane(instruction))
    target = target_of(instruction)
    moves = [_in_groups(a, "read", lead, pace) for a in reads_per_element(instruction)]
    return [*moves, _in_groups(target, "write", lead + latency, pace)]


def _in_groups(
    access: Access, direction: Literal["read", "write"], shift: int, pace: SlotPace
) -> Moves:
    """Return groups that each move in the last of the slots they take, from slot `shift` on."""
    if pace.slots is ONE_SLOT:
        return Moves(access, direction, shift, pace.group)
    elements = np.arange(access.elements, dtype=np.int64)
    return Moves(access, direction, table=shift + _last_slots(elements, pace))


def _last_slots(elements: Slots, pace: SlotPace) -> Slots:
    """Return the last of the slots that the group of each element takes, counted from 0."""
    slots = (elements // pace.group + 1) * pace.slots.numerator
    return -(-slots // pace.slots.denominator) - 1


def _windowed(instruction: OnEngine, pace: SlotPace, latency: int, _: Chip) -> list[Moves]:
    """Return results behind the slots in which their last element is read."""
    lead = len(reads_per_lane(instruction))
    (source,), target = reads_per_element(instruction), target_of(instruction)
    stop = np.arange(1, target.elements + 1, dtype=np.int64) * window(instruction)
    behind = lead + _last_slots(stop - 1, pace) + latency
    return [_in_groups(source, "read", lead, pace), Moves(target, "write", table=behind)]


def _blockwise(instruction: OnEngine, pace: SlotPace, latency: int, _: Chip) -> list[Moves]:
    """Return blocks of results, a group in a slot, from the slot on in which the block was read.

    A block follows the one before in the next slot at the earliest.
    """
    lead = len(reads_per_lane(instruction))
    (source,), target = reads_per_element(instruction), target_of(instruction)
    read, made = block(instruction)
    number = np.arange(target.elements // made, dtype=np.int64)
    before = number * -(-made // pace.group)
    begin = before + np.maximum.accumulate(_last_slots((number + 1) * read - 1, pace) - before)
    element = np.arange(target.elements, dtype=np.int64)
    behind = lead + begin[element // made] + element % made // pace.group + latency
    return [_in_groups(source, "read", lead, pace), Moves(target, "write", table=behind)]


def _paired(instruction: OnEngine, pace: SlotPace, latency: int, chip: Chip) -> list[Moves]:
    """Return both operands of a group in one slot, or in two where they need the same port.

    A group takes at least the slots of its pace, and is read in the last of them.
    """
    lead = len(reads_per_lane(instruction))
    left, right = (Moves(a, "read", lead, pace.group) for a in reads_per_element(instruction))
    reading = _slots_per_group(left, right, chip)
    if (reading == 1).all():
        return _elementwise(instruction, pace, latency, chip)
    target = target_of(instruction)
    own = np.diff(_last_slots(np.arange(len(reading)) * pace.group, pace), prepend=-1)
    group = np.arange(target.elements, dtype=np.int64) // pace.group
    last = lead + (np.cumsum(np.maximum(reading, own)) - 1)[group]
    return [
        Moves(left.access, "read", table=last - reading[group] + 1),
        Moves(right.access, "read", table=last),
        Moves(target, "write", table=last + latency),
    ]


def _beside_few(instruction: OnEngine, pace: SlotPace, latency: int, chip: Chip) -> list[Moves]:
    """Return groups of few elements beside the first of the others, in one slot or one before.

    A group of the target comes no sooner than what it is made of, and than all of the few.
    """
    lead = len(reads_per_lane(instruction))
    (few,), (source,) = reads_beside(instruction), reads_per_element(instruction)
    reading = _slots_per_group(
        Moves(few, "read", lead, pace.group), Moves(source, "read", lead, pace.group), chip
    )
    own = np.diff(_last_slots(np.arange(len(reading)) * pace.group, pace), prepend=-1)
    last = lead + np.cumsum(np.maximum(reading, own)) - 1
    first = last - reading + 1
    group_of_few = np.arange(few.elements, dtype=np.int64) // pace.group
    group_of_source = np.arange(source.elements, dtype=np.int64) // pace.group
    target, (read, made) = target_of(instruction), block(instruction)
    element = np.arange(target.elements, dtype=np.int64)
    needed = (element // made + 1) * read - 1
    ready = np.maximum(last[needed // pace.group], first[group_of_few[-1]])
    group = element // pace.group
    written = group + np.maximum.accumulate(ready - group) + latency
    return [
        Moves(few, "read", table=first[group_of_few]),
        Moves(source, "read", table=last[group_of_source]),
        Moves(target, "write", table=written),
    ]


_MOVES: dict[Rhythm, Callable[[OnEngine, SlotPace, int, Chip], list[Moves]]] = {
    Rhythm.ELEMENTWISE: _elementwise,
    Rhythm.PAIRED: _paired,
    Rhythm.WINDOWED: _windowed,
    Rhythm.BLOCKWISE: _blockwise,
    Rhythm.BESIDE: _beside_few,
}
require_rows("event.lane_engine.plan._MOVES", _MOVES, Rhythm)


def _slots_per_group(left: Moves, right: Moves, chip: Chip) -> Slots:
    """Return in how many slots each group is read; the operands begin in the same slot.

    There are as many groups as the operand with more of them has.
    """
    left, right = replace(left, shift=0), replace(right, shift=0)
    groups = max(left.last, right.last) + 1
    cost = np.ones(groups, np.int64)
    one, other = left.access, right.access
    banks = one.bank(bank_bytes(one, chip)), other.bank(bank_bytes(other, chip))
    if one.buffer is not other.buffer or (None not in banks and banks[0] != banks[1]):
        return cost
    mine, theirs = left.timeline(chip, groups), right.timeline(chip, groups)
    if not mine.mask & theirs.mask:
        return cost
    group = 0
    while group < groups:
        (ours, until), (others, stop) = mine.at(group), theirs.at(group)
        until = min(until, stop)
        if _meet(ours, others):
            cost[group:until] = 2
        group = until
    return cost


def _meet(left: Needs, right: Needs) -> bool:
    """Return whether two accesses want a port for the same lane."""
    return any(
        a.port == b.port and a.first < b.stop and b.first < a.stop for a in left for b in right
    )


def _spread(by_element: Iterable[Stretch], table: Slots) -> list[Stretch]:
    """Return the stretches of elements as stretches of slots; a slot needs what its elements do."""
    found: list[Stretch] = []
    for stretch in by_element:
        slots = _different(table[stretch.first : stretch.stop])
        if found and found[-1].stop > slots[0]:
            last = found.pop()
            if last.first < last.stop - 1:
                found.append(Stretch(last.first, last.stop - 1, last.needs))
            both = tuple(sorted({*last.needs, *stretch.needs}))
            found.append(Stretch(last.stop - 1, last.stop, both))
            slots = slots[1:]
        if len(slots):
            edges = [0, *(np.flatnonzero(np.diff(slots) > 1) + 1).tolist(), len(slots)]
            runs = ((int(slots[a]), int(slots[b - 1]) + 1) for a, b in pairwise(edges))
            found += [Stretch(first, stop, stretch.needs) for first, stop in runs]
    return found


def _different(slots: Slots) -> Slots:
    """Return the different ones of slots that never descend."""
    is_new = np.ones(len(slots), bool)
    np.not_equal(slots[1:], slots[:-1], out=is_new[1:])
    return slots[is_new]
