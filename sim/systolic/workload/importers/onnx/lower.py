"""An ONNX model as a form: its inputs, its nodes, and its results in ONNX's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import shortened
from systolic.workload.importers.errors import CannotLowerError, ImportFileError
from systolic.workload.importers.form import ModelForm, ModelValue
from systolic.workload.importers.given import ModelGiven
from systolic.workload.importers.onnx.inputs import constant_inputs, input_shapes, is_open
from systolic.workload.importers.onnx.interpret import NodeNotDone, OnnxInterpreter
from systolic.workload.importers.onnx.kinds import INT64, element_type, in_memory
from systolic.workload.importers.onnx.model import OnnxTensor
from systolic.workload.importers.onnx.read import OWN_DOMAINS, read_graph


@dataclass(frozen=True, slots=True)
class LoweredOnnx:
    """A model as a form, and the names of its inputs and of its results.

    constants: the inputs on which shapes depend, with their values. int64: the results that are
    integers of 64 bits in the model. is_open: whether the model leaves sizes open.
    """

    form: ModelForm
    results: tuple[ModelValue, ...]
    inputs: tuple[str, ...]
    names: tuple[str, ...]
    constants: Mapping[str, Array]
    int64: tuple[str, ...]
    is_open: bool


def lower_onnx(model: Any, folder: Path, given: ModelGiven) -> LoweredOnnx:
    """Return a model, a message of the package onnx, as a form.

    Raises:
        ImportFileError: the model is wrong, dimensions are open, or an operator cannot be done.

    """
    graph = read_graph(model, folder)
    given = given.named([each.name for each in graph.inputs])
    opset = max(each.version for each in model.opset_import if each.domain in OWN_DOMAINS)
    interpreter = OnnxInterpreter(opset)
    form = interpreter.at.form
    names = tuple(each.name for each in graph.outputs)
    form.reserved.update(names)
    shapes, constants = input_shapes(graph, given), constant_inputs(graph, given)
    values: dict[str, ModelValue] = dict(constants)
    for name, shape in shapes.items():
        if name not in constants:
            values[name] = form.input(name, shape)
    results = interpreter.run(graph, values)
    _refuse(interpreter.not_done)
    found = tuple(
        _result(form, each, value) for each, value in zip(graph.outputs, results, strict=True)
    )
    wide = tuple(each.name for each in graph.outputs if each.type == INT64)
    inputs = tuple(each.name for each in graph.inputs)
    return LoweredOnnx(form, found, inputs, names, constants, wide, is_open(graph))


def _result(form: ModelForm, tensor: OnnxTensor, value: ModelValue) -> ModelValue:
    """Return a result in a type that chips have; ImportFileError if it is not what is declared."""
    where = f'output "{shortened(tensor.name)}"'
    try:
        found = in_memory(value) if isinstance(value, np.ndarray) else value
        wanted = element_type(tensor.type) if tensor.type else None
    except CannotLowerError as error:
        raise ImportFileError(f"{where}: {error}") from None
    shape = form.shape(found)
    if wanted not in (None, shape.element_type):
        raise ImportFileError(f"{where}: is declared as {wanted}, found {shape.element_type}")
    dims = tensor.dims
    if dims is not None and (
        len(dims) != shape.rank
        or any(isinstance(n, int) and n != m for n, m in zip(dims, shape.dims, strict=True))
    ):
        text = ",".join("?" if n is None else str(n) for n in dims)
        raise ImportFileError(
            f"{where}: is declared as [{text}], found [{','.join(map(str, shape.dims))}]"
        )
    return found


def _refuse(not_done: Sequence[NodeNotDone]) -> None:
    """Raise ImportFileError if something cannot be done: all of it, a part for each operator."""
    if not not_done:
        return
    parts = []
    for operator in dict.fromkeys(each.operator for each in not_done):
        found = [each for each in not_done if each.operator == operator]
        first = shortened(found[0].name)
        parts.append(f'{operator} ({len(found)}, first "{first}"): {found[0].why}')
    raise ImportFileError("cannot be done on the chip: " + "; ".join(parts))
