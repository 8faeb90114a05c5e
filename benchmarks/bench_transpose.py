"""How long the event engine takes for a transpose of 4096 x 4096 float32 on 128 x 128.

Each run is a process of its own. "engine" is the whole `simulate` call with values, the start-up of
the compiled kernel included: its budget is 2 seconds, and 500 MiB for the process. "process" is
everything a user waits for: Python's start, 64 MiB of random numbers, compiling, checking the
program, simulating, and comparing with two references. Medians of several runs, beside numpy's own
transpose of the same array in the same interleaved loop.

    python benchmarks/bench_transpose.py [RUNS]
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "configs" / "runs" / "transpose_4096.toml"
SIMULATE = f"""
import resource, time
import systolic.run.execute
simulate, spent = systolic.run.execute.simulate, []
def timed(*args, **kwargs):
    begin = time.perf_counter()
    outcome = simulate(*args, **kwargs)
    spent.append(time.perf_counter() - begin)
    return outcome
systolic.run.execute.simulate = timed
result = systolic.run({str(RUN)!r})
assert result.summary["values"]["equal"]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(result.summary["cycles"], peak, spent[0])
"""
NUMPY = """
import numpy as np
a = np.random.default_rng(0).standard_normal((4096, 4096), dtype=np.float32)
b = np.ascontiguousarray(a.T)
"""


def timed(program: str) -> tuple[float, str]:
    """Return the seconds a Python process takes for a program, and what it prints."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return time.perf_counter() - begin, done.stdout


def main(runs: int) -> None:
    """Measure and print."""
    timed(SIMULATE)  # compile the kernel once; it is cached on disk
    ours, engines, numpys, printed = [], [], [], ""
    for _ in range(runs):
        seconds, printed = timed(SIMULATE)
        ours.append(seconds)
        engines.append(float(printed.split()[2]))
        numpys.append(timed(NUMPY)[0])
    cycles, peak_kib, _ = printed.split()
    print(f"transpose 4096 x 4096 float32, {cycles} cycles, medians of {runs}")
    print(f"  engine            {statistics.median(engines):6.2f} s   (budget 2 s)")
    print(f"  process           {statistics.median(ours):6.2f} s")
    print(f"  numpy's process   {statistics.median(numpys):6.2f} s")
    print(f"  ratio             {statistics.median(ours) / statistics.median(numpys):6.1f}")
    print(f"  peak memory       {int(peak_kib) / 1024:6.0f} MiB (budget 500 MiB)")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  CPU of all runs   {children.ru_utime + children.ru_stime:6.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
