"""What do an explanation and an export cost, beside the run that they speak of?

    python benchmarks/bench_explain.py [--instructions 20000]

Two engines fill and wait for one another, so that there is much to follow: every instruction posts,
waits, and is on the critical path or beside it. CPU seconds, and the memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from systolic.config import load_chip
from systolic.isa import Access, Buffer, Memset, Post, Program, Wait
from systolic.run.execute import run
from systolic.run.explanation import explain
from systolic.run.observe import observed
from systolic.shipped import CONFIGS
from systolic.trace.exports.perfetto import perfetto

ENGINES = ("activation", "pooling")


def fills(count: int) -> Program:
    """Return a program of so many fills; each waits for the one before it in the other queue."""
    made = []
    for number in range(count):
        mine = number % 2
        target = Access(Buffer.STATE, "f32", 0, 4, 2048 * mine, ((1, 3),))
        waits = (Wait(1 - mine, number // 2),)
        made.append(
            Memset(engine=ENGINES[mine], target=target, value=0, waits=waits, posts=(Post(mine),))
        )
    return Program("fills", tuple(made), ENGINES)


def main() -> None:
    """Print CPU seconds of run, explanation and export, and the most memory after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--instructions", type=int, default=20_000)
    count = parser.parse_args().instructions
    chip = load_chip(CONFIGS / "chips" / "ideal_4x4.toml")
    clock = time.process_time()
    result = run(fills(count), chip, check=False)
    clock = _say(f"run of {count} instructions", clock)
    explain(result, outlooks=False)
    clock = _say("explanation, without what if", clock)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(perfetto(observed(result)))
        events = sum(1 for _ in file.open(encoding="utf-8"))
    _say(f"export of {events} events", clock)


def _say(what: str, since: float) -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    now = time.process_time()
    print(f"{what}: {now - since:.2f} s, at most {most} MiB")
    return now


if __name__ == "__main__":
    main()
