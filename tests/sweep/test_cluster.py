"""Does a Dask cluster of processes give every row, whoever is killed in the middle?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.sweeps import sweep, sweep_file
from systolic.sweep import store as stores
from systolic.sweep.key import TIMING_VERSION
from systolic.sweep.store import RESULTS, rows_of

SIM = Path(stores.__file__).resolve().parents[2]
CLUSTER = """
import sys, time
import distributed
if __name__ == "__main__":
    workers = int(sys.argv[1])
    cluster = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    print(cluster.scheduler_address, *(w.pid for w in cluster.workers.values()), flush=True)
    time.sleep(600)
"""
MANY = sweep(
    "",
    f'"chip.dram.latency_cycles" = {list(range(20))}\n'
    '"chip.dram.bytes_per_cycle" = [1, 2, 4, 8]\n"workload.shape" = ["f32[48,48]"]',
)


def started(*arguments: object, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SIM), **more},
        start_new_session=True,
    )


@contextmanager
def cluster(workers: int = 2, **more: Any) -> Iterator[tuple[str, list[int], int]]:
    """Give the address of a scheduler, the processes of its workers, and its own."""
    process = started("-c", CLUSTER, workers, **more)
    try:
        assert process.stdout is not None
        address, *pids = process.stdout.readline().split()
        yield address, list(map(int, pids)), process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def client(path: Path, out: Path, address: str) -> subprocess.Popen[str]:
    return started(
        "-m", "systolic", "sweep", path, "--out", out, "--scheduler", address, "--json",
        "--values", "none", "--no-plots",
    )  # fmt: skip


def keys(out: Path) -> list[str]:
    return [row["key"] for row in rows_of(out / RESULTS)] if (out / RESULTS).is_dir() else []


def wait_for_rows(out: Path, count: int, process: subprocess.Popen[str]) -> None:
    while len(set(keys(out))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_there_is_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from systolic.sweep import cluster as module

    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    from support.command_line import refused

    path = sweep_file(tmp_path, MANY)
    line = refused("sweep", path, "--out", tmp_path / "o", "--scheduler", "tcp://127.0.0.1:9")
    assert line.startswith("tcp://127.0.0.1:9: there is no Dask scheduler (")


@pytest.mark.slow
def test_whoever_is_killed_nothing_stored_is_run_again(tmp_path: Path) -> None:
    path, out = sweep_file(tmp_path, MANY), tmp_path / "o"
    with cluster() as (address, workers, _):
        first = client(path, out, address)
        wait_for_rows(out, 5, first)
        os.kill(workers[0], signal.SIGKILL)  # its nanny starts another
        wait_for_rows(out, 20, first)
        first.kill()
        first.communicate()
        kept = set(keys(out))
        assert len(kept) >= 20
        second = client(path, out, address)
        wait_for_rows(out, len(kept) + 10, second)
    status, text, err = ended(second)  # its scheduler has been killed
    assert (status, text) == (2, ""), (text, err)
    assert err.startswith(f"systolic: error: {address}: the scheduler has gone; what is stored")
    assert err.count("\n") == 1
    kept = set(keys(out))
    with cluster() as (address, _, _):
        status, text, err = ended(client(path, out, address))
        assert status == 0, err
    found = json.loads(text)
    assert found["stored"] >= len(kept)
    assert found["stored"] + found["computed"] == found["points"] == 80
    assert found["failed"] == 0
    assert len(set(keys(out))) == 80


@pytest.mark.slow
def test_a_point_that_kills_its_worker_twice_is_a_row(tmp_path: Path) -> None:
    """The worker's own limit of memory ends it: the one large transpose takes more."""
    site = tmp_path / "site"
    site.mkdir()
    # A work that ends its process, as the system's out-of-memory killer does.
    (site / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'systolic.sweep.cluster':\n"
        "            sys.meta_path.remove(self)\n"
        "            import systolic.sweep.rows as rows\n"
        "            real = rows.answer\n"
        "            def answer(task, manner):\n"
        "                if task.work.chip.dram.latency_cycles == 3:\n"
        "                    os.kill(os.getpid(), 9)\n"
        "                return real(task, manner)\n"
        "            rows.answer = answer\n"
        "        return None\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    vary = '"chip.dram.latency_cycles" = [0, 1, 2, 3, 4, 5]'
    path, out = sweep_file(tmp_path, sweep("", vary)), tmp_path / "o"
    paths = f"{site}{os.pathsep}{SIM}"
    with cluster(PYTHONPATH=paths) as (address, _, _):
        status, text, err = ended(client(path, out, address))
    assert status == 2
    assert json.loads(text) == {"points": 6, "stored": 0, "computed": 6, "failed": 1}
    assert "the process that ran this was ended from outside 2 times" in err
    (bad,) = [row for row in rows_of(out / RESULTS) if row["error"]]
    assert (bad["failure"], bad["chip.dram.latency_cycles"]) == ("machine", 3)
    with cluster() as (address, _, _):  # whose workers have no such fault
        status, text, _ = ended(client(path, out, address))
        assert (status, json.loads(text)["computed"]) == (2, 0)
        again = started(
            "-m", "systolic", "sweep", path, "--out", out, "--scheduler", address, "--json",
            "--values", "none", "--no-plots", "--retry",
        )  # fmt: skip
        status, text, _ = ended(again)
    assert (status, json.loads(text)) == (
        0, {"points": 6, "stored": 5, "computed": 1, "failed": 0},
    )  # fmt: skip


@pytest.mark.slow
def test_a_worker_of_another_version_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "systolic").mkdir(parents=True)
    for part in (SIM / "systolic").iterdir():
        if part.name != "__init__.py":
            (site / "systolic" / part.name).symlink_to(part)
    text = (SIM / "systolic" / "__init__.py").read_text(encoding="utf-8")
    import systolic

    old = f'__version__ = "{systolic.__version__}"'
    assert old in text
    other = text.replace(old, '__version__ = "9.9.9"')
    (site / "systolic" / "__init__.py").write_text(other, encoding="utf-8")
    path = sweep_file(tmp_path, MANY)
    with cluster(1, PYTHONPATH=str(site)) as (address, _, _):
        status, out, err = ended(client(path, tmp_path / "o", address))
    assert (status, out) == (2, "")
    assert err.startswith(f"systolic: error: {address}: worker tcp://")
    rules = f"(timing rules {TIMING_VERSION})"
    assert f"has systolic 9.9.9 {rules}, and this client systolic" in err
    assert err.count("\n") == 1
    assert not keys(tmp_path / "o")
