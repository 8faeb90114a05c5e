"""Is the cycle right? Where two sentences of the timing model meet: by hand, on both engines."""

from __future__ import annotations

from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import able_chip, ideal_chip
from support.compare_traces import assert_same
from systolic.hw.spec import Chip
from systolic.isa import (
    Activate,
    Copy,
    DmaCopy,
    FindIndex8,
    Instruction,
    LoadTile,
    MatchReplace8,
    MatMulTile,
    Memset,
    Program,
    TensorTensor,
)
from systolic.machine import simulate
from systolic.trace.records import Trace
from systolic.trace.words import KINDS

BANK = 8192


def run(chip: Chip, *instructions: Instruction) -> Trace:
    program = Program("p", instructions)
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    return event.trace


def test_a_refused_port_is_named_though_the_descriptor_is_being_fetched() -> None:
    """Section 7: the fill has bank 1 in 1 to 3, while a descriptor of 6 cycles is fetched."""
    dma = {"bytes_per_cycle": 4, "descriptor_cycles": 6, "descriptor_cost": "max"}
    fill = Memset(engine="activation", target=state(0, 1, BANK, 3), value=1)
    copy = DmaCopy(dma_queue=0, source=state(0, 1, 0, 2), target=state(0, 1, BANK + 64, 2))
    trace = run(ideal_chip(4, 4, dma=dma), fill, copy)
    labels = [(r.label, r.first, r.stop) for r in trace.labels["dma0"]]
    assert labels == [("streaming", 0, 1), ("stalled by activation", 1, 4), ("streaming", 4, 6)]


@pytest.mark.parametrize(("dtype", "last"), [("s8", 1), ("f32", 3)])
def test_the_eight_values_count_for_what_passes_a_port(dtype: str, last: int) -> None:
    """Section 4: 4 elements in a cycle, of s8 all pass 8 bytes, of float32 two."""
    chip = able_chip(4, 4, state_buffer={"port_bytes": 8}, pooling={"elements_per_cycle": 4})
    search = FindIndex8(
        engine="pooling",
        source=state(0, 1, 0, 8, "s8"),
        values=state(0, 1, BANK, 8, dtype),
        target=psum(0, 1, 0, 8, "s32"),
    )
    assert run(chip, search).times[0].last == last


def test_values_are_asked_for_before_the_source() -> None:
    """Section 5: both ports are refused in 0 to 2, and the stall names that of the values."""
    pair = TensorTensor(
        engine="activation",
        op="add",
        left=state(0, 1, 0, 3),
        right=state(0, 1, BANK, 3),
        target=state(0, 1, 2 * BANK, 3),
    )
    search = MatchReplace8(
        engine="pooling",
        source=state(0, 1, 64, 8),
        values=state(0, 1, BANK + 64, 8),
        target=state(0, 1, 3 * BANK, 8),
        other=0,
    )
    (stall,) = run(able_chip(4, 4), pair, search).stalls
    assert (stall.tick, stall.cycles, stall.bank, stall.winner) == (0, 3, 1, "activation")


@pytest.mark.parametrize("array", [{"min_interval_cycles": 10}, {"min_vectors": 20}])
@pytest.mark.parametrize(("column", "bank", "waits"), [(0, 0, True), (0, 1, False), (4, 0, False)])
def test_tiles_with_a_column_and_a_bank_in_common_keep_intervals(
    array: dict[str, int], column: int, bank: int, waits: bool
) -> None:
    """Section 2: 10 cycles from start to start, or for as many vectors as there are columns, 4."""
    chip = ideal_chip(8, 8, pe_array={**array, "tile_sizes": [[4, 4]]})
    places = (0, 0), (4, column)
    loads = [
        LoadTile(
            weights=state(row, 4, row // 4 * BANK, 4), tile_size=(4, 4), tile_position=(row, col)
        )
        for row, col in places
    ]
    multiplies = [
        MatMulTile(
            moving=state(row, 4, 2 * BANK + row // 4 * BANK, 1),
            result=psum(col, 4, 8 * n + 512 * (bank if n else 0), 1),
            tile_size=(4, 4),
            tile_position=(row, col),
        )
        for n, (row, col) in enumerate(places)
    ]
    starts = [t.start for t in run(chip, *loads, *multiplies).times[2:]]
    apart = {"min_interval_cycles": 10, "min_vectors": 4}[next(iter(array))]
    assert starts == [4, 4 + apart * waits]


def test_the_first_cycle_of_an_instruction_is_its_first_step() -> None:
    """Section 7: with two steps for a group, those of 0 and 2 read nothing."""
    chip = ideal_chip(4, 4, pooling={"rates": [{"elements": 1, "cycles": 2}]})
    copy = Copy(engine="pooling", source=state(0, 1, 0, 2), target=state(0, 1, BANK, 2))
    trace = run(chip, copy)
    assert list(trace.words.of("read").rows["tick"]) == [1, 3]
    assert (trace.times[0].first, trace.times[0].last) == (0, 3)


def test_other_lanes_wait_for_a_table() -> None:
    """Section 4: the table is loaded in 0 to 4; the second, of other lanes, starts in 5, not 1."""
    tables: Any = {"tables": [["exponential"]], "table_cycles": 5, "independent_lanes": True}
    chip = able_chip(4, 4, activation=tables)
    both = [
        Activate(
            engine="activation",
            function=function,
            source=state(lane, 1, 0, 3),
            target=state(lane, 1, BANK, 3),
        )
        for lane, function in enumerate(("exponential", "identity"))
    ]
    trace = run(chip, *both)
    assert [(t.start, t.first) for t in trace.times] == [(0, 5), (5, 5)]
