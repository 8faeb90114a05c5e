"""The stages in order: data, compile, simulate, compare, summarise. Nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from systolic.arrays import Array
from systolic.compiler import CompiledGraph, compile_graph
from systolic.compiler.bounds.run import run_bound
from systolic.config import RunConfig
from systolic.errors import SimulationError
from systolic.hw.formulas.timing import Bound
from systolic.hw.spec import Chip
from systolic.isa.lint.lint import require_clean
from systolic.machine import Image, simulate
from systolic.machine.simulate import EngineKind
from systolic.report.summary.summarize import summarize
from systolic.run.provenance import input_records, output_records, provenance
from systolic.run.tensors import (
    graph_images,
    graph_results,
    graph_verdict,
    initial_accesses,
    operation_records,
)
from systolic.trace.records import Trace

Progress = Callable[[int, int], None]
UNCHECKED = {"checked": False, "equal": None, "max_abs_error": None, "differs_from_numpy": None}


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run: summary.json's contents, outputs by name (none for times only), the trace,
    and the chip and the compilation it came from.
    """

    summary: dict[str, Any]
    outputs: dict[str, Array]
    trace: Trace
    chip: Chip
    compiled: CompiledGraph

    @property
    def result(self) -> Array | None:
        """Return the first output: of a lone operation the only one; None for times only."""
        return next(iter(self.outputs.values()), None)


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
        kinds, grid: what to keep for traces and pictures (see `systolic.machine.simulate`).
        progress: called with instructions done and instructions in all.

    Raises:
        SystolicError: one line saying what is wrong and where.

    """
    chip, engine = config.chip, engine or config.engine
    compiled = compile_run(config)
    require_clean(compiled.program, chip, initial_accesses(compiled))
    inputs = load_inputs(config) if values else {}
    outcome = simulate(
        chip,
        compiled.program,
        graph_images(compiled, inputs) if values else [],
        engine=engine,
        kinds=kinds,
        grid=grid,
        values=values,
        progress=progress,
    )
    outputs = graph_results(compiled, outcome.memory) if values else {}
    verdict = graph_verdict(compiled, chip, inputs, outputs) if values else UNCHECKED
    summary = _summary(config, compiled, engine, outcome.trace, verdict)
    summary |= provenance(config, engine, values=values)
    summary["inputs"] = input_records(config, compiled.graph, inputs)
    summary["outputs"] = output_records(compiled.graph, outputs)
    return RunResult(summary, outputs, outcome.trace, chip, compiled)


def _summary(
    config: RunConfig,
    compiled: CompiledGraph,
    engine: EngineKind,
    trace: Trace,
    verdict: dict[str, Any],
) -> dict[str, Any]:
    bound = run_bound(compiled.graph, config.chip, compiled.options)
    _refuse_better_than(bound, config.name, trace)
    blocks = compiled.blocks
    summary = summarize(
        run=config.name,
        chip=config.chip,
        engine=engine,
        trace=trace,
        instructions=compiled.program.count(),
        blocks=blocks.count if blocks else compiled.tiles,
        sub_blocks=compiled.program.count().get("MatMul", blocks.count if blocks else 0),
        layouts=_layouts(config, compiled),
        values=verdict,
        bound={"cycles": bound.cycles, "why": bound.why},
    )
    if not config.is_lone_transpose:
        summary["operations"] = operation_records(compiled, config.chip, trace)
    return summary


def _layouts(config: RunConfig, compiled: CompiledGraph) -> dict[str, str] | None:
    if not config.is_lone_transpose:
        return None
    found = {name: str(tensor.shape) for name, tensor in config.graph.tensors}
    return {**found, "blocks": str(compiled.blocks.tiled)} if compiled.blocks else found


def _refuse_better_than(bound: Bound, name: str, trace: Trace) -> None:
    if trace.ticks < bound.ticks:
        raise SimulationError(
            f"{name}: took {trace.cycles()} cycles ({trace.ticks} ticks), less than its lower "
            f"bound {bound.cycles} ({bound.ticks} ticks, {bound.why}): one of them is wrong"
        )


def compile_run(config: RunConfig) -> CompiledGraph:
    """Return the compiled program of a run file."""
    return compile_graph(config.name, config.graph, config.chip, config.options)


def load_inputs(config: RunConfig) -> dict[str, Array]:
    """Return the elements of all inputs of a run, by name."""
    return config.load_inputs()


def initial_images(config: RunConfig, compiled: CompiledGraph) -> list[Image]:
    """Return what lies in the memories of a run at cycle 0."""
    return graph_images(compiled, load_inputs(config))
