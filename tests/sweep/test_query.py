"""Does a question see every row once, and a copy hold them?"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest

from support.command_line import refused, run_command
from support.sweeps import LATENCIES, sweep_file
from systolic.sweep.store import Store, Stored


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def explore(text: str = LATENCIES) -> None:
    path = sweep_file(Path(), text)
    assert run_command("sweep", path, "--out", "o", "--values", "none", "--no-plots")[0] == 0


def ask(sql: str) -> object:
    status, out, err = run_command("sweep", "--query", sql, "--out", "o", "--json")
    assert status == 0, err
    return json.loads(out)


def row(key: str, cycles: int, sweep: str = "s", **more: object) -> bytes:
    found = {"key": key, "sweep": sweep, "vary": "{}", "cycles": cycles, **more}
    return json.dumps(found).encode()


def test_a_list_of_objects() -> None:
    explore()
    found = ask(
        'select "workload.shape" as shape, count(*) as n from results group by 1 order by 1'
    )
    assert found == [{"shape": "f32[4,4]", "n": 3}, {"shape": "f32[8,8]", "n": 3}]
    status, out, _ = run_command("sweep", "o", "--query", "select count(*) as points from results")
    assert (status, out.split()) == (0, ["points", "6"])


def test_rows_in_journals_are_seen_and_none_twice() -> None:
    with Store(Path("o")) as store:
        store.add(("a", "s", "{}"), Stored(""), row("a", 1))
        assert ask("select key, cycles from results") == [{"key": "a", "cycles": 1}]
    with Store(Path("o")) as store:
        store.add(("a", "s", "{}"), Stored(""), row("a", 1))
        store.add(("b", "s", "{}"), Stored(""), row("b", 2, error="killed", failure="machine"))
    with Store(Path("o")) as store:
        store.add(("b", "s", "{}"), Stored(""), row("b", 2))
        found = ask("select key, error from results order by key")
    assert found == [{"key": "a", "error": None}, {"key": "b", "error": None}]


def test_two_results_of_one_key() -> None:
    for cycles in (1, 2):
        with Store(Path(f"o{cycles}")) as store:
            store.add(("a", "s", "{}"), Stored(""), row("a", cycles))
    for part in Path("o1/results/parts").iterdir():
        part.rename(Path("o2/results/parts", part.name))
    status, out, err = run_command("sweep", "o2", "--query", "select 1 from results")
    assert (status, out) == (1, "")
    assert err.startswith("systolic: error: o2/results: key a has two results: cycles ")


def test_values_of_several_types() -> None:
    vary = '"chip.dram.latency_cycles" = [0, 10, 20]'
    explore()
    explore(LATENCIES.replace(vary, '"chip.clock.core" = [1000]\n"compile.drain" = ["row"]'))
    assert ask('select count(*) as n, count("compile.drain") as d from results') == [
        {"n": 8, "d": 2}
    ]


def test_copies() -> None:
    explore(LATENCIES.replace('name = "s"', 'name = "=1+1"'))
    assert run_command("sweep", "--export", "x.duckdb", "--out", "o")[0] == 0
    with duckdb.connect("x.duckdb") as connection:
        assert connection.execute("select count(*) from results").fetchall() == [(6,)]
    assert run_command("sweep", "--export", "x.csv", "--out", "o")[0] == 0
    with Path("x.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [each["sweep"] for each in rows] == ["'=1+1"] * 6
    assert {each["workload.shape"] for each in rows} == {"f32[4,4]", "f32[8,8]"}


def test_run_writes_no_formula_either() -> None:
    path = sweep_file(Path(), LATENCIES.replace('name = "s"', 'name = "=1+1"'))
    assert run_command("run", path, "--out", "r", "--values", "none", "--no-plots")[0] == 0
    lines = Path("r/sweep.csv").read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("'=1+1,") for line in lines[1:])


def test_bad_questions() -> None:
    assert refused("sweep", "--query", "select 1") == (
        "--out: needs the folder of the results that are asked for"
    )
    assert refused("sweep", "--query", "select 1", "--out", "none") == (
        "none/results: there are no results of systolic sweep"
    )
    explore()
    assert refused("sweep", "--query", "selec", "--out", "o").startswith("DuckDB: Parser Error: ")
    line = refused("sweep", "--query", "select cycle from results", "--out", "o")
    assert line.startswith("DuckDB: Binder Error: ")
    assert "cycle" in line
    assert refused("sweep", "--export", "x.xls", "--out", "o") == (
        'x.xls: needs a name that ends in .duckdb or .csv, found ".xls"'
    )
