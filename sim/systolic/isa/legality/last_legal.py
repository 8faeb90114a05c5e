"""The program that was found legal last, and on which chip: it need not be checked again.

The compiler checks what it has made, the program checker what it is given, and a machine what it is
to run. That is one program and one chip most of the time, and neither of the two can change. They
are told by identity, which costs nothing, and are not kept alive.
"""

from __future__ import annotations

from weakref import ref

from systolic.hw.spec import Chip
from systolic.isa.program import Program


class LastLegal:
    """Remembers one pair of a program and a chip."""

    def __init__(self) -> None:
        self._program: ref[Program] | None = None
        self._chip: ref[Chip] | None = None

    def note(self, program: Program, chip: Chip) -> None:
        """Remember that a program is legal on a chip, instead of what was noted before."""
        self._program, self._chip = ref(program), ref(chip)

    def holds(self, program: Program, chip: Chip) -> bool:
        """Return whether these very two were noted last."""
        if self._program is None or self._chip is None:
            return False
        return self._program() is program and self._chip() is chip
