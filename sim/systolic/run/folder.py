"""The folder of a run: which files a run writes there, and what an older run left there.

A run owns the files of certain names in its folder. Its results replace an older run's all
together: first every file of the older run is removed, also those that this run does not write;
summary.json gets its name last. So the files beside a summary are always of the run that it
describes. Not here: what the files hold.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from systolic.errors import SystolicError
from systolic.reading import real_path
from systolic.writing import PREFIX, Writer, replacing, write_all

SUMMARY = "summary.json"
RESULT = "result.npy"
PICTURE = "wavefront.png"
LAYERS = "layers.csv"
SWEEP_ROWS, SWEEP, COMPARISON = "sweep.csv", "sweep.png", "comparison.png"
OWN = (SUMMARY, RESULT, PICTURE, LAYERS, SWEEP_ROWS, SWEEP, COMPARISON)
"""The names that runs write, except the NAME.npy files, which the summary lists."""

SUMMARY_LIMIT_BYTES = 256 << 20


def npy_name(name: str) -> str:
    """Return the file name of an array: its name, with characters such as "/" percent-encoded."""
    if not name:
        return "%.npy"
    encoded = quote(name, safe=" +,=@()[]", errors="surrogatepass")
    return (f"%2E{encoded[1:]}" if encoded.startswith(".") else encoded) + ".npy"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder for the files of one run; it is made when the first file is written."""

    path: Path

    def check(self, names: Iterable[str], reads: Iterable[Path] = ()) -> None:
        """Raise SystolicError unless files of these names can be written; leave nothing behind.

        reads: files that this run reads, which must not be among those that it writes or removes.
        """
        names = list(names)
        with _made(self.path):
            for name in names:
                _require_file_name(self.path / name)
            touched = {real_path(self.path / name) for name in {*names, *self._left()}}
        for path in reads:
            if real_path(path) in touched:
                raise SystolicError(
                    f"{path}: this run reads it, and would replace it with its own results; "
                    "needed another folder",
                    setting="folder",
                )

    def replace(self, files: Mapping[str, Writer]) -> None:
        """Write summary.json and the other files of a run, in place of the files of an older run.

        All files are written, or none is. While the old files go and the new ones come, there is
        no summary.json.
        """
        ordered = sorted(files, key=lambda name: name != SUMMARY)
        left = [name for name in self._left() if name == SUMMARY or name not in files]
        write_all(
            {self.path / name: files[name] for name in ordered}, before=lambda: self._remove(left)
        )

    def clear(self) -> None:
        """Remove the files of an older run; SystolicError if one cannot be removed."""
        self._remove(self._left())

    def add(self, name: str, write: Writer) -> None:
        """Write a further file of the run whose summary has been written."""
        with replacing(self.path / name) as path:
            write(path)

    def _left(self) -> list[str]:
        """Return the names of the files that an older run left here, summary.json first."""
        found = [*OWN, *_listed(self.path / SUMMARY)]
        return [name for name in dict.fromkeys(found) if (self.path / name).is_file()]

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                text = f"of an older run, cannot be removed ({error.strerror})"
                raise SystolicError(f"{self.path / name}: {text}") from None


def require_writable(*paths: Path) -> None:
    """Raise SystolicError unless these files can be written; devices and FIFOs are not tried."""
    for path in paths:
        if path.is_dir() or path.is_file() or not path.exists():
            RunFolder(path.parent).check([path.name])


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder and a file in it, and remove again every folder and file that was made."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    made: list[Path] = []
    try:
        for each in reversed(missing):
            each.mkdir()
            made.append(each)
        handle, name = tempfile.mkstemp("", PREFIX, folder)
        os.close(handle)
        Path(name).unlink(missing_ok=True)
        yield
    except OSError as error:
        text = f"nothing can be written there ({error.strerror or error})"
        raise SystolicError(f"{folder}: {text}") from None
    finally:
        for each in reversed(made):
            with suppress(OSError):
                each.rmdir()


def _require_file_name(path: Path) -> None:
    """Raise SystolicError if there can be no file of that name."""
    try:
        if path.is_dir():
            raise SystolicError(f"{path}: is a folder; needed the name of a file to write")
        path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written ({error.strerror})") from None


def _listed(summary: Path) -> Iterator[str]:
    """Yield the names of the arrays that a summary lists: bare names that end in .npy only."""
    outputs = read_object(summary).get("outputs")
    for name, record in (outputs if isinstance(outputs, dict) else {}).items():
        file = record.get("file", npy_name(name)) if isinstance(record, dict) else None
        if isinstance(file, str) and file.endswith(".npy") and Path(file).name == file:
            yield file


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if the file is missing or holds no object."""
    try:
        if not path.is_file() or path.stat().st_size > SUMMARY_LIMIT_BYTES:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
