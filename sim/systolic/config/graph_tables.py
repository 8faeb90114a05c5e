"""The table [workload] as a graph, and the data of the graph's inputs.

[workload] is one operation (`op`), or a graph of `tensors` and `ops`. Not here: what the operations
mean, and whether their shapes fit (`systolic.workload`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from systolic.config.blame import Blame
from systolic.config.operation_keys import (
    SHAPE,
    WORKLOAD_KEYS,
    AttributeKeys,
    attribute_keys,
    operand_keys,
)
from systolic.config.run_file import OperationTable, TensorTable, WorkloadTable
from systolic.config.shape_table import ShapeTable
from systolic.errors import shortened
from systolic.workload import (
    OPERATIONS,
    DataSource,
    Graph,
    Operation,
    Tensor,
    check_host_memory,
    make_graph,
)
from systolic.workload.batch import some_images
from systolic.workload.data.archives import READERS
from systolic.workload.data.sources import BatchPart
from systolic.workload.graph import named_operation, part_of
from systolic.workload.lone import default_out, lone_graph
from systolic.workload.operation import make_attributes, required_attributes
from systolic.workload.operations.aliases import operation_named

ReadSource = Callable[[WorkloadTable, Blame], DataSource]


def read_graph(table: WorkloadTable, blame: Blame) -> Graph:
    """Return the graph that a table [workload] describes; ConfigError names the key."""
    if table.ops or (table.tensors and table.op is None):
        _refuse_keys(table, ("op", *sorted(WORKLOAD_KEYS), "out"), blame)
        return _graph(table, blame)
    if table.op is None:
        what = f"one of {', '.join(OPERATIONS)}"
        raise blame.line("workload", "op", f"is missing; needs {what}")
    return _lone(table, table.op, blame)


def with_operands(tables: dict[str, Any], blame: Blame) -> dict[str, Any]:
    """Return a run file's tables, [workload.tensors.NAME] of a lone operation with their shapes.

    Such a table says where the elements of an operand come from; its shape is a key of [workload].
    """
    workload = tables.get("workload")
    if not isinstance(workload, dict) or not isinstance(workload.get("op"), str):
        return tables
    if workload["op"] not in OPERATIONS:
        return tables
    entries = workload.get("tensors")
    if not isinstance(entries, dict):
        return tables
    row = OPERATIONS[workload["op"]]
    keys = dict(zip((each.name for each in row.operands), operand_keys(row), strict=True))
    for name in entries:
        if name not in keys:
            known = f"is no input of {workload['op']} (known: {', '.join(keys)})"
            raise blame.line("workload", f"tensors.{shortened(name)}", known)
    shapes = {name: workload.get(key) for name, key in keys.items()}
    filled = {
        name: {**(given if isinstance(given, dict) else {"shape": given}), **entry}
        if isinstance(entry, dict) and (given := shapes.get(name)) is not None
        else entry
        for name, entry in entries.items()
    }
    return {**tables, "workload": {**workload, "tensors": filled}}


def _lone(table: WorkloadTable, name: str, blame: Blame) -> Graph:
    """Return the graph of one operation, whose keys stand in the table itself."""
    given = _given_attributes(table)
    with blame.on("workload", "op"):
        kind, own = operation_named(name, given)
    row = OPERATIONS[kind]
    keys = operand_keys(row)
    others = WORKLOAD_KEYS - {*keys, *attribute_keys(row)}
    _refuse_keys(table, (*sorted(others), "layers", "images"), blame)
    inputs = [_tensor(table, key, blame) for key in keys]
    for key in required_attributes(row):
        if key not in own:
            raise blame.line("workload", key, f'is missing; op = "{name}" needs it')
    attributes = make_attributes(kind, row, own)
    if len(keys) == 1:
        with blame.on("workload", SHAPE):
            check_host_memory(inputs[0].shape)
    with blame.on("workload", next(iter((*given, *keys)), "op")):
        wanted = default_out(kind, inputs, attributes)
    follows = wanted is not None and table.out is None
    out = wanted if wanted and follows else _tensor(table, "out", blame)
    # The inputs fit if a result follows from them: then it is `out` that does not.
    with blame.on("workload", "op" if wanted is None or follows else "out"):
        return lone_graph(kind, inputs, out, attributes)


def _given_attributes(table: WorkloadTable | OperationTable) -> dict[str, Any]:
    """Return the attributes of operations that a table has."""
    values = {key: getattr(table, key) for key in AttributeKeys.model_fields}
    return {key: value for key, value in values.items() if value is not None}


def _tensor(table: WorkloadTable, key: str, blame: Blame) -> Tensor:
    given: ShapeTable | None = getattr(table, key)
    if given is None:
        raise blame.line("workload", key, "is missing; needs text")
    with blame.on("workload", key):
        return given.tensor(table.home)


def _refuse_keys(table: WorkloadTable, keys: Iterable[str], blame: Blame) -> None:
    """Raise ConfigError if the table has one of `keys`, which its operation does not take."""
    for key in keys:
        if getattr(table, key) is not None:
            what = f'op = "{table.op}"' if table.op else "a graph of ops"
            raise blame.line("workload", key, f"{what} has no such key")


def _graph(table: WorkloadTable, blame: Blame) -> Graph:
    tensors: dict[str, Tensor] = {}
    for name, entry in table.tensors.items():
        with blame.on("workload", f"tensors.{name}"):
            tensors[name] = entry.tensor(table.home)
    operations = []
    for number, op in enumerate(table.ops):
        with blame.on("workload", "ops"):
            operation = _operation(number, op)
        if operation.output in tensors:
            raise blame.line("workload", "ops", f'tensor "{operation.output}" is there twice')
        with blame.on("workload", "ops"):
            tensors[operation.output] = op.out.tensor(table.home)
        operations.append(operation)
    with blame.on("workload", "ops"):
        graph = make_graph(tensors, operations, table.outputs)
    if table.images is not None:
        with blame.on("workload", "images"):
            graph = some_images(graph, *table.images)
    if table.layers is not None:
        with blame.on("workload", "layers"):
            graph = part_of(graph, *table.layers)
    return graph


def _operation(number: int, op: OperationTable) -> Operation:
    name = op.name or f"{op.op}{number}"
    return named_operation(op.op, op.inputs, name, _given_attributes(op))


def input_sources(
    table: WorkloadTable, graph: Graph, blame: Blame, read: ReadSource
) -> dict[str, DataSource]:
    """Return where the elements of a graph's inputs come from; random inputs differ in seed.

    Inputs of a part of a graph have the elements that they have in the whole.
    """
    names = dict.fromkeys((*table.tensors, *graph.inputs))
    numbers, found = {name: number for number, name in enumerate(names)}, {}
    for name in graph.inputs:
        number = numbers[name]
        entry = table.tensors.get(name)
        source = read(_with_entry(table, entry), blame)
        if source.kind == "random" and (entry is None or entry.seed is None):
            source = replace(source, seed=source.seed + number)
        source = replace(source, images=_images(table, name, graph))
        found[name] = _of_archive(source, name, entry)
    return found


def _images(table: WorkloadTable, name: str, graph: Graph) -> BatchPart | None:
    """Return which images of an input are wanted; None if all are, or it is no batch."""
    if table.images is None:
        return None
    entry = table.tensors.get(name)
    out = {op.name or f"{op.op}{number}": op.out for number, op in enumerate(table.ops)}
    whole = (entry or out[name]).tensor(table.home).shape
    return None if whole.dims == graph.shape(name).dims else BatchPart(*table.images, whole.dims[0])


def _of_archive(source: DataSource, name: str, entry: TensorTable | None) -> DataSource:
    """Return a source with the name of the array in a file that holds several."""
    if source.kind != "file" or source.path.suffix.lower() not in READERS:
        return source
    return replace(source, array=entry.array if entry and entry.array else name)


def _with_entry(table: WorkloadTable, entry: TensorTable | None) -> WorkloadTable:
    if entry is None:
        return table
    own = {"data": entry.data, "seed": entry.seed, "deviation": entry.deviation}
    update = {key: own[key] for key in own if own[key] is not None}
    if entry.data not in (None, "random"):  # a file has neither, whatever others are drawn by
        update = {"seed": entry.seed, "deviation": entry.deviation, **update}
    return table.model_copy(update=update)
