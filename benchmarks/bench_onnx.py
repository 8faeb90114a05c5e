"""What reading ONNX files costs: CPU time of ResNet-50, and of a whole process for another model.

ResNet-50 is made by a script of the tests, with random weights; reading it is parsing, folding and
all passes. The time is given beside that of onnx's own parser, in the same run. A second model is a
file of the user's (`python benchmarks/bench_onnx.py MODEL.onnx`): from file to cycles, times only,
as a process.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.onnx_resnet import resnet50
from systolic.workload.importers.models import read_model

ROUNDS = 3


def cpu_seconds(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def process_seconds(model: str, folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "systolic", "run", model, "--chip", "ideal_128x128", "--values",
         "none", "--no-plots", "--out", folder],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"resnet50_{n}.onnx" for n in range(ROUNDS)]
        for path in paths:  # a file of its own for each round: what was read is kept
            onnx.save(resnet50(), path)
        read = min(cpu_seconds(lambda path=path: read_model(path)) for path in paths)
        parse = min(cpu_seconds(lambda path=path: onnx.load(path)) for path in paths)
        print(f"resnet50  read {read:.2f} s of CPU ({read / parse:.0f} times onnx.load)")
        for model in sys.argv[1:]:
            seconds = min(process_seconds(model, f"{folder}/out") for _ in range(ROUNDS))
            print(f"{Path(model).name}  file to cycles {seconds:.2f} s of CPU, as a process")


if __name__ == "__main__":
    main()
