"""Whether each element of a move on the chip needs a write of its own, for bounds.

Elements of one or two bytes may be copied as words of up to four bytes. An access names whole
words, each at a multiple of its bytes, and tensors begin at whole words. So a copy of a word leaves
each element at the place that it had within its word, and only a write that brings fewer elements
changes that. In the form of numbers: let s be the place of an element in its partition of the
source, r that in the result, and d = s - r.

*Two bytes.* If d is odd, a write brings the element alone. If it is even, the last write of the
element brings it alone, or in a word of the result, whose other element has an odd d.

*One byte.* If d is odd, a write brings the element alone. Of the others let those be set aside that
some write brings alone. Two of them that are ever in the same half of a word were so in the source.
One of two such neighbours has an odd d, so each of them is alone among its like in every half. If d
is no multiple of four, some write brings the element in a half. If it is, the last write of the
element brings it in a half, or in a word of the result, whose other three have other d.

So all these writes are different ones, if neighbours in the source do not differ in r modulo a
word, nor elements of a word of the result in s. That is so if s and r count the places in a word by
different digits of the index.

*Two bytes, with DMA.* Let W be the writes of engines, K the descriptors, and M the elements that
they move, an element again each time. Call x *moved* if a descriptor brings it, on its way from its
place to that in the result, and count, of each element that an engine brings, one write:

* If some write brings no other element on its way, that one, as a whole.
* Else, if x is not moved, its last write, as a whole. It fills a word of the result, and counts for
  no other element that is not moved: that would be in the same word, with an odd d.
* Else a half of one of its writes, of one that counts for no other as a whole, if there is any.

Let the third rule find none for y. Its last write brings some x to its place in the result, where x
stays. If y stayed as well, both were parts of one word of the result, and so of no word of the
source; then some write brought one of them into a word with the other, and not alone, so a
descriptor that ends between both: of such y there are 2 K. Else a descriptor moves y on, and copies
x as well, which is not moved, unless it begins or ends between both: again 2 K. So of U such y, all
but 4 K come with an element that M counts and that is not on its way. Of n elements let E be those
that only descriptors bring, and m be moved. Then W >= n - m + (m - E - U) / 2 and M >= m + U - 4 K,
so

    n <= W + M / 2 + E / 2 + 2 K

A program that interleaves rows reaches it: every second element of two rows comes in a word with
one of the other row, a descriptor copies the row of words to the place of the other row, and an
engine writes the rest: of n elements W = 3 n / 4, M = n / 2.

A write may change the type of a word on the way, or pass it through the array: it brings the same
elements. Not here: times (`systolic.hw.formulas.moves.copied_bound`,
`systolic.hw.formulas.parts.shared_bound`), and programs that calculate one word out of several or
take elements apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, product, starmap
from typing import NamedTuple

from systolic.compiler.bounds.matrix_tiles import matrix_tiles
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.hw.spec import Chip
from systolic.layout import Shape


class _Digit(NamedTuple):
    """The lowest values of an index along a dimension: `size` of them."""

    dim: int
    size: int


def moves_alone(source: Shape, result: Shape, axes: Sequence[int] | None, chip: Chip) -> bool:
    """Return whether elements that share words need a write each; False if that is not known.

    axes: dimension i of the result is dimension axes[i] of the source; None: a reshape. Both lie in
    the state buffer, where a tensor without tiles may lie in blocks of any rows.
    """
    places = PSUM_WORD_BYTES // data_type(source.element_type).size_bytes
    if places == 1:
        return False  # they share no words
    before, after = (_digits_in_word(shape, places, chip) for shape in (source, result))
    if before is None or after is None:
        return False
    if axes is not None:
        return not {digit.dim for digit in before} & {axes[digit.dim] for digit in after}
    ends = [(source, digit) for digit in before], [(result, digit) for digit in after]
    if any(shape.dims[digit.dim] % digit.size for shape, digit in chain(*ends)):
        return False  # the next row goes on within a word
    for (here, size), (there, other) in product(*([*starmap(_worth, end)] for end in ends)):
        if there % (here * size) and here % (there * other):
            return False
    return True


def _worth(shape: Shape, digit: _Digit) -> tuple[int, int]:
    """Return the elements of logical order from a value of a digit to the next, and its values."""
    return math.prod(shape.dims[digit.dim + 1 :]), digit.size


def _digits_in_word(shape: Shape, places: int, chip: Chip) -> list[_Digit] | None:
    """Return the digits that count the places in a word; None if none do so everywhere."""
    tiles = matrix_tiles(shape)
    if tiles is None:
        return None
    if not tiles.wide:
        blocks = (chip.state_buffer.partitions, chip.pe_array.cols)
        whole = all(size % places == 0 for size in (shape.dims[tiles.minor], *blocks))
        return [_Digit(tiles.minor, places)] if whole else None
    deep = tiles.deep
    if (deep % places and places % deep) or tiles.wide % places:
        return None
    found = [_Digit(tiles.second, min(deep, places)), _Digit(tiles.minor, max(1, places // deep))]
    return [digit for digit in found if digit.size > 1]
