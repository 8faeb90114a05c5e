"""The programs of a chip of several cores as they run: each once for every time it is started.

Without processors each core has one program, from cycle 0 on. With them a core's program runs for
each `start` that names it. A launch has instructions and semaphores of its own, numbered through
over the chip: core by core, in the order of processors and of their commands, then the processors.
"""

from __future__ import annotations

from dataclasses import dataclass

from systolic.hw.spec import MultiCoreChip
from systolic.hw.spec.places import ChipPlace, place_of
from systolic.isa.formats.chip_module import ChipModule, Section
from systolic.isa.instruction import Command
from systolic.isa.program import Program


@dataclass(frozen=True, slots=True)
class Launch:
    """A program that a core or a processor runs.

    by: the processor and the number of its command that starts it; None: it runs from cycle 0 on.
    first_instruction, first_semaphore: what comes before on the chip.
    """

    section: Section
    by: tuple[ChipPlace, int] | None
    first_instruction: int
    first_semaphore: int

    @property
    def at(self) -> str:
        """Return the name of its core or processor."""
        return self.section.at

    @property
    def program(self) -> Program:
        """Return what runs."""
        return self.section.module.program


def launches(module: ChipModule, chip: MultiCoreChip) -> tuple[Launch, ...]:
    """Return the launches of a program that is legal on the chip."""
    found: list[tuple[Section, tuple[ChipPlace, int] | None]] = [
        (section, None)
        for section in module.sections
        if section.place.kind == "processor" or not chip.processors
    ]
    if chip.processors:
        found += _starts(module)
    found.sort(key=lambda each: (each[0].place, each[1] or ()))
    numbered: list[Launch] = []
    instructions = semaphores = 0
    for section, by in found:
        numbered.append(Launch(section, by, instructions, semaphores))
        instructions += len(section.module.program.instructions)
        semaphores += len(section.module.program.semaphores)
    return tuple(numbered)


def _starts(module: ChipModule) -> list[tuple[Section, tuple[ChipPlace, int] | None]]:
    """Return the sections that processors start, each with its command."""
    found: list[tuple[Section, tuple[ChipPlace, int] | None]] = []
    for section in module.sections:
        for number, command in enumerate(section.module.program.instructions):
            if isinstance(command, Command) and command.word == "start":
                started = started_section(module, command)
                if started is not None:
                    found.append((started, (section.place, number)))
    return found


def started_section(module: ChipModule, command: Command) -> Section | None:
    """Return the program that a `start` names: of that name, or the core's only one."""
    place = place_of(command.at)
    of_core = [section for section in module.sections if section.place == place]
    if command.program:
        return next((section for section in of_core if section.name == command.program), None)
    return of_core[0] if len(of_core) == 1 else None
