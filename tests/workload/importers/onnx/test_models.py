"""Is the value right? ONNX files through commands and from Python, against onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import systolic
from support.command_line import run_command
from support.onnx_models import runtime_results, small_cnn, written
from systolic.config import load_run
from systolic.workload.importers.models import read_model

NEAR = 2e-4


def image(batch: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((batch, 3, 8, 8)).astype(np.float32)


def check(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_allclose(found[name], array, rtol=0, atol=NEAR * np.abs(array).max())


def test_a_network_from_python(tmp_path: Path) -> None:
    model = small_cnn()
    path = written(model, tmp_path / "cnn.onnx")
    result = systolic.run(path, "ideal_128x128", {"image": image(1)})
    check(dict(result.outputs), runtime_results(model, {"image": image(1)}))


def test_the_sizes_of_arrays_are_those_of_open_dimensions(tmp_path: Path) -> None:
    model = small_cnn("batch")
    path = written(model, tmp_path / "cnn.onnx")
    result = systolic.run(path, "ideal_128x128", [image(2)])
    check(dict(result.outputs), runtime_results(model, {"image": image(2)}))


def test_files_in_and_out_have_the_names_of_the_model(tmp_path: Path) -> None:
    model = small_cnn("batch")
    path = written(model, tmp_path / "cnn.onnx")
    np.save(tmp_path / "image.npy", image(2))
    status, _, errors = run_command(
        "run", path, "--chip", "ideal_128x128", "--shape", "batch=2", "--input",
        f"image={tmp_path / 'image.npy'}", "--out", tmp_path / "out", "--no-plots",
    )  # fmt: skip
    assert (status, errors) == (0, "")
    wanted = runtime_results(model, {"image": image(2)})
    found = {name: np.load(tmp_path / "out" / f"{name}.npy") for name in wanted}
    check(found, wanted)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert "image" in summary["inputs"]
    names = [each["name"] for each in summary["operations"]]
    assert {"first", "second"} & set(names)


def test_a_lone_open_batch_is_one(tmp_path: Path) -> None:
    path = written(small_cnn("batch"), tmp_path / "cnn.onnx")
    assert [shape.dims for shape in read_model(path).input_shapes] == [(1, 3, 8, 8)]


def test_a_run_file_and_its_weights_do_the_same(tmp_path: Path) -> None:
    path = written(small_cnn("n"), tmp_path / "cnn.onnx")
    status, said, errors = run_command("import", path, "--shape", "n=2", "--out", tmp_path / "made")
    assert (status, errors) == (0, "")
    assert "image f32[2,3,8,8]" in said
    again = systolic.run(tmp_path / "made" / "cnn.toml", values=False)
    assert (
        again.cycles
        == systolic.run(
            load_run(path, ["chip=ideal_128x128", "workload.shapes.n=2"]), values=False
        ).cycles
    )
