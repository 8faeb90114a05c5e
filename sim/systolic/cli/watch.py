"""`systolic watch`: when a word changes, or first differs from a value."""

from __future__ import annotations

from typing import Annotated

import typer

from systolic.cli.options import Overrides, RunFilePath, is_number, set_values
from systolic.errors import SystolicError, perhaps
from systolic.isa import Buffer


def watch_command(
    config: RunFilePath,
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
    loaded = load_run(config, set_values(overrides))
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


def _word(text: str) -> tuple[Buffer, int, int]:
    parts = text.split(":")
    names = [buffer.value for buffer in Buffer]
    if len(parts) != 3 or not all(map(is_number, parts[1:])):
        raise SystolicError(
            f'--word: needs BUFFER:PARTITION:ADDRESS such as result_buffer:0:3, found "{text}"'
        )
    if parts[0] not in names:
        raise SystolicError(
            f'--word: there is no buffer "{parts[0]}" ({", ".join(names)})'
            f"{perhaps(parts[0], names)}"
        )
    return Buffer(parts[0]), int(parts[1]), int(parts[2])
