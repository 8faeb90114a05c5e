"""Graphs: operations over named tensors, as frozen values, and a builder to write them in Python.

A graph says what is to be computed, never how or on which chip. The meaning of each operation is a
row of `systolic.workload.operations.table.OPERATIONS`, by which a graph is checked when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from systolic.errors import WorkloadError, listed, perhaps, shortened
from systolic.layout import Shape
from systolic.workload.operation import Operation, default_shape, make_attributes, settled
from systolic.workload.operations.aliases import ALIASES, operation_named
from systolic.workload.operations.index_map import IndexMap
from systolic.workload.operations.table import OPERATIONS
from systolic.workload.tensor import HOMES, Home, Tensor
from systolic.workload.words import in_words


@dataclass(frozen=True, slots=True)
class Graph:
    """All tensors, and the operations in an order in which each follows those it depends on.

    Make a graph with `make_graph` or a `GraphBuilder`, which check that its parts fit. named: the
    results that must be in memory at the end, other operations' operands among them (none: those
    that no operation takes). wide: tensors that are s32 here, and the types that they were given,
    s64 or u32 (`systolic.workload.words`).
    """

    tensors: tuple[tuple[str, Tensor], ...]
    operations: tuple[Operation, ...]
    named: tuple[str, ...] = ()
    wide: tuple[tuple[str, str], ...] = ()
    _by_name: dict[str, Tensor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", dict(self.tensors))

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of that name."""
        return self._by_name[name]

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor."""
        return self.tensor(name).shape

    def producer(self, name: str) -> Operation | None:
        """Return the operation that makes a tensor; None of an input."""
        return next((op for op in self.operations if op.output == name), None)

    def index_map(self, op: Operation) -> IndexMap:
        """Return where the elements of an operation's result come from, if it only moves them."""
        assert op.row.index_map is not None
        shapes = [self.shape(name) for name in op.inputs]
        return op.row.index_map(shapes, self.shape(op.output), op.attributes)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the tensors that no operation makes: they are in memory at cycle 0."""
        made = {op.output for op in self.operations}
        return tuple(name for name, _ in self.tensors if name not in made)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the results that must be in memory at the end."""
        if self.named:
            return self.named
        taken = {name for op in self.operations for name in op.inputs}
        made = {op.output for op in self.operations}
        return tuple(n for n, _ in self.tensors if n in made and n not in taken)

    def __str__(self) -> str:
        return "; ".join(
            f"{op.name}: {self.shape(op.output)} = "
            f"{op.kind}({', '.join(str(self.shape(n)) for n in op.inputs)})"
            for op in self.operations
        )


class GraphBuilder:
    """Writes a graph in Python: `tensor` adds an input, `add` an operation of any kind.

    Every operation of the table, and every alias (`builder.relu`), is a method too. It takes the
    names of its inputs, and its attributes by name::

        hidden = builder.activation(sums, function="gelu")
        pooled = builder.pool(images, reduction="max", window=(2, 2), stride=(2, 2), name="pooled")

    Like `add` it returns the name of the result. `out` is the result's shape; it may be left out
    where it follows from the inputs, and the result then lies in the builder's memory.
    """

    def __init__(self, home: Home = "dram") -> None:
        self._home = home
        self._tensors: dict[str, Tensor] = {}
        self._operations: list[Operation] = []

    def tensor(self, name: str, shape: str | Shape | Tensor, home: Home | None = None) -> str:
        """Add a tensor that has a value at the start; return its name.

        A `Tensor` says its home, and where it lies there, itself.
        """
        if name in self._tensors:
            raise WorkloadError(f'tensor "{name}" is there twice')
        if isinstance(shape, Tensor):
            self._tensors[name] = shape
        else:
            parsed = Shape.parse(shape) if isinstance(shape, str) else shape
            self._tensors[name] = Tensor(parsed, home or self._home)
        return name

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        out: str | Shape | Tensor | None = None,
        *,
        name: str | None = None,
        **attributes: Any,
    ) -> str:
        """Add an operation of any kind; return the name of its result (default: kind + number).

        Raises:
            WorkloadError: an attribute is unknown or missing, the name is taken, or `out` is left
                out and does not follow from the inputs.

        """
        output = name or f"{kind}{len(self._operations)}"
        operation = named_operation(kind, inputs, output, attributes)
        self.tensor(output, self._default_out(operation) if out is None else out)
        self._operations.append(operation)
        return output

    def __getattr__(self, kind: str) -> Callable[..., str]:
        """Return the method that adds an operation of this kind."""
        if kind not in OPERATIONS.keys() | ALIASES.keys():
            raise AttributeError(f"GraphBuilder has no {kind!r}{perhaps(kind, OPERATIONS)}")

        def add(
            *inputs: str,
            out: str | Shape | Tensor | None = None,
            name: str | None = None,
            **attributes: Any,
        ) -> str:
            return self.add(kind, inputs, out, name=name, **attributes)

        return add

    def __dir__(self) -> list[str]:
        """Return the names of all methods, also of operations."""
        return sorted({*super().__dir__(), *OPERATIONS})

    def _default_out(self, op: Operation) -> Shape:
        """Return the shape of a result that was left out."""
        _check_names(op, op.inputs, self._tensors)
        with op.blamed():
            shapes = [self._tensors[name].shape for name in op.inputs]
            shape = default_shape(op.row, shapes, op.attributes)
            if shape is None:
                raise WorkloadError(f"needs out: a {op.kind} may give several shapes")
        return shape

    def matmul(
        self, lhs: str, rhs: str, out: str | Shape | Tensor, *, name: str | None = None
    ) -> str:
        """Add out [.., M, N] = lhs [.., M, K] times rhs [.., K, N]; leading sizes broadcast."""
        return self.add("matmul", (lhs, rhs), out, name=name)

    def transpose(
        self,
        source: str,
        out: str | Shape | Tensor,
        permutation: Sequence[int] | None = None,
        *,
        name: str | None = None,
    ) -> str:
        """Add a transpose; `permutation` is as for `numpy.transpose`, and a matrix needs none."""
        given = {} if permutation is None else {"permutation": tuple(permutation)}
        return self.add("transpose", (source,), out, name=name, **given)

    def graph(self, outputs: Sequence[str] = ()) -> Graph:
        """Return the graph, checked. outputs: its results (none: those that nothing takes)."""
        return make_graph(self._tensors, self._operations, outputs)


def named_operation(
    kind: str, inputs: Sequence[str], output: str, attributes: Mapping[str, Any]
) -> Operation:
    """Return an operation that has the name of its result, which a WorkloadError gives too."""
    bare = Operation(output, kind, tuple(inputs), output)
    with bare.blamed():
        own, given = operation_named(kind, attributes)
        return replace(bare, kind=own, attributes=make_attributes(own, OPERATIONS[own], given))


def make_graph(
    tensors: Mapping[str, Tensor], operations: Iterable[Operation], outputs: Sequence[str] = ()
) -> Graph:
    """Return the graph of these operations, put in an order in which they can be done.

    outputs: the results that must be in memory at the end (none: those that nothing takes).

    Raises:
        WorkloadError: an operation or tensor is unknown, shapes do not fit, a tensor is made
            twice or never used, or there is a cycle. The error names the operation.

    """
    given = tuple(operations)
    if not given:
        raise WorkloadError("a graph needs at least one operation")
    for op in given:
        _check_names(op, (*op.inputs, op.output), tensors)
    made: dict[str, Operation] = {}
    for op in given:
        if op.output in made:
            first = made[op.output].name
            raise WorkloadError(f'tensor "{op.output}" is made by "{first}" and by "{op.name}"')
        made[op.output] = op
    tensors, wide = in_words(tensors, given)
    given = tuple(_settled(op, tensors) for op in given)
    made = {op.output: op for op in given}
    for op in given:
        _check_shapes(op, tensors)
    _check_used(tensors, given)
    _check_outputs(outputs, made, {name for op in given for name in op.inputs})
    return Graph(tuple(tensors.items()), _in_order(given, made), tuple(outputs), wide)


def _check_outputs(outputs: Sequence[str], made: Collection[str], taken: Collection[str]) -> None:
    """Raise WorkloadError unless outputs are results, each once, and nothing is made in vain."""
    for name in outputs:
        if name not in made:
            raise WorkloadError(
                f'outputs: "{shortened(name)}" is the result of no operation (known: '
                f"{listed(made)}){perhaps(name, made)}"
            )
        if outputs.count(name) > 1:
            raise WorkloadError(f'outputs: "{shortened(name)}" is named twice')
    vain = [name for name in made if outputs and name not in taken and name not in outputs]
    if vain:
        raise WorkloadError(
            f'outputs: nothing takes "{shortened(vain[0])}", which is none of them; name it, or '
            f"leave its operation out"
        )


def _check_names(op: Operation, names: Sequence[str], tensors: Mapping[str, Tensor]) -> None:
    """Raise WorkloadError if a name is no tensor's, or the operation takes more or fewer inputs."""
    arity = len(op.row.operands)
    for name in names:
        if name not in tensors:
            raise WorkloadError(
                f'operation "{shortened(op.name)}": no tensor "{shortened(name)}" '
                f"(known: {listed(tensors)}){perhaps(name, tensors)}"
            )
    more = op.row.more_operands
    if len(op.inputs) < arity or (len(op.inputs) > arity and not more):
        raise WorkloadError(
            f'operation "{shortened(op.name)}": {op.kind} takes {"at least " * more}'
            f"{arity} tensor{'s' * (arity != 1)}, found {len(op.inputs)}"
        )


def part_of(graph: Graph, first: int, stop: int) -> Graph:
    """Return the operations from a number to before another one, as a graph of their own.

    What they take and do not make are its inputs, results of other operations among them.
    """
    count = len(graph.operations)
    if not 0 <= first < stop <= count:
        raise WorkloadError(
            f"needs first < stop, from 0 to {count}, the number of operations, found {first}:{stop}"
        )
    operations = graph.operations[first:stop]
    used = {name for op in operations for name in (*op.inputs, op.output)}
    tensors = {n: tensor for n, tensor in graph.tensors if n in used}
    made, taken = ({op.output for op in operations}, {n for op in operations for n in op.inputs})
    ends = tuple(n for n in graph.named if n in made)
    ends += tuple(n for n in made if graph.named and n not in taken and n not in ends)
    made_graph = make_graph(tensors, operations, ends)
    return replace(made_graph, wide=tuple(each for each in graph.wide if each[0] in used))


def _settled(op: Operation, tensors: Mapping[str, Tensor]) -> Operation:
    with op.blamed():
        return settled(op, [tensors[name].shape for name in op.inputs])


def _check_shapes(op: Operation, tensors: Mapping[str, Tensor]) -> None:
    shapes = [tensors[name].shape for name in op.inputs]
    out = tensors[op.output].shape
    with op.blamed():
        for shape in (*shapes, out):
            if 0 in shape.dims:
                raise WorkloadError(f"{shape} has no elements")
        op.row.check(shapes, out, op.attributes)


def _check_used(tensors: Mapping[str, Tensor], operations: Sequence[Operation]) -> None:
    used = {name for op in operations for name in (*op.inputs, op.output)}
    for name, tensor in tensors.items():
        if name not in used:
            raise WorkloadError(f'tensor "{name}" is used by no operation')
        if tensor.home not in HOMES:
            raise WorkloadError(f'tensor "{name}": home must be one of {", ".join(HOMES)}')
        if tensor.has_place:
            _check_place(name, tensor, operations)
        if tensor.home == "state_buffer" and not tensor.shape.layout.tiles:
            _check_padding(name, tensor.shape)


def _check_padding(name: str, shape: Shape) -> None:
    """Raise WorkloadError for padding on the chip that no tiles give a place."""
    if shape.layout.padded_dimensions not in (None, shape.dims):
        raise WorkloadError(
            f'tensor "{name}": {shape} in the state buffer has padded_dimensions, but no tiles, '
            f"which say where its padding lies there"
        )


def _check_place(name: str, tensor: Tensor, operations: Sequence[Operation]) -> None:
    """Raise WorkloadError for a place of a tensor that has none, or that is not in tiles."""
    needs = "only a tensor in the state buffer, in tiles, has a place there (partition, byte)"
    if tensor.home != "state_buffer" or not tensor.shape.layout.tiles:
        raise WorkloadError(f'tensor "{name}": {needs}, found {tensor}')
    made = any(op.output == name for op in operations)
    if made and any(name in op.inputs for op in operations):
        raise WorkloadError(
            f'tensor "{name}": only inputs and outputs have a place (partition, byte), '
            f"but it is made and taken by operations"
        )


def _in_order(
    operations: Sequence[Operation], made: Mapping[str, Operation]
) -> tuple[Operation, ...]:
    place = {op.name: n for n, op in enumerate(operations)}
    if len(place) < len(operations):
        raise WorkloadError("two operations have the same name")
    before = {op.name: [made[n].name for n in op.inputs if n in made] for op in operations}
    try:
        sorter = TopologicalSorter(before)
        sorter.prepare()
    except CycleError as error:
        raise WorkloadError(f"the graph has a cycle: {' -> '.join(error.args[1])}") from None
    order: list[Operation] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=place.__getitem__)
        order += [operations[place[name]] for name in ready]
        sorter.done(*ready)
    return tuple(order)
