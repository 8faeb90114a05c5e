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


TOO_LONG = """HloModule m

ENTRY main {
  a = s8[2,2000]{1,0} parameter(0)
  b = s8[2000,2]{1,0} parameter(1)
  ROOT y = s32[2,2]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_all_that_a_chip_refuses_is_said_at_once(tmp_path):
    """By kind and reason, with the place of the first; at the import and when it is run."""
    model = tmp_path / "long.hlo"
    model.write_text(TOO_LONG)
    wanted = (
        'matmul (1, first "output_0" at line 6, column 8): s8[2,2000]{1,0}: the array '
        "of neuroncore-v2-like cannot take s8"
    )
    out = run_command("import", str(model), "--chip", "neuroncore_v2")
    assert wanted in out
    assert "--partial does it on the host" in out
    status, _, errors = called(
        "run", str(model), "--chip", "neuroncore_v2", "--out", str(tmp_path / "out")
    )
    assert status == 2
    assert errors.startswith(
        f"systolic: error: {model}: cannot be done on neuroncore-v2-like: {wanted}"
    )
    assert errors.count("\n") == 1
    assert "can do all of it" in run_command("import", str(MODEL), "--chip", "ideal_4x4")


def test_a_broken_model_is_named_once(tmp_path):
    model = tmp_path / "cut.hlo"
    model.write_text(MODEL.read_text()[:300])
    run_file = tmp_path / "named.toml"
    run_file.write_text('chip = "ideal_4x4"\n[workload]\nmodel = "cut.hlo"\n')
    status, _, errors = called("run", str(model), "--chip", "ideal_4x4")
    assert status == 2
    assert errors.startswith(f"systolic: error: {model}: line ")
    status, _, errors = called("run", str(run_file))
    assert status == 2
    assert errors.startswith(f"systolic: error: {run_file}: [workload] model: {model}: line ")


def test_check_and_diff_and_compile_take_models(tmp_path):
    pins = tmp_path / "pins.toml"
    options = ["--chip", "ideal_4x4", "--pins", str(pins)]
    model = tmp_path / "net.hlo"
    model.write_text(MODEL.read_text())
    run_command("check", str(model), *options, "--update")
    assert "as pinned" in run_command("check", str(model), *options)
    assert "equal" in run_command("diff", str(model), str(model), "--chip", "ideal_4x4")
    assert "DmaCopy" in run_command("compile", str(model), "--chip", "ideal_4x4")


def test_sweeps_vary_models(tmp_path):
    """A run file may name several models in turn; a model alone has no sweep."""
    for name, rows in (("one", 4), ("two", 8)):
        (tmp_path / f"{name}.hlo").write_text(
            "HloModule m\n\nENTRY main {\n"
            f"  a = f32[{rows},4]{{1,0}} parameter(0)\n"
            f"  ROOT b = f32[{rows},4]{{1,0}} tanh(a)\n}}\n"
        )
    run_file = tmp_path / "sweep.toml"
    run_file.write_text(
        'chip = "ideal_4x4"\n[workload]\nmodel = "one.hlo"\n[[sweep]]\nname = "models"\n'
        '[sweep.vary]\n"workload.model" = ["one.hlo", "two.hlo"]\n'
    )
    run_command("run", str(run_file), "--out", str(tmp_path / "out"), "--no-plots")
    rows = (tmp_path / "out" / "sweep.csv").read_text().splitlines()
    assert len(rows) == 3
    status, _, errors = called("sweep", str(tmp_path / "one.hlo"))
    assert status == 2
    assert "is a model; needs a run file with [[sweep]]" in errors


def test_reasons_of_several_kinds_are_listed_of_a_run_file_too(tmp_path):
    run_file = tmp_path / "two.toml"
    text = 'chip = "neuroncore_v2"\n[workload]\nhome = "dram"\n'
    shapes = {"a": "s8[4,2000]", "b": "s8[2000,4]", "x": "f32[4,4]", "z": "bf16[4,4]"}
    for name, shape in shapes.items():
        text += f'[workload.tensors.{name}]\nshape = "{shape}"\n'
    op = '[[workload.ops]]\nop = "matmul"\nname = "{}"\ninputs = ["{}", "{}"]\nout = "{}"\n'
    one, other = op.format("y", "a", "b", "s32[4,4]"), op.format("w", "x", "z", "f32[4,4]")
    run_file.write_text(text + one + other)
    status, _, errors = called("run", str(run_file))
    assert status == 2
    where = f"{run_file}: cannot be done on neuroncore-v2-like"
    assert errors.startswith(f'systolic: error: {where}: matmul (1, first "y"): s8[4,2000]')
    assert 'matmul (1, first "w"): f32 cannot be multiplied with bf16' in errors
    run_file.write_text(text.replace(text[text.index("[workload.tensors.x]") :], "") + one)
    _, _, errors = called("run", str(run_file))
    assert errors.startswith('systolic: error: operation "y": s8[4,2000]{1,0}: the array of neuron')
