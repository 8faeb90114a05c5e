"""`systolic import`: a model of another program as a run file with its weights beside it."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from systolic.cli.options import WHEN_REFUSED, ChipName, Inputs, Shapes, shape_overrides
from systolic.errors import SystolicError, shortened

if TYPE_CHECKING:
    from systolic.workload.importers.given import ModelGiven
    from systolic.workload.importers.graph import Imported


def import_command(
    model: Annotated[
        Path | None, typer.Argument(help="Model: HLO text, or ONNX.", metavar="FILE")
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", help="Folder for NAME.toml and NAME.npz."),
    ] = None,
    chip: ChipName = None,
    shapes: Shapes = None,
    inputs: Inputs = None,
    operations: Annotated[
        bool, typer.Option("--operations", help="Print which operations can be done.")
    ] = False,
) -> None:
    """Print which operations a model has; write it as a run file, its weights beside it."""
    from systolic.cli.heartbeat import ProgressBar
    from systolic.workload.importers.models import FORMATS, is_model, read_model

    if operations:
        for line in _table():
            typer.echo(line)
        return
    if model is None:
        raise SystolicError("Missing argument 'FILE': needs a model (systolic import --help)")
    if not is_model(model):
        known = ", ".join(FORMATS)
        raise SystolicError(f"{model}: is no model that can be read (known: {known})")
    with ProgressBar(model.stem, "reading"):
        imported = read_model(model, _given(shapes, inputs))
    for line in _said(imported):
        typer.echo(line)
    if chip is not None:
        _say_refused(imported, chip)
    if out is not None:
        _write(imported, model.stem, out, chip or "ideal_128x128")


def _say_refused(imported: Imported, chip: str) -> None:
    """Print all that a chip cannot do of a model."""
    from systolic.cli.heartbeat import ProgressBar
    from systolic.config.chip_file import find_chip, load_chip
    from systolic.hw.spec import Chip
    from systolic.run.refusals import refusal_text, refusals

    hardware = load_chip(find_chip(chip, Path(), "--chip"))
    if not isinstance(hardware, Chip):
        raise SystolicError(f"--chip: {hardware.name} has several cores, which run programs only")
    with ProgressBar(hardware.name) as progress:
        found = refusals(imported.graph, hardware, progress=progress)
    if not found:
        typer.echo(f"chip        {hardware.name} can do all of it")
        return
    typer.echo(f"refused     by {hardware.name}:")
    for each in found:
        typer.echo(f"            {refusal_text(each, imported.places)}")
    typer.echo(f"            {WHEN_REFUSED}")


def _given(shapes: list[str] | None, inputs: list[str] | None) -> ModelGiven:
    """Return what the options say of a model: sizes, and files of inputs on which shapes depend."""
    from systolic.workload.importers.given import ModelGiven

    sizes = {each.path[-1]: tuple(each.value) for each in shape_overrides(shapes or ())}
    files = {}
    for text in inputs or ():
        name, equals, file = text.partition("=")
        if not equals:
            raise SystolicError(f'--input: needs NAME=FILE.npy, found "{shortened(text)}"')
        files[name] = Path(file)
    return ModelGiven(sizes, files)


def _table() -> list[str]:
    """Return which opcodes of HLO are done, and which are known but not; operators of ONNX."""
    from systolic.workload.importers.hlo.inference import RULES
    from systolic.workload.importers.hlo.interpret import CONTROL
    from systolic.workload.importers.hlo.table import ROWS
    from systolic.workload.importers.onnx.table import ROWS as OPERATORS

    done = {*ROWS, *CONTROL, "parameter", "constant", "iota"}
    operators = {*OPERATORS, "Constant", "If"}
    lines = []
    not_done = {*RULES, "sort", "scatter", "rng"} - done
    for title, names in (
        ("ONNX, done", operators),
        ("HLO, done", done),
        ("HLO, not done", not_done),
    ):
        text = textwrap.fill(", ".join(sorted(names)), 88, break_on_hyphens=False)
        lines += [f"{title}:", textwrap.indent(text, "  ")]
    return lines


def _said(imported: Imported) -> list[str]:
    graph = imported.graph
    counts = Counter(op.kind for op in graph.operations)
    inputs = ", ".join(f"{name} {shape}" for name, shape in _inputs(imported))
    outputs = ", ".join(f"{name} {graph.shape(name)}" for name in imported.outputs)
    size = sum(array.nbytes for array in imported.constants.values())
    known = [f"constants   by --input: {', '.join(imported.known)}"] if imported.known else []
    return [
        f"inputs      {inputs}",
        *known,
        f"outputs     {outputs}",
        f"constants   {len(imported.constants)}, {size:,} bytes",
        f"operations  {', '.join(f'{count} {kind}' for kind, count in counts.most_common())}",
    ]


def _inputs(imported: Imported) -> list[tuple[str, object]]:
    return list(zip(imported.inputs, imported.input_shapes, strict=True))


def _write(imported: Imported, name: str, folder: Path, chip: str) -> None:
    """Write the run file and the weights: both, or none."""
    from functools import partial

    from systolic.cli.heartbeat import HEARTBEAT
    from systolic.config.dump import run_file_text
    from systolic.config.model_tables import model_workload
    from systolic.workload.importers.constants import save_constants
    from systolic.writing import Writer, write_all

    HEARTBEAT.stage("writing")
    weights = f"{name}.npz"
    workload = model_workload(imported, weights)
    text = run_file_text({"chip": chip, "workload": workload})
    files: dict[Path, Writer] = {
        folder / f"{name}.toml": partial(Path.write_text, data=text, encoding="utf-8")
    }
    if imported.constants:
        files[folder / weights] = partial(save_constants, constants=imported.constants)
    write_all(files)
    typer.echo(f"written to {', '.join(map(str, files))}")
