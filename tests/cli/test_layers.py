"""A part of a network by --layers, and a network that is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS

ROOT = Path(__file__).resolve().parents[2] / "sim"
CHAIN = """\
chip = "ideal_4x4"
[workload]
home = "dram"
data = "random"
[workload.tensors]
x = { shape = "f32[6,5]" }
w = { shape = "f32[5,7]" }
v = { shape = "f32[7,3]" }
b = { shape = "f32[3]" }
[[workload.ops]]
op = "matmul"
name = "h"
inputs = ["x", "w"]
out = "f32[6,7]"
[[workload.ops]]
op = "matmul"
name = "s"
inputs = ["h", "v"]
out = "f32[6,3]"
[[workload.ops]]
op = "binary"
name = "y"
inputs = ["s", "b"]
out = "f32[6,3]"
operator = "add"
broadcast_dimensions = [1]
"""


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN, encoding="utf-8")
    return path


def drawn(seed: int, *dims: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims, np.float32)


def test_a_part_takes_the_weights_of_the_whole(chain: Path) -> None:
    """h is drawn behind the four tensors of the file, whose seeds are 0 to 3."""
    run_command("run", "chain.toml", "--layers", "1:3", "--out", "part", "--no-plots")
    summary = json.loads(Path("part/summary.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in summary["operations"]] == ["s", "y"]
    assert summary["inputs"].keys() == {"h", "v", "b"}
    assert summary["values"]["equal"] is True
    run_command("run", "chain.toml", "--out", "whole", "--no-plots")
    whole = json.loads(Path("whole/summary.json").read_text(encoding="utf-8"))
    for name in "vb":
        assert summary["inputs"][name]["sha256"] == whole["inputs"][name]["sha256"]
    h = drawn(4, 6, 7)
    found = np.load("part/y.npy")
    assert np.allclose(found, h @ drawn(2, 7, 3) + drawn(3, 3), atol=1e-5)


def test_what_earlier_operations_make_is_an_output_of_their_part(chain: Path) -> None:
    run_command("run", "chain.toml", "--layers", "0:1", "--out", "part", "--no-plots")
    assert np.allclose(np.load("part/h.npy"), drawn(0, 6, 5) @ drawn(1, 5, 7), atol=1e-5)


def test_a_part_is_done_again(chain: Path) -> None:
    run_command("run", "chain.toml", "--layers", "1:2", "--out", "part", "--no-plots")
    run_command("run", "--again", "part/summary.json", "--out", "other", "--no-plots")
    one, two = (Path(folder, "summary.json").read_text() for folder in ("part", "other"))
    assert json.loads(one)["outputs"] == json.loads(two)["outputs"]
    assert json.loads(one)["cycles"] == json.loads(two)["cycles"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("2:9", "[workload] layers: needs first < stop, from 0 to 3, the number of operations, "
                "found 2:9"),
        ("2:2", "found 2:2"),
        ("2", '--layers: needs FIRST:STOP, two numbers of operations, found "2"'),
        ("-1:2", 'found "-1:2"'),
        ("s:y", 'found "s:y"'),
    ],
)  # fmt: skip
def test_what_is_no_part(chain: Path, given: str, text: str) -> None:
    assert text in refused("run", "chain.toml", f"--layers={given}", "--out", "part")
    assert not Path("part").exists()


def test_only_networks_have_layers(chain: Path) -> None:
    lone = str(CONFIGS / "runs" / "transpose_fig3.toml")
    assert 'layers: op = "transpose" has no such key' in refused("run", lone, "--layers", "0:1")
    program = str(CONFIGS / "programs" / "layer.txt")
    line = refused("run", program, "--layers", "0:1")
    assert f"--layers: is for run files of networks, and {program} is a program" in line


def test_ctrl_c_ends_with_a_line_and_leaves_nothing(tmp_path: Path) -> None:
    """Interrupted as soon as the folder for its results could have been there."""
    command = [sys.executable, "-m", "systolic", "run"]
    command += [str(CONFIGS / "networks" / "bert_block.toml"), "--out", "o"]
    command += ["--engine", "register"]  # which takes many minutes for it
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(5)
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "systolic: error: bert_block: interrupted; no file was written\n"
    assert not (tmp_path / "o").exists()
