"""Matrix products from graph to trace: how long compiling, checking and simulating take.

Each line is a process of its own, its kernel compiled before, and seconds are of its processor
time, so that whatever else runs does not count. "compile" is `compile_graph`, "check"
the program checker that runs before every run, "simulate" the whole `simulate` call. Medians of
several runs, interleaved. Targets: 1024^3 with exact values simulated in 0.5 s and the process
within 500 MiB; 4096^3, times only, in 5 s with the check and without; 100,000 instructions through
the event engine in 10 s; compiling shorter than simulating.

    python benchmarks/bench_compiler.py [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEASURE = """
import resource, sys, time
import numpy as np
from systolic.compiler import compile_graph
from systolic.config import load_run
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.run.tensors import graph_images
from systolic.workload import GraphBuilder

run, dims, home, values, *overrides = sys.argv[1:]
M, K, N = map(int, dims.split("x"))
chip = load_run(run, overrides).chip
builder = GraphBuilder(home)
x = builder.tensor("x", f"bf16[{M},{K}]{{0,1}}")
w = builder.tensor("w", f"bf16[{K},{N}]{{1,0}}")
builder.matmul(x, w, f"bf16[{M},{N}]", name="y")
graph = builder.graph()
begin = time.process_time()
compiled = compile_graph("bench", graph, chip)
compiled_at = time.process_time()
lint(compiled.program, chip)
checked_at = time.process_time()
images = []
if values == "exact":
    numbers = np.random.default_rng(0)
    inputs = {n: numbers.standard_normal(graph.shape(n).dims, dtype=np.float32)
              .astype(graph.shape(n).dtype) for n in graph.inputs}
    images = graph_images(compiled, inputs)
    begun = time.process_time()
    outcome = simulate(chip, compiled.program, images)
else:
    begun = time.process_time()
    outcome = simulate(chip, compiled.program, values=False)
ended = time.process_time()
print(len(compiled.program.instructions), outcome.trace.cycles(), compiled_at - begin,
      checked_at - compiled_at, ended - begun,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
SMALL_ARRAY = (
    "chip.pe_array.rows=16", "chip.pe_array.cols=16", "chip.state_buffer.partitions=16",
    "chip.state_buffer.bytes_per_partition=4194304",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A product, where it lies, whether with values, and what of the chip is other."""

    name: str
    dims: str
    home: str
    values: str
    overrides: tuple[str, ...] = ()


CASES = (
    Case("1024^3, exact values", "1024x1024x1024", "state_buffer", "exact"),
    Case("1024^3, exact values, DRAM", "1024x1024x1024", "dram", "exact"),
    Case("4096^3, times only, DRAM", "4096x4096x4096", "dram", "none"),
    Case("2048x2048x2560 on 16 x 16, times", "2048x2048x2560", "state_buffer", "none", SMALL_ARRAY),
)


def measure(case: Case) -> list[float]:
    """Return instructions, cycles, seconds of the three stages, and MiB at most."""
    run = ROOT / "configs" / "runs" / "matmul_1024_onchip.toml"
    arguments = [str(run), case.dims, case.home, case.values, *case.overrides]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *arguments],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [float(part) for part in done.stdout.split()]


def main(runs: int) -> None:
    """Measure and print."""
    measure(CASES[0])  # compile the kernel once; it is cached on disk
    found: dict[str, list[list[float]]] = {case.name: [] for case in CASES}
    for _ in range(runs):
        for case in CASES:
            found[case.name].append(measure(case))
    print(f"{'product':34}{'instr.':>8}{'cycles':>12}{'compile':>9}{'check':>8}{'simulate':>10}"
          f"{'MiB':>6}")  # fmt: skip
    for name, rows in found.items():
        count, cycles, *seconds, peak = (
            statistics.median(column) for column in zip(*rows, strict=True)
        )
        compiling, checking, simulating = seconds
        print(f"{name:34}{count:8,.0f}{cycles:12,.0f}{compiling:8.2f}s{checking:7.2f}s"
              f"{simulating:9.2f}s{peak:6.0f}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
