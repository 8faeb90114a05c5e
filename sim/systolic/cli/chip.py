"""`systolic chip`: the shipped chips, and the values of a chip with where each comes from.

Not here: what the values mean (`systolic schema chip`).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from systolic.errors import SystolicError, perhaps, shortened

if TYPE_CHECKING:
    from systolic.config.chip_values import ChipValue
    from systolic.hw.spec import Chip, MultiCoreChip

ACTIONS = ("show", "list")


def chip_command(
    action: Annotated[str, typer.Argument(help="show or list.", metavar="ACTION")],
    chip: Annotated[
        str | None, typer.Argument(help="To show: a chip's name or file.", metavar="[CHIP]")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the shipped chips, or show every value of one with its mark and its source."""
    if action not in ACTIONS:
        known = ", ".join(ACTIONS)
        raise SystolicError(
            f"no action '{shortened(action)}' (known: {known}){perhaps(action, ACTIONS)}"
        )
    if action == "list":
        if chip is not None:
            raise SystolicError(f"list takes no chip, found '{shortened(chip)}'")
        _list(as_json)
    elif chip is None:
        raise SystolicError("show needs the name or the file of a chip")
    else:
        _show(chip, as_json)


def _list(as_json: bool) -> None:
    from systolic.config import load_chip
    from systolic.shipped import CHIPS

    chips = {path.stem: load_chip(path).description for path in sorted(CHIPS.glob("*.toml"))}
    if as_json:
        found = [{"name": name, "description": text} for name, text in chips.items()]
        typer.echo(json.dumps(found, indent=2))
        return
    width = max(map(len, chips))
    for name, text in chips.items():
        typer.echo(f"{name:{width}}  {text}")


def _show(name: str, as_json: bool) -> None:
    from systolic.config import load_chip
    from systolic.config.chip_file import find_chip
    from systolic.config.chip_values import chip_values

    chip = load_chip(find_chip(name, Path(), "chip show"))
    values = chip_values(chip)
    if as_json:
        typer.echo(json.dumps(_facts(chip, values), indent=2, ensure_ascii=False))
    else:
        _print(chip, values)


def _facts(chip: Chip | MultiCoreChip, values: list[ChipValue]) -> dict[str, Any]:
    """Return what `--json` prints."""
    told = chip.provenance
    return {
        "name": chip.name,
        "description": chip.description,
        "values": [
            {"key": v.key, "value": v.value, "mark": v.mark, "source": v.source} for v in values
        ],
        "contradictions": [
            {"key": key, "text": text}
            for key, text in (told.contradictions if told else {}).items()
        ],
        "references": dict(told.references) if told else {},
    }


def _print(chip: Chip | MultiCoreChip, values: list[ChipValue]) -> None:
    from systolic.config.dump import toml_text

    typer.echo(f"{chip.name}: {chip.description}\n")
    width = max(len(value.key) for value in values)
    for value in values:
        mark = f"{value.mark}: {value.source}" if value.source else value.mark
        typer.echo(f"{value.key:{width}}  {toml_text(value.value)}  {mark}".rstrip())
    if chip.provenance:
        _print_texts("sources that contradict one another", chip.provenance.contradictions)
        _print_texts("sources", chip.provenance.references)
    counts = Counter(value.mark or "without a source" for value in values)
    typer.echo("\n" + ", ".join(f"{count} {mark}" for mark, count in counts.most_common()))


def _print_texts(title: str, texts: dict[str, str]) -> None:
    if texts:
        typer.echo(f"\n{title}:")
    for key, text in texts.items():
        typer.echo(f"  {key}: {text}")
