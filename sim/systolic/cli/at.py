"""`systolic at` and `systolic watch`: the machine in one cycle, and when a word changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from systolic.errors import SystolicError, perhaps
from systolic.isa import Buffer

LONGEST_NUMBER = 18
Config = Annotated[Path, typer.Argument(help="Run file.", metavar="CONFIG")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="As for run.")
]


def at_command(
    config: Config,
    cycle: Annotated[int, typer.Option("--cycle", help="Cycle of the array, from 0.")],
    pe: Annotated[str | None, typer.Option("--pe", metavar="ROW,COL", help="One PE only.")] = None,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, no drawing.")] = False,
) -> None:
    """Show every PE and the buffers as they stand at the end of a cycle."""
    from systolic.config import load_run
    from systolic.run import snapshot as snapshots
    from systolic.run.execute import initial_images, run
    from systolic.run.verdict import require_right

    where = _pe(pe)
    loaded = load_run(config, overrides or [])
    result = run(loaded, kinds=snapshots.WRITES, grid=True)
    images = initial_images(loaded, result)
    shot = snapshots.snapshot(result, images, cycle)
    data = snapshots.as_json(shot, where)
    typer.echo(json.dumps(data) if as_json else _text(data))
    require_right(result.summary)


def watch_command(
    config: Config,
    word: Annotated[
        str, typer.Option("--word", metavar="BUFFER:PARTITION:ADDRESS", help="Element to watch.")
    ],
    differs: Annotated[
        str | None, typer.Option("--differs-from", metavar="VALUE", help="A reference value.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Print every write of one word; or the first cycle in which it differs from a value."""
    from systolic.config import load_run
    from systolic.machine import Memory
    from systolic.run import snapshot as snapshots
    from systolic.run.execute import initial_images, run
    from systolic.run.verdict import require_right

    buffer, partition, address = _word(word)
    loaded = load_run(config, overrides or [])
    result = run(loaded, kinds=snapshots.WRITES)
    memory = Memory(result.chip, result.program, initial_images(loaded, result))
    dtype = snapshots.element_type(loaded)
    if buffer is Buffer.RESULT:
        dtype = "s32" if dtype in ("s8", "u8", "s32") else "f32"
    initial = snapshots.initial_value(memory, buffer, partition, address, dtype)
    writes = snapshots.changes(result, buffer, partition, address)
    if differs is not None:
        found = snapshots.first_difference(writes, initial, differs)
        typer.echo(
            f"cycle {found.cycle}: {found.value} ({found.unit})"
            if found
            else f"never differs from {differs}"
        )
        require_right(result.summary)
        return
    typer.echo(f"initially {initial}")
    for change in writes:
        typer.echo(f"cycle {change.cycle}: {change.value} ({change.unit})")
    first = snapshots.first_change(writes, initial)
    typer.echo(f"first change in cycle {first.cycle}" if first else "never changes")
    require_right(result.summary)


def _pe(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(_is_number(part.strip()) for part in parts):
        raise SystolicError(f'--pe: needs ROW,COL such as 2,3, found "{text}"')
    return int(parts[0]), int(parts[1])


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= LONGEST_NUMBER


def _word(text: str) -> tuple[Buffer, int, int]:
    parts = text.split(":")
    names = [buffer.value for buffer in Buffer]
    if len(parts) != 3 or not all(map(_is_number, parts[1:])):
        raise SystolicError(
            f'--word: needs BUFFER:PARTITION:ADDRESS such as result_buffer:0:3, found "{text}"'
        )
    if parts[0] not in names:
        raise SystolicError(
            f'--word: there is no buffer "{parts[0]}" ({", ".join(names)})'
            f"{perhaps(parts[0], names)}"
        )
    return Buffer(parts[0]), int(parts[1]), int(parts[2])


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
