"""Tensors of whose rows several share a partition, column by column: T(8,128)(2,1) and its like.

Such a tensor lies in a matrix of unbroken rows, the holder. Where two rows share a partition, the
holder's columns 0, 2, 4, ... hold the even rows of the tensor, and its columns 1, 3, 5, ... the odd
rows. A *strand* is all the rows that such columns hold. An access with a step reaches a strand, so
an engine and the array take it as any other matrix. A plain matrix is one strand. Not here: when a
tensor lies so (`ir.on_chip.homes`), and views (`builder`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from systolic.compiler.ir.nodes import Axes, Matrix


@dataclass(frozen=True, slots=True)
class Strands:
    """A tensor seen as `axes`, whose row r is in row r // `ways` of the holder.

    rows: of the tensor. Column c of row r is the holder's column c * `ways` + r mod `ways`.
    """

    holder: Matrix
    axes: Axes
    ways: int
    rows: int

    @property
    def cols(self) -> int:
        """Return how many columns the tensor has."""
        return self.holder.cols // self.ways

    def part(self, row: int, col: int = 0, every: int = 1) -> StrandPart:
        """Return the rows of a strand; every `every`-th of their columns, from `col` on."""
        return StrandPart(
            -(-(self.rows - row) // self.ways),
            -(-(self.cols - col) // every),
            col * self.ways + row,
            self.ways * every,
        )


@dataclass(frozen=True, slots=True)
class StrandPart:
    """Rows and columns, and the holder's columns in which they lie: a first one and a step."""

    rows: int
    cols: int
    first: int
    step: int


def turned_parts(source: Strands, target: Strands) -> Iterator[tuple[StrandPart, StrandPart]]:
    """Yield the parts of a tensor, and of its transpose, that one product with an identity turns.

    The rows of the transpose are the columns of the source: a strand of them has, at one step, some
    of these columns.
    """
    for row in range(min(source.ways, source.rows)):
        for col in range(min(target.ways, target.rows)):
            yield source.part(row, col, target.ways), target.part(col, row, source.ways)
