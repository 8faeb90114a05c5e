"""[workload] as a graph: of one operation, or of `tensors` and `ops`; and its inputs' data.

Not here: what the operations mean and whether their shapes go together (`systolic.workload`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from systolic.config.blame import Blame
from systolic.config.run_file import OperationTable, TensorTable, WorkloadTable
from systolic.workload import (
    OPERATIONS,
    DataSource,
    Graph,
    Operation,
    Tensor,
    check_host_memory,
    make_graph,
    parse_shape,
    transpose_graph,
)
from systolic.workload.lone_transpose import checked_axes

ReadSource = Callable[[WorkloadTable, Blame], DataSource]


def read_graph(table: WorkloadTable, blame: Blame) -> Graph:
    """Return the graph a [workload] table means; ConfigError names the key."""
    if table.ops or table.tensors:
        refuse_keys(table, ("op", "shape", "lhs", "rhs", "out", "permutation"), blame)
        return _graph(table, blame)
    if table.op in (None, "transpose"):
        return _lone_transpose(table, blame)
    names = ("lhs", "rhs") if table.op == "matmul" else ("shape",)
    others = {"lhs", "rhs", "shape", "permutation"} - set(names)
    refuse_keys(table, sorted(others), blame)
    tensors = {name: _tensor(table, name, blame) for name in names}
    tensors["out"] = _tensor(table, "out", blame)
    assert table.op is not None
    with blame.on("workload", "op"):
        return make_graph(tensors, [Operation(table.op, table.op, names, "out")])


def _lone_transpose(table: WorkloadTable, blame: Blame) -> Graph:
    refuse_keys(table, ("lhs", "rhs"), blame)
    for key in ("op", "shape"):
        if getattr(table, key) is None:
            what = f"one of {', '.join(OPERATIONS)}" if key == "op" else "text"
            raise blame.line("workload", key, f"is missing; needs {what}")
    assert table.shape is not None
    with blame.on("workload", "shape"):
        shape = parse_shape(table.shape)
        check_host_memory(shape)
    with blame.on("workload", "out"):
        out = None if table.out is None else parse_shape(table.out)
    with blame.on("workload", "shape" if table.permutation is None else "permutation"):
        axes = checked_axes(shape, table.permutation)
    with blame.on("workload", "out"):
        return transpose_graph(shape, axes, out, table.home)


def _tensor(table: WorkloadTable, key: str, blame: Blame) -> Tensor:
    text = getattr(table, key)
    if text is None:
        raise blame.line("workload", key, "is missing; needs text")
    with blame.on("workload", key):
        return Tensor(parse_shape(text), table.home)


def refuse_keys(table: WorkloadTable, keys: Iterable[str], blame: Blame) -> None:
    """Raise ConfigError for a key that the operation has no use for."""
    for key in keys:
        if getattr(table, key) is not None:
            what = f'op = "{table.op}"' if table.op else "a graph of ops"
            raise blame.line("workload", key, f"{what} has no such key")


def _graph(table: WorkloadTable, blame: Blame) -> Graph:
    tensors: dict[str, Tensor] = {}
    for name, entry in table.tensors.items():
        with blame.on("workload", f"tensors.{name}"):
            tensors[name] = Tensor(parse_shape(entry.shape), entry.home or table.home)
    operations = []
    for number, op in enumerate(table.ops):
        operation = _operation(number, op)
        if operation.output in tensors:
            raise blame.line("workload", "ops", f'tensor "{operation.output}" is there twice')
        with blame.on("workload", "ops"):
            tensors[operation.output] = Tensor(parse_shape(op.out), table.home)
        operations.append(operation)
    with blame.on("workload", "ops"):
        return make_graph(tensors, operations)


def _operation(number: int, op: OperationTable) -> Operation:
    name = op.name or f"{op.op}{number}"
    return Operation(name, op.op, op.inputs, name, op.permutation or ())


def input_sources(
    table: WorkloadTable, graph: Graph, blame: Blame, read: ReadSource
) -> dict[str, DataSource]:
    """Return where the elements of a graph's inputs come from; random ones differ by name."""
    found = {}
    for number, name in enumerate(graph.inputs):
        entry = table.tensors.get(name)
        source = read(_with_entry(table, entry), blame)
        if source.kind == "random" and (entry is None or entry.seed is None):
            source = DataSource("random", source.seed + number)
        found[name] = source
    return found


def _with_entry(table: WorkloadTable, entry: TensorTable | None) -> WorkloadTable:
    if entry is None:
        return table
    own = {key: value for key in ("data", "seed") if (value := getattr(entry, key)) is not None}
    return table.model_copy(update=own)
