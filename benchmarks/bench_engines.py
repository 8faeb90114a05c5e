"""The two Python engines against Verilator and BLAS: cycles per second, as ratios, one thread.

    python benchmarks/bench_engines.py [--rounds 7] [--markdown]

The program: 32 pairs of a load and a multiply of M vectors on a full 128 x 128 array, double
buffered, int8 operands with int32 sums, or float32. All take turns in every round; ratios are
medians over the rounds. Counted are, for the Python engines, the whole `simulate` call from Program
to Trace (kernel compiled before); for Verilator the clocked loop alone, without building the model
or reading files. Before anything is measured, result buffers and cycles are compared.

Verilator is measured twice: `vector` is hdl/array_bench.v written for the vector instructions of
the host, the fastest of what was tried; `plain` is the same array written one PE after the other.
Float32 is done by the host's own multiply and add in both ($c, hdl/arithmetic.h). Each target is
held against both.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip, Dma, Dram, PEArray, ResultBuffer, StateBuffer
from systolic.isa import Access, Buffer, LoadWeights, MatMul, Program
from systolic.machine import Image, Outcome, simulate
from systolic.machine.event.pe_array import row_order as kernel

SIDE, PAIRS = 128, 32
WORDS = 1024  # per partition, of the state buffer and of the result buffer
BANK_BYTES = 2048  # M = 512 float32; the array of the RTL has no larger memory to fill either
SETTLE_CYCLES = 5
"""What the RTL goes on after the last write before it says that nothing moves any more."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
TYPES = {"int32": ("s8", "s32", np.int8), "float32": ("f32", "f32", np.float32)}
FORMS: dict[str, list[str]] = {"vector": [], "plain": ["-DPLAIN"]}
HERE = Path(__file__).resolve().parent
SOURCES = (HERE / "hdl" / "array_bench.v", HERE.parent / "tests" / "rtl" / "hdl" / "sequencer.v")
TARGETS = {
    (128, "register"): 2.0,
    (512, "register"): 2.0,
    (128, "event"): 25.0,
    (512, "event"): 25.0,
    (128, "timing"): 30.0,
    (512, "timing"): 100.0,
}
BLAS_SIDE, BLAS_TARGET = 1024, 0.25
VECTORS = 512  # a bank of float32 sums

Array = npt.NDArray[np.generic]


# ---- the program, twice --------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """The measured program for one number format and M."""

    number: str
    vectors: int
    chip: Chip
    program: Program
    images: tuple[Image, ...]


def access(buffer: Buffer, dtype: str, start: int, count: int) -> Access:
    """Return `count` elements of every partition from byte `start` on."""
    return Access(buffer, dtype, 0, SIDE, start, ((1, count),))


def work(number: str, vectors: int) -> Work:
    """Return PAIRS loads and multiplies; weights and moving vectors lie in banks apart."""
    dtype, total, numpy = TYPES[number]
    chip = Chip(
        name="bench",
        clock={"core": 1000},
        state_buffer=StateBuffer(partitions=SIDE, bytes_per_partition=2 * BANK_BYTES, banks=2),
        pe_array=PEArray(rows=SIDE, cols=SIDE, cycles_per_vector={dtype: 1}),
        result_buffer=ResultBuffer(banks=1, bank_bytes=4 * WORDS),
        dma=Dma(bytes_per_cycle=64),
        dram=Dram(size_bytes=4096, bytes_per_cycle=64),
    )
    weights = access(Buffer.STATE, dtype, 0, SIDE)
    moving = access(Buffer.STATE, dtype, BANK_BYTES, vectors)
    pair = (
        LoadWeights(weights=weights),
        MatMul(moving=moving, result=access(Buffer.RESULT, total, 0, vectors)),
    )
    rng = np.random.default_rng(1)
    images = tuple(
        Image(place, (100 * rng.standard_normal((SIDE, place.elements))).astype(numpy))
        for place in (weights, moving)
    )
    return Work(number, vectors, chip, Program("pairs", pair * PAIRS), images)


def write_rtl_inputs(job: Work, folder: Path) -> None:
    """Write the same program and the same operands for the RTL (formats: sequencer.v)."""
    load = [1, SIDE, SIDE, 0, 0, 0, 0, 0]
    multiply = [2, SIDE, SIDE, job.vectors, SIDE, 0, 0, 0]
    (folder / "queue.hex").write_text("".join(f"{w:x}\n" for w in (load + multiply) * PAIRS))
    state = np.concatenate([image.values for image in job.images], axis=1)
    rows = state.view(np.uint32 if state.itemsize == 4 else np.uint8)
    lines = [f"@{r * WORDS:x}\n" + "".join(f"{w:x}\n" for w in row) for r, row in enumerate(rows)]
    (folder / "state.hex").write_text("".join(lines))


# ---- Verilator -----------------------------------------------------------------------------------


def built(number: str, form: str) -> Path:
    """Return the executable, built for speed and kept in the system's temporary folder."""
    compile_flags = "-O3 -march=native -ffp-contract=off"
    flags = ["--cc", "--exe", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"]
    flags += ["--unroll-count", "1", "-Wno-fatal", "-Wno-lint", "--prefix", "Vtop"]
    flags += ["--top-module", "array_bench", *FORMS[form], f"-I{HERE / 'hdl'}"]
    flags += ["-DFLOAT32", "-GWIDTH=32"] if number == "float32" else []
    key = hashlib.sha256(f"{flags} {compile_flags} {version('verilator')}".encode())
    for path in (*sorted((HERE / "hdl").iterdir()), *SOURCES):
        key.update(path.read_bytes())
    home = Path(tempfile.gettempdir()) / f"systolic-bench-{os.getuid()}-{key.hexdigest()[:16]}"
    if not (home / "Vtop").exists():
        build(home, flags, compile_flags)
    return home / "Vtop"


def build(home: Path, flags: list[str], compile_flags: str) -> None:
    """Verilate and compile into `home`."""
    with tempfile.TemporaryDirectory() as name:
        sources = [str(path) for path in (*SOURCES, HERE / "hdl" / "main.cpp")]
        checked(["verilator", *flags, *sources, "--Mdir", name], Path(name))
        all_flags = f"{compile_flags} -include {HERE / 'hdl' / 'arithmetic.h'}"
        make = ["make", "-f", "Vtop.mk", f"OPT_FAST={all_flags}", f"OPT_GLOBAL={compile_flags}"]
        checked([*make, "Vtop"], Path(name))
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(name) / "Vtop", home / "Vtop")


def checked(command: list[str], folder: Path) -> str:
    """Run a command; its output, or an error that shows the end of it."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def version(program: str) -> str:
    """Return the first line a program says about its version."""
    return checked([program, "--version"], HERE).splitlines()[0]


def rtl_rate(executable: Path, folder: Path) -> float:
    """Return cycles per second of one run."""
    cycles, seconds = rtl_run(executable, folder)
    return cycles / seconds


def rtl_run(executable: Path, folder: Path) -> tuple[int, float]:
    """Return cycles and seconds of one run."""
    output = checked([str(executable), "1", f"+queue={16 * PAIRS}"], folder)
    cycles, seconds = output.splitlines()[0].split()
    return int(cycles), float(seconds)


def check_rtl(executable: Path, folder: Path, outcome: Outcome, job: Work) -> None:
    """The RTL needs as many cycles as the machine and leaves the same result buffer."""
    cycles, _ = rtl_run(executable, folder)
    if cycles != outcome.trace.cycles() + SETTLE_CYCLES:
        raise AssertionError(f"RTL {cycles} cycles, machine {outcome.trace.cycles()}")
    text = (line for line in (folder / "result.hex").read_text().split() if line[0] not in "/@")
    words = np.array([int(line, 16) for line in text], np.uint32).reshape(SIDE, WORDS)
    mine = np.ascontiguousarray(outcome.memory.bytes_of(Buffer.RESULT)).view(np.uint32)
    if not np.array_equal(words[:, : job.vectors], mine[:, : job.vectors]):
        raise AssertionError("RTL and machine differ in the result buffer")


# ---- the Python engines --------------------------------------------------------------------------


def run_machine(job: Work, kind: str) -> Outcome:
    """Run the program from Program to Trace."""
    if kind == "register":
        return simulate(job.chip, job.program, job.images, engine="register")
    return simulate(job.chip, job.program, job.images, values=kind == "event")


def machine_rate(job: Work, kind: str) -> float:
    """Return cycles per second of one whole `simulate` call."""
    begun = time.perf_counter()
    outcome = run_machine(job, kind)
    return outcome.trace.cycles() / (time.perf_counter() - begun)


def tiled(x: Array, w: Array) -> Array:
    """Return x @ w as the array does it: in tiles of SIDE x SIDE, each in row order, summed up.

    VECTORS of x at a time, turned once, as they lie in the state buffer.
    """
    form = kernel.form_for(BLAS_SIDE**3)
    result = np.zeros((w.shape[1], x.shape[0]), np.float32)
    for m in range(0, x.shape[0], VECTORS):
        for k in range(0, w.shape[0], SIDE):
            moving = np.ascontiguousarray(x[m : m + VECTORS, k : k + SIDE].T)
            for n in range(0, w.shape[1], SIDE):
                tile = w[k : k + SIDE, n : n + SIDE]
                sums = kernel.row_order_product(moving, tile, "f32", form=form)
                result[n : n + SIDE, m : m + VECTORS] += sums
    return result.T


def seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


# ---- measuring and printing ----------------------------------------------------------------------


def measure(job: Work, rounds: int) -> dict[str, list[float]]:
    """Return the rates of all, taken in turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rtl_inputs(job, folder)
        takers: dict[str, Callable[[], float]] = {}
        for form in FORMS:
            executable = built(job.number, form)
            check_rtl(executable, folder, run_machine(job, "event"), job)
            takers[form] = partial(rtl_rate, executable, folder)
        for kind in ("register", "event", "timing"):
            run_machine(job, kind)
            takers[kind] = partial(machine_rate, job, kind)
        rates: dict[str, list[float]] = {name: [] for name in takers}
        for _ in range(rounds):
            for taker, rate in takers.items():
                rates[taker].append(rate())
    return rates


def over(rates: dict[str, list[float]], kind: str, form: str) -> float:
    """Return the median of the ratios to Verilator, round by round."""
    pairs = zip(rates[kind], rates[form], strict=True)
    return statistics.median(mine / theirs for mine, theirs in pairs)


def verdict(ratio: float, target: float) -> str:
    """Return the target and whether it is met."""
    return f"{target:g} {'met' if ratio >= target else 'MISSED'}"


def rows_of(job: Work, rounds: int) -> list[list[str]]:
    """Return the lines of the table for one program."""
    rates = measure(job, rounds)
    lines = []
    for kind, found in rates.items():
        name = f"Verilator, {kind}" if kind in FORMS else f"{kind} engine"
        name = {"event engine": "event, exact values", "timing engine": "event, timing only"}.get(
            name, name
        )
        cells = [f"{job.number} M={job.vectors}", name, f"{statistics.median(found) / 1e3:.0f}"]
        for form in FORMS:
            ratio = over(rates, kind, form)
            target = TARGETS.get((job.vectors, kind))
            cells += [f"{ratio:.2f}", verdict(ratio, target) if target else "-"]
        lines.append(cells)
    return lines


def blas_line(rounds: int) -> str:
    """Return the comparison with BLAS in words."""
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((2, BLAS_SIDE, BLAS_SIDE)).astype(np.float32)
    if not np.allclose(tiled(x, w), x @ w, atol=1e-2):
        raise AssertionError("the tiled product is not the product")
    pairs = [(seconds(lambda: tiled(x, w)), seconds(lambda: x @ w)) for _ in range(rounds)]
    ratio = statistics.median(blas / mine for mine, blas in pairs)
    mine, blas = (
        2 * BLAS_SIDE**3 / statistics.median(pair[i] for pair in pairs) / 1e9 for i in (0, 1)
    )
    return (
        f"float32 {BLAS_SIDE}^3 in tiles: row-order kernel {mine:.1f} GFLOP/s, np.matmul {blas:.1f}"
        f" GFLOP/s, ratio {ratio:.2f} (target {verdict(ratio, BLAS_TARGET)})"
    )


def print_table(lines: list[list[str]], markdown: bool) -> None:
    """Print the lines under their heads."""
    heads = ["program", "what", "kcycles/s", "x vector", "target", "x plain", "target"]
    if markdown:
        print("| " + " | ".join(heads) + " |\n|---|---" + "|---:" * 5 + "|")
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    for line in [heads, *lines]:
        print(f"{line[0]:15s}{line[1]:22s}" + "".join(f"{cell:>13s}" for cell in line[2:]))


def main() -> int:
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # The libraries read these when they are loaded, which has happened: begin again.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--markdown", action="store_true")
    chosen = options.parse_args()
    print(f"Python {platform.python_version()}, numpy {np.__version__}, numba {numba.__version__}")
    print(f"{version('verilator')}, {version('g++')}")
    print(f"load before: {os.getloadavg()[0]:.2f}\n")
    lines: list[list[str]] = []
    for number in TYPES:
        for vectors in (128, 512):
            lines += rows_of(work(number, vectors), chosen.rounds)
    print_table(lines, chosen.markdown)
    print("\n" + blas_line(chosen.rounds))
    print(f"load after: {os.getloadavg()[0]:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
