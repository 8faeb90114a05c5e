"""`systolic at`: the machine as it stands at the end of one cycle."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from systolic.cli.options import (
    ChipName,
    Config,
    EngineOption,
    Inputs,
    NoCheck,
    Overrides,
    WorkOptions,
    is_number,
    of_option,
)
from systolic.errors import SystolicError


def at_command(
    config: Config,
    *,
    cycle: Annotated[int, typer.Option("--cycle", help="Cycle of the array, from 0.")],
    core: Annotated[
        str, typer.Option("--core", help="Of several cores the one to show (default: core0).")
    ] = "",
    pe: Annotated[str | None, typer.Option("--pe", metavar="ROW,COL", help="One PE only.")] = None,
    engine: EngineOption = None,
    chip: ChipName = None,
    inputs: Inputs = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, no drawing.")] = False,
) -> None:
    """Show every PE and the buffers as they stand at the end of a cycle."""
    from systolic.cli.recorded import recorded_run
    from systolic.run import snapshot as snapshots
    from systolic.run.verdict import require_right

    where = _pe(pe)
    options = WorkOptions(engine, chip, inputs, overrides, no_check)
    found = recorded_run(config, options, snapshots.WRITES, grid=True)
    at = snapshots.core_of(found.result, core, "--core")
    with of_option("--cycle"):
        shot = snapshots.snapshot(found.result, found.images_of(at), cycle, at)
    with of_option("--pe"):
        data = snapshots.as_json(shot, where)
    typer.echo(json.dumps(data) if as_json else _text(data))
    require_right(found.result.summary)


def _pe(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(is_number(part.strip()) for part in parts):
        raise SystolicError(f'--pe: needs ROW,COL such as 2,3, found "{text}"')
    return int(parts[0]), int(parts[1])


def _text(data: dict[str, object]) -> str:
    """Return the planes as tables of text."""
    lines = [f"end of cycle {data['cycle']}"]
    planes = data["pe_array"]
    assert isinstance(planes, dict)
    for name, plane in planes.items():
        if not isinstance(plane, list):
            lines.append(f"{name:>8} {plane}")
            continue
        lines.append(name)
        width = max(len(str(value)) for row in plane for value in row)
        lines += ["  " + " ".join(f"{value!s:>{width}}" for value in row) for row in plane]
    for buffer in ("result_buffer", "state_buffer"):
        counts = data[buffer]
        assert isinstance(counts, dict)
        for what, numbers in counts.items():
            lines.append(f"{buffer} {what.replace('_', ' ')}: {' '.join(map(str, numbers))}")
    return "\n".join(lines)
