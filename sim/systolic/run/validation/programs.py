"""The work of a row: its chip, and its program lines as often as they are wanted, or its file.

Not here: what is read of a run (`systolic.run.validation.measures`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from systolic.config import Override, load_run
from systolic.config.chip_file import find_chip, load_one_core
from systolic.errors import ConfigError, ProgramError
from systolic.hw.spec import Chip
from systolic.isa import Instruction, Module, Program, Wait, check_program, parse_text
from systolic.isa.effects import times
from systolic.run.chip_program import any_program_result
from systolic.run.execute import run
from systolic.run.program import program_chip, program_result, read_program
from systolic.run.result import Result
from systolic.run.settings import Settings
from systolic.run.system import SystemResult, is_system_file, load_system, run_system
from systolic.run.validation.table import ValidationRow

HEAD = "systolic program 1"
TIMES_ONLY = Settings(values=False, check=False)
"""The lines of a chain read and write the same bytes over and over, which the checker refuses."""
NAME = "{n}"
"""What stands in a program for the number that the measure `largest` looks for."""


def chip_of(row: ValidationRow) -> Chip:
    """Return the chip of a row of program lines or of no run; ConfigError if it names none."""
    if not row.chip:
        raise ConfigError(f"{row.where}: chip: needs a name or a file")
    overrides = [of_chip for each in _overrides(row) if (of_chip := each.below("chip"))]
    if len(overrides) < len(row.overrides):
        raise ConfigError(f'{row.where}: set: without a run file only "chip." can be set')
    return load_one_core(find_chip(row.chip, row.folder, row.where), overrides)


def _overrides(row: ValidationRow) -> list[Override]:
    return [Override.parse(text, f"{row.where}: set") for text in row.overrides]


def result_of_file(row: ValidationRow) -> Result:
    """Return the result of the run file or program that a row names, run for its times."""
    path = row.folder / row.run
    overrides = _overrides(row)
    if path.suffix.lower() == ".toml":
        if row.chip:
            text = f"chip={json.dumps(row.chip)}"
            overrides.append(Override(("chip",), row.chip, row.where, row.folder, text))
        return run(load_run(path, overrides), values=False)
    return _result_of_program(row, path, overrides)


def system_of_file(row: ValidationRow) -> SystemResult | None:
    """Return the result of the system file that a row names; None if it names none."""
    path = row.folder / row.run
    if not row.run or not is_system_file(path):
        return None
    if row.chip:
        raise ConfigError(f"{row.where}: chip: means nothing to a system file")
    return run_system(load_system(path, _overrides(row)))


def _result_of_program(row: ValidationRow, path: Path, overrides: list[Override]) -> Result:
    module, _ = read_program(path)
    chip = find_chip(row.chip, row.folder, row.where) if row.chip else None
    return any_program_result(module, program_chip(module, path, chip, overrides), None, TIMES_ONLY)


def result_of_lines(row: ValidationRow, chip: Chip, repeat: int) -> Result:
    """Return the result of a row's lines, `repeat` times one after the other, run for its times."""
    return program_result(Module(repeated(row, repeat, chip)), chip, None, TIMES_ONLY)


def repeated(row: ValidationRow, repeat: int, chip: Chip) -> Program:
    """Return the lines before, once, and then the lines of the program, `repeat` times.

    A wait of the k-th repetition is for the posts of the repetitions before it as well.
    """
    first, lines = _lines(row.before, row), _lines(row.program, row)
    posted = posts_of(lines, chip)
    found = [*first]
    for number in range(repeat):
        found += [_later(each, posted, number) for each in lines]
    return Program(row.id, tuple(found), tuple(_names(found)))


def posts_of(lines: tuple[Instruction, ...], chip: Chip) -> Counter[int]:
    """Return how often each semaphore is posted by some instructions on a chip."""
    found = Counter[int]()
    for each in lines:
        for post in each.posts:
            found[post.semaphore] += times(each, post, chip)
    return found


def _later(instruction: Instruction, posted: Counter[int], number: int) -> Instruction:
    waits = tuple(
        Wait(wait.semaphore, wait.value + number * posted[wait.semaphore])
        for wait in instruction.waits
    )
    return replace(instruction, waits=waits) if waits else instruction


def _lines(text: str, row: ValidationRow) -> tuple[Instruction, ...]:
    """Return the instructions of a cell, which a line's end or a semicolon parts."""
    lines = "\n".join(text.replace(";", "\n").split("\n"))
    module = parse_text(f"{HEAD}\n{lines}", row.where)
    assert isinstance(module, Module), "HEAD is of a program of one core"
    return module.program.instructions


def _names(instructions: list[Instruction]) -> Iterator[str]:
    """Yield a name for each semaphore up to the last that is used."""
    used = [each.semaphore for one in instructions for each in one.waits]
    used += [each.semaphore for one in instructions for each in one.posts]
    yield from (f"s{number}" for number in range(max(used, default=-1) + 1))


def is_legal(row: ValidationRow, chip: Chip, number: int | None = None) -> bool:
    """Return whether the chip can execute the lines, with a number in place of ``{n}``."""
    filled = row if number is None else _filled(row, number)
    program = repeated(filled, filled.repeat, chip)
    try:
        check_program(program, chip)
    except ProgramError:
        return False
    return True


def _filled(row: ValidationRow, number: int) -> ValidationRow:
    before, lines = (text.replace(NAME, str(number)) for text in (row.before, row.program))
    return replace(row, before=before, program=lines)
