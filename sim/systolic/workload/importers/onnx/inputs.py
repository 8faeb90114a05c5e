"""The inputs of an ONNX model: their dimensions, and those on which shapes depend.

A network's shapes must be known when it is compiled. So a size that a file leaves open is given by
the user, or is 1 if it is the batch's; and an input on which a shape depends, such as the
operand `shape` of Reshape, is a constant with the value that the user gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from systolic.arrays import Array
from systolic.errors import listed, perhaps, shortened
from systolic.layout import Shape
from systolic.workload.importers.errors import CannotLowerError, ImportFileError
from systolic.workload.importers.given import ModelGiven
from systolic.workload.importers.onnx.kinds import element_type
from systolic.workload.importers.onnx.model import OnnxGraph, OnnxNode, OnnxTensor, at_node

OpenDims: TypeAlias = tuple[int | str | None, ...]
SHAPE_OPERANDS: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4), "Pad": (1, 2, 3), "Split": (1,), "Squeeze": (1,), "Unsqueeze": (1,),
    "TopK": (1,), "OneHot": (1,), "CumSum": (1,), "Trilu": (1,), "Resize": (1, 2, 3),
    "Upsample": (1,), "RNN": (4,), "GRU": (4,), "LSTM": (4,), "QLinearConv": (2,),
    "ConvInteger": (2,), "Dropout": (2,), "CenterCropPad": (1,), "Loop": (0, 1), "AffineGrid": (1,),
    "ReduceMax": (1,), "ReduceMin": (1,), "ReduceMean": (1,), "ReduceSum": (1,),
    "ReduceProd": (1,), "ReduceL1": (1,), "ReduceL2": (1,), "ReduceSumSquare": (1,),
    "ReduceLogSum": (1,), "ReduceLogSumExp": (1,),
}  # fmt: skip
"""The operands of each operator on which shapes depend, or what is reduced or put where."""
BY_SHAPE_ALONE = ("Shape", "Size")
"""Operators that look at the shape of their operand only."""


def input_shapes(graph: OnnxGraph, given: ModelGiven) -> dict[str, Shape]:
    """Return the shape of each input: its own sizes, those that are given, and 1 for a batch.

    Raises:
        ImportFileError: a size is open, a size is given that the model contradicts, or no chip has
            the type of an input.

    """
    sizes = {name: dims[0] for name, dims in given.shapes.items() if len(dims) == 1}
    found = {each.name: _given_dims(each, given, sizes) for each in graph.inputs}
    _check_names(graph, given)
    return {
        each.name: Shape(_kind(each), _closed(each, found[each.name], sizes))
        for each in graph.inputs
    }


def is_open(graph: OnnxGraph) -> bool:
    """Return whether a model leaves sizes of inputs open."""
    return any(
        each.dims is None or any(not isinstance(n, int) for n in each.dims) for each in graph.inputs
    )


def _check_names(graph: OnnxGraph, given: ModelGiven) -> None:
    known = [each.name for each in graph.inputs]
    known += [n for each in graph.inputs for n in each.dims or () if isinstance(n, str)]
    for name in given.shapes:
        if name not in known:
            raise ImportFileError(
                f'shape of "{shortened(name)}": is no input and no open dimension (known: '
                f"{listed(dict.fromkeys(known))}){perhaps(name, known)}"
            )


def _given_dims(tensor: OnnxTensor, given: ModelGiven, sizes: dict[str, int]) -> OpenDims:
    """Return the dimensions that are given for an input, and note those that have a name."""
    own, name = tensor.dims, shortened(tensor.name)
    whole = given.shapes.get(tensor.name)
    if whole is None and (own is None or not all(isinstance(n, int) for n in own)):
        array = given.array(tensor.name)
        whole = None if array is None else array.shape
    if whole is None:
        if own is None:
            raise ImportFileError(f'input "{name}": has no dimensions; needs some', "shape")
        return own
    text = ",".join(map(str, whole))
    if own is not None and (
        len(whole) != len(own)
        or any(isinstance(n, int) and n != m for n, m in zip(own, whole, strict=True))
    ):
        wanted = ",".join(str(n) if n else "?" for n in own)
        raise ImportFileError(f'input "{name}": has dimensions {wanted}, found {text}')
    for size, found in zip(own or (), whole, strict=False):
        if isinstance(size, str) and sizes.setdefault(size, found) != found:
            raise ImportFileError(
                f'input "{name}": has {size} = {found}, but {size} is {sizes[size]} elsewhere'
            )
    return whole


def _closed(tensor: OnnxTensor, dims: OpenDims, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return dimensions whose open sizes are given, or 1 in front; ImportFileError for others."""
    found = tuple(sizes.get(n, n) if isinstance(n, str) else n for n in dims)
    for axis, size in enumerate(found):
        if axis and not isinstance(size, int):
            name = shortened(tensor.name)
            what = f'"{shortened(size)}"' if size else f"dimension {axis}"
            text = ",".join("?" if n is None else str(n) for n in found)
            raise ImportFileError(f'input "{name}" [{text}]: {what} is open; needs a size', "shape")
    return tuple(n if isinstance(n, int) else 1 for n in found)


def _kind(tensor: OnnxTensor) -> str:
    try:
        return element_type(tensor.type)
    except CannotLowerError as error:
        raise ImportFileError(f'input "{shortened(tensor.name)}": {error}') from None


def constant_inputs(graph: OnnxGraph, given: ModelGiven) -> dict[str, Array]:
    """Return the inputs on which shapes depend, with their values.

    Raises:
        ImportFileError: one has no value; it names the node and the operand.

    """
    found: dict[str, Array] = {}
    for name, (node, number) in _needed(graph).items():
        value = given.array(name)
        if value is None:
            raise ImportFileError(
                f'input "{shortened(name)}": the shape of {at_node(node.name)} ({node.operator}, '
                f"operand {number}) depends on it; needs its value",
                "input",
            )
        found[name] = np.asarray(value)
    return found


def _needed(graph: OnnxGraph) -> dict[str, tuple[OnnxNode, int]]:
    """Return the inputs on which shapes depend, each with a node and its operand."""
    inputs = {each.name for each in graph.inputs}
    makers = {name: node for node in graph.nodes for name in node.outputs}
    found: dict[str, tuple[OnnxNode, int]] = {}
    seen: set[str] = set()
    for node in graph.nodes:
        for number in SHAPE_OPERANDS.get(node.operator, ()):
            waiting = [name for name in node.inputs[number : number + 1] if name]
            while waiting:
                name = waiting.pop()
                if name in inputs:
                    found.setdefault(name, (node, number))
                maker = makers.get(name)
                if name in seen or maker is None or maker.operator in BY_SHAPE_ALONE:
                    continue
                seen.add(name)
                waiting += filter(None, maker.inputs)
    return found
