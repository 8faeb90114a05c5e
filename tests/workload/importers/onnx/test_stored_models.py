"""Is the value right? Models that the package onnx stores, of PyTorch and of light networks.

The models of PyTorch are run, against their stored results. The light networks, whose weights are
numbers repeated, are held by their meaning in float64 against onnxruntime.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from support.onnx_models import runtime_results
from support.onnx_node_cases import difference, results
from systolic.errors import SystolicError
from systolic.workload.evaluate import exact_graph
from systolic.workload.importers.models import read_model

STORED = Path(onnx.__file__).parent / "backend" / "test" / "data"
FOLDERS = ("pytorch-converted", "pytorch-operator")
MODELS = sorted(path for folder in FOLDERS for path in (STORED / folder).glob("*/model.onnx"))
LIGHT = sorted((STORED / "light").glob("*.onnx"))
NEAR = 2e-4
REFUSED = {
    "test_operator_addconstant", "test_operator_add_broadcast",
    "test_operator_add_size1_broadcast", "test_operator_add_size1_right_broadcast",
    "test_operator_add_size1_singleton_broadcast",
    "test_PReLU_1d_multiparam", "test_PReLU_2d_multiparam", "test_PReLU_3d_multiparam",
    "test_MaxPool1d_stride_padding_dilation", "test_MaxPool2d_stride_padding_dilation",
}  # fmt: skip
"""Double precision; slopes of opset 6 that onnx does not convert; windows without room on chip."""


def stored(folder: Path, what: str) -> list[Any]:
    """Return the stored inputs or outputs of a model."""
    paths = sorted((folder / "test_data_set_0").glob(f"{what}_*.pb"))
    tensors = []
    for path in paths:
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        tensors.append(onnx.numpy_helper.to_array(tensor))
    return tensors


def outcome_of(path: Path) -> str:
    """Return "" for the stored values, else what is refused; a wrong value is an error."""
    model = onnx.load(path)
    constants = {each.name for each in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in constants]
    given = dict(zip(names, stored(path.parent, "input"), strict=True))
    try:
        found = results(model, given, "ideal_128x128")
    except SystolicError as error:
        return str(error)
    for one, other in zip(found.values(), stored(path.parent, "output"), strict=True):
        assert not (text := difference(one, other)), f"{path.parent.name}: {text}"
    return ""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if number % 6 == 0 else pytest.mark.slow, id=path.parent.name)
        for number, path in enumerate(MODELS)
    ],
)
def test_a_stored_model_gives_the_values_or_a_line(path: Path) -> None:
    line = outcome_of(path)
    assert (line == "") == (path.parent.name not in REFUSED)
    assert "\n" not in line


@pytest.mark.slow
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_a_light_network_means_what_onnxruntime_makes_of_it(path: Path) -> None:
    imported = read_model(path)
    (name,) = imported.inputs
    image = np.random.default_rng(6).random(imported.input_shapes[0].dims).astype(np.float32)
    found = exact_graph(imported.graph, {**imported.constants, name: image})
    wanted = runtime_results(path.read_bytes(), {name: image})
    for output, array in wanted.items():
        limit = NEAR * np.abs(array).max()
        np.testing.assert_allclose(found[output], array, rtol=0, atol=limit)
