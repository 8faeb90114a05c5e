"""Writing files whole or not at all: to a temporary name beside the target, then renamed."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from systolic.errors import SystolicError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

PREFIX = ".systolic-partial-"

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""With what a cell begins that a spreadsheet calculates."""

Writer: TypeAlias = Callable[[Path], object]
"""Writes a file's contents to the path it is given."""


def check_name(path: Path) -> None:
    """Raise SystolicError for a path that names no file, such as the empty one."""
    if not path.name:
        raise SystolicError(f'"{path}": cannot be written: needs the name of a file')


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path in the folder of `path`; rename it to `path` if all goes well.

    The folder is made if need be. If `path` is a link, the file that it leads to is replaced, and
    not the link; a device or a FIFO is written into. Raises SystolicError naming `path` if it
    cannot be written.
    """
    check_name(path)
    temporary: Path | None = None
    handle: int | None = None
    try:
        if path.is_dir():
            raise SystolicError(f"{path}: is a folder; needed the name of a file to write")
        special = path.exists() and not path.is_file()
        target = Path(os.path.realpath(path)) if path.is_symlink() and not special else path
        handle, temporary = _temporary(
            Path(tempfile.gettempdir()) if special else target.parent, path
        )
        yield temporary
        if special:
            with temporary.open("rb") as written, path.open("wb") as device:
                shutil.copyfileobj(written, device)
        else:
            _let_others_read(temporary)
            temporary.replace(target)
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def write_all(files: Mapping[Path, Writer], before: Callable[[], object] = lambda: None) -> None:
    """Write files, all of them or none; the first gets its name last.

    before: called once all is written and nothing has its name yet.
    """
    with ExitStack() as stack:
        for path, write in files.items():
            write(stack.enter_context(replacing(path)))
        before()


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all, UTF-8."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def csv_row(cells: Iterable[object]) -> str:
    """Return a line of a CSV file in which no text is a formula to a spreadsheet.

    A text that begins as a formula does ("=1+1", "@x") gets an apostrophe before it, which
    spreadsheets take for "this is text". Numbers are written as they are.
    """
    line = io.StringIO(newline="")
    csv.writer(line).writerow(  # of its own "\r\n" it quotes either character
        f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell
        for cell in cells
    )
    return line.getvalue().removesuffix("\r\n") + "\n"


def _temporary(folder: Path, path: Path) -> tuple[int, Path]:
    """Return a new file in a folder, open and locked, with the ending of `path`.

    Some writers need the ending. What a run that was killed has left there is removed first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _clear_dead(folder)
    ending = path.suffix if len(path.suffix) < 16 else ""
    while True:
        handle, name = tempfile.mkstemp(ending, PREFIX, folder)
        _lock(handle, wait=True)
        # Another run may have taken the file for one of a dead run before it was locked.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(name)):
                return handle, Path(name)
        os.close(handle)


@cache
def _clear_dead(folder: Path) -> None:
    """Remove the temporary files in a folder whose writers are gone: nobody locks them."""
    if fcntl is None:
        return  # without locks there is no telling
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_file(follow_symlinks=False):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if _lock(handle, wait=False):
                os.unlink(path)
        finally:
            os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Lock a file until it is closed, or its process ends; return whether that was possible."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return wait  # a file system without locks: the file is used, and never cleared
    return True


def _let_others_read(path: Path) -> None:
    """Give a file the rights of one made with open: mkstemp lets only its owner read."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)
