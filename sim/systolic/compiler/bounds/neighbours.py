"""Which elements lie side by side after a move and lay apart before it, for bounds.

Elements lie side by side along one dimension, the most minor one, or along the second most minor
one if tiles put its rows side by side: T(8,128)(2,1). If that is another dimension before a move
than after it, neighbours of the result have been brought together. Neighbours of the source are not
counted: two long copies that overlap part as many of them as there are, if what the result has
beside them is padding. Where the compiler chooses which dimensions lie on the partitions, what is
found here holds for every choice: the most minor dimension never lies there. Not here: what it
costs (`systolic.hw.formulas.parts`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from systolic.compiler.bounds.matrix_tiles import matrix_tiles
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.hw.formulas.parts import GROUPS, Lines
from systolic.hw.spec import Chip
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class _Side:
    """The elements of a tensor that lie side by side.

    dim: the dimension along which they lie. run: so many of its indices at most. pitch: the fewest
    places in a partition from a row of it to the next. mixed: tiles put rows side by side.
    """

    dim: int
    run: int
    pitch: int
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """A step along a dimension of one shape, in another: `steps` along `dim`.

    within: that holds for so many steps from any multiple of that number on.
    """

    dim: int
    steps: int
    within: int


def parted_lines(
    source: Shape, result: Shape, axes: Sequence[int] | None, chip: Chip, *, outside: bool
) -> Iterator[Lines]:
    """Yield lines of the result whose neighbours lie apart in the source.

    axes: dimension i of the result is dimension axes[i] of the source; None: a reshape. outside:
    both lie in DRAM, else both on the chip, where a tensor without tiles may lie in blocks.
    """
    before, after = (_side(shape, chip, outside=outside) for shape in (source, result))
    if before is None or after is None:
        return
    step = _step(result, source, after.dim, axes)
    if step is None:
        return
    anywhere = outside or _never_as_far(source, result, before, step, chip)
    if lines := _lines(result, after, before, step, anywhere=anywhere):
        yield lines
    across = _step(result, source, result.layout.minor_to_major[0], axes)
    if after.mixed and across:
        whole = _whole_rows(result, source, (after, before), (step, across))
        if whole is not None:
            yield whole
    if outside and axes is not None and not (source.layout.tiles or result.layout.tiles):
        yield from _in_memory(source, result, axes)


def _side(shape: Shape, chip: Chip, *, outside: bool) -> _Side | None:
    """Return which elements lie side by side; None if tiles are others than a matrix has."""
    tiles = matrix_tiles(shape)
    if tiles is None or tiles.wide == 1:  # then nothing lies side by side
        return None
    minor, second, wide, deep = tiles
    if not wide:
        run = shape.dims[minor]
        if not outside:
            run = min(run, max(GROUPS), chip.state_buffer.partitions, chip.pe_array.cols)
        return _Side(minor, run, run) if run > 1 else None
    if deep == 1:
        return _Side(minor, wide, wide)
    return _Side(second, deep, deep * wide, mixed=True)


def _step(shape: Shape, other: Shape, dim: int, axes: Sequence[int] | None) -> _Step | None:
    """Return what a step along a dimension is in the other shape; None if it is no such step."""
    if axes is not None:
        return _Step(axes[dim], 1, shape.dims[dim])
    size, stride = shape.dims[dim], math.prod(shape.dims[dim + 1 :])
    for place, there in enumerate(other.dims):
        own = math.prod(other.dims[place + 1 :])
        steps, rest = divmod(stride, own)
        if rest or steps >= there:
            continue
        if steps < 1 or there % steps:
            return None
        within = min(there // steps, size)
        fits = size % within == 0 and there // steps % within == 0
        return _Step(place, steps, within) if fits else None
    return None


def _never_as_far(source: Shape, result: Shape, far: _Side, step: _Step, chip: Chip) -> bool:
    """Return whether no two elements of a line on the chip are as far apart in the source.

    Rows without tiles take one of p partitions each, in turn, and w places there. n steps of s rows
    end in the same partition if p divides n s, and then n s w / p places on: n places only if
    s w = p. A step in the order of memory is worth s w places at most if it goes from row to row.
    If it does not, it stays in its partition, and is worth two places there, or more. Where the
    result has tiles, rows of the source may end within a dimension, which is not counted.
    """
    if source.layout.tiles or result.layout.tiles:
        return False
    order = source.layout.minor_to_major
    worth = step.steps * math.prod(source.dims[axis] for axis in order[: order.index(step.dim)])
    return step.dim == far.dim or worth > chip.state_buffer.partitions


def _lines(shape: Shape, side: _Side, far: _Side, step: _Step, *, anywhere: bool) -> Lines | None:
    """Return the lines of one side whose units lie apart on the far side; None if they do not.

    anywhere: units that are any number of places apart do, not only those nearer than `far.pitch`.
    On the far side a step along another dimension than its neighbours' is of `far.run` places at
    least, or to another partition, or by whole rows of a partition, of `far.pitch` places each. So
    is a step by as many rows as tiles put side by side, or a multiple of them.
    """
    unit = 1
    whole_rows = far.mixed and not side.mixed and step.steps % far.run == 0
    if step.dim == far.dim and not whole_rows:
        if far.mixed and (side.mixed or step.steps > 1):
            return None
        if step.steps == 1:
            if not far.mixed:
                return None
            unit = far.run  # rows that tiles put side by side stay so
    size_bytes = data_type(shape.element_type).size_bytes * unit
    if size_bytes > PSUM_WORD_BYTES:
        return None
    cuts = {shape.dims[side.dim]}
    for length in (side.run, step.within):
        cuts |= {*range(0, shape.dims[side.dim], length)}
    places = sorted(cuts)
    counted = Counter((b - a) // unit for a, b in pairwise(places) if a % unit == 0)
    many = shape.num_elements() // shape.dims[side.dim] if shape.num_elements() else 0
    lengths = tuple((n, count * many) for n, count in sorted(counted.items()) if n > 1)
    reach = max(GROUPS) if anywhere else far.pitch // unit
    return Lines(lengths, size_bytes, reach) if lengths and many else None


def _in_memory(source: Shape, result: Shape, axes: Sequence[int]) -> Iterator[Lines]:
    """Yield lines of a result without tiles in DRAM that go on from one dimension to the next.

    From the last index along some dimensions to the first one, and on by one along the next, is a
    step of the same distance in the source everywhere. Lines end where it goes on by one place.
    """
    size_bytes = data_type(result.element_type).size_bytes
    far, step = dict[int, int](), 1
    for axis in source.layout.minor_to_major:
        far[axis], step = step, step * source.dims[axis]
    length, back = 1, 0
    for axis in result.layout.minor_to_major:
        size, onwards = result.dims[axis], far[axes[axis]]
        if size == 1:
            continue
        if onwards - back == 1:
            break
        length, back = length * size, back + (size - 1) * onwards
    if length > 1 and size_bytes <= PSUM_WORD_BYTES:
        yield Lines(((length, result.num_elements() // length),), size_bytes, 2)


def _whole_rows(
    shape: Shape, source: Shape, sides: tuple[_Side, _Side], steps: tuple[_Step, _Step]
) -> Lines | None:
    """Return lines of all elements of the rows that tiles put side by side, column by column.

    sides: of the shape, and of the source. steps: from row to row, and from column to column. The
    last row of a column and the first of the next are neighbours as well. In the source a step to
    another row is one to another partition, or by whole rows of a partition, so that no column
    makes one place of it. `_reach_of_rows` says how far apart elements may be.
    """
    (side, far), (down, across) = sides, steps
    minor, size_bytes = shape.layout.minor_to_major[0], data_type(shape.element_type).size_bytes
    deep, wide = side.run, side.pitch // side.run
    reach = _reach_of_rows(source, far, across, deep, wide)
    bent = across.dim == far.dim and across.steps > 1 and reach is None
    if far.mixed or down.dim == far.dim or bent or size_bytes > PSUM_WORD_BYTES:
        return None
    if down.within % deep and down.within < shape.dims[side.dim]:
        return None
    cuts = {shape.dims[minor]}
    for length in (wide, across.within):
        cuts |= {*range(0, shape.dims[minor], length)}
    counted = Counter((b - a) * deep for a, b in pairwise(sorted(cuts)))
    rows = math.prod(n for axis, n in enumerate(shape.dims) if axis not in (minor, side.dim))
    many = rows * (shape.dims[side.dim] // deep)
    lengths = tuple((n, count * many) for n, count in sorted(counted.items()) if n > 1)
    return Lines(lengths, size_bytes, reach or 2) if lengths and many else None


def _reach_of_rows(source: Shape, far: _Side, across: _Step, deep: int, wide: int) -> int | None:
    """Return how far apart in a line of `_whole_rows` no two elements were; None: not known.

    n columns on in a row are deep * n places, and steps * n in a row of the source that no tile
    breaks. Other rows of the source are in other partitions or by rows farther on, which is more if
    a row has more places than both together.
    """
    whole = across.steps == 1 and across.within == source.dims[far.dim] and far.run % wide == 0
    if across.dim != far.dim or across.steps == deep or (source.layout.tiles and not whole):
        return None
    width = far.pitch if source.layout.tiles else source.dims[far.dim]
    fits = [n for n in GROUPS if width > n + across.steps * (n // deep + 1)]
    return max(fits, default=None)
