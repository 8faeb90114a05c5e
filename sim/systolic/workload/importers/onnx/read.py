"""Reading an ONNX file: its messages as a graph of nodes and arrays.

The package onnx parses the messages and has the table of operators: which inputs, attributes and
defaults each has in which opset. External data are read from the model's own folder, never from
another one. Local functions stand where they are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import SystolicError, WorkloadError, shortened
from systolic.workload.importers.errors import ImportFileError
from systolic.workload.importers.onnx.model import OnnxGraph, OnnxNode, OnnxTensor, at_node
from systolic.workload.importers.onnx.wire import check_messages

FIRST_OPSET, LAST_OPSET = 7, 23
MOST_OPSET = (1 << 31) - 1
"""The largest number that the package onnx takes for an opset."""
MOST_GRAPHS_NESTED = 16
LONGEST_REASON = 200
MOST_ELEMENTS = 1 << 31
OWN_DOMAINS = ("", "ai.onnx")


def onnx_package() -> Any:
    """Return the package onnx; WorkloadError if it is not installed."""
    try:
        import onnx
    except ImportError:
        raise WorkloadError(
            "an ONNX file needs the package onnx, which is not installed (an extra of systolic: "
            "onnx)"
        ) from None
    return onnx


def parsed(data: bytes) -> Any:
    """Return the bytes of a file as a message of the package onnx; ImportFileError if they do not.

    Local functions are put where they are called.
    """
    onnx = onnx_package()
    check_messages(data, onnx.ModelProto.DESCRIPTOR)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        if model.functions:
            from onnx.inliner import inline_local_functions

            model = inline_local_functions(model)
    except Exception as error:  # the parser has errors of its own
        raise ImportFileError(f"is no ONNX file that can be read ({_reason(error)})") from None
    if not model.HasField("graph"):
        raise ImportFileError("is no ONNX file: has no graph")
    return of_newer_opset(model)


def of_newer_opset(model: Any) -> Any:
    """Return a model of an opset before the first as one of the first, as onnx converts it."""
    old = [each.version for each in model.opset_import if each.domain in OWN_DOMAINS]
    if not old or max(old) >= FIRST_OPSET:
        return model
    from onnx.version_converter import convert_version

    try:
        return convert_version(model, FIRST_OPSET)
    except Exception as error:  # of every kind, by the operator
        raise ImportFileError(
            f"of opset {max(old)}, which onnx cannot convert to {FIRST_OPSET} ({_reason(error)})"
        ) from None


def read_graph(model: Any, folder: Path) -> OnnxGraph:
    """Return the graph of a model, a message of the package onnx. folder: of external data.

    Raises:
        ImportFileError: the model is of another opset, a node is wrong or unknown, nodes wait for
            one another, or external data are missing.

    """
    opsets = {each.domain: each.version for each in model.opset_import}
    own = max((opsets.get(domain, 0) for domain in OWN_DOMAINS), default=0)
    if max(opsets.values(), default=0) > MOST_OPSET:
        raise ImportFileError(f"has an opset above {MOST_OPSET:,}")
    if own < FIRST_OPSET:
        raise ImportFileError(f"needs an opset from {FIRST_OPSET} on, found {own or 'none'}")
    return _Reader(opsets | {"": own, "ai.onnx": own}, folder).graph(model.graph, frozenset(), 0)


class _Reader:
    def __init__(self, opsets: Mapping[str, int], folder: Path) -> None:
        self._onnx = onnx_package()
        self._opsets = opsets
        self._folder = folder

    def graph(self, proto: Any, outside: frozenset[str], depth: int) -> OnnxGraph:
        if depth > MOST_GRAPHS_NESTED:
            raise ImportFileError(f"graphs are nested more than {MOST_GRAPHS_NESTED} deep")
        if proto.sparse_initializer:
            raise ImportFileError("has sparse constants, which are not read")
        constants = {each.name: self.array(each, each.name) for each in proto.initializer}
        inputs = tuple(_tensor(each) for each in proto.input if each.name not in constants)
        known = {*outside, *constants, *(each.name for each in inputs)}
        made: dict[str, str] = {}
        for number, each in enumerate(proto.node):
            for name in filter(None, each.output):
                if name in made or name in known:
                    raise ImportFileError(
                        f'{at_node(_name(each, number))}: makes "{shortened(name)}", which is '
                        f"there already"
                    )
                made[name] = _name(each, number)
        inner = frozenset({*known, *made})
        nodes = [
            self._node(each, _name(each, number), inner, depth)
            for number, each in enumerate(proto.node)
        ]
        _check_names(nodes, inner)
        outputs = tuple(_tensor(each) for each in proto.output)
        for each in outputs:
            if each.name not in inner:
                raise ImportFileError(f'output "{shortened(each.name)}": no node makes it')
        return OnnxGraph(proto.name, inputs, outputs, _in_order(nodes), constants)

    def _node(self, proto: Any, name: str, known: frozenset[str], depth: int) -> OnnxNode:
        if not isinstance(proto.op_type, str):  # protobuf gives the bytes
            raise ImportFileError(f"{at_node(name)}: the name of its operator is not UTF-8")
        domain = "" if proto.domain in OWN_DOMAINS else proto.domain
        schema = self._schema(proto, domain)
        version = 0 if schema is None else schema.since_version
        attributes: dict[str, Any] = {}
        for key, each in () if schema is None else schema.attributes.items():
            if each.default_value.type:
                attributes[key] = self._value(each.default_value, name, known, depth)
        for each in proto.attribute:
            if schema is not None and each.name not in schema.attributes:
                raise ImportFileError(
                    f'{at_node(name)}: {proto.op_type} has no attribute "{shortened(each.name)}"'
                )
            attributes[each.name] = self._value(each, name, known, depth)
        if schema is not None:
            _check_counts(proto, name, schema, attributes)
        return OnnxNode(
            name, proto.op_type, domain, version,
            tuple(proto.input), tuple(proto.output), attributes, proto,
        )  # fmt: skip

    def _schema(self, proto: Any, domain: str) -> Any:
        """Return what onnx says of an operator in the model's opset; None: it knows none."""
        opset = self._opsets.get(domain)
        if opset is None:
            return None
        try:
            return self._onnx.defs.get_schema(proto.op_type, opset, domain)
        except self._onnx.defs.SchemaError:
            return None

    def _value(self, proto: Any, name: str, known: frozenset[str], depth: int) -> Any:
        kinds = self._onnx.AttributeProto
        if proto.ref_attr_name:
            raise ImportFileError(f"{at_node(name)}: {proto.name} is an attribute of no function")
        if proto.type == kinds.TENSOR:
            return self.array(proto.t, name)
        if proto.type == kinds.GRAPH:
            return self.graph(proto.g, known, depth + 1)
        try:
            found = self._onnx.helper.get_attribute_value(proto)
        except ValueError as error:
            raise ImportFileError(f"{at_node(name)}: {proto.name}: {_reason(error)}") from None
        if isinstance(found, bytes):
            return found.decode("utf-8", "replace")
        if proto.type == kinds.STRINGS:
            return tuple(each.decode("utf-8", "replace") for each in found)
        return tuple(found) if proto.type in (kinds.FLOATS, kinds.INTS) else found

    def array(self, proto: Any, name: str) -> Array:
        """Return the array of a tensor; `name` is for errors."""
        tensors = self._onnx.TensorProto
        dims = tuple(proto.dims)
        if any(size < 0 for size in dims) or np.prod(dims, dtype=np.float64) > MOST_ELEMENTS:
            raise ImportFileError(f'constant "{shortened(name)}": has dimensions {list(dims)}')
        if proto.data_location == tensors.EXTERNAL:
            return self._external(proto, name, dims)
        try:
            found: Array = self._onnx.numpy_helper.to_array(proto)
        except Exception as error:  # onnx has no error of its own for this
            raise ImportFileError(
                f'constant "{shortened(name)}": cannot be read ({_reason(error)})'
            ) from None
        if found.dtype.kind == "c":
            raise ImportFileError(f'constant "{shortened(name)}": has complex numbers')
        return found

    def _external(self, proto: Any, name: str, dims: tuple[int, ...]) -> Array:
        """Return an array that lies in a file of the model's folder."""
        given = {each.key: each.value for each in proto.external_data}
        where = f'constant "{shortened(name)}": external data'
        location = given.get("location", "")
        folder = self._folder.resolve()
        path = (folder / location).resolve()
        if not location or not path.is_relative_to(folder) or path == folder:
            raise ImportFileError(
                f'{where} "{shortened(location)}" are not in the folder of the model'
            )
        if not path.is_file():
            raise ImportFileError(f'{where}: no file "{shortened(location)}" beside the model')
        try:
            offset = int(given.get("offset", 0))
            dtype = np.dtype(self._onnx.helper.tensor_dtype_to_np_dtype(proto.data_type))
        except (ValueError, KeyError) as error:
            raise ImportFileError(f"{where}: {_reason(error)}") from None
        count = int(np.prod(dims, dtype=np.int64))
        if offset < 0 or offset + count * dtype.itemsize > path.stat().st_size:
            raise ImportFileError(
                f'{where}: "{shortened(location)}" has {path.stat().st_size:,} bytes, needed '
                f"{count * dtype.itemsize:,} from {offset:,} on"
            )
        found: Array = np.fromfile(path, dtype, count, offset=offset).reshape(dims)
        return found


def _tensor(proto: Any) -> OnnxTensor:
    given = proto.type.tensor_type
    if not proto.type.HasField("tensor_type") or not given.HasField("shape"):
        return OnnxTensor(proto.name, given.elem_type, None)
    dims = tuple(
        each.dim_value if each.HasField("dim_value") else each.dim_param or None
        for each in given.shape.dim
    )
    return OnnxTensor(proto.name, given.elem_type, dims)


def _name(proto: Any, number: int) -> str:
    """Return the name of a node: its own, its first result's, or its number."""
    first = next(iter(proto.output), "")
    return str(proto.name or first or f"{proto.op_type}, number {number}")


def _check_counts(proto: Any, name: str, schema: Any, attributes: Mapping[str, Any]) -> None:
    found = len(proto.input)
    if not schema.min_input <= found <= schema.max_input:
        raise ImportFileError(
            f"{at_node(name)}: {proto.op_type} takes {schema.min_input} to {schema.max_input} "
            f"inputs, found {found}"
        )
    if not schema.min_output <= len(proto.output) <= schema.max_output:
        raise ImportFileError(
            f"{at_node(name)}: {proto.op_type} has {schema.min_output} to {schema.max_output} "
            f"results, found {len(proto.output)}"
        )
    for key, each in schema.attributes.items():
        if each.required and key not in attributes:
            raise ImportFileError(f"{at_node(name)}: {proto.op_type} needs the attribute {key}")
    for each in proto.attribute:
        wanted = schema.attributes[each.name].type
        if int(wanted.value) != each.type:
            raise ImportFileError(
                f"{at_node(name)}: {proto.op_type} has {each.name} of another type ({wanted.name})"
            )


def _check_names(nodes: Sequence[OnnxNode], known: frozenset[str]) -> None:
    for node in nodes:
        for name in filter(None, node.inputs):
            if name not in known:
                raise ImportFileError(f'{at_node(node.name)}: takes "{shortened(name)}", which no '
                                      f"node makes")  # fmt: skip


def _in_order(nodes: Sequence[OnnxNode]) -> tuple[OnnxNode, ...]:
    """Return nodes behind those whose results they take; their order if it is one."""
    makers = {name: at for at, node in enumerate(nodes) for name in node.outputs if name}
    before = [
        sorted({makers[name] for name in needed_names(node) if name in makers}) for node in nodes
    ]
    if all(not each or each[-1] < at for at, each in enumerate(before)):
        return tuple(nodes)
    try:
        order = TopologicalSorter(dict(enumerate(before))).static_order()
        return tuple(nodes[at] for at in order)
    except CycleError as error:
        names = " -> ".join(f'"{shortened(nodes[at].name)}"' for at in error.args[1][:8])
        raise ImportFileError(f"nodes wait for one another: {names}") from None


def needed_names(node: OnnxNode) -> set[str]:
    """Return the values that a node takes, those that its graphs take from outside included."""
    found = {name for name in node.inputs if name}
    for each in node.attributes.values():
        if isinstance(each, OnnxGraph):
            inside = {*each.constants, *(one.name for one in each.inputs)}
            for inner in each.nodes:
                inside.update(inner.outputs)
                found |= needed_names(inner) - inside
            found |= {one.name for one in each.outputs} - inside
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, SystolicError):
        return str(error)
    return shortened((str(error).splitlines() or [type(error).__name__])[0], LONGEST_REASON)
