"""Does it run? A model is taken wherever a run file is, from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.command_line import run_command as called
from systolic.errors import SystolicError

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "configs" / "models" / "mlp.hlo"
VALUES = np.load(ROOT / "tests" / "workload" / "importers" / "hlo" / "corpus" / "values.npz")
INPUTS = [VALUES[f"mlp/in{n}"] for n in range(4)]
NAMES = ["x.1", "w1.1", "b1.1", "w2.1"]


@pytest.mark.parametrize(
    "inputs",
    [INPUTS, dict(enumerate(INPUTS)), dict(zip(NAMES, INPUTS, strict=True))],
    ids=["list", "numbers", "names"],
)
def test_inputs_by_order_by_number_and_by_name(inputs):
    result = systolic.run(MODEL, ideal_chip(8, 8), inputs)
    assert list(result.outputs) == ["output_0"]
    np.testing.assert_allclose(result.outputs["output_0"], VALUES["mlp/out0"], atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (INPUTS[:3], f"{MODEL}: inputs are missing: w2.1"),
        ({"y": INPUTS[0]}, f'{MODEL}: has no input "y" (known: x.1, w1.1, b1.1, w2.1)'),
        ({"0": INPUTS[0], "x.1": INPUTS[0]}, f'{MODEL}: input "x.1" is given twice'),
    ],
)
def test_inputs_that_do_not_fit_are_said_in_a_line(inputs, message):
    with pytest.raises(SystolicError) as error:
        systolic.run(MODEL, "ideal_4x4", inputs)
    assert str(error.value) == message


def test_a_model_needs_a_chip():
    with pytest.raises(SystolicError) as error:
        systolic.run(MODEL)
    assert str(error.value) == f"{MODEL}: is a model, which names no chip; needs one"


def run_command(*arguments: str) -> str:
    status, out, errors = called(*arguments)
    assert status == 0, errors
    return out


def test_the_same_model_through_all_doors(tmp_path):
    """The file, the run file that import writes, and a run file that names it: the same cycles."""
    run_command("import", str(MODEL), "--out", str(tmp_path))
    named = tmp_path / "named.toml"
    named.write_text(f'chip = "ideal_128x128"\n[workload]\nmodel = "{MODEL}"\n')
    cycles = {
        systolic.run(file, chip, values=False).cycles
        for file, chip in ((MODEL, "ideal_128x128"), (tmp_path / "mlp.toml", None), (named, None))
    }
    assert len(cycles) == 1


def test_files_in_and_out(tmp_path):
    for number, array in enumerate(INPUTS):
        np.save(tmp_path / f"{number}.npy", array)
    given = [f"--input={n}={tmp_path / f'{n}.npy'}" for n in range(4)]
    run_command(
        "run",
        str(MODEL),
        "--chip",
        "ideal_4x4",
        *given,
        "--out",
        str(tmp_path / "out"),
        "--no-plots",
    )
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["outputs"]["output_0"]["layout"] == "f32[4,8]{1,0}"
    assert list(summary["inputs"])[:4] == NAMES
    found = np.load(tmp_path / "out" / "output_0.npy")
    np.testing.assert_allclose(found, VALUES["mlp/out0"], atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", str(MODEL), "--chip", "ideal_4x4"),
        ("trace", str(MODEL), "--chip", "ideal_4x4", "--kind", "psum_write"),
        ("run", str(MODEL), "--chip", "ideal_4x4", "--values", "none", "--no-plots", "--home",
         "state_buffer", "--seed", "3"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_commands_take_a_model(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_command(*arguments)


def test_an_operand_of_a_lone_operation_comes_from_a_file(tmp_path):
    run = tmp_path / "run.toml"
    run.write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "binary"\noperator = "subtract"\nlhs = "f32[4]"\n'
        'rhs = "f32[4]"\n'
    )
    np.save(tmp_path / "b.npy", np.full(4, 0.5, np.float32))
    run_command("run", str(run), "--input", f"rhs={tmp_path / 'b.npy'}", "--out",
                str(tmp_path / "out"), "--no-plots")  # fmt: skip
    found = np.load(tmp_path / "out" / "result.npy")
    assert np.array_equal(found, np.arange(1, 5, dtype=np.float32) - 0.5)
