"""The large product of NeuronCore's tutorials, from graph to summary: seconds and memory.

4096 x 8192 x 8192 from DRAM to DRAM, the left operand transposed, times only. Each chip and type
has a process of its own, and seconds are of its processor time. The aim for float32 on
`neuroncore_v3` is 20 s and 1 GiB.

    python benchmarks/bench_neuroncore.py [MxKxN]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEASURE = """
import resource, sys, time
import systolic
from systolic.workload import GraphBuilder

chip, dtype, dims = sys.argv[1:]
M, K, N = map(int, dims.split("x"))
builder = GraphBuilder("dram")
lhs = builder.tensor("lhs", f"{dtype}[{M},{K}]{{0,1}}")
rhs = builder.tensor("rhs", f"{dtype}[{K},{N}]")
builder.matmul(lhs, rhs, f"{dtype}[{M},{N}]", name="out")
graph = builder.graph()
begin = time.process_time()
result = systolic.run(graph, chip, values=False)
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(len(result.program.instructions), result.cycles, seconds, peak)
"""
CASES = (("neuroncore_v2", "bf16"), ("neuroncore_v3", "bf16"), ("neuroncore_v3", "f32"))


def measure(chip: str, dtype: str, dims: str) -> list[float]:
    """Return instructions, cycles of the array, seconds, and MiB at most."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, chip, dtype, dims],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [float(part) for part in done.stdout.split()]


def main(dims: str) -> None:
    """Measure and print."""
    print(f"{'chip':16}{'type':6}{'instr.':>8}{'cycles':>13}{'seconds':>9}{'MiB':>6}")
    for chip, dtype in CASES:
        count, cycles, seconds, peak = measure(chip, dtype, dims)
        print(f"{chip:16}{dtype:6}{count:8,.0f}{cycles:13,.0f}{seconds:9.1f}{peak:6.0f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "4096x8192x8192")
