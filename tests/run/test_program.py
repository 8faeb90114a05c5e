"""Does a program file run: the right values, and the cycles of the run file it was made from?"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import systolic
from support.command_line import refused, run_command
from support.layer import LAYER, layer_inputs, saved, saved_layer, small_numbers
from systolic.config import load_chip
from systolic.isa import load_module

ROOT = Path(__file__).resolve().parents[2]
FORMATS = (ROOT / "docs" / "program_format.md").read_text(encoding="utf-8")
TRANSPOSE = ROOT / "configs" / "programs" / "transpose.txt"
ENGINES = ("event", "register")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- written by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["text", "binary"])
def test_a_layer_written_by_hand(form: str, engine: str) -> None:
    program: Path = LAYER
    if form == "binary":
        program = Path("layer.bin")
        assert run_command("assemble", LAYER, program)[0] == 0
    x, w, b = layer_inputs()
    given = saved(x=x, w=w, b=b)
    status, out, err = run_command("run", program, *given, "--engine", engine)
    assert (status, err) == (0, "")
    assert f"layer  on ideal-4x4, {engine} engine" in out
    assert "inputs   x f32[6,4], w f32[4,3], b f32[3]" in out
    assert np.array_equal(np.load("out/layer/y.npy"), np.maximum(x @ w + b, 0))
    assert sorted(path.name for path in Path("out/layer").iterdir()) == [
        "summary.json",
        "wavefront.png",
        "y.npy",
    ]
    assert Path("out/layer/wavefront.png").read_bytes().startswith(b"\x89PNG")
    # Three reads of weights, six vectors, the last of which leaves row 4, column 3; a step for the
    # bias, six for the elements, and one more cycle to write the last.
    summary = json.loads(Path("out/layer/summary.json").read_text(encoding="utf-8"))
    assert summary["cycles"] == 3 + 6 + (4 - 1) + (3 - 1) + 1 + 6 + 1
    for unit in summary["units"].values():
        assert sum(unit["labels"].values()) == unit["total"] == summary["cycles"]


SELECTED = (
    "select pooling compare=equal value=1.0 target=state_buffer[0:4]+2048 f32 (1x4) "
    "per_partition=1 per_element=-1  post s0\n"
)
COUNTED = (  # in each partition element - partition; then 1 where that is 0
    "iota pooling target=state_buffer[0:4]+6144 s32 (1x4) per_partition=-1  post s2\n"
    "tensor_scalar pooling op=equal source=state_buffer[0:4]+6144 s32 (1x4) scalar=0 "
    "target=state_buffer[0:4]+2048 f32 (1x4)  wait s2>=1  post s0\n"
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("identity", [SELECTED, COUNTED], ids=["select", "iota"])
def test_a_transpose_by_an_identity_made_on_the_chip(identity: str, engine: str) -> None:
    """Nothing but A is there at cycle 0; the identity is ready one step after the weights."""
    text = TRANSPOSE.read_text(encoding="utf-8")
    assert SELECTED in text
    changed = text.replace(SELECTED, identity)
    if identity is COUNTED:
        changed = changed.replace('s1 "product"', 's1 "product"\nsemaphore s2 "counted"')
    Path("t.txt").write_text(changed, encoding="utf-8")
    A = small_numbers(3, (4, 4))[0]
    status, out, err = run_command(
        "run", "t.txt", *saved(A=A), "--engine", engine, "--json", "--no-plots"
    )
    assert (status, err) == (0, "")
    assert np.array_equal(np.load("out/t/A transposed.npy"), A.T)
    # The identity's last element is written in cycle 4 (by two instructions: 9) and its post seen
    # in the next; 4 vectors, the last of which has 3 rows and 3 columns to go; 4 elements are
    # copied, the last is written a cycle later.
    ready = {SELECTED: 5, COUNTED: 5 + 5}[identity]
    assert json.loads(out)["cycles"] == ready + 4 + 3 + 3 + 4 + 1


def test_the_example_of_the_format_page() -> None:
    (text,) = re.findall(r"```\n(systolic program.*?)```", FORMATS, re.DOTALL)
    Path("block.txt").write_text(text, encoding="utf-8")
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    given = saved(A=array, identity=np.eye(4, dtype=np.float32))
    assert run_command("run", "block.txt", *given, "--no-plots", "--out", "o")[0] == 0
    assert np.array_equal(np.load("o/A transposed.npy"), array.T)


def test_the_python_of_the_format_page(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", FORMATS, re.DOTALL)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["result"].outputs["y"].tolist() == [[4 + 1] * 3] * 6
    assert names["result"].cycles == 22


def test_from_python() -> None:
    x, w, b = layer_inputs()
    module = load_module(LAYER)
    chip = load_chip(ROOT / "configs" / "chips" / "ideal_4x4.toml")
    run = systolic.run(module, chip, {"x": x, "w": w, "b": b}, kinds=["psum_write"])
    assert np.array_equal(run.outputs["y"], np.maximum(x @ w + b, 0))
    assert len(run.trace.words.of("psum_write").rows) == 18
    digest = hashlib.sha256(run.outputs["y"].tobytes()).hexdigest()
    assert run.summary["outputs"] == {"y": {"type": "f32", "shape": [6, 3], "sha256": digest}}


def test_times_only_need_no_inputs() -> None:
    exact = json.loads(run_command("run", LAYER, *saved_layer(), "--json", "--no-plots")[1])
    for engine in ENGINES:
        status, out, err = run_command(
            "run", LAYER, "--values", "none", "--json", "--engine", engine, "--out", "t"
        )
        assert (status, err) == (0, "")
        found = json.loads(out)
        for key in ("cycles", "time_ns", "units", "ports", "stalls", "instructions"):
            assert found[key] == exact[key], key
    assert [path.name for path in Path("t").iterdir()] == ["summary.json"]


def test_inputs_of_a_folder() -> None:
    saved_layer()
    assert run_command("run", LAYER, "--input", ".", "--no-plots")[0] == 0
    np.save("other.npy", np.zeros((4, 3), np.float32))
    given = ["--input", ".", "--input", "w=other.npy"]
    assert run_command("run", LAYER, *given, "--no-plots")[0] == 0
    b = layer_inputs()[2]
    assert (np.load("out/layer/y.npy") == np.maximum(b, 0)).all()


def test_traces() -> None:
    given = saved_layer()
    words = run_command("trace", LAYER, *given, "--kind", "write")[1].splitlines()[1:]
    x, w, b = layer_inputs()
    y = np.maximum(x @ w + b, 0)
    for line in words:
        _, unit, buffer, partition, address, value = line.split(",")
        assert (unit, buffer) == ("activation", "state_buffer")
        assert float(value) == y[int(address) - 6144 // 4, int(partition)]
    assert len(words) == 18
    assert run_command("trace", LAYER, "--kind", "post")[1].splitlines()[1:] == [
        "13,pe_array,,,0,1"
    ]


def test_another_chip_and_its_keys() -> None:
    summary = json.loads(
        run_command(
            "run",
            LAYER,
            "--values",
            "none",
            "--json",
            "--chip",
            "ideal_4x4",
            "--set",
            "chip.activation.latency_cycles=5",
        )[1]
    )
    assert summary["cycles"] == 22 + 4
    assert refused("run", LAYER, "--set", "compile.drain=row").endswith(
        'of a program only "chip." can be set, not "compile.drain"'
    )


# -- made by the compiler -------------------------------------------------------------------------

HEAD = 'chip = "ideal_4x4"\n[workload]\n'
RUNS = {
    "matmul": HEAD + 'op = "matmul"\nlhs = "f32[11,13]"\nrhs = "f32[13,9]{0,1}"\n'
    'out = "f32[11,9]{0,1}"\nhome = "dram"',
    "batched": HEAD + 'op = "matmul"\nlhs = "s8[2,5,7]"\nrhs = "s8[2,7,6]"\nout = "s32[2,5,6]"',
    "tiled": HEAD + 'op = "transpose"\nshape = "bf16[21,37]{1,0:T(8,16)(2,1)}"\nhome = "dram"\n'
    'out = "bf16[37,21]{0,1:T(4,4)}"',
    "rank 4": HEAD + 'op = "transpose"\nshape = "f32[2,3,4,5]"\npermutation = [3, 0, 2, 1]',
    "blocks": HEAD + 'op = "transpose"\nshape = "f8e5m2[9,14]"\n[compile]\nidentity = "built"',
    "chain": HEAD + 'home = "dram"\ndata = "random"\n'
    '[workload.tensors.x]\nshape = "bf16[6,8]"\nhome = "state_buffer"\n'
    '[workload.tensors.w]\nshape = "bf16[8,5]"\n'
    '[[workload.ops]]\nop = "matmul"\nname = "h"\ninputs = ["x", "w"]\nout = "f32[6,5]"\n'
    '[[workload.ops]]\nop = "transpose"\nname = "y"\ninputs = ["h"]\nout = "f32[5,6]"\n'
    "permutation = [1, 0]",
}


@pytest.mark.parametrize("form", ["txt", "bin"])
@pytest.mark.parametrize("name", RUNS)
def test_a_compiled_run_from_its_file(name: str, form: str) -> None:
    """The program file gives the values, cycles and accounting of the run file."""
    Path("r.toml").write_text(RUNS[name], encoding="utf-8")
    quiet = ("--json", "--no-plots")
    status, _, err = run_command("compile", "r.toml", "--program", f"p.{form}", "--inputs", "in")
    assert (status, err) == (0, "")
    wanted = json.loads(run_command("run", "r.toml", *quiet, "--out", "a")[1])
    status, out, err = run_command("run", f"p.{form}", "--input", "in", *quiet, "--out", "b")
    assert (status, err) == (0, "")
    found = json.loads(out)
    for key in ("cycles", "time_ns", "units", "ports", "stalls", "instructions"):
        assert found[key] == wanted[key], key
    assert wanted["values"]["equal"] is True
    (result,), (same,) = Path("b").glob("*.npy"), Path("a").glob("*.npy")
    assert np.load(result).tobytes() == np.load(same).tobytes()
    assert np.load(result).shape == np.load(same).shape
    assert run_command("lint", f"p.{form}")[0] == 0


def test_a_compiled_matmul_equals_numpy() -> None:
    Path("r.toml").write_text(RUNS["matmul"], encoding="utf-8")
    run_command("compile", "r.toml", "--program", "p.bin", "--inputs", "in")
    lhs, rhs = small_numbers(1, (11, 13), (13, 9))
    identity = np.load("in/identity.npy")
    assert np.array_equal(identity, np.eye(len(identity)))
    for engine in ENGINES:
        run_command(
            "run",
            "p.bin",
            *saved(lhs=lhs, rhs=rhs, identity=identity),
            "--no-plots",
            "--engine",
            engine,
            "--out",
            engine,
        )
        (result,) = Path(engine).glob("*.npy")
        assert np.array_equal(np.load(result), lhs @ rhs)


def test_a_program_names_its_chip_so_that_it_finds_it() -> None:
    """Shipped and beside the program by name, also where one hides the other; else by path."""
    chip = (ROOT / "configs" / "chips" / "ideal_4x4.toml").read_text(encoding="utf-8")
    other = chip.replace("ideal-4x4", "mine")
    for folder in ("a", "b"):
        Path(folder).mkdir()
    Path("a/ideal_4x4.toml").write_text(other, encoding="utf-8")
    Path("a/r.toml").write_text(RUNS["blocks"], encoding="utf-8")
    Path("b/r.toml").write_text(RUNS["blocks"], encoding="utf-8")
    named = {}
    for run, target in (("a", "a"), ("a", "b"), ("b", "b"), ("b", "a")):
        program = f"{target}/p.txt"
        run_command("compile", f"{run}/r.toml", "--program", program)
        named[run, target] = load_module(program).chip
        status, out, _ = run_command("run", program, "--values", "none", "--json")
        assert (status, json.loads(out)["chip"]) == (0, "mine" if run == "a" else "ideal-4x4")
    assert named["a", "a"] == named["b", "b"] == "ideal_4x4"
    assert all(Path(named[pair]).is_absolute() for pair in (("a", "b"), ("b", "a")))


def test_a_changed_chip_must_be_named() -> None:
    Path("r.toml").write_text(RUNS["blocks"], encoding="utf-8")
    change = ["--set", "chip.state_buffer.banks=4"]
    run_command("compile", "r.toml", *change, "--program", "p.txt", "--inputs", "in")
    assert (
        refused("run", "p.txt", "--input", "in") == "p.txt: names no chip; needed one (--chip CHIP)"
    )
    given = ["--input", "in", "--chip", "ideal_4x4", *change, "--json", "--no-plots"]
    found = json.loads(run_command("run", "p.txt", *given)[1])
    wanted = json.loads(run_command("run", "r.toml", *change, "--json", "--no-plots")[1])
    assert found["units"] == wanted["units"]
