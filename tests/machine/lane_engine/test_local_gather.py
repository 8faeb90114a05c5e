"""Is the value right? A gather by indices of groups of partitions, against nki.isa's NumPy meaning.

nki.isa.local_gather (SDK 2.26): the indices of 16 partitions follow one another down these.
Both engines, word for word; the cycles follow from the printed formula, whatever the indices are.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import able_chip
from support.compare_traces import assert_same
from systolic.config import load_chip
from systolic.errors import ProgramError, SimulationError
from systolic.hw.datatypes import data_type
from systolic.isa import (
    Access,
    Buffer,
    LocalGather,
    Module,
    Program,
    check_program,
    decode,
    encode,
    format_instruction,
    format_text,
    lint,
    parse_text,
)
from systolic.machine import Image, simulate

ENGINES = pytest.mark.parametrize("engine", ["event", "register"])
BANK = 8192
CHIPS = Path(__file__).resolve().parents[3] / "configs" / "chips"


def gather(
    elements: int, count: int, each: int = 1, *, group: int = 4, dtype: str = "f32", at: int = BANK
) -> LocalGather:
    """Return a gather in 8 partitions of `count` indices; the source's bytes begin at 64."""
    return LocalGather(
        engine="pooling", source=state(0, 8, 64, elements, dtype),
        index=state(0, 8, at, -(-count // group), "s32"),
        target=state(0, 8, 2 * BANK, count * each, dtype), each=each, group=group,
    )  # fmt: skip


def ran(made: LocalGather, index: np.ndarray, engine: Any = "event", **keys: Any) -> Any:
    images = [Image(made.index, index.astype(np.int32)), Image(made.source, values_of(made))]
    chip = able_chip(8, 8, pooling=keys)
    program = Program("p", (made,))
    return simulate(chip, program, images, engine=engine, kinds=["read", "write"])


def values_of(made: LocalGather) -> np.ndarray:
    shape = made.source.partitions, made.source.elements
    bits = np.random.default_rng(3).integers(0, 256, (*shape, made.source.element_bytes))
    found: np.ndarray = bits.astype(np.uint8).view(data_type(made.source.dtype).numpy)[:, :, 0]
    return found


def expected(made: LocalGather, index: np.ndarray) -> np.ndarray:
    """Return the target: np.take of windows by the flattened indices of each group."""
    source, found = values_of(made), []
    for first in range(0, 8, made.group):
        group = slice(first, first + made.group)
        flat = index[group].flatten(order="F")[: made.target.elements // made.each]
        windows = np.lib.stride_tricks.sliding_window_view(source[group], made.each, axis=1)
        found.append(np.take(windows, flat, axis=1).reshape(made.group, -1))
    return np.concatenate(found)


def drawn(made: LocalGather, seed: int = 5) -> np.ndarray:
    shape, most = (8, made.index.elements), made.source.elements - made.each
    return np.random.default_rng(seed).integers(0, most + 1, shape)


CASES = [
    (gather(40, 12), {}),
    (gather(40, 16, 4), {"elements_per_cycle": 3}),
    (gather(40, 7, 2, group=8), {"latency_cycles": 4}),
    (gather(33, 3, 32, dtype="bf16"), {}),
    (gather(40, 9, 8, dtype="s8"), {"elements_per_cycle": 5}),
    (gather(40, 12, at=1024), {"elements_per_cycle": 2}),
    (gather(5, 6, group=1), {}),
    (
        replace(gather(40, 12), source=Access(Buffer.STATE, "f32", 0, 8, 400, ((20, 4), (-2, 10)))),
        {},
    ),
    (replace(gather(40, 12), source=psum(0, 8, 3, 40)), {}),
]


@pytest.mark.parametrize(("made", "keys"), CASES)
def test_values_on_both_engines(made: LocalGather, keys: Any) -> None:
    index = drawn(made)
    found = [ran(made, index, engine, **keys) for engine in ("event", "register")]
    assert_same(*found)
    assert found[0].memory.read(made.target).tobytes() == expected(made, index).tobytes()


def test_cycles_do_not_depend_on_the_indices() -> None:
    made = gather(40, 12)
    traces = [ran(made, index).trace for index in (drawn(made), np.zeros((8, 3)))]
    assert traces[0].times == traces[1].times
    assert [(t.start, t.last, t.done) for t in traces[0].times] == [(0, 11, 14)]


def test_plans_of_equal_accesses_are_those_of_their_windows() -> None:
    """Of 16 and of 8 indices, with as many elements in all and one row of indices each."""
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    one = replace(gather(40, 16, 1), engine="gpsimd", group=8)
    one = replace(one, index=state(0, 8, BANK, 2, "s32"))
    two = replace(one, each=2, group=4)
    program = Program("two", (one, two, one, two))
    assert two.target.elements == 16
    check_program(program, chip)
    starts = [
        [time.start for time in simulate(chip, program, engine=engine, values=False).trace.times]
        for engine in ("event", "register")
    ]
    assert starts[0] == starts[1]
    period = chip.period("gpsimd")
    # 16 elements at 1/8 cycle, indices first, and at 2/9 in groups of 5
    assert [(b - a) // period for a, b in pairwise(starts[0])] == [153, 155, 153]


@ENGINES
@pytest.mark.parametrize("found", [-1, 39])
def test_an_index_beyond_the_source_ends_the_run(engine: Any, found: int) -> None:
    made = gather(40, 12, 2)
    index = np.zeros((8, 3), int)
    index[5, 1] = found
    text = (
        r"^p: instruction 0 \(LocalGather\): index 5 of the partitions from 4 on: needed 0 to 38, "
        rf"found {found}$"
    )
    with pytest.raises(SimulationError, match=text):
        ran(made, index, engine)


@ENGINES
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("each", [1, 2, 4, 8, 32])
def test_the_printed_formula(engine: Any, dtype: str, each: int) -> None:
    """150 + n e / C, C = ((28 + 4 e) / (4 e)) / min(4 / size, e), up to one group of elements."""
    size, count = data_type(dtype).size_bytes, 16
    cost = Fraction(28 + 4 * each, 4 * each) / min(Fraction(4, size), each)
    said = 150 + count * each / cost
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    one = replace(gather(40, count, each, group=8, dtype=dtype), engine="gpsimd")
    trace = simulate(chip, Program("two", (one, one)), engine=engine, values=False).trace
    period = chip.period("gpsimd")
    (apart,) = ((b.start - a.start) // period for a, b in pairwise(trace.times))
    assert 0 <= apart - said <= max(1, 2 / cost), (float(said), apart)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"each": 3}, "each: an index gives 1, 2, 4, 8, 16, 32 elements, found 3"),
        ({"group": 3}, "group: needed groups of partitions that begin at a multiple of their size "
                       "and fill 0 to 7, found 3"),
        ({"target": state(0, 4, 2 * BANK, 12)},
         "target: needed 8 partitions of f32, as the source has, found 4 of f32"),
        ({"target": state(0, 8, 2 * BANK, 12, "bf16")},
         "target: needed 8 partitions of f32, as the source has, found 8 of bf16"),
        ({"each": 8}, "target: needed 8 elements for each of 1 to 4096 indices, found 12"),
        ({"each": 4, "source": state(0, 8, 64, 3)},
         "source: needed at least the 4 elements of an index, found 3"),
        ({"index": state(0, 8, BANK, 3)}, "index: where an element is, is an s32, found f32"),
        ({"index": state(0, 8, BANK, 4, "s32")},
         "index: needed 3 elements in each of the source's partitions, 0 to 7, found 4 in 0 to 7"),
        ({"source": state(0, 8, 64, 2048)},
         "source: all that may be picked must lie in one bank of 8192 bytes, found bytes 64 to "
         "8255"),
    ],
)  # fmt: skip
def test_what_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ProgramError) as refused:
        check_program(Program("p", (replace(gather(40, 12), **change),)), able_chip(8, 8))
    assert str(refused.value) == f"p: instruction 0 (LocalGather): {text}"


def test_the_whole_source_counts_for_lint() -> None:
    chip, made = able_chip(8, 8), gather(40, 12)
    for written, codes in ((40, []), (39, ["unwritten"])):
        inputs = [state(0, 8, 64, written), made.index]
        assert [d.code for d in lint(Program("p", (made,)), chip, inputs)] == codes
    inside = replace(made, target=state(0, 8, 64 + 4 * 39, 12))
    found = lint(Program("p", (inside,)), chip, [made.source, made.index])
    assert [d.code for d in found] == ["self-overlap"]


def test_the_forms() -> None:
    made = gather(40, 12, 2)
    line = (
        "local_gather pooling source=state_buffer[0:8]+64 f32 (1x40) "
        "index=state_buffer[0:8]+8192 s32 (1x3) target=state_buffer[0:8]+16384 f32 (1x24) "
        "each=2 group=4"
    )
    module = Module(Program("forms", (made,)))
    assert format_instruction(made) == line
    assert parse_text(format_text(module)).program == module.program
    assert decode(encode(module)).program == module.program
