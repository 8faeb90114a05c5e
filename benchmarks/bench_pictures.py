"""How long does a picture take, as a process and drawn of a long run?

    python benchmarks/bench_pictures.py [--rounds 7] [--views NAME ...] [--only long|processes]

First, figure 3 of the patent in every view of a run: each a process of its own, in turn, bytecode
there; the least CPU seconds (user and system) of all rounds, and their ratio to `import numpy` in
the same rounds, which a busy machine disturbs less. Then the views of a run of more than 100,000
instructions, compiled and simulated once, times only: CPU seconds from the finished run to the PNG,
and the most memory of the process so far.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench_start_up import cpu_seconds

from systolic.config import load_run
from systolic.report.plots.look import Look
from systolic.report.plots.table import PLOTS
from systolic.run.execute import run
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS

RUNS = CONFIGS / "runs"
FIG_3 = RUNS / "transpose_fig3.toml"
NUMPY = "import numpy"
OF_RUNS = [name for name, plot in PLOTS.items() if plot.given == "run"]
OF_LONG_RUNS = [name for name, plot in PLOTS.items() if plot.given != "shape"]
IN_DRAM = ("--set", "workload.home=dram")
PRODUCT = RUNS / "matmul_1024_onchip.toml"
LONG = (
    "workload.lhs=bf16[1280,2048]{0,1}", "workload.rhs=bf16[2048,2560]{1,0}",
    "workload.out=bf16[1280,2560]{1,0}", "workload.home=dram",
    "chip.pe_array.rows=16", "chip.pe_array.cols=16", "chip.state_buffer.partitions=16",
    "chip.state_buffer.bytes_per_partition=4194304",
)  # fmt: skip


def arguments(view: str, folder: str) -> tuple[str, ...]:
    """Return the arguments of Python that draw a view of figure 3."""
    picture = str(Path(folder) / "picture.png")
    home = IN_DRAM if view == "dram" else ()
    return ("-m", "systolic", "plot", view, str(FIG_3), "--out", picture, *home)


def processes(views: Sequence[str], rounds: int) -> Iterator[tuple[str, float]]:
    """Yield the name and the least CPU seconds of each process."""
    with tempfile.TemporaryDirectory() as folder:
        cases = {NUMPY: ("-c", NUMPY), "systolic run": ("-m", "systolic", "run", str(FIG_3))}
        cases |= {view: arguments(view, folder) for view in views}
        least = dict.fromkeys(cases, float("inf"))
        for _ in range(rounds + 1):  # the first round only makes bytecode
            for name, case in cases.items():
                least[name] = min(least[name], cpu_seconds(case, folder))
    yield from least.items()


def drawings(views: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield what was drawn of the long run, and the CPU seconds from the run to the file."""
    result = run(load_run(PRODUCT, LONG), values=False, check=False, grid=True)
    print(f"{len(result.program.instructions):,} instructions, {result.cycles:,} cycles")
    with tempfile.TemporaryDirectory() as folder:
        for view in views:
            begun = time.process_time()
            PLOTS[view].write(plotted(result), Look("long"), Path(folder) / "picture.png")
            yield view, time.process_time() - begun


def main() -> None:
    """Print CPU seconds of each picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--views", nargs="*", choices=OF_LONG_RUNS, default=OF_LONG_RUNS)
    parser.add_argument("--only", choices=("processes", "long"))
    args = parser.parse_args()
    if args.only != "long":
        views = [view for view in args.views if view in OF_RUNS]
        found = dict(processes(views, args.rounds))
        for name, seconds in found.items():
            print(f"{name}, as a process: {seconds:.2f} s, {seconds / found[NUMPY]:.1f} x numpy")
    if args.only != "processes":
        for name, seconds in drawings(args.views):
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"{name}, drawn: {seconds:.2f} s, at most {most} MiB")


if __name__ == "__main__":
    main()
