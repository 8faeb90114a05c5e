"""A graph that the chip can do only in part: the rest is done on the host, in numpy.

The graph is cut in front of and behind each operation that the chip refuses. The parts between run
on the chip one after another, each from DRAM to DRAM; the operations of the host cost no cycle of
the chip, and the bytes that they take and make are counted. Only operations whose meaning is in the
table are done so: of a foreign call nothing but its name is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from systolic.arrays import Array
from systolic.compiler import compile_graph
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.progress import Progress, at
from systolic.run.execute import run
from systolic.run.result import Result
from systolic.workload import Graph, Operation, Rules, make_graph
from systolic.workload.graph import part_of
from systolic.workload.options import Options


@dataclass(frozen=True, slots=True)
class HostStep:
    """An operation that is done on the host: why the chip does not, and the bytes in and out."""

    operation: str
    kind: str
    why: str
    bytes_moved: int


@dataclass(slots=True)
class PartialResult:
    """The runs of the parts on the chip, the steps of the host, and all results.

    cycles: of the parts, added up; the host has none.
    """

    parts: list[Result] = field(default_factory=list)
    host: list[HostStep] = field(default_factory=list)
    outputs: dict[str, Array] = field(default_factory=dict)

    @property
    def cycles(self) -> int:
        """Return the cycles of all parts."""
        return sum(part.cycles for part in self.parts)


def refused_operations(
    graph: Graph, chip: Chip, options: Options | None = None, progress: Progress | None = None
) -> dict[str, str]:
    """Return why the chip cannot do each operation that it cannot do, by the operation's name."""
    at(progress, "trying each operation")
    known: dict[object, str | None] = {}
    found: dict[str, str] = {}
    for number, op in enumerate(graph.operations):
        if progress is not None:
            progress(number, len(graph.operations))
        shapes = tuple(str(graph.shape(name)) for name in (*op.inputs, op.output))
        key = (op.kind, shapes, op.attributes)
        if key not in known:
            known[key] = _refusal(part_of(graph, number, number + 1), chip, options)
        if (why := known[key]) is not None:
            found[op.name] = why
    return found


def _refusal(graph: Graph, chip: Chip, options: Options | None) -> str | None:
    try:
        compile_graph("part", graph, chip, options)
    except CompileError as error:
        return str(error)
    return None


def run_partial(
    graph: Graph,
    chip: Chip,
    inputs: Mapping[str, Array],
    options: Options | None = None,
    *,
    values: bool = True,
    progress: Progress | None = None,
) -> PartialResult:
    """Run what the chip can do on the chip, and the rest on the host.

    Args:
        graph: what is to be done. Tensors between the parts are at home where the graph says.
        chip: the chip.
        inputs: an array for each input of the graph.
        options: compile settings of each part.
        values: False: times only; nothing is computed on the host either.
        progress: hears how far it is.

    """
    refused = refused_operations(graph, chip, options, progress)
    result, known = PartialResult(), dict(inputs)
    for first, stop in _parts(graph, refused):
        (op, *_) = graph.operations[first:stop]
        if op.name in refused:
            result.host.append(_on_host(graph, op, refused[op.name], known, values=values))
            continue
        part = _part(graph, first, stop)
        given = {name: known[name] for name in part.inputs} if values else None
        made = run(
            part, chip, given, options=options, values=values, name=op.name, progress=progress
        )
        result.parts.append(made)
        known |= made.outputs
    result.outputs = {name: known[name] for name in graph.outputs if name in known}
    return result


def _parts(graph: Graph, refused: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """Yield runs of operations, each done in one place."""
    first = 0
    for number, op in enumerate(graph.operations):
        if op.name in refused:
            if first < number:
                yield first, number
            yield number, number + 1
            first = number + 1
    if first < len(graph.operations):
        yield first, len(graph.operations)


def _part(graph: Graph, first: int, stop: int) -> Graph:
    """Return operations as a graph whose results are those that something behind them takes."""
    own, behind = graph.operations[first:stop], graph.operations[stop:]
    wanted = {*graph.outputs, *(name for op in behind for name in op.inputs)}
    used = {name for op in own for name in (*op.inputs, op.output)}
    tensors = {name: tensor for name, tensor in graph.tensors if name in used}
    return make_graph(tensors, own, [op.output for op in own if op.output in wanted])


def _on_host(
    graph: Graph, op: Operation, why: str, known: dict[str, Array], *, values: bool
) -> HostStep:
    shapes = [graph.shape(name) for name in (*op.inputs, op.output)]
    moved = sum(shape.num_elements() * shape.dtype.itemsize for shape in shapes)
    if values:
        rules = Rules(lambda length: (0, length))
        arrays = [known[name] for name in op.inputs]
        known[op.output] = op.row.reference(arrays, shapes[-1], op.attributes, rules)
    return HostStep(op.name, op.kind, why, moved)
