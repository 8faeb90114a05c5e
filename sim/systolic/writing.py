"""Writing files whole or not at all: to a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

from systolic.errors import SystolicError

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
    try:
        if path.is_dir():
            raise SystolicError(f"{path}: is a folder; needed the name of a file to write")
        special = path.exists() and not path.is_file()
        target = path.resolve() if path.is_symlink() and not special else path
        temporary = _temporary(Path(tempfile.gettempdir()) if special else target.parent, path)
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


def _temporary(folder: Path, path: Path) -> Path:
    """Return a new file in a folder with the ending of `path`, which some writers need."""
    folder.mkdir(parents=True, exist_ok=True)
    ending = path.suffix if len(path.suffix) < 16 else ""
    handle, name = tempfile.mkstemp(ending, ".systolic-", folder)
    os.close(handle)
    return Path(name)


def _let_others_read(path: Path) -> None:
    """Give a file the rights of one made with open: mkstemp lets only its owner read."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)
