"""Networks from run file to trace: processor time and memory of each stage, by instruction too.

Each line is a process of its own, its kernel compiled and its modules imported before (start-up is
measured by `bench_start_up.py`), and seconds are of its processor time, so that whatever else runs
does not count. "compile" is `compile_graph`, "check" the program checker that runs before every
run, "simulate" the whole `simulate` call; microseconds are those of an instruction. "again" is the
checker once more, in a process that has checked so much that its compiled loops are loaded.
"compiled" is the package that `make compiled` leaves, if it is there. Medians of several rounds,
interleaved. numpy's reference is not among them.

    python benchmarks/bench_networks.py [ROUNDS] [NAME ...]
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ROOT / "configs" / "networks"
COMPILED = ROOT / ".venv-compiled" / "bin" / "python"
MEASURE = """
import resource, sys, time
from systolic.compiler import compile_graph
from systolic.config import load_run
from systolic.isa.lint import races
from systolic.isa.lint.lint import lint
from systolic.machine import event, simulate
from systolic.run.tensors import graph_images, initial_accesses

config = load_run(sys.argv[1])
begin = time.process_time()
compiled = compile_graph("bench", config.graph, config.chip, config.options)
compiled_at = time.process_time()
lint(compiled.program, config.chip, initial_accesses(compiled))
checked_at = time.process_time()
exact = sys.argv[2] == "exact"
images = graph_images(compiled, config.load_inputs()) if exact else []
begun = time.process_time()
outcome = simulate(config.chip, compiled.program, images, values=exact)
ended = time.process_time()
races.WORK = races.Checked(0)
for _ in range(2):
    begun_again = time.process_time()
    lint(compiled.program, config.chip, initial_accesses(compiled))
    again = time.process_time() - begun_again
print(len(compiled.program.instructions), outcome.trace.cycles(), compiled_at - begin,
      checked_at - compiled_at, ended - begun, again,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
VALUES = ("none", "exact")


def measure(name: str, values: str, python: str = sys.executable) -> list[float]:
    """Return instructions, cycles, seconds of the stages, and MiB at most."""
    done = subprocess.run(
        [python, "-c", MEASURE, str(NETWORKS / f"{name}.toml"), values],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [float(part) for part in done.stdout.split()]


def measure_both(name: str, values: str) -> list[float]:
    """Return what `measure` does of the package as written, then of the compiled one.

    The latter is all NaN if there is no compiled package.

    Raises SystemExit if the two differ in instructions or cycles.
    """
    found = measure(name, values)
    if not COMPILED.exists():
        return [*found, *[math.nan] * len(found)]
    other = measure(name, values, str(COMPILED))
    if found[:2] != other[:2]:
        sys.exit(f"{name}: {found[:2]} as written, {other[:2]} compiled: is `make compiled` old?")
    return [*found, *other]


def show(name: str, values: str, rows: list[list[float]]) -> None:
    """Print the medians of a network."""
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    written, compiled = medians[: len(medians) // 2], medians[len(medians) // 2 :]
    count, cycles, compiling, checking, simulating, _, peak = written
    each = "".join(
        f"{1e6 * stage / count:7.0f}us"
        for _, _, _, check, simulate, again, _ in (written, compiled)
        for stage in (check, again, simulate)
    )
    print(f"{name:18}{values:7}{count:8,.0f}{cycles:12,.0f}{compiling:8.2f}s{checking:7.2f}s"
          f"{simulating:9.2f}s{peak:6.0f}{each}")  # fmt: skip


def main(rounds: int, names: list[str]) -> None:
    """Measure and print."""
    measure_both("digits_mlp", "exact")  # compile the kernel once; it is cached on disk
    cases = [(name, values) for name in names for values in VALUES]
    found: dict[tuple[str, str], list[list[float]]] = {case: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            found[case].append(measure_both(*case))
    stages = f"{'check':>9}{'again':>9}{'simulate':>9}"
    print(f"{'':80}{'as written':>27}{'compiled':>27}")
    print(f"{'network':18}{'values':7}{'instr.':>8}{'cycles':>12}{'compile':>9}{'check':>8}"
          f"{'simulate':>10}{'MiB':>6}{stages}{stages}")  # fmt: skip
    for (name, values), rows in found.items():
        show(name, values, rows)


if __name__ == "__main__":
    shipped = sorted(path.stem for path in NETWORKS.glob("*.toml"))
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2:] or shipped)
