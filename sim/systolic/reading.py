"""Reading the user's files: only regular files, and no more bytes than a limit.

Every reader (chip and run files, programs, data, pinned counts) asks here first. Not here: what
the bytes mean, and writing (`systolic.writing`).
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from systolic.errors import SystolicError, printable, shortened

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
LONGEST_NAME = 200


def check_file(path: Path, error: type[SystolicError]) -> int:
    """Return the size of a regular file in bytes; raise `error` if the path is no such file.

    Nothing is opened, so a pipe without a writer cannot hold this up.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        raise error(f"{shown(path)}: no such file") from None
    except OSError as reason:
        raise error(f"{shown(path)}: cannot be read ({reason.strerror or reason})") from None
    except ValueError as reason:  # a zero byte, or half a surrogate pair, in the name
        raise error(f"{shown(path)}: cannot be a file name ({reason})") from None
    for is_kind, name in _KINDS:
        if is_kind(found.st_mode):
            raise error(f"{shown(path)}: is {name}, not a file")
    return found.st_size


def read_file(path: Path, limit: int, error: type[SystolicError], what: str) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes (1 MiB or more of them).

    Raises:
        error: the file cannot be read, is no regular file, or is larger. The message names the
            file and `what` it should have been ("a chip or run file").

    """
    size = check_file(path, error)
    try:
        with path.open("rb") as file:
            # Some files say 0 and hold more (as files of /proc).
            data = b"" if size > limit else file.read(limit + 1)
    except OSError as reason:
        raise error(f"{shown(path)}: cannot be read ({reason.strerror or reason})") from None
    if max(size, len(data)) > limit:
        raise error(f"{shown(path)}: is larger than {limit >> 20} MiB: not {what}")
    return data


def real_path(path: Path) -> Path:
    """Return the absolute path without links; one that leads round in a circle stays."""
    return Path(os.path.realpath(path))


def first_line(data: bytes) -> bytes:
    """Return the first line that is neither blank nor a comment (#); b"" if there is none."""
    lines = (line.strip() for line in io.BytesIO(data))
    return next((line for line in lines if line and not line.startswith(b"#")), b"")


def shown(path: Path) -> str:
    """Return a path as a message names it: on one line, and not longer than one can read."""
    return shortened(printable(str(path)), LONGEST_NAME)
