"""Doing the run of a summary again: what the run was, and whether its results are the same.

This module reads what `systolic.run.provenance` wrote. Nothing is run, written or printed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systolic import __version__
from systolic.arrays import Array
from systolic.config import Recorded, RunConfig, load_recorded
from systolic.errors import ResultError, SystolicError
from systolic.reading import read_file
from systolic.report.summary.wording import number, plural
from systolic.run.folder import SUMMARY_LIMIT_BYTES
from systolic.run.provenance import SCHEMA, array_sha256

# The keys that a summary needs if its run is to be done again, and the type of each.
NEEDED = {
    "schema": int,
    "version": str,
    "run": str,
    "config": dict,
    "files": dict,
    "options": dict,
    "overrides": list,
}
SAME = ("cycles", "time_ns")


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary.json that says all it takes to do its run again."""

    path: Path
    found: Mapping[str, Any]

    @property
    def is_program(self) -> bool:
        """Return whether the run was of a program, and not of a run file."""
        return "program" in self.found["files"]

    @property
    def values(self) -> bool:
        """Return whether the run computed values, and not times only."""
        return bool(self.found["options"].get("values") != "none")

    def file(self, kind: str) -> Path:
        """Return the path that the run file, the program or the chip had."""
        found = self.found["files"].get(kind)
        if not isinstance(found, str):
            raise self.error(f"files has no {kind}")
        return Path(found)

    def table(self, key: str) -> dict[str, Any]:
        """Return a table of the summary's config."""
        found = self.found["config"].get(key)
        if not isinstance(found, dict):
            raise self.error(f"config has no table {key}")
        return found

    def error(self, text: str) -> SystolicError:
        """Return the one line that says why the run cannot be done again."""
        return SystolicError(f"{self.path}: cannot be run again: {text}")


def read_summary(path: Path) -> Summary:
    """Return the summary in a file; SystolicError says why its run cannot be done again."""
    found = summary_object(path)
    version = found.get("version")
    if version is not None and version != __version__:
        raise SystolicError(
            f"{path}: was written by systolic {version}; this is {__version__}, which may count "
            "other cycles: run it again with that version"
        )
    for key, kind in NEEDED.items():
        if not isinstance(found.get(key), kind):
            raise SystolicError(
                f'{path}: cannot be run again: needs "{key}", which summaries of systolic '
                f"{__version__} have"
            )
    if found["schema"] != SCHEMA:
        raise SystolicError(
            f"{path}: cannot be run again: is of summary schema {found['schema']}, and systolic "
            f"{__version__} reads schema {SCHEMA}"
        )
    return Summary(path, found)


def summary_object(path: Path) -> dict[str, Any]:
    """Return the object in a summary.json, or in a folder's; SystolicError if it has none."""
    if path.is_dir():
        path = path / "summary.json"
    data = read_file(path, SUMMARY_LIMIT_BYTES, SystolicError, "a summary")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SystolicError(f"{path}: is no summary.json: not valid JSON ({error})") from None
    if not isinstance(found, dict):
        raise SystolicError(f"{path}: is no summary.json: needed an object")
    return found


def recorded_run(summary: Summary) -> RunConfig:
    """Return the run that a run file's summary records; neither run nor chip file is read."""
    config = dict(summary.found["config"])
    chip = summary.table("chip")
    overrides = tuple(map(str, summary.found["overrides"]))
    recorded = Recorded(
        {**config, "chip": chip.get("name", "")}, chip, summary.file("chip"), overrides
    )
    try:
        return load_recorded(summary.file("run"), recorded)
    except SystolicError as error:
        raise summary.error(str(error)) from None


def require_same_inputs(summary: Summary, arrays: Mapping[str, Array]) -> None:
    """Raise SystolicError if an input holds other elements than in the recorded run."""
    for name, array in arrays.items():
        if entry(summary.found, "inputs", name, "sha256") != array_sha256(array):
            where = entry(summary.found, "inputs", name, "data") or "it"
            raise summary.error(f'input "{name}": {where} holds other elements than it did')


def require_same(summary: Summary, found: Mapping[str, Any]) -> str:
    """Return a sentence that says that both runs are the same; raise ResultError if they differ."""
    differing = list(_differences(summary.found, found))
    if differing:
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        raise ResultError(
            f"{summary.path}: is not the same again, and nothing was written: {differing[0]}{more}"
        )
    if "points" in found:
        return f"the same again as {summary.path}: {plural(len(found['points']), 'point')}"
    results = plural(len(found["outputs"]), "result") if summary.values else "times only"
    return f"the same again as {summary.path}: {plural(found['cycles'], 'cycle')}, {results}"


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of two summaries in cycles and results, point by point of a sweep."""
    if "points" in now:
        found = entry(before, "points")
        points = found if isinstance(found, list) else []
        if len(points) != len(now["points"]):
            yield f"{len(points)} points then, {len(now['points'])} now"
            return
        for place, pair in enumerate(zip(points, now["points"], strict=True), 1):
            yield from (f"point {place}: {text}" for text in _differences(*pair))
        return
    for key in SAME:
        if entry(before, key) != now.get(key):
            yield f"{key} {_text(entry(before, key))} then, {_text(now.get(key))} now"
    for name, record in now.get("outputs", {}).items():
        if entry(before, "outputs", name, "sha256") != record["sha256"]:
            yield f'output "{name}" holds other elements than it did'


def entry(table: Any, *keys: str) -> Any:
    """Return the entry at `keys`, one table inside the other; None if a table or key is missing."""
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _text(value: Any) -> str:
    return number(value) if isinstance(value, int) else str(value)
