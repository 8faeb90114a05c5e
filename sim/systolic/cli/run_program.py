"""The run of a program file for `systolic run` and `trace`, with .npy files in and out.

Not here: what a run of a program is (`systolic.run`), run files (`systolic.cli.run_file`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from systolic.arrays import Array
from systolic.cli.heartbeat import ProgressBar
from systolic.cli.options import WorkOptions, checked_engine, set_values
from systolic.cli.run_file import Accept, report
from systolic.config import Override
from systolic.config.chip_file import find_chip
from systolic.engine_kind import EngineKind
from systolic.errors import SystolicError, WorkloadError, printable
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import AnyModule, Binding, MatMul, Module, element_type
from systolic.report.views import NO_RECORDS, WAVEFRONT
from systolic.run.chip_program import check_chip_module, lines_named, several
from systolic.run.execute import run
from systolic.run.folder import PICTURE, SUMMARY, RunFolder, npy_name
from systolic.run.program import (
    ProgramFiles,
    check_module,
    chip_beside,
    described,
    program_chip,
    read_program,
    unknown_input,
    with_files,
)
from systolic.run.result import Result
from systolic.workload.data.npy_csv import read_npy

# A .npy file cannot name these types: it holds them as plain bytes, or as whole numbers.
NAMELESS = tuple(
    np.dtype(t)
    for t in (
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e8m0fnu,
    )
)


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """A program ready to run: module and chip, the files of both, and the file of each input."""

    path: Path
    sha256: str
    module: AnyModule
    chip: Chip | MultiCoreChip
    chip_path: Path
    files: Mapping[str, Path]
    engine: EngineKind = "event"
    values: bool = True
    check: bool = True
    overrides: tuple[str, ...] = ()


def prepare(path: Path, options: WorkOptions) -> ProgramJob:
    """Return the job of running a program file as the command line says."""
    engine = checked_engine(options.engine or "event")
    for option, given in (
        ("--layers", options.layers), ("--images", options.images), ("--shape", options.shapes),
    ):  # fmt: skip
        if given is not None:
            raise SystolicError(f"{option}: is for run files of networks, and {path} is a program")
    module, sha256 = read_program(path)
    chip_path = _chip_path(module, path, options.chip)
    chip = chip_of(module, path, options.chip, set_values(options.overrides))
    module = several(module, chip)
    check(module, chip)
    return ProgramJob(
        path=path,
        sha256=sha256,
        module=module,
        chip=chip,
        chip_path=chip_path,
        files=input_files(module, options.inputs or ()),
        engine=engine,
        values=options.values,
        check=not options.no_check,
        overrides=tuple(options.overrides or ()),
    )


def check(module: AnyModule, chip: Chip | MultiCoreChip) -> None:
    """Raise SystolicError unless program and arrays fit the chip, and this computer's memory."""
    if isinstance(module, Module):
        assert isinstance(chip, Chip)
        check_module(module, chip)
    else:
        assert isinstance(chip, MultiCoreChip)
        with lines_named(module):
            check_chip_module(module, chip)


def run_program_and_report(
    job: ProgramJob,
    out: Path,
    *,
    as_json: bool,
    plots: bool,
    accept: Accept = lambda summary: "",
) -> None:
    """Run a program, print (the table, or exactly summary.json), and write the files to `out`.

    accept: the same as for `systolic.cli.run_file.run_and_report`.
    """
    plots = plots and job.values and isinstance(job.module, Module)
    folder = RunFolder(out)
    names = {binding.name: npy_name(binding.name) for binding in job.module.outputs}
    arrays = names.values() if job.values else ()
    reads = [job.path, *(job.files.values() if job.values else ())]
    folder.check([SUMMARY, *arrays, *([PICTURE] if plots else [])], reads)
    records = NO_RECORDS
    if plots and isinstance(job.module, Module):
        records = WAVEFRONT.records.of(picture_elements(job.module))
    result = run_job(job, records.words, grid=records.grid)
    report(result, names, folder, as_json=as_json, plots=plots, accept=accept)


def run_job(job: ProgramJob, kinds: Collection[str] = (), *, grid: bool = False) -> Result:
    """Read the inputs of a job and run it; the summary says which files everything came from."""
    inputs = read_inputs(job.module, job.files, job.path) if job.values else None
    with ProgressBar(printable(name_of(job.module))) as progress:
        result = run(
            job.module,
            job.chip,
            inputs,
            engine=job.engine,
            kinds=kinds,
            grid=grid,
            progress=progress,
            check=job.check,
        )
    files = ProgramFiles(job.path, job.sha256, job.chip_path, job.files, job.overrides)
    return with_files(result, files)


def name_of(module: AnyModule) -> str:
    """Return the name of a program."""
    return module.program.name if isinstance(module, Module) else module.name


def _chip_path(module: AnyModule, program: Path, chip: str | None) -> Path:
    """Return the file of the chip asked for, or else of the chip that the program names."""
    return chip_beside(module, program) if chip is None else find_chip(chip, Path(), "--chip")


def chip_of(
    module: AnyModule, program: Path, chip: str | None, overrides: Sequence[Override] = ()
) -> Chip | MultiCoreChip:
    """Return the chip asked for, or else the chip that the program names, from its folder."""
    return program_chip(module, program, _chip_path(module, program, chip), overrides)


# -- inputs ---------------------------------------------------------------------------------------


def read_inputs(module: AnyModule, files: Mapping[str, Path], program: Path) -> dict[str, Array]:
    """Return the module's inputs, read from .npy files.

    Raises WorkloadError if a file is missing, or holds another shape or type than its input.
    """
    for binding in module.inputs:
        if binding.name not in files:
            raise WorkloadError(
                f"{program}: {described(binding)} is missing; needed --input "
                f"{binding.name}=FILE.npy"
            )
    return {binding.name: _read(files[binding.name], binding) for binding in module.inputs}


def input_files(module: AnyModule, given: Sequence[str]) -> dict[str, Path]:
    """Return the file of each input from NAME=FILE texts, and folders that hold NAME.npy files."""
    names = [binding.name for binding in module.inputs]
    files: dict[str, Path] = {}
    folders: list[Path] = []
    for text in given:
        if "\0" in text:
            raise WorkloadError(f"--input {printable(text)}: no file has a name with a null byte")
        if "=" not in text:
            folders.append(_folder(text))
            continue
        name, path = _name_and_path(text, names)
        if name in files:
            raise WorkloadError(f'--input {text}: input "{name}" is given twice')
        files[name] = Path(path)
    for folder in folders:
        for name in names:
            file = folder / npy_name(name)
            if name not in files and file.exists():
                files[name] = file
    return files


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise WorkloadError(f'--input: needs NAME=FILE.npy, or a folder of them, found "{text}"')
    return Path(text)


def _name_and_path(text: str, names: Sequence[str]) -> tuple[str, str]:
    """Split NAME=FILE at the "=" behind the longest input name that fits.

    A name and a file name may hold "=" themselves: `a=b=c.npy` is b=c.npy for the input a, or
    c.npy for the input a=b, if there is one.
    """
    fitting = [name for name in names if text.startswith(f"{name}=")]
    if not fitting:
        raise WorkloadError(f"--input {text}: {unknown_input(text.partition('=')[0], names)}")
    name = max(fitting, key=len)
    return name, text[len(name) + 1 :]


def _read(path: Path, binding: Binding) -> Array:
    """Return an input's elements; WorkloadError if the file has another shape or type."""
    found = read_npy(path)
    if found.shape != binding.shape:
        raise WorkloadError(f"{path}: {described(binding)}: found shape {list(found.shape)}")
    wanted = data_type(element_type(binding)).numpy
    nameless = (f"V{wanted.itemsize}", f"u{wanted.itemsize}") if wanted in NAMELESS else ()
    if found.dtype.newbyteorder("=") == wanted and not found.dtype.hasobject:
        same: Array = found.astype(wanted)
        return same
    if found.dtype.names is None and found.dtype.newbyteorder("=") in nameless:
        native = np.ascontiguousarray(found, found.dtype.newbyteorder("="))
        bits: Array = native.reshape(found.shape).view(wanted)
        return bits
    also = f", or the bytes of it as {' or '.join(nameless)}" if nameless else ""
    raise WorkloadError(
        f"{path}: {described(binding)}: needed {wanted.name}{also}, found {str(found.dtype)[:60]}"
    )


def picture_elements(module: Module) -> int:
    """Return about how many words a picture of the run would have to show."""
    products = [i for i in module.program.instructions if isinstance(i, MatMul)]
    return sum(i.moving.partitions * i.moving.elements + i.result.elements for i in products)
