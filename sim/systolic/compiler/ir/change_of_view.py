"""The place of each element of a tensor seen as matrices, and the pieces of a change of view.

A change of view is cut into pieces. A piece is as many elements as one instruction can move: a
rectangle of the target's rows and columns that comes from one regular pattern of the source. Not
here: tiles, buffers and instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.isa.access import Pattern
from systolic.spans import Interval, Span

MOST_PAIRS = 4
"""The most [step, count] pairs that an access has."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A tensor of `dims` seen as [batch..., rows, columns], each made of axes of the tensor."""

    dims: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]

    def sizes(self) -> tuple[int, int, int]:
        """Return how many matrices there are, and their rows and columns."""
        *batch, rows, cols = (math.prod(self.dims[a] for a in group) for group in self.axes)
        return math.prod(batch), rows, cols

    def starts(self, count: int) -> Integers:
        """Return the row-major index of the first element of each of the first `count` matrices."""
        batch = tuple(axis for group in self.axes[:-2] for axis in group)
        return self._linear(batch, np.arange(count))

    def logical(self, number: int, rows: Span, cols: Span) -> Integers:
        """Return the row-major index of each element of a block, int64 [rows, columns]."""
        *batch, row, col = self.axes
        start = self._linear(tuple(a for group in batch for a in group), np.asarray([number]))
        down = self._linear(row, rows.first + np.arange(rows.count))
        across = self._linear(col, cols.first + np.arange(cols.count))
        found: Integers = start + down[:, None] + across[None, :]
        return found

    def locate(self, logical: Integers) -> tuple[Integers, Integers, Integers]:
        """Return number of the matrix, row and column of elements given by row-major index."""
        *batch, row, col = self.axes
        groups = (tuple(a for group in batch for a in group), row, col)
        number, down, across = (self._within(logical, group) for group in groups)
        return number, down, across

    def _stride(self, axis: int) -> int:
        return math.prod(self.dims[axis + 1 :])

    def _linear(self, group: Sequence[int], numbers: npt.NDArray[Any]) -> Integers:
        if not group:
            return np.zeros(len(numbers), np.int64)
        parts = np.unravel_index(numbers, [self.dims[a] for a in group])
        total: Integers = sum(
            part.astype(np.int64) * self._stride(axis)
            for axis, part in zip(group, parts, strict=True)
        )  # type: ignore[assignment]
        return total

    def _within(self, logical: Integers, group: Sequence[int]) -> Integers:
        found = np.zeros_like(logical)
        for axis in group:
            found = found * self.dims[axis] + logical // self._stride(axis) % self.dims[axis]
        return found


class Seen(Protocol):
    """A tensor seen as matrices: a `Spread`, or the places of its tiles (`homes.Scattered`)."""

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the tensor."""

    def sizes(self) -> tuple[int, int, int]:
        """Return how many matrices there are, and their rows and columns."""

    def logical(self, number: int, rows: Span, cols: Span) -> Integers:
        """Return the row-major index of each element of a block, -1 where there is none."""

    def locate(self, logical: Integers) -> tuple[Integers, Integers, Integers]:
        """Return number of the matrix, row and column of elements given by row-major index."""


@dataclass(frozen=True, slots=True)
class ChangeOfView:
    """The same elements, in row-major order, seen in two ways (of one tensor, or of a reshape)."""

    source: Seen
    target: Seen


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows and columns of a target that come from `pairs` of each of some rows of a source.

    Elements are taken row by row on both sides; pairs are (step, count) of source columns.
    runs: (step, count) of the target's runs of `cols` neighbouring columns, outermost first.
    """

    row: int
    rows: int
    col: int
    cols: int
    source_row: int
    source_rows: int
    source_col: int
    pairs: Pattern
    runs: Pattern = ()

    @property
    def run(self) -> int:
        """Return how many elements are contiguous on both sides."""
        step, count = self.pairs[-1]
        return min(count, self.cols) if step == 1 else 1

    @property
    def columns(self) -> int:
        """Return how many columns of the target the piece has."""
        return self.cols * math.prod(count for _, count in self.runs)

    @property
    def into(self) -> Pattern:
        """Return the target's columns as (step, count), counted from the first."""
        return (*self.runs, (1, self.cols)) if self.cols > 1 or not self.runs else self.runs

    def target_columns(self) -> Integers:
        """Return the columns of the target, int64."""
        found = np.full(1, self.col, np.int64)
        for step, count in (*self.runs, (1, self.cols)):
            found = (found[:, None] + step * np.arange(count)).ravel()
        return found

    def taller(self, rows: int) -> Piece:
        """Return the piece with `rows` rows more, which come from as many rows of the source."""
        return replace(self, rows=self.rows + rows, source_rows=self.source_rows + rows)


@dataclass(frozen=True, slots=True)
class _RowStretch:
    """A stretch of one target row: columns, the source's rows, and pairs in each of them."""

    col: int
    cols: int
    rows: int
    pairs: Pattern


def pieces(rows: Integers, cols: Integers, here: npt.NDArray[np.bool_]) -> list[Piece]:
    """Return the pieces of a block, whose element (r, c) comes from rows[r, c], cols[r, c].

    Elements that are not `here` belong to no piece.
    """
    down, across = (np.flatnonzero(here.any(axis=axis)) for axis in (1, 0))
    if not len(down):
        return []
    row, col = int(down[0]), int(across[0])
    taken = np.s_[row : down[-1] + 1, col : across[-1] + 1]
    found = _of_all_rows(rows[taken], cols[taken], here[taken])
    return [replace(piece, row=piece.row + row, col=piece.col + col) for piece in found]


def _of_all_rows(rows: Integers, cols: Integers, here: npt.NDArray[np.bool_]) -> list[Piece]:
    """Return the pieces of a block whose first and last rows and columns have elements `here`."""
    done: list[Piece] = []
    open_: dict[_RowStretch, Piece] = {}
    known: dict[bytes, tuple[_RowStretch, ...]] = {}
    below, stretches = _lies_below(rows, cols, here), _stretches(here)
    steps = np.diff(rows, axis=1), np.diff(cols, axis=1)
    row = 0
    while row < rows.shape[0]:
        fresh: dict[_RowStretch, Piece] = {}
        for stretch in stretches(row):
            a, b = (index[row, stretch.first : stretch.stop] for index in (rows, cols))
            down, across = (step[row, stretch.first : stretch.stop - 1] for step in steps)
            for part in _parts((a, b), (down, across), known):
                at = part.col
                moved = _RowStretch(stretch.first + part.col, part.cols, part.rows, part.pairs)
                piece = Piece(
                    row, 1, moved.col, part.cols, int(a[at]), part.rows, int(b[at]), part.pairs
                )
                before = open_.pop(moved, None)
                joined = _joined(before, piece, part) if before else None
                if before and not joined:
                    done.append(before)
                fresh[moved] = joined or piece
        done += open_.values()
        open_, row = fresh, row + 1
        if below[row] and all(piece.rows == piece.source_rows for piece in open_.values()):
            more = below.index(False, row) - row
            open_ = {key: piece.taller(more) for key, piece in open_.items()}
            row += more
    return _at_steps([*done, *open_.values()])


def _at_steps(found: Sequence[Piece]) -> list[Piece]:
    """Return pieces; pieces of the same rows that follow one another at steps are one.

    An engine copies them by one instruction. Pieces whose rows are spread or gathered stay apart.
    """
    alike: dict[Piece, list[Piece]] = {}
    for piece in found:
        key = replace(piece, col=0, source_col=0) if piece.rows == piece.source_rows else piece
        alike.setdefault(key, []).append(piece)
    if len(alike) == len(found):
        return list(found)
    return [piece for group in alike.values() for piece in _in_series(group)]


def _in_series(group: Sequence[Piece]) -> Sequence[Piece]:
    """Return pieces that differ in their columns only; those at equal distances are one.

    A series of series is one piece too, as long as both sides have few enough pairs.
    """
    ordered: Sequence[Piece] = sorted(group, key=lambda piece: piece.col)
    while True:
        joined = [piece for series in _series(ordered) for piece in _as_one(series)]
        if len(joined) == len(ordered):
            return joined
        ordered = joined


def _series(ordered: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield lists of neighbours of equal shape, each at the same distance from the one before."""
    series: list[Piece] = []
    distance: tuple[int, int] | None = None
    for piece in ordered:
        if series:
            first, last = series[0], series[-1]
            gap = piece.col - last.col, piece.source_col - last.source_col
            alike = (piece.cols, piece.pairs, piece.runs) == (first.cols, first.pairs, first.runs)
            if alike and distance in (None, gap):
                distance = gap
            else:
                yield series
                series, distance = [], None
        series.append(piece)
    yield series


def _as_one(series: Sequence[Piece]) -> Sequence[Piece]:
    """Return a series as one piece, or as it is if an access would need too many pairs."""
    first, *others = series
    if not others:
        return series
    count, step = len(series), others[0].col - first.col
    there = others[0].source_col - first.source_col
    inner = first.pairs if first.pairs != ((1, 1),) else ()
    piece = replace(first, pairs=((there, count), *inner), runs=((step, count), *first.runs))
    return [piece] if max(len(piece.pairs), len(piece.into)) <= MOST_PAIRS else series


def _lies_below(rows: Integers, cols: Integers, here: npt.NDArray[np.bool_]) -> list[bool]:
    """Return, of each row and the one behind the last, whether it comes from right below another.

    That other one is the row before, if the same elements of it are here.
    """
    same = (here[1:] == here[:-1]) & ~here[1:]
    same |= here[1:] & here[:-1] & (rows[1:] == rows[:-1] + 1) & (cols[1:] == cols[:-1])
    return [False, *same.all(axis=1).tolist(), False]


def _stretches(here: npt.NDArray[np.bool_]) -> Callable[[int], Iterator[Interval]]:
    """Return a function that gives the intervals of columns of a row that are `here`."""
    edge = np.zeros((len(here), 1), np.int8)
    rows, edges = np.nonzero(np.diff(np.hstack([edge, here.astype(np.int8), edge]), axis=1))
    starts = np.searchsorted(rows, np.arange(len(here) + 1)).tolist()

    def of_row(row: int) -> Iterator[Interval]:
        own = edges[starts[row] : starts[row + 1]].tolist()
        return map(Interval, own[::2], own[1::2])

    return of_row


def _parts(
    places: tuple[Integers, Integers],
    steps: tuple[Integers, Integers],
    known: dict[bytes, tuple[_RowStretch, ...]],
) -> Sequence[_RowStretch]:
    """Return a stretch as parts that one access each can name.

    places: row and column of each element's source. steps: from each element to the next.
    """
    down, across = steps
    key = down.tobytes() + across.tobytes()
    if key not in known:
        lines = list(_lines(down.tolist(), across.tolist()))
        rows, cols = places
        known[key] = tuple(_repeated(lines, rows - rows[0], cols - cols[0]))
    return known[key]


def _lines(down: list[int], across: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (first, count, step) of elements in one source row at one distance."""
    first, size = 0, len(down) + 1
    while first < size:
        stop, step = first + 1, 1
        if stop < size and down[first] == 0:
            step = across[first]
            while stop < size and down[stop - 1] == 0 and across[stop - 1] == step:
                stop += 1
        yield first, stop - first, step
        first = stop


def _repeated(
    lines: list[tuple[int, int, int]], rows: Integers, cols: Integers
) -> Iterator[_RowStretch]:
    """Yield lines; equal lines in consecutive rows, or at one distance in a row, are joined."""
    at = 0
    while at < len(lines):
        first, count, step = lines[at]
        stop = at + 1
        jump = _jump(lines, at, rows, cols)
        while jump and stop < len(lines) and _jump(lines, stop - 1, rows, cols) == jump:
            stop += 1
        times = stop - at
        pairs: Pattern = ((step, count),)
        if times == 1:
            yield _RowStretch(first, count, 1, pairs)
        elif jump == (1, 0):
            yield _RowStretch(first, count * times, times, pairs)
        else:
            assert jump is not None
            yield _RowStretch(first, count * times, 1, ((jump[1], times), *pairs))
        at = stop


def _jump(
    lines: list[tuple[int, int, int]], at: int, rows: Integers, cols: Integers
) -> tuple[int, int] | None:
    """Return the distance from a line to the next, if both are alike and may be joined."""
    if at + 1 >= len(lines) or lines[at][1:] != lines[at + 1][1:]:
        return None
    here, there = lines[at][0], lines[at + 1][0]
    jump = int(rows[there] - rows[here]), int(cols[there] - cols[here])
    return jump if jump == (1, 0) or jump[0] == 0 else None


def _joined(before: Piece, piece: Piece, part: _RowStretch) -> Piece | None:
    """Return a piece with the next row's same columns added, if one access can name both."""
    last_row = before.row + before.rows
    if last_row != piece.row:
        return None
    columns = part.cols
    follows = (before.source_row + before.source_rows, before.source_col)
    if (
        before.source_rows == before.rows * part.rows
        and before.pairs == part.pairs
        and (piece.source_row, piece.source_col) == follows
    ):
        return Piece(
            before.row,
            before.rows + 1,
            before.col,
            columns,
            before.source_row,
            before.source_rows + part.rows,
            before.source_col,
            part.pairs,
        )
    if part.rows > 1 or piece.source_row != before.source_row or before.source_rows > 1:
        return None
    step = piece.source_col - before.source_col
    if before.rows > 1:
        (step, times), step_now = before.pairs[0], step
        if before.pairs[1:] != part.pairs or step_now != step * times:
            return None
    elif len(part.pairs) == MOST_PAIRS:
        return None
    return Piece(
        before.row,
        before.rows + 1,
        before.col,
        columns,
        before.source_row,
        1,
        before.source_col,
        ((step, before.rows + 1), *part.pairs),
    )
