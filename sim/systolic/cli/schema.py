"""`systolic schema`: the JSON schema of chip, run and system files."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema_command(kind: Annotated[str, typer.Argument(help="chip, run or system.")]) -> None:
    """Print the JSON schema of chip, run or system files, for editors."""
    from systolic import config
    from systolic.network.system import SystemFile

    typer.echo(json.dumps(config.schema(kind, {"system": SystemFile}), indent=2))
