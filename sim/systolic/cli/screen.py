"""The process around a command: its streams, and what the environment says of the screen.

A reader that leaves (`| head -1`) and a closed stream are no reason to leave a run half done, and a
width of 0 columns or a drawing backend that is not there are none to refuse it. Not here: tables.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

STANDARD_STREAMS = 3
GARBAGE_THRESHOLD = 20_000
"""New objects until Python looks for cycles among them; 700 to 10,000 are its own choices."""
NARROWEST_COLUMNS = 20
"""On a screen said to be narrower lines are wrapped by the screen, not letter by letter."""


class Stdout:
    """Standard output that a reader may leave: what is written after that goes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, or drop it if nobody reads any more."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _to_nobody(self._stream.fileno())
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is buffered, or drop it if nobody reads any more."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            _to_nobody(self._stream.fileno())
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def settle() -> None:
    """Make the streams and the environment of this process fit for any command."""
    # Half of a small run's time is imports, which make many objects and no garbage.
    gc.set_threshold(GARBAGE_THRESHOLD)
    # pydantic would read the metadata of every installed package for plug-ins; there is none here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _open_closed_streams()
    sys.stdout = cast(TextIO, Stdout(sys.stdout))
    # The pictures are drawn without a backend; a wrong one would stop matplotlib's import.
    os.environ.pop("MPLBACKEND", None)
    columns = os.environ.pop("COLUMNS", "")
    if _is_width(columns):
        os.environ["COLUMNS"] = str(max(int(columns), NARROWEST_COLUMNS))


def _open_closed_streams() -> None:
    """Give the null device to every standard stream that was closed, before a file gets its number.

    Python says None of a closed stream; the next file opened would become standard output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < STANDARD_STREAMS:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _to_nobody(number: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def _is_width(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) > 0
