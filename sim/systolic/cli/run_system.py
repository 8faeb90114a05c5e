"""The run of a system file for `systolic run`: its table on the screen, its summary in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from systolic.cli.options import WorkOptions, set_values
from systolic.cli.run_file import summary_text, summary_writer
from systolic.cli.tables import table
from systolic.errors import InterruptedRunError, SystolicError, perhaps, printable
from systolic.report.summary.wording import number, percent, plural
from systolic.run.folder import SUMMARY, RunFolder

if TYPE_CHECKING:
    from systolic.run.system import System, SystemResult

ENGINES = ("event", "stepped")
SHOWN_LINKS = 8


def system_of(path: Path, options: WorkOptions) -> System:
    """Return the system of a file with its options; SystolicError for one that means nothing."""
    from systolic.config import Override
    from systolic.run.system import load_system

    given = {
        "--chip": options.chip,
        "--input": options.inputs,
        "--shape": options.shapes,
        "--layers": options.layers,
        "--images": options.images,
        "--no-check": options.no_check,
    }
    for option, value in given.items():
        if value:
            raise SystolicError(f"{option}: means nothing here: {path} is a system file")
    overrides = set_values(options.overrides)
    engine = options.engine
    if engine is not None:
        if engine not in ENGINES:
            raise SystolicError(
                f'--engine: a system file needs one of "event", "stepped", found "{engine}"'
                f"{perhaps(engine, ENGINES)}"
            )
        text = f"engine={engine}"
        overrides.append(Override(("engine",), engine, "--engine", Path(), text))
    return load_system(path, overrides)


def run_system_and_report(system: System, out: Path, *, as_json: bool) -> None:
    """Run, print (the table, or exactly summary.json), and write summary.json to a folder."""
    from systolic.run.system import run_system

    folder = RunFolder(out)
    folder.check([SUMMARY], [system.path])
    try:
        result = run_system(system)
    except KeyboardInterrupt:
        text = f"{system.name}: interrupted; no file was written"
        raise InterruptedRunError(text) from None
    folder.replace({SUMMARY: summary_writer(result.summary)})
    if as_json:
        sys.stdout.write(summary_text(result.summary))
        return
    for line in text_of(result):
        typer.echo(printable(line))
    typer.echo(printable(f"  written to {out}/"))


def text_of(result: SystemResult) -> Iterator[str]:
    """Yield the lines that a person reads: what moved, and the busiest links."""
    summary, network = result.summary, result.system.network
    yield f"{summary['run']} on {described(network)}: {plural(summary['cycles'], 'cycle')}"
    yield ""
    rows = [
        ("messages", number(summary["messages"])),
        ("packets", number(summary["packets"])),
        ("packet hops", number(summary["packet_hops"])),
        ("bytes sent and received", number(summary["received_bytes"])),
        ("deepest queue at a target", plural(summary["deepest_queue_packets"], "packet")),
    ]
    yield from table(("", ""), rows, numbers=-1)
    yield ""
    yield from _links(summary)


def described(network: Any) -> str:
    """Return a network in a few words: ``torus 4 x 4, 64 links``."""
    shape = " x ".join(map(str, network.shape))
    kind = f"{network.kind} {shape}".strip() if network.kind != "file" else "a network"
    return f"{kind}, {plural(len(network.nodes), 'node')}, {plural(len(network.links), 'link')}"


def _links(summary: Mapping[str, Any]) -> Iterator[str]:
    cycles, links = max(summary["cycles"], 1), summary["links"]
    ordered = sorted(links, key=lambda each: (-each["busy_cycles"], -each["blocked_cycles"]))
    yield f"busiest of {plural(len(links), 'link')} (shares of cycles; blocked: no credit)"
    rows = [
        (
            percent(each["busy_cycles"], cycles),
            percent(each["blocked_cycles"], cycles),
            f"{each['link']}",
            f"{each['source']} -> {each['target']}",
        )
        for each in ordered[:SHOWN_LINKS]
    ]
    yield from table(("sending", "blocked", "link", ""), rows, numbers=3)
