"""JSON schemas of chip and run files, for editors that complete and check TOML."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from systolic.config.run_file import RunFile
from systolic.errors import ConfigError, perhaps, shortened
from systolic.hw.spec import Chip

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FILES: dict[str, type[BaseModel]] = {"chip": Chip, "run": RunFile}


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of "chip" or "run" files."""
    if kind not in FILES:
        known = f"(known: {', '.join(FILES)}){perhaps(kind, FILES)}"
        raise ConfigError(f'no schema "{shortened(kind)}" {known}')
    return {"$schema": DRAFT, **FILES[kind].model_json_schema()}
