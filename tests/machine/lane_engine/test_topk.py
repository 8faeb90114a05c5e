"""Is the value right? The k largest of groups of partitions, and where they are, against numpy.

The order of the elements, and the cost 4 n + K, are those of nki.isa.topk (SDK 2.32); that equal
values come in the order of their numbers, and all of them in descending order, is chosen.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import able_chip
from support.compare_traces import assert_same
from systolic.config import load_chip
from systolic.errors import ProgramError
from systolic.isa import (
    Module,
    Program,
    TopK,
    check_program,
    decode,
    encode,
    format_instruction,
    format_text,
    lint,
    parse_text,
)
from systolic.machine import Image, simulate
from systolic.shipped import CHIPS

ENGINES = pytest.mark.parametrize("engine", ["event", "register"])
BANK = 8192
BF16 = ml_dtypes.bfloat16


def top(count: int, k: int, *, group: int = 4, lanes: int = 8, engine: str = "pooling") -> TopK:
    made = -(-k // group)
    return TopK(
        engine=engine, source=state(0, lanes, 0, -(-count // group), "bf16"),
        target=state(0, lanes, 2 * BANK, made, "bf16"),
        indices=state(0, lanes, 3 * BANK, made, "s32"), count=count, k=k, group=group,
    )  # fmt: skip


def values(made: TopK, seed: int, *, distinct: int = 6) -> np.ndarray:
    """Return few distinct numbers, so that many are equal, a NaN and infinities among them."""
    rng = np.random.default_rng(seed)
    numbers = np.concatenate([rng.normal(size=distinct), [np.nan, np.inf, -np.inf, 0.0, -0.0]])
    shape = made.source.partitions, made.source.elements
    found: np.ndarray = rng.choice(numbers, shape).astype(BF16)
    return found


def expected(made: TopK, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values (bits) and indices by Python's stable sort, group by group."""
    lanes, group = made.source.partitions, made.group
    found = np.full((lanes, made.target.elements), -np.inf, BF16)
    at = np.full((lanes, made.target.elements), -1, np.int32)
    for first in range(0, lanes, group):
        flat = [source[first + j % group, j // group] for j in range(made.count)]
        order = sorted(
            range(made.count), key=lambda j: -np.inf if np.isnan(flat[j]) else -float(flat[j])
        )
        nans = [j for j in range(made.count) if np.isnan(flat[j])]
        order = [*nans, *(j for j in order if j not in nans)]
        for place, j in enumerate(order[: made.k]):
            found[first + place % group, place // group] = flat[j]
            at[first + place % group, place // group] = j
    return found.view(np.uint16), at


@pytest.mark.parametrize(
    ("made", "keys"),
    [
        (top(40, 8), {}),
        (top(30, 30), {"elements_per_cycle": 3}),
        (top(9, 1), {"latency_cycles": 3}),
        (top(13, 7, group=8), {}),
        (top(8, 3, group=1), {"elements_per_cycle": 2}),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_values_and_numbers_on_both_engines(made: TopK, keys: Any, seed: int) -> None:
    source = values(made, seed)
    program, images = Program("p", (made,)), [Image(made.source, source)]
    chip = able_chip(8, 8, pooling=keys)
    found = [
        simulate(chip, program, images, engine=engine, kinds=["read", "write"])  # type: ignore[arg-type]
        for engine in ("event", "register")
    ]
    assert_same(*found)
    largest, at = expected(made, source)
    memory = found[0].memory
    assert np.array_equal(memory.read(made.indices), at)
    assert np.array_equal(memory.read(made.target).view(np.uint16), largest)


@ENGINES
@pytest.mark.parametrize("chip", ["neuroncore_v3", "neuroncore_v4"])
@pytest.mark.parametrize(("count", "k"), [(64, 16), (128, 48), (42, 8)])
def test_the_published_cost(engine: Any, chip: str, count: int, k: int) -> None:
    """4 n + K of whole rows of 16, one instruction behind the other; alone with its latency."""
    on = load_chip(CHIPS / f"{chip}.toml")
    one = top(count, k, group=16, lanes=32, engine="gpsimd")
    times = simulate(on, Program("two", (one, one)), engine=engine, values=False).trace.times
    period, spec = on.period("gpsimd"), on.engine("gpsimd")
    n, rows = -(-count // 16) * 16, -(-k // 16)
    assert [(b.start - a.start) // period for a, b in pairwise(times)] == [4 * n + 16 * rows]
    # the last read, and then a cycle for each row of values and of numbers
    behind = 4 * n + 16 * rows - 1 + spec.latency_cycles + 2 * rows - 1
    assert times[0].done // period == behind


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"group": 3}, "group: needed groups of partitions that begin at a multiple of their size "
                       "and fill 0 to 7, found 3"),
        ({"count": 7}, "count: needed 8 to 65535 elements of a group, found 7"),
        ({"k": 0}, "k: needed 1 to 40 results of 40, found 0"),
        ({"k": 41}, "k: needed 1 to 40 results of 40, found 41"),
        ({"count": 41}, "source: needed 8 x 11 elements of bf16, found 8 x 10 of bf16"),
        ({"source": state(0, 8, 0, 10)},
         "source: needed 8 x 10 elements of bf16, found 8 x 10 of f32"),
        ({"target": state(0, 8, 2 * BANK, 3, "bf16")},
         "target: needed 8 x 2 elements of bf16, found 8 x 3 of bf16"),
        ({"indices": state(0, 8, 3 * BANK, 2)},
         "indices: needed 8 x 2 elements of s32, found 8 x 2 of f32"),
        ({"indices": psum(0, 8, 0, 2, "s32")},
         "indices: must lie in the target's buffer, state_buffer, found result_buffer"),
    ],
)  # fmt: skip
def test_what_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ProgramError) as refused:
        check_program(Program("p", (replace(top(40, 8), **change),)), able_chip(8, 8))
    assert str(refused.value) == f"p: instruction 0 (TopK): {text}"


def test_results_over_the_source_are_no_race_and_over_one_another_are() -> None:
    chip, made = able_chip(8, 8), top(40, 8)
    for change, codes in (
        ({"target": state(0, 8, 0, 2, "bf16")}, []),
        ({"indices": state(0, 8, 2 * BANK, 2, "s32")}, ["self-overlap"]),
    ):
        program = Program("p", (replace(made, **change),))  # type: ignore[arg-type]
        assert [d.code for d in lint(program, chip, [made.source])][:1] == codes


def test_the_forms() -> None:
    made = top(40, 8)
    line = (
        "topk pooling source=state_buffer[0:8]+0 bf16 (1x10) "
        "target=state_buffer[0:8]+16384 bf16 (1x2) indices=state_buffer[0:8]+24576 s32 (1x2) "
        "count=40 k=8 group=4"
    )
    module = Module(Program("forms", (made,)))
    assert format_instruction(made) == line
    assert parse_text(format_text(module)).program == module.program
    assert decode(encode(module)).program == module.program
