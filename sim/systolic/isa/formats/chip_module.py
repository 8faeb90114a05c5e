"""A program of several cores: a section for each core and processor that has something to do.

A section is a `Module`: instructions, semaphores, and named arrays that lie in that core's buffers
or in DRAM. The sections of a core are the programs that processors may start there. No values here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from systolic.errors import ProgramError, printable
from systolic.hw.spec.places import ChipPlace, place_of
from systolic.isa.formats.module import Binding, Module, check_bindings


@dataclass(frozen=True, slots=True)
class Section:
    """What one core or processor does: `at` is its place, ``core1`` or ``processor0``."""

    at: str
    module: Module

    @property
    def place(self) -> ChipPlace:
        """Return its place."""
        found = place_of(self.at)
        assert found is not None, self.at
        return found

    @property
    def name(self) -> str:
        """Return the name of its program; its place's name if it was given none."""
        return self.module.program.name


@dataclass(frozen=True, slots=True)
class ChipModule:
    """A program of several cores; `chip` names the chip it was written for ("": any)."""

    name: str
    sections: tuple[Section, ...]
    chip: str = ""

    @property
    def inputs(self) -> tuple[Binding, ...]:
        """Return the inputs of all sections."""
        return tuple(each for section in self.sections for each in section.module.inputs)

    @property
    def outputs(self) -> tuple[Binding, ...]:
        """Return the outputs of all sections."""
        return tuple(each for section in self.sections for each in section.module.outputs)

    @property
    def cores_needed(self) -> int:
        """Return how many cores a chip must have for it."""
        return _needed(self, "core")

    @property
    def processors_needed(self) -> int:
        """Return how many processors a chip must have for it."""
        return _needed(self, "processor")


AnyModule = Module | ChipModule


def _needed(module: ChipModule, kind: str) -> int:
    numbers = [s.place.number for s in module.sections if s.place.kind == kind]
    return max(numbers, default=-1) + 1


def check_chip_bindings(module: ChipModule) -> None:
    """Raise ProgramError if names of arrays or of programs repeat, or a part's size is wrong."""
    for kind, bindings in (("input", module.inputs), ("output", module.outputs)):
        for name, count in Counter(binding.name for binding in bindings).items():
            if count > 1:
                raise ProgramError(f'{kind} "{name}" is bound twice')
    for (at, name), count in Counter((s.at, s.name) for s in module.sections).items():
        if count > 1:
            raise ProgramError(
                f'{at} has {count} programs called "{printable(name)}": each needs a name of its '
                'own, a line such as program "stem" behind the line of its section'
            )
    for section in module.sections:
        check_bindings(section.module)
