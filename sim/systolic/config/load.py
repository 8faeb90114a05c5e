"""Loading a run: run file and chip file, overrides, and the checks that need more than one table.

The result is one frozen RunConfig in which every value has been checked. Not here: whether the work
fits the chip, which the compiler checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from systolic.arrays import Array
from systolic.config.blame import Blame
from systolic.config.chip_file import chip_of_tables, find_chip
from systolic.config.compile_table import CompileTable, options_of
from systolic.config.explain import explain, shown
from systolic.config.graph_tables import input_sources, read_graph, with_operands
from systolic.config.model_tables import with_model
from systolic.config.override import Override, apply, origin_of, setter_of
from systolic.config.run_file import RunFile, SweepTable, WorkloadTable
from systolic.config.toml_file import read_toml
from systolic.engine_kind import EngineKind
from systolic.errors import ConfigError, WorkloadError
from systolic.hw.spec import Chip
from systolic.reading import check_file
from systolic.workload import DataSource, Graph, Operation, load_data
from systolic.workload.data.archives import READERS
from systolic.workload.importers.models import is_model
from systolic.workload.options import Options


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run that an earlier run recorded: its tables, its chip's tables, and the overrides.

    The tables stand in place of the run file and the chip file, which are not read again.
    """

    tables: dict[str, Any]
    chip: dict[str, Any]
    chip_path: Path
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A run, ready to be compiled: chip, graph, data sources and settings.

    workload, compile, sweep: the run file's tables. graph: the graph that [workload] describes.
    sources: where the elements of each input of the graph come from. path, chip_path: the files.
    overrides: the values that replaced values of the files. recorded: the tables that are read in
    place of the files, or None.
    """

    name: str
    description: str
    chip: Chip
    workload: WorkloadTable
    compile: CompileTable
    engine: EngineKind
    sweep: tuple[SweepTable, ...]
    graph: Graph
    sources: Mapping[str, DataSource]
    path: Path
    chip_path: Path
    overrides: tuple[Override, ...]
    recorded: Recorded | None = None

    @property
    def options(self) -> Options:
        """Return the compile settings in the form that the compiler takes."""
        return options_of(self.compile)

    @property
    def lone_operation(self) -> Operation | None:
        """Return the operation if [workload] is one (`op = ...`); None if it is a graph."""
        return None if self.workload.ops else self.graph.operations[0]

    @property
    def is_lone_transpose(self) -> bool:
        """Return whether [workload] is `op = "transpose"`."""
        return self.lone_operation is not None and self.lone_operation.kind == "transpose"

    def load_inputs(self) -> dict[str, Array]:
        """Return the elements of every input of the graph, by name.

        Raises:
            WorkloadError: one line naming the file, the table and what is wrong with the data.

        """
        return {name: self._load_input(name) for name in self.graph.inputs}

    def _load_input(self, name: str) -> Array:
        entry = self.workload.tensors.get(name)
        table = "workload" if entry is None or entry.data is None else f"workload.tensors.{name}"
        try:
            return load_data(self.sources[name], self.graph.shape(name))
        except WorkloadError as error:
            raise WorkloadError(f"{self.path}: [{table}] data: {error}") from None

    def with_overrides(self, overrides: Sequence[Override]) -> RunConfig:
        """Return the run of the same file, read again, with these overrides after its own."""
        return load_overridden(self.path, (*self.overrides, *overrides), self.recorded)


def load_run(
    path: str | Path,
    overrides: Sequence[str | Override] = (),
    arrays: Mapping[str, Array] | None = None,
) -> RunConfig:
    """Return the run that a run file describes.

    Args:
        path: the run file.
        overrides: what replaces values of the file, such as ``compile.drain=row``,
            ``chip=other.toml`` (a path from the current directory) or ``chip.pe_array.rows=5``.
            Of two overrides of one key the later counts.
        arrays: inputs of a model by name, on which its shapes may depend.

    Raises:
        ConfigError: one line naming the file (or override), table and key.

    """
    parsed = (Override.parse(each) if isinstance(each, str) else each for each in overrides)
    return Loader(Path(path), arrays=arrays).load(tuple(parsed))


def load_recorded(path: Path, recorded: Recorded) -> RunConfig:
    """Return the run that an earlier run of the file `path` recorded; ConfigError as `load_run`."""
    return load_overridden(path, (), recorded)


def load_overridden(
    path: Path, overrides: tuple[Override, ...], recorded: Recorded | None = None
) -> RunConfig:
    """Return the run of a run file with some of its values replaced; ConfigError as `load_run`."""
    return Loader(path, recorded).load(overrides)


class Loader:
    """Loads runs of one run file that differ in overrides; what they share is checked once.

    The parts of two runs are the same objects where their overrides are the same. path: the run
    file, or a file whose `base` names one: all it says besides is put in place of what the base
    says. arrays: inputs of a model, on which its shapes may depend.
    """

    def __init__(
        self,
        path: Path,
        recorded: Recorded | None = None,
        arrays: Mapping[str, Array] | None = None,
    ) -> None:
        self._recorded = recorded
        self._arrays = arrays or {}
        tables = recorded.tables if recorded else _tables(path)
        self.path, self._tables, self._own = _based(path, tables)
        self._chip_files: dict[Path, dict[str, Any]] = {}
        self._works: dict[str, _Work] = {}
        self._chips: dict[str, Chip] = {}

    def load(self, overrides: tuple[Override, ...]) -> RunConfig:
        """Return the run with these overrides; ConfigError as `load_run`."""
        of_chip = tuple(inner for o in overrides if (inner := o.below("chip")))
        given = tuple(o for o in overrides if not o.below("chip"))
        own = (*self._own, *given)
        work = _kept(self._works, _values_of(given), lambda: self._work(own, overrides))
        key = f"{work.chip_path} {_values_of(of_chip)}"
        chip = _kept(self._chips, key, lambda: self._chip(work.chip_path, overrides, of_chip))
        run = work.run
        return RunConfig(
            name=work.name,
            description=run.description,
            chip=chip,
            workload=run.workload,
            compile=run.compile,
            engine=run.engine,
            sweep=run.sweep,
            graph=work.graph,
            sources=work.sources,
            path=self.path,
            chip_path=work.chip_path,
            overrides=(*self._own, *overrides),
            recorded=self._recorded,
        )

    def _work(self, own: tuple[Override, ...], overrides: tuple[Override, ...]) -> _Work:
        """Return what a run file says of everything but the chip's own values."""
        run = _run_file(self._tables, self.path, own, self._arrays)
        if self._recorded and setter_of(("chip",), overrides) is None:
            chip_path = self._recorded.chip_path
        else:
            chip_path = _chip_path(run, self.path, own)
            if chip_path not in self._chip_files:
                self._chip_files[chip_path] = read_toml(chip_path, "a chip file")
        blame = Blame(self.path, own)
        graph = read_graph(run.workload, blame)
        sources = input_sources(run.workload, graph, blame, _data_source)
        return _Work(run, _name(run, blame), chip_path, graph, sources)

    def _chip(
        self, path: Path, overrides: tuple[Override, ...], of_chip: tuple[Override, ...]
    ) -> Chip:
        if self._recorded and setter_of(("chip",), overrides) is None:
            return chip_of_tables(self._recorded.chip, str(path), of_chip)
        return chip_of_tables(self._chip_files[path], str(path), of_chip)


def _tables(path: Path) -> dict[str, Any]:
    """Return the tables of a run file; a model alone is a run file that names it."""
    if is_model(path):
        return {"workload": {"model": path.name}}
    return read_toml(path, "a run file")


@dataclass(frozen=True, slots=True)
class _Work:
    """A run file with its graph, and where its chip file and its data are."""

    run: RunFile
    name: str
    chip_path: Path
    graph: Graph
    sources: Mapping[str, DataSource]


MOST_KEPT = 512
"""Of the parts of runs that are kept; a network's graph has some hundred kilobytes."""
LoadedPart = TypeVar("LoadedPart")


def _kept(kept: dict[str, LoadedPart], key: str, make: Callable[[], LoadedPart]) -> LoadedPart:
    """Return the part of that key; it is made if it is new, and the oldest is let go."""
    found = kept.get(key)
    if found is None:
        found = kept[key] = make()
        if len(kept) > MOST_KEPT:
            del kept[next(iter(kept))]
    return found


def _values_of(overrides: tuple[Override, ...]) -> str:
    return repr([(o.path, o.value, o.folder) for o in overrides])


BASE = "base"


def _based(path: Path, tables: dict[str, Any]) -> tuple[Path, dict[str, Any], tuple[Override, ...]]:
    """Return the run file that tables are built on, its tables, and the overrides they mean."""
    if BASE not in tables:
        return path, tables, ()
    base = base_path(path, tables)
    below = _tables(base)
    if BASE in below:
        raise ConfigError(f"{path}: base: {base} has a base of its own; needed a whole run file")
    return base, below, base_overrides(path, tables)


def base_path(path: Path, tables: dict[str, Any]) -> Path:
    """Return the file that `base` of a file's tables names, from the file's folder."""
    name = tables[BASE]
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path}: base: needs the path of a run file, found {shown(name)}")
    try:
        check_file(path.parent / name, ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{path}: base: {error}") from None
    return path.parent / name


def base_overrides(path: Path, tables: dict[str, Any]) -> tuple[Override, ...]:
    """Return an override for each value that a file says besides `base`."""
    own = {"name": path.stem, **{key: value for key, value in tables.items() if key != BASE}}
    return tuple(
        Override(place, value, str(path), path.parent) for place, value in _leaves((), own)
    )


def _leaves(
    place: tuple[str, ...], tables: dict[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tables.items():
        if isinstance(value, dict) and value and place[:1] != ("sweep",):
            yield from _leaves((*place, key), value)
        else:
            yield (*place, key), value


def _run_file(
    tables: dict[str, Any],
    path: Path,
    overrides: tuple[Override, ...],
    arrays: Mapping[str, Array],
) -> RunFile:
    given = apply(tables, overrides)
    if "chip" not in given and is_model(path):
        raise ConfigError(f"{path}: is a model, which names no chip; needs one", setting="chip")
    blame = Blame(path, overrides)
    given = with_operands(with_model(given, path.parent, blame, arrays), blame)
    try:
        return RunFile.model_validate(given)
    except ValidationError as error:
        raise explain(error, RunFile, lambda at: origin_of(at, overrides, str(path))) from None


def _chip_path(run: RunFile, path: Path, overrides: tuple[Override, ...]) -> Path:
    setter = setter_of(("chip",), overrides)
    folder = path.parent if setter is None or setter.folder is None else setter.folder
    return find_chip(run.chip, folder, origin_of(("chip",), overrides, str(path)))


def _name(run: RunFile, blame: Blame) -> str:
    name = run.name or blame.path.stem
    # The name becomes the name of a folder in out/, so it must not lead out of there.
    if name in (".", "..") or not all(c.isalnum() or c in " ._+-" for c in name):
        raise blame.line("", "name", f'needs letters, digits and " ._+-" only, found {name!r}')
    return name


FILES = (".npy", ".csv", *READERS)


def _data_source(table: WorkloadTable, blame: Blame) -> DataSource:
    if table.seed is not None and table.data != "random":
        raise blame.line("workload", "seed", f'only data = "random" has one, not {table.data!r}')
    if table.deviation is not None and table.data != "random":
        needed = f'only data = "random" has one, not {table.data!r}'
        raise blame.line("workload", "deviation", needed)
    if table.data == "arange":
        return DataSource("arange")
    if table.data == "random":
        deviation = 1.0 if table.deviation is None else table.deviation
        return DataSource("random", table.seed or 0, deviation=deviation)
    if not table.data.lower().endswith(FILES):
        kinds = f"{', '.join(FILES[:-1])} or {FILES[-1]}"
        needed = f'needs "arange", "random" or a {kinds} file, found {table.data!r}'
        raise blame.line("workload", "data", needed)
    setter = setter_of(("workload", "data"), blame.overrides)
    folder = blame.path.parent if setter is None or setter.folder is None else setter.folder
    return DataSource("file", path=folder / table.data)
