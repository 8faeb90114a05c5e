"""Questions about the results of a store, asked in SQL, and copies of them for other programs.

DuckDB reads the parts where they lie. The table is called `results`; it has every row once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from systolic.errors import SystolicError, shortened
from systolic.sweep.extras import needed
from systolic.sweep.rows import MACHINE
from systolic.sweep.store import (
    RESULTS,
    check_version,
    require_one_result,
    rows_of,
    snapshot,
    table_of,
)
from systolic.writing import replacing

TABLE = "results"
LONGEST_REASON = 300
EXPORTS = (".duckdb", ".csv")
Asked = TypeVar("Asked")


def query(folder: Path, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns and the rows that a question has for its answer.

    folder: the sweep's, which holds the folder `results`.

    Raises:
        SystolicError: there is no store, or DuckDB cannot answer.
        ResultError: two rows of one key differ in results.

    """

    def ask(connection: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        found = connection.execute(sql)
        if found.description is None:
            return [], []
        return [column[0] for column in found.description], found.fetchall()

    return _with_results(folder, ask)


def export(folder: Path, path: Path) -> None:
    """Write all results as a database of DuckDB (x.duckdb) or a table (x.csv), whole or not at all.

    A text that a spreadsheet would take for a formula begins with an apostrophe in the table.
    """
    if path.suffix.lower() not in EXPORTS:
        raise SystolicError(
            f'{path}: needs a name that ends in {" or ".join(EXPORTS)}, found "{path.suffix}"'
        )
    is_table = path.suffix.lower() == ".csv"
    with replacing(path) as temporary:
        _with_results(folder, lambda on: (_csv if is_table else _database)(on, temporary))


def _database(connection: Any, path: Path) -> None:
    path.unlink()  # DuckDB makes the file anew
    connection.execute(f"attach {_text(path)} as made")
    connection.execute(f"create table made.{TABLE} as select * from {TABLE}")
    connection.execute("detach made")


def _csv(connection: Any, path: Path) -> None:
    columns = connection.execute(f"describe {TABLE}").fetchall()
    cells = [_cell(name) if kind == "VARCHAR" else _name(name) for name, kind, *_ in columns]
    connection.execute(
        f"copy (select {', '.join(cells)} from {TABLE}) to {_text(path)} (format csv, header)"
    )


def _cell(name: str) -> str:
    column = _name(name)
    formula = f"regexp_matches({column}, '^[=+@\\t\\r-]')"
    return f"case when {formula} then '''' || {column} else {column} end as {column}"


def _with_results(folder: Path, act: Callable[[Any], Asked]) -> Asked:
    """Return what `act` makes of a connection that has the table of results."""
    duckdb = needed("duckdb", "a question about results")
    store = folder / RESULTS
    if not store.is_dir():
        raise SystolicError(f"{store}: there are no results of systolic sweep")
    check_version(store, writing=False)

    def read(parts: list[Path], lines: list[bytes]) -> Asked:
        if not parts and not lines:
            raise SystolicError(f"{store}: holds no row yet")
        with _connected(duckdb) as connection:
            _define(connection, store, parts, lines)
            return act(connection)

    try:
        return snapshot(store, read)
    except duckdb.IOException as error:
        raise SystolicError(f"{store}: {_reason(error)}") from None
    except duckdb.Error as error:
        raise SystolicError(f"DuckDB: {_reason(error)}") from None


def _define(connection: Any, store: Path, parts: list[Path], lines: list[bytes]) -> None:
    """Define the table of results, in which no row stands twice."""
    sources = []
    if parts:
        names = ", ".join(_text(part) for part in parts)
        sources.append(f"select * from read_parquet([{names}], union_by_name = true)")
    if lines:
        connection.register("journal", table_of(lines))
        sources.append("select * from journal")
    connection.execute(f"create view every_row as {' union all by name '.join(sources)}")
    twice = connection.execute(
        "select key from every_row group by key having count(*) > 1"
    ).fetchall()
    if not twice:
        connection.execute(f"create view {TABLE} as select * from every_row")
        return
    require_one_result(store, rows_of(store, keep={"key": {key for (key,) in twice}}))
    order = f"(failure is not distinct from '{MACHINE}')"
    connection.execute(
        f"create view {TABLE} as select * from every_row qualify row_number() over "
        f"(partition by key, sweep, vary order by {order}) = 1"
    )


@contextmanager
def _connected(duckdb: Any) -> Iterator[Any]:
    connection = duckdb.connect(":memory:")
    try:
        yield connection
    finally:
        connection.close()


def _reason(error: Exception) -> str:
    return shortened(" ".join(str(error).split()), LONGEST_REASON)


def _text(value: object) -> str:
    """Return a text as SQL writes it."""
    escaped = str(value).replace("'", "''")
    return f"'{escaped}'"


def _name(column: str) -> str:
    escaped = column.replace('"', '""')
    return f'"{escaped}"'
