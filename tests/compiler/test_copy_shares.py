"""Shares of copies within DRAM: all bytes, apart in channels and banks, and sooner than the chip.

The address map of the register engine is the oracle of channels, banks and rows.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.both_engines import run_on_both_engines
from systolic.compiler import compile_graph
from systolic.compiler.cost.copy_shares import CopiedBytes, copy_shares, shares_apart
from systolic.config import load_chip
from systolic.isa import Buffer, DmaCopy
from systolic.machine.register.dram.address import AddressMap
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

CHIP = load_chip(CHIPS / "ddr4_128x128.toml")


def reshaped(source: str, result: str) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", source)
    builder.add("reshape", ("x",), result, name="y")
    return builder.graph()


def within_dram(graph: Graph) -> bool:
    program = compile_graph("copy", graph, CHIP).program
    return all(
        isinstance(each, DmaCopy) and {each.source.buffer, each.target.buffer} == {Buffer.DRAM}
        for each in program.instructions
    )


def some_bytes(rng: Random) -> CopiedBytes:
    element = rng.choice([1, 2, 4])
    size = rng.choice([rng.randint(1, 9), rng.randint(10, 9000), rng.randint(9000, 500_000)])
    source = rng.randrange(0, 1 << 20, 64)
    return CopiedBytes(source, source + (size * element // 64 + 1) * 64, size * element, element)


@pytest.mark.parametrize("seed", range(40))
def test_shares_are_all_bytes_and_whole_elements(seed: int) -> None:
    rng = Random(seed)
    copied = some_bytes(rng)
    for name in ("ddr4_128x128", "ideal_128x128"):
        shares = copy_shares(load_chip(CHIPS / f"{name}.toml"), copied)
        ends = [0, *(share.stop for share in shares)]
        assert [share.first for share in shares] == ends[:-1]
        assert ends[-1] == copied.size_bytes
        assert all(share.count > 0 and share.count % copied.element_bytes == 0 for share in shares)
        assert len(shares) <= 4


def test_no_queue_comes_to_the_channel_or_closes_the_row_of_another() -> None:
    there, found = AddressMap(CHIP), 0
    for seed in range(12):
        copied = some_bytes(Random(seed))
        shares = shares_apart(CHIP, copied)
        if shares is None:
            continue
        found += 1
        fair = copied.size_bytes // 4
        assert max(share.count for share in shares) < 1.55 * fair + 2048
        for step in range(0, min(share.count for share in shares), 256):
            ends = [
                [there.place(base + share.first + step) for base in copied[:2]] for share in shares
            ]
            assert len({source.channel for source, _ in ends}) == 4
            rows = {(end.bank, end.row) for pair in ends for end in pair}
            assert len({bank for bank, _ in rows}) == len(rows)
    assert found > 2


@pytest.mark.parametrize(
    ("source", "result", "most"),
    [
        ("f16[2,197,16,128]", "f16[2,197,2048]", 67_800),
        ("f32[64,100,100]", "f32[6400,100]", 95_000),
        ("bf16[2,16,384,80]", "bf16[2,6144,80]", 90_000),
    ],
)
def test_bytes_are_copied_where_queues_have_banks_of_their_own(
    source: str, result: str, most: int
) -> None:
    """Through the chip they take 88,389, 116,455 and 110,995 cycles."""
    graph = reshaped(source, result)
    assert within_dram(graph)
    assert systolic.run(graph, CHIP, values=False).cycles < most


def test_bytes_go_through_the_chip_where_source_and_result_lie_in_the_same_banks() -> None:
    """2 MiB are 64 rows of all channels: source and result are in the same bank all the time.

    A copy within DRAM would take 586,690 cycles.
    """
    graph = reshaped("s8[512,4096]", "s8[4096,512]")
    assert not within_dram(graph)
    assert systolic.run(graph, CHIP, values=False).cycles < 110_000


def test_memory_is_that_of_numpy_on_both_engines() -> None:
    graph = reshaped("s32[7,50,11]", "s32[350,11]")
    assert within_dram(graph)
    values = np.arange(7 * 50 * 11, dtype=np.int32).reshape(7, 50, 11)
    result = run_on_both_engines(graph, CHIP, {"x": values})
    np.testing.assert_array_equal(result.outputs["y"], values.reshape(350, 11))
