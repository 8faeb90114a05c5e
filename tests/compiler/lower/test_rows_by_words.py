"""Copies whose rows engines interleave by words, and DMA copies on.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import systolic
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.cost.rows_by_words import rows_by_words
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy
from systolic.layout import Shape
from systolic.workload import Graph, GraphBuilder, Tensor

BY_WORDS = "interleaved by words"
BANK = 4096


def chip(**other: object) -> Chip:
    """Eight partitions in eight banks, and queues whose descriptors cost nothing."""
    dma = {"queues": 4, "latency_cycles": 20, "descriptor_cycles": 0, "bytes_per_cycle": 64}
    buffer = {"partitions": 8, "banks": 8, "bytes_per_partition": 8 * BANK}
    fields = {"state_buffer": buffer, "dma": dma} | other
    return ideal_chip(8, 8, result_buffer={"banks": 2, "bank_bytes": 64}, **fields)


def turned(dtype: str, rows: int, row: int, side: int, *, beside: int = 1) -> Graph:
    """Return [rows, beside, row, side] to [rows, beside, side, row]."""
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", f"{dtype}[{rows},{beside},{row},{side}]")
    builder.transpose("x", f"{dtype}[{rows},{beside},{side},{row}]", (0, 1, 3, 2), name="y")
    return builder.graph()


def drawn(rng: Random) -> Graph:
    """Return such a move, of rows for several tiles."""
    row, side = rng.choice([16, 24, 32, 50]), rng.choice([2, 4, 6])
    lines, beside = rng.choice([4, 6, 8, 10]), rng.choice([1, 1, 2])
    return turned(rng.choice(["s8", "u8", "bf16"]), 8 * lines, row, side, beside=beside)


def chosen(graph: Graph, hardware: Chip) -> str:
    return " ".join(compile_graph("turned", graph, hardware).layers.choices)


@pytest.mark.parametrize("seed", range(30))
def test_rows_come_right_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph, hardware = drawn(rng), chip()
    inputs = {"x": random_values(rng, graph.shape("x"))}
    compile_graph("turned", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, inputs)


def test_many_of_these_go_by_words() -> None:
    assert sum(BY_WORDS in chosen(drawn(Random(seed)), chip()) for seed in range(30)) > 15


def test_three_words_or_elements_are_written_for_four() -> None:
    """Where queues are quick enough all goes so."""
    quick = chip(dma={"queues": 4, "latency_cycles": 2, "bytes_per_cycle": 512})
    result = systolic.run(turned("s8", 64, 64, 4), quick, values=False)
    assert result.compiled is not None
    written, moved = Counter[str](), 0
    for instruction in result.compiled.program.instructions:
        if isinstance(instruction, Copy):
            written[instruction.source.dtype] += instruction.source.elements
        else:
            assert isinstance(instruction, DmaCopy)
            moved += instruction.source.elements * instruction.source.partitions
    elements = 8 * 64 * 4  # of a lane
    assert written == {"u16": elements // 4, "s8": elements // 2}
    rows = 2 * 8 * 8  # of y, x being the others, in lanes and lines
    assert moved == rows * 63


def test_number_178_takes_as_long_as_estimated() -> None:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", "s8[4,256,16,64]{0,1,3,2}")
    builder.transpose("x", "s8[16,64,4,256]", (2, 3, 0, 1), name="y")
    result = systolic.run(builder.graph(), "ddr4_2400_128x128", values=False)
    (choice,) = (text for text in result.compiled.layers.choices if BY_WORDS in text)
    estimate = int(choice.split("(about ")[1].split()[0])
    assert 0.99 * estimate < result.cycles < 1.01 * estimate
    assert result.cycles < 0.85 * 4096  # two engines that write each element


def test_the_printed_places_hold_the_result() -> None:
    graph, hardware = turned("s8", 64, 32, 4), chip()
    inputs = {"x": random_values(Random(2), graph.shape("x"))}
    first = systolic.run(graph, hardware, inputs)
    there, made = (
        Tensor(Shape.parse(home["layout"]), "state_buffer", home["partition"], home["byte"])
        for home in (first.summary["on_chip"][name] for name in ("x", "y"))
    )
    told = GraphBuilder(home="state_buffer")
    told.tensor("x", there)
    told.transpose("x", made, (0, 1, 3, 2), name="y")
    again = systolic.run(told.graph(), hardware, inputs)
    assert BY_WORDS in " ".join(first.compiled.layers.choices)
    assert again.summary["values"]["equal"]


@pytest.mark.parametrize(
    "hardware",
    [
        chip(dma={"queues": 4, "latency_cycles": 20, "descriptor_cycles": 60}),
        chip(state_buffer={"partitions": 8, "banks": 4, "bytes_per_partition": 8 * BANK}),
    ],
)
def test_where_queues_are_slow_or_banks_few_each_element_is_written(hardware: Chip) -> None:
    graph = turned("s8", 64, 64, 4)
    assert BY_WORDS in chosen(graph, chip())
    assert BY_WORDS not in chosen(graph, hardware)


def lines(source: int, target: int, width: int, dtype: str = "s8") -> Copy:
    """Return a copy of eight lines, [32, 4] to [4, 32]; width: from line to line afterwards."""
    sides = (
        Access(Buffer.STATE, dtype, 0, 8, source, ((128, 8), (4, 32), (1, 4))),
        Access(Buffer.STATE, dtype, 0, 8, target, ((width, 8), (1, 32), (32, 4))),
    )
    return Copy(engine="activation", source=sides[0], target=sides[1])


def test_lines_lie_in_banks_of_their_own() -> None:
    hardware = chip()
    half, there = BANK - 512, 2 * BANK
    assert rows_by_words(hardware, lines(half, there, 3072)) is not None
    assert rows_by_words(hardware, lines(0, there, 3072)) is None  # one bank for two engines
    assert rows_by_words(hardware, lines(half, there, 128)) is None
    assert rows_by_words(hardware, lines(half, there, 3071)) is None  # no whole words
    assert rows_by_words(hardware, lines(half, there + 1, 3072)) is None
    assert rows_by_words(hardware, lines(half, there + 960, 3072)) is None  # a line in two banks
    assert rows_by_words(hardware, lines(half, there, 768, "s32")) is None


@pytest.mark.parametrize(
    ("name", "part"), [("hbm3_128x128", 0.76), ("ddr4_128x128", 0.84), ("ideal_128x128", 0.93)]
)
def test_the_quicker_the_queues_the_more_of_a_quarter_is_saved(name: str, part: float) -> None:
    """Two engines would write 4,096 elements of a lane each."""
    result = systolic.run(turned("s8", 1024, 256, 4), name, values=False)
    assert (part - 0.02) * 4096 < result.cycles < part * 4096
