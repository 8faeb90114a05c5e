"""Writing files whole or not at all: to a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sim.errors import SystolicError


def check_name(path: Path) -> None:
    """Raise SystolicError for a path that names no file, such as the empty one."""
    if not path.name:
        raise SystolicError(f'"{path}": cannot be written: needs the name of a file')


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path in the folder of `path`; rename it to `path` if all goes well.

    The folder is made if need be. Raises SystolicError naming `path` if it cannot be written.
    """
    check_name(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{path.stem}-"
        handle, name = tempfile.mkstemp(path.suffix, prefix, path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        # mkstemp lets only the owner read; the umask decides for files made with open.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all, UTF-8."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
