"""Between a graph's tensors and a chip's memories: images before a run, results after it.

Also the verdict on the values, and the Python interface: `run_graph` compiles, simulates, and
returns values, records and how good the schedule is. Nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.compiler import CompiledGraph, Options, compile_graph
from systolic.compiler.bounds.run import operation_bounds, spans
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.place.tiles import PlacedTile
from systolic.compiler.schedule.products import identity_values
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, require_clean
from systolic.layout import Shape, pack, unpack
from systolic.machine import Image, Memory, simulate
from systolic.machine.simulate import EngineKind
from systolic.run.verdict import as_matrices, as_tensor, differences, graph_verdict, rules_of
from systolic.trace.records import Trace
from systolic.workload import Graph

__all__ = [
    "GraphRun", "differences", "graph_images", "graph_results", "graph_verdict",
    "initial_accesses", "operation_records", "rules_of", "run_graph",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class GraphRun:
    """A finished run: outputs by name (empty for times only), trace, compilation."""

    outputs: dict[str, Array]
    trace: Trace
    compiled: CompiledGraph


def run_graph(
    graph: Graph,
    chip: Chip,
    inputs: Mapping[str, Array] | None = None,
    *,
    options: Options | None = None,
    name: str = "graph",
    engine: EngineKind = "event",
    kinds: Iterable[str] = (),
) -> GraphRun:
    """Compile, check and simulate a graph.

    Args:
        graph: what to compute.
        chip: on what.
        inputs: arrays in logical order, by name, in the types of the tensors; None: times only.
        options: compile settings.
        name: name of the program.
        engine: "event" or "register".
        kinds: word kinds to record.

    Raises:
        SystolicError: one line saying what is wrong and where.

    """
    compiled = compile_graph(name, graph, chip, options)
    require_clean(compiled.program, chip, initial_accesses(compiled))
    images = [] if inputs is None else graph_images(compiled, inputs)
    outcome = simulate(
        chip, compiled.program, images, engine=engine, kinds=kinds, values=inputs is not None
    )
    outputs = {} if inputs is None else graph_results(compiled, outcome.memory)
    return GraphRun(outputs, outcome.trace, compiled)


def graph_images(compiled: CompiledGraph, inputs: Mapping[str, Array]) -> list[Image]:
    """Return what lies in the memories at cycle 0: inputs, stored identities, padding values.

    The program stores the elements of an output only, so the padding value of its dimensions is
    in DRAM from the start.
    """
    graph = compiled.graph
    matrices = {m.name: m for m in compiled.layers.matrices}
    seen: dict[str, Array] = {}
    found = []
    for piece in compiled.scheduled.given:
        matrix = matrices[piece.matrix]
        if piece.matrix not in seen:
            seen[piece.matrix] = as_matrices(inputs[matrix.tensor], matrix.axes)
        found.append(Image(piece.access, seen[piece.matrix][piece.slices]))
    for place in compiled.layers.dram:
        # An input that lives on the chip may have a place here too: the program brings it there.
        if place.name in inputs and graph.tensor(place.name).home == "dram":
            shape = graph.shape(place.name)
            found.append(Image(_dram(shape, place.base), pack(inputs[place.name], shape)[None]))
        elif place.name in graph.outputs and holds_padding(graph.shape(place.name)):
            shape = graph.shape(place.name)
            nothing = np.zeros(shape.dims, shape.dtype)
            found.append(Image(_dram(shape, place.base), pack(nothing, shape)[None]))
    found += [Image(a, identity_values(a)) for a in compiled.scheduled.identities]
    return found


def holds_padding(shape: Shape) -> bool:
    """Return whether memory must hold a padding value beside the elements, which no copy stores."""
    layout = shape.layout
    return layout.padded_dimensions not in (None, shape.dims) and layout.padding_value != 0


def initial_accesses(compiled: CompiledGraph) -> list[Access]:
    """Return which regions of the memories hold something at cycle 0."""
    graph = compiled.graph
    found = [piece.access for piece in compiled.scheduled.given]
    found += [
        _dram(graph.shape(place.name), place.base)
        for place in compiled.layers.dram
        if place.name in graph.inputs and graph.tensor(place.name).home == "dram"
    ]
    return [*found, *compiled.scheduled.identities]


def graph_results(compiled: CompiledGraph, memory: Memory) -> dict[str, Array]:
    """Return the outputs as they stand in the memories, in logical order."""
    graph = compiled.graph
    bases = {place.name: place.base for place in compiled.layers.dram}
    kept = {k.tensor: k.matrix for k in compiled.layers.kept}
    found = {}
    for name in graph.outputs:
        shape = graph.shape(name)
        if name in kept:
            matrix = compiled.layers.matrix(kept[name])
            pieces = [p for p in compiled.scheduled.kept if p.matrix == matrix.name]
            axes = compiled.layers.shown(name)
            found[name] = _gather(pieces, axes, matrix.dims, shape.dims, memory)
        else:
            found[name] = unpack(memory.view(_dram(shape, bases[name]))[0], shape)
    return found


def operation_records(compiled: CompiledGraph, chip: Chip, trace: Trace) -> list[dict[str, Any]]:
    """Return, for each operation, its array cycles from first start to last end, and its bound.

    Operations overlap and share loads, so an operation's cycles are not its share of the run's.
    One whose work is done by the instructions of others has 0.
    """
    bounds = operation_bounds(compiled.graph, chip, compiled.options)
    times = [(t.instruction, t.start, t.done + trace.periods[t.unit]) for t in trace.times]
    taken = spans(compiled.synchronised.layers, times, [each.name for each in bounds])
    period = trace.periods["pe_array"]
    return [
        {
            "name": each.name,
            "op": each.kind,
            "cycles": -(-taken.get(each.name, 0) // period),
            "bound": {"cycles": each.bound.cycles, "why": each.bound.why},
        }
        for each in bounds
    ]


def _gather(
    pieces: Iterable[PlacedTile],
    axes: Axes,
    sizes: Sequence[int],
    dims: tuple[int, ...],
    memory: Memory,
) -> Array:
    """Return in logical order a tensor that lies in pieces, [batch..., rows, columns] = `axes`."""
    found = [(piece.slices, memory.read(piece.access)) for piece in pieces]
    matrices = np.zeros(sizes, found[0][1].dtype)
    for slices, values in found:
        matrices[slices] = values
    return as_tensor(matrices, axes, dims)


def _dram(shape: Shape, base: int) -> Access:
    return Access(Buffer.DRAM, shape.element_type, 0, 1, base, ((1, shape.padded_elements()),))
