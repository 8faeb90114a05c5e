"""ONNX models that tests make, and what onnxruntime makes of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = OPSET,
    types: Mapping[str, int] | None = None,
) -> Any:
    """Return a model of nodes. inputs: dimensions by name; types: of those that are not float."""
    kinds = types or {}
    graph = helper.make_graph(
        list(nodes),
        "made",
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), list(dims))
            for name, dims in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None)
            for name in outputs
        ],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = min(model.ir_version, 10)
    return model


def runtime_results(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what onnxruntime makes of a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def small_cnn(batch: int | str = 1) -> Any:
    """Return a network of convolutions, norms, pools and a classifier, in NCHW, random weights."""
    rng = np.random.default_rng(5)

    def drawn(*dims: int) -> Any:
        return rng.standard_normal(dims).astype(np.float32) * 0.3

    node = helper.make_node
    constants: dict[str, Any] = {
        "w1": drawn(8, 3, 3, 3), "b1": drawn(8), "w2": drawn(8, 8, 3, 3),
        "gamma": drawn(8) + 1, "beta": drawn(8), "mean": drawn(8), "var": np.abs(drawn(8)) + 0.5,
        "w3": drawn(10, 8), "b3": drawn(10),
    }  # fmt: skip
    nodes = [
        node("Conv", ["image", "w1", "b1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"], name="second", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c2", "gamma", "beta", "mean", "var"], ["n2"]),
        node("Add", ["n2", "p1"], ["a2"]),
        node("Relu", ["a2"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["scores"], transB=1),
        node("Softmax", ["scores"], ["probabilities"], name="softmax"),
        node("ArgMax", ["scores"], ["digit"], axis=1, keepdims=0),
    ]
    return model_of(
        nodes, {"image": (batch, 3, 8, 8)}, ("probabilities", "digit"), constants,
        types={"digit": TensorProto.INT64},
    )  # fmt: skip


def written(model: Any, path: Any) -> Any:
    """Write a model to a file; return the path."""
    onnx.save(model, path)
    return path
