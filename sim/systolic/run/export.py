"""A compiled run as a program file: its program, and where its tensors lie as named arrays.

Where an element lies is found by experiment, not by asking the compiler. Every element gets a
number of its own. The run's own functions write the digits of all numbers into memory, or read them
out of it, one digit at a time; the digits that arrive at a place name the element there. Example:
if the digits 2 and 1 (of base 8) arrive at byte 64, then element 2 * 8 + 1 = 17 lies there.
A few accesses then describe the places (`systolic.isa.parts_of`). So the program runs without the
compiler, and its inputs and outputs are arrays in logical order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from systolic.arrays import Array, Integers
from systolic.config import RunConfig
from systolic.config.chip_file import find_chip
from systolic.errors import CompileError, ConfigError, ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Binding, Buffer, Module, Part, Program, check_bindings, parts_of
from systolic.isa.lint.lint import lint, require_clean
from systolic.layout import Shape
from systolic.machine import Image, Memory
from systolic.reading import real_path
from systolic.run.execute import Arrays, compile_run, load_inputs
from systolic.run.tensors import graph_images, graph_results

BASE = 8
"""Digits 0 to 7 are exact in every type, float8_e5m2 too."""
IDENTITY, PADDING = "identity", "padding"
"""The names of inputs that no run file gives."""

_Carried = Sequence[tuple[Image, Integers]]
"""Images with the number of each element."""


@dataclass(frozen=True, eq=False)
class Exported:
    """A module; `constants` are the inputs that no run file gives: stored identities, padding."""

    module: Module
    constants: dict[str, Array]


@dataclass(frozen=True, eq=False)
class _CompiledRun:
    """A compiled run as functions: inputs to memory contents, memory to outputs."""

    program: Program
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    images: Callable[[Arrays], Sequence[Image]]
    results: Callable[[Memory], Arrays]


def export_run(config: RunConfig, folder: Path = Path()) -> Exported:
    """Return the program of a run file with its tensors bound to names.

    A lone transpose has the input "source" and the output "result"; a graph has its tensors' names.
    Identity matrices that must be in memory at cycle 0 are inputs too, and so is the padding of
    tiles if the program reads it. `folder` is where the program file goes: the module names
    the chip as it is found from that folder.

    Raises:
        SystolicError: the run does not compile, or `lint` refuses its program, or a layout
            scatters a tensor so that no few accesses describe it, or a tensor is of a narrow type.

    """
    run = _compiled(config)
    _refuse_narrow(run)
    carried = _carried(run)
    inputs, constants = _inputs(run, carried)
    module = Module(
        run.program, tuple(inputs), tuple(_outputs(run, config.chip)), _chip(config, folder)
    )
    for buffer in (Buffer.DRAM, Buffer.STATE):
        if _lacks_contents(module, config.chip):
            for binding, values in _padding(run, carried, buffer, constants):
                constants[binding.name] = values
                module = replace(module, inputs=(*module.inputs, binding))
    check_bindings(module)
    require_clean(module.program, config.chip, module.input_accesses)
    return Exported(module, constants)


def input_arrays(config: RunConfig, exported: Exported) -> dict[str, Array]:
    """Return the arrays that the inputs of an exported program have in the run file, by name."""
    return {**load_inputs(config), **exported.constants}


def _compiled(config: RunConfig) -> _CompiledRun:
    compiled = compile_run(config)
    graph = compiled.graph
    return _CompiledRun(
        compiled.program,
        {name: graph.shape(name) for name in graph.inputs},
        {name: graph.shape(name) for name in graph.outputs},
        lambda arrays: graph_images(compiled, arrays),
        lambda memory: graph_results(compiled, memory),
    )


def _refuse_narrow(run: _CompiledRun) -> None:
    """Raise CompileError for a type that a binding cannot name: bytes of memory carry it."""
    for name, shape in (run.inputs | run.outputs).items():
        if shape.type.is_narrow:
            raise CompileError(
                f"{name}: {shape}: a program file binds tensors of the machine's types, not of "
                f"{shape.element_type}; a run file can have it"
            )


def _chip(config: RunConfig, folder: Path) -> str:
    """Return the name by which the chip is found again; "" if an override changed the chip."""
    if any(override.below("chip") for override in config.overrides):
        return ""
    path = real_path(config.chip_path)
    with suppress(ConfigError):
        if real_path(find_chip(path.stem, folder, "")) == path:
            return path.stem
    return str(path)


def _digits(most: int) -> Iterator[tuple[int, int]]:
    """Yield (place, BASE to the power of place) for each digit of the numbers up to `most`."""
    place = 0
    while BASE**place <= most:
        yield place, BASE**place
        place += 1


# -- inputs ---------------------------------------------------------------------------------------


def _inputs(run: _CompiledRun, carried: _Carried) -> tuple[list[Binding], dict[str, Array]]:
    """Return the bindings of all inputs, and the stored identities, which no run file gives."""
    first, total = _numbers(run)
    bindings: list[Binding] = []
    constants: dict[str, Array] = {}
    for name, shape in run.inputs.items():
        places = _places(carried, first[name], shape)
        parts = [p for buffer in places for p in _parts(name, shape, buffer, *places[buffer])]
        if parts:
            bindings.append(Binding(name, shape.dims, tuple(parts)))
    for image, numbers in carried:
        if numbers.max() > total:
            name = _free_name(IDENTITY, {*run.inputs, *constants})
            constants[name] = image.values
            bindings.append(Binding.whole(name, image.values.shape, image.access))
    return bindings, constants


def _lacks_contents(module: Module, chip: Chip) -> bool:
    """Return whether the program reads bytes that are in no input and that it does not write."""
    found = lint(module.program, chip, module.input_accesses)
    return any(each.code == "unwritten" for each in found)


def _padding(
    run: _CompiledRun, carried: _Carried, buffer: Buffer, constants: Collection[str]
) -> Iterator[tuple[Binding, Array]]:
    """Yield the elements of tiles in a buffer that are in no tensor, [elements], and their values.

    constants: the names that other constants have.
    """
    _, total = _numbers(run)
    taken = {*run.inputs, *run.outputs, *constants}
    for image, numbers in carried:
        access = image.access
        lanes, columns = np.nonzero(numbers.reshape(access.partitions, -1) == 0)
        if access.buffer is not buffer or not len(columns) or numbers.max() > total:
            continue
        name = _free_name(PADDING, taken)
        taken.add(name)
        byte = access.offsets()[columns] * access.element_bytes
        dims = (len(columns),)
        parts = _parts(name, Shape(access.dtype, dims), buffer, access.partition + lanes, byte)
        values = image.values.reshape(access.partitions, -1)[lanes, columns]
        yield Binding(name, dims, parts), values


def _numbers(run: _CompiledRun) -> tuple[dict[str, int], int]:
    """Return the number of each input's first element, and the last number of all."""
    first: dict[str, int] = {}
    total = 0
    for name, shape in run.inputs.items():
        first[name] = total + 1  # 0 is padding
        total += shape.num_elements()
    return first, total


def _carried(run: _CompiledRun) -> _Carried:
    """Return every image with the number of each of its elements.

    Padding has the number 0. A constant 1, such as an identity's, has one above all others.
    """
    first, total = _numbers(run)
    numbers: list[Integers] = []
    found: Sequence[Image] = ()
    # A constant 1 gives a 1 in every digit: one digit more than needed makes it exceed `total`.
    for _, weight in _digits(BASE * total):
        arrays = {
            name: (_counted(first[name], shape) // weight % BASE).astype(shape.dtype)
            for name, shape in run.inputs.items()
        }
        found = run.images(arrays)
        digits: list[Integers] = [image.values.astype(np.int64) * weight for image in found]
        numbers = [a + b for a, b in zip(numbers, digits, strict=True)] if numbers else digits
    return list(zip(found, numbers, strict=True))


def _counted(first: int, shape: Shape) -> Integers:
    count = shape.num_elements()
    return np.arange(first, first + count, dtype=np.int64).reshape(shape.dims)


def _places(carried: _Carried, first: int, shape: Shape) -> dict[Buffer, tuple[Integers, Integers]]:
    """Return partitions and bytes of an input's elements in each buffer that holds it at cycle 0.

    The compiler may want a tensor both on the chip and in DRAM.
    """
    found: dict[Buffer, tuple[Integers, Integers]] = {}
    for image, numbers in carried:
        access = image.access
        mine = (numbers >= first) & (numbers < first + shape.num_elements())
        if not mine.any():
            continue
        if access.buffer not in found:
            partition, byte = (np.full(shape.num_elements(), -1, np.int64) for _ in range(2))
            found[access.buffer] = partition, byte
        partition, byte = found[access.buffer]
        rows, columns = np.nonzero(mine.reshape(access.partitions, -1))
        which = numbers.reshape(access.partitions, -1)[rows, columns] - first
        if (byte[which] >= 0).any():
            raise CompileError(f"{shape} lies twice in {access.buffer}: no program file says that")
        byte[which] = access.offsets()[columns] * access.element_bytes
        partition[which] = access.partition + rows
    assert all((byte >= 0).all() for _, byte in found.values()), f"{shape} is not all there"
    return found


def _free_name(what: str, taken: set[str]) -> str:
    numbered = (f"{what}{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (what, *numbered) if name not in taken)


# -- outputs --------------------------------------------------------------------------------------


def _outputs(run: _CompiledRun, chip: Chip) -> Iterator[Binding]:
    """Yield the bindings of all outputs: memory holds its own addresses, digit by digit."""
    memory = Memory(chip, run.program)
    for name, shape in run.outputs.items():
        buffers, rows, elements = (_read_back(run, memory, name, shape, what) for what in range(3))
        buffer = list(Buffer)[int(buffers.flat[0])]
        assert (buffers == buffers.flat[0]).all(), f"{name} lies in more than one buffer"
        byte = elements * data_type(shape.element_type).size_bytes
        yield Binding(name, shape.dims, _parts(name, shape, buffer, rows, byte))


def _read_back(run: _CompiledRun, memory: Memory, name: str, shape: Shape, what: int) -> Integers:
    """Return, for each element of an output, its buffer's number, partition or element there."""
    dtype = data_type(shape.element_type).numpy
    stored = {}
    for number, buffer in enumerate(Buffer):
        raw = memory.bytes_of(buffer)
        typed = raw[:, : raw.shape[1] // dtype.itemsize * dtype.itemsize].view(dtype)
        index = (np.int64(number), np.arange(len(typed))[:, None], np.arange(typed.shape[1]))[what]
        stored[buffer] = typed, np.asarray(index)
    most = max(int(index.max(initial=0)) for _, index in stored.values())
    found = np.zeros(shape.dims, np.int64)
    for _, weight in _digits(max(1, most)):
        for typed, index in stored.values():
            typed[...] = (index // weight % BASE).astype(dtype)
        found += run.results(memory)[name].astype(np.int64) * weight
    return found


def _parts(
    name: str, shape: Shape, buffer: Buffer, partition: Integers, byte: Integers
) -> tuple[Part, ...]:
    places = partition.reshape(shape.dims), byte.reshape(shape.dims)
    try:
        return parts_of(*places, buffer, shape.element_type)
    except ProgramError as error:
        raise CompileError(f"{name}: {shape}: {error}") from None
