"""Do runs cost what their work costs, for any sizes of the chip?

A chip with buffers, banks and queues a hundred and more times larger does the same work in the
same cycles; the host's memory that a run takes in a process of its own may hardly grow.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from systolic.config import load_run
from systolic.machine import simulate
from systolic.run.execute import compile_run
from systolic.run.tensors import graph_images

SCRIPT = """
import resource, sys
from pathlib import Path
import systolic
from systolic.config import load_run

def run(overrides):
    config = load_run(Path(sys.argv[1]), overrides)
    cycles = systolic.run(config, engine=sys.argv[2]).trace.cycles()
    return cycles, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

run([])
(cycles, before), (same, after) = run([]), run(sys.argv[3:])
assert same == cycles, (same, cycles)
assert after - before < 40, f"{after - before} MiB more"
"""

LARGE = [
    ["chip.result_buffer.bank_bytes=67108864"],
    ["chip.result_buffer.banks=1000000"],
    ["chip.state_buffer.bytes_per_partition=800000000"],
    ["chip.state_buffer.bytes_per_partition=16000000", "chip.state_buffer.banks=1000000"],
    ["chip.state_buffer.bytes_per_partition=16000000", "chip.state_buffer.banks=1000000",
     'chip.pe_array.weight_path="top"'],
    ["chip.dram.size_bytes=1099511627776"],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("overrides", LARGE, ids=lambda found: found[-1])
def test_a_large_chip_costs_no_more(overrides, engine):
    """On the path from the top the 4 x 4 transpose takes as long as from the left."""
    command = [sys.executable, "-c", SCRIPT, "configs/runs/transpose_fig3.toml", engine]
    done = subprocess.run(
        [*command, *overrides], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_times_only_take_no_memory_for_the_buffers():
    """The ideal chip's state buffer has 48 MiB, of which a run with values touches a part."""
    config = load_run(Path("configs/runs/matmul_chain.toml"))
    compiled = compile_run(config)
    peaks = {}
    for values in (False, True):
        images = graph_images(compiled, config.load_inputs()) if values else []
        tracemalloc.start()
        simulate(config.chip, compiled.program, images, values=values)
        peaks[values] = tracemalloc.get_traced_memory()[1] >> 20
        tracemalloc.stop()
    assert peaks[True] >= 48
    assert peaks[False] < 8
