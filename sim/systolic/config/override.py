"""Values that replace values of a file: a text `a.b.c=VALUE`, or a value of a sweep's point.

An override is applied to the plain tables before they are validated. So it can reach every key, and
its value is checked like any other. An error about that value names the override, not the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from systolic.config.toml_file import parse_toml
from systolic.errors import ConfigError, printable, shortened

LONGEST_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Override:
    """Put `value` at the dotted key `path`.

    origin: how messages call the override. folder: the folder that a file name in `value` starts
    from; None is the folder of the file that is overridden. text: KEY=VALUE, as a user wrote it;
    None if no user did.
    """

    path: tuple[str, ...]
    value: Any
    origin: str
    folder: Path | None = None
    text: str | None = None

    @classmethod
    def parse(cls, text: str, called: str = "override") -> Override:
        """Return the override that a text such as ``a.b.c=VALUE`` means.

        VALUE is read as TOML; if it is not TOML, it is a string. File names in it start from the
        current directory. `called` is the word that messages put before the text.
        """
        key, equals, value = text.partition("=")
        origin = f"{called} {shortened(text, LONGEST_SHOWN)}"
        path = split_key(key.strip(), origin)
        if not equals:
            raise ConfigError(f"{origin}: needs the form key=VALUE")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{printable(origin)}: is not UTF-8 text") from None
        return cls(path, toml_value(value.strip()), origin, Path(), text)

    def below(self, first: str) -> Override | None:
        """Return the override without the first word of its key; None if that is not `first`."""
        if self.path[0] == first and len(self.path) > 1:
            return replace(self, path=self.path[1:])
        return None


def split_key(key: str, origin: str) -> tuple[str, ...]:
    """Return the words of a dotted key; ConfigError if one is empty."""
    words = tuple(word.strip() for word in key.split("."))
    if not all(words):
        raise ConfigError(
            f'{origin}: "{shortened(key)}" is not a dotted key such as workload.shape'
        )
    return words


def toml_value(text: str) -> Any:
    """Return text as a TOML value, or unchanged if it is not one."""
    try:
        table = parse_toml(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text


def apply(tables: dict[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """Return new tables with all overrides made, in order."""
    for override in overrides:
        tables = _with(tables, override.path, override)
    return tables


def _with(tables: dict[str, Any], path: tuple[str, ...], override: Override) -> dict[str, Any]:
    if len(path) == 1:
        return {**tables, path[0]: override.value}
    inner = tables.get(path[0], {})
    if not isinstance(inner, dict):
        outer = ".".join(override.path[: len(override.path) - len(path) + 1])
        raise ConfigError(f"{override.origin}: {shortened(outer)} is a value, not a table")
    return {**tables, path[0]: _with(inner, path[1:], override)}


def origin_of(place: tuple[str | int, ...], overrides: Sequence[Override], file: str) -> str:
    """Return the name, for messages, of the override or the file that set the value at `place`.

    If overrides set only parts of the value, the name has the file and these overrides.
    """
    setter = setter_of(place, overrides)
    if setter:
        return setter.origin
    parts = [o.origin for o in overrides if o.path[: len(place)] == place]
    return " ".join([file, "with", *parts]) if parts else file


def setter_of(place: tuple[str | int, ...], overrides: Iterable[Override]) -> Override | None:
    """Return the last override that set the value at `place`, or a table it is in."""
    return next((o for o in reversed([*overrides]) if place[: len(o.path)] == o.path), None)
