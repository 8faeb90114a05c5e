"""Which writers does a reader wait for? Regions whose pieces are waited for by themselves."""

from __future__ import annotations

from systolic.compiler.ir.dependencies import Region
from systolic.spans import Interval

FIRST, SECOND = Interval(0, 8), Interval(64, 72)


def in_two_pieces() -> Region:
    """Return a region of which a first phase has written the beginning of both pieces."""
    region = Region("tile", place=Interval(0, 128), piece_bytes=64)
    region.write(0, "activation", touched=FIRST)
    region.write(1, "activation", touched=SECOND)
    return region


def test_a_reader_waits_for_the_writers_of_its_piece() -> None:
    region = in_two_pieces()
    assert [ref.step for ref in region.read(9, "pe_array", touched=FIRST)] == [0]
    assert [ref.step for ref in region.read(9, "pe_array", touched=SECOND)] == [1]


def test_of_bytes_of_an_earlier_phase_a_writer_of_the_same_piece_is_waited_for() -> None:
    """It has waited for that phase itself. The other piece may take much longer."""
    region = in_two_pieces()
    region.end_phase()
    assert [ref.step for ref in region.write(2, "activation", touched=Interval(8, 16))] == [0, 1]
    region.write(3, "pooling", touched=SECOND)
    assert [ref.step for ref in region.read(9, "pe_array", touched=FIRST)] == [2]


def test_all_writers_are_waited_for_if_none_is_of_the_same_piece() -> None:
    region = in_two_pieces()
    region.end_phase()
    region.write(2, "activation", touched=SECOND)
    region.write(3, "pooling", touched=SECOND)
    assert [ref.step for ref in region.read(9, "pe_array", touched=FIRST)] == [2, 3]


def test_a_reader_behind_the_end_of_a_phase_waits_for_all_of_it() -> None:
    region = in_two_pieces()
    region.end_phase()
    assert [ref.step for ref in region.read(9, "pe_array", touched=FIRST)] == [0, 1]
