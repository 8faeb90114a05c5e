"""Do engines share the tiles of a move, and do tiles flow? By hand, and on shipped chips."""

from __future__ import annotations

import pytest

import systolic
from compiler.lower.test_rival_ways import relayout
from systolic.compiler.cost.engine_shares import TilesShared, shared_ticks, shares_of
from systolic.config import load_chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.effects import reads
from systolic.shipped import CHIPS

EVEN = {name: {name: 2} for name in "abc"}
ROWS = "s8[2048,1024]", "s8[2048,1024]{0,1}"


def test_the_busiest_engine_has_the_least_to_do() -> None:
    """Four tiles, each cast in 2 ticks by any of three, and copied out in 3 by two of them."""
    shares = TilesShared()
    out = {"a": {"a": 3}, "b": {"b": 3}}
    found = [shares.give(EVEN, out) for _ in range(4)]
    assert found[:2] == [("a", "b"), ("c", "a")]
    assert sum(shares.given.values()) == 4 * (2 + 3)
    assert shares.ticks == 8 == shared_ticks(4, EVEN, out)


def test_engines_that_have_a_buffer_in_turns_count_as_one_there() -> None:
    """a and b exclude one another, so c has half of the work."""
    work = {"a": {"a": 2, "0": 2}, "b": {"b": 2, "0": 2}, "c": {"c": 2}}
    shares = TilesShared()
    found = [shares.give(work)[0] for _ in range(4)]
    assert found.count("c") == 2
    assert shares.given["0"] == shares.ticks == 4


def test_an_exclusion_counts_where_its_buffer_is_touched() -> None:
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    held = Access(Buffer.STATE, "s8", 0, 128, 0, ((1, 512),))
    copy = Copy(engine="", source=held, target=held)
    found = shares_of(chip, [(copy, 3)])
    # the vector engine takes 512 reads at 2.5 cycles of the array, gpsimd and scalar at 2
    per = chip.period("pe_array")
    assert {name: set(ticks.values()) for name, ticks in found.items()} == {
        "vector": {3 * 1280 * per},
        "scalar": {3 * 1024 * per},
        "gpsimd": {3 * 1024 * per},
    }
    assert [len(found[name]) for name in ("vector", "scalar", "gpsimd")] == [2, 1, 2]


@pytest.mark.parametrize(("chip", "cycles"), [("neuroncore_v2", 62_804)])
def test_a_tile_is_cast_not_long_before_it_is_turned(chip: str, cycles: int) -> None:
    """Cast all at once, tiles lay in the banks of results, and it took 70,810 cycles."""
    result = systolic.run(relayout(*ROWS), chip, values=False)
    assert result.cycles == cycles
    copies = [each for each in result.compiled.program.instructions if isinstance(each, Copy)]
    casts = [number for number, each in enumerate(copies) if each.target.dtype == "bf16"]
    turned = [
        number for number, each in enumerate(copies) if reads(each)[0].buffer == "result_buffer"
    ]
    assert len(casts) == 32
    assert len(turned) == 128
    assert casts[-1] > turned[len(turned) // 4]
