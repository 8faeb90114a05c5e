"""`systolic run --partial`: what the chip cannot do is done on the host, and said."""

from __future__ import annotations

from pathlib import Path

import typer

from systolic.cli.heartbeat import ProgressBar
from systolic.cli.run_file import (
    array_writers,
    run_and_report,
    summary_text,
    summary_writer,
)
from systolic.config import RunConfig
from systolic.run.folder import SUMMARY, RunFolder, npy_name
from systolic.run.partial import PartialResult, refused_operations, run_partial


def partial_and_report(
    config: RunConfig, out: Path, *, as_json: bool, plots: bool, values: bool
) -> None:
    """Run a graph as usual if the chip can do all of it, else in parts; print and write results."""
    with ProgressBar(config.name) as progress:
        refused = refused_operations(config.graph, config.chip, config.options, progress)
    if not refused:
        run_and_report(config, out, as_json=as_json, plots=plots, values=values)
        return
    folder = RunFolder(out)
    names = {name: npy_name(name) for name in config.graph.outputs}
    folder.check([SUMMARY, *names.values()])
    inputs = config.load_inputs() if values else {}
    with ProgressBar(config.name) as progress:
        result = run_partial(
            config.graph, config.chip, inputs, config.options, values=values, progress=progress
        )
    summary = _summary(config, result)
    arrays = array_writers(names, result.outputs)
    folder.replace({SUMMARY: summary_writer(summary), **arrays})
    if as_json:
        typer.echo(summary_text(summary), nl=False)
    else:
        for line in _lines(config, result, out):
            typer.echo(line)


def _summary(config: RunConfig, result: PartialResult) -> dict[str, object]:
    return {
        "run": config.name,
        "chip": config.chip.name,
        "cycles": result.cycles,
        "host": [
            {"operation": s.operation, "op": s.kind, "why": s.why, "bytes_moved": s.bytes_moved,
             "cycles": 0}
            for s in result.host
        ],
        "outputs": {name: {"file": npy_name(name)} for name in result.outputs},
        "parts": [part.summary for part in result.parts],
    }  # fmt: skip


def _lines(config: RunConfig, result: PartialResult, out: Path) -> list[str]:
    parts = len(result.parts)
    moved = sum(step.bytes_moved for step in result.host)
    right = all(part.summary["values"].get("equal", True) for part in result.parts)
    return [
        "",
        f"  {config.name}  on {config.chip.name}, in part",
        "",
        f"  length   {result.cycles:,} cycles of the chip, in {parts} part{'s' * (parts != 1)}",
        f"  host     {len(result.host)} operation{'s' * (len(result.host) != 1)}, {moved:,} bytes "
        f"in and out, 0 cycles of the chip",
        *(f"           {step.operation} ({step.kind}): {step.why}" for step in result.host),
        "",
        f"  results of the parts equal numpy's: {'yes' if right else 'no'}",
        f"  written to {out}/",
    ]
