"""Does the store keep every row that it was given, whoever ends in the middle?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from systolic.errors import ResultError, SystolicError
from systolic.sweep import store as stores
from systolic.sweep.store import RESULTS, Store, Stored, rows_of

SIM = Path(stores.__file__).resolve().parents[2]


def line(number: int, cycles: int | None = None, **more: Any) -> bytes:
    row = {"key": f"k{number}", "sweep": "s", "vary": f'{{"n":{number}}}', "n": number}
    return json.dumps({**row, "cycles": number if cycles is None else cycles, **more}).encode()


def add(store: Store, numbers: Iterable[int], **more: Any) -> None:
    for number in numbers:
        stored = Stored(more.get("failure", ""))
        store.add((f"k{number}", "s", f'{{"n":{number}}}'), stored, line(number, **more))


def keys(folder: Path) -> list[str]:
    return sorted(row["key"] for row in rows_of(folder / RESULTS))


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted((folder / RESULTS).glob(pattern))


def test_rows_are_there_at_once_and_in_a_part_at_the_end(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        add(store, [1, 2])
        assert keys(tmp_path) == ["k1", "k2"]
    assert not files(tmp_path, "journals/*")
    (part,) = files(tmp_path, "parts/*.parquet")
    table = pq.read_table(part)
    assert table.column_names[:5] == ["key", "sweep", "vary", "n", "cycles"]
    assert table["cycles"].to_pylist() == [1, 2]


def test_a_thousand_rows_are_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PART_SECONDS", 1e9)
    with Store(tmp_path) as store:
        add(store, range(2500))
        assert [pq.read_metadata(p).num_rows for p in files(tmp_path, "parts/*")] == [1000, 1000]
    assert len(set(keys(tmp_path))) == 2500


def test_small_parts_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PART_ROWS", 2)
    monkeypatch.setattr(stores, "MERGED_PARTS", 4)
    with Store(tmp_path) as store:
        add(store, range(70))
    assert len(files(tmp_path, "parts/*")) <= 2 * 4
    assert keys(tmp_path) == sorted(f"k{n}" for n in range(70))


def killed(folder: Path, then: str) -> None:
    """Let a process write rows 1 to 3 and end without a word."""
    code = (
        "import os, sys; from pathlib import Path; sys.path.insert(0, 'tests')\n"
        "from systolic.sweep.store import Store, Stored\n"
        f"store = Store(Path({str(folder)!r}))\n"
        "for n in (1, 2, 3):\n"
        '    text = \'{"key":"k%d","sweep":"s","vary":"{}","cycles":%d}\' % (n, n)\n'
        "    store.add((f'k{n}', 's', '{}'), Stored(''), text.encode())\n"
        f"{then}\nos.kill(os.getpid(), {int(signal.SIGKILL)})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SIM)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL


def test_rows_of_a_writer_that_was_killed_are_kept(tmp_path: Path) -> None:
    killed(tmp_path, "")
    assert keys(tmp_path) == ["k1", "k2", "k3"]
    with Store(tmp_path) as store:
        assert store.seen.keys.keys() == {"k1", "k2", "k3"}
        assert not store.has_other_writers
    assert keys(tmp_path) == ["k1", "k2", "k3"]
    assert len(files(tmp_path, "parts/*")) == 1
    assert not files(tmp_path, "journals/*")


def test_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    killed(tmp_path, 'os.write(store._journal._file, b\'{"key": "k4", "cyc\')')
    assert keys(tmp_path) == ["k1", "k2", "k3"]
    Store(tmp_path).close()
    assert keys(tmp_path) == ["k1", "k2", "k3"]


def test_a_row_in_a_part_and_in_a_journal_counts_once(tmp_path: Path) -> None:
    killed(tmp_path, "store._new_journal = lambda: os.kill(os.getpid(), 9)\nstore.close()")
    assert keys(tmp_path) == sorted(["k1", "k2", "k3"] * 2)
    with Store(tmp_path) as store:
        assert len(store.seen.rows) == 3


def test_writers_see_each_other(tmp_path: Path) -> None:
    with Store(tmp_path) as other:
        with Store(tmp_path) as one:
            assert one.has_other_writers
            assert other.has_other_writers
            add(one, [1])
            other.look()
            assert other.seen.keys.keys() == {"k1"}
        assert not other.has_other_writers
        add(other, [2])
    assert keys(tmp_path) == ["k1", "k2"]


def test_one_key_with_two_results_is_found(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        add(store, [1, 2])
    with Store(tmp_path) as store:
        add(store, [1], cycles=7)
    with pytest.raises(ResultError, match=r"key k1 has two results: cycles (1 and 7|7 and 1)$"):
        Store(tmp_path)


def test_the_same_results_under_two_labels_are_one_result(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        add(store, [1])
        row = json.loads(line(1))
        other = {**row, "sweep": "t", "vary": '{"m":3}', "m": 3}
        del other["n"]
        store.add(("k1", "t", '{"m":3}'), Stored(""), json.dumps(other).encode())
    Store(tmp_path).close()


def test_a_failure_of_a_machine_gives_way(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        add(store, [1], error="killed", failure="machine")
    with Store(tmp_path) as store:
        assert store.seen.keys["k1"].failure == "machine"
        add(store, [1])
    with Store(tmp_path) as store:
        assert store.seen.keys["k1"].failure == ""


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"schema": 99, "timing": 1}, r"is a store of schema 99; this version of systolic has 1: "),
        ({"schema": 1, "timing": 99}, r"holds results of timing rules 99; this version of sys"),
        ([], r"store.json: says no version of a store of results$"),
    ],
)
def test_a_store_of_another_version(found: object, text: str, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        add(store, [1])
    (tmp_path / RESULTS / "store.json").write_text(json.dumps(found))
    with pytest.raises(SystolicError, match=text):
        Store(tmp_path)
    assert keys(tmp_path) == ["k1"]


def test_a_part_that_is_none(tmp_path: Path) -> None:
    Store(tmp_path).close()
    (tmp_path / RESULTS / "parts" / "x.parquet").write_bytes(b"no parquet")
    with pytest.raises(SystolicError, match=r"x\.parquet: is no part of a store"):
        Store(tmp_path)


def test_parts_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a write leaves when the disk is full has no name that a reader would look at."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    store = Store(tmp_path)
    add(store, [1])
    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.write_table", full)
        with pytest.raises(SystolicError, match=r"parquet: cannot be written \(No space left"):
            store.close()
    assert not files(tmp_path, "parts/*")
    assert not files(tmp_path, ".*.new")
    assert keys(tmp_path) == ["k1"]


def test_a_line_that_finds_no_room_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path) as store:
        add(store, [1])
        write = os.write

        def half(file: int, data: bytes) -> int:
            if len(data) > 20:
                return write(file, data[:20])
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("systolic.sweep.journal.os.write", half)
            with pytest.raises(SystolicError, match=r"jsonl: cannot be written \(No space left"):
                add(store, [2])
        add(store, [3])
    assert keys(tmp_path) == ["k1", "k3"]
