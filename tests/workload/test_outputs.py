"""A graph names its outputs: an intermediate result can be one, and nothing is made in vain."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from systolic.errors import WorkloadError
from systolic.workload import GraphBuilder

RNG = np.random.default_rng(2)
INPUTS = {
    "x": RNG.standard_normal((16, 24)).astype(np.float32),
    "w": RNG.standard_normal((24, 12)).astype(np.float32),
    "b": RNG.standard_normal(12).astype(np.float32),
}
SUMS = INPUTS["x"].astype(np.float64) @ INPUTS["w"] + INPUTS["b"]


def layer(home: str = "dram") -> GraphBuilder:
    builder = GraphBuilder(home)
    builder.tensor("x", "f32[16,24]")
    builder.tensor("w", "f32[24,12]")
    builder.tensor("b", "f32[12]")
    builder.matmul("x", "w", "f32[16,12]", name="product")
    builder.binary("product", "b", operator="add", broadcast_dimensions=(1,), out="f32[16,12]",
                   name="sums")  # fmt: skip
    builder.activation("sums", function="ramp", name="hidden")
    builder.softmax("hidden", name="y")
    return builder


@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("outputs", [("sums", "y"), ("hidden", "y"), ("product", "sums", "y")])
@pytest.mark.parametrize("chip", ["ideal_4x4", "ideal_128x128"])
def test_an_intermediate_result_is_an_output(chip, outputs, home):
    result = systolic.run(layer(home).graph(outputs), chip, INPUTS)
    assert result.summary["values"]["equal"]
    assert sorted(result.outputs) == sorted(outputs)
    wanted = {"product": SUMS - INPUTS["b"], "sums": SUMS, "hidden": np.maximum(SUMS, 0)}
    for name in {*outputs} & {*wanted}:
        np.testing.assert_allclose(result.outputs[name], wanted[name], rtol=0, atol=1e-5)


def test_a_joined_product_adds_in_the_order_of_its_tiles():
    """The bias leaves with the sums, whose K comes in several rows on a partition."""
    result = systolic.run(layer().graph(), "ideal_4x4", INPUTS)
    assert any("made with product" in choice for choice in result.compiled.layers.choices)
    assert any("rows on a partition" in choice for choice in result.compiled.layers.choices)
    assert result.summary["values"]["equal"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (("z",), 'outputs: "z" is the result of no operation (known: product, sums, hidden, y)'),
        (("x",), 'outputs: "x" is the result of no operation (known: product, sums, hidden, y)'),
        (("y", "y"), 'outputs: "y" is named twice'),
        (("sums",), 'outputs: nothing takes "y", which is none of them; name it, or leave its '
         "operation out"),
    ],
)  # fmt: skip
def test_outputs_that_are_none_are_refused(outputs, message):
    with pytest.raises(WorkloadError) as error:
        layer().graph(outputs)
    assert str(error.value) == message


def test_a_run_file_names_outputs(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'chip = "ideal_4x4"\n[workload]\noutputs = ["s", "y"]\n[workload.tensors]\nx = "f32[4,4]"\n'
        '[[workload.ops]]\nop = "activation"\nname = "s"\ninputs = ["x"]\nout = "f32[4,4]"\n'
        'function = "square"\n[[workload.ops]]\nop = "reduce"\nname = "y"\ninputs = ["s"]\n'
        'out = "f32[4]"\nreduction = "sum"\naxes = [1]\n'
    )
    assert sorted(systolic.run(file).outputs) == ["s", "y"]
