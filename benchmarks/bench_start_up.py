"""What does a small run cost as a process, beside `import numpy`?

    python benchmarks/bench_start_up.py [--rounds 15]

Each case is a process of its own, and the cases take turns. CPU seconds (user and system), the
least of all rounds, and their ratio to `import numpy`: a busy machine disturbs the ratio less than
the seconds. One round goes before, uncounted, so that bytecode is there.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

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


def cpu_seconds(arguments: tuple[str, ...], folder: str) -> float:
    """Return the CPU seconds of one Python process, from its start to its end."""
    keep_bytecode = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = {**keep_bytecode, "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Print the least CPU seconds of each case, and their ratio to `import numpy`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, arguments in CASES.items():
                seconds = cpu_seconds(arguments, folder)
                if number:
                    taken[name].append(seconds)
    least = {name: min(times) for name, times in taken.items()}
    for name, seconds in least.items():
        print(f"{name:24s}{seconds:>8.3f} s{seconds / least[NUMPY]:>8.2f}")


if __name__ == "__main__":
    main()
