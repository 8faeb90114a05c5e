"""Is an index read as it is written, by numbers or by the letters of seed 001?"""

from __future__ import annotations

import itertools

import pytest

from systolic.layout import LayoutError
from systolic.layout.text.index_text import read_index, read_numbers


def test_numbers_stand_in_the_order_of_the_dimensions() -> None:
    assert read_index("2, 3", 2) == (2, 3)
    assert read_index("", 0) == ()
    assert read_numbers("128,64") == (128, 64)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("x=7", (7,)),
        ("y=2 x=3", (2, 3)),
        ("x = 3, y = 2", (2, 3)),
        ("z=1 y=2 x=3", (1, 2, 3)),
        ("p=4,z=1,y=2,x=3", (4, 1, 2, 3)),
    ],
)
def test_letters_name_the_dimensions(text: str, index: tuple[int, ...]) -> None:
    assert read_index(text, len(index)) == index


def test_letters_may_stand_in_any_order() -> None:
    for order in itertools.permutations(("p=4", "z=1", "y=2", "x=3")):
        assert read_index(" ".join(order), 4) == (4, 1, 2, 3)


@pytest.mark.parametrize(
    ("text", "rank", "message"),
    [
        ("y=2", 2, 'an index of 2 dimensions is "y=.. x=..", found "y=2"'),
        ("y=2 y=3", 2, 'an index of 2 dimensions is "y=.. x=..", found "y=2 y=3"'),
        ("z=2 x=3", 2, 'an index of 2 dimensions is "y=.. x=..", found "z=2 x=3"'),
        ("y=2 3", 2, 'an index of 2 dimensions is "y=.. x=..", found "y=2 3"'),
        ("x=1", 5, "only the dimensions of arrays of one to 4 dimensions have letters, "
                   "found 5 dimensions"),
        ("x=1", 0, "only the dimensions of arrays of one to 4 dimensions have letters, "
                   "found 0 dimensions"),
        ("y x", 2, 'an index is numbers and commas, e.g. "2,3", or letters, e.g. "y=2 x=3", '
                   'found "y x"'),
    ],
)  # fmt: skip
def test_other_words_are_refused(text: str, rank: int, message: str) -> None:
    with pytest.raises(LayoutError) as refused:
        read_index(text, rank)
    assert str(refused.value) == message
