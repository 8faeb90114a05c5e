"""Which elements lie side by side in one of two memories and apart in the other, for bounds.

Elements lie side by side along one dimension, the most minor one, or along the second most minor
one if tiles put its rows side by side: T(8,128)(2,1). If that is another dimension before a move
than after it, neighbours are parted. Where the compiler chooses which dimensions lie on the
partitions, what is found here holds for every choice: the most minor dimension never lies there.
Not here: what it costs to part them (`systolic.hw.formulas.parts`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.hw.formulas.parts import GROUPS, Lines
from systolic.hw.spec import Chip
from systolic.layout import COMBINE, Shape

_PLANE = 2
"""The sizes of a tile that has rows and columns."""


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
    """Yield the neighbours of the result that lie apart in the source, and those of the source.

    axes: dimension i of the result is dimension axes[i] of the source; None: a reshape. outside:
    both lie in DRAM, else both on the chip, where a tensor without tiles may lie in blocks.
    """
    ends = [_side(shape, chip, outside=outside) for shape in (source, result)]
    before, after = ends
    if before is None or after is None:
        return
    for shape, other, side, far, back in (
        (result, source, after, before, axes),
        (source, result, before, after, None if axes is None else _inverse(axes)),
    ):
        step = _step(shape, other, side.dim, back)
        if step is not None and (lines := _lines(shape, side, far, step, outside=outside)):
            yield lines


def _side(shape: Shape, chip: Chip, *, outside: bool) -> _Side | None:
    """Return which elements lie side by side; None if tiles are others than a matrix has."""
    layout = shape.layout
    if shape.rank < _PLANE or layout.padded_dimensions is not None:
        return None
    minor, second = layout.minor_to_major[:_PLANE]
    sizes = [tile.dims for tile in layout.tiles]
    if not sizes:
        run = shape.dims[minor]
        if not outside:
            run = min(run, max(GROUPS), chip.state_buffer.partitions, chip.pe_array.cols)
        return _Side(minor, run, run) if run > 1 else None
    if any(len(each) != _PLANE or COMBINE in each for each in sizes) or len(sizes) > _PLANE:
        return None
    (tall, wide), (deep, one) = sizes[0], (sizes[1] if len(sizes) == _PLANE else (1, 1))
    if one != 1 or tall % deep or wide == 1:  # then nothing lies side by side
        return None
    if deep == 1:
        return _Side(minor, wide, wide)
    return _Side(second, deep, deep * wide, mixed=True)


def _inverse(axes: Sequence[int]) -> list[int]:
    return [list(axes).index(axis) for axis in range(len(axes))]


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


def _lines(shape: Shape, side: _Side, far: _Side, step: _Step, *, outside: bool) -> Lines | None:
    """Return the lines of one side whose units lie apart on the far side; None if they do not.

    On the far side a step along another dimension than its neighbours' is of `far.run` places at
    least, or to another partition, or by whole rows of a partition, of `far.pitch` places each.
    """
    unit = 1
    if step.dim == far.dim:
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
    reach = max(GROUPS) if outside else far.pitch // unit
    return Lines(lengths, size_bytes, reach) if lengths and many else None
