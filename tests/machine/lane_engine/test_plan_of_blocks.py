"""When are blocks of results written, and what do NeuronCore's other instructions cost?

The steps of section 4 of the timing model by hand, for both engines, and nki.isa of SDK 2.26.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import able_chip, ideal_chip
from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa import (
    BnAggr,
    BnStats,
    Copy,
    CopyPredicated,
    Dropout,
    FindIndex8,
    MatchReplace8,
    Max8,
    Module,
    PartitionReduce,
    Program,
    RangeSelect,
    Scan,
    Shuffle,
    Transpose,
    check_program,
    decode,
    encode,
    format_instruction,
    format_text,
    lint,
    parse_text,
)
from systolic.machine import simulate

BANK = 8192
ENGINES = pytest.mark.parametrize("engine", ["event", "register"])


def turned(side: int, elements: int, source: int = 0, target: int = BANK) -> Transpose:
    return Transpose(
        engine="pooling", side=side, source=state(0, 4, source, elements),
        target=state(0, 4, target, elements),
    )  # fmt: skip


def outcome(engine: str, *instructions: Any, **keys: Any) -> Any:
    chip = able_chip(4, 4, pooling={"independent_lanes": False, **keys})
    program = Program("blocks", instructions)
    return simulate(chip, program, engine=engine, kinds=["read", "write"])


def written(found: Any) -> list[int]:
    """Return the ticks in which lane 0 wrote an element, in order."""
    rows = found.trace.words.of("write").rows
    return sorted(int(row["tick"]) for row in rows if row["partition"] == 0)


@ENGINES
@pytest.mark.parametrize(
    ("side", "elements", "keys", "last", "ticks"),
    [
        # read in 0 to 3; the blocks are complete in 1 and 3
        (2, 4, {}, 3, [2, 3, 4, 5]),
        (4, 4, {}, 3, [4, 5, 6, 7]),
        (4, 4, {"latency_cycles": 3}, 3, [6, 7, 8, 9]),
        # groups of three, read in 0, 1, 2; blocks complete in 1 and 2, and have two groups each:
        # the second block begins behind the first one's second group
        (4, 8, {"elements_per_cycle": 3}, 2, [2, 2, 2, 3, 4, 4, 4, 5]),
        # two blocks in one group
        (1, 4, {"elements_per_cycle": 2}, 1, [1, 2, 3, 4]),
    ],
)
def test_a_block_is_written_a_group_in_a_step(engine, side, elements, keys, last, ticks):
    found = outcome(engine, turned(side, elements), **keys)
    (times,) = found.trace.times
    assert (times.last, times.done) == (last, ticks[-1])
    assert written(found) == ticks


@ENGINES
def test_a_slow_rate_slows_reads_and_not_what_is_complete(engine):
    """Three cycles to an element: reads in 2, 5, 8, 11; blocks complete in 5 and 11."""
    slow = ideal_chip(4, 4, engines={"pooling": {
        "does": ["transpose"], "rates": [{"elements": 1, "cycles": 3}],
    }})  # fmt: skip
    program = Program("slow", (turned(2, 4),))
    found = simulate(slow, program, engine=engine, kinds=["read", "write"])
    assert written(found) == [6, 7, 12, 13]


@ENGINES
def test_the_next_one_starts_behind_the_last_read_and_may_write_before(engine):
    """Eight numbers behind the last read in 7: written in 8 to 15; the copy writes in 9."""
    largest = Max8(engine="pooling", source=state(0, 4, 0, 8), target=state(0, 4, BANK, 8))
    copy = Copy(engine="pooling", source=state(0, 4, 64, 1), target=state(0, 4, 2 * BANK, 1))
    found = outcome(engine, largest, copy)
    assert [(t.start, t.done) for t in found.trace.times] == [(0, 15), (8, 9)]


def test_what_is_written_late_may_be_overtaken():
    """Both write one word; a copy of one element comes before the eighth number."""
    largest = Max8(engine="pooling", source=state(0, 4, 0, 8), target=state(0, 4, BANK, 8))
    copy = Copy(engine="pooling", source=state(0, 4, 64, 1), target=state(0, 4, BANK + 28, 1))
    program, inputs = Program("late", (largest, copy)), [state(0, 4, 0, 17)]
    codes = [d.code for d in lint(program, able_chip(4, 4), inputs)]
    assert codes == ["write-after-write"]


def test_in_place_is_no_race_and_a_block_further_is_one():
    inputs, chip = [state(0, 4, 0, 8)], able_chip(4, 4)
    assert lint(Program("same", (turned(4, 8, 0, 0),)), chip, inputs) == []
    late = lint(Program("later", (turned(2, 6, 0, 8),)), chip, inputs)
    assert [d.code for d in late] == ["self-overlap"]


# -- eight values beside the data ------------------------------------------------------------------


def replaced(elements: int, values: int = BANK, indices: int | None = None) -> MatchReplace8:
    """Return a search for the values in that place; the source lies in bank 0."""
    return MatchReplace8(
        engine="pooling", source=state(0, 4, 0, elements), values=state(0, 4, values, 8),
        target=state(0, 4, 2 * BANK, elements), other=0.0,
        indices=None if indices is None else state(0, 4, indices, 8, "s32"),
    )  # fmt: skip


def found_in(elements: int, values: int = BANK) -> FindIndex8:
    return FindIndex8(
        engine="pooling", source=state(0, 4, 0, elements), values=state(0, 4, values, 8),
        target=state(0, 4, 2 * BANK, 8, "s32"),
    )  # fmt: skip


NEAR = 1024
"""Where values are in the bank of the source."""


@ENGINES
@pytest.mark.parametrize(
    ("made", "keys", "last", "ticks"),
    [
        # both read in 0 to 9; all is known after 9
        (found_in(10), {}, 9, [*range(10, 18)]),
        # a value, then an element, in each of eight steps of two
        (found_in(10, NEAR), {}, 17, [*range(18, 26)]),
        (found_in(8, NEAR), {"latency_cycles": 3}, 15, [*range(18, 26)]),
        # groups of three: values in 0, 1, 2, elements in 0 to 3, results in groups of three
        (found_in(10), {"elements_per_cycle": 3}, 3, [4, 4, 4, 5, 5, 5, 6, 6]),
        # the first element waits for the last value, in 7; the others for it
        (replaced(10), {}, 9, [*range(8, 18)]),
        # values in 0, 2 to 14, elements in 1, 3 to 15, then 16 and 17
        (replaced(10, NEAR), {}, 17, [*range(15, 25)]),
        # values in 0 and 1, elements in 0, 1, 2: the second group waits for the first
        (replaced(10), {"elements_per_cycle": 4}, 2, [2] * 4 + [3] * 4 + [4] * 2),
        # fewer elements than values: these are read to the end
        (replaced(2), {}, 7, [8, 9]),
        (replaced(1, NEAR), {}, 8, [9]),
        # where the elements were, in a step each
        (replaced(10, indices=3 * BANK), {}, 9, [*range(8, 26)]),
        (replaced(8, indices=3 * BANK), {"elements_per_cycle": 8}, 0, [1] * 8 + [*range(2, 10)]),
    ],
)
def test_few_values_are_read_beside_the_first_elements(engine, made, keys, last, ticks):
    found = outcome(engine, made, **keys)
    (times,) = found.trace.times
    assert (times.last, times.done) == (last, ticks[-1])
    assert written(found) == ticks


@ENGINES
@pytest.mark.parametrize(
    ("cycles", "values", "reads", "writes"),
    [
        # three cycles to an element: both read in 2, 5 to 23, or the values in 1, 4 to 22
        (3, BANK, [2, 5, 8, 11, 14, 17, 20, 23], [*range(24, 32)]),
        (3, NEAR, [2, 5, 8, 11, 14, 17, 20, 23], [*range(23, 31)]),
    ],
)
def test_a_slow_rate_has_room_for_the_values(engine, cycles, values, reads, writes):
    slow = ideal_chip(4, 4, engines={"pooling": {
        "does": ["match_replace8"], "rates": [{"elements": 1, "cycles": cycles}],
    }})  # fmt: skip
    program = Program("slow", (replaced(8, values),))
    found = simulate(slow, program, engine=engine, kinds=["read", "write"])
    words = found.trace.words.of("read").rows
    mine = [r for r in words if r["partition"] == 0 and r["address"] < NEAR // 4]
    assert sorted(int(row["tick"]) for row in mine) == reads
    assert written(found) == writes


@ENGINES
def test_a_narrow_port_cuts_what_is_read_beside(engine):
    """Of 8 bytes: two values of 4 bytes pass in a cycle, so no more than two elements do."""
    chip = able_chip(4, 4, state_buffer={"port_bytes": 8}, pooling={"elements_per_cycle": 8})
    short = state(0, 4, 0, 16, "s8")
    made = replace(replaced(16), source=short, target=replace(short, start=2 * BANK))
    (times,) = simulate(chip, Program("narrow", (made,)), engine=engine).trace.times
    assert (times.last, times.done) == (7, 11)


def test_a_search_in_place_is_no_race_and_one_behind_is():
    chip, inputs = able_chip(4, 4), [state(0, 4, 0, 20), state(0, 4, BANK, 8)]
    there = state(0, 4, 0, 12)
    for start, codes in ((0, []), (4 * 4, []), (4 * 8, ["self-overlap"])):
        target = replace(there, start=start)
        program = Program("p", (replace(replaced(12), target=target),))
        assert [d.code for d in lint(program, chip, inputs)] == codes
    over = replace(replaced(12), target=state(0, 4, BANK, 12))
    assert lint(Program("values", (over,)), chip, inputs) == []
    assert [d.code for d in lint(Program("none", (replaced(12),)), chip, [there])] == ["unwritten"]


def test_what_a_search_writes_late_may_be_overtaken():
    copy = Copy(engine="pooling", source=state(0, 4, 64, 1), target=state(0, 4, 2 * BANK, 1))
    inputs = [state(0, 4, 0, 20), state(0, 4, BANK, 8)]
    for made in (replaced(10), found_in(10)):
        codes = [d.code for d in lint(Program("late", (made, copy)), able_chip(4, 4), inputs)]
        assert codes == ["write-after-write"]


def test_the_forms_of_a_search_with_and_without_indices():
    text = (
        "match_replace8 pooling source=state_buffer[0:4]+0 f32 (1x10) "
        "values=state_buffer[0:4]+8192 f32 (1x8) target=state_buffer[0:4]+16384 f32 (1x10) "
        "other=0.0"
    )
    more = f"{text} indices=state_buffer[0:4]+24576 s32 (1x8)"
    for made, line in ((replaced(10), text), (replaced(10, indices=3 * BANK), more)):
        module = Module(Program("forms", (made,)))
        assert format_instruction(made) == line
        assert parse_text(format_text(module)).program == module.program
        assert decode(encode(module)).program == module.program


A, B, C = (state(0, 4, n * BANK, 12) for n in range(3))


def test_what_keeps_its_target_reads_it():
    made = CopyPredicated(engine="pooling", source=A, predicate=B, target=C)
    for inputs, codes in (([A, B], ["unwritten"]), ([A, B, C], [])):
        found = lint(Program("kept", (made,)), able_chip(4, 4), inputs)
        assert [d.code for d in found] == codes
    for mask, codes in (((0, 255), ["unwritten"]), ((1, 0), [])):
        shuffle = Shuffle(engine="pooling", source=A, target=C, mask=mask)
        found = lint(Program("kept", (shuffle,)), able_chip(4, 4), [A, B])
        assert [d.code for d in found] == codes


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (turned(3, 12), "side: needed blocks of side x side elements that fill 4 x 12, found 3"),
        (Shuffle(engine="pooling", source=A, target=B, mask=(0, 1, 2)),
         "mask: needed so many entries that groups of them fill 4 partitions, found 3"),
        (Shuffle(engine="pooling", source=A, target=B, mask=(0, 2)),
         "mask: an entry is 0 to 1, or 255 for a lane that keeps what it has, found 2"),
        (BnStats(engine="pooling", source=A, target=B),
         "target: needed 4 x 6 elements for 4 partitions of source, found 4 x 12"),
        (BnAggr(engine="pooling", source=state(0, 4, 0, 7), target=state(0, 4, BANK, 2)),
         "source: needed (count, mean, count * variance) again and again, a multiple of 3 "
         "elements, found 7"),
        (Max8(engine="pooling", source=state(0, 4, 0, 7), target=state(0, 4, BANK, 8)),
         "source: needed at least 8 elements, found 7"),
        (replace(found_in(8), source=state(0, 4, 0, 7)),
         "source: needed 8 to 16384 elements in each partition, found 7"),
        (replace(found_in(8), source=state(0, 4, 0, 16385, "s8")),
         "source: needed 8 to 16384 elements in each partition, found 16385"),
        (replace(found_in(8), target=state(0, 4, 0, 8)),
         "target: where an element is, is an s32, found f32"),
        (replace(found_in(8), values=state(0, 4, 0, 7)),
         "values: needed 8 elements in each of 4 partitions, found 4 x 7"),
        (replace(found_in(8), values=state(0, 2, 0, 8)),
         "values: needed 8 elements in each of 4 partitions, found 2 x 8"),
        (replace(found_in(8), target=state(0, 4, 0, 9, "s32")),
         "target: needed 4 x 8 elements for 4 partitions of source, found 4 x 9"),
        (replace(replaced(16), source=state(0, 4, 0, 16385, "s8"),
                 target=state(0, 4, 0, 16385, "s8")),
         "source: needed 1 to 16384 elements in each partition, found 16385"),
        (replace(replaced(8), indices=state(0, 4, 0, 8)),
         "indices: where an element is, is an s32, found f32"),
        (replace(replaced(8), indices=state(0, 4, 0, 1, "s32")),
         "indices: needed 8 elements in each of 4 partitions, found 4 x 1"),
        (replace(replaced(8), indices=psum(0, 4, 0, 8, "s32")),
         "indices: must lie in the target's buffer, state_buffer, found result_buffer"),
        (replace(replaced(8), target=A),
         "source has 4 x 8 elements, target 4 x 12"),
        (PartitionReduce(engine="pooling", fold="sum", source=A, target=B),
         "target: needed 1 x 12 elements, one for all partitions of source, found 4 x 12"),
        (Scan(engine="pooling", op="and", then="add", left=state(0, 4, 0, 12, "s32"), right=B,
              target=C, initial=1),
         "op: and takes integers, but the result of add is floating-point"),
    ],
)  # fmt: skip
def test_illegal(instruction: Any, text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (instruction,)), able_chip(4, 4))
    assert str(caught.value) == f"p: instruction 0 ({type(instruction).__name__}): {text}"


# -- what they cost ------------------------------------------------------------------------------


def core() -> Chip:
    """Return a chip with the keys that the published costs of the vector engine ask for."""
    both = ["state_buffer", "state_buffer"]
    does = ["transpose", "bn_stats", "bn_aggr", "max8", "shuffle", "range_select", "scan",
            "copy_predicated", "dropout"]  # fmt: skip
    return ideal_chip(32, 32, engines={"vector": {
        "does": does,
        "min_interval_cycles": 64,
        "latency_cycles": 100,
        "rates": [
            {"does": ["bn_aggr"], "elements": 3, "cycles": 13},
            {"does": ["scan"], "elements": 1, "cycles": 2},
            {"does": ["copy_predicated"], "operands": both, "elements": 1, "cycles": 2},
        ],
    }})  # fmt: skip


def wide(bank: int, elements: int) -> Any:
    return state(0, 32, bank * BANK, elements)


def published(n: int) -> dict[str, tuple[Any, int]]:
    """Return an instruction of n elements per lane, and its cycles, by its row in the tables."""
    a, b, c = (wide(bank, n) for bank in (0, 1, 2))
    sums = psum(0, 32, 0, n)
    return {
        "nc_transpose, max(64, N)": (
            Transpose(engine="vector", source=a, target=b), max(64, n)),
        "bn_stats, max(64, N)": (
            BnStats(engine="vector", source=a, target=wide(1, 6)), max(64, n)),
        "bn_aggr, max(64, 13 N / 3)": (
            BnAggr(engine="vector", source=wide(0, 3 * n), target=wide(4, 2)), max(64, 13 * n)),
        "max8, N": (Max8(engine="vector", source=a, target=wide(1, 8)), max(64, n)),
        "nc_stream_shuffle, max(64, N)": (
            Shuffle(engine="vector", source=a, target=b, mask=(*range(31, 0, -1), 255)),
            max(64, n)),
        "dropout, max(64, N)": (
            Dropout(engine="vector", source=a, target=b, probability=0.5), max(64, n)),
        "range_select, max(64, N)": (
            RangeSelect(engine="vector", fold="max", compare="less", compare_end="less", source=a,
                        bound=1.0, end=9.0, target=b, reduced=wide(3, 1)), max(64, n)),
        "tensor_tensor_scan, max(64, 2 N)": (
            Scan(engine="vector", op="multiply", then="add", left=a, right=b, target=c),
            max(64, 2 * n)),
        "tensor_copy_predicated, both in SBUF, max(64, 2 N)": (
            CopyPredicated(engine="vector", source=a, predicate=b, target=c), max(64, 2 * n)),
        "tensor_copy_predicated, different memories, max(64, N)": (
            CopyPredicated(engine="vector", source=sums, predicate=b, target=c), max(64, n)),
    }  # fmt: skip


@ENGINES
@pytest.mark.parametrize("name", published(64))
@pytest.mark.parametrize("n", [32, 64, 512])
def test_published_cost(engine: str, name: str, n: int) -> None:
    """In a chain: the distance of two starts."""
    one, cycles = published(n)[name]
    trace = simulate(core(), Program("chain", (one,) * 3), engine=engine, values=False).trace
    starts = [times.start for times in trace.times]
    assert [b - a for a, b in pairwise(starts)] == [cycles] * 2
