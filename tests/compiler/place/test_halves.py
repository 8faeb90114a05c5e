"""Do tiles that several queues move at once lie in two banks, and is that sooner?

Where they lie is read off the wishes and off compiled programs; the gain is measured on the event
engine. Values and both engines: `tests/compiler/test_moves.py`, whose chips share tiles too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import systolic
from systolic.compiler import Options, compile_graph
from systolic.compiler.cost.dma import queues_beside
from systolic.compiler.place.free_bytes import Wish
from systolic.compiler.place.halves import Halves, halves_of
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy
from systolic.shipped import CHIPS
from systolic.spans import Interval
from systolic.workload import Graph, GraphBuilder

BANK, BANKS = 1000, 6


def place(size: int, first: int = 0, count: int = 4, *, held: dict[int, int] | None = None):
    """Return the wished-for ranges of a tile in halves, the first four banks being wished for."""
    banks = [Interval(n * BANK, (n + 1) * BANK) for n in range(first, first + count)]
    found = Halves(frozenset("x"), 60, BANK, BANK * BANKS)
    return [*found.halved(Wish("low", banks), size, held or {}).ranges], banks


def test_half_of_a_tile_lies_in_each_of_two_banks() -> None:
    found, banks = place(120)
    assert found[0] == Interval(940, 1060)
    assert found[1] == Interval(2940, 3060)  # a pair of banks for each tile, as long as there are
    assert found[2] == Interval(1940, 2060)
    assert found[-len(banks) :] == banks


@pytest.mark.parametrize("held", [{0: 1}, {1: 1}, {0: 2, 1: 1, 2: 1}])
def test_pairs_of_banks_that_hold_few_tiles_come_first(held: dict[int, int]) -> None:
    found, _ = place(120, held=held)
    assert found[0] == Interval(2940, 3060)


def test_a_lone_bank_makes_a_pair_with_a_neighbour() -> None:
    found, banks = place(120, first=5, count=1)
    assert found == [Interval(4940, 5060), *banks]  # nothing lies behind the last bank


def test_halves_begin_at_whole_words() -> None:
    found, _ = place(124)
    assert found[0] == Interval(940, 1064)


def test_other_tiles_leave_the_ends_of_banks_free() -> None:
    banks = [Interval(n * BANK, (n + 1) * BANK) for n in range(2)]
    wish = Halves(frozenset("x"), 60, BANK, 2 * BANK).within(Wish("low", banks), 880, {0: 1})
    assert [*wish.ranges] == [Interval(1060, 1940), Interval(60, 940), banks[1], banks[0]]
    wide = Halves(frozenset("x"), 60, BANK, 2 * BANK).within(Wish("low", banks), 881, {})
    assert [*wide.ranges] == banks


def product() -> Graph:
    """Return a product whose operands come in whole rows of all their matrices."""
    builder = GraphBuilder(home="dram")
    operands = (builder.tensor(name, "bf16[9,256,256]{0,1,2}") for name in ("x", "w"))
    builder.matmul(*operands, "f32[9,256,256]", name="y")
    return builder.graph()


PRODUCT = product()


def chip_of(name: str) -> Chip:
    return load_chip(CHIPS / f"{name}.toml")


def crossings(graph: Graph, chip: Chip) -> int:
    """Return how many rows that queues move lie across the end of a bank of the state buffer."""
    bank = chip.state_buffer.bank_bytes
    program = compile_graph("halves", graph, chip).program
    ends = [
        end
        for copy in program.instructions
        if isinstance(copy, DmaCopy)
        for end in (copy.source, copy.target)
        if end.buffer is Buffer.STATE
    ]
    reach = [(e.start, e.start + e.elements * e.element_bytes - 1) for e in ends]
    return sum(first // bank != last // bank for first, last in reach)


def nothing_in_halves(layers, chip, columns) -> Halves:
    return replace(halves_of(layers, chip, columns), matrices=frozenset())


def test_queues_that_meet_in_one_bank_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = chip_of("multi_clock_128x128")
    both = systolic.run(PRODUCT, hardware, values=False)
    monkeypatch.setattr("systolic.compiler.place.tiles.halves_of", nothing_in_halves)
    one = systolic.run(PRODUCT, hardware, values=False)
    assert both.cycles < 0.95 * one.cycles
    lost = [
        sum(stall["cycles"] for stall in run.summary["stalls"] if stall["winner"] == "dma")
        for run in (both, one)
    ]
    assert lost[0] < 0.7 * lost[1]


def test_rows_of_a_tile_that_two_queues_share_lie_in_two_banks() -> None:
    """Two matrices of each operand, each moved by two queues."""
    assert crossings(PRODUCT, chip_of("multi_clock_128x128")) == 2 * 4


def test_no_tile_is_halved_where_a_port_is_no_bottleneck() -> None:
    # Each partition has ports of its own, or DRAM lets a queue move one burst at a time.
    for name in ("ideal_128x128", "ddr4_128x128"):
        layers = compile_graph("halves", PRODUCT, chip_of(name)).layers
        columns = {matrix.name: 1024 for matrix in layers.matrices}
        assert any(matrix.lies.shared > 1 for matrix in layers.matrices), name
        assert not halves_of(layers, chip_of(name), columns).matrices


def test_long_runs_need_no_second_queue_where_copies_are_spread() -> None:
    hardware = chip_of("neuroncore_v2")
    builder = GraphBuilder(home="dram")
    builder.transpose(builder.tensor("x", "bf16[512,2048]"), "bf16[2048,512]", name="y")
    layers = compile_graph("halves", builder.graph(), hardware, Options(via="pe")).layers
    first = next(matrix for matrix in layers.matrices if matrix.source.kind == "dram")
    columns = {matrix.name: matrix.cols for matrix in layers.matrices}
    for run, together in ((4096, False), (64, True)):
        columns[first.name] = run // 2
        assert (queues_beside(hardware, run) > 1) is together
        assert (first.name in halves_of(layers, hardware, columns).matrices) is together
