"""Is the value right? Copies in rounds that two engines share, cut where banks end."""

from __future__ import annotations

from random import Random

import pytest

from compiler.ir.test_copy_cuts import moved
from systolic.compiler.cost.bank_halves import in_bank_halves
from systolic.config import load_chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import Pattern
from systolic.shipped import CHIPS

HBM3 = load_chip(CHIPS / "hbm3_128x128.toml")
BANK = HBM3.state_buffer.bank_bytes


def lane_copy(source: tuple[int, Pattern], target: tuple[int, Pattern], lane: int = 0) -> Copy:
    ends = [Access(Buffer.STATE, "s32", lane, 1, *end) for end in (source, target)]
    return Copy(engine="activation", source=ends[0], target=ends[1])


def banks(access: Access) -> set[int]:
    return {access.span.first // BANK, (access.span.stop - 1) // BANK}


def test_what_goes_to_one_bank_is_read_from_both() -> None:
    """Each copy fills one bank of the target; the first turn of one engine is the other's last."""
    first, second = BANK - 4 * 512, 3 * BANK - 4 * 512
    into = [(second, ((1, 512),)), (second + 4 * 512, ((1, 512),))]
    copies = [lane_copy((first, ((2, 512),)), target, lane) for lane, target in enumerate(into)]
    halves = in_bank_halves(HBM3, copies)
    for copy, parts in zip(copies, halves, strict=True):
        there = [part for part in parts if part is not None]
        assert sorted(pair for part in there for pair in moved(part)) == sorted(moved(copy))
    for turn in (0, 2):
        mine, other = halves[0][turn], halves[1][turn + 1]
        assert mine is not None
        assert other is not None
        assert (mine.engine, other.engine) == ("activation", "pooling")
        assert banks(mine.source).isdisjoint(banks(other.source))
        assert banks(mine.target).isdisjoint(banks(other.target))


@pytest.mark.parametrize("seed", range(30))
def test_all_elements_are_copied_once(seed: int) -> None:
    rng = Random(seed)
    outer, inner = rng.randint(2, 9), rng.randint(2, 40)
    size = 4 * outer * inner
    patterns: list[Pattern] = [((1, outer * inner),), ((1, outer), (outer, inner))]
    ends = [(bank * BANK - rng.randrange(0, size + 4, 4), rng.choice(patterns)) for bank in (1, 4)]
    copy = lane_copy(*ends)
    for parts in in_bank_halves(HBM3, [copy]):
        there = [part for part in parts if part is not None]
        assert sorted(pair for part in there for pair in moved(part)) == sorted(moved(copy))
        assert all(len(banks(end)) == 1 for part in there for end in (part.source, part.target))


def test_nothing_is_cut_that_stays_in_one_bank_or_takes_three() -> None:
    across, small = (BANK - 64, ((1, 32),)), (0, ((1, 32),))
    wide: tuple[int, Pattern] = (0, ((BANK // 8, 32),))
    assert in_bank_halves(HBM3, [lane_copy(across, small)]) == []
    assert in_bank_halves(HBM3, [lane_copy(small, across)]) == []
    assert in_bank_halves(HBM3, [lane_copy(wide, across)]) == []
    assert in_bank_halves(HBM3, [lane_copy(across, (3 * BANK - 64, ((1, 32),)))]) != []


def test_elements_that_go_to_and_fro_over_the_end_of_a_bank_are_not_cut() -> None:
    """The digit that has the longest way has another one beside it that crosses the end, too."""
    across: tuple[int, Pattern] = (BANK - 4 * 20, ((16, 2), (1, 8)))
    uneven: tuple[int, Pattern] = (3 * BANK - 4 * 8, ((1, 16),))
    assert in_bank_halves(HBM3, [lane_copy(across, uneven)]) == []
