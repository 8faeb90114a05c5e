"""The store of a sweep: a folder in which any number of processes read and write rows of results.

Below the folder `results`: `parts/*.parquet`, each written beside, synced and renamed; `journals/`,
a file of JSON lines for each process that writes, with the rows that are in no part yet; and
`store.json`, the versions. A writer holds the lock of its journal while it lives. The journal of a
writer that has ended is made a part by the next one that comes.

A reader looks at journals first and at parts then, since rows move from there to here. A row may be
found twice, and counts once. Not here: what a row means but for its key and whether it failed.
"""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from systolic.errors import ResultError, SystolicError
from systolic.sweep.extras import needed
from systolic.sweep.journal import LineFile, lock, whole_lines
from systolic.sweep.key import TIMING_VERSION
from systolic.sweep.rows import MACHINE
from systolic.writing import replacing

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = 1
"""Of the folder: what its files are called, and what columns every row has."""
RESULTS, PARTS, JOURNALS, VERSIONS = "results", "parts", "journals", "store.json"
PART_ROWS, PART_SECONDS, SYNC_SECONDS, LOOK_SECONDS = 1000, 1.0, 0.1, 0.25
MERGED_PARTS = 32
"""How many of its parts a writer makes one of, and again of how many of these."""
LOOKS = 20
ABANDONED_SECONDS = 3600.0
TEXTS = ("key", "sweep", "vary", "bound_why", "error", "failure", "program", "summary")
LABELS = ("key", "sweep", "vary", "summary")
"""Columns that say which point a row is of; rows of one key may differ in them."""

ReadOut = TypeVar("ReadOut")


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store says of a key. failure: whose it is, "" of a run that went well."""

    failure: str
    is_wrong: bool = False


@dataclass(slots=True)
class KnownRows:
    """What has been read of a store: what is known of each key, and which rows there are."""

    keys: dict[str, Stored] = field(default_factory=dict)
    rows: set[int] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)

    def add(self, row: tuple[str, str, str], stored: Stored) -> None:
        """Note a row (key, sweep, vary)."""
        key, known = row[0], self.keys.get(row[0])
        self.rows.add(hash(row))
        if known is None or known.failure == MACHINE:
            self.keys[key] = stored
        elif stored.failure != MACHINE:
            self.twice.add(key)


class Store:
    """A store that this process reads and writes; `close` it, or use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / RESULTS
        self._parts = self.folder / PARTS
        self._journals = self.folder / JOURNALS
        needed("pyarrow", "a store of results")
        _made(self._parts, self._journals)
        self._check_version()
        self._writer = uuid.uuid4().hex[:16]
        self._number = 0
        self._journal = self._new_journal()
        self._lines: list[bytes] = []
        self._own: list[list[Path]] = [[], []]
        self._read: set[str] = set()
        self._tails: dict[str, int] = {}
        now = time.monotonic()
        self._part_due, self._sync_due, self._look_due = now, now, now
        self.seen = KnownRows()
        self._adopt()
        self.look()
        self.require_one_result()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def has_other_writers(self) -> bool:
        """Return whether other processes write to this store now."""
        return any(True for _ in self._others())

    @property
    def chance(self) -> int:
        """Return a number that is another for every writer."""
        return int(self._writer, 16)

    def add(self, row: tuple[str, str, str], stored: Stored, line: bytes) -> None:
        """Add a row (key, sweep, vary) as a JSON object in one line; it survives this process."""
        if not self._lines:
            self._part_due = time.monotonic() + PART_SECONDS
        self._journal.add(line + b"\n")
        self._lines.append(line)
        self.seen.add(row, stored)
        self.tick()

    def tick(self) -> None:
        """Do what is due: make a part, sync the journal, look what others have written."""
        now = time.monotonic()
        if self._lines and (now >= self._part_due or len(self._lines) >= PART_ROWS):
            self._write_part()
        if now >= self._sync_due:
            self._journal.sync()
            self._sync_due = now + SYNC_SECONDS
        if now >= self._look_due:
            self.look()
            self._look_due = time.monotonic() + LOOK_SECONDS

    def close(self) -> None:
        """Make a part of the rows that are in none, and leave the store."""
        try:
            if self._lines:
                self._write_part()
            self._journal.path.unlink(missing_ok=True)
        finally:
            self._journal.close()

    # -- writing ----------------------------------------------------------------------------------

    def _check_version(self) -> None:
        path = self.folder / VERSIONS
        if not path.exists():
            with replacing(path) as temporary:
                temporary.write_text(
                    json.dumps({"schema": SCHEMA, "timing": TIMING_VERSION}) + "\n"
                )
        check_version(self.folder, writing=True)

    def _write_part(self) -> None:
        path = self._new_part(table_of(self._lines))
        written, self._journal = self._journal, self._new_journal()
        written.path.unlink(missing_ok=True)
        written.close()
        self._lines = []
        self._own[0].append(path)
        for size in (0, 1):
            if len(self._own[size]) >= MERGED_PARTS:
                self._merge(size)

    def _new_journal(self) -> LineFile:
        """Return a new journal; each has a name of its own, so that readers know what is new."""
        name = f"{self._writer}-{self._number:06d}"
        journal = LineFile(self.folder / f".{name}.new")
        journal.lock_as(self._journals / f"{name}.jsonl")
        return journal

    def _others(self) -> Iterator[Path]:
        """Yield the journals of others."""
        for path in self._journals.glob("*.jsonl"):
            if not path.name.startswith(self._writer):
                yield path

    def _new_part(self, table: pa.Table) -> Path:
        self._number += 1
        path = self._parts / f"{self._writer}-{self._number:06d}.parquet"
        write_part(table, path, self.folder / f".{path.name}.new")
        self._read.add(path.name)
        return path

    def _merge(self, size: int) -> None:
        """Make one part of several of this writer's own; they go when the new one is there."""
        pa = needed("pyarrow", "a store of results")
        parts = self._own[size]
        try:
            tables = [_read(path) for path in parts]
            merged = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException:  # columns of one name and of types that do not go together
            self._own[size] = []
            return
        path = self._new_part(merged)
        self._own[size] = []
        if size == 0:
            self._own[1].append(path)
        for old in parts:
            old.unlink(missing_ok=True)

    def _adopt(self) -> None:
        """Make parts of the journals of writers that have ended; remove what they left undone."""
        for path in self._others():
            self._adopt_one(path)
        for path in self.folder.glob(".*.new"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()

    def _adopt_one(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            file = os.open(path, os.O_RDWR)
            try:
                if lock(file):
                    lines = whole_lines(_all_bytes(path))
                    if lines:
                        part = self._parts / f"{self._writer}-of-{path.stem}.parquet"
                        write_part(table_of(lines), part, self.folder / f".{part.name}.new")
                    path.unlink(missing_ok=True)
            finally:
                os.close(file)

    # -- reading ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the rows that others have written since the last look."""
        for path in self._others():
            for line in self._new_lines(path):
                row = json.loads(line)
                self.seen.add((row["key"], row["sweep"], row["vary"]), _stored(row))
        for path in sorted(self._parts.glob("*.parquet")):
            if path.name not in self._read:
                with suppress(FileNotFoundError):  # made one with others, which are there now
                    self._note_part(path)
                    self._read.add(path.name)

    def _new_lines(self, path: Path) -> list[bytes]:
        start = self._tails.get(path.name, 0)
        try:
            data = _all_bytes(path, start)
        except FileNotFoundError:  # it has become a part
            return []
        end = data.rfind(b"\n") + 1
        self._tails[path.name] = start + end
        return whole_lines(data[:end])

    def _note_part(self, path: Path) -> None:
        names = ["key", "sweep", "vary", "failure", "equal"]
        table = _read(path, names)
        columns = (table.column(name).to_pylist() for name in names)
        for key, sweep, vary, failure, equal in zip(*columns, strict=True):
            self.seen.add((key, sweep, vary), Stored(failure or "", equal is False))

    def require_one_result(self) -> None:
        """Raise ResultError if two rows of one key differ in results."""
        if self.seen.twice:
            require_one_result(self.folder, self.rows(self.seen.twice))
            self.seen.twice.clear()

    def rows(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Return all rows with these keys."""
        return list(rows_of(self.folder, keep={"key": set(keys)}))

    def rows_of_sweep(self, sweep: str) -> list[dict[str, Any]]:
        """Return all rows of the sweep of that name."""
        return list(rows_of(self.folder, keep={"sweep": {sweep}}))


def check_version(folder: Path, *, writing: bool) -> None:
    """Raise SystolicError if a store is of another version of this package; folder: `results`."""
    path = folder / VERSIONS
    try:
        found = json.loads(path.read_bytes())
        schema, timing = found["schema"], found["timing"]
    except (OSError, ValueError, KeyError, TypeError):
        raise SystolicError(f"{path}: says no version of a store of results") from None
    if schema != SCHEMA:
        raise SystolicError(
            f"{folder}: is a store of schema {schema}; this version of systolic has {SCHEMA}: "
            "take that version, or another folder"
        )
    if writing and timing != TIMING_VERSION:
        raise SystolicError(
            f"{folder}: holds results of timing rules {timing}; this version of systolic has "
            f"{TIMING_VERSION}: take another folder"
        )


def snapshot(folder: Path, read: Callable[[list[Path], list[bytes]], ReadOut]) -> ReadOut:
    """Return what `read` makes of all parts, and of the lines of journals that are in no part.

    It is called again if a part has been made one with others meanwhile.
    """
    for _ in range(LOOKS):
        lines = []
        for path in (folder / JOURNALS).glob("*.jsonl"):
            with suppress(FileNotFoundError):
                lines += whole_lines(_all_bytes(path))
        parts = sorted((folder / PARTS).glob("*.parquet"))
        try:
            return read(parts, lines)
        except Exception:  # DuckDB has an error of its own for a file that is not there
            if all(path.exists() for path in parts):
                raise
    raise SystolicError(f"{folder}: changes too quickly to be read")


def rows_of(
    folder: Path,
    columns: Sequence[str] | None = None,
    keep: Mapping[str, Collection[str]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the rows of a store, some perhaps twice.

    columns: these alone, if they are there. keep: of rows those with one of some texts in a column.
    """

    def read(parts: list[Path], lines: list[bytes]) -> list[pa.Table]:
        found = [_kept(_read(path, columns), keep or {}) for path in parts]
        return [*found, _kept(table_of(lines), keep or {})] if lines else found

    for table in snapshot(folder, read):
        yield from table.to_pylist()


def _kept(table: pa.Table, keep: Mapping[str, Collection[str]]) -> pa.Table:
    pa, compute = needed("pyarrow", "a store"), needed("pyarrow.compute", "a store of results")
    for column, texts in keep.items():
        table = table.filter(compute.is_in(table[column], pa.array(list(texts), pa.string())))
    return table


def require_one_result(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Raise ResultError naming the key if two rows of one key differ in results."""
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.get("failure") == MACHINE:
            continue
        found = _results(row)
        before = first.setdefault(row["key"], found)
        for name in {"error", *(before.keys() & found.keys())}:
            if before.get(name) != found.get(name):
                raise ResultError(
                    f"{folder}: key {row['key']} has two results: {name} {before.get(name)} and "
                    f"{found.get(name)}"
                )


def _results(row: dict[str, Any]) -> dict[str, Any]:
    varied = json.loads(row["vary"])
    labels = {*LABELS, *varied}
    return {k: v for k, v in row.items() if v is not None and k not in labels}


def _stored(row: dict[str, Any]) -> Stored:
    return Stored(row.get("failure") or "", row.get("equal") is False)


def table_of(lines: Sequence[bytes]) -> pa.Table:
    """Return the rows of JSON lines as a table; a column in which nothing is given is left out."""
    pa, reader = needed("pyarrow", "a store of results"), needed("pyarrow.json", "a store")
    data = b"\n".join(lines)
    first = json.loads(lines[0])
    texts = {name for name, value in first.items() if isinstance(value, str)}
    types = [(name, pa.string()) for name in (*TEXTS, *sorted(texts - {*TEXTS}))]
    table = reader.read_json(
        io.BytesIO(data),
        read_options=reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=reader.ParseOptions(
            explicit_schema=pa.schema([*types, ("equal", pa.bool_())]),
            unexpected_field_behavior="infer",
        ),
    )
    names = [f.name for f in table.schema if not pa.types.is_null(f.type)]
    if "summary" not in texts:
        names.remove("summary")
    place = {name: number for number, name in enumerate(first)}
    return table.select(sorted(names, key=lambda name: place.get(name, len(place))))


def write_part(table: pa.Table, path: Path, beside: Path) -> None:
    """Write a part whole or not at all, under the name `beside` first; then it is on the disk."""
    parquet = needed("pyarrow.parquet", "a store of results")
    try:
        with beside.open("wb") as file:
            parquet.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise SystolicError(f"{path}: cannot be written ({error.strerror or error})") from None
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system lets a folder be opened
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    pa, parquet = needed("pyarrow", "a store"), needed("pyarrow.parquet", "a store of results")
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            return file.read([n for n in names if columns is None or n in columns])
    except pa.ArrowInvalid as error:
        raise SystolicError(f"{path}: is no part of a store ({error})") from None


def _all_bytes(path: Path, start: int = 0) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read()


def _made(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SystolicError(
                f"{folder}: nothing can be written there ({error.strerror or error})"
            ) from None
