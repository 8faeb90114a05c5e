"""Is a run as a waveform what was recorded? Read by pyvcd, and held against the records.

Every record says what a signal must be in each tick; no test merges spans as the export does.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random

import pytest
from vcd.reader import TokenKind, tokenize

from support.explained import random_run
from support.random_programs import RandomProgram, random_chip
from support.tiers import quick_first
from systolic.isa import MatMul
from systolic.machine import simulate
from systolic.run.execute import run
from systolic.run.observe import observed
from systolic.run.result import Result
from systolic.shipped import CONFIGS
from systolic.trace.exports import vcd
from systolic.trace.exports.observed import Observed

SECONDS = {"fs": Fraction(1, 10**15), "ps": Fraction(1, 10**12), "ns": Fraction(1, 10**9)}
Value = int | str


@dataclass
class Waveform:
    """A file as pyvcd reads it: signals by scope and name, with times in units of the file."""

    unit: Fraction = Fraction(0)
    end: int = 0
    times: list[int] = field(default_factory=list)
    changes: dict[str, list[tuple[int, Value]]] = field(default_factory=lambda: defaultdict(list))

    def value(self, signal: str, time: int) -> Value:
        found = self.changes[signal]
        return found[bisect_right(found, time, key=lambda change: change[0]) - 1][1]


def read(text: str) -> Waveform:
    found, scopes, names = Waveform(), list[str](), dict[str, str]()
    for token in tokenize(io.BytesIO(text.encode())):
        match token.kind:
            case TokenKind.TIMESCALE:
                scale = token.timescale
                found.unit = scale.magnitude * SECONDS[scale.unit.value]
            case TokenKind.SCOPE:
                scopes.append(token.scope.ident)
            case TokenKind.UPSCOPE:
                scopes.pop()
            case TokenKind.VAR:
                assert token.var.id_code not in names
                names[token.var.id_code] = ".".join([*scopes[1:], token.var.ref_str])
            case TokenKind.CHANGE_TIME:
                found.end = token.time_change
                found.times.append(found.end)
            case TokenKind.CHANGE_SCALAR | TokenKind.CHANGE_VECTOR | TokenKind.CHANGE_STRING:
                change = token.data
                found.changes[names[change.id_code]].append((found.end, change.value))
    assert not scopes
    assert len(set(names.values())) == len(names)
    assert found.changes.keys() == set(names.values()), "a signal without a first value"
    return found


def waveform_of(found: Observed) -> Waveform:
    return read("".join(vcd.vcd(found)))


def random_observed(seed: int) -> Observed:
    """Return a run in which ticks are nanoseconds, so that times are ticks."""
    made = random_run(seed)
    result = Result({"run": "random"}, {}, made.trace, made.chip, made.program)
    return replace(observed(result), ticks_mhz=1000)


SEEDS = quick_first(range(60), 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_units_signals_are_what_the_records_say(seed):
    found = random_observed(seed)
    wave, trace = waveform_of(found), found.trace
    for unit, labels in trace.labels.items():
        period = trace.periods[unit]
        times = [each for each in trace.times if each.unit == unit]
        stalls = [each for each in trace.stalls if each.unit == unit]
        for first, _, label in labels:
            told = wave.value(f"{unit}.state", first * period)
            assert told == label.replace(" ", "_"), (unit, first)
        assert len(wave.changes[f"{unit}.state"]) <= 1 + len(labels)
        for tick in range(trace.ticks):
            busy = any(each.start <= tick < each.done + period for each in times)
            assert wave.value(f"{unit}.busy", tick) == str(int(busy)), (unit, tick)
            refused = any(each.tick <= tick < each.tick + each.cycles * period for each in stalls)
            assert wave.value(f"{unit}.refused", tick) == str(int(refused)), (unit, tick)
            started = [each.instruction for each in times if each.start <= tick]
            counter = wave.value(f"{unit}.program_counter", tick)
            assert counter == (max(started) if started else "x"), (unit, tick)
            name = found.names[max(started)] if started else "none"
            assert wave.value(f"{unit}.instruction", tick) == name, (unit, tick)
            if trace.fetches:
                there = [
                    each.instruction
                    for each in trace.fetches
                    if each.unit == unit and each.arrival <= tick
                ]
                told = wave.value(f"{unit}.fetched", tick)
                assert told == (max(there) if there else "x"), (unit, tick)


@pytest.mark.parametrize("seed", SEEDS)
def test_semaphores_and_the_end(seed):
    found = random_observed(seed)
    wave, trace = waveform_of(found), found.trace
    for number, name in enumerate(found.semaphores):
        posts = [e.tick for e in trace.semaphores if (e.kind, e.semaphore) == ("post", number)]
        for tick in range(trace.ticks):
            assert wave.value(f"semaphores.{name}", tick) == sum(at <= tick for at in posts)
    assert wave.times == sorted(set(wave.times)), "times do not rise"
    assert wave.end >= trace.ticks


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_pes_are_those_of_the_grid(seed):
    """In column 0 of the grid, which is drawn from injections, not labels.

    Vectors that are streamed several times are drawn in their last pass only.
    """
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 3 == 0)
    parts = chip.model_dump()
    for pace in ("cycles_per_vector", "pass_through"):
        parts["pe_array"][pace] = dict.fromkeys(parts["pe_array"][pace], 1)
    parts["pe_array"] |= {"passes": {}, "warm_up_cycles": 0}
    chip = type(chip).model_validate(parts)
    program, images = RandomProgram(rng, chip).build(30)
    trace = simulate(chip, program, images, grid=True).trace
    shapes = {"pe_array": trace.grid.shape}
    wave = waveform_of(Observed("r", trace, 1000, [*"x" * 999], None, (), lambda: iter(()), shapes))
    period, ones = trace.periods["pe_array"], 0
    for cycle in range(trace.cycles()):
        vectors = trace.grid.vectors(cycle)[1][:, 0]
        told = [wave.value(f"pe_rows.row{row}", cycle * period) for row in range(len(vectors))]
        assert told == [str(int(vector >= 0)) for vector in vectors], cycle
        ones += told.count("1")
    assert ones or not any(isinstance(each, MatMul) for each in program.instructions)


def test_many_changes_of_rows_are_left_out_and_said(monkeypatch):
    found = random_observed(0)
    assert "pe_rows" in "".join(vcd.vcd(found))
    monkeypatch.setattr(vcd, "MOST_ROW_CHANGES", 3)
    text = "".join(vcd.vcd(found))
    assert "pe_rows" not in text
    assert "$comment no rows of PEs: more than 3 changes $end" in text
    read(text)


@pytest.mark.parametrize(
    ("ticks_mhz", "unit", "per_tick"),
    [
        (1000, "1 ns", 1), (500, "1 ns", 2), (2000, "100 ps", 5), (8000, "1 ps", 125),
        (1600, "1 ps", 625), (1250, "100 ps", 8), (6000, "1 fs", None), (28000, "1 fs", None),
    ],
)  # fmt: skip
def test_times_are_those_of_the_clock(ticks_mhz, unit, per_tick):
    """Whole numbers of the timescale where there is one; else the femtosecond before."""
    plain = random_observed(1)
    found = replace(plain, ticks_mhz=ticks_mhz)
    assert f"$timescale {unit} $end" in "".join(vcd.vcd(found))
    wave = waveform_of(found)
    for time, tick in zip(wave.times, waveform_of(plain).times, strict=True):
        late = Fraction(tick, ticks_mhz * 10**6) - time * wave.unit
        assert 0 <= late < (wave.unit if per_tick is None else Fraction(1, 10**15))
        assert per_tick is None or (late == 0 and time == tick * per_tick)


def test_names_are_words_and_distinct():
    result = run(CONFIGS / "runs" / "matmul_chain.toml", values=False)
    found = replace(
        observed(result),
        run="a $end b",
        semaphores=["a b", "a_b", "a b_2", "", "[3:0]", *"x" * (len(result.program.semaphores))],
    )
    assert found.operations is not None
    wave = waveform_of(found)
    names = {name.partition(".")[2] for name in wave.changes if name.startswith("semaphores.")}
    assert {"a_b", "a_b_2", "a_b_2_2", "_", "_3_0_", "x"} <= names
    assert {value for _, value in wave.changes["pe_array.operation"]} == {
        "none", *(each for each, times in zip(found.operations, _unit_of(result), strict=True)
                  if times == "pe_array"),
    }  # fmt: skip


def _unit_of(result: Result) -> list[str]:
    units = {each.instruction: each.unit for each in result.trace.times}
    return [units[index] for index in range(len(result.program.instructions))]


def test_figure_3_by_hand():
    """Loads in cycles 0 to 3, vectors in 4 to 7, row r is r cycles later; the copy from 14 on."""
    wave = waveform_of(observed(run(CONFIGS / "runs" / "transpose_fig3.toml", values=False)))
    states = [(0, "idle"), (0, "loading"), (4, "streaming"), (8, "draining"), (14, "idle")]
    assert wave.changes["pe_array.state"] == states
    for row in range(4):
        assert wave.changes[f"pe_rows.row{row}"] == [(0, "0"), (4 + row, "1"), (8 + row, "0")]
    assert wave.changes["activation.program_counter"] == [(0, "x"), (14, 2)]
    assert wave.end == 19
