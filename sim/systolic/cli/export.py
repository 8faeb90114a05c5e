"""`systolic export`: what was observed in a run, as a file for another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.explain import timed
from systolic.cli.options import ChipName, Config, NoCheck, Overrides, WorkOptions
from systolic.errors import SystolicError, perhaps, printable
from systolic.reading import real_path
from systolic.report.summary.wording import plural


def export_command(
    form: Annotated[
        str, typer.Argument(help="Of the file: perfetto, vcd, parquet.", metavar="FORMAT")
    ],
    config: Config,
    *,
    out: Annotated[Path, typer.Option("--out", "--output", help="File to write.")],
    chip: ChipName = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
) -> None:
    """Run a run file or a program for its times, and write what was observed in a format."""
    from systolic.run.folder import require_writable
    from systolic.trace.exports.table import FORMATS, require_library

    if form not in FORMATS:
        known = ", ".join(FORMATS)
        raise SystolicError(
            f'FORMAT: there is no "{form}" (known: {known}){perhaps(form, FORMATS)}'
        )
    require_library(form)
    require_writable(out)
    if real_path(out) == real_path(config):
        raise SystolicError(f"{out}: this run reads it; needed another file (--out FILE)")
    from systolic.run.observe import observed
    from systolic.writing import replacing

    options = WorkOptions(chip=chip, overrides=overrides, no_check=no_check, values=False)
    result = timed(config, options)
    with replacing(out) as path, path.open("wb") as file:
        FORMATS[form].write(observed(result), file)
    typer.echo(f"{printable(str(out))}: {plural(result.cycles, 'cycle')}")
