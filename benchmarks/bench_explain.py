"""What do an explanation and an export cost, beside the run that they speak of?

    python benchmarks/bench_explain.py [--instructions 20000] [--formats NAME ...] [--only-exports]

Two engines fill and wait for one another, so that there is much to follow: every instruction posts,
waits, and is on the critical path or beside it. CPU seconds, and the memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time

from systolic.config import load_chip
from systolic.isa import Access, Buffer, Memset, Post, Program, Wait
from systolic.run.execute import run
from systolic.run.explanation import explain
from systolic.run.observe import observed
from systolic.shipped import CONFIGS
from systolic.trace.exports.table import FORMATS

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
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--only-exports", action="store_true", help="without the explanation")
    args = parser.parse_args()
    count = args.instructions
    chip = load_chip(CONFIGS / "chips" / "ideal_4x4.toml")
    clock = time.process_time()
    result = run(fills(count), chip, check=False)
    clock = _say(f"run of {count} instructions", clock)
    if not args.only_exports:
        explain(result, outlooks=False)
        clock = _say("explanation, without what if", clock)
    trace = result.trace
    labels = sum(map(len, trace.labels.values()))
    records = len(trace.times) + len(trace.semaphores) + len(trace.stalls) + labels
    for name in args.formats:
        with tempfile.TemporaryFile() as file:
            FORMATS[name].write(observed(result), file)
            size = file.tell() // 2**20
        clock = _say(f"export of {records} records to {name}, {size} MiB", clock)


def _say(what: str, since: float) -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    now = time.process_time()
    print(f"{what}: {now - since:.2f} s, at most {most} MiB")
    return now


if __name__ == "__main__":
    main()
