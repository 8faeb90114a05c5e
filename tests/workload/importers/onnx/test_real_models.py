"""Is the value right? Networks as tools export them (`make_models.py`), against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import systolic
from support.onnx_models import runtime_results

MODELS = Path(__file__).parent / "models"
DATA = Path(__file__).parents[4] / "configs" / "data"
CHIPS = ("ideal_128x128", "hbm3_128x128", "neuroncore_v2")
NEAR = 2e-4


def images() -> dict[str, np.ndarray]:
    rows = np.loadtxt(DATA / "digits.csv", delimiter=",", dtype=np.float32, max_rows=4)
    return {"images": rows.reshape(4, 8, 8) / 16}


def normal(**dims: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {name: rng.standard_normal(each).astype(np.float32) for name, each in dims.items()}


def words() -> dict[str, np.ndarray]:
    mask = (np.arange(10)[None] < np.array([[7], [10]])).astype(np.int64)
    return {"ids": np.random.default_rng(7).integers(0, 40, (2, 10)), "mask": mask}


INPUTS = {
    "digits_cnn": images(),
    "digits_lstm": images(),
    "digits_vit": images(),
    "detector_head": normal(fine=(1, 6, 8, 8), coarse=(1, 12, 4, 4)),
    "quantised_block": normal(image=(1, 8, 8, 8)),
    "text_encoder": words(),
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", INPUTS)
def test_values_are_those_of_onnxruntime(name: str, chip: str) -> None:
    path = MODELS / f"{name}.onnx"
    result = systolic.run(path, chip, INPUTS[name])
    wanted = runtime_results(onnx.load(path), INPUTS[name])
    assert result.summary["values"]["equal"]
    assert list(result.outputs) == list(wanted)
    for output, array in wanted.items():
        limit = NEAR * np.abs(array).max()
        np.testing.assert_allclose(result.outputs[output], array, rtol=0, atol=limit)


@pytest.mark.parametrize("name", ["digits_cnn", "digits_lstm", "digits_vit"])
def test_trained_networks_know_the_digits(name: str) -> None:
    """The files hold what was learned: the first four digits are 0, 1, 2, 3."""
    result = systolic.run(MODELS / f"{name}.onnx", "ideal_128x128", INPUTS[name])
    assert result.outputs["scores"].argmax(axis=1).tolist() == [0, 1, 2, 3]
