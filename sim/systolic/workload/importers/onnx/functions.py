"""Operators that ONNX itself defines by others: their bodies as graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systolic.layout import Shape
from systolic.workload.importers.errors import ImportFileError
from systolic.workload.importers.onnx.kinds import INT64, TYPES
from systolic.workload.importers.onnx.model import OnnxGraph, OnnxNode, at_node
from systolic.workload.importers.onnx.read import onnx_package, read_graph

NUMBERS = {name: number for number, name in TYPES.items()} | {"s32": INT64}


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """An operator that is a function, as a graph. outputs: all of the function, in its order.

    Of an output that is left out the graph says nothing.
    """

    graph: OnnxGraph
    outputs: tuple[str, ...]


def function_body(
    node: OnnxNode, opset: int, shapes: Sequence[Shape | None]
) -> FunctionBody | None:
    """Return the body of an operator that is a function, for operands of these shapes.

    None: it is none. The graph's inputs are the function's, in its order.
    """
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(node.operator, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    body = _body(onnx, node, schema, shapes)
    if body is None:
        return None
    model = onnx.ModelProto()
    model.opset_import.extend(body.opset_import)
    if not model.opset_import:
        model.opset_import.add(domain="", version=opset)
    given = {each.name: each for each in node.proto.attribute}
    for key, each in schema.attributes.items():
        if each.default_value.type:
            given.setdefault(key, each.default_value)
    for inner in body.node:
        _with_attributes(model.graph.node.add(), inner, given)
    model.graph.input.extend(onnx.ValueInfoProto(name=name) for name in body.input)
    made = {name for each in body.node for name in each.output} | {*body.input}
    model.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in body.output if name in made
    )
    try:
        return FunctionBody(read_graph(model, Path()), tuple(body.output))
    except ImportFileError as error:
        raise ImportFileError(f"{at_node(node.name)}: {node.operator}: {error}") from None


def _body(onnx: Any, node: OnnxNode, schema: Any, shapes: Sequence[Shape | None]) -> Any:
    """Return the newest function that ONNX has for an operator; None if there is none."""
    body = onnx.FunctionProto()
    if schema.has_function:
        version = schema.function_opset_versions[-1]
        found = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        version = schema.context_dependent_function_opset_versions[-1]
        types = [_type(onnx, shape) for shape in shapes]
        found = schema.get_context_dependent_function_with_opset_version(
            version, node.proto.SerializeToString(), types
        )
    else:
        return None
    if not found:
        return None
    body.ParseFromString(found if isinstance(found, bytes) else found.SerializeToString())
    return body


def _type(onnx: Any, shape: Shape | None) -> bytes:
    if shape is None:
        return bytes(onnx.TypeProto().SerializeToString())
    made = onnx.helper.make_tensor_type_proto(NUMBERS[shape.element_type], shape.dims)
    return bytes(made.SerializeToString())


def _with_attributes(made: Any, inner: Any, given: dict[str, Any]) -> None:
    """Copy a node of a body; attributes that refer to the function's are these."""
    made.CopyFrom(inner)
    del made.attribute[:]
    for each in inner.attribute:
        if not each.ref_attr_name:
            made.attribute.add().CopyFrom(each)
            if each.HasField("g"):
                _inside(made.attribute[-1].g, given)
        elif each.ref_attr_name in given:
            new = made.attribute.add()
            new.CopyFrom(given[each.ref_attr_name])
            new.MergeFrom(type(new)(name=each.name))


def _inside(graph: Any, given: dict[str, Any]) -> None:
    nodes = list(graph.node)
    del graph.node[:]
    for each in nodes:
        _with_attributes(graph.node.add(), each, given)
