"""`systolic compile`: a run file's program after any pass of the compiler."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.options import (
    ChipName,
    Overrides,
    RunFilePath,
    WorkOptions,
    run_file_overrides,
)
from systolic.errors import SystolicError, perhaps


def compile_command(
    config: RunFilePath,
    *,
    after: Annotated[
        str, typer.Option("--after", help="lower, tile, place, schedule or sync.")
    ] = "sync",
    chip: ChipName = None,
    overrides: Overrides = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most lines of a list.")] = 24,
    program: Annotated[
        Path | None,
        typer.Option("--program", help="Write a program file instead (binary if named .bin)."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", help="Write what the run file gives it as .npy, into a folder."),
    ] = None,
) -> None:
    """Print what a pass of the compiler makes of a run file, or write it as a program file."""
    options = WorkOptions(chip=chip, overrides=overrides)
    if program is not None or inputs is not None:
        _write(config, options, program, inputs)
        return
    from systolic.cli.heartbeat import ProgressBar
    from systolic.compiler.show import OLD_NAMES, PASSES
    from systolic.config import load_run
    from systolic.run.execute import compile_run

    after = OLD_NAMES.get(after, after)
    if after not in PASSES:
        known = ", ".join(f'"{name}"' for name in PASSES)
        raise SystolicError(
            f'--after: needs one of {known}, found "{after}"{perhaps(after, PASSES)}'
        )
    with ProgressBar(config.stem, "compiling"):
        compiled = compile_run(load_run(config, run_file_overrides(config, options)))
    for line in PASSES[after](compiled, limit):
        typer.echo(line)


def _write(config: Path, options: WorkOptions, program: Path | None, inputs: Path | None) -> None:
    """Write the program file and the inputs of a run file: all of these files, or none."""
    from systolic.config import load_run
    from systolic.isa import encode, format_text
    from systolic.run.export import export_run, input_arrays
    from systolic.run.folder import npy_name, require_writable
    from systolic.workload import write_npy
    from systolic.writing import Writer, write_all

    require_writable(*[path for path in (program, inputs and inputs / "x.npy") if path])
    loaded = load_run(config, run_file_overrides(config, options))
    exported = export_run(loaded, Path() if program is None else program.parent)
    files: dict[Path, Writer] = {}
    said = []
    if program is not None:
        is_binary = program.suffix.lower() == ".bin"
        module = exported.module
        data = encode(module) if is_binary else format_text(module).encode()
        files[program] = partial(Path.write_bytes, data=data)
        count = len(module.program.instructions)
        said.append(f"{program}: {count} instruction{'s' * (count != 1)}")
    if inputs is not None:
        for name, array in input_arrays(loaded, exported).items():
            files[inputs / npy_name(name)] = partial(write_npy, array=array)
            said.append(f"{inputs / npy_name(name)}: {array.dtype} {list(array.shape)}")
    write_all(files)
    for line in said:
        typer.echo(line)
