"""Results of nodes whose operands are all known, as the package onnx calculates them.

`onnx.reference` has numpy's meaning of every operator in every opset. Only what follows from
constants and shapes alone is calculated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import shortened
from systolic.workload.importers.errors import ImportFileError
from systolic.workload.importers.onnx.model import OnnxNode, at_node

NOT_FOLDED = frozenset({
    "BatchNormalization",  # onnx.reference takes the branch for training before opset 14
    "Shape", "Size", "ConstantOfShape", "Expand", "Identity", "Reshape", "Unsqueeze", "Squeeze",
    "Flatten", "Transpose", "Tile", "Loop", "Scan", "If", "RandomNormal", "RandomUniform",
    "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout", "Pad",
    "Resize", "Upsample", "OneHot",
})  # fmt: skip
"""Rows make these of known operands without a copy, or they are never calculated here."""
MOST_ELEMENTS = 1 << 28


def known_results(node: OnnxNode, arrays: Sequence[Array | None], opset: int) -> list[Array] | None:
    """Return the results of a node of known operands; None if onnx has no meaning of it.

    Raises:
        ImportFileError: they do not go together, or the result would be too large.

    """
    if node.domain or node.operator in NOT_FOLDED:
        return None
    given = [each for each in arrays if each is not None]
    _check_size(node, given)
    from onnx.reference.op_run import RuntimeImplementationError
    from onnx.reference.ops import load_op

    try:
        operator = load_op("", node.operator, node.version)
    except (RuntimeImplementationError, RuntimeError, NotImplementedError, ValueError):
        return None
    settings: dict[str, Any] = {
        "log": _quiet, "opsets": {"": opset}, "verbose": 0, "new_ops": None,
        "evaluator_cls": None, "existing_functions": {},
    }  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            found = operator(node.proto, settings).run(*arrays)
    except Exception as error:  # numpy's and onnx's own, of every kind
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ImportFileError(
            f"{at_node(node.name)}: {node.operator} of constants: {shortened(reason, 200)}"
        ) from None
    return [np.asarray(each) for each in found]


def _quiet(*_: object) -> None:
    """Take what onnx would say of its steps."""


def _check_size(node: OnnxNode, arrays: Sequence[Array]) -> None:
    """Raise ImportFileError if operands would be spread over too many elements."""
    try:
        count = float(np.prod(np.broadcast_shapes(*(each.shape for each in arrays)), dtype=float))
    except ValueError:
        count = 0.0
    if node.operator == "Range" and len(arrays) == 3:
        first, stop, step = (float(each.reshape(-1)[0]) if each.size else 0.0 for each in arrays)
        count = abs((stop - first) / step) if step else 0.0
    if count > MOST_ELEMENTS:
        raise ImportFileError(f"{at_node(node.name)}: {count:,.0f} constants")
