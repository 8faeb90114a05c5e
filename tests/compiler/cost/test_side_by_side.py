"""Is the value right? Copies of several engines side by side, each in banks of its own.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, in memories full of other bits, and the program checker look at every dependency.
Cycles are worked out by hand: an element of each lane in a cycle, and the latency behind the last.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.ir.test_copy_cuts import moved
from compiler.lower.test_chip_moves import drawn, permuted
from support.chips import ideal_chip
from support.packed import run
from systolic.compiler import compile_graph
from systolic.compiler.cost import side_by_side as module
from systolic.compiler.cost.side_by_side import side_by_side
from systolic.compiler.place import tiles
from systolic.config import load_chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import Pattern
from systolic.shipped import CHIPS
from systolic.workload import TransposeAttributes
from systolic.workload.options import Options

HBM3 = load_chip(CHIPS / "hbm3_128x128.toml")
BANK = HBM3.state_buffer.bank_bytes


def reversed_(source_byte: int, target_byte: int) -> Copy:
    """Return a copy that turns 48 x 32 words in each of 128 lanes."""
    ends = ((source_byte, ((1, 48 * 32),)), (target_byte, ((1, 32), (32, 48))))
    source, target = (Access(Buffer.STATE, "s32", 0, 128, *end) for end in ends)
    return Copy(engine="activation", source=source, target=target)


def banks(access: Access) -> set[int]:
    return {access.span.first // BANK, (access.span.stop - 1) // BANK}


def test_two_engines_are_in_other_banks_each_time() -> None:
    copy = reversed_(BANK - 48 * 64, 3 * BANK - 48 * 64)
    parts = side_by_side(HBM3, copy)
    assert [part.engine for part in parts] == ["activation", "pooling"] * 2
    for one, other in (parts[:2], parts[2:]):
        assert banks(one.source).isdisjoint(banks(other.source))
        assert banks(one.target).isdisjoint(banks(other.target))
    assert sorted(pair for part in parts for pair in moved(part)) == sorted(moved(copy))


@pytest.mark.parametrize(
    ("source", "target"), [(0, 3 * BANK - 48 * 64), (BANK - 48 * 64, 2 * BANK), (0, BANK // 2)]
)
def test_engines_at_one_port_share_nothing(source: int, target: int) -> None:
    copy = reversed_(source, target)
    assert side_by_side(HBM3, copy) == (copy,)


def test_a_value_across_the_end_of_a_bank_is_copied_last() -> None:
    copy = reversed_(BANK - 47 * 64, 3 * BANK - 48 * 64)
    parts = side_by_side(HBM3, copy)
    assert len(parts) > 4
    assert sorted(pair for part in parts for pair in moved(part)) == sorted(moved(copy))
    for one, other in (parts[:2], parts[2:4]):
        assert banks(one.source).isdisjoint(banks(other.source))


def test_short_copies_stay_whole() -> None:
    pattern: Pattern = ((1, 512),)
    source, target = (Access(Buffer.STATE, "s32", 0, 128, BANK * n - 1024, pattern) for n in (1, 3))
    copy = Copy(engine="activation", source=source, target=target)
    assert side_by_side(HBM3, copy) == (copy,)


@pytest.mark.parametrize(
    ("graph", "chip", "alone", "engines"),
    [
        # 3,072 elements in each of 64 lanes.
        (
            permuted("s8[32,64,96]", (2, 1, 0), "s8[96,64,32]"), "ideal_128x128",
            32 * 96, {"activation", "pooling"},
        ),
        # 32 copies of 64 bytes in each of 128 lanes are one.
        (
            permuted("s8[4,8,128,64]", (0, 2, 3, 1), "s8[4,128,64,8]"), "ideal_128x128",
            4 * 8 * 64, {"activation", "pooling"},
        ),
        # Three tiles of 16 x 96 words.
        (
            permuted("s32[16,384,96]", (1, 0, 2), "s32[384,16,96]"), "patent_128x64",
            3 * 16 * 96, {"activation", "pooling"},
        ),
        # 32 columns of 160 elements, each of two cycles of the array for the faster engine.
        (
            permuted("f16[2,16,256,80]", (3, 2, 1, 0), "f16[80,256,16,2]{2,3,0,1}"),
            "multi_clock_128x128", 2 * 32 * 160, {"activation", "pooling"},
        ),
        # Elements 31 words apart take each engine two cycles or more.
        (
            permuted("s32[31,8,32]", (2, 1, 0), "s32[32,8,31]"), "neuroncore_v4",
            2 * 31 * 32, {"gpsimd", "vector", "scalar"},
        ),
    ],
)  # fmt: skip
def test_engines_take_their_parts_of_one_copy(graph, chip, alone, engines) -> None:
    """So they are done before one engine alone has taken all elements of a lane."""
    result = systolic.run(graph, chip)
    assert {each.engine for each in result.program.instructions} == engines
    assert result.cycles < alone
    hardware = load_chip(CHIPS / f"{chip}.toml")
    _, inputs, outputs = run(graph, hardware)
    (op,) = graph.operations
    axes = op.attributes_as(TransposeAttributes).axes
    np.testing.assert_array_equal(outputs["y"], inputs["x"].transpose(axes))


def test_tensors_lie_across_the_ends_of_banks() -> None:
    """Half of the 2,400 bytes of each lie before the end of a bank; none share a bank."""
    graph = permuted("f32[20,8,30]", (2, 1, 0), "f32[30,8,20]")
    chip = ideal_chip(8, 8, state_buffer={"banks": 8})
    homes = systolic.run(graph, chip, values=False).summary["on_chip"]
    banks = [(homes[name]["byte"] + 1200) / chip.state_buffer.bank_bytes for name in ("x", "y")]
    assert all(bank == int(bank) for bank in banks)
    assert abs(banks[0] - banks[1]) >= 2


def test_the_engine_that_the_user_names_makes_all_copies() -> None:
    graph = permuted("s8[32,64,96]", (2, 1, 0), "s8[96,64,32]")
    options = Options(drain_engine="pooling")
    program = compile_graph("moved", graph, HBM3, options).program
    assert {each.engine for each in program.instructions if isinstance(each, Copy)} == {"pooling"}


@pytest.mark.parametrize("seed", [2])
def test_all_elements_arrive_on_both_engines(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (module, tiles):
        monkeypatch.setattr(place, "LEAST_CYCLES", 0)
    rng = Random(9000 + seed)
    graph = drawn(rng)
    chip = ideal_chip(4, 4, state_buffer={"partitions": 8, "banks": 8})
    compiled, inputs, outputs = run(graph, chip, seed)
    assert {"activation", "pooling"} <= {each.queue for each in compiled.program.instructions}
    (op,) = graph.operations
    axes = op.attributes_as(TransposeAttributes).axes
    np.testing.assert_array_equal(outputs["y"], inputs["x"].transpose(axes))
