"""Between a graph's tensors and a chip's memories: images before a run, results after it.

Also the verdict on the values, and the Python interface: `run_graph` compiles, simulates, and
returns values, records and how good the schedule is. Nothing is printed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.compiler import CompiledGraph, Options, compile_graph, k_tiles
from sim.compiler.array_work import identity_values
from sim.compiler.bounds import operation_bounds, spans
from sim.compiler.layers import physical
from sim.compiler.matrix import Axes
from sim.compiler.on_chip import Piece
from sim.hw.spec import Chip
from sim.isa import Access, Buffer
from sim.layout import Shape, pack, unpack
from sim.machine import Image, Memory, simulate
from sim.machine.simulate import EngineKind
from sim.trace.record import Trace
from sim.workload import (
    Graph,
    Rules,
    differing,
    exact_graph,
    max_abs_error,
    reference_graph,
    reference_transpose,
)

Array = npt.NDArray[Any]


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
    """Compile and simulate a graph.

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
    images = [] if inputs is None else graph_images(compiled, inputs)
    outcome = simulate(
        chip, compiled.program, images, engine=engine, kinds=kinds, values=inputs is not None
    )
    outputs = {} if inputs is None else graph_results(compiled, outcome.memory)
    return GraphRun(outputs, outcome.trace, compiled)


def graph_images(compiled: CompiledGraph, inputs: Mapping[str, Array]) -> list[Image]:
    """Return what lies in the memories at cycle 0: inputs, and stored identities."""
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
        if place.name in inputs:
            shape = graph.shape(place.name)
            found.append(Image(_dram(shape, place.base), pack(inputs[place.name], shape)[None]))
    found += [Image(a, identity_values(a)) for a in compiled.scheduled.identities]
    return found


def graph_results(compiled: CompiledGraph, memory: Memory) -> dict[str, Array]:
    """Return the outputs as they stand in the memories, in logical order."""
    graph = compiled.graph
    bases = {place.name: place.base for place in compiled.layers.dram}
    kept = {k.tensor: k.matrix for k in compiled.layers.kept}
    found = {}
    for name in graph.outputs:
        shape = graph.shape(name)
        if name in kept:
            pieces = [p for p in compiled.scheduled.kept if p.matrix == kept[name]]
            found[name] = _gather(pieces, shape, memory)
        else:
            found[name] = unpack(memory.read(_dram(shape, bases[name]))[0], shape)
    return found


def graph_verdict(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> dict[str, Any]:
    """Return the verdict on the values: against the reference, numpy's type, and float64."""
    expected = reference_graph(compiled.graph, _as_turned(compiled, chip, inputs), rules_of(chip))
    true = exact_graph(compiled.graph, inputs)
    strict = sum(differences(outputs[n], expected[n]) for n in outputs)
    turned = any(node.kind == "turn" for node in compiled.layers.nodes)
    wrong = sum(differences(outputs[n], expected[n], signed_zeros=not turned) for n in outputs)
    return {
        "checked": True,
        "equal": wrong == 0,
        "max_abs_error": max(max_abs_error(outputs[n], true[n]) for n in outputs),
        "differs_from_numpy": strict,
    }


def _as_turned(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the inputs as identity products leave them: a NaN or an infinity has spread."""
    found = dict(inputs)
    for node in compiled.layers.nodes:
        matrix = compiled.layers.matrix(node.inputs[0])
        name = matrix.tensor
        if node.kind != "turn" or name not in inputs or np.isfinite(inputs[name]).all():
            continue
        matrices = as_matrices(inputs[name], matrix.axes)
        last = matrices.ndim - 1
        swapped = (*range(last - 1), last, last - 1)
        bounds = k_tiles(chip, matrix.rows)
        turned = reference_transpose(matrices, swapped, row_blocks=bounds, row_axes=(last - 1,))
        found[name] = _as_tensor(turned.transpose(swapped), matrix.axes, inputs[name].shape)
    return found


def _as_tensor(matrices: Array, axes: Axes, dims: tuple[int, ...]) -> Array:
    """Return in logical order what `as_matrices` shows as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    moved = np.ascontiguousarray(matrices).reshape([dims[axis] for axis in order])
    return np.ascontiguousarray(moved.transpose(np.argsort(order)))


def operation_records(compiled: CompiledGraph, chip: Chip, trace: Trace) -> list[dict[str, Any]]:
    """Return, for each operation, its cycles from first start to last end, and its bound.

    Operations overlap and share loads, so an operation's cycles are not its share of the run's.
    """
    bounds = operation_bounds(compiled.graph, chip)
    times = [(t.instruction, t.start, t.done) for t in trace.times]
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


def differences(found: Array, expected: Array, *, signed_zeros: bool = True) -> int:
    """Return how many elements differ in any bit; -0.0 equals +0.0 unless `signed_zeros`.

    A product with the identity makes +0.0 of -0.0 (docs/timing_model.md, "Values").
    """
    found, expected = np.ascontiguousarray(found), np.ascontiguousarray(expected)
    if not signed_zeros:
        found, expected = found.copy(), expected.copy()
        found[found == 0] = 0
        expected[expected == 0] = 0
    return differing(found, expected)


def rules_of(chip: Chip) -> Rules:
    """Return what the arithmetic of a chip depends on."""
    return Rules(lambda K: k_tiles(chip, K), chip.pe_array.fused_multiply_add)


def as_matrices(array: Array, axes: Axes) -> Array:
    """Return a tensor seen as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    sizes = [math.prod(array.shape[axis] for axis in group) for group in axes]
    return array.transpose(order).reshape(sizes)


def _gather(pieces: Iterable[Piece], shape: Shape, memory: Memory) -> Array:
    axes = physical(shape)
    sizes = [math.prod(shape.dims[axis] for axis in group) for group in axes]
    matrices = np.zeros(sizes, shape.dtype)
    for piece in pieces:
        matrices[piece.slices] = memory.read(piece.access)
    return _as_tensor(matrices, axes, shape.dims)


def _dram(shape: Shape, base: int) -> Access:
    return Access(Buffer.DRAM, shape.element_type, 0, 1, base, ((1, shape.padded_elements()),))
