"""What several cores cost the simulator: four uncoupled copies of a program beside one.

CPU time of `simulate_chip` on a chip of four cores, each with a DRAM controller's range of its own
and a program of its own, and of one core of it. Printed: their ratio, the best of REPEATS each.

    python benchmarks/bench_cores.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from systolic.compiler import Options, compile_graph
from systolic.config.chip_file import load_one_core
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import ChipModule, Module, Program, Section
from systolic.layout import Shape
from systolic.machine import simulate
from systolic.machine.simulate_chip import simulate_chip
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder

REPEATS = 3
CORES = 4


def chip_of(core: Chip, many: int) -> MultiCoreChip:
    """Return a chip of equal cores without an interconnect; one controller serves them."""
    dram = core.dram.model_dump()
    tables = {"count": 1, "dram": dram | {"bytes_per_cycle": 1 << 20}}
    parts = {
        "name": "bench",
        "cores": [{"count": many, "core": core.model_dump()}],
        "controllers": [tables],
    }
    return MultiCoreChip.model_validate(parts)


def program(core: Chip) -> Program:
    """Return a product on the chip: no copy of it touches DRAM."""
    builder = GraphBuilder("state_buffer")
    x, w = (builder.tensor(name, Shape.parse("f32[1024,1024]")) for name in "xw")
    builder.matmul(x, w, Shape.parse("f32[1024,1024]"), name="y")
    return compile_graph("bench", builder.graph(), core, Options()).program


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of some repetitions."""
    found = []
    for _ in range(REPEATS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def main() -> None:
    """Print the ratios."""
    core = load_one_core(CHIPS / "ideal_128x128.toml")
    made = program(core)
    alone = cpu_seconds(lambda: simulate(core, made, values=False))
    ran = {}
    for many in (1, CORES):
        chip = chip_of(core, many)
        sections = tuple(
            Section(f"core{n}", Module(replace(made, name=f"core{n}"))) for n in range(many)
        )
        module = ChipModule("bench", sections)
        ran[many] = cpu_seconds(partial(simulate_chip, chip, module, values=False))
    print(f"{len(made.instructions)} instructions, one core alone {alone:.2f} s CPU")
    print(f"one core of a chip with [[cores]]: {ran[1] / alone:.2f} times that")
    print(f"{CORES} uncoupled copies: {ran[CORES] / ran[1]:.2f} times one")


if __name__ == "__main__":
    main()
