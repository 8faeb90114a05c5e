"""The run of a program of several cores: named arrays in, named arrays out, and the summary.

The stages are the same as for a program of one core (`systolic.run.program`). Nothing is printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from systolic.arrays import Array
from systolic.errors import ProgramError, SystolicError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.hw.spec.places import place_of
from systolic.isa import (
    Access,
    AnyModule,
    Buffer,
    ChipModule,
    DmaCopy,
    DmaMove,
    Module,
    Section,
)
from systolic.isa.formats.chip_module import check_chip_bindings
from systolic.isa.formats.lines import with_lines
from systolic.isa.joint import JointProgram
from systolic.isa.legality.chip_program import check_chip_program, copy_ends
from systolic.machine import Image
from systolic.machine.values.chip_memory import ChipMemory
from systolic.report.summary.cores import CopyWay, Moved, core_times, traffic
from systolic.report.summary.summarize import summarize
from systolic.run.program import (
    check_host_room,
    gathered,
    images_of,
    program_result,
    records_of,
    unknown_input,
)
from systolic.run.provenance import program_provenance
from systolic.run.result import Result
from systolic.run.settings import Settings


def several(module: AnyModule, chip: Chip | MultiCoreChip) -> AnyModule:
    """Return a program as the chip needs it: of one core, or of several.

    A program of one core runs on the first core of a chip of several; one of several that has a
    section for the first core alone, and needs no other, runs on a chip of one core.
    """
    if isinstance(module, Module):
        if isinstance(chip, Chip):
            return module
        named = replace(module, chip="")
        return ChipModule(module.program.name, (Section("core0", named),), module.chip)
    if isinstance(chip, MultiCoreChip):
        return module
    if [section.at for section in module.sections] != ["core0"]:
        places = ", ".join(section.at for section in module.sections) or "no core"
        raise ProgramError(
            f"{module.name}: is for several cores ({places}), but {chip.name} has one: needed a "
            "chip of several cores ([[cores]])",
            setting="chip",
        )
    only = module.sections[0].module
    return replace(only, chip=module.chip, program=replace(only.program, name=module.name))


def any_program_result(
    module: AnyModule,
    chip: Chip | MultiCoreChip,
    inputs: Mapping[str, Array] | None,
    how: Settings,
) -> Result:
    """Return the result of a program of one core or of several, on a chip that fits it."""
    fitting = several(module, chip)
    if isinstance(chip, Chip):
        assert isinstance(fitting, Module)
        return program_result(fitting, chip, inputs, how)
    assert isinstance(fitting, ChipModule)
    return chip_program_result(fitting, chip, inputs, how)


def chip_program_result(
    module: ChipModule, chip: MultiCoreChip, inputs: Mapping[str, Array] | None, how: Settings
) -> Result:
    """Check, simulate and summarise; `systolic.run.run` describes the arguments."""
    how = replace(how, values=how.values and inputs is not None)
    with lines_named(module):
        check_chip_module(module, chip)
        if how.check:
            require_clean_chip(module, chip)
        images = chip_images(module, inputs or {}) if how.values else {}
        outcome = how.simulate_chip(chip, module, images)
    outputs = chip_outputs(module, outcome.memory) if how.values else {}
    joint, trace = outcome.joint, outcome.trace
    copies = moved(joint)
    summary = summarize(
        run=module.name,
        chip=chip,
        engine=how.engine,
        trace=trace,
        instructions=_counted(joint),
    )
    summary["traffic"] = traffic(copies, trace)
    cores = [f"core{number}" for number in range(chip.core_count)]
    summary["cores"] = core_times(cores, copies, trace)
    summary["checker"] = "clean" if how.check else "skipped"
    summary |= program_provenance(chip, how.engine, values=how.values, check=how.check)
    summary["inputs"] = records_of(module.inputs, inputs or {})
    summary["outputs"] = records_of(module.outputs, outputs)
    return Result(summary, outputs, trace, first_core(chip), joint.program, several=joint)


def first_core(chip: MultiCoreChip) -> Chip:
    """Return the first core with the name of the chip, and without figures of its own."""
    core = chip.core_chips[0]
    return core.model_copy(update={"name": chip.name, "metrics": False}).on_chip(
        core.dram, chip.ticks_mhz
    )


def _counted(joint: JointProgram) -> dict[str, int]:
    """Return how many instructions of each kind ran; a copy counts as one, wherever it goes."""
    counts: Counter[str] = Counter()
    for name, count in joint.program.count().items():
        counts["DmaCopy" if name == "DmaMove" else name] += count
    return dict(counts)


def moved(joint: JointProgram) -> list[Moved]:
    """Return the copies of a program."""
    found = []
    for index, copy in enumerate(joint.program.instructions):
        if not isinstance(copy, DmaCopy):
            continue
        feeder = joint.launches[joint.launch_of[index]].at
        ends = copy_ends(copy)
        source, targets = ends[0][2], [access for _, _, access in ends[1:]]
        found.append(
            Moved(
                index,
                feeder,
                _way(copy, feeder),
                (_moved_bytes(source),) * len(targets),
                tuple(_moved_bytes(target) for target in targets),
            )
        )
    return found


def _moved_bytes(access: Access) -> int:
    return access.partitions * access.elements * data_type(access.dtype).size_bytes


def _way(copy: DmaCopy, feeder: str) -> CopyWay:
    ends = copy_ends(copy)
    is_code = isinstance(copy, DmaMove) and copy.brings_code
    if any(access.buffer is Buffer.DRAM for _, _, access in ends[: 1 if is_code else None]):
        return "dram"
    places = {place_of(at or feeder) for _, at, _ in ends}
    return "core" if len(places) == 1 else "link"


@contextmanager
def lines_named(module: ChipModule) -> Iterator[None]:
    """Name the lines of the section at fault in any error raised inside."""
    try:
        yield
    except SystolicError as error:
        text = str(error)
        for section in module.sections:
            if text.startswith((f"{section.name}: ", f"{section.at}: ")):
                text = with_lines(text, section.module.lines)
                break
        raise type(error)(text) from None


def check_chip_module(module: ChipModule, chip: MultiCoreChip) -> None:
    """Raise SystolicError unless program and arrays fit the chip, and the host's memory."""
    check_chip_bindings(module)
    check_host_room((*module.inputs, *module.outputs))
    check_chip_program(module, chip)


def require_clean_chip(module: ChipModule, chip: MultiCoreChip) -> None:
    """Raise ProgramError for the first finding of the checker that is more than a hint."""
    from systolic.isa.lint.several import require_clean_chip as require

    require(module, chip)


def chip_images(module: ChipModule, inputs: Mapping[str, Array]) -> dict[str, list[Image]]:
    """Return what lies in the memories at cycle 0, by core."""
    names = [binding.name for binding in module.inputs]
    for name in inputs:
        if name not in names:
            raise unknown_input(name, names)
    found: dict[str, list[Image]] = {}
    for section in module.sections:
        for binding in section.module.inputs:
            found.setdefault(section.at, []).extend(images_of(binding, inputs))
    return found


def chip_outputs(module: ChipModule, memory: ChipMemory) -> dict[str, Array]:
    """Return the outputs as they stand in the memories, by name, in their types."""
    return {
        binding.name: gathered(binding, memory.of(section.at))
        for section in module.sections
        for binding in section.module.outputs
    }
