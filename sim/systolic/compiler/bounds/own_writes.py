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

*One byte, with DMA.* W, K, M, E and *moved* as above, an engine's write *brings x alone* if it
brings no other element on its way, and let y and z be two places in one half of a word:

    n <= W + M / 2 + E / 2 + 3 K

Let a write of an engine have two points, an element that a descriptor moves one, each time, each of
E one more, and a descriptor six. Then two points for each element are to be found. What only
descriptors bring has those of M and E. What is not moved has a write, as without DMA: one that
brings it alone, else its last one of a half, else its last one, of a word of the result. Any other
x has its first point of M, and a second one so:

* If a write brings it alone, from that; a write of a byte still has the other point.
* Else, if it is ever brought in a half, from its last write of a half, unless z, beside it there,
  is not moved and has all of that write. If a descriptor moves x after that, let the first one not
  end between x and the place beside it. What it moves from there is not on its way, and leaves its
  point of M; or a write of a byte brought it beside x, and has a point; or a descriptor brought it,
  and ended between. If none moves x after that, one brought x beside z, and ended between.
* Else all its writes are of words. Let w be the last one, and Y all such elements whose last it is,
  which have its points unless z, which is not moved, has them. Y falls into groups: what a
  descriptor moves first, together, and what stays. Of a group that is moved on, all but one are
  moved twice: two that were not moved before w were neighbours in the source, and one distance
  brings no two of those home. Of what stays, all but one (or all, besides z) were brought together
  by a descriptor that ended between, or were moved twice: one descriptor brought them, into other
  places in their words than those from which they came, which are alike in a word of the result. So
  there is a point for all but one of each group, and for what stays beside z. If z is there, every
  descriptor that moves a group on moves z as well; if not, two groups have the points of w, and
  the first descriptors of the other ones, two at most, move elements of later groups as well. That
  leaves a point of M, unless the descriptor begins or ends between.

Where a descriptor begins or ends in its source, it costs a point at most; where it does in what it
writes, two: of two pairs of places in the word, if it ends in the middle. So six are enough.
Programs that interleave rows reach that, too, with words of two: W = 3 n / 4, M = n / 2.

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
