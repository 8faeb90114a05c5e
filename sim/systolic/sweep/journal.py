"""Files of lines that are added one by one, whole or not at all, and a lock that says who writes.

Not here: what the lines mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from systolic.errors import SystolicError

fcntl: Any
try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None


class LineFile:
    """A file to which lines are added. A line that finds no room leaves nothing behind.

    Raises SystolicError, naming the file, if it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0
        self._is_synced = True
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC
        self._file = self._done(lambda: os.open(path, flags, 0o666))

    def add(self, line: bytes) -> None:
        """Add a line, which ends in a newline."""
        self._is_synced = False
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise self._failure(error) from None
        self._size += len(line)

    def sync(self) -> None:
        """Return once all lines are on the disk."""
        if not self._is_synced:
            self._done(lambda: os.fsync(self._file))
            self._is_synced = True

    def lock_as(self, path: Path) -> None:
        """Give the file its name once it bears the lock of this process, which lasts till its end.

        So nobody finds it without a lock while this process lives.
        """
        lock(self._file)
        self._done(lambda: self.path.rename(path))
        self.path = path

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _done(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> SystolicError:
        return SystolicError(f"{self.path}: cannot be written ({error.strerror or error})")


def lock(file: int) -> bool:
    """Take the lock of an open file; False if another process holds it, or there are no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def whole_lines(data: bytes) -> list[bytes]:
    """Return the JSON objects, a line each; what a torn write left at the end is none."""
    return [line for line in data.split(b"\n")[:-1] if line[:1] == b"{" and line[-1:] == b"}"]
