"""The stages in order: data, compile, simulate, compare, summarise. Nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.compiler import Compiled, CompiledGraph, Options, compile_graph, compile_transpose
from sim.compiler.bounds import run_bound
from sim.config import RunConfig
from sim.errors import SimulationError, WorkloadError
from sim.hw.datatypes import data_type
from sim.hw.spec import Chip
from sim.hw.timing import Bound
from sim.isa import Access, Buffer
from sim.isa.lint import require_clean
from sim.layout import Shape, pack, unpack
from sim.machine import Image, Memory, simulate
from sim.machine.simulate import EngineKind
from sim.report.summary import summarize
from sim.run_graph import graph_images, graph_results, graph_verdict, operation_records
from sim.trace.record import Trace
from sim.workload import (
    Graph,
    Transpose,
    differing,
    load_data,
    max_abs_error,
    numpy_transpose,
    reference_transpose,
)

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]
UNCHECKED = {"checked": False, "equal": None, "max_abs_error": None, "differs_from_numpy": None}


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run: summary.json's contents, the result tensor (None for times only), the trace,
    and the chip and the compilation it came from.
    """

    summary: dict[str, Any]
    result: Array | None
    trace: Trace
    chip: Chip
    compiled: Compiled | CompiledGraph


def execute(
    config: RunConfig,
    *,
    engine: EngineKind | None = None,
    values: bool = True,
    kinds: Iterable[str] = (),
    grid: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Run one configuration from its data to its summary.

    Args:
        config: a loaded run file.
        engine: "event" or "register" instead of what the run file says.
        values: False: times only; nothing is read, computed or compared.
        kinds, grid: what to keep for traces and pictures (see `sim.machine.simulate`).
        progress: called with instructions done and instructions in all.

    Raises:
        SystolicError: one line saying what is wrong and where.

    """
    operation, chip = config.operation, config.chip
    engine = engine or config.engine
    if graph := graph_of(config):
        return execute_graph(config, graph, engine, values, kinds, grid, progress)
    assert isinstance(operation, Transpose)
    compiled = compile_operation(config)
    require_clean(compiled.program, chip, initial_accesses(compiled))
    data = _load(config) if values else None
    outcome = simulate(
        chip,
        compiled.program,
        [] if data is None else images(compiled, data, operation.shape),
        engine=engine,
        kinds=kinds,
        grid=grid,
        values=values,
        progress=progress,
    )
    result = None if data is None else read_result(compiled, outcome.memory, operation)
    verdict = compare(compiled, operation, data, result, via=config.compile.via)
    summary = summarize(
        run=config.name,
        chip=chip,
        engine=engine,
        trace=outcome.trace,
        instructions=compiled.program.count(),
        blocks=compiled.blocks.count,
        sub_blocks=compiled.sub_blocks,
        layouts={
            "source": str(operation.shape),
            "result": str(operation.out),
            "blocks": str(compiled.blocks.tiled),
        },
        values=verdict,
        bound={"cycles": compiled.bound.cycles, "why": compiled.bound.why},
    )
    _refuse_better_than(compiled.bound, config.name, outcome.trace.cycles())
    return RunResult(summary, result, outcome.trace, chip, compiled)


def execute_graph(
    config: RunConfig,
    graph: Graph,
    engine: EngineKind,
    values: bool,
    kinds: Iterable[str],
    grid: bool,
    progress: Progress | None,
) -> RunResult:
    """Run a graph from its data to its summary; arguments as for `execute`."""
    chip = config.chip
    compiled = compile_graph(config.name, graph, chip, options_of(config))
    inputs = load_inputs(config) if values else {}
    start = graph_images(compiled, inputs) if values else []
    require_clean(compiled.program, chip, [i.access for i in start] if values else None)
    outcome = simulate(
        chip, compiled.program, start,
        engine=engine, kinds=kinds, grid=grid, values=values, progress=progress,
    )  # fmt: skip
    outputs = graph_results(compiled, outcome.memory) if values else {}
    verdict = graph_verdict(compiled, chip, inputs, outputs) if values else UNCHECKED
    bound = run_bound(graph, chip)
    summary = summarize(
        run=config.name,
        chip=chip,
        engine=engine,
        trace=outcome.trace,
        instructions=compiled.program.count(),
        blocks=len({t for task in compiled.tiled.tasks for t in (*task.reads, *task.writes)}),
        sub_blocks=compiled.program.count().get("MatMul", 0),
        values=verdict,
        bound={"cycles": bound.cycles, "why": bound.why},
    )
    summary["operations"] = operation_records(compiled, chip, outcome.trace)
    _refuse_better_than(bound, config.name, outcome.trace.cycles())
    return RunResult(summary, next(iter(outputs.values()), None), outcome.trace, chip, compiled)


def _refuse_better_than(bound: Bound, name: str, cycles: int) -> None:
    if cycles < bound.cycles:
        raise SimulationError(
            f"{name}: took {cycles} cycles, less than its lower bound "
            f"{bound.cycles} ({bound.why}): one of them is wrong"
        )


def options_of(config: RunConfig) -> Options:
    """Return what [compile] chooses."""
    return Options(**config.compile.model_dump())


def compile_any(config: RunConfig) -> Compiled | CompiledGraph:
    """Return the compiled program of a run file, whatever its work is."""
    if graph := graph_of(config):
        return compile_graph(config.name, graph, config.chip, options_of(config))
    return compile_operation(config)


def graph_of(config: RunConfig) -> Graph | None:
    """Return a run's work as a graph; None for a lone transpose, which has its own lowering.

    That one keeps to the blocks of equation 1, drains as [compile] says, and may go by way of DRAM.
    """
    return config.operation if isinstance(config.operation, Graph) else None


def load_inputs(config: RunConfig) -> dict[str, Array]:
    """Return the elements of all inputs of a run, by name."""
    if isinstance(config.operation, Transpose):
        return {"source": config.load_data()}
    return config.load_inputs()


def compile_operation(config: RunConfig) -> Compiled:
    """Return the compiled program of a run file's operation."""
    operation, options = config.operation, options_of(config)
    assert isinstance(operation, Transpose)
    return compile_transpose(
        config.name,
        operation.shape,
        operation.permutation,
        config.chip,
        options,
        operation.home,
        operation.out,
    )


def initial_accesses(compiled: Compiled) -> list[Access]:
    """Return which regions of the memories hold something at cycle 0."""
    pieces = [piece.access for piece in compiled.source]
    return [*pieces, compiled.identity] if compiled.identity else pieces


def initial_images(config: RunConfig, compiled: Compiled | CompiledGraph) -> list[Image]:
    """Return what lies in the memories of a run at cycle 0."""
    if isinstance(compiled, CompiledGraph):
        return graph_images(compiled, load_inputs(config))
    assert isinstance(config.operation, Transpose)
    return images(compiled, _load(config), config.operation.shape)


def _load(config: RunConfig) -> Array:
    assert isinstance(config.operation, Transpose)
    try:
        return load_data(config.data, config.operation.shape)
    except WorkloadError as error:
        raise WorkloadError(f"{config.path}: [workload] data: {error}") from None


def images(compiled: Compiled, data: Array, shape: Shape) -> list[Image]:
    """Return what lies in the memories at cycle 0: the tensor's pieces, a stored identity."""
    matrices = compiled.matrices.matrices(data)
    found = [
        Image(piece.access, matrices[piece.slices] if piece.slices else pack(data, shape)[None])
        for piece in compiled.source
    ]
    if compiled.identity:
        dtype = data_type(compiled.identity.dtype).numpy
        found.append(Image(compiled.identity, np.eye(compiled.identity.partitions, dtype=dtype)))
    return found


def read_result(compiled: Compiled, memory: Memory, operation: Transpose) -> Array:
    """Return the result tensor as it stands in the memories."""
    dims = operation.out.dims
    if compiled.result[0].access.buffer is Buffer.DRAM:
        return unpack(memory.view(compiled.result[0].access)[0], operation.out)
    shape = compiled.matrices.shape.dims
    matrices = np.zeros((*shape[:-2], shape[-1], shape[-2]), operation.out.dtype)
    for piece in compiled.result:
        matrices[piece.slices] = memory.read(piece.access)
    return compiled.matrices.result(matrices, dims)


def compare(
    compiled: Compiled, operation: Transpose, data: Array | None, result: Array | None, via: str
) -> dict[str, Any]:
    """Return the verdict on the values: against the contract's reference, numpy, and float64."""
    if data is None or result is None:
        return UNCHECKED
    exact = numpy_transpose(data, operation.permutation)
    unlike_numpy = differing(result, exact)
    error = max_abs_error(result, exact) if unlike_numpy else 0.0
    equal = unlike_numpy == 0
    if via == "pe":
        del exact  # a large tensor's copies are the most memory a run takes
        equal = differing(result, _contract(compiled, data, operation)) == 0
    return {
        "checked": True,
        "equal": equal,
        "max_abs_error": error,
        "differs_from_numpy": unlike_numpy,
    }


def _contract(compiled: Compiled, data: Array, operation: Transpose) -> Array:
    """Return what the array must give, matrix by matrix, in the contract's accumulation order."""
    matrices = compiled.matrices.matrices(data)
    last = matrices.ndim - 1
    swapped = (*range(last - 1), last, last - 1)
    found = reference_transpose(
        matrices, swapped, row_blocks=_row_boundaries(compiled), row_axes=(last - 1,)
    )
    return compiled.matrices.result(found, operation.out.dims)


def _row_boundaries(compiled: Compiled) -> list[int]:
    """Return where the rows of the matrices are cut: rows multiplied together share a block."""
    heights = [
        sub.extents[0]
        for block in compiled.blocks
        if not any(block.batch) and block.column == 0
        for sub in compiled.blocks.sub_blocks(block)
        if sub.column == 0
    ]
    return [0, *accumulate(heights)]
