# ruff: noqa: E501 - a page of prose
"""What a sweep costs besides its runs, as CPU time; writes bench_sweep.md.

    python benchmarks/bench_sweep.py [--quick]

CPU time is read from the processes themselves, so a busy machine changes little. Figures are of points of
the size that this script makes, on as many processes as there are cores.
"""

from __future__ import annotations

import multiprocessing.forkserver
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from systolic.config.sweep import SweepPoint
from systolic.run.processes import as_finished
from systolic.sweep.local import cores
from systolic.sweep.rows import PointManner, PointTask, answer
from systolic.sweep.space import SweepFile, load_sweep
from systolic.sweep.store import RESULTS, Store, Stored, table_of, write_part

PAGE = Path(__file__).with_suffix(".md")
TIMES = PointManner(values=False)
TICKS = os.sysconf("SC_CLK_TCK")
TEXT = """\
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "{shape}"
home = "dram"
[[sweep]]
name = "bench"
[sweep.vary]
"chip.dram.latency_cycles" = {latencies}
"chip.dram.bytes_per_cycle" = [1, 2, 4, 8]
"""


def sweep_of(folder: Path, shape: str, points: int) -> SweepFile:
    path = folder / "bench.toml"
    path.write_text(TEXT.format(shape=shape, latencies=list(range(points // 4))))
    return load_sweep(path, [], values=False)


def points_of(file: SweepFile) -> Iterator[SweepPoint]:
    (space,) = file.spaces
    yield from map(space.point, range(space.size))


def tasks_of(file: SweepFile) -> list[PointTask]:
    return [file.resolved(point, file.spaces[0]) for point in points_of(file)]


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def timed(act) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def resolving(folder: Path) -> float:
    """Return microseconds to resolve, hash, label and look up a point."""
    file, known = sweep_of(folder, "f32[16,16]", 4000), {}

    def look() -> None:
        for point in points_of(file):
            task = file.resolved(point, file.spaces[0])
            known.get(file.label(point, task.key).key)

    look()
    return timed(look) / 4000 * 1e6


def storing(folder: Path) -> tuple[float, float]:
    """Return microseconds to hand a point to a process and take its row, and to store the row."""
    file = sweep_of(folder, "f32[16,16]", 4000)
    tasks = tasks_of(file)
    found = answer(tasks[0], TIMES)
    batches = [tasks[n : n + 50] for n in range(0, len(tasks), 50)]

    def carry() -> None:
        for batch in batches:
            pickle.loads(pickle.dumps(([found] * len(batch), 0.1)))
            pickle.dumps(batch)

    labels = [
        file.label(point, task.key) for point, task in zip(points_of(file), tasks, strict=True)
    ]

    def store() -> None:
        with Store(folder / "store") as kept:
            for label in labels:
                kept.add(label.row, Stored(""), label.line(found.results))

    return timed(carry) / 4000 * 1e6, timed(store) / 4000 * 1e6


def measured(task: PointTask) -> tuple[int, float, float]:
    """Run a point; return the process, its CPU seconds for the point, and all it has had."""
    began = time.process_time()
    answer(task, TIMES)
    return os.getpid(), time.process_time() - began, time.process_time()


def pool(tasks: list[PointTask]) -> tuple[float, float]:
    """Return CPU seconds of points in one process, and of the same points by the pool."""
    for task in tasks[:3]:
        answer(task, TIMES)
    alone = timed(lambda: [answer(task, TIMES) for task in tasks])
    before = time.process_time()
    total: dict[int, float] = {}
    with closing(as_finished(measured, tasks, jobs=cores())) as found:
        for pair in found:
            if pair is not None:
                pid, _, so_far = pair[1]
                total[pid] = so_far
    client = time.process_time() - before
    server = multiprocessing.forkserver._forkserver._forkserver_pid
    return alone, client + sum(total.values()) + cpu_of(server)


CLUSTER = """
import sys, time, distributed
if __name__ == "__main__":
    cluster = distributed.LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1,
                                       dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    sys.stdin.readline()
    cluster.close()
"""


def dask(tasks: list[PointTask]) -> tuple[float, float]:
    """Return microseconds of CPU of the client and of the scheduler for each point."""
    from systolic.sweep.cluster import ClusterScheduler

    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(cores())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        address = process.stdout.readline().strip()
        scheduler = ClusterScheduler(address, TIMES)
        list(scheduler.answers(iter(tasks[:50])))
        server, before = cpu_of(process.pid), time.process_time()
        done = [pair for pair in scheduler.answers(iter(tasks)) if pair]
        client, server = time.process_time() - before, cpu_of(process.pid) - server
        assert len(done) == len(tasks)
        return client / len(tasks) * 1e6, server / len(tasks) * 1e6
    finally:
        process.communicate("\n")


def query(folder: Path, rows: int) -> tuple[float, float]:
    """Return CPU and wall seconds of one query of a store with `rows` rows, in parts of a writer."""
    from systolic.sweep.query import query as ask

    file = sweep_of(folder, "f32[16,16]", 1000)
    tasks = tasks_of(file)
    inside = answer(tasks[0], TIMES).results
    out = folder / "million"
    Store(out).close()
    size, parts = 32_000, out / RESULTS / "parts"
    for first in range(0, rows, size):
        lines = [
            b'{"key":"%064x","sweep":"s","vary":"{}","n":%d,' % (n * 2654435761, n)
            + inside + b"}"
            for n in range(first, min(first + size, rows))
        ]  # fmt: skip
        write_part(table_of(lines), parts / f"{first:08d}.parquet", out / ".new")
    sql = "select bound_why, count(*), min(cycles), avg(n) from results group by 1"
    ask(out, sql)
    began, cpu = time.monotonic(), time.process_time()
    ask(out, sql)
    return time.process_time() - cpu, time.monotonic() - began


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    folder = Path(tempfile.mkdtemp())
    try:
        look = resolving(folder)
        carry, keep = storing(folder)
        slow = tasks_of(sweep_of(folder, "f32[32,32]", 16 if quick else 160))
        alone, by_pool = pool(slow)
        client, server = dask(tasks_of(sweep_of(folder, "f32[8,8]", 200 if quick else 4000)))
        rows = 100_000 if quick else 1_000_000
        cpu, wall = query(folder, rows)
    finally:
        shutil.rmtree(folder)
    figures = Figures(look, carry, keep, len(slow), alone, by_pool, client, server, rows, cpu, wall)
    sys.stdout.write(figures.page())
    if not quick:
        PAGE.write_text(figures.page(), encoding="utf-8")


class Figures:
    """What was measured, as a page."""

    def __init__(self, *found: float) -> None:
        (self.look, self.carry, self.keep, self.points, self.alone, self.by_pool, self.client,
         self.server, self.rows, self.cpu, self.wall) = found  # fmt: skip

    def page(self) -> str:
        transport = self.carry + self.keep
        each = self.alone / self.points * 1e3
        own = self.look + transport
        dask = self.look + self.keep + self.client
        server_rate = 1e6 / self.server
        rate = min(1e6 / dask, server_rate)
        return f"""\
# What a sweep costs besides its runs

`python benchmarks/bench_sweep.py` wrote this page: CPU time, on {cores()} cores that others used at the same
time, so wall time says little here. How sweeps work: [sweeps.md](../docs/sweeps.md).

| what | CPU | aim |
|---|---:|---:|
| client: resolve a point, hash it, look it up | {self.look:.0f} us | 300 us |
| client: hand a point to a process and take its row ({self.carry:.0f} us), store it ({self.keep:.0f} us) | {transport:.0f} us | 100 us |
| {self.points:.0f} points of {each:.0f} ms by the pool, of the CPU of one process | {self.by_pool / self.alone:.2f} | 1.25 |
| Dask client, of a point in batches: submit, watch, fetch | {self.client:.0f} us | |
| Dask scheduler (and the cluster's own process), of a point | {self.server:.0f} us | |
| a question about {self.rows:,.0f} stored rows: CPU, and wall | {self.cpu:.2f} s, {self.wall:.2f} s | 1 s |

The pool's CPU includes the start of its processes: each is forked from one that has imported what they
need.

## Shares of the cores, by these figures

A point of 50 ms by the pool takes {own:.0f} us of the client: {100 * 50e3 / (50e3 + own):.1f} % of the cores
are left to the runs, and the pool's own part above. Through Dask client and scheduler take
{dask + self.server:.0f} us: {100 * 50e3 / (50e3 + dask + self.server):.1f} % if they share the cores of the
workers.

## A million points on a thousand workers, on paper

None of this was run. The client is one process: at {dask:.0f} us a point it feeds {1e6 / dask:,.0f} points a
second, the scheduler {server_rate:,.0f}; a million points take them {1e6 / rate / 60:.0f} minutes. A thousand
workers are busy all the time if a point takes {1000 / rate * 1e3:.0f} ms or longer; with points of a second the
million takes 17 minutes, and the client is busy {100 * 1000 / rate:.0f} % of the time. With points of 50 ms
{rate * 0.05:.0f} workers are enough: more do not help, but several clients do, each with a part of the sweep and
all with one store. The scheduler holds four batches of a worker, 4,000 in all. The store has a row of a few
kilobytes as JSON and some hundred bytes as Parquet for each point; the keys that a client remembers are about
150 MB.
"""


if __name__ == "__main__":
    main()
