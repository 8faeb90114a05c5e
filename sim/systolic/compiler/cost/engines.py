"""Which engine does a piece of work: the one place where the compiler chooses among engines.

The compiler asks for an instruction, never for an engine by its name. Of the engines that may
execute the instruction on its buffers, it takes the one that needs the least time; of equals the
first in the chip file. The engine that the user has chosen (`drain_engine`) is taken wherever it
may execute the instruction.

An engine takes an element of any type in the same time, or elements of some types faster. So what
is only copied within the state buffer goes as elements of the type that takes the engine the least
time: s8 that lie side by side as s32, for instance, four at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.compiler.ir.access_cuts import faults_left
from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.ir.nodes import EngineInstruction
from systolic.errors import CompileError, perhaps, shortened
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip, Engine
from systolic.isa import Access, Buffer, Copy, Memset, OnEngine
from systolic.isa.effects import (
    calculation,
    capability,
    elements_taken,
    reads,
    reads_per_lane,
    target_of,
)
from systolic.isa.engines import (
    Pace,
    able_engines,
    access_faults,
    functions_of,
    out_of_reach,
    pace_of,
    too_many_results,
)
from systolic.workload.options import Options

AnyOnEngine = TypeVar("AnyOnEngine", bound=OnEngine)

WORDS = ("s32", "bf16")
"""The types in which a copy may take bytes of another type: one of each size above a byte."""
WORD_BYTES = max(data_type(name).size_bytes for name in WORDS)
"""The bytes of the widest word."""


def on_cheapest(
    chip: Chip,
    options: Options,
    make: EngineInstruction,
    busy: dict[str, int] | None = None,
    wanted: str = "",
    **fields: Access,
) -> OnEngine:
    """Return the instruction that `make` makes of its operands, on the engine that suits it best.

    A mere copy may take its bytes in other words (`in_best_words`). busy: the ticks that each
    engine has been given so far; they count, and are updated. wanted: as of `cheapest_engine`.

    Raises CompileError if the chip has no engine for it.
    """
    made = make(engine="", **fields)
    name = cheapest_engine(chip, options, made, busy, wanted)
    found = in_best_words(chip, replace(made, engine=name))
    if busy is not None:
        busy[name] = busy.get(name, 0) + engine_cycles(chip, name, found) * chip.period(name)
    return found


def cheapest_engine(
    chip: Chip,
    options: Options,
    work: OnEngine,
    busy: Mapping[str, int] | None = None,
    wanted: str = "",
) -> str:
    """Return the engine for an instruction, whatever engine that names.

    busy: ticks of other work that each engine does before. wanted: the engine that is taken if it
    may execute the instruction and the user has chosen none ("": any).

    Raises CompileError if the chip has no engine for it.
    """
    able = engines_able(chip, work)
    if not able:
        raise CompileError(_no_engine_for(chip, work))
    if options.drain_engine in able:
        return options.drain_engine
    if wanted in able:
        return wanted
    before, forms = busy or {}, _in_words(chip, work)
    return min(
        able,
        key=lambda name: (
            before.get(name, 0)
            + min(engine_cycles(chip, name, form) for form in forms) * chip.period(name)
        ),
    )


def in_best_words(chip: Chip, work: AnyOnEngine) -> AnyOnEngine:
    """Return an instruction as its engine does it soonest: a mere copy, in words of some type.

    Of equals the type with the fewest reads is taken, then the given type.
    """
    forms = _in_words(chip, work)
    if len(forms) == 1:
        return work
    engine = chip.engine(work.engine)

    def cycles(form: OnEngine) -> tuple[int, int]:
        pace = pace_of(form, engine, chip)
        reads = pace.cycles_for(elements_taken(form))
        return _cycles_to_next(engine, pace, len(reads_per_lane(form)) + reads), reads

    return min(forms, key=cycles)


def _in_words(chip: Chip, work: AnyOnEngine) -> list[AnyOnEngine]:
    """Return an instruction, and the same copy of the same bytes in words of other types."""
    forms = [work]
    if not isinstance(work, Copy) or work.source.dtype != work.target.dtype:
        return forms
    size = work.source.element_bytes
    for dtype in WORDS:
        wide = data_type(dtype).size_bytes
        if wide == size or wide > chip.port_width_bytes:
            continue
        source, target = work.source.seen_as(dtype), work.target.seen_as(dtype)
        if source is None or target is None:
            continue
        form = replace(work, source=source, target=target)
        if not faults_left(form, chip):
            forms.append(form)
    return forms


def some_engine_does(chip: Chip, step: LaneStep, source: Buffer) -> bool:
    """Return whether an engine does a step with its first operand in that buffer.

    Its other operands, and its target, are in the state buffer.
    """
    return bool(engines_for(chip, step, source))


def engines_for(chip: Chip, step: LaneStep, source: Buffer) -> list[str]:
    """Return the engines that do a step with its first operand in that buffer.

    Its other operands, and its target, are in the state buffer.
    """
    return engines_able(chip, _near(step, source, 1))


def step_cycles(chip: Chip, step: LaneStep, columns: int) -> int:
    """Return the least cycles of the array in which an engine does a step on `columns` columns."""
    work = _near(step, Buffer.STATE, columns)
    ticks = (
        engine_cycles(chip, name, work) * chip.period(name) for name in engines_able(chip, work)
    )
    return min(ticks) // chip.period("pe_array")


def take_out_cycles(chip: Chip, step: LaneStep, columns: int) -> dict[str, int]:
    """Return the engines that take sums out by a step, and the array's cycles for `columns`.

    Its other operands, and its target, are in the state buffer.
    """
    work = _near(step, Buffer.RESULT, columns)
    ticks = {
        name: engine_cycles(chip, name, work) * chip.period(name)
        for name in engines_able(chip, work)
    }
    return {name: -(-each // chip.period("pe_array")) for name, each in ticks.items()}


def _near(step: LaneStep, source: Buffer, columns: int) -> OnEngine:
    """Return a step's instruction on `columns` columns; what it takes or gives per lane is one.

    What is copied to the target before the step has left the source's buffer by then.
    """
    one = Access(Buffer.STATE, "f32", 0, 1, 0, ((1, 1),))
    many = replace(one, pattern=((1, columns),))
    first = many if step.onto else replace(many, buffer=source)
    others = {name: one if step.per_lane(name) else many for name in step.others}
    results = dict.fromkeys(step.results, one)
    return step(**{"engine": "", "target": many, step.first: first, **others, **results})


def some_engine_fills(chip: Chip) -> bool:
    """Return whether an engine writes a value to the state buffer."""
    near = Access(Buffer.STATE, "f32", 0, 1, 0, ((1, 1),))
    return bool(engines_able(chip, Memset(engine="", target=near, value=0)))


def engine_cycles(chip: Chip, name: str, work: OnEngine) -> int:
    """Return an engine's cycles from the start of an instruction to the next start."""
    engine = chip.engine(name)
    pace = pace_of(work, engine, chip)
    steps = len(reads_per_lane(work)) + pace.cycles_for(elements_taken(work))
    return _cycles_to_next(engine, pace, steps)


def _cycles_to_next(engine: Engine, pace: Pace, steps: int) -> int:
    """Return the cycles from the start of an instruction of `steps` steps to the next start."""
    taken = pace.fixed_cycles + steps
    if engine.dispatch == "serial":
        return max(pace.interval_cycles, engine.dispatch_cycles + taken)
    return max(pace.interval_cycles, engine.dispatch_cycles, taken)


def drain_engine(chip: Chip, options: Options) -> str:
    """Return the engine that copies results out: chosen once, so that a bound can speak of it.

    Raises CompileError if the chip has none, or the user has chosen one that cannot.
    """
    return LAST_CHIP.of(_drain_engine, chip, options.drain_engine)


def _drain_engine(chip: Chip, chosen: str | None) -> str:
    copy = _drain(chip, "f32")
    if chosen is not None and chosen not in (able := engines_able(chip, copy)):
        raise CompileError(
            f"compile.drain_engine: needs one of {', '.join(able) or 'none'}, engines of "
            f"{chip.name} that copy from the result buffer to the state buffer, found "
            f"{shortened(chosen)}{perhaps(chosen, able)}"
        )
    return chosen or cheapest_engine(chip, Options(), copy)


def drain_cycles(chip: Chip, options: Options, dtype: str, vectors: int) -> int:
    """Return the cycles in which the results of `vectors` vectors are read out of a bank."""
    engine = chip.engine(drain_engine(chip, options))
    return pace_of(_drain(chip, dtype), engine, chip).cycles_for(vectors)


def drain_interval(chip: Chip, options: Options, dtype: str, words: int) -> int:
    """Return the cycles from the start of a copy of `words` results to the next start."""
    copy, pattern = _drain(chip, dtype), ((1, words),)
    source, target = (replace(access, pattern=pattern) for access in (copy.source, copy.target))
    part = replace(copy, source=source, target=target)
    return engine_cycles(chip, drain_engine(chip, options), part)


def _drain(chip: Chip, dtype: str) -> Copy:
    """Return a copy of the results of a whole tile."""
    lanes = min(chip.pe_array.cols, chip.state_buffer.partitions)
    pattern = ((1, chip.pe_array.rows),)
    sums = Access(Buffer.RESULT, data_type(dtype).accumulator, 0, lanes, 0, pattern)
    return Copy(engine="", source=sums, target=Access(Buffer.STATE, dtype, 0, lanes, 0, pattern))


def lane_copy_engines(chip: Chip, copy: Copy) -> list[str]:
    """Return the engines that may execute a copy."""
    return engines_able(chip, copy)


def engines_able(chip: Chip, work: OnEngine) -> list[str]:
    """Return the engines that do the instruction and reach all it touches, as the chip can.

    An instruction that names more than an access can is cut into parts (`ir.access_cuts`).
    """
    if faults_left(work, chip):
        return []
    return [
        name
        for name in able_engines(work, chip)
        if not any(out_of_reach(work, chip.engine(name)))
        and not too_many_results(work, chip.engine(name))
    ]


def _no_engine_for(chip: Chip, work: OnEngine) -> str:
    for name, fault in access_faults(work, chip):
        return f"{chip.name} cannot do {capability(work)}: {name}: {fault}"
    sources = " and ".join(sorted({str(access.buffer) for access in reads(work)}))
    target = target_of(work)
    word, limited = capability(work), any(e.functions for e in chip.lane_engines.values())
    what = f"{word} of {calculation(work)}" if limited and calculation(work) else word
    have = "; ".join(
        f"{name} does {_all_it_does(engine)}, reads {' and '.join(engine.reads) or 'nothing'}, "
        f"writes {' and '.join(engine.writes)}"
        for name, engine in chip.lane_engines.items()
    )
    way = f"from {sources} to {target.buffer}" if sources else f"to {target.buffer}"
    return f"no engine of {chip.name} does {what} {way} ({have})"


def _all_it_does(engine: Engine) -> str:
    """Return the instructions of an engine, with the functions of those it does not do in full."""
    return ", ".join(
        f"{word} (of {functions_of(engine, word)})" if engine.functions_with(word) else word
        for word in engine.does
    )
