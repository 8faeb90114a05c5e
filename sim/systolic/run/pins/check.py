"""Many runs against a file of counts, in as many processes as are wanted; or the file rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from systolic.errors import ConfigError
from systolic.run.pins.compare import Finding, judge
from systolic.run.pins.file import PINS, Pins, is_shipped, keys_of, read_pins, write_pins
from systolic.run.pins.pin import Pin
from systolic.run.pins.works import (
    PinnedSystem,
    PinnedWork,
    files_in,
    folder_of_shipped,
    refuse_foreign,
    shipped_runs,
    works_of,
)
from systolic.run.processes import in_order


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs are compared with which file of counts.

    files: run files and programs. Without any: all in the folder `runs`, or, if there is no such
    folder, all that come with systolic. pins: the file of counts; None: the shipped one, which is
    only read. runs: the folder from which the path of a file is its name among the counts. Default:
    the folder of `pins`; for the shipped counts, and if no files are named, the folder of the
    shipped runs (a shipped network is called networks/NAME). chip: a chip file in place of those
    that files name.
    """

    files: Sequence[Path] = ()
    pins: Path | None = None
    runs: Path | None = None
    chip: Path | None = None

    @property
    def file(self) -> Path:
        """Return the file of counts."""
        return self.pins or PINS

    def works(self) -> list[PinnedWork | PinnedSystem]:
        """Return all runs; ConfigError if the shipped counts cannot have one of them."""
        return [work for path in self._paths() for work in self._works_of(path)]

    def _paths(self) -> Sequence[Path]:
        if self.files:
            return self.files
        return shipped_runs() if self.runs is None else files_in(self.runs, self.file)

    def _works_of(self, path: Path) -> list[PinnedWork | PinnedSystem]:
        found = list(works_of(path, self._folder(path), chip=self.chip))
        if self.pins is None:
            refuse_foreign(path)
        return found

    def _folder(self, path: Path) -> Path:
        named = self.file.parent if self.files and not is_shipped(self.file) else None
        return self.runs or named or folder_of_shipped(path)


def check(selection: Selection, *, jobs: int = 1) -> Iterator[Finding]:
    """Yield a finding for each run, in order, and for each pin that no run has.

    jobs: how many runs are done at once, each in a process of its own.

    Raises:
        ConfigError: there is no such file of counts, it has an unknown key, or counts of another
            chip; or a run file cannot be used.

    """
    known = read_pins(selection.file)
    works = selection.works()
    pairs = [(work, known.get(work.name)) for work in works]
    yield from in_order(_judge, pairs, jobs=jobs, noun="run")
    if not selection.files:
        yield from _strangers(known, works, selection)


def update(selection: Selection, *, jobs: int = 1) -> Finding:
    """Write the counts that all runs have, with the reasons and tolerances that are known.

    Counts of other runs stay if files are named, and go if not.

    Raises:
        ConfigError: the selection names no file of counts, or a run file cannot be used.

    """
    if selection.pins is None:
        raise ConfigError(
            "an update needs the file of counts to write (a new one is made; the counts that come "
            "with systolic are not overwritten)",
            setting="pins",
        )
    known = read_pins(selection.file, may_be_new=True)
    pairs = [(work, None) for work in selection.works()]
    found = {
        finding.name: finding.found
        for finding in in_order(_judge, pairs, jobs=jobs, noun="run")
        if finding.found is not None
    }
    kept: Pins = known if selection.files else {}
    write_pins(selection.file, {**kept, **with_what_was_said(found, known)})
    count = f"{len(found)} count{'s' * (len(found) != 1)}"
    return Finding(selection.file.name, f"{count} written to {selection.file}", ok=True)


def _judge(pair: tuple[PinnedWork | PinnedSystem, Pin | None]) -> Finding:
    return judge(*pair)


def with_what_was_said(found: Mapping[str, Pin], known: Mapping[str, Pin]) -> Pins:
    """Return counts with the reasons and tolerances that older counts of the same runs have.

    A tolerance of a count that is no longer there goes with it.
    """
    kept = dict(found)
    for name in found.keys() & known.keys():
        said, there = known[name], set(keys_of(found[name]))
        tolerance = {key: cycles for key, cycles in said.tolerance.items() if key in there}
        kept[name] = replace(found[name], reason=said.reason, tolerance=tolerance)
    return kept


def _strangers(
    known: Pins, works: Sequence[PinnedWork | PinnedSystem], selection: Selection
) -> Iterator[Finding]:
    """Yield a finding for each pin that no run has."""
    where = "shipped run" if selection.runs is None else f"run in {selection.runs}"
    for name in sorted(known.keys() - {work.name for work in works}):
        text = f"{name}: is pinned, but no {where} has that name"
        yield Finding(name, text, ok=False, pinned=known[name])
