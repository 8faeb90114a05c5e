"""How the factors of a move lie on the chip: on partitions, along the address, tile by tile.

A tile of the source is brought with its rows on partitions; its columns lie in the source's order,
so that runs are long. A tile of the result lies with its own rows on partitions and its columns in
the result's order. Between them work the array, an engine, or nothing. Not here: estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from systolic.compiler.ir.factors import FactorPlaces, Move
from systolic.compiler.ir.strided import ShapeInDram, StridedShape
from systolic.isa.access import MAX_PAIRS


@dataclass(frozen=True)
class Arrangement:
    """The factors of a move by their numbers.

    batch: a tile for each of their indices. rows_in, rows_out: on the partitions of the tiles of
    the source and of the result. What follows from them is worked out once: estimates ask often.
    """

    move: Move
    batch: tuple[int, ...]
    rows_in: tuple[int, ...]
    rows_out: tuple[int, ...]

    @cached_property
    def cols_in(self) -> tuple[int, ...]:
        """Return the columns of a tile of the source, in the source's order."""
        return self._others(range(len(self.move.sizes)), self.rows_in)

    @cached_property
    def cols_out(self) -> tuple[int, ...]:
        """Return the columns of a tile of the result, in the result's order."""
        return self._others(self.move.order, self.rows_out)

    @property
    def brought(self) -> tuple[int, ...]:
        """Return the columns of a tile as it is brought: with the padding behind each element."""
        padding = (len(self.move.sizes),) if self.move.spaced > 1 else ()
        return (*self.cols_in, *padding)

    @cached_property
    def brought_sizes(self) -> tuple[int, ...]:
        """Return the indices of each factor with which tiles are brought, padding counted.

        The padding behind a factor joins runs if it lies within the columns of a tile.
        """
        if not self.move.gaps:
            return self.move.sizes
        within = self.cols_in[1:]
        pairs = enumerate(zip(self.move.sizes, self.move.gaps, strict=True))
        return tuple(size + (gap if n in within else 0) for n, (size, gap) in pairs)

    @property
    def source(self) -> ShapeInDram:
        """Return the source as a shape whose dimensions are the factors, as they are brought."""
        sizes, steps = self.brought_sizes, self.move.before.steps
        if sizes == self.move.sizes:
            return self.move.source
        if self.move.spaced > 1:
            sizes, steps = (*sizes, self.move.spaced), (*steps, 1)
        return StridedShape(self.move.dtype, sizes, steps)

    @cached_property
    def rest(self) -> tuple[int, ...]:
        """Return the factors on the address before and after."""
        return self._others(self.cols_in, self.rows_out)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the batch as axes of a matrix."""
        return tuple((number,) for number in self.batch)

    def count(self, factors: Sequence[int]) -> int:
        """Return how many indices factors have together."""
        sizes = self.move.sizes
        return math.prod([sizes[n] for n in factors])

    def count_brought(self, factors: Sequence[int]) -> int:
        """Return how many elements factors have together as they are brought, padding counted."""
        sizes = self.brought_sizes
        return math.prod([sizes[n] for n in factors]) * self.move.spaced

    def run_in(self, cols: Sequence[int]) -> int:
        """Return the elements of a run of the source whose columns on the chip are `cols`."""
        return _run(self.move.before, cols, self.brought_sizes, self.move.spaced)

    def run_out(self, cols: Sequence[int]) -> int:
        """Return the elements of a run of the result whose columns on the chip are `cols`."""
        return _run(self.move.after, cols, self.move.sizes)

    def engine_columns(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the columns of one engine copy, and the digits with a copy for each value.

        An access has few pairs; the smallest factors are left to copies of their own.
        """
        cols = list(self.cols_in)
        few = max(0, len(cols) - MAX_PAIRS)
        apart = sorted(cols, key=lambda n: self.move.sizes[n])[:few]
        return tuple(n for n in cols if n not in apart), tuple(n for n in cols if n in apart)

    def _others(self, order: Sequence[int], rows: tuple[int, ...]) -> tuple[int, ...]:
        taken = {*rows, *self.batch}
        return tuple([n for n in order if n not in taken])


def _run(places: FactorPlaces, cols: Sequence[int], sizes: Sequence[int], spaced: int = 1) -> int:
    run = 1
    for number, col in zip(reversed(places.order), reversed(cols), strict=False):
        if number != col or places.steps[number] != run * spaced:
            break
        run *= sizes[number]
    return run
