"""`systolic schema`: the JSON schema of chip and run files."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema_command(kind: Annotated[str, typer.Argument(help="chip or run.")]) -> None:
    """Print the JSON schema of chip or run files, for editors."""
    from systolic import config

    typer.echo(json.dumps(config.schema(kind), indent=2))
