"""What comes with systolic, by name: runs, networks, programs and chips.

A name stands for its file wherever work is named, in a checkout and in an installed package. A file
of the user's of that name comes first. Not here: what is in the files.
"""

from __future__ import annotations

from pathlib import Path

from systolic.errors import SystolicError, perhaps
from systolic.shipped import CHIPS, NETWORKS, PROGRAMS, RUNS

WORK = {"runs": (RUNS, "*.toml"), "networks": (NETWORKS, "*.toml"), "programs": (PROGRAMS, "*.txt")}
"""The kinds of work, each with its folder and its files."""
KINDS = {**WORK, "chips": (CHIPS, "*.toml")}


def examples(kind: str) -> dict[str, Path]:
    """Return the files of a kind by their names, in alphabetical order."""
    folder, pattern = KINDS[kind]
    return {path.stem: path for path in sorted(folder.glob(pattern))}


def named_work(path: Path) -> Path:
    """Return the shipped file that a bare name means; any other path as it is.

    Raises:
        SystolicError: there is no file of that name, and a shipped one has nearly the same.

    """
    if path.name != str(path) or path.suffix or _is_there(path):
        return path
    known = {name: file for kind in WORK for name, file in examples(kind).items()}
    if path.name not in known and (meant := perhaps(path.name, known)):
        raise SystolicError(f"{path}: no such file, and no example{meant}")
    return known.get(path.name, path)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return True  # no name of ours
