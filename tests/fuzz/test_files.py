"""Can any file make a command fail with anything but one clear line, or take memory or long?

Each kind of file that the project reads is damaged by seed, and given to a command that reads it.
SYSTOLIC_FUZZ_CASES says how many cases of each kind the slow tier tries (`make fuzz`: 2,000).
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save

from support.command_line import run_command
from support.damage import damaged
from support.damaged_onnx import damaged_graph
from support.documents import ROOT
from support.onnx_models import small_cnn

CASES = int(os.environ.get("SYSTOLIC_FUZZ_CASES", "200"))
QUICK = 12
MEMORY = 3 << 30
SECONDS = 60
CONFIGS = ROOT / "configs"
FIG3 = CONFIGS / "runs" / "transpose_fig3.toml"

LONE = """\
name = "one"
description = "a product"
chip = "ideal_4x4"
engine = "event"
[workload]
op = "matmul"
home = "dram"
data = "random"
seed = 3
deviation = 2.0
lhs = "f32[6,9]{1,0:T(2,4)}"
rhs = {shape = "f32[9,5]"}
out = "f32[6,5]{0,1}"
[compile]
stationary = "weights"
drain = "row"
"""
SWEPT = """\
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "bf16[4,8]"
[[sweep]]
name = "sizes"
zip = [["workload.shape", "chip.dram.latency_cycles"]]
[sweep.vary]
"workload.shape" = ["bf16[4,4]", "bf16[3,5]"]
"chip.dram.latency_cycles" = [1, 20]
"compile.drain" = ["row", "block"]
"""
NETWORK = """\
chip = "ideal_4x4"
[workload]
home = "dram"
data = "random"
images = [0, 1]
layers = [0, 4]
[workload.tensors]
x = {shape = "f32[2,6,6,4]"}
w = {shape = "f32[3,3,4,8]", seed = 5}
b = {shape = "f32[8]", data = "b.npy"}
[[workload.ops]]
op = "conv2d"
name = "c"
inputs = ["x", "w"]
out = "f32[2,6,6,8]"
padding = [1, 1, 1, 1]
[[workload.ops]]
op = "add"
name = "biased"
inputs = ["c", "b"]
out = "f32[2,6,6,8]"
broadcast_dimensions = [3]
[[workload.ops]]
op = "relu"
name = "r"
inputs = ["biased"]
out = "f32[2,6,6,8]"
[[workload.ops]]
op = "max_pool"
name = "p"
inputs = ["r"]
out = "f32[2,3,3,8]"
window = [2, 2]
stride = [2, 2]
[[workload.ops]]
op = "softmax"
name = "y"
inputs = ["p"]
out = "f32[2,3,3,8]"
[compile.operations.c]
outer = "stationary"
"""
PROGRAM = """\
systolic program 1
program "p"
chip "ideal_4x4"
semaphore s0 "done"
input a (4, 4) = state_buffer[0:4]+0 f32 (1x4)
output y (4, 4) = state_buffer[0:4]+128 f32 (1x4)

load weights=state_buffer[0:4]+0 f32 (1x4)
matmul moving=state_buffer[0:4]+0 f32 (1x4) result=result_buffer[0:4]+0 f32 (1x4)  post s0
copy activation source=result_buffer[0:4]+0 f32 (1x4) target=state_buffer[0:4]+128 f32 (1x4) \
 wait s0>=1
"""
LAYOUTS = (
    "f32[4,4]", "bf16[33,200]{1,0:T(8,128)(2,1)}", "s4[3,5]{0,1:T(2,4)E(4)}", "pred[2,3,4]{2,1,0}",
    "u32[12582912,1]{1,0:T(8,128)}", "f32[760,1528]{1,0:T(8,128)S(1)}", "f32[]", "f32[2,*]",
    "%p.1 = f32[8,128]{1,0:T(8,128)} parameter(0), metadata={op_name=\"x\"}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: good ones, and the commands that read `FILE`, one for each case in turn."""

    ending: str
    good: Callable[[], list[bytes]]
    commands: tuple[tuple[object, ...], ...]
    damage: Callable[[Sequence[bytes], np.random.Generator], bytes] = damaged


def _npy() -> list[bytes]:
    arrays: list[np.ndarray] = [
        np.arange(16, dtype=kind).reshape(4, 4) for kind in ("f4", "f8", "i1", "i8", ">f4")
    ]
    arrays += [np.asfortranarray(arrays[0]), np.ones((4, 4), ml_dtypes.bfloat16).view("V2")]
    found = []
    for array in arrays:
        file = io.BytesIO()
        np.save(file, array)
        found.append(file.getvalue())
    return found


def _npz() -> list[bytes]:
    found = []
    for write in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        write(file, shape=np.ones((4, 4), np.float32), source=np.ones((4, 4)), b=np.arange(3))
        found.append(file.getvalue())
    return found


def _safetensors() -> list[bytes]:
    return [
        save({"source": np.ones((4, 4), kind), "b": np.arange(3)})  # type: ignore[no-untyped-call]
        for kind in (np.float32, np.float16, np.int8)
    ]


def _binary() -> list[bytes]:
    found = []
    for text in _programs():
        Path("good.txt").write_bytes(text)
        assert run_command("assemble", "good.txt", "good.bin")[0] == 0
        found.append(Path("good.bin").read_bytes())
    return found


def _programs() -> list[bytes]:
    shipped = sorted((CONFIGS / "programs").glob("*.txt"))
    return [PROGRAM.encode(), *(path.read_bytes() for path in shipped)]


def _runs() -> list[bytes]:
    return [LONE.encode(), SWEPT.encode(), FIG3.read_bytes()]


def _pins() -> list[bytes]:
    assert run_command("check", FIG3, "--pins", "good.toml", "--update")[0] == 0
    return [Path("good.toml").read_bytes()]


def _summaries() -> list[bytes]:
    assert run_command("run", FIG3, "--out", "good", "--no-plots")[0] == 0
    Path("network.toml").write_text(NETWORK, encoding="utf-8")
    assert run_command("run", "network.toml", "--out", "more", "--no-plots")[0] == 0
    return [(Path(name) / "summary.json").read_bytes() for name in ("good", "more")]


def _onnx() -> list[bytes]:
    return [small_cnn(batch).SerializeToString() for batch in (1, "batch")]


def _onnx_networks() -> list[bytes]:
    folder = ROOT / "tests" / "workload" / "importers" / "onnx" / "models"
    return [*_onnx(), *(path.read_bytes() for path in sorted(folder.glob("*.onnx")))]


def _validation() -> list[bytes]:
    lines = (CONFIGS / "validation" / "neuroncore.csv").read_bytes().splitlines(keepends=True)
    return [b"".join(lines[:3])]


RUN = ("run", "FILE", "--no-plots", "--out", "out")
DATA = ("run", FIG3, "--no-plots", "--out", "out", "--set", "workload.data=FILE")
TRACE = ("trace", "p.txt", "--input", "a=FILE")
PROGRAM_COMMANDS = (
    ("lint", "FILE"), ("run", "FILE", "--no-plots", "--out", "out", "--chip", "ideal_4x4"),
    ("trace", "FILE", "--kind", "read"), ("explain", "FILE"),
)  # fmt: skip
KINDS = {
    "chip": Kind(
        ".toml",
        lambda: [path.read_bytes() for path in sorted((CONFIGS / "chips").glob("*.toml"))],
        (("chip", "./FILE"), ("run", FIG3, "--no-plots", "--out", "out", "--chip", "./FILE")),
    ),
    "run": Kind(".toml", _runs, (RUN, ("compile", "FILE"), (*RUN, "--engine", "register"))),
    "network": Kind(
        ".toml", lambda: [NETWORK.encode()], ((*RUN, "--values", "none"), ("explain", "FILE"))
    ),
    "program": Kind(".txt", _programs, (*PROGRAM_COMMANDS, ("assemble", "FILE", "out.bin"))),
    "binary": Kind(".bin", _binary, (*PROGRAM_COMMANDS, ("disassemble", "FILE"))),
    "npy": Kind(".npy", _npy, (DATA,)),
    "trace input": Kind(".npy", _npy, (TRACE, ("run", "p.txt", "--no-plots", *TRACE[2:]))),
    "npz": Kind(".npz", _npz, (DATA,)),
    "csv": Kind(".csv", lambda: [b"a,b,c,d\n" + b"1,2.5,-3,4e2\n" * 4, b"1,2,3,4\n" * 4], (DATA,)),
    "safetensors": Kind(".safetensors", _safetensors, (DATA,)),
    "onnx": Kind(
        ".onnx",
        _onnx,
        (
            ("import", "FILE"),
            ("run", "FILE", "--chip", "ideal_128x128", "--values", "none", "--no-plots",
             "--out", "out"),
        ),
    ),
    "onnx graph": Kind(".onnx", _onnx_networks, (("import", "FILE"),), damaged_graph),
    "pins": Kind(".toml", _pins, (("check", FIG3, "--pins", "FILE"),)),
    "summary": Kind(
        ".json",
        _summaries,
        (
            ("run", "--again", "FILE", "--no-plots", "--out", "out"),
            ("diff", "FILE", FIG3),
            ("plot", "layers", "FILE", "--out", "out.png"),
        ),
    ),
    "validation": Kind(
        ".csv",
        _validation,
        (("validate", "FILE"),),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.txt").write_text(PROGRAM, encoding="utf-8")
    np.save("b.npy", np.ones(8, np.float32))


@contextmanager
def limited() -> Iterator[None]:
    """Limit the memory and the time that a case may take beyond what this process has."""

    def slow(*_: int | FrameType | None) -> None:
        raise AssertionError(f"takes more than {SECONDS} s")

    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGALRM, slow)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)


def one_line_or_fine(words: list[str], case: str) -> None:
    with limited():
        status, _, err = run_command(*words)
    assert status in (0, 1, 2), (case, words, status, err)
    assert "a bug in systolic" not in err, (case, words, err)
    assert "too little memory" not in err, (case, words, err)
    assert len(err) < 2100, (case, words, err)
    assert err.count("\n") <= (status == 2) or status == 1, (case, words, err)
    assert not list(Path().rglob(".systolic-*")), (case, words)


def try_cases(name: str, first: int, stop: int) -> None:
    """Try the cases from a number to before another one; a failure names its number."""
    kind = KINDS[name]
    good = kind.good()
    for number in range(first, stop):
        rng = np.random.default_rng([number, *name.encode()])
        command = kind.commands[number % len(kind.commands)]
        file = f"odd{kind.ending}"
        Path(file).write_bytes(kind.damage(good, rng))
        one_line_or_fine([str(w).replace("FILE", file) for w in command], f"{name} {number}")
        shutil.rmtree("out", ignore_errors=True)


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files(name: str) -> None:
    try_cases(name, 0, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_more_damaged_files(name: str) -> None:
    try_cases(name, QUICK, CASES)


def try_layouts(first: int, stop: int) -> None:
    for number in range(first, stop):
        rng = np.random.default_rng([number, 1])
        shape, other = (
            damaged([text.encode() for text in LAYOUTS], rng).decode(errors="surrogateescape")
            for _ in range(2)
        )
        more = (
            (),
            ("--to", other),
            ("--index", other),
            ("--buffer", "state_buffer", "--chip", "ideal_4x4"),
        )
        words = ["layout", *more[number % len(more)], "--", shape]
        one_line_or_fine(words, f"layout {number}")


def test_damaged_layouts() -> None:
    try_layouts(0, QUICK)


@pytest.mark.slow
def test_more_damaged_layouts() -> None:
    try_layouts(QUICK, CASES)
