"""Is the cycle right? The same programs by the RTL and both Python engines, register by register.

The array's queue goes to all three. Compared are every start, weight read, injection and write of
the result buffer, and of every PE in every cycle the moving operand, the active weight, the shadow
weight, the sum and the valid bit: RTL = register engine = what the event engine's history draws.
The rest of the chip (engines, DMA, semaphores, ports) exists in Python only: both engines must
agree on all of it, and what it does to the array (a port refused, a wait satisfied) reaches the RTL
as facts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from rtl_build import Tool
from rtl_harness import NO_STRAPS, RtlConfig, Straps
from rtl_machine import (
    Case,
    array_indices,
    array_instructions,
    history_planes,
    quiet_chip,
    random_case,
    refusals,
    rtl_program,
    run_event,
    run_rtl,
    run_stepped,
    same_planes,
    same_records,
)
from rtl_programs import ARRAYS, QUICK_BUILDS, SMALL, random_config, with_tools

from support.blocks import psum, state
from support.compare_traces import assert_same
from support.runs import compile_transpose
from support.tiers import quick_first
from systolic.isa import LoadWeights, MatMul, Program
from systolic.machine import Image
from systolic.machine.event.pe_array.unit import PEArrayUnit
from systolic.machine.register.pe_array.distances import Stages
from systolic.machine.register.pe_array.tile import TileRegisters, Verdict
from systolic.machine.register.pe_array.unit import ArrayUnit
from systolic.machine.register.pe_array.weights import Weights
from systolic.run.tensors import graph_images

pytestmark = pytest.mark.rtl

QUICK = 80
CHOSEN = ("one PE", "float", "single", "cells, hops, top", "slow vectors")


def compare(case: Case, tool: str, straps: Straps = NO_STRAPS) -> int:
    """Hold all three against one another; return the cycles compared."""
    event, stepped = run_event(case), run_stepped(case)
    assert_same(event, stepped.outcome)
    rtl = run_rtl(case, stepped.outcome.trace, tool, straps)
    same_records(case, stepped.outcome.trace, rtl)
    same_records(case, event.trace, rtl)
    same_planes(stepped.planes, rtl, "register engine's")
    same_planes(history_planes(event.trace.grid, rtl.cycles), rtl, "event engine's")
    return rtl.cycles


def compare_seed(config: RtlConfig, seed: int, tool: str, length: int = 25) -> int:
    """Compare a random program on that array; say which one it was if it fails."""
    try:
        return compare(random_case(config, seed, length=length), tool)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {config}: {error}") from error


def small_array(seed: int) -> RtlConfig:
    """Return an array of at most 6 x 6, every number random."""
    return random_config(np.random.default_rng([seed, 21]))


# ---- random programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("batch", quick_first(range(8), 2))
def test_random_arrays(batch: int, need: Callable[[str], str]) -> None:
    need("icarus")
    for seed in range(batch, QUICK, 8):
        compare_seed(small_array(seed), seed, "icarus")


@pytest.mark.parametrize(("name", "tool"), with_tools(CHOSEN, QUICK_BUILDS), indirect=["tool"])
def test_chosen_arrays_under_both_tools(name: str, tool: Tool) -> None:
    for seed in range(2):
        compare_seed(ARRAYS[name], seed, tool)


def test_the_random_programs_try_what_they_should() -> None:
    """Refusals of both kinds, waits that hold, loads that ask last and win or lose."""
    seen = dict.fromkeys(("moving", "weights", "late", "won", "lost", "accumulate", "reuse"), 0)
    for seed in range(QUICK):
        case = random_case(small_array(seed), seed)
        trace = run_event(case).trace
        queue = rtl_program(case, trace).instructions
        moving, weights = refusals(case, trace)
        seen["moving"] += bool(moving.any())
        seen["weights"] += bool(weights.any())
        starts = {t.instruction: t.start // trace.periods["pe_array"] for t in trace.times}
        at = [starts[index] for index in array_indices(case.program)]
        seen["late"] += sum(i.not_before == t > 0 for i, t in zip(queue, at, strict=True))
        gates = {p.injections[0] for p in trace.grid.matmuls}
        asked_last = [p for p in trace.grid.loads if starts[p.instruction] in gates]
        lost = sum(bool(weights[starts[p.instruction]]) for p in asked_last)
        seen["won"] += len(asked_last) - lost
        seen["lost"] += lost
        kinds = array_instructions(case.program)
        seen["accumulate"] += sum(isinstance(i, MatMul) and i.accumulate for i in kinds)
        seen["reuse"] += sum(
            isinstance(a, MatMul) and isinstance(b, MatMul) for a, b in pairwise(kinds)
        )
    assert min(seen.values()) >= QUICK / 4, seen


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_many_random_arrays(batch: int, need: Callable[[str], str]) -> None:
    need("icarus")
    for seed in range(QUICK + batch, 400, 8):
        compare_seed(small_array(seed), seed, "icarus", length=40)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARRAYS)
def test_every_chosen_array_under_both_tools(name: str, tool: Tool) -> None:
    for seed in range(2, 5):
        compare_seed(ARRAYS[name], seed, tool)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        RtlConfig(rows=24, columns=20, fast=3, weight_path="top", weight_buffer="single", **SMALL),
        RtlConfig(rows=32, columns=32, number_format="float32", hop=(2, 1), cell=(4, 2), **SMALL),
        RtlConfig(rows=64, columns=64, **SMALL),
        RtlConfig(rows=64, columns=64, number_format="float32", entry_cycles=2, **SMALL),
        RtlConfig(rows=128, columns=64, number_format="float32", **SMALL),
    ],
    ids=lambda c: f"{c.rows}x{c.columns}-{c.number_format}",
)
def test_large_arrays(config: RtlConfig, need: Callable[[str], str]) -> None:
    need("verilator")
    for seed in range(2 if config.rows <= 64 else 1):
        compare_seed(config, seed, "verilator", length=16)


# ---- programs that mean something ----------------------------------------------------------------


def test_a_compiled_transpose(tool: Tool) -> None:
    """The compiler's own program for a matrix of many blocks, partial ones at the edges."""
    config = ARRAYS["float"]
    chip = quiet_chip(config)
    compiled = compile_transpose("f32[13,7]{1,0}", (1, 0), chip)
    values = np.arange(91, dtype=np.float32).reshape(13, 7)
    loaded = graph_images(compiled, {"source": values})
    compare(Case(config=config, chip=chip, program=compiled.program, images=loaded), tool)


# ---- the comparison sees what it must ------------------------------------------------------------


def pairs(config: RtlConfig) -> Case:
    """Loads and multiplies back to back, one of them reusing its weights, nothing in the way."""
    K, N, M = config.rows, config.columns, 5
    dtype, total = ("f32", "f32") if config.number_format == "float32" else ("s8", "s32")
    size, bank = (4 if dtype == "f32" else 1), 8192
    queue: list[LoadWeights | MatMul] = []
    loaded: list[Image] = []
    rng = np.random.default_rng(1)
    for i in range(3):
        weights = state(0, K, i * N * size, N, dtype)
        moving = state(0, K, bank + i * M * size, M, dtype)
        for access in (weights, moving):
            values = rng.integers(1, 100, (K, access.elements))
            loaded.append(Image(access, values.astype(config.operand_dtype)))
        multiplies = [
            MatMul(moving=moving, result=psum(0, N, (2 * i + j) * M, M, total)) for j in range(2)
        ]
        queue += [LoadWeights(weights=weights), *multiplies[: 2 if i == 1 else 1]]
    program = Program("pairs", tuple(queue))
    return Case(config=config, chip=quiet_chip(config), program=program, images=loaded)


BUFFERS = {
    name: RtlConfig(rows=4, columns=4, weight_buffer=name, cycles_per_vector=v, **SMALL)
    for name, v in (("double", 1), ("single", 1), ("serial", 2))
}


@pytest.mark.parametrize("buffer", BUFFERS)
def test_programs_without_a_gap_agree(buffer: str, tool: Tool) -> None:
    compare(pairs(BUFFERS[buffer]), tool)


@pytest.mark.parametrize("strap", ["early_multiply", "early_load", "late_load"])
@pytest.mark.parametrize("buffer", ["double", "single"])
def test_a_bound_bent_in_the_rtl_is_seen(buffer: str, strap: str, tool: Tool) -> None:
    case = pairs(BUFFERS[buffer])
    stepped = run_stepped(case)
    rtl = run_rtl(case, stepped.outcome.trace, tool, Straps(**{strap: True}))
    with pytest.raises(AssertionError, match="starts"):
        same_records(case, stepped.outcome.trace, rtl)
    with pytest.raises(AssertionError, match=r"register engine's \w+\["):
        same_planes(stepped.planes, rtl, "register engine's")


Patch = pytest.MonkeyPatch


def load_late(patch: Patch) -> None:
    """A load never starts in the cycle of the injection that frees it, always in the next."""
    honest = TileRegisters.load_verdict

    def verdict(tile: TileRegisters, cycle: int) -> Verdict:
        found = honest(tile, cycle)
        return Verdict.NO if found is Verdict.LAST else found

    patch.setattr(TileRegisters, "load_verdict", verdict)


def load_early(patch: Patch) -> None:
    """A load into a single buffer overtakes the last vector."""
    honest = TileRegisters.load_verdict

    def verdict(tile: TileRegisters, cycle: int) -> Verdict:
        gate = tile.gate
        return Verdict.YES if gate and gate.sent + 2 >= gate.vectors else honest(tile, cycle)

    patch.setattr(TileRegisters, "load_verdict", verdict)


def multiply_early(patch: Patch) -> None:
    """A multiply starts in the cycle of the last read of its weights."""
    honest = ArrayUnit.begin

    def begin(unit: ArrayUnit, tick: int) -> None:
        (tile,) = unit._all
        load = tile.load
        is_last = load is not None and load.sent + 1 == load.reads
        if not is_last or not isinstance(unit.head, MatMul):
            return honest(unit, tick)
        tile.load = None
        honest(unit, tick)
        tile.load = load
        return None

    patch.setattr(ArrayUnit, "begin", begin)


def next_multiply_late(patch: Patch) -> None:
    """A multiply leaves a gap behind the one before."""
    honest = ArrayUnit._end_injection

    def end(unit: ArrayUnit, *arguments: object) -> None:
        honest(unit, *arguments)  # type: ignore[arg-type]
        (tile,) = unit._all
        tile._next_multiply += 1

    patch.setattr(ArrayUnit, "_end_injection", end)


def exchange_late(patch: Patch) -> None:
    """Weights are exchanged behind the first vector instead of with it."""
    honest = Weights.begin_exchange
    patch.setattr(Weights, "begin_exchange", lambda weights, cycle: honest(weights, cycle + 1))


def entered_late(patch: Patch) -> None:
    """The array has one register more before its first PE."""
    honest = Stages.of

    def of(chip: object, tile: object) -> Stages:
        stages = honest(chip, tile)  # type: ignore[arg-type]
        return replace(stages, entry=stages.entry + 1)

    patch.setattr(Stages, "of", of)


def drained_late(patch: Patch) -> None:
    """A serial array waits one cycle too long until it is empty."""
    honest = Stages.drained.func
    patch.setattr(Stages, "drained", property(lambda stages: honest(stages) + 1))


REGISTER_MUTATIONS = [
    ("double", load_late),
    ("single", load_late),
    ("single", load_early),
    ("double", multiply_early),
    ("double", next_multiply_late),
    ("double", exchange_late),
    ("double", entered_late),
    ("serial", drained_late),
]


@pytest.mark.parametrize(("buffer", "mutate"), REGISTER_MUTATIONS)
def test_a_bound_bent_in_the_register_engine_is_seen(
    buffer: str, mutate: Callable[[Patch], None], tool: Tool, monkeypatch: Patch
) -> None:
    case = pairs(BUFFERS[buffer])
    event = run_event(case)
    mutate(monkeypatch)
    bent = run_stepped(case)
    rtl = run_rtl(case, bent.outcome.trace, tool)
    with pytest.raises(AssertionError, match="register engine's"):
        same_planes(bent.planes, rtl, "register engine's")
    if mutate is not exchange_late:  # which changes values only
        with pytest.raises(AssertionError, match=r"starts|writes"):
            same_records(case, bent.outcome.trace, rtl)
    with pytest.raises(AssertionError):
        assert_same(event, bent.outcome)
    same_records(case, event.trace, run_rtl(case, event.trace, tool))


def event_load_late(patch: Patch) -> None:
    """A load starts a cycle later after a multiply than it may."""
    honest = PEArrayUnit._load_after_multiply
    patch.setattr(
        PEArrayUnit, "_load_after_multiply", lambda unit, t, m: honest(unit, t, m) + unit.period
    )
    patch.setattr(PEArrayUnit, "release", lambda unit, instruction: ())


def event_result_late(patch: Patch) -> None:
    """The result buffer takes results a cycle late."""
    honest = PEArrayUnit.__init__

    def init(unit: PEArrayUnit, *arguments: object) -> None:
        honest(unit, *arguments)  # type: ignore[arg-type]
        unit._plans.depth += 1

    patch.setattr(PEArrayUnit, "__init__", init)


@pytest.mark.parametrize("mutate", [event_load_late, event_result_late])
def test_a_bound_bent_in_the_event_engine_is_seen(
    mutate: Callable[[Patch], None], tool: Tool, monkeypatch: Patch
) -> None:
    case = pairs(BUFFERS["double"])
    stepped = run_stepped(case)
    mutate(monkeypatch)
    bent = run_event(case)
    rtl = run_rtl(case, bent.trace, tool)
    with pytest.raises(AssertionError, match=r"starts|writes"):
        same_records(case, bent.trace, rtl)
    with pytest.raises(AssertionError):
        assert_same(bent, stepped.outcome)
    same_records(case, stepped.outcome.trace, rtl)
