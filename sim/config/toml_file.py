"""Reading a TOML file into plain values, with every way that can fail as one line.

Not here: what the keys mean.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sim.errors import ConfigError

LIMIT_BYTES = 1 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; ConfigError names the file and, for syntax, the line."""
    try:
        text = _read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}: line {line}: is not UTF-8 text") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of thousands of digits
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None


def _read_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ConfigError(f"{path}: is a directory, not a file")
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is not a file")
        with path.open("rb") as file:
            content = file.read(LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # a zero byte in the name
        raise ConfigError(f"{str(path)!r}: cannot be a file name ({error})") from None
    if len(content) > LIMIT_BYTES:
        raise ConfigError(f"{path}: is larger than {LIMIT_BYTES >> 20} MiB: not a chip or run file")
    return content
