"""Do sums of several groups keep their banks while they grow?"""

from __future__ import annotations

from support.chips import ideal_chip
from systolic.compiler.schedule.sums import SumBanks


def test_banks_of_several_groups_of_sums_are_apart_until_each_ends():
    sums = SumBanks(ideal_chip(4, 4), 512)
    one = sums.grow((0, 0, 0, 0), first=True, last=False)
    other = sums.grow((1, 0, 0, 0), first=True, last=False)
    others = [sums.free() for _ in range(16)]
    assert sums.grow((0, 0, 0, 0), first=False, last=False) == one
    assert len({one, other}) == 2
    assert {one, other}.isdisjoint(others)
    assert sums.grow((0, 0, 0, 0), first=False, last=True) == one
    again = [sums.free() for _ in range(16)]
    assert one in again
    assert other not in again
