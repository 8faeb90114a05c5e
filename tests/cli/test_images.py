"""Some images of a network's batch, by --images and by the key of a run file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS

MLP = CONFIGS / "networks" / "digits_mlp.toml"
TWO = """\
chip = "ideal_4x4"
[workload]
home = "dram"
data = "random"
[workload.tensors]
x = { shape = "f32[6,5]" }
w = { shape = "f32[5,7]" }
[[workload.ops]]
op = "matmul"
name = "y"
inputs = ["x", "w"]
out = "f32[6,7]"
"""


def summary_of(*arguments: str | Path) -> dict:
    status, told, errors = run_command("run", *arguments, "--out", "out", "--no-plots", "--json")
    assert (status, errors) == (0, "")
    return json.loads(told)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.toml").write_text(TWO, encoding="utf-8")


def test_images_are_those_of_the_whole_batch() -> None:
    """Of random data too: x is drawn with seed 0, w with seed 1."""
    summary = summary_of("two.toml", "--images", "2:5")
    x = np.random.default_rng(0).standard_normal((6, 5), np.float32)
    w = np.random.default_rng(1).standard_normal((5, 7), np.float32)
    assert np.allclose(np.load("out/y.npy"), x[2:5] @ w, atol=1e-5)
    assert summary["inputs"]["x"]["shape"] == [3, 5]
    assert summary["inputs"]["w"]["shape"] == [5, 7]


def test_accuracy_is_of_the_images_that_count() -> None:
    """Every fifth image counts, from number 4 on: of images 40 to 79 these are 44, 49, ... 79."""
    part = summary_of(MLP, "--images", "40:80")
    assert part["inputs"]["images"]["shape"] == [40, 64]
    scores = np.load("out/scores.npy").astype(np.float64).argmax(axis=1)
    labels = np.loadtxt(CONFIGS / "data" / "digits_labels.csv", dtype=int)[40:80]
    assert part["accuracy"] == (scores == labels)[4::5].mean()
    assert part["images_per_second"] == pytest.approx(40e9 / part["time_ns"])


def test_where_none_count_there_is_no_accuracy() -> None:
    assert "accuracy" not in summary_of(MLP, "--images", "0:4")


def test_all_images_are_the_run_itself() -> None:
    assert summary_of("two.toml", "--images", "0:6")["cycles"] == summary_of("two.toml")["cycles"]


def test_images_of_a_part_of_the_operations() -> None:
    summary = summary_of(MLP, "--images", "0:8", "--layers", "0:1")
    assert len(summary["operations"]) == 1


def test_a_sweep_over_batches() -> None:
    text = TWO + '[[sweep]]\nname = "batch"\nvary = { "workload.images" = [[0, 1], [0, 6]] }\n'
    Path("sweep.toml").write_text(text, encoding="utf-8")
    status, _, errors = run_command("run", "sweep.toml", "--out", "out", "--no-plots")
    assert (status, errors) == (0, "")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["two.toml", "--images", "2"], '--images: needs FIRST:STOP, two numbers of images, found'),
        (["two.toml", "--images", "3:3"], "needs first < stop, from 0 to 6, the images of"),
        (["two.toml", "--images", "0:7"], 'the images of "x", found 0:7'),
    ],
)  # fmt: skip
def test_images_that_are_not_there(given: list[str], text: str) -> None:
    assert text in refused("run", *given)


def test_a_result_without_images_in_front() -> None:
    text = (
        TWO + '[[workload.ops]]\nop = "transpose"\nname = "t"\ninputs = ["y"]\nout = "f32[7,6]"\n'
    )
    Path("turned.toml").write_text(text, encoding="utf-8")
    told = refused("run", "turned.toml", "--images", "0:2")
    assert 'operation "t" gives f32[7,6]{1,0}, which has no 6 images in front' in told


def test_the_run_is_done_again() -> None:
    summary_of(MLP, "--images", "40:48")
    first = Path("out/summary.json").read_text(encoding="utf-8")
    status, _, errors = run_command(
        "run", "--again", "out/summary.json", "--out", "again", "--no-plots"
    )
    assert (status, errors) == (0, "")
    again = json.loads(Path("again/summary.json").read_text(encoding="utf-8"))
    assert again["inputs"] == json.loads(first)["inputs"]
    assert again["accuracy"] == json.loads(first)["accuracy"]
