"""Which runs are compared with counts, what each is called among them, and doing one for its times.

A run is a run file, a point of its sweeps, or a program.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from systolic.config import Override, RunConfig, expand, load_run
from systolic.config.toml_file import LIMIT_BYTES, TEXT_PROGRAM, parse_toml
from systolic.engine_kind import EngineKind
from systolic.errors import ConfigError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import AnyModule, element_type, is_binary
from systolic.reading import first_line, real_path
from systolic.run.chip_program import several
from systolic.run.execute import run
from systolic.run.file_kinds import RUN_FILE
from systolic.run.program import program_chip, read_program
from systolic.run.result import Result
from systolic.run.system import System, SystemResult, is_system_file, load_system, run_system
from systolic.run.verdict import require_right
from systolic.shipped import CONFIGS
from systolic.workload.importers.models import is_model

HEAD_BYTES = 64
FIRST_REASON = "first pinned"
BESIDES_RUNS = ("networks", "systems")
PROGRAMS = "programs"
"""Folders of shipped files whose names among the counts begin with the folder."""


@dataclass(frozen=True, eq=False)
class PinnedWork:
    """A run that may have a pin, ready to be done.

    name: among the counts. reason: of its pin, until the file of counts has another. is_point: it
    is a point of a sweep.
    """

    name: str
    reason: str
    work: RunConfig | AnyModule
    chip: Chip | MultiCoreChip
    engine: EngineKind = "event"
    is_point: bool = False

    def run(self, chip: Chip | MultiCoreChip | None = None) -> Result:
        """Do the run for its times, on another chip if one is given."""
        on = chip or self.chip
        values = self.engine == "register"  # that engine has no mode for times only
        if isinstance(self.work, RunConfig):
            assert isinstance(on, Chip)
            result = run(replace(self.work, chip=on), engine=self.engine, values=values)
            require_right(result.summary)
            return result
        zeros = {
            binding.name: np.zeros(binding.shape, data_type(element_type(binding)).numpy)
            for binding in self.work.inputs
        }  # times do not depend on values
        return run(self.work, on, zeros if values else None, engine=self.engine)


@dataclass(frozen=True, eq=False)
class PinnedSystem:
    """A system that may have a pin. name: among the counts."""

    name: str
    system: System

    @property
    def reason(self) -> str:
        """Return the reason of its pin, until the file of counts has another."""
        return self.system.file.description or FIRST_REASON

    def run(self) -> SystemResult:
        """Do the run."""
        return run_system(self.system)


def works_of(
    path: Path,
    folder: Path,
    *,
    overrides: Sequence[Override] = (),
    chip: Path | None = None,
    engine: EngineKind | None = None,
) -> Iterator[PinnedWork | PinnedSystem]:
    """Yield the runs of a file: of a run file with sweeps one for each point, else one.

    Args:
        path: a run file (.toml) or a model, or a program (any other file).
        folder: the folder from which the path is the name among the counts.
        overrides: of values of a run file, or of its chip; of a program, of its chip.
        chip: a chip file in place of the one that the file names.
        engine: in place of the run file's.

    """
    name = ", ".join([name_of(path, folder), *(each.text or each.origin for each in overrides)])
    if path.suffix.lower() == ".toml" and is_system_file(path):
        yield PinnedSystem(name, load_system(path, overrides))
        return
    if path.suffix.lower() != ".toml" and not is_model(path):
        module, _ = read_program(path)
        hardware = program_chip(module, path, chip, overrides)
        fitting = several(module, hardware)
        yield PinnedWork(name, FIRST_REASON, fitting, hardware, engine or "event")
        return
    if chip is not None:
        overrides = [*overrides, Override(("chip",), str(real_path(chip)), "chip", Path())]
    config = load_run(path, overrides)
    if not config.sweep:
        yield _work(name, config.description, config, engine)
        return
    reasons = {sweep.name: sweep.description for sweep in config.sweep}
    for point in expand(config):
        work = _work(f"{name}, {point.name}", reasons[point.sweep], point.config, engine)
        yield replace(work, is_point=True)


def _work(name: str, reason: str, config: RunConfig, engine: EngineKind | None) -> PinnedWork:
    return PinnedWork(name, reason or FIRST_REASON, config, config.chip, engine or config.engine)


# -- files ----------------------------------------------------------------------------------------


def files_in(folder: Path, besides: Path) -> list[Path]:
    """Return the run files and programs in a folder and the folders in it, sorted by path.

    Files that are neither are passed over, such as chip files and data. A file that looks like a
    run file and has a mistake is not passed over.

    besides: the file of counts, which is none of them.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is no folder; needed one with run files or programs")
    try:
        found = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_work(path)]
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read ({error.strerror or error})") from None
    found = [path for path in found if real_path(path) != real_path(besides)]
    if not found:
        raise ConfigError(f"{folder}: has no run files and no programs")
    return found


def _is_work(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    with path.open("rb") as file:
        if path.suffix.lower() == ".toml":
            return _is_run_file(file.read(LIMIT_BYTES))
        head = file.read(HEAD_BYTES).removeprefix(codecs.BOM_UTF8)
    return is_binary(head) or first_line(head).startswith(TEXT_PROGRAM)


def _is_run_file(data: bytes) -> bool:
    """Return whether TOML is a run file: if it cannot be read, whether it looks like one."""
    try:
        tables = parse_toml(data.decode())
    except (ValueError, RecursionError):
        return bool(RUN_FILE.search(data))
    return "pe_array" not in tables and (
        "network" in tables or "workload" in tables or isinstance(tables.get("chip"), str)
    )


def shipped_runs() -> list[Path]:
    """Return what comes with systolic: the files of runs, networks and systems, the programs."""
    runs = sorted((CONFIGS / "runs").glob("*.toml"))
    if not runs:
        raise ConfigError(f"{CONFIGS / 'runs'}: no run files; name the ones to check")
    others = (sorted((CONFIGS / folder).glob("*.toml")) for folder in BESIDES_RUNS)
    programs = sorted((CONFIGS / PROGRAMS).glob("*.txt"))
    return [*runs, *(path for each in others for path in each), *programs]


def folder_of_shipped(path: Path) -> Path:
    """Return the folder from which the path of a shipped run file or program is its name."""
    is_beside = any(
        not name_of(path, CONFIGS / folder).startswith("../")
        for folder in (*BESIDES_RUNS, PROGRAMS)
    )
    return CONFIGS if is_beside else CONFIGS / "runs"


def name_of(path: Path, folder: Path) -> str:
    """Return the name of a run among the counts: its path from the folder, without .toml."""
    name = Path(os.path.relpath(path, folder)).as_posix()
    return name[: -len(".toml")] if name.lower().endswith(".toml") else name


def refuse_foreign(path: Path) -> None:
    """Raise ConfigError for a run that the shipped counts cannot have."""
    if name_of(path, folder_of_shipped(path)).startswith("../"):
        raise ConfigError(
            f"{path}: did not come with systolic, so the shipped counts do not have it: needs "
            "another file of counts, which an update writes",
            setting="pins",
        )
