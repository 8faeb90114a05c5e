"""Networks beside SCALE-Sim 3.0.0: processor time and memory of whole processes, the same layers.

SCALE-Sim counts the cycles of products and convolutions on a weight-stationary array of the same
size, without values, without traces, and without DRAM (bandwidth mode CALC). It is given the
products of the network's graph: sizes, strides and filters, an image with as much padding as its
windows reach. Ours runs the whole network from the first byte in DRAM to the last: `systolic run`,
once with exact values, held to numpy, and once for times only. Seconds are of the processor.

    python benchmarks/bench_peers.py [PYTHON [NETWORK ...]]

PYTHON is an interpreter of an environment that has `scalesim==3.0.0`, `numpy<2` and `pandas<3`;
without it nothing is measured.
"""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from systolic.config import load_run
from systolic.workload import Graph, Operation
from systolic.workload.operations.conv2d import Conv2dAttributes

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ROOT / "configs" / "networks"
DEFAULT = ("resnet50", "bert_block")
ARRAY = """\
[general]
run_name = run
[architecture_presets]
ArrayHeight = 128
ArrayWidth = 128
IfmapSramSzkB = 16384
FilterSramSzkB = 16384
OfmapSramSzkB = 16384
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = 256
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
"""Its state buffer is ours, 48 MiB, in three equal parts."""
RUN_PEER = """
import sys
from scalesim.scale_sim import scalesim
run = scalesim(save_disk_space=True, verbose=False, config="array.cfg", topology="layers.csv",
               layout="layout.csv")
run.run_scale(top_path="out")
"""


class Layer(NamedTuple):
    """A convolution as SCALE-Sim takes it; a product has windows of one pixel."""

    name: str
    height: int
    width: int
    window: tuple[int, int]
    channels: int
    filters: int
    stride: int


class Cost(NamedTuple):
    """What a process took."""

    cpu_seconds: float
    mebibytes: float


def layers_of(graph: Graph) -> Iterator[Layer]:
    """Yield the products of a graph, each matrix of a batch as one of its own."""
    for op in graph.operations:
        if op.kind == "conv2d":
            yield _convolution(graph, op)
        elif op.kind == "matmul":
            *batch, rows, cols = graph.shape(op.output).dims
            inner = graph.shape(op.inputs[0]).dims[-1]
            for number in range(math.prod(batch)):
                yield Layer(f"{op.name}_{number}", rows, 1, (1, 1), inner, cols, 1)


def _convolution(graph: Graph, op: Operation) -> Layer:
    given = op.attributes_as(Conv2dAttributes)
    _, height, width, filters = graph.shape(op.output).dims
    down, across, channels, _ = graph.shape(op.inputs[1]).dims
    stride = given.stride[0]
    if given.groups > 1 or given.stride != (stride, stride) or given.dilation != (1, 1):
        raise SystemExit(f"{op.name}: SCALE-Sim has no groups, dilation or unequal strides")
    reached = ((height - 1) * stride + down, (width - 1) * stride + across)
    return Layer(op.name, *reached, (down, across), channels, filters, stride)


def peer(python: str, layers: list[Layer]) -> tuple[int, Cost]:
    """Return the cycles that SCALE-Sim counts, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"{n},{h},{w},{a},{b},{c},{f},{s}," for n, h, w, (a, b), c, f, s in layers]
        names = [f"{layer.name}," + "1," * 14 for layer in layers]
        Path(folder, "array.cfg").write_text(ARRAY, encoding="utf-8")
        Path(folder, "layers.csv").write_text("\n".join(["header,", *rows]), encoding="utf-8")
        Path(folder, "layout.csv").write_text("\n".join(["header,", *names]), encoding="utf-8")
        cost = cost_of([python, "-c", RUN_PEER], folder)
        with Path(folder, "out", "run", "COMPUTE_REPORT.csv").open(encoding="utf-8") as report:
            found = csv.DictReader(report, skipinitialspace=True)
            cycles = sum(int(float(row["Total Cycles"])) for row in found)
    return cycles, cost


def ours(name: str, *options: str) -> Cost:
    """Return what `systolic run` of a network took."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "systolic", "run", str(NETWORKS / f"{name}.toml")]
        return cost_of([*run, "--no-plots", "--out", folder, *options], folder)


def cost_of(command: list[str], folder: str) -> Cost:
    """Run a command to its end; return its processor time and most memory."""
    child = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ...: exit status {child.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main() -> None:
    """Print a line for each network and way to run it."""
    if len(sys.argv) < 2:
        print("bench_peers: left out; it needs an interpreter with SCALE-Sim (see its first lines)")
        return
    python, *names = sys.argv[1:]
    print(f"{'network':16s}{'what':34s}{'cycles':>10s}{'CPU s':>9s}{'MiB':>8s}{'times':>8s}")
    for name in names or DEFAULT:
        config = load_run(NETWORKS / f"{name}.toml")
        layers = list(layers_of(config.graph))
        ours(name, "--values", "none")  # its kernels are compiled and cached from here on
        exact, times = ours(name), ours(name, "--values", "none")
        cycles, theirs = peer(python, layers)
        for what, cost, count in (
            (f"SCALE-Sim, {len(layers)} products, no values", theirs, f"{cycles:,}"),
            ("whole process, exact values", exact, ""),
            ("whole process, times only", times, ""),
        ):
            ratio = theirs.cpu_seconds / cost.cpu_seconds
            print(f"{name:16s}{what:34s}{count:>10s}{cost.cpu_seconds:>9.1f}"
                  f"{cost.mebibytes:>8.0f}{ratio:>8.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
