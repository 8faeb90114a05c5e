"""Are footprints the sets of bytes they stand for? Held against sets, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.isa import Access, Buffer, byte_bits
from systolic.isa.footprint import Footprint, _runs_meet_at, uncovered
from systolic.spans import Interval

pairs = st.lists(st.tuples(st.integers(-7, 7), st.integers(1, 4)), min_size=1, max_size=3)


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    dtype = draw(st.sampled_from(["f32", "bf16", "s8"]))
    pattern = tuple(draw(pairs))
    access = Access(
        Buffer.STATE, dtype, draw(st.integers(0, 3)), draw(st.integers(1, 3)), 0, pattern
    )
    room = -access.span.first // access.element_bytes
    first = draw(st.integers(room, room + 20)) * access.element_bytes
    return Access(Buffer.STATE, dtype, access.partition, access.partitions, first, pattern)


def as_set(access: Access) -> set[tuple[int, int]]:
    size = access.element_bytes
    lanes = range(access.partition, access.partition + access.partitions)
    places = access.offsets().tolist()
    return {(p, place * size + byte) for p in lanes for place in places for byte in range(size)}


@given(accesses())
@settings(max_examples=300, deadline=None)
def test_starts_and_runs(access: Access) -> None:
    footprint = Footprint.of(access)
    lanes = range(footprint.first, footprint.stop)
    found = {(p, s + b) for p in lanes for s in footprint.starts() for b in range(footprint.run)}
    assert found == as_set(access)
    assert footprint.is_dense == (len(footprint.starts()) == 1) or footprint.steps
    if not footprint.repeats:
        assert len(as_set(access)) == access.size_bytes


@given(accesses(), accesses())
@settings(max_examples=500, deadline=None)
def test_meeting_and_covering(one: Access, other: Access) -> None:
    first, second = Footprint.of(one), Footprint.of(other)
    assert first.meets(second) == second.meets(first) == bool(as_set(one) & as_set(other))
    if first.covers(second):
        assert as_set(other) <= as_set(one)
    if first.spans_all(second):
        assert {place for _, place in as_set(other)} <= {place for _, place in as_set(one)}


def test_a_regular_set_spans_what_takes_fewer_of_its_steps() -> None:
    """A part of the rows and columns of a picture, and what begins between them or goes beyond."""
    picture = Access(Buffer.STATE, "s8", 0, 1, 100, ((400, 5), (40, 6), (1, 24)))
    has = {place for _, place in as_set(picture)}
    spanned = 0
    for start in range(100, 1300, 4):
        for outer, rows, run in ((1, 1, 24), (2, 2, 20), (5, 6, 24), (3, 1, 8), (1, 4, 4)):
            part = Access(Buffer.STATE, "s8", 0, 1, start, ((400, outer), (40, rows), (1, run)))
            is_spanned = Footprint.of(picture).spans_all(Footprint.of(part))
            assert is_spanned == ({place for _, place in as_set(part)} <= has), part
            spanned += is_spanned
    assert spanned > 50


def test_a_dense_set_meets_what_has_a_run_where_it_lies() -> None:
    """Within runs, between them, behind the last of an inner step, and at both ends."""
    spread = Access(Buffer.STATE, "s8", 0, 1, 16, ((40, 3), (8, 3), (1, 2)))
    met = {
        (start, many): Footprint.of(dense).meets(Footprint.of(spread))
        for start in range(130)
        for many in range(1, 26)
        if (dense := Access(Buffer.STATE, "s8", 0, 1, start, ((1, many),)))
    }
    touched = {place for _, place in as_set(spread)}
    assert met == {(a, n): not touched.isdisjoint(range(a, a + n)) for a, n in met}


@pytest.mark.parametrize("most_bits", [byte_bits.MOST_BITS, 8, 0])
@given(accesses(), st.lists(accesses(), max_size=4), st.lists(accesses(), max_size=1))
@settings(max_examples=500, deadline=None)
def test_uncovered(
    most_bits: int, wanted: Access, covers: list[Access], within: list[Access]
) -> None:
    """By the bits of integers, by places one by one where sets are large, and by either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_bits, "MOST_BITS", most_bits)
        _hold_against_sets(wanted, covers, within)


@given(
    st.lists(st.tuples(st.sampled_from([0, 2, 4, 12, 20, 24, 60]), st.integers(1, 4)), max_size=6),
    st.integers(0, 3),
)
@settings(max_examples=300, deadline=None)
def test_uncovered_by_parts_of_a_picture(parts: list[tuple[int, int]], most: int) -> None:
    """Rows and columns of the same picture, which cover it together more often than not."""
    picture = Access(Buffer.STATE, "bf16", 0, 2, 40, ((12, 4), (1, 10)))
    covers = [
        Access(Buffer.STATE, "bf16", n % 2, 1 + most % 2, 40 + at, ((12, 5 - n), (1, 4 + most)))
        for at, n in parts
    ]
    _hold_against_sets(picture, covers, [])


def _hold_against_sets(wanted: Access, covers: list[Access], within: list[Access]) -> None:
    missing = as_set(wanted).difference(*map(as_set, covers))
    for access in within:
        missing &= as_set(access)
    found = uncovered(
        Footprint.of(wanted), [*map(Footprint.of, covers)], [*map(Footprint.of, within)]
    )
    assert (found is not None) == bool(missing)
    if found:
        lanes, places = zip(*missing, strict=True)
        assert tuple(found.partitions) == (min(lanes), max(lanes) + 1)
        low, high = found.bytes
        assert low <= min(places)
        assert max(places) < high


def test_very_large_sets_are_not_enumerated() -> None:
    many = tuple((1 << 20, 1 << 10) for _ in range(2))
    one = Footprint.of(Access(Buffer.DRAM, "f32", 0, 1, 0, ((1 << 31, 1 << 12), *many)))
    two = Footprint.of(Access(Buffer.DRAM, "f32", 0, 1, 2, ((1 << 33, 1 << 12), *many)))
    assert one.meets(two)
    assert uncovered(one, [two]) == one.region


@given(accesses(), accesses())
@settings(max_examples=300, deadline=None)
def test_meeting_where_steps_take_long(one: Access, other: Access) -> None:
    """Where too many sums of steps would have to be looked at, all runs are compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("systolic.isa.footprint._runs_meet_at", lambda *_: None)
        meets = Footprint.of(one).meets(Footprint.of(other))
    assert meets == bool(as_set(one) & as_set(other))


def test_sums_of_many_steps_are_not_all_looked_at() -> None:
    """Steps of nearly one length, whose sums lie close together: any of many may be the one."""
    steps = tuple((1 << 16) + (n << 4) for n in range(1, 9))
    ranges = tuple((step, 64) for step in steps)
    assert _runs_meet_at(1, ranges, 1, (), 3) is False  # all sums are even
    assert _runs_meet_at(1, ranges, 1, (), sum(steps) * 63) is True
    assert _runs_meet_at(1, ranges, 1, (), sum(steps) * 31 + 16) is None


def test_a_dense_set_of_any_size_is_told_exactly() -> None:
    half = 1 << 27
    whole = Footprint.of(Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 2 * half),)))
    lower, upper = (
        Footprint.of(Access(Buffer.DRAM, "f32", 0, 1, start, ((1, half - rest),)))
        for start, rest in ((0, 0), (4 * half, 1))
    )
    found = uncovered(whole, [lower, upper])
    assert found is not None
    assert found.bytes == Interval(8 * half - 4, 8 * half)
