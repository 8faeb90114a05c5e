"""The file of a sweep and its points, resolved: the work of each, its key, and its labels.

A file is a run file with [[sweep]], or one whose `base` names a run file or a program. What points
share is read and checked once. Not here: which points there are (`systolic.config.sweep`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from systolic.config import Override, SweepPoint, SweepTable, load_run
from systolic.config.chip_file import find_chip
from systolic.config.explain import explain
from systolic.config.load import BASE, Loader, base_overrides, base_path
from systolic.config.run_file import RunFile
from systolic.config.sweep import SweepSpace, spaces
from systolic.config.toml_file import read_toml
from systolic.engine_kind import ENGINE_KINDS, EngineKind
from systolic.errors import (
    ConfigError,
    SystolicError,
    UnknownKeyError,
    listed,
    perhaps,
    shortened,
)
from systolic.hw.spec import Chip
from systolic.isa import Module
from systolic.run.program import check_module, program_chip, read_program
from systolic.run.provenance import plain
from systolic.sweep.key import Digests
from systolic.sweep.rows import PointTask, ProgramWork
from systolic.workload.importers.models import is_model

TIMES = re.compile(r"chip\.(clock\.[^.]+|.*(_cycles|_per_cycle|_mhz)|.*\.cycles_per_vector\.[^.]+)")
"""Keys that change times only: latencies, bandwidths and clocks, but no banks and no sizes."""


@dataclass(frozen=True, slots=True)
class ProgramSweep:
    """A sweep over the chip of a program: what the file says, and the program it names."""

    name: str
    description: str
    sweep: tuple[SweepTable, ...]
    path: Path
    overrides: tuple[Override, ...]
    sha256: str
    module: Module
    engine: EngineKind


@dataclass(frozen=True, slots=True)
class Label:
    """What a row says of the point besides its results.

    key: of the point. row: key, sweep and varied values as text, which say which row it is. text:
    the beginning of the row as JSON, up to the results.
    """

    key: str
    row: tuple[str, str, str]
    text: bytes

    def line(self, results: bytes) -> bytes:
        """Return the row with these results, as JSON."""
        return b"{" + self.text + b"," + results + b"}"


@dataclass(frozen=True)
class SweepFile:
    """The sweeps of a file. values: False for times only."""

    file: Any
    values: bool
    digests: Digests = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digests", Digests(self.values))

    @property
    def name(self) -> str:
        """Return the name of the file, which its folder of results has too."""
        return str(self.file.name)

    @cached_property
    def spaces(self) -> list[SweepSpace]:
        """Return the spaces of all sweeps; ConfigError for a key that is not there."""
        found = spaces(self.file)
        for space in found:
            values = {key: values[0] for key, values in space.table.vary.items()}
            try:
                self.resolved(space.point_with(values), space)
            except UnknownKeyError:
                raise
            except SystolicError:
                continue  # of a value: its points have rows with the error
        return found

    @property
    def points(self) -> int:
        """Return how many points all sweeps have."""
        return sum(space.size for space in self.spaces)

    def resolved(self, point: SweepPoint, space: SweepSpace) -> PointTask:
        """Return what is to be run at a point; ConfigError if its values make no sense."""
        if isinstance(self.file, ProgramSweep):
            return self._program_task(self.file, point)
        config = self._loader.load(point.overrides)
        if space.table.program == "each":
            return PointTask(self.digests.key_of_run(config), config)
        first = self._loader.load(space.point_with(_first_times(space, point)).overrides)
        of_first = self.digests.key_of_run(first)
        return PointTask(self.digests.key_of_run(config, of_first), config, (of_first, first))

    def label(self, point: SweepPoint, key: str) -> Label:
        """Return the labels of a point; key: of its results."""
        vary = _json(plain(point.varied))
        cells = {name: self._cell(name, value) for name, value in point.varied.items()}
        row = {"key": key, "sweep": point.sweep, "vary": vary, **cells}
        return Label(key, (key, point.sweep, vary), _json(row).encode()[1:-1])

    def key_of_error(self, point: SweepPoint) -> str:
        """Return a key for a point that cannot be resolved; its error depends on all overrides."""
        return self.digests.key_of_values([[o.path, o.value] for o in point.overrides])

    def _cell(self, name: str, value: Any) -> Any:
        """Return a varied value for its column, whose values are all of one type."""
        kind = self._kinds[name]
        if kind is str:
            return value if isinstance(value, str) else _json(plain(value))
        return kind(value)

    @cached_property
    def _kinds(self) -> dict[str, type]:
        values: dict[str, list[Any]] = {}
        for space in self.spaces:
            for key, given in space.table.vary.items():
                values.setdefault(key, []).extend(given)
        return {key: _kind(given) for key, given in values.items()}

    @cached_property
    def _loader(self) -> Loader:
        return Loader(self.file.path, self.file.recorded)

    @cached_property
    def _chips(self) -> dict[str, Chip]:
        return {}

    def _program_task(self, file: ProgramSweep, point: SweepPoint) -> PointTask:
        named = [o for o in point.overrides if o.path == ("chip",)]
        given = [o for o in point.overrides if o.path not in (("sweep",), ("chip",))]
        text = repr([(o.path, o.value) for o in (*named[-1:], *given)])
        if text not in self._chips:
            chip_file = _chip_file(named[-1], file.path) if named else None
            self._chips[text] = _one_core(file.module, file.path, chip_file, given)
        chip = self._chips[text]
        check_module(file.module, chip)
        key = self.digests.key_of_program(file.sha256, chip, file.engine)
        return PointTask(key, ProgramWork(file.module, chip, file.engine))


def load_sweep(path: Path, overrides: Sequence[Override], *, values: bool) -> SweepFile:
    """Return the sweeps of a file.

    Raises:
        ConfigError: the file cannot be used, or has no [[sweep]].

    """
    if is_model(path):
        raise ConfigError(f"{path}: is a model; needs a run file with [[sweep]], which may name it")
    tables = read_toml(path, "a run file with [[sweep]]")
    is_program = BASE in tables and base_path(path, tables).suffix.lower() != ".toml"
    file: Any = _program_file(path, tables, overrides) if is_program else load_run(path, overrides)
    if not file.sweep:
        raise ConfigError(f"{path}: has no [[sweep]], and one is needed here")
    return SweepFile(file, values and not is_program)


def _program_file(
    path: Path, tables: dict[str, Any], overrides: Sequence[Override]
) -> ProgramSweep:
    program = base_path(path, tables)
    module, digest = read_program(program)
    if not isinstance(module, Module):
        raise ConfigError(
            f"{path}: base: {program} is a program of several cores; sweeps take those of one"
        )
    allowed = ("name", "description", "base", "sweep", "chip", "engine")
    for key in tables:
        if key not in allowed:
            text = f'unknown key "{shortened(key)}" of a sweep over a program'
            raise ConfigError(f"{path}: {text} (known: {listed(allowed)}){perhaps(key, allowed)}")
    try:
        sweep = _SWEEPS.validate_python(tables.get("sweep", []))
    except ValidationError:
        raise _fault_of(path, tables) from None
    engine = tables.get("engine", "event")
    if engine not in ENGINE_KINDS:
        raise ConfigError(f"{path}: engine: needs one of {listed(ENGINE_KINDS)}, found {engine!r}")
    own = [o for o in base_overrides(path, tables) if o.path[0] == "chip"]
    return ProgramSweep(
        name=str(tables.get("name", path.stem)),
        description=str(tables.get("description", "")),
        sweep=tuple(sweep),
        path=program,
        overrides=(*own, *overrides),
        sha256=digest,
        module=module,
        engine=ENGINE_KINDS[engine],
    )


def _one_core(
    module: Module, path: Path, chip_file: Path | None, given: Sequence[Override]
) -> Chip:
    """Return the chip of a program of one core."""
    chip = program_chip(module, path, chip_file, given)
    if not isinstance(chip, Chip):
        raise ConfigError(f"{chip_file or path}: a chip of several cores; needed one of one core")
    return chip


_SWEEPS = TypeAdapter(list[SweepTable])


def _fault_of(path: Path, tables: dict[str, Any]) -> ConfigError:
    """Return the error of tables [[sweep]] that are wrong."""
    try:
        RunFile.model_validate({"chip": "x", "workload": {}, "sweep": tables["sweep"]})
    except ValidationError as error:
        return explain(error, RunFile, lambda _: str(path))
    raise AssertionError("the tables are right")


def _chip_file(named: Override, program: Path) -> Path:
    folder = program.parent if named.folder is None else named.folder
    return find_chip(str(named.value), folder, named.origin)


def _first_times(space: SweepSpace, point: SweepPoint) -> dict[str, Any]:
    """Return the values of a point; values of times come from the first point of the sweep."""
    first = space.point_with(dict(_first(space)))
    return {
        key: first.varied.get(key, value) if TIMES.fullmatch(key) else value
        for key, value in point.varied.items()
    }


def _first(space: SweepSpace) -> Mapping[str, Any]:
    return space.point(0).varied if space.table.method == "list" else space.combination(0).varied


def _kind(values: Iterable[Any]) -> type:
    found = {type(value) for value in values}
    for kinds, kind in (({bool}, bool), ({int}, int), ({int, float}, float)):
        if found <= kinds:
            return kind
    return str


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
