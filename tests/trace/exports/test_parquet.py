"""Is a run in Parquet what was recorded? Read by pyarrow, polars and DuckDB.

What is told of a run is held against its records and its program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet
import pytest

from support.explained import random_run
from support.tiers import quick_first
from systolic.run.execute import run
from systolic.run.observe import observed
from systolic.run.result import Result
from systolic.shipped import CONFIGS
from systolic.trace.exports import parquet

Rows = list[tuple[Any, ...]]


def random_result(seed: int) -> Result:
    made = random_run(seed)
    return Result({"run": "random"}, {}, made.trace, made.chip, made.program)


def written(result: Result, folder: Path) -> Path:
    path = folder / "run.parquet"
    with path.open("wb") as file:
        parquet.parquet(observed(result), file)
    return path


def rows(path: Path, record: str, columns: str) -> Rows:
    """Return these columns of the rows of a kind; all others are null in them."""
    found = pyarrow.parquet.read_table(path, filters=[("record", "==", record)])
    others = set(found.column_names) - {"record", *columns.split()}
    assert all(found[name].null_count == len(found) for name in others)
    return list(zip(*(found[name].to_pylist() for name in columns.split()), strict=True))


SEEDS = quick_first(range(60), 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_instructions_and_labels(seed, tmp_path):
    result = random_result(seed)
    path, trace, program = written(result, tmp_path), result.trace, result.program
    columns = "instruction unit tick first_tick last_tick done_tick stop_tick cycle name"
    assert rows(path, "instruction", columns) == [
        (*t, t.done + trace.periods[t.unit], t.start // trace.periods[t.unit],
         type(program.instructions[t.instruction]).__name__)
        for t in trace.times
    ]  # fmt: skip
    told = rows(path, "label", "unit cycle tick stop_tick name")
    assert told == [
        (unit, a, a * trace.periods[unit], b * trace.periods[unit], label)
        for unit, labels in trace.labels.items()
        for a, b, label in labels
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_stalls_ports_and_fetches(seed, tmp_path):
    result = random_result(seed)
    path, trace = written(result, tmp_path), result.trace
    columns = "tick unit instruction value buffer bank direction winner partition stop_tick cycle"
    assert rows(path, "stall", columns) == [
        (s.tick, s.unit, s.instruction, s.cycles, s.buffer, s.bank, s.direction, s.winner,
         None if s.partition < 0 else s.partition,
         s.tick + s.cycles * trace.periods[s.unit], s.tick // trace.periods[s.unit])
        for s in trace.stalls
    ]  # fmt: skip
    ports = {row[:3]: row[3] for row in rows(path, "port", "buffer bank direction value")}
    assert ports == trace.port_cycles
    fetches = rows(path, "fetch", "tick instruction unit stop_tick name")
    assert [row[:4] for row in fetches] == list(trace.fetches)


@pytest.mark.parametrize("seed", SEEDS)
def test_semaphores_and_what_waits_for_what(seed, tmp_path):
    """A dependency leads from an instruction that posts to one that waits for that post."""
    result = random_result(seed)
    path, trace, program = written(result, tmp_path), result.trace, result.program
    for kind in ("post", "wait"):
        told = rows(path, kind, "tick unit name value cycle")
        assert told == [
            (e.tick, e.unit, program.semaphores[e.semaphore], e.value,
             e.tick // trace.periods[e.unit])
            for e in trace.semaphores
            if e.kind == kind
        ]  # fmt: skip
    told = rows(path, "dependency", "instruction poster tick posted_tick unit cycle")
    waits = [wait for each in program.instructions for wait in each.waits if wait.value > 0]
    assert len(told) == len(waits)
    for waiter, poster, tick, posted, unit, _ in told:
        awaited = {wait.semaphore for wait in program.instructions[waiter].waits}
        assert awaited & {post.semaphore for post in program.instructions[poster].posts}
        assert trace.times[waiter][1:3] == (unit, tick)
        assert posted < tick


@pytest.mark.parametrize("seed", [1, 2, 10, 15, 30, 50])  # but for 1 and 2 DRAM with banks
def test_transfers(seed, tmp_path):
    result = random_result(seed)
    path, transfers = written(result, tmp_path), result.trace.transfers
    assert dict(rows(path, "descriptors", "size_bytes value")) == transfers.runs
    channels = {row[:2]: row[2] for row in rows(path, "channel", "channel name value")}
    assert channels == {
        (number, name): getattr(one, name)
        for number, one in transfers.channels.items()
        for name in ("hits", "opened", "conflicts", "busy_cycles")
    }
    waits = {row[:2]: row[2] for row in rows(path, "dram_wait", "unit name value")}
    assert waits == {
        (unit, name): getattr(one, name)
        for unit, one in transfers.waits.items()
        for name in ("bank_cycles", "row_cycles", "bus_cycles")
    }


def test_row_groups_hold_one_kind_each(tmp_path, monkeypatch):
    """So a reader that wants one kind skips the others; the table is the same as in large ones."""
    result = random_result(5)
    whole = pyarrow.parquet.read_table(written(result, tmp_path))
    monkeypatch.setattr(parquet, "ROW_GROUP", 7)
    path = written(result, tmp_path)
    assert pyarrow.parquet.read_table(path).equals(whole)
    found = pyarrow.parquet.ParquetFile(path).metadata
    sizes = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    assert max(sizes) == 7
    for number in range(found.num_row_groups):
        statistics = found.row_group(number).column(0).statistics
        assert statistics.min == statistics.max


def test_rows_are_taken_as_they_are_written(tmp_path, monkeypatch):
    """No more than two row groups of rows are held: the file grows while records are asked for."""
    monkeypatch.setattr(parquet, "ROW_GROUP", 10)
    asked, behind = 0, []

    def labels(_):
        nonlocal asked
        for number in range(200):
            asked += 1
            behind.append((number, file.tell()))
            yield "dma0", number, number + 1, number, "idle"

    monkeypatch.setattr(parquet, "_labels", labels)
    with (tmp_path / "run.parquet").open("wb") as file:
        parquet.parquet(observed(random_result(5)), file)
    places = [place for _, place in behind]
    assert asked == 200
    assert len(set(places)) >= 200 // 10 - 1


def test_other_readers(tmp_path):
    """Polars and DuckDB, of a compiled run, whose instructions have operations."""
    result = run(CONFIGS / "runs" / "matmul_chain.toml", values=False)
    path = written(result, tmp_path)
    found = polars.scan_parquet(path).filter(polars.col("record") == "label")
    tallied = found.group_by("unit", "name").agg(
        cycles=(polars.col("stop_tick") - polars.col("tick")).sum()
    )
    cycles = {(unit, name): count for unit, name, count in tallied.collect().rows()}
    assert cycles == {
        (unit, label): count
        for unit, one in result.summary["units"].items()
        for label, count in one["labels"].items()
    }
    spans = duckdb.sql(
        f"select operation, max(stop_tick) - min(tick) from '{path}' "
        "where record = 'instruction' group by operation"
    ).fetchall()
    assert dict(spans) == {each["name"]: each["cycles"] for each in result.summary["operations"]}


def test_what_the_file_says_of_the_run(tmp_path):
    result = run(CONFIGS / "runs" / "transpose_fig3.toml", values=False)
    about = pyarrow.parquet.read_schema(written(result, tmp_path)).metadata
    assert about == {b"run": b"transpose_fig3", b"ticks": b"19", b"ticks_mhz": b"1000"}
