"""What several cores cost the simulator, and what they cost programs of one core.

* One core before and now: CPU time of `simulate` on programs of one core, in this tree and in that
  of the commit before there were chips of several cores (git has it), taking turns in processes of
  their own.
* One core of a chip with [[cores]], and four uncoupled copies of a program beside one.

Printed: ratios of the medians, times only and exact values.

    python benchmarks/bench_cores.py [ROUNDS]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from systolic.compiler import Options, compile_graph
from systolic.config.chip_file import load_one_core
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import ChipModule, Module, Program, Section, encode
from systolic.layout import Shape
from systolic.machine import simulate
from systolic.machine.simulate_chip import simulate_chip
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder

BEFORE = "78722928^"
"""The commit before chips of several cores."""
ROOT = Path(__file__).parent.parent
CORES, ROUNDS, REPEATS = 4, 5, 3
CHIP_NAMES = "ideal_128x128", "hbm3_128x128"
CHILD = """
import sys, time
from pathlib import Path
from systolic.config import load_chip
from systolic.isa import decode
from systolic.machine import simulate
chip, program = load_chip(Path(sys.argv[1])), decode(Path(sys.argv[2]).read_bytes()).program
values = sys.argv[3] == "exact"
simulate(chip, program, values=values)
found = []
for _ in range(int(sys.argv[4])):
    begun = time.process_time()
    simulate(chip, program, values=values)
    found.append(time.process_time() - begun)
print(min(found))
"""


def chip_of(core: Chip, many: int) -> MultiCoreChip:
    """Return a chip of equal cores without an interconnect, each with a controller of its own."""
    size = core.dram.size_bytes
    ranges = [{"dram": core.dram, "range": (n * size, (n + 1) * size)} for n in range(many)]
    return MultiCoreChip.model_validate(
        {"name": "bench", "cores": [{"count": many, "core": core}], "controllers": ranges}
    )


def program(core: Chip, home: str, size: int) -> Program:
    """Return a product of square matrices that lie on the chip, or in DRAM."""
    builder = GraphBuilder(home)
    square = Shape.parse(f"f32[{size},{size}]")
    x, w = (builder.tensor(name, square) for name in "xw")
    builder.matmul(x, w, square, name="y")
    return compile_graph("bench", builder.graph(), core, Options()).program


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of some repetitions."""
    found = []
    for _ in range(REPEATS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def in_tree(tree: Path, chip: str, file: Path, values: str) -> float:
    """Return the CPU time of `simulate` as a tree has it, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, f"{tree}/configs/chips/{chip}.toml", file, values, "3"],
        env={"PYTHONPATH": f"{tree}/sim", "OPENBLAS_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(ran.stdout)


def before_and_now(rounds: int) -> None:
    """Print what one core takes now of what it took before."""
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        before.mkdir()
        packed = subprocess.run(
            ["git", "archive", BEFORE, "sim", "configs"], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", before], input=packed.stdout, check=True)
        for chip in CHIP_NAMES:
            file = Path(folder) / f"{chip}.bin"
            made = program(load_one_core(CHIPS / f"{chip}.toml"), "dram", 4096)
            file.write_bytes(encode(Module(made)))
            for values in ("times", "exact"):
                pairs = [
                    [in_tree(tree, chip, file, values) for tree in (before, ROOT)]
                    for _ in range(rounds)
                ]
                ratio = median(now / then for then, now in pairs)
                print(
                    f"{chip}, {len(made.instructions)} instructions, {values}: now "
                    f"{ratio:.3f} times before ({median(now for _, now in pairs):.2f} s CPU)"
                )


def copies_beside_one() -> None:
    """Print what one core of several takes of one alone, and four copies of one."""
    core = load_one_core(CHIPS / "ideal_128x128.toml")
    made = program(core, "state_buffer", 1536)
    alone = cpu_seconds(lambda: simulate(core, made, values=False))
    ran = {}
    for many in (1, CORES):
        chip = chip_of(core, many)
        sections = tuple(
            Section(f"core{n}", Module(replace(made, name=f"core{n}"))) for n in range(many)
        )
        module = ChipModule("bench", sections)
        ran[many] = cpu_seconds(partial(simulate_chip, chip, module, values=False))
    print(f"{len(made.instructions)} instructions on the chip, {alone:.2f} s CPU alone")
    print(f"one core of a chip with [[cores]]: {ran[1] / alone:.2f} times that")
    print(f"{CORES} uncoupled copies: {ran[CORES] / ran[1]:.2f} times one")


def main() -> None:
    """Print the ratios."""
    before_and_now(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    copies_beside_one()


if __name__ == "__main__":
    main()
