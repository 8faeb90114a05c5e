"""Damaged ONNX graphs: models that parse, with changes that contradict the rest of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

ODD_NUMBERS = (-(1 << 63), -1, 0, 1, 2, 7, 1 << 31, (1 << 63) - 1)
ODD_SIZES = (-1, 0, 1, 3, 5, 1 << 40)


def damaged_graph(good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Return one of the good models with one to three changes."""
    model = onnx.ModelProto.FromString(good[rng.integers(len(good))])
    for _ in range(rng.integers(1, 4)):
        CHANGES[rng.integers(len(CHANGES))](model.graph, rng)
    return bytes(model.SerializeToString())


def _one(of: Any, rng: np.random.Generator) -> Any:
    return of[int(rng.integers(len(of)))]


def _lost_node(graph: Any, rng: np.random.Generator) -> None:
    del graph.node[int(rng.integers(len(graph.node)))]


def _other_operand(graph: Any, rng: np.random.Generator) -> None:
    node = _one(graph.node, rng)
    if node.input:
        node.input[int(rng.integers(len(node.input)))] = _one(graph.node, rng).output[0]


def _lost_operand(graph: Any, rng: np.random.Generator) -> None:
    node = _one(graph.node, rng)
    if node.input:
        del node.input[int(rng.integers(len(node.input)))]


def _other_attribute(graph: Any, rng: np.random.Generator) -> None:
    node = _one(graph.node, rng)
    if not node.attribute:
        return
    found, number = _one(node.attribute, rng), int(_one(ODD_NUMBERS, rng))
    if found.ints:
        found.ints[int(rng.integers(len(found.ints)))] = number
    elif found.type == onnx.AttributeProto.INT:
        found.i = number
    elif found.type == onnx.AttributeProto.FLOAT:
        found.f = float(_one((0.0, -1.0, np.inf, np.nan), rng))
    else:
        found.type = int(rng.integers(15))


def _lost_attribute(graph: Any, rng: np.random.Generator) -> None:
    node = _one(graph.node, rng)
    if node.attribute:
        del node.attribute[int(rng.integers(len(node.attribute)))]


def _other_operator(graph: Any, rng: np.random.Generator) -> None:
    _one(graph.node, rng).op_type = _one(graph.node, rng).op_type


def _other_size(graph: Any, rng: np.random.Generator) -> None:
    if graph.initializer and (dims := _one(graph.initializer, rng).dims):
        dims[int(rng.integers(len(dims)))] = int(_one(ODD_SIZES, rng))


def _other_type(graph: Any, rng: np.random.Generator) -> None:
    if graph.initializer:
        _one(graph.initializer, rng).data_type = int(rng.integers(22))


def _other_input(graph: Any, rng: np.random.Generator) -> None:
    dims = _one(graph.input, rng).type.tensor_type.shape.dim if graph.input else ()
    if dims:
        _one(dims, rng).dim_value = int(_one(ODD_SIZES, rng))


CHANGES: tuple[Callable[[Any, np.random.Generator], None], ...] = (
    _lost_node, _other_operand, _lost_operand, _other_attribute, _lost_attribute, _other_operator,
    _other_size, _other_type, _other_input,
)  # fmt: skip
