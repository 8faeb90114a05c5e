"""A run as a table in Parquet, which pandas, polars and DuckDB read.

Each row is a record, and column `record` names its kind; columns that a kind does not have are
null. The rows of a kind stand together in row groups of their own, so that a reader that asks for
one kind skips the others. Needs pyarrow, which is loaded only when a run is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from systolic.trace.exports.observed import Observed, place_in
from systolic.trace.records import ALL_PARTITIONS

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = {
    "record": "string", "unit": "string", "tick": "int64", "stop_tick": "int64", "cycle": "int64",
    "instruction": "int64", "name": "string", "operation": "string", "first_tick": "int64",
    "last_tick": "int64", "done_tick": "int64", "poster": "int64", "posted_tick": "int64",
    "buffer": "string", "bank": "int64", "partition": "int64", "direction": "string",
    "winner": "string", "channel": "int64", "size_bytes": "int64", "value": "int64",
}  # fmt: skip
CORE_COLUMN = {"core": "string"}
"""On a chip of several cores: the core or processor of the unit, or of the buffer."""
ROW_GROUP = 16_384
"""Rows that are held at a time."""


class _Kind(NamedTuple):
    """Records of one kind: which columns they have, a blank between two, and their rows."""

    record: str
    columns: str
    rows: Iterable[tuple[Any, ...]]


def parquet(observed: Observed, file: BinaryIO) -> None:
    """Write the file by row groups."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    about = {
        "run": observed.run.encode("utf-8", "replace"),
        "ticks": str(observed.trace.ticks),
        "ticks_mhz": str(observed.ticks_mhz),
    }
    columns = COLUMNS | (CORE_COLUMN if observed.places else {})
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()], about)
    with ParquetWriter(file, schema) as writer:
        for kind in _kinds(observed):
            rows = iter(kind.rows)
            while some := list(islice(rows, ROW_GROUP)):
                writer.write_batch(_batch(kind, some, schema))


def _batch(kind: _Kind, rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of one kind with all columns of the file."""
    import pyarrow as pa

    found = dict(zip(kind.columns.split(), zip(*rows, strict=True), strict=True))
    found["record"] = (kind.record,) * len(rows)
    if "core" in schema.names and (of := found.get("unit", found.get("buffer"))) is not None:
        found["core"] = tuple(place_in(name) or None for name in of)
    arrays = [
        pa.array(found[each.name], each.type)
        if each.name in found
        else pa.nulls(len(rows), each.type)
        for each in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _kinds(observed: Observed) -> Iterator[_Kind]:
    """Yield every kind of record, its rows in order of time where they have a time."""
    columns = "unit tick stop_tick cycle instruction name operation first_tick last_tick done_tick"
    yield _Kind("instruction", columns, _instructions(observed))
    yield _Kind("label", "unit tick stop_tick cycle name", _labels(observed))
    columns = "unit tick stop_tick cycle instruction buffer bank partition direction winner value"
    yield _Kind("stall", columns, _stalls(observed))
    for record in ("post", "wait"):
        yield _Kind(record, "unit tick cycle name value", _semaphores(observed, record))
    columns = "unit tick cycle instruction poster posted_tick"
    yield _Kind("dependency", columns, _dependencies(observed))
    yield _Kind("fetch", "unit tick stop_tick instruction name", _fetches(observed))
    yield _Kind("port", "buffer bank direction value", _ports(observed))
    yield _Kind("descriptors", "size_bytes value", sorted(observed.trace.transfers.runs.items()))
    yield _Kind("channel", "channel name value", _channels(observed))
    yield _Kind("dram_wait", "unit name value", _dram_waits(observed))


def _instructions(observed: Observed) -> Iterator[tuple[Any, ...]]:
    names, operations = observed.names, observed.operations
    for number, unit, start, first, last, done in observed.trace.times:
        period = observed.trace.periods[unit]
        operation = None if operations is None else operations[number]
        about = (number, names[number], operation)
        yield (unit, start, done + period, start // period, *about, first, last, done)


def _labels(observed: Observed) -> Iterator[tuple[Any, ...]]:
    for unit, labels in observed.trace.labels.items():
        period = observed.trace.periods[unit]
        for first, stop, label in labels:
            yield unit, first * period, stop * period, first, label


def _stalls(observed: Observed) -> Iterator[tuple[Any, ...]]:
    for one in observed.trace.stalls:
        period = observed.trace.periods[one.unit]
        when = (one.tick, one.tick + one.cycles * period, one.tick // period)
        partition = None if one.partition == ALL_PARTITIONS else one.partition
        port = (one.buffer, one.bank, partition, one.direction, one.winner)
        yield (one.unit, *when, one.instruction, *port, one.cycles)


def _semaphores(observed: Observed, kind: str) -> Iterator[tuple[Any, ...]]:
    names, periods = observed.semaphores, observed.trace.periods
    for one in observed.trace.semaphores:
        if one.kind == kind:
            cycle = one.tick // periods[one.unit]
            yield one.unit, one.tick, cycle, names[one.semaphore], one.value


def _dependencies(observed: Observed) -> Iterator[tuple[Any, ...]]:
    times = observed.trace.times
    for poster, posted, waiter, started in observed.arrows():
        unit = times[waiter].unit
        yield unit, started, started // observed.trace.periods[unit], waiter, poster, posted


def _fetches(observed: Observed) -> Iterator[tuple[Any, ...]]:
    for begin, instruction, unit, arrival in observed.trace.fetches:
        yield unit, begin, arrival, instruction, observed.names[instruction]


def _ports(observed: Observed) -> Iterator[tuple[Any, ...]]:
    return ((*port, ticks) for port, ticks in observed.trace.port_cycles.items())


def _channels(observed: Observed) -> Iterator[tuple[Any, ...]]:
    for number, one in sorted(observed.trace.transfers.channels.items()):
        yield number, "hits", one.hits
        yield number, "opened", one.opened
        yield number, "conflicts", one.conflicts
        yield number, "busy_cycles", one.busy_cycles


def _dram_waits(observed: Observed) -> Iterator[tuple[Any, ...]]:
    for unit, one in sorted(observed.trace.transfers.waits.items()):
        yield unit, "bank_cycles", one.bank_cycles
        yield unit, "row_cycles", one.row_cycles
        yield unit, "bus_cycles", one.bus_cycles
