"""Instructions that write a word twice, or read a word that they have overwritten.

By the contract an instruction reads all its operands first. But engines and DMA queues
write while they still read. This module finds the instructions whose values would differ by that.
Where a number says as the instruction runs what is read or written, all of its range counts, and
any byte that is both is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.hw.spec import Chip
from systolic.isa.access import Access
from systolic.isa.effects import (
    Effects,
    block,
    moved_access,
    picked_access,
    reads_beside,
    reads_per_element,
    reads_per_lane,
    results_per_lane,
    rhythm,
    scales_touched,
    target_of,
    window,
)
from systolic.isa.engines import Pace, pace_of
from systolic.isa.footprint import Footprint, repeats
from systolic.isa.instruction import DmaTranspose, Instruction, LoadWeights, MatMul, OnEngine
from systolic.isa.lint.diagnostic import BufferBox, Diagnostic, named
from systolic.isa.opcodes import Rhythm, require_rows
from systolic.isa.program import Program

LARGEST = 1 << 20
"""Different accesses that overlap and have more bytes than this are reported without a check."""


PARTITION = 1 << 50
"""More bytes than a partition has."""


def self_overlaps(program: Program, chip: Chip, effects: Effects) -> list[Diagnostic]:
    """Return a finding for each instruction that writes a word twice or reads its own result."""
    found = []
    for index, (read, written) in enumerate(effects):
        if not written:
            continue
        instruction = program.instructions[index]
        if _is_apart(instruction, read, written):
            continue
        for region, what in _overlaps(instruction, (read, written), chip):
            message = f"{named(index, instruction)} {what} {region}"
            involved = ((index, type(instruction).__name__),)
            found.append(Diagnostic("self-overlap", "error", message, involved, region))
    return found


def _is_apart(instruction: Instruction, read: Sequence[Access], written: Sequence[Access]) -> bool:
    """Return whether all it writes is one access, once, to a buffer that it does not read."""
    if len(written) != 1 or repeats(written[0]):
        return False
    if isinstance(instruction, MatMul):
        return True
    buffer = written[0].buffer
    return buffer not in [each.buffer for each in read]


def _overlaps(
    instruction: Instruction, effects: tuple[Sequence[Access], Sequence[Access]], chip: Chip
) -> Iterator[tuple[BufferBox, str]]:
    moved, picked = moved_access(instruction), picked_access(instruction)
    is_anywhere = moved is not None or picked is not None
    sources, targets = effects
    for target in targets:
        at_once = moved[1] if moved and moved[2] == target else target  # of all that it may write
        if repeats(target) and _writes_twice(at_once):
            yield Footprint.of(target).region, "writes a word more than once in"
        if isinstance(instruction, LoadWeights | MatMul):
            continue
        behind = results_per_lane(instruction)
        if isinstance(instruction, OnEngine) and target in behind:  # written when all has been read
            yield from _met_by_result(instruction, target)
            continue
        if isinstance(instruction, OnEngine) and target in scales_touched(instruction):
            yield from _met_by_result(instruction, target)
        for source in sources:
            is_turned = isinstance(instruction, DmaTranspose)
            if source.buffer is not target.buffer or (source == target and not is_turned):
                continue
            read, written = Footprint.of(source), Footprint.of(target)
            if read.meets(written) and (
                is_turned or is_anywhere or _reads_late(instruction, source, target, chip)
            ):
                yield read.shared_box(written), "reads what it may have overwritten in"


def _met_by_result(instruction: OnEngine, result: Access) -> Iterator[tuple[BufferBox, str]]:
    """Yield the words of the target that a result per lane, or a scale, is written over."""
    target = target_of(instruction)
    mine, theirs = Footprint.of(result), Footprint.of(target)
    if result.buffer is target.buffer and mine.meets(theirs):
        yield mine.shared_box(theirs), "writes a word more than once in"


def _writes_twice(access: Access) -> bool:
    if access.elements > LARGEST:
        return True
    return len(np.unique(access.offsets())) < access.elements


def _reads_late(instruction: Instruction, source: Access, target: Access, chip: Chip) -> bool:
    """Return whether a byte is read after the cycle in which it was written."""
    if max(source.size_bytes, target.size_bytes) > LARGEST:
        return True
    read, read_when = _bytes(source)
    written, written_when = _bytes(target)
    if isinstance(instruction, OnEngine):  # a DMA queue reads and writes an element at once
        read_step, write_step = _steps(instruction, source, target, chip)
        read_when = read_step[read_when % source.elements]
        written_when = write_step[written_when % target.elements]
    # The last read of each byte is compared with its first write.
    order = np.argsort(read_when, kind="stable")
    last = dict(zip(read[order].tolist(), read_when[order].tolist(), strict=True))
    return any(
        last.get(byte, -1) > when
        for byte, when in zip(written.tolist(), written_when.tolist(), strict=True)
    )


"""The step of each element, int64; of results, that in which all they are made of is read."""


def _steps(
    instruction: OnEngine, source: Access, target: Access, chip: Chip
) -> tuple[Integers, Integers]:
    """Return the steps of an engine in which elements of an operand are read, and results written.

    An operand of one element for each lane is read before all others.
    """
    engine = chip.engine(instruction.engine)
    pace = pace_of(instruction, engine, chip)
    read, written = _STEPS[rhythm(instruction)](instruction, source, target, pace)
    written = written + engine.latency_cycles
    if source in reads_per_lane(instruction):
        read = np.full(source.elements, -1)
    return read, written


def _elementwise(
    _: OnEngine, source: Access, target: Access, pace: Pace
) -> tuple[Integers, Integers]:
    made = np.arange(target.elements)
    return _in_groups(np.arange(source.elements), pace), _in_groups(made, pace)


def _in_groups(elements: Integers, pace: Pace) -> Integers:
    """Return the step in which the group of each element is read: the last of those it takes."""
    cycles = (elements // pace.elements + 1) * pace.cycles.numerator
    return -(-cycles // pace.cycles.denominator) - 1


def _windowed(
    instruction: OnEngine, source: Access, target: Access, pace: Pace
) -> tuple[Integers, Integers]:
    last = np.arange(1, target.elements + 1) * window(instruction) - 1
    return _in_groups(np.arange(source.elements), pace), _in_groups(last, pace)


def _paired(
    instruction: OnEngine, source: Access, target: Access, pace: Pace
) -> tuple[Integers, Integers]:
    """Assume that the two operands are read one after the other, if a group has but one step.

    Then the most steps lie between a write and a later read, so every late read is found. Where a
    group has several steps, `left` is read in the last step or in the one before, and is taken to
    be read in the last.
    """
    slow = pace._replace(cycles=max(Fraction(2), pace.cycles))
    behind = int(pace.cycles > 1 or source == reads_per_element(instruction)[1])
    read = _in_groups(np.arange(source.elements), slow) - 1 + behind
    return read, _in_groups(np.arange(target.elements), slow)


def _blockwise(
    instruction: OnEngine, source: Access, target: Access, pace: Pace
) -> tuple[Integers, Integers]:
    """Take a block to be written at once: what follows its first group comes later still.

    A scale is written with the last element of its group.
    """
    read, made = block(instruction)
    if target in scales_touched(instruction):
        made = 1
    last = (np.arange(target.elements) // made + 1) * read - 1
    return _in_groups(np.arange(source.elements), pace), _in_groups(last, pace)


def _beside(
    instruction: OnEngine, source: Access, target: Access, pace: Pace
) -> tuple[Integers, Integers]:
    """Take what has few elements to be read in the steps of the operand's first groups.

    Where both need the same port, each of these groups takes a step more, and all that follows
    comes later by as much. But the few are complete a step before the last of these groups, so an
    element may be read a step later than it is here, seen from what is written.
    """
    (few,), (operand,) = reads_beside(instruction), reads_per_element(instruction)
    read, made = block(instruction)
    group = np.arange(target.elements) // pace.elements
    needed = (np.arange(target.elements) // made + 1) * read - 1
    whole = _in_groups(np.array([few.elements - 1]), pace)
    ready = np.maximum(_in_groups(needed, pace), whole) - group
    written = group + np.maximum.accumulate(ready)
    late = 0 if read == operand.elements else 1
    return _in_groups(np.arange(source.elements), pace) + late, written


_STEPS: dict[Rhythm, Callable[[OnEngine, Access, Access, Pace], tuple[Integers, Integers]]] = {
    Rhythm.ELEMENTWISE: _elementwise,
    Rhythm.PAIRED: _paired,
    Rhythm.WINDOWED: _windowed,
    Rhythm.BLOCKWISE: _blockwise,
    Rhythm.BESIDE: _beside,
}
require_rows("lint.self_overlap._STEPS", _STEPS, Rhythm)


def _bytes(access: Access) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return every byte of an access as one number, and the number of the byte's element."""
    size = access.element_bytes
    lanes = (access.partition + np.arange(access.partitions, dtype=np.int64)) * PARTITION
    places = access.offsets() * size
    found = lanes[:, None, None] + places[None, :, None] + np.arange(size)[None, None, :]
    numbers = np.arange(access.partitions * access.elements, dtype=np.int64)
    return found.reshape(-1), np.repeat(numbers, size)
