"""Run a program file's module on a chip: named arrays in, named arrays out, and the summary.

The compiler has no part in this: whoever wrote the program, by hand or with `systolic compile`,
the machine runs what it says. Nothing is read from files or printed here
(`systolic.cli.run_program`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError, listed, perhaps, shortened
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import (
    Binding,
    Module,
    check_bindings,
    check_bindings_on,
    element_type,
    require_clean,
)
from systolic.layout import Shape
from systolic.machine import Image, Memory, simulate
from systolic.machine.simulate import EngineKind
from systolic.report.summary.summarize import summarize
from systolic.run.provenance import array_sha256, program_provenance
from systolic.trace.records import Trace
from systolic.workload import check_host_memory


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """A finished run: summary.json's contents, outputs by name (empty for times only), trace."""

    summary: dict[str, Any]
    outputs: dict[str, Array]
    trace: Trace
    chip: Chip


def execute_program(
    module: Module,
    chip: Chip,
    inputs: Mapping[str, Array] | None = None,
    *,
    engine: EngineKind = "event",
    kinds: Iterable[str] = (),
    grid: bool = False,
    progress: Callable[[int, int], None] | None = None,
    check: bool = True,
) -> ProgramRun:
    """Run a module's program.

    Args:
        module: the program and its bindings, as `systolic.isa.load_module` gives them.
        chip: the hardware.
        inputs: an array for each input of the module, of its shape and type; None: times only.
        engine: "event" or "register".
        kinds, grid: what to keep for traces and pictures (see `systolic.machine.simulate`).
        progress: called with instructions done and instructions in all.
        check: False: refuse only what is illegal, not what the checker finds besides (races, words
            nobody has written). A race then has the outcome this engine happens to give it.

    Raises:
        SystolicError: one line saying what is wrong and where.

    """
    check_module(module, chip)
    if check:
        require_clean(module.program, chip, module.input_accesses)
    values = inputs is not None
    outcome = simulate(
        chip, module.program, [] if inputs is None else program_images(module, inputs),
        engine=engine, kinds=kinds, grid=grid, values=values, progress=progress,
    )  # fmt: skip
    outputs = program_outputs(module, outcome.memory) if values else {}
    summary = summarize(
        run=module.program.name,
        chip=chip,
        engine=engine,
        trace=outcome.trace,
        instructions=module.program.count(),
    )
    summary["checker"] = "clean" if check else "skipped"
    summary |= program_provenance(chip, engine, values=values, check=check)
    summary["inputs"] = _records(module.inputs, inputs or {})
    summary["outputs"] = _records(module.outputs, outputs)
    return ProgramRun(summary, outputs, outcome.trace, chip)


def _records(bindings: Iterable[Binding], arrays: Mapping[str, Array]) -> dict[str, Any]:
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
    """Raise SystolicError unless the arrays have a place on the chip, and in this computer."""
    check_bindings(module)
    for binding in (*module.inputs, *module.outputs):
        if binding.parts:
            check_host_memory(Shape(data_type(element_type(binding)).name, binding.shape))
    check_bindings_on(module, chip)


def program_images(module: Module, inputs: Mapping[str, Array]) -> list[Image]:
    """Return what lies in the memories at cycle 0.

    Raises WorkloadError if an input is missing, unknown, or of another shape or type.
    """
    names = [binding.name for binding in module.inputs]
    for name in inputs:
        if name not in names:
            raise unknown_input(name, names)
    return [image for binding in module.inputs for image in _images(binding, inputs)]


def unknown_input(name: str, names: Iterable[str]) -> WorkloadError:
    """Return the error for an input that the program does not have."""
    known = listed(f'"{each}"' for each in names)
    return WorkloadError(
        f'the program has no input "{shortened(name)}" (it has: {known}){perhaps(name, names)}'
    )


def _images(binding: Binding, inputs: Mapping[str, Array]) -> Iterable[Image]:
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
    """Return an input's name, type and shape as messages give them."""
    return f'input "{binding.name}" ({element_type(binding)} {list(binding.shape)})'


def program_outputs(module: Module, memory: Memory) -> dict[str, Array]:
    """Return the outputs as they stand in the memories, by name, in their types."""
    return {binding.name: _gather(binding, memory) for binding in module.outputs}


def _gather(binding: Binding, memory: Memory) -> Array:
    found = np.zeros(binding.shape, data_type(element_type(binding)).numpy)
    for part in binding.parts:
        sizes = [stop - first for first, stop in part.box]
        box = memory.read(part.access).reshape(sizes)
        found[tuple(slice(*pair) for pair in part.box)] = box
    return found
