"""A validation table: a CSV file with a row for each published figure, and its checks.

docs/neuroncore.md has the meaning of each column. Not here: how a row is run and measured.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from systolic.errors import ConfigError, listed, perhaps, shortened
from systolic.reading import read_file, shown
from systolic.run.validation.units import UNITS_OF, factor_of
from systolic.shipped import VALIDATION

NEEDED = ("id", "what", "measure", "unit", "published", "tolerance", "source")
OPTIONAL = ("chip", "set", "run", "program", "before", "repeat", "of", "reason", "missing")
COLUMNS = (*NEEDED, *OPTIONAL)
MOST_BYTES = 16 << 20
MOST_REPEATS = 100_000


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """A published figure, and how it is reproduced. A cell that is left empty is "".

    chip: name or file. overrides: KEY=VALUE texts. run: path of a run file or program. program:
    instruction lines. before: instruction lines that stand once before them. repeat: how often the
    lines stand in the program. measure, of, unit: what is read of the run. tolerance: how far off
    the value may be, in `unit`. reason: why it may be so far off. missing: the rule that the model
    does not have.
    folder: where the names of files start from. where: how messages call the row.
    """

    id: str
    what: str
    chip: str
    overrides: tuple[str, ...]
    run: str
    program: str
    before: str
    repeat: int
    measure: str
    of: str
    unit: str
    published: float
    tolerance: float
    reason: str
    source: str
    missing: str
    folder: Path
    where: str


def table_file(name: str) -> Path:
    """Return the file that a name means: a path, or the name of a table that is shipped.

    Raises:
        ConfigError: no table of that name is shipped.

    """
    if name.endswith(".csv") or "/" in name:
        return Path(name)
    known = sorted(path.stem for path in VALIDATION.glob("*.csv"))
    if name not in known:
        raise ConfigError(
            f'no validation table "{shortened(name)}" (known: {listed(known)}; a file ends in '
            f".csv){perhaps(name, known)}"
        )
    return VALIDATION / f"{name}.csv"


def read_table(path: Path) -> tuple[ValidationRow, ...]:
    """Return the rows of a table; ConfigError names file, row and column."""
    data = read_file(path, MOST_BYTES, ConfigError, "a validation table")
    try:
        text = data.decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        _check_columns(path, reader.fieldnames or ())
        rows = [_row(path, reader.line_num, cells) for cells in reader]
    except UnicodeDecodeError:
        raise ConfigError(f"{shown(path)}: is not UTF-8 text") from None
    except csv.Error as error:
        raise ConfigError(f"{shown(path)}: line {reader.line_num}: {error}") from None
    if not rows:
        raise ConfigError(f"{shown(path)}: has no rows")
    _check_names(path, rows)
    return tuple(rows)


def _check_columns(path: Path, found: Sequence[str]) -> None:
    for name in found:
        if name not in COLUMNS:
            raise ConfigError(
                f'{shown(path)}: no column is called "{shortened(name)}" '
                f"(known: {listed(COLUMNS)}){perhaps(name, COLUMNS)}"
            )
        if list(found).count(name) > 1:
            raise ConfigError(f'{shown(path)}: the column "{name}" stands there twice')
    for name in NEEDED:
        if name not in found:
            raise ConfigError(f'{shown(path)}: the column "{name}" is missing')


def _check_names(path: Path, rows: list[ValidationRow]) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise ConfigError(f'{shown(path)}: two rows have the id "{shortened(row.id)}"')
        seen.add(row.id)


def _row(path: Path, line: int, cells: Mapping[str | None, object]) -> ValidationRow:
    """Return the row of a line; the reader puts cells beyond the last column under None."""
    where = f"{shown(path)}:{line}"
    if None in cells or None in cells.values():
        raise ConfigError(f"{where}: has another number of cells than the first line")
    given = {name: str(cells.get(name, "")).strip() for name in COLUMNS}
    where = f"{where}: row {shortened(given['id']) or '?'}"
    for name in NEEDED:
        if not given[name] and name != "unit":
            raise ConfigError(f"{where}: {name}: needs a value")
    measure = _measure(given, where)
    published = _number(given["published"], f"{where}: published")
    return ValidationRow(
        id=given["id"],
        what=given["what"],
        chip=given["chip"],
        overrides=tuple(text.strip() for text in given["set"].split(";") if text.strip()),
        run=given["run"],
        program=given["program"],
        before=given["before"],
        repeat=_repeat(given["repeat"], f"{where}: repeat"),
        measure=measure,
        of=given["of"],
        unit=given["unit"],
        published=published,
        tolerance=_tolerance(given["tolerance"], published, f"{where}: tolerance"),
        reason=given["reason"],
        source=given["source"],
        missing=given["missing"],
        folder=path.parent,
        where=where,
    )


def _measure(given: Mapping[str, str], where: str) -> str:
    """Return the measure of a row, whose unit must be one that the measure can be told in."""
    measure, unit = given["measure"], given["unit"]
    if measure not in UNITS_OF:
        raise ConfigError(
            f'{where}: measure: needs one of {listed(UNITS_OF)}, found "{shortened(measure)}"'
            f"{perhaps(measure, UNITS_OF)}"
        )
    if factor_of(measure, unit) is None:
        known = listed(f'"{each}"' for each in UNITS_OF[measure])
        raise ConfigError(
            f'{where}: unit: {measure} is told in one of {known}, found "{shortened(unit)}"'
        )
    return measure


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f'{where}: needs a number, found "{shortened(text)}"')
    return value


def _tolerance(text: str, published: float, where: str) -> float:
    """Return a tolerance in the unit of the figure: ``3``, or ``5 %`` of what is published."""
    share = text.endswith("%")
    value = _number(text.removesuffix("%").strip(), where)
    if value < 0:
        raise ConfigError(f'{where}: needs 0 or more, found "{shortened(text)}"')
    return abs(published) * value / 100 if share else value


def _repeat(text: str, where: str) -> int:
    if not text:
        return 1
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MOST_REPEATS:
        raise ConfigError(
            f'{where}: needs a whole number from 1 to {MOST_REPEATS}, found "{shortened(text)}"'
        )
    return int(text)
