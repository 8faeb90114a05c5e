"""`systolic watch`: when a word changes, or first differs from a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

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
)
from systolic.errors import SystolicError, perhaps
from systolic.hw.spec.places import split as split_place
from systolic.isa import Buffer

if TYPE_CHECKING:
    from systolic.run.snapshot import Change


def watch_command(
    config: Config,
    word: Annotated[
        str, typer.Option("--word", metavar="BUFFER:PARTITION:ADDRESS", help="Element to watch.")
    ],
    *,
    differs: Annotated[
        str | None, typer.Option("--differs-from", metavar="VALUE", help="A reference value.")
    ] = None,
    engine: EngineOption = None,
    chip: ChipName = None,
    inputs: Inputs = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
) -> None:
    """Print every write of one word; or the first cycle in which it differs from a value.

    On a chip of several cores its buffer has the name of a core, such as core1.state_buffer:0:3.

    The word is an element of the type in which the run first reaches it.
    """
    from systolic.cli.recorded import recorded_run
    from systolic.run import snapshot as snapshots
    from systolic.run.verdict import require_right

    at, rest = split_place(word)
    place = snapshots.Place(*_word(rest))
    options = WorkOptions(engine, chip, inputs, overrides, no_check)
    found = recorded_run(config, options, snapshots.WRITES)
    at = snapshots.core_of(found.result, at, "--word")
    dtype = snapshots.type_of_word(found.result, found.images_of(at), place, at)
    initial = snapshots.initial_value(found.memory(at), place, dtype)
    writes = snapshots.changes(found.result, place, dtype, at)
    for line in (
        _lines(writes, initial) if differs is None else _differing(writes, initial, differs)
    ):
        typer.echo(line)
    require_right(found.result.summary)


def _lines(writes: Sequence[Change], initial: str) -> Iterator[str]:
    from systolic.run.snapshot import first_change

    yield f"initially {initial}"
    for change in writes:
        yield f"cycle {change.cycle}: {change.value} ({change.unit})"
    first = first_change(writes, initial)
    yield f"first change in cycle {first.cycle}" if first else "never changes"


def _differing(writes: Sequence[Change], initial: str, value: str) -> Iterator[str]:
    from systolic.run.snapshot import first_difference

    found = first_difference(writes, initial, value)
    yield (
        f"cycle {found.cycle}: {found.value} ({found.unit})"
        if found
        else f"never differs from {value}"
    )


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
