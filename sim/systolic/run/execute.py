"""`run`: from work to a result, for run files, graphs, programs and Python callers alike.

The stages of a graph are here, in order: compile, lint, simulate, compare, summarise. The stages of
a program, which needs no compiler, are in `systolic.run.program`. Nothing is printed or written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from systolic.arrays import Array
from systolic.bounds import product_multiply_adds, run_bound
from systolic.compiler import CompiledGraph, compile_graph
from systolic.config import CompileTable, RunConfig, load_run
from systolic.config.chip_file import find_chip, load_chip, load_one_core
from systolic.engine_kind import EngineKind
from systolic.errors import SimulationError, SystolicError, WorkloadError
from systolic.examples import named_work
from systolic.hw.formulas.timing import Bound
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import Program, require_clean
from systolic.machine import Image
from systolic.progress import Progress, at
from systolic.report.summary.summarize import summarize
from systolic.run.accuracy import Judge, judge_of
from systolic.run.judge import judge_on
from systolic.run.metrics import CompiledWork, metrics
from systolic.run.models import model_inputs, model_run
from systolic.run.operations import (
    array_totals,
    operation_records,
    total_traffic,
    traffic_by_layer,
)
from systolic.run.provenance import (
    Entries,
    graph_provenance,
    input_records,
    output_records,
    provenance,
)
from systolic.run.result import Result
from systolic.run.settings import Settings
from systolic.run.tensors import (
    checked_inputs,
    graph_images,
    graph_results,
    initial_accesses,
)
from systolic.run.throughput import images_of_graph, images_of_run, images_per_second
from systolic.run.utilisation import (
    array_multiplies,
    array_reach,
    multiplies,
    multiplying,
    utilisation,
)
from systolic.run.verdict import graph_verdict
from systolic.trace.records import Trace
from systolic.workload import DataSource, Graph
from systolic.workload.importers.models import is_model
from systolic.workload.options import Options
from systolic.workload.words import as_given

if TYPE_CHECKING:
    from systolic.isa import AnyModule, ChipModule, Module

Work: TypeAlias = "Graph | RunConfig | Module | ChipModule | Program | str | Path"
ChipLike: TypeAlias = Chip | MultiCoreChip | str | Path
Arrays: TypeAlias = Mapping[str, Array]
UNCHECKED = {"checked": False, "equal": None, "max_abs_error": None, "differs_from_numpy": None}


def run(
    work: Work,
    chip: ChipLike | None = None,
    inputs: Arrays | Sequence[Array] | None = None,
    *,
    options: Options | None = None,
    engine: EngineKind | None = None,
    values: bool = True,
    kinds: Collection[str] = (),
    grid: bool = False,
    progress: Progress | None = None,
    check: bool = True,
    name: str | None = None,
) -> Result:
    """Run work on a chip.

    Args:
        work: a graph (`systolic.workload.GraphBuilder` makes one), a run file or a program file by
            its path, or what `systolic.config.load_run` and `systolic.isa.load_module` made of
            such a file. A path that ends in .toml is a run file's, the path of a model (HLO
            text) a model's, any other path a program's. If a run file has sweeps, the run that they
            vary is done.
        chip: a chip, the name of a shipped one, or the path of a chip file. A run file names its
            own chip, and a program may; a chip given here takes its place.
        inputs: an array for each input, by name, in logical order and in the type of the tensor;
            of a model also a list in the order of the file.
            None: a run file's own data are taken; a graph or a program is run for times only.
        options: compile settings, in place of a run file's [compile]. A program has no use for
            them.
        engine: "event" or "register" (default: the run file's, or "event").
        values: False: times only; no data are read, computed or compared.
        kinds: kinds of words to record in the trace (`systolic.trace.words.KINDS`).
        grid: keep the operands that show the grid of any cycle (`result.trace.grid.at(cycle)`).
        progress: called now and then with instructions done and instructions in all.
        check: False: run also a program that `lint` refuses, for races or for words that nothing
            has written. Illegal instructions are refused all the same. A race then ends as this
            engine happens to end it, and the summary bears the mark "checker": "skipped".
        name: name of the run (default: the run file's, the program's, or "graph").

    Raises:
        SystolicError: one line that says what is wrong and where.

    A wrong result raises nothing: `result.summary["values"]["equal"]` is False then.

    """
    how = Settings(engine or "event", values, kinds, grid, progress, check)
    work, inputs = _opened(work, chip, inputs)
    if isinstance(work, Path):
        return _run_program_file(work, chip, inputs, how, name)
    if isinstance(work, RunConfig):
        how = replace(how, engine=engine or work.engine)
        return _run_stages(_of_config(_with(work, chip, options, name), chip, inputs, how), how)
    if isinstance(work, Graph):
        how = replace(how, values=values and inputs is not None)
        hardware = _of_one_core(_needed(chip, "a graph"))
        made = _of_graph(name or "graph", work, hardware, inputs, options=options, how=how)
        return _run_stages(made, how)
    # A graph does without file forms.
    from systolic.isa.formats.chip_module import ChipModule
    from systolic.isa.formats.module import Module, as_module

    if isinstance(work, Module | ChipModule | Program):
        module = _named(work if isinstance(work, ChipModule) else as_module(work), name)
        return _run_program(module, _needed(chip or module.chip, "the program"), inputs, how)
    raise SystolicError(f"run: needs a graph, a run file or a program, found {type(work).__name__}")


# -- the work ------------------------------------------------------------------------------------


def _opened(
    work: Work, chip: ChipLike | None, inputs: Arrays | Sequence[Array] | None
) -> tuple[Graph | RunConfig | Module | ChipModule | Program | Path, Arrays | None]:
    """Return the work, read from its file unless that holds a program, and the inputs by name."""
    if isinstance(work, str | Path) and is_model(Path(work)):
        named = None if chip is None or isinstance(chip, Chip) else str(chip)
        work = model_run(Path(work), named, inputs) if chip else load_run(work)
        inputs = None if inputs is None else model_inputs(work, inputs)
    if inputs is not None and not isinstance(inputs, Mapping):
        raise SystolicError("run: needs inputs by name; only a model takes them as a list")
    if not isinstance(work, str | Path):
        return work, inputs
    path = named_work(Path(work))
    return load_run(path) if path.suffix.lower() == ".toml" else path, inputs


@dataclass(frozen=True, slots=True)
class _PreparedRun:
    """A graph, ready to be compiled and run, and the summary's entries on its origin.

    load: gives the inputs; it is called once the program has passed its checks. sources: where the
    elements of an input come from, if a run file says it. int64: outputs that are given so. lone:
    the graph is a run file's single transpose. judge: gives the accuracy of a network, if a run
    file has labels. images: that the graph takes together, if it is a network of images.
    """

    name: str
    graph: Graph
    chip: Chip
    options: Options
    load: Callable[[], Mapping[str, Array]]
    origin: Entries
    sources: Mapping[str, DataSource]
    lone: bool = False
    judge: Judge | None = None
    images: int | None = None
    int64: tuple[str, ...] = ()


def _of_config(
    config: RunConfig, chip: ChipLike | None, inputs: Arrays | None, how: Settings
) -> _PreparedRun:
    """Return the work of a run file; a Python caller's chip and inputs replace its own."""
    origin = provenance(config, how.engine, values=how.values)
    if isinstance(chip, Chip):  # a chip from Python, which no file describes
        origin = {**origin, "files": {"run": origin["files"]["run"]}}
    return _PreparedRun(
        name=config.name,
        graph=config.graph,
        chip=config.chip,
        options=config.options,
        load=lambda: (
            load_inputs(config) if inputs is None else checked_inputs(config.graph, inputs)
        ),
        origin=origin,
        sources=config.sources if inputs is None else {},
        lone=config.is_lone_transpose,
        judge=judge_of(config) if how.values else None,
        images=images_of_run(config),
        int64=config.workload.int64,
    )


def _of_graph(
    name: str,
    graph: Graph,
    chip: Chip,
    inputs: Arrays | None,
    *,
    options: Options | None,
    how: Settings,
) -> _PreparedRun:
    """Return the work of a graph that a Python caller made."""
    arrays = checked_inputs(graph, inputs or {}) if how.values else {}
    options = options or Options()
    return _PreparedRun(
        name=name,
        graph=graph,
        chip=chip,
        options=options,
        load=lambda: arrays,
        origin=graph_provenance(chip, asdict(options), how.engine, values=how.values),
        sources={},
        images=images_of_graph(graph),
    )


def _with(
    config: RunConfig, chip: ChipLike | None, options: Options | None, name: str | None
) -> RunConfig:
    """Return a run with the chip, options and name of a Python caller in place of its file's."""
    if isinstance(chip, Chip | MultiCoreChip):
        config = replace(config, chip=_of_one_core(chip))
    elif chip is not None:
        path = _chip_path(chip)
        config = replace(config, chip=load_one_core(path), chip_path=path)
    if options is not None:
        config = replace(config, compile=CompileTable(**asdict(options)))
    return config if name is None else replace(config, name=name)


def _run_program_file(
    path: Path, chip: ChipLike | None, inputs: Arrays | None, how: Settings, name: str | None
) -> Result:
    from systolic.run import program as programs  # here: a graph does without the file forms

    module, sha256 = programs.read_program(path)
    hardware: Chip | MultiCoreChip
    if isinstance(chip, Chip | MultiCoreChip):
        file, hardware = None, chip
    else:
        file = _chip_path(chip) if chip else programs.chip_beside(module, path)
        hardware = load_chip(file)
    result = _run_program(_named(module, name), hardware, inputs, how)
    return programs.with_files(result, programs.ProgramFiles(path, sha256, file))


def _run_program(
    module: Module | ChipModule, chip: Chip | MultiCoreChip, inputs: Arrays | None, how: Settings
) -> Result:
    """Run a program of one core, or of several."""
    from systolic.run.chip_program import any_program_result

    return any_program_result(module, chip, inputs, how)


def _named(module: AnyModule, name: str | None) -> AnyModule:
    from systolic.isa.formats.module import Module

    if name is None:
        return module
    if isinstance(module, Module):
        return replace(module, program=replace(module.program, name=name))
    return replace(module, name=name)


def _of_one_core(chip: Chip | MultiCoreChip) -> Chip:
    """Return a chip of one core; SystolicError if it has several, for which graphs are not cut."""
    if isinstance(chip, MultiCoreChip):
        raise SystolicError(
            f"run: {chip.name} is a chip of several cores ([[cores]]), which runs programs; a "
            "graph needs a chip of one core"
        )
    return chip


def _needed(chip: ChipLike | None, of_what: str) -> Chip | MultiCoreChip:
    """Return the chip; SystolicError if none is given."""
    if not chip:
        raise SystolicError(f"run: {of_what} names no chip; needed one", setting="chip")
    return chip if isinstance(chip, Chip | MultiCoreChip) else load_chip(_chip_path(chip))


def _chip_path(chip: str | Path) -> Path:
    return find_chip(str(chip), Path(), "run")


# -- the stages of a graph ------------------------------------------------------------------------


def run_compiled(config: RunConfig, compiled: CompiledGraph, *, values: bool = True) -> Result:
    """Run a run file's work by a program that was compiled before, such as for other latencies.

    The chip is `config`'s; the program is checked on it as every program is.
    """
    how = Settings(config.engine, values)
    return _run_stages(_of_config(config, None, None, how), how, compiled)


def _run_stages(work: _PreparedRun, how: Settings, compiled: CompiledGraph | None = None) -> Result:
    """Compile, lint, simulate, compare and summarise."""
    chip = work.chip
    at(how.progress, "compiling")
    compiled = compiled or compile_graph(
        work.name, work.graph, chip, work.options, judge=judge_on(chip)
    )
    at(how.progress, "checking")
    if how.check:
        require_clean(compiled.program, chip, initial_accesses(compiled))
    inputs = work.load() if how.values else {}
    images = graph_images(compiled, inputs) if how.values else []
    at(how.progress, "simulating")
    outcome = how.simulate(chip, compiled.program, images)
    at(how.progress, "comparing")
    outputs = graph_results(compiled, outcome.memory) if how.values else {}
    verdict = graph_verdict(compiled, chip, inputs, outputs) if how.values else UNCHECKED
    _refuse_lost(work.graph, verdict)
    summary = _summary(work, compiled, how, outcome.trace, verdict) | work.origin
    if not how.check:
        summary |= {"checker": "skipped", "options": {**summary["options"], "check": False}}
    summary["inputs"] = input_records(work.graph, inputs, work.sources)
    summary["outputs"] = output_records(work.graph, outputs)
    if work.images:
        summary["images_per_second"] = images_per_second(work.images, summary["time_ns"])
    if work.judge:
        summary["accuracy"] = work.judge(outputs)
    wide = dict.fromkeys(work.int64, "s64") | dict(work.graph.wide)
    given = {n: as_given(wide[n], a) if n in wide else a for n, a in outputs.items()}
    return Result(summary, given, outcome.trace, chip, compiled.program, compiled)


def _refuse_lost(graph: Graph, verdict: Entries) -> None:
    """Raise WorkloadError if numbers of an s64, which is an s32 on the chip, did not fit."""
    wide = {name for name, kind in graph.wide if kind == "s64"}
    for loss in verdict.get("out_of_range", ()):
        if loss["tensor"] in wide:
            raise WorkloadError(
                f'tensor "{loss["tensor"]}": s64 is s32 on the chip, and {loss["elements"]} of its '
                f"{loss['of']} numbers do not fit"
            )


def _summary(
    work: _PreparedRun, compiled: CompiledGraph, how: Settings, trace: Trace, verdict: Entries
) -> Entries:
    """Return the summary without its origin, inputs and outputs."""
    bound = run_bound(compiled.graph, work.chip)
    _refuse_better_than(bound, work.name, trace)
    blocks = compiled.blocks
    summary = summarize(
        run=work.name,
        chip=work.chip,
        engine=how.engine,
        trace=trace,
        instructions=compiled.program.count(),
        blocks=blocks.count if blocks else compiled.tiles,
        sub_blocks=multiplies(compiled.program.count()) or (blocks.count if blocks else 0),
        array_multiplies=array_multiplies(compiled.program, work.chip),
        layouts=_layouts(compiled) if work.lone else None,
        values=verdict,
        bound={"cycles": bound.cycles, "why": bound.why},
    )
    summary["on_chip"] = _on_chip(compiled)
    useful = sum(product_multiply_adds(compiled.graph).values())
    summary["utilisation"] = utilisation(useful, trace.cycles(), work.chip)
    summary["multiplying"] = multiplying(compiled.program, work.chip, trace.cycles())
    if reach := array_reach(compiled.program, work.chip):
        summary["array_reach"] = reach
    traffic = traffic_by_layer(compiled.program, compiled.synchronised.layers)
    summary |= total_traffic(traffic)
    if work.chip.metrics:
        known = CompiledWork(
            useful,
            compiled.scheduled.turned,
            compiled.scheduled.spilled_bytes,
        )
        summary["metrics"] = metrics(work.chip, compiled.program, trace, known)
    if not work.lone:
        summary["operations"] = operation_records(compiled, work.chip, trace, traffic)
        summary |= array_totals(compiled, work.chip, trace)
    return summary


def _on_chip(compiled: CompiledGraph) -> dict[str, Entries]:
    """Return where each tensor lies that has one place in the state buffer."""
    return {
        name: {
            "layout": str(placed.shape),
            "partition": placed.base_partition,
            "byte": placed.base_byte,
        }
        for name, placed in compiled.placements().items()
    }


def _layouts(compiled: CompiledGraph) -> dict[str, str]:
    """Return the layouts of a lone transpose."""
    (operation,) = compiled.graph.operations
    (source,) = operation.inputs
    found = {
        "source": str(compiled.graph.shape(source)),
        "result": str(compiled.graph.shape(operation.output)),
    }
    return {**found, "blocks": str(compiled.blocks.tiled)} if compiled.blocks else found


def _refuse_better_than(bound: Bound, name: str, trace: Trace) -> None:
    if trace.ticks < bound.ticks:
        raise SimulationError(
            f"{name}: took {trace.cycles()} cycles ({trace.ticks} ticks), less than its lower "
            f"bound {bound.cycles} ({bound.ticks} ticks, {bound.why}): one of them is wrong"
        )


# -- parts of the run of a run file, for tools that are built on runs -----------------------------


def compile_run(config: RunConfig) -> CompiledGraph:
    """Return the compiled program of a run file."""
    judge = judge_on(config.chip)
    return compile_graph(config.name, config.graph, config.chip, config.options, judge=judge)


def load_inputs(config: RunConfig) -> dict[str, Array]:
    """Return the elements of all inputs of a run, by name."""
    return config.load_inputs()


def initial_images(config: RunConfig, result: Result) -> list[Image]:
    """Return what lay in the memories at cycle 0 of the run of a run file."""
    assert result.compiled is not None
    return graph_images(result.compiled, load_inputs(config))
