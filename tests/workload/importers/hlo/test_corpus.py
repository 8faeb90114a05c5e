"""Is the value right? Modules of jax, as lowered and as optimised by XLA, against jax."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import systolic
from systolic.workload.importers.graph import Imported
from systolic.workload.importers.models import read_model

CORPUS = Path(__file__).parent / "corpus"
VALUES = np.load(CORPUS / "values.npz")
MODELS = sorted(path.name for path in CORPUS.glob("*.hlo"))
NEAR, NEAR_BF16 = 1e-5, 2.0**-6


def run_model(name: str, chip: str) -> tuple[Imported, systolic.Result]:
    imported, stem = read_model(CORPUS / name), name.split(".")[0]
    inputs = dict(imported.constants)
    for number, tensor in enumerate(imported.inputs):
        if tensor in imported.graph.inputs:
            dtype = imported.graph.shape(tensor).dtype
            inputs[tensor] = VALUES[f"{stem}/in{number}"].astype(dtype)
    return imported, systolic.run(imported.graph, chip, inputs)


def check_against_jax(name: str, chip: str) -> None:
    imported, result = run_model(name, chip)
    assert result.summary["values"]["equal"]
    for number, tensor in enumerate(imported.outputs):
        wanted = VALUES[f"{name.split('.')[0]}/out{number}"].astype(np.float64)
        found = result.outputs[tensor].astype(np.float64)
        assert found.shape == wanted.shape
        limit = NEAR_BF16 if name.startswith("bf16") else NEAR
        largest = np.abs(wanted).max()
        if np.issubdtype(VALUES[f"{name.split('.')[0]}/out{number}"].dtype, np.integer):
            limit = 0.0
        np.testing.assert_allclose(found, wanted, rtol=0, atol=limit * largest)


@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_jax(name: str) -> None:
    check_against_jax(name, "ideal_128x128")


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["patent_128x64", "neuroncore_v2"])
@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_jax_on_other_chips(name: str, chip: str) -> None:
    check_against_jax(name, chip)


def test_what_cannot_be_done_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "drawn.hlo"
    lines = ("HloModule drawn", "", "ENTRY main {", "  low = f32[] constant(0)",
             "  high = f32[] constant(1)",
             "  ROOT y = f32[4] rng(low, high), distribution=rng_uniform", "}")  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(systolic.errors.SystolicError) as error:
        read_model(path)
    assert "cannot be done on the chip: rng (1, first at line 6, column 8)" in str(error.value)


RECOGNISED = {
    "attn": ["causal_mask", "softmax"],
    "layer_norm": ["layer_norm"],
    "layer_norm_var": ["layer_norm"],
    "rms_norm": ["rms_norm"],
    "mlp": ["gelu", "softmax"],
    "swiglu": ["silu"],
    "attn_finite": ["causal_mask", "softmax"],
    "instance_norm": ["instance_norm"],
    "instance_norm_nchw": ["instance_norm"],
    "group_norm_nchw": ["group_norm"],
    "group_norm_net": ["group_norm", "silu"],
    "batch_norm": ["batch_norm"],
    "encoder_layer": ["layer_norm", "softmax", "layer_norm", "gelu_erf"],
    "vit_patches": ["layer_norm"],
    "rms_residual": ["rms_norm"],
}


@pytest.mark.parametrize("form", ["hlo", "optimised.hlo"])
@pytest.mark.parametrize("name", RECOGNISED)
def test_pieces_are_recognised(name: str, form: str) -> None:
    graph = read_model(CORPUS / f"{name}.{form}").graph
    kinds = [getattr(op.attributes, "function", op.kind) for op in graph.operations]
    composites = [kind for kind in kinds if kind in {*RECOGNISED[name]}]
    assert composites == RECOGNISED[name]
    assert not {"reduce", "exponential", "tanh"} & {*kinds}


def test_layouts_of_the_text_are_those_of_the_tensors() -> None:
    text = (CORPUS / "perm.hlo").read_text()
    head, body = text.split("\n", 1)
    tiled = head.replace("f32[2,3,4]{2,1,0}", "f32[2,3,4]{0,1,2:T(2,128)}") + "\n" + body
    path = CORPUS / "perm.hlo"
    assert tiled != text
    from systolic.workload.importers.given import NOTHING_GIVEN
    from systolic.workload.importers.models import FORMATS

    imported = FORMATS[".hlo"].read(tiled.encode(), CORPUS, NOTHING_GIVEN)
    assert [str(shape) for shape in imported.input_shapes] == ["f32[2,3,4]{0,1,2:T(2,128)}"]
    result = systolic.run(imported.graph, "ideal_128x128", {"x.1": VALUES["perm/in0"]})
    for number, tensor in enumerate(imported.outputs):
        np.testing.assert_array_equal(result.outputs[tensor], VALUES[f"perm/out{number}"])
    assert path.exists()


SMALL_TERM = """HloModule m

ENTRY main {
  x = f32[4]{0} parameter(0)
  zero = f32[] constant(0)
  zeros = f32[4]{0} broadcast(zero), dimensions={}
  kept = f32[4]{0} maximum(x, zeros)
  small = f32[] constant(1e-06)
  smalls = f32[4]{0} broadcast(small), dimensions={}
  safe = f32[4]{0} add(kept, smalls)
  ROOT y = f32[4]{0} rsqrt(safe)
}
"""


def test_a_small_term_is_not_taken_for_rounding(tmp_path: Path) -> None:
    """max(x, 0) + 1e-6 is nearly max(x, 0), but its reciprocal root at 0 is not infinite."""
    model = tmp_path / "small.hlo"
    model.write_text(SMALL_TERM)
    x = np.array([-1, 0, 1e-6, 2], np.float32)
    result = systolic.run(model, "ideal_4x4", [x])
    wanted = 1 / np.sqrt(np.maximum(x, 0).astype(np.float64) + 1e-6)
    np.testing.assert_allclose(result.outputs["output_0"], wanted, rtol=1e-5)


WHOLE_NUMBERS = """HloModule m

ENTRY main {
  x = f32[4]{0} parameter(0)
  r = f32[4]{0} round-nearest-even(x)
  w = s8[4]{0} convert(r)
  ROOT y = f32[4]{0} convert(w)
}
"""


def test_a_cast_to_whole_numbers_is_no_piece_of_a_function(tmp_path: Path) -> None:
    model = tmp_path / "whole.hlo"
    model.write_text(WHOLE_NUMBERS)
    result = systolic.run(model, "ideal_4x4", [np.array([-200.4, 1.5, 2.5, 300], np.float32)])
    assert result.outputs["output_0"].tolist() == [-128, 2, 2, 127]
