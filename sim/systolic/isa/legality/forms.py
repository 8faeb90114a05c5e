"""Forms of engines' instructions: all of them but the bytes at which accesses begin.

What the rules say of one instruction they say of all of its form, so a form is held against them
once. What they say of the bytes, they say of each access by itself (`accesses.check_access`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from systolic.hw.spec import Chip
from systolic.isa.access import Access
from systolic.isa.instruction import Instruction, OnEngine
from systolic.isa.legality.accesses import check_access
from systolic.isa.opcodes import BY_CLASS


class LegalForms:
    """The forms of one program that its chip can execute, as far as they were met."""

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._known = set[Hashable]()

    def hold(self, form: Hashable, instruction: Instruction) -> bool:
        """Return whether a form is known, and its instruction so legal too.

        Raises ProgramError if an access of it lies outside its buffer, or not aligned.
        """
        if form is None or form not in self._known:
            return False
        for field in BY_CLASS[type(instruction)].fields:
            value = getattr(instruction, field.name)
            if isinstance(value, Access):
                check_access(field.name, value, self._chip)
        return True

    def note(self, form: Hashable) -> None:
        """Note the form of an instruction that was found legal."""
        if form is not None:
            self._known.add(form)


def form_of(instruction: Instruction) -> Hashable:
    """Return the form of an engine's instruction; None for others, and where rules ask for bytes.

    They do where a number says, as it runs, what is read or written: all of that lies in one bank.
    """
    operands = BY_CLASS[type(instruction)].operands
    if not isinstance(instruction, OnEngine) or operands.moved or operands.picked:
        return None
    form: list[Any] = [type(instruction), instruction.engine]
    for field in BY_CLASS[type(instruction)].fields:
        value = getattr(instruction, field.name)
        if isinstance(value, Access):
            lanes = value.partition, value.partitions
            form += value.buffer, value.dtype, *lanes, value.pattern
        else:
            form += type(value), value  # 1 and 1.0 are equal, but not to the rules
    return tuple(form)
