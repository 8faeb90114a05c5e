"""The stages of a program's run: named arrays in, named arrays out, and the summary.

The compiler has no part in this: the machine runs the program as it is, written by hand or by
`systolic compile`. `systolic.run.run` calls these functions. Nothing is printed.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.config import Override
from systolic.config.chip_file import find_chip, load_chip
from systolic.errors import (
    ConfigError,
    ProgramError,
    SystolicError,
    WorkloadError,
    listed,
    perhaps,
    shortened,
)
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import (
    AnyModule,
    Binding,
    Module,
    check_bindings,
    check_bindings_on,
    element_type,
    is_binary,
    module_of,
    require_clean,
)
from systolic.isa.formats.files import read_bytes
from systolic.isa.formats.lines import with_lines
from systolic.layout import Shape, element_type_of
from systolic.machine import Image, Memory
from systolic.reading import first_line, real_path
from systolic.report.summary.summarize import summarize
from systolic.run.busy import busy_bound, busy_cycles
from systolic.run.file_kinds import not_a_program
from systolic.run.metrics import metrics
from systolic.run.provenance import array_sha256, program_provenance
from systolic.run.result import Result
from systolic.run.settings import Settings
from systolic.run.utilisation import array_multiplies
from systolic.workload import check_host_memory


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """The files of a program's run, for its summary.

    sha256: the hash of the program file's bytes. chip: None if no file describes the chip. inputs:
    the file of each input that was read from a file.
    """

    program: Path
    sha256: str
    chip: Path | None
    inputs: Mapping[str, Path] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()


def read_program(path: Path) -> tuple[AnyModule, str]:
    """Return the program of a file, in either form, and the SHA-256 of the file's bytes."""
    data = read_bytes(path)
    return program_of(data, path), sha256(data).hexdigest()


def program_of(data: bytes, path: Path) -> AnyModule:
    """Return the program that a file holds; ProgramError if its bytes are no program."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if is_binary(data) or first_line(data).startswith(b"systolic"):
        return module_of(data, str(path))
    raise ProgramError(not_a_program(path, data))


def chip_beside(module: AnyModule, path: Path) -> Path:
    """Return the file of the chip that a program names; it is looked for from its folder."""
    if not module.chip:
        raise ProgramError(f"{path}: names no chip; needed one", setting="chip")
    return find_chip(module.chip, path.parent, str(path))


def program_chip(
    module: AnyModule, path: Path, chip: Path | None, overrides: Iterable[Override] = ()
) -> Chip | MultiCoreChip:
    """Return the chip of a file, or else the chip that the program names, after overrides of it.

    Raises ConfigError for an override of anything but the chip.
    """
    return load_chip(chip or chip_beside(module, path), [_of_chip(each) for each in overrides])


def _of_chip(override: Override) -> Override:
    below = override.below("chip")
    if below is None:
        key = ".".join(override.path)
        raise ConfigError(f'{override.origin}: of a program only "chip." can be set, not "{key}"')
    return below


def program_result(
    module: Module, chip: Chip, inputs: Mapping[str, Array] | None, how: Settings
) -> Result:
    """Check, simulate and summarise a program; `systolic.run.run` describes the arguments.

    If the program was read as text, errors name the line of an instruction beside its number.
    """
    how = replace(how, values=how.values and inputs is not None)
    check_module(module, chip)
    with _lines_named(module):
        if how.check:
            require_clean(module.program, chip, module.input_accesses)
        images = program_images(module, inputs or {}) if how.values else []
        outcome = how.simulate(chip, module.program, images)
    outputs = program_outputs(module, outcome.memory) if how.values else {}
    summary = summarize(
        run=module.program.name,
        chip=chip,
        engine=how.engine,
        trace=outcome.trace,
        instructions=module.program.count(),
        array_multiplies=array_multiplies(module.program, chip),
    )
    summary |= _bounds(chip, module)
    if chip.metrics:
        summary["metrics"] = metrics(chip, module.program, outcome.trace)
    summary["checker"] = "clean" if how.check else "skipped"
    summary |= program_provenance(chip, how.engine, values=how.values, check=how.check)
    summary["inputs"] = records_of(module.inputs, inputs or {})
    summary["outputs"] = records_of(module.outputs, outputs)
    return Result(summary, outputs, outcome.trace, chip, module.program)


def _bounds(chip: Chip, module: Module) -> dict[str, Any]:
    """Return the bound of the run, and for how many cycles of its own each unit must be busy."""
    busy = busy_cycles(chip, module.program)
    bound = busy_bound(chip, busy)
    return {"bound": {"cycles": bound.cycles, "why": bound.why}, "busy": busy}


@contextmanager
def _lines_named(module: Module) -> Iterator[None]:
    """Name the lines of the program's text in any error raised inside."""
    try:
        yield
    except SystolicError as error:
        raise type(error)(with_lines(str(error), module.lines)) from None


def with_files(result: Result, files: ProgramFiles) -> Result:
    """Return the result of a program's run with a summary that names the files it came from."""
    found = result.summary
    name = {"name": found["run"], "sha256": files.sha256}
    paths = {"program": files.program, "chip": files.chip}
    return replace(
        result,
        summary={
            **found,
            "config": {**found["config"], "program": name},
            "overrides": list(files.overrides),
            "files": {kind: str(real_path(path)) for kind, path in paths.items() if path},
            "inputs": {
                name: {**record, **_file_record(files.inputs.get(name))}
                for name, record in found["inputs"].items()
            },
        },
    )


def _file_record(file: Path | None) -> dict[str, Any]:
    return {"data": file and str(real_path(file)), "seed": None}


def records_of(bindings: Iterable[Binding], arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return type, shape and sha256 of named arrays."""
    return {
        binding.name: {
            "type": element_type(binding),
            "shape": list(binding.shape),
            "sha256": array_sha256(arrays.get(binding.name)),
        }
        for binding in bindings
    }


def check_module(module: Module, chip: Chip) -> None:
    """Raise SystolicError unless the arrays fit the chip, and the memory of this computer."""
    check_bindings(module)
    check_host_room((*module.inputs, *module.outputs))
    check_bindings_on(module, chip)


def check_host_room(bindings: Iterable[Binding]) -> None:
    """Raise SystolicError for an array that the memory of this computer does not hold."""
    for binding in bindings:
        if binding.parts:
            held = data_type(element_type(binding))
            name = element_type_of(held.numpy).name if held.packed > 1 else held.name
            check_host_memory(Shape(name, binding.shape))


def program_images(module: Module, inputs: Mapping[str, Array]) -> list[Image]:
    """Return what lies in the memories at cycle 0.

    Raises WorkloadError if an input is missing, unknown, or of another shape or type.
    """
    names = [binding.name for binding in module.inputs]
    for name in inputs:
        if name not in names:
            raise unknown_input(name, names)
    return [image for binding in module.inputs for image in images_of(binding, inputs)]


def unknown_input(name: str, names: Iterable[str]) -> WorkloadError:
    """Return the error for an input that the program does not have."""
    known = listed(f'"{each}"' for each in names)
    return WorkloadError(
        f'the program has no input "{shortened(name)}" (it has: {known}){perhaps(name, names)}'
    )


def images_of(binding: Binding, inputs: Mapping[str, Array]) -> Iterable[Image]:
    """Yield what an input puts into the memories."""
    if binding.name not in inputs:
        raise WorkloadError(f"{described(binding)} is missing")
    array = inputs[binding.name]
    dtype = data_type(element_type(binding)).numpy
    if array.shape != binding.shape or array.dtype != dtype:
        raise WorkloadError(f"{described(binding)}: found {array.dtype} {list(array.shape)}")
    for part in binding.parts:
        box = array[tuple(slice(*pair) for pair in part.box)]
        yield Image(part.access, np.ascontiguousarray(box).reshape(part.access.partitions, -1))


def described(binding: Binding) -> str:
    """Return an input's name, type and shape for a message."""
    return f'input "{binding.name}" ({element_type(binding)} {list(binding.shape)})'


def program_outputs(module: Module, memory: Memory) -> dict[str, Array]:
    """Return the outputs as they stand in the memories, by name, in their types."""
    return {binding.name: gathered(binding, memory) for binding in module.outputs}


def gathered(binding: Binding, memory: Memory) -> Array:
    """Return an array as it stands in a memory."""
    found = np.zeros(binding.shape, data_type(element_type(binding)).numpy)
    for part in binding.parts:
        sizes = [stop - first for first, stop in part.box]
        box = memory.read(part.access).reshape(sizes)
        found[tuple(slice(*pair) for pair in part.box)] = box
    return found
