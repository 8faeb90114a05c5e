"""How long does each shipped run simulate, and how long did it in another state of the project?

    python benchmarks/bench_runs.py [--rounds 5] [--run NAME ...] [--against FOLDER]

Every run file of configs/runs is compiled once, a sweep to all its points, and simulated again and
again: for times only, and with values. CPU seconds of the `simulate` calls alone, the least of the
rounds; what takes less than 20 ms is repeated within a round.

`--against FOLDER` names the sources of another version (`git archive COMMIT | tar x -C FOLDER`).
Each version is a process of its own that reads its own run files. They take turns, the other one
first in every second round, and the last column says how many times as long this one takes. Points
of a sweep and runs that only one of the two has are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
LEAST_SECONDS = 0.02
KINDS = {"times": False, "values": True}
SLOWER = 1.1
"""No shipped run may take more than this many times as long as before."""


# -- one version: a process that answers lines ----------------------------------------------------


@cache
def points_of(run: str) -> dict[str, Any]:
    """Return the points of a run file by name; of a run without a sweep one, without a name."""
    from systolic.config import expand, load_run

    config = load_run(Path.cwd() / "configs" / "runs" / f"{run}.toml")
    return {point.name: point.config for point in expand(config)} or {"": config}


@cache
def prepared(run: str, names: tuple[str, ...], *, values: bool) -> list[tuple[Any, ...]]:
    """Return chip, program and memory contents of those points."""
    from systolic.compiler import compile_graph
    from systolic.run.tensors import graph_images

    made = []
    for name in names:
        config = points_of(run)[name]
        compiled = compile_graph(run, config.graph, config.chip, config.options)
        images = graph_images(compiled, config.load_inputs()) if values else []
        made.append((config.chip, compiled.program, images, config.engine))
    return made


def measured(run: str, names: tuple[str, ...], *, values: bool, repeats: int) -> dict[str, Any]:
    """Return the CPU seconds of simulating all those points, and the cycles of all together."""
    from systolic.machine import simulate

    work, cycles = prepared(run, names, values=values), 0
    begun = time.process_time()
    for _ in range(repeats):
        cycles = sum(
            simulate(chip, program, images, engine=engine, values=values).trace.cycles()
            for chip, program, images, engine in work
        )
    return {"seconds": (time.process_time() - begun) / repeats, "cycles": cycles}


def answer() -> None:
    """Answer requests, one JSON object on a line, until there are no more."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "names" not in asked:
            prepared.cache_clear()
            print(json.dumps([*points_of(asked["run"])]), flush=True)
            continue
        kind = {"values": asked["values"], "repeats": asked["repeats"]}
        print(json.dumps(measured(asked["run"], tuple(asked["names"]), **kind)), flush=True)


class Version:
    """The project as it stands in a folder: a process that simulates what it is asked to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--answer"],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root / "sim")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def runs(self) -> set[str]:
        return {path.stem for path in (self.root / "configs" / "runs").glob("*.toml")}

    def ask(self, **request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


# -- both, in turn --------------------------------------------------------------------------------


def measure(versions: list[Version], run: str, rounds: int, *, values: bool) -> list[Any]:
    """Return for each version the least CPU seconds of a run, and its cycles."""
    each = [version.ask(run=run) for version in versions]
    names = [name for name in each[0] if all(name in points for points in each)]
    request = {"run": run, "names": names, "values": values}
    first = [version.ask(**request, repeats=1) for version in versions]  # also compiles kernels
    again = min(version.ask(**request, repeats=1)["seconds"] for version in versions)
    repeats = max(1, round(LEAST_SECONDS / max(again, 1e-6)))
    least = [float("inf")] * len(versions)
    for number in range(rounds):
        for place in range(len(versions))[:: 1 if number % 2 else -1]:
            seconds = versions[place].ask(**request, repeats=repeats)["seconds"]
            least[place] = min(least[place], seconds)
    return [(seconds, one["cycles"]) for seconds, one in zip(least, first, strict=True)]


def show(run: str, kind: str, found: list[Any]) -> bool:
    """Print the line of a run, and return whether this version is slower than it may be."""
    (seconds, cycles), *others = found
    line = f"{run:26s}{kind:8s}{cycles:>13,} cycles{seconds * 1000:>10.2f} ms"
    for before, cycles_before in others:
        note = "" if cycles == cycles_before else f"  ({cycles_before:,} cycles before)"
        line += f"{before * 1000:>10.2f} ms{seconds / before:>7.2f}{note}"
    print(line, flush=True)
    return any(seconds > SLOWER * before for before, _ in others)


def main() -> None:
    """Print a line for each run and kind, and which take longer than a tenth more."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run", action="append", help="name of a shipped run (default: all)")
    parser.add_argument("--against", type=Path, help="folder of another version's sources")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.answer:
        answer()
        return
    versions = [Version(root) for root in (HERE, chosen.against) if root]
    runs = chosen.run or sorted(set.intersection(*(version.runs() for version in versions)))
    slower = [
        f"{run} ({kind})"
        for run in runs
        for kind, values in KINDS.items()
        if show(run, kind, measure(versions, run, chosen.rounds, values=values))
    ]
    for version in versions:
        version.end()
    if chosen.against:
        print(f"slower by more than a tenth: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
