"""The file or override that a value came from, so that an error about the value can name it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from systolic.config.override import Override, origin_of
from systolic.errors import ConfigError, SystolicError


@dataclass(frozen=True, slots=True)
class Blame:
    """Makes errors that name the file or override a value came from."""

    path: Path
    overrides: tuple[Override, ...]

    def line(self, table: str, key: str, text: str, setting: str | None = None) -> ConfigError:
        """Return the one-line error about `key` of `table`, which is "" at the top of the file.

        setting: what it asks the user to give, if anything (`SystolicError`).
        """
        place = (table, key) if table else (key,)
        origin = origin_of(place, self.overrides, str(self.path))
        return ConfigError(f"{origin}: {f'[{table}] ' if table else ''}{key}: {text}", setting)

    @contextmanager
    def on(self, table: str, key: str) -> Iterator[None]:
        """Name the table and key in any error raised inside."""
        try:
            yield
        except SystolicError as error:
            raise self.line(table, key, str(error), error.setting) from None
