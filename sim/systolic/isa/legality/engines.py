"""May an engine of the chip execute an instruction, with these operands?

The rules that single instructions have besides: `own_rules`.
"""

from __future__ import annotations

from typing import Any

from systolic.errors import ProgramError, perhaps, shortened
from systolic.hw.datatypes import COPIED_TYPES, DATA_TYPES
from systolic.hw.spec import Chip
from systolic.isa.access import Access, Buffer
from systolic.isa.effects import (
    calculation,
    capability,
    few_per_lane,
    moved_access,
    per_element_operands,
    picked_access,
    reads_per_element,
    rhythm,
    target_of,
    window,
    writes,
)
from systolic.isa.engines import (
    able_engines,
    calculates,
    functions_of,
    out_of_reach,
    too_many_results,
)
from systolic.isa.instruction import Copy, OnEngine
from systolic.isa.legality.accesses import check_access, check_one_bank, check_words, extent, need
from systolic.isa.legality.own_rules import OWN_RULES
from systolic.isa.opcodes import BY_CLASS, Field, Rhythm

INT32 = range(-(1 << 31), 1 << 31)


def check_on_engine(instruction: OnEngine, chip: Chip) -> None:
    """Raise ProgramError if its engine cannot execute the instruction."""
    _check_engine(instruction, chip)
    row = BY_CLASS[type(instruction)]
    for field in row.fields:
        value = getattr(instruction, field.name)
        if isinstance(value, Access):
            check_access(field.name, value, chip)
            if field.name not in row.operands.scales:
                _check_calculated(instruction, field.name, value)
            need(field.name, value, value.buffer is not Buffer.DRAM, "on chip")
            _check_port(field.name, value, chip)
        elif isinstance(value, int | float):
            _check_number(field.name, value)
    for access in writes(instruction):
        check_words("target", access)
    _check_reach(instruction, chip)
    for field in row.fields:
        _check_word(field, getattr(instruction, field.name))
    _check_shapes(instruction)
    if rule := OWN_RULES.get(type(instruction)):
        rule(instruction)
    if (moved := moved_access(instruction)) is not None:
        _check_moved(instruction, moved, chip)
    if (picked := picked_access(instruction)) is not None:
        check_one_bank("source: all that may be picked", picked, chip)
    _check_per_lane(instruction)


def _check_calculated(instruction: OnEngine, name: str, access: Access) -> None:
    """Refuse the types of MX, whose elements mean nothing without scales, and scales.

    A copy may take halves of words too.
    """
    if access.dtype in COPIED_TYPES and isinstance(instruction, Copy):
        return
    if access.dtype not in DATA_TYPES:
        raise ProgramError(
            f"{name}: engines calculate with {', '.join(DATA_TYPES)}, not with {access.dtype}"
        )


def _check_port(name: str, access: Access, chip: Chip) -> None:
    port = chip.port_width_bytes
    if access.buffer is Buffer.STATE and access.element_bytes > port:
        raise ProgramError(
            f"{name}: an element of {access.dtype} has {access.element_bytes} bytes, "
            f"more than state_buffer.port_bytes ({port})"
        )


def _check_engine(instruction: OnEngine, chip: Chip) -> None:
    """Check that the engine is one of the chip's engines that do the instruction."""
    found, word, engines = instruction.engine, capability(instruction), chip.lane_engines
    does = {name: engine for name, engine in engines.items() if word in engine.does}
    if found in does and calculates(instruction, does[found]):
        return
    able, what = able_engines(instruction, chip), calculation(instruction)
    if not does:
        done = "; ".join(f"{name} does {', '.join(e.does)}" for name, e in engines.items())
        raise ProgramError(f"engine: no engine of {chip.name} does {word} ({done})")
    if not able:
        done = "; ".join(
            f"{name} does {word} of {functions_of(e, word)}" for name, e in does.items()
        )
        raise ProgramError(f"engine: no engine of {chip.name} does {word} of {what} ({done})")
    why = perhaps(found, able)
    if found in does:
        why = f", which does {word} of {functions_of(does[found], word)}, not of {what}"
    elif found in engines:
        why = f", which does not do {word}"
    raise ProgramError(f"engine: needed {' or '.join(able)}, found {shortened(found)}{why}")


def _check_reach(instruction: OnEngine, chip: Chip) -> None:
    engine = chip.engine(instruction.engine)
    for name, verb, access in out_of_reach(instruction, engine):
        buffers = " or ".join(engine.reads if verb == "reads" else engine.writes) or "no buffer"
        raise ProgramError(f"{name}: {instruction.engine} {verb} {buffers}, found {access.buffer}")
    if too_many_results(instruction, engine):
        raise ProgramError(
            f"operands: of those of {instruction.engine} at most {engine.result_operands} may lie "
            f"in result_buffer, found {len(reads_per_element(instruction))}"
        )


def _check_number(name: str, value: float) -> None:
    if isinstance(value, int) and value not in INT32:
        raise ProgramError(f"{name}: a whole number has 32 bits here, found {value}")


def _check_per_lane(instruction: OnEngine) -> None:
    """Hold the operands of one element per lane, or of few, against the instruction's lanes."""
    target, behind = target_of(instruction), BY_CLASS[type(instruction)].operands.results
    for name, access, many in few_per_lane(instruction):
        if (access.partitions, access.elements) != (target.partitions, many):
            count = "one element" if many == 1 else f"{many} elements"
            raise ProgramError(
                f"{name}: needed {count} in each of {target.partitions} partitions, "
                f"found {access.partitions} x {access.elements}"
            )
        if name in behind and access.buffer is not target.buffer:
            raise ProgramError(
                f"{name}: must lie in the target's buffer, {target.buffer}, found {access.buffer}"
            )


def _check_word(field: Field, value: Any) -> None:
    if field.words and value is not None and value not in field.words:
        there_are = f"(there are: {', '.join(field.words)}){perhaps(value, field.words)}"
        raise ProgramError(f'{field.name}: there is no "{shortened(value)}" {there_are}')


def _check_shapes(instruction: OnEngine) -> None:
    """Hold operands against the target: how many elements of each, in every lane, make one."""
    target, many = target_of(instruction), window(instruction)
    if many < 1:
        raise ProgramError(f"window: needed at least 1 element, found {many}")
    operands = BY_CLASS[type(instruction)].operands
    if operands.made is not None:
        _check_made(instruction, operands.made)
        return
    if operands.is_across:
        _check_across(instruction)
        return
    if operands.picked is not None or operands.is_whole:
        return  # its own rules say how many elements it has
    for name, access in per_element_operands(instruction):
        if (access.partitions, access.elements) != (target.partitions, target.elements * many):
            each = "" if rhythm(instruction) is not Rhythm.WINDOWED else f" of {many} each"
            raise ProgramError(
                f"{name} has {access.partitions} x {access.elements} elements, "
                f"target {target.partitions} x {target.elements}{each}"
            )


def _check_made(instruction: OnEngine, made: int) -> None:
    """Hold a target whose number of elements does not depend on the operand against that number."""
    ((name, access),), target = per_element_operands(instruction), target_of(instruction)
    if (target.partitions, target.elements) != (access.partitions, made):
        raise ProgramError(
            f"target: needed {access.partitions} x {made} elements for {access.partitions} "
            f"partitions of {name}, found {target.partitions} x {target.elements}"
        )


def _check_across(instruction: OnEngine) -> None:
    """Hold the one partition of a target against the elements of the operand."""
    ((name, access),), target = per_element_operands(instruction), target_of(instruction)
    if (target.partitions, target.elements) != (1, access.elements):
        raise ProgramError(
            f"target: needed 1 x {access.elements} elements, one for all partitions of {name}, "
            f"found {target.partitions} x {target.elements}"
        )


def _check_moved(instruction: Any, moved: tuple[str, Access, Access], chip: Chip) -> None:
    """Hold an offset, and all places to which it may move an access, against one bank."""
    offset, most = instruction.offset, instruction.most
    if offset.dtype != "s32" or (offset.partitions, offset.elements) != (1, 1):
        raise ProgramError(
            f"offset: needed one s32 in one partition, found {offset.partitions} x "
            f"{offset.elements} {offset.dtype}"
        )
    need("offset", offset, offset.buffer is Buffer.STATE, "in the state buffer")
    if most < 0:
        raise ProgramError(f"most: needed 0 or more elements, found {most}")
    name, access, reach = moved
    _, size = extent(access.buffer, chip)
    if reach.span.stop > size:
        raise ProgramError(
            f"{name}: {most} elements further (most) it ends at byte {reach.span.stop - 1} of "
            f"{access.buffer}, which has {size}"
        )
    check_one_bank(f"{name}: all places that the offset may give it", reach, chip)
