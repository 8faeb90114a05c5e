"""`systolic explain`: why does a run take its cycles, and what would make it shorter?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from systolic.cli.options import (
    ChipName,
    Config,
    Inputs,
    NoCheck,
    Overrides,
    Shapes,
    WorkOptions,
    is_program,
    run_file_overrides,
)
from systolic.cli.tables import MOST_ROWS, table
from systolic.errors import SystolicError, printable
from systolic.report.summary.wording import number, percent, plural

if TYPE_CHECKING:
    from systolic.config import RunConfig
    from systolic.run.explanation import Explanation, LongLink
    from systolic.run.result import Result

MOST_SHARERS = 3
"""The most copies that are named as sharing a link's bandwidth. JSON has all of them."""


def explain_command(
    config: Config,
    *,
    chip: ChipName = None,
    inputs: Inputs = None,
    shapes: Shapes = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, no tables.")] = False,
    no_what_if: Annotated[
        bool, typer.Option("--no-what-if", help="Simulate nothing but the run itself.")
    ] = False,
) -> None:
    """Say why a run takes its cycles: critical path, longest links, slack, and what if."""
    from systolic.cli.heartbeat import HEARTBEAT
    from systolic.run.explanation import explain
    from systolic.run.system import is_system_file

    options = WorkOptions(
        chip=chip, inputs=inputs, shapes=shapes, overrides=overrides, no_check=no_check,
        values=False,
    )  # fmt: skip
    if config.suffix.lower() == ".toml" and is_system_file(config):
        from systolic.cli.explain_system import explain_system_file

        explain_system_file(config, options, as_json=as_json)
        return
    result = timed(config, options)
    HEARTBEAT.stage("explaining")
    found = explain(result, outlooks=not no_what_if)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    for line in text(found):
        typer.echo(line)


def timed(config: Path, options: WorkOptions) -> Result:
    """Return the result of a run file or a program, run for its times by the event engine."""
    if is_program(config):
        from systolic.cli.run_program import prepare, run_job

        return run_job(prepare(config, options))
    from systolic.cli.heartbeat import ProgressBar
    from systolic.run.execute import run

    loaded = load_one(config, options)
    with ProgressBar(loaded.name) as progress:
        return run(loaded, engine="event", values=False, progress=progress)


def load_one(config: Path, options: WorkOptions) -> RunConfig:
    """Return the run of a run file; SystolicError if it is a sweep."""
    from systolic.config import load_run

    loaded = load_run(config, run_file_overrides(config, options))
    if loaded.sweep:
        raise SystolicError(
            f"{config}: is a sweep; --set sweep=[] takes the run that its points vary"
        )
    return loaded


def text(found: Explanation) -> Iterator[str]:
    """Yield the lines that a person reads."""
    name, chip = printable(found.run), printable(found.chip)
    yield f"{name} on {chip}: {plural(found.cycles, 'cycle')}"
    yield ""
    yield from _path(found)
    yield ""
    yield from _transposed(found)
    yield from _links(found)
    yield ""
    yield from _slack(found)
    if found.outlooks:
        yield ""
        yield from _outlooks(found)


def _path(found: Explanation) -> Iterator[str]:
    rows = [
        (
            number(row.cycles),
            percent(row.cycles, found.cycles),
            row.unit,
            row.reason,
            printable(row.operation or ""),
        )
        for row in found.path[:MOST_ROWS]
    ]
    rest = found.path[MOST_ROWS:]
    if rest:
        cycles = sum(row.cycles for row in rest)
        what = f"{plural(len(rest), 'other row')} (--json has all)"
        rows.append((number(cycles), percent(cycles, found.cycles), "", what, ""))
    yield "critical path: what the end of the run waited for, back to cycle 0"
    header = ("cycles", "share", "unit", "reason", "operation")
    shown = len(header) if any(row.operation for row in found.path) else len(header) - 1
    yield from table(header[:shown], [row[:shown] for row in rows], numbers=2)
    yield from _ties(found)


def _ties(found: Explanation) -> Iterator[str]:
    """Yield which instructions beside the path are as critical as those on it, if there are any."""
    ties = {row.unit: row.ties for row in found.slack if row.ties}
    if ties:
        count = sum(ties.values())
        units = ", ".join(f"{unit} {number(each)}" for unit, each in ties.items())
        have = "has" if count == 1 else "have"
        yield f"  ties: {plural(count, 'instruction')} beside this path {have} no slack ({units})."
        yield "  Paths through them are as long, so less of one row gains less than its share."


def _transposed(found: Explanation) -> Iterator[str]:
    from systolic.report.summary.transposed import transposed_texts

    lines = transposed_texts({"operations": found.operations})
    if lines:
        yield "layouts: what is transposed before it is multiplied"
        yield from (f"  {printable(line)}" for line in lines)
        yield ""


def _links(found: Explanation) -> Iterator[str]:
    rows = [
        (
            number(link.end - link.start),
            number(link.start),
            number(link.end),
            f"#{link.instruction} {link.name}",
            link.unit,
            _why(link),
        )
        for link in found.links
    ]
    yield "longest links: the path was with one instruction, most of it for the reason named"
    header = ("cycles", "from", "to", "instruction", "unit", "reason")
    yield from table(header, rows, numbers=3)


def _why(link: LongLink) -> str:
    """Return what most of a link was; of a shared bandwidth with the copies that shared it."""
    from systolic.run.copy_times import SHARING

    if not link.reason.startswith(SHARING):
        return link.reason
    copies = ", ".join(f"#{number}" for number in link.shared_with[:MOST_SHARERS])
    more = len(link.shared_with) - MOST_SHARERS
    return f"{link.reason}: {copies}" + (f" and {more} more" if more > 0 else "")


def _slack(found: Explanation) -> Iterator[str]:
    rows = [
        (
            row.unit,
            *map(number, (row.instructions, row.on_path, row.critical)),
            *map(number, (row.least, row.median, row.most)),
        )
        for row in found.slack
    ]
    yield "slack: how many cycles later an instruction could come and the run be no longer"
    header = ("unit", "instructions", "on the path", "no slack", "least", "median", "most")
    yield from table(header, rows, numbers=-6)


def _outlooks(found: Explanation) -> Iterator[str]:
    rows = [
        (
            each.change.what,
            number(each.cycles),
            _change(each.cycles, found.cycles),
            "the chip is so already" if each.already else each.program,
        )
        for each in found.outlooks
    ]
    yield "what if: one thing made ideal at a time"
    yield from table(("change", "cycles", "", ""), rows, numbers=(1, 2))


def _change(cycles: int, before: int) -> str:
    if cycles == before:
        return "="
    sign = "-" if cycles < before else "+"
    return f"{sign}{percent(abs(cycles - before), before)}"
