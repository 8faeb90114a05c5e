"""The run of a run file or a program with all that it wrote, for `systolic at` and `watch`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from systolic.cli.options import WorkOptions, is_program, run_file_overrides

if TYPE_CHECKING:
    from systolic.machine import Image, Memory
    from systolic.run.result import Result


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A finished run, and what lay in the memories at cycle 0."""

    result: Result
    images: list[Image]
    by_core: Mapping[str, list[Image]] | None = None

    def images_of(self, core: str) -> list[Image]:
        """Return what lay in the memories of a core and in DRAM; "": there is one core."""
        if self.by_core is None or not core:
            return self.images
        in_dram = [each for each in self.images if each.access.buffer == "dram"]
        own = [each for each in self.by_core.get(core, ()) if each.access.buffer != "dram"]
        return [*own, *in_dram]

    def memory(self, core: str = "") -> Memory:
        """Return the memories as they were at cycle 0: of a core, if there are several."""
        from systolic.machine import Memory
        from systolic.machine.values.chip_memory import ChipMemory

        if self.result.several is not None:
            return ChipMemory(self.result.several, self.by_core or {}).of(core or "core0")
        return Memory(self.result.chip, self.result.program, self.images)


def recorded_run(
    config: Path, options: WorkOptions, kinds: Collection[str], *, grid: bool = False
) -> RecordedRun:
    """Run a run file or a program with its values, and record the words of some kinds."""
    if is_program(config):
        return _program_run(config, options, kinds, grid=grid)
    from systolic.cli.heartbeat import ProgressBar
    from systolic.config import load_run
    from systolic.run.execute import initial_images, run

    loaded = load_run(config, run_file_overrides(config, options))
    with ProgressBar(loaded.name) as progress:
        result = run(loaded, kinds=kinds, grid=grid, progress=progress)
    return RecordedRun(result, initial_images(loaded, result))


def _program_run(
    config: Path, options: WorkOptions, kinds: Collection[str], *, grid: bool
) -> RecordedRun:
    from systolic.cli.run_program import prepare, read_inputs, run_job
    from systolic.isa import Module
    from systolic.run.chip_program import chip_images
    from systolic.run.program import program_images

    job = prepare(config, options)
    result = run_job(job, kinds, grid=grid)
    inputs = read_inputs(job.module, job.files, job.path)
    if isinstance(job.module, Module):
        return RecordedRun(result, program_images(job.module, inputs))
    images = chip_images(job.module, inputs)
    return RecordedRun(result, [each for at in images.values() for each in at], images)
