"""What does a small run cost as a process, beside `import numpy`?

    python benchmarks/bench_start_up.py [--rounds 15]

Each case is a process of its own, and the cases take turns. Printed are the least wall-clock
seconds of all rounds, the least CPU seconds (user and system), and the ratio of these to
`import numpy`: a busy machine disturbs the ratio less than the seconds. Python writes bytecode, as
it does unless PYTHONDONTWRITEBYTECODE is set, and one round goes before, uncounted: so all bytecode
is there.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

RUN = Path(__file__).resolve().parents[1] / "configs" / "runs" / "transpose_fig3.toml"
SYSTOLIC = ("-m", "systolic")
NUMPY = "import numpy"
LIBRARIES = "import numpy, ml_dtypes, pydantic, typer, rich.console, rich.table, simpy"
CASES = {
    "python": ("-c", "pass"),
    NUMPY: ("-c", NUMPY),
    "systolic --version": (*SYSTOLIC, "--version"),
    "the libraries of a run": ("-c", LIBRARIES),
    "4 x 4 run, no picture": (*SYSTOLIC, "run", str(RUN), "--no-plots"),
}


class Seconds(NamedTuple):
    """What a process takes, from its start to its end."""

    wall: float
    cpu: float


def seconds_of(arguments: tuple[str, ...], folder: str) -> Seconds:
    """Run one Python process in a folder, and return what it takes."""
    keep_bytecode = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = {**keep_bytecode, "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Seconds(wall, cpu)


def main() -> None:
    """Print the least seconds of each case, and the CPU seconds' ratio to `import numpy`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[Seconds]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, arguments in CASES.items():
                found = seconds_of(arguments, folder)
                if number:
                    taken[name].append(found)
    least = {
        name: Seconds(min(t.wall for t in times), min(t.cpu for t in times))
        for name, times in taken.items()
    }
    print(f"{'process':24s}{'wall':>8s}  {'CPU':>8s}  {'/ numpy':>8s}")
    for name, (wall, cpu) in least.items():
        print(f"{name:24s}{wall:>8.3f} s{cpu:>8.3f} s{cpu / least[NUMPY].cpu:>8.2f}")


if __name__ == "__main__":
    main()
