"""Transposes are moved down until they cancel: the values stay, and fewer are left."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import systolic
from support.onnx_models import model_of, runtime_results, written
from support.onnx_resnet import resnet18, resnet18_by_hand
from systolic.workload.importers.models import read_model

NEAR = 2e-4


def kinds(graph) -> list[str]:
    return [op.kind for op in graph.operations]


def test_a_network_in_nchw_turns_its_image_only_and_takes_the_cycles_of_nhwc(tmp_path):
    path = written(resnet18(32, 8), tmp_path / "resnet18.onnx")
    graph = read_model(path).graph
    assert kinds(graph).count("transpose") <= 2
    assert kinds(graph).count("conv2d") == 20
    assert "reshape" not in kinds(graph)
    by_hand = systolic.run(resnet18_by_hand(32, 8), "ideal_128x128", values=False)
    found = systolic.run(path, "ideal_128x128", values=False)
    assert found.cycles <= 1.03 * by_hand.cycles
    lies_alike = resnet18_by_hand(32, 8, "{2,1,3,0}")
    alike = systolic.run(lies_alike, "ideal_128x128", values=False)
    assert found.cycles == pytest.approx(alike.cycles, rel=0.03)


@pytest.mark.slow
def test_the_whole_network_takes_the_cycles_of_nhwc(tmp_path):
    path = written(resnet18(), tmp_path / "resnet18.onnx")
    found = systolic.run(path, "ideal_128x128", values=False)
    by_hand = systolic.run(resnet18_by_hand(), "ideal_128x128", values=False)
    alike = systolic.run(resnet18_by_hand(layout="{2,1,3,0}"), "ideal_128x128", values=False)
    assert found.cycles <= 1.03 * by_hand.cycles
    assert found.cycles == pytest.approx(alike.cycles, rel=0.03)


def node(kind, inputs, name, **attributes):
    return helper.make_node(kind, inputs, [name], **attributes)


RNG = np.random.default_rng(2)
CONSTANTS = {
    "w": RNG.standard_normal((4, 4, 3, 3)).astype(np.float32),
    "c": RNG.standard_normal((4, 1, 1)).astype(np.float32),
    "plane": RNG.standard_normal((1, 1, 6, 5)).astype(np.float32),
    "wide": RNG.standard_normal((1, 4, 6, 5)).astype(np.float32),
    "starts": np.array([0, 1, 1]), "ends": np.array([2, 6, 4]), "axes": np.array([0, 2, 3]),
    "lines": np.array([2, 4, 30]), "flat": np.array([2, 120]), "split": np.array([2, 2, 2, 6, 5]),
    "pads": np.array([0, 1, 1, 0, 0, 1, 0, 2]),
}  # fmt: skip


def conv(source, name):
    return node("Conv", [source, "w"], name, pads=[1, 1, 1, 1])


CHAINS = {
    "channel": [node("Mul", ["a", "c"], "b")],
    "plane": [node("Mul", ["a", "plane"], "b")],
    "constant": [node("Sub", ["wide", "a"], "b")],
    "gate": [
        node("GlobalAveragePool", ["a"], "g"),
        node("Sigmoid", ["g"], "s"),
        node("Mul", ["a", "s"], "b"),
    ],
    "input": [node("Add", ["a", "image"], "b")],
    "concat": [node("Relu", ["a"], "r"), node("Concat", ["a", "r"], "k", axis=1),
               node("Split", ["k"], "b", axis=1)],
    "slice": [node("Pad", ["a", "pads"], "p"), node("Slice", ["p", "starts", "ends", "axes"], "b")],
    "softmax": [node("Softmax", ["a"], "b", axis=1)],
    "lines": [node("Reshape", ["a", "lines"], "r"),
              node("Transpose", ["r"], "b", perm=[0, 2, 1])],
    "flat": [node("Reshape", ["a", "flat"], "b")],
    "split": [node("Reshape", ["a", "split"], "r"), node("ReduceMax", ["r"], "b", axes=[1])],
    "mean": [node("ReduceMean", ["a"], "b", axes=[1, 3], keepdims=0)],
    "select": [node("Greater", ["a", "image"], "g"), node("Where", ["g", "a", "wide"], "b")],
    "result": [node("Relu", ["a"], "b")],
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_values_stay(name, tmp_path):
    """A chain between two convolutions, or at the end, against onnxruntime."""
    nodes = [conv("image", "a"), *CHAINS[name]]
    if name == "concat":
        nodes[-1] = helper.make_node("Split", ["k"], ["b", "unused"], axis=1)
    model = model_of(nodes, {"image": (2, 4, 6, 5)}, ("b",), CONSTANTS, opset=13)
    image = RNG.standard_normal((2, 4, 6, 5)).astype(np.float32)
    path = written(model, tmp_path / "chain.onnx")
    found = systolic.run(path, "ideal_128x128", [image]).outputs["b"]
    wanted = runtime_results(model, {"image": image})["b"]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=NEAR * np.abs(wanted).max())
