"""The process around a command: its streams, and what the environment says of the screen.

A reader that leaves early (`| head -1`) and a closed stream do not stop a run half-way. A width of
0 columns, or a drawing backend that is not installed, does not keep it from starting. Not here:
tables.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO, cast

from systolic.cli.heartbeat import HEARTBEAT

STANDARD_STREAMS = 3
GARBAGE_THRESHOLD = 200_000
"""How many new objects Python makes before it looks for cycles; its default is 700 to 10,000.

A small run makes some 115,000, and hardly a cycle among them.
"""
LONGEST_ERROR = 400
"""The most characters that are printed of the error of a sweep's point."""
NARROWEST_COLUMNS = 20
"""Fewer columns than this are not believed: tables would be wrapped letter by letter."""


class WatchedStream:
    """A stream whose reader may leave early: text written after that is dropped.

    before: is told each text that is about to be written.
    """

    def __init__(self, stream: TextIO, before: Callable[[str], None]) -> None:
        self._stream, self._before = stream, before

    def write(self, text: str) -> int:
        """Write text, or drop it if the reader has gone."""
        self._before(text)
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _to_null(self._stream.fileno())
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write the buffered text, or drop it if the reader has gone."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            _to_null(self._stream.fileno())
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def leave() -> None:
    """Make the end of this process short: nothing that is left is looked through for cycles."""
    HEARTBEAT.end()
    gc.freeze()


def settle() -> None:
    """Make the streams and the environment of this process fit for any command."""
    # Imports take half of a small run's time, and make many objects and no garbage.
    gc.set_threshold(GARBAGE_THRESHOLD)
    # Else pydantic reads the metadata of every installed package to find plug-ins of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _open_closed_streams()
    _let_heart_beat()
    # Pictures are drawn without a backend, but a wrong one would stop matplotlib's import.
    os.environ.pop("MPLBACKEND", None)
    columns = os.environ.pop("COLUMNS", "")
    if _is_width(columns):
        os.environ["COLUMNS"] = str(max(int(columns), NARROWEST_COLUMNS))


def _let_heart_beat() -> None:
    """Watch over the streams: what a command is at is shown where its errors would be."""
    out, errors = sys.stdout, sys.stderr
    is_seen = errors.isatty()
    if is_seen:
        HEARTBEAT.begin(" ".join(["systolic", *sys.argv[1:2]]), errors)
        sys.stderr = cast(TextIO, WatchedStream(errors, HEARTBEAT.before_writing))
    tells = is_seen and out.isatty()
    before = HEARTBEAT.before_writing if tells else _nothing_before
    sys.stdout = cast(TextIO, WatchedStream(out, before))


def _nothing_before(text: str) -> None:
    """Do nothing before a text that no terminal shows."""


def _open_closed_streams() -> None:
    """Open the null device in place of every standard stream that is closed.

    The system gives the lowest free number to the next file that is opened. If standard output
    were closed, that file would become standard output. Python has None for a closed stream.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < STANDARD_STREAMS:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _to_null(number: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def _is_width(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) > 0
