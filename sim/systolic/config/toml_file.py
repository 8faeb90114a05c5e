"""Reading a TOML file into plain values; every failure is an error of one line.

Not here: what the keys mean.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from pathlib import Path
from typing import Any

from systolic.errors import ConfigError, shortened
from systolic.reading import first_line, read_file

LIMIT_BYTES = 1 << 20
# The first bytes of programs, so that a program given in place of a run file is recognised.
# `systolic.isa` defines them, which this package may not import.
BINARY_PROGRAM, TEXT_PROGRAM = b"SYSB", b"systolic program"
LONGEST_REASON = 200

# For each key the parser keeps all its beginnings: a key of 50,000 parts takes gigabytes.
MOST_PARTS = 64
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(
    rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS},}}+[ \t]*+[=\]]"
)


def read_toml(path: Path, what: str = "a chip or run file") -> dict[str, Any]:
    """Return the tables of a TOML file; ConfigError names the file and, for syntax, the line.

    what: the kind of file it should be, for messages. A byte-order mark is skipped.
    """
    data = read_file(path, LIMIT_BYTES, ConfigError, "a chip or run file")
    data = data.removeprefix(codecs.BOM_UTF8)
    _refuse_program(path, data, what)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}: line {line}: is not UTF-8 text") from None
    try:
        return parse_toml(text)
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of thousands of digits
        raise ConfigError(
            f"{path}: is not valid TOML: {shortened(str(error), LONGEST_REASON)}"
        ) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        ValueError: it is not valid TOML, or a key has more than MOST_PARTS parts.
        RecursionError: it is nested too deeply.

    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"a key of more than {MOST_PARTS} parts (at line {line})")
    return tomllib.loads(text)


def _refuse_program(path: Path, data: bytes, what: str) -> None:
    """Raise ConfigError for a program, text or binary, given in place of a TOML file."""
    if data.startswith(BINARY_PROGRAM) or first_line(data).startswith(TEXT_PROGRAM):
        raise ConfigError(
            f"{path}: is a program, and {what} is needed here (systolic run, trace, explain, "
            "diff, export, check, at, watch and lint take programs; their names do not end in "
            ".toml)"
        )
