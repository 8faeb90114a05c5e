"""The node cases of the package onnx: which are in scope, and what becomes of one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

import systolic
from systolic.errors import SystolicError
from systolic.workload.importers.given import ModelGiven
from systolic.workload.importers.models import read_onnx
from systolic.workload.importers.onnx.read import of_newer_opset

OPERATORS = frozenset(
    [
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
        "BatchNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "LayerNormalization",
        "RMSNormalization",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Softmax",
        "LogSoftmax",
        "Resize",
        "Attention",
        "ArgMax",
        "ArgMin",
        "TopK",
        "LSTM",
        "GRU",
        "RNN",
        "QLinearConv",
        "QLinearMatMul",
        "MatMulInteger",
        "ConvInteger",
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Max",
        "Min",
        "Mean",
        "Sum",
        "And",
        "Or",
        "Xor",
        "Not",
        "Mod",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Equal",
        "Where",
        "Gather",
        "GatherElements",
        "GatherND",
        "ScatterND",
        "ScatterElements",
        "Slice",
        "Split",
        "Concat",
        "Pad",
        "Transpose",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Tile",
        "Shape",
        "Identity",
        "Clip",
        "Relu",
        "LeakyRelu",
        "PRelu",
        "Elu",
        "Selu",
        "HardSigmoid",
        "HardSwish",
        "Celu",
        "Gelu",
        "Sigmoid",
        "Tanh",
        "Softplus",
        "Softsign",
        "Erf",
        "Exp",
        "Log",
        "Sqrt",
        "Reciprocal",
        "Neg",
        "Abs",
        "Sign",
        "Floor",
        "Ceil",
        "Round",
        "Sin",
        "Cos",
        "Cast",
        "CumSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceMean",
        "ReduceSum",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "DepthToSpace",
        "SpaceToDepth",
        "OneHot",
        "ConstantOfShape",
        "Constant",
        "Range",
        "Size",
        "Trilu",
        "RotaryEmbedding",
        "Mish",
        "Swish",
    ]
)
TYPES = frozenset({
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8,
    TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL,
})  # fmt: skip
NEAR = 2e-4
"""Of the largest element; integers are equal."""


@dataclass(frozen=True)
class Outcome:
    """What becomes of a case: passed, refused (with the line), or wrong (with the difference)."""

    kind: str
    text: str = ""


@cache
def node_cases() -> Mapping[str, Any]:
    """Return all cases of the package by name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


def out_of_scope(model: Any) -> str:
    """Return why a case is out of scope: its type, opset or operator; "" if it is in scope."""
    opsets = {each.domain: each.version for each in model.opset_import}
    for node in model.graph.node:
        if node.domain or node.op_type not in OPERATORS:
            return "operator"
    for value in (*model.graph.input, *model.graph.output):
        if not value.type.HasField("tensor_type") or value.type.tensor_type.elem_type not in TYPES:
            return "type"
        if not all(dim.dim_value for dim in value.type.tensor_type.shape.dim):
            return "type"
    versions = [
        onnx.defs.get_schema(node.op_type, opsets[""]).since_version for node in model.graph.node
    ]
    return "opset" if opsets[""] < 7 or max(versions) > 23 else ""


def operator_of(model: Any) -> str:
    """Return the operator that a case tries; of several nodes that they are several."""
    names = {node.op_type for node in model.graph.node}
    return names.pop() if len(model.graph.node) == 1 else "several nodes"


def outcome(case: Any, chip: Any) -> Outcome:
    """Return what becomes of a case on a chip."""
    names = [each.name for each in case.model.graph.input]
    for arrays, wanted in case.data_sets:
        given = {name: np.asarray(a) for name, a in zip(names, arrays, strict=False) if name}
        try:
            found = results(case.model, given, chip)
        except SystolicError as error:
            return Outcome("refused", str(error))
        for name, one, other in zip(found, found.values(), wanted, strict=True):
            if text := difference(one, np.asarray(other)):
                return Outcome("wrong", f"{name}: {text}")
    return Outcome("passed")


def results(model: Any, given: Mapping[str, Any], chip: Any) -> dict[str, Any]:
    """Return the results of a model on a chip, in the types of files."""
    imported = read_onnx(of_newer_opset(model), Path(), ModelGiven(values=given))
    inputs = dict(imported.constants)
    for name in imported.graph.inputs:
        if name in given:
            inputs[name] = given[name].astype(imported.graph.shape(name).dtype)
    result = systolic.run(imported.graph, chip, inputs)
    assert result.summary["values"]["equal"]
    return {
        name: result.outputs[name].astype(
            np.int64 if name in imported.int64 else result.outputs[name].dtype
        )
        for name in imported.outputs
    }


def difference(found: Any, wanted: Any) -> str:
    """Return how a result differs from the stored one; "" if it is near."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if found.dtype.kind in "iub":
        return "" if np.array_equal(found, wanted) else f"{int((found != wanted).sum())} differ"
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return "other infinities"
    near = max(NEAR, float(ml_dtypes.finfo(found.dtype).eps))
    limit = near * np.abs(other[finite]).max(initial=1e-30)
    apart = np.abs(one[finite] - other[finite]).max(initial=0.0)
    return "" if apart <= limit else f"{apart:.3g} apart, of {limit / near:.3g}"
