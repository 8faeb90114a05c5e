"""Tiles and tasks: the second pass (`tile`) makes them of nodes.

A tile T(p,q) has p partitions and q columns, the same for all matrices of a compilation. It is
brought, kept and thrown away as one. A task is work of the array or of an engine for which all of
its tiles are in the state buffer together. Dependencies between tasks follow from the tiles that
they read and write.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from systolic.compiler.ir.nodes import Matrix, Node
from systolic.layout import Decomposition, Shape, decompose
from systolic.spans import Span

Outer = Literal["stationary", "moving"]


class MatrixTile(NamedTuple):
    """A tile of a matrix: number of the matrix in its batch, block row, block column."""

    matrix: str
    number: int
    row: int
    col: int

    def __str__(self) -> str:
        return f"{self.matrix}[{self.number};{self.row},{self.col}]"


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of a node.

    multiply: `rows` of the contraction for the stationary columns `cols` and the moving columns
    `moving`, all sums side by side; `first` and `last`: it begins, or completes, the sums. Without
    `rows` it only fills a part of the result where the step, a select, takes no sums. turn:
    `rows` x `cols` sub-blocks of the tile it reads. move: the elements that one tile has of
    another. gather: what `rows` x `cols` of a result have of the `number`-th part, of the tile it
    reads if it reads one. convert: `rows` x `cols` of the result. bounce, reduce, pool, repeat,
    unpack, pack and store: one whole tile. copy: the `number`-th part of all bytes. Tiles of the
    further operands of a step are read as well.

    engine: which engine is to do an engine's part of it, "" if it need not be a certain one.
    """

    kind: type[Node]
    node: int
    reads: tuple[MatrixTile, ...]
    writes: tuple[MatrixTile, ...]
    number: int = 0
    rows: tuple[Span, ...] = ()
    cols: tuple[Span, ...] = ()
    moving: tuple[Span, ...] = ()
    first: bool = True
    last: bool = True
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Loops:
    """How a product is run: the sums that stand in the result buffer at once, and their order.

    group: stationary tiles x chunks of moving vectors whose sums accumulate side by side;
    chunk: vectors of one multiply (they fill one bank at most); outer: the slower loop. by_rows:
    how many blocks of stationary columns are multiplied before all others, with the vectors of one
    block's rows at a time.
    """

    group: tuple[int, int]
    chunk: int
    outer: Outer
    estimate: int
    by_rows: int = 0


@dataclass(frozen=True, slots=True)
class Tiled:
    """The result of the second pass: the tile T(p,q), loops by node, tasks in order.

    waited_columns: what takes a part of a product's tile need only wait for this many columns (0:
    for as many as one bank holds).
    """

    block: tuple[int, int]
    loops: tuple[tuple[int, Loops], ...]
    tasks: tuple[Task, ...]
    waited_columns: int = 0


def tiling(matrix: Matrix, block: tuple[int, int]) -> Decomposition:
    """Return the matrix as a layout in tiles: its own tiles, or T(p,q) of `block`."""
    return _tiling(matrix.dtype, matrix.dims, matrix.block or block)


@lru_cache(maxsize=4096)
def _tiling(dtype: str, dims: tuple[int, ...], block: tuple[int, int]) -> Decomposition:
    """Return a tiling: matrices of equal size, and all plans of a graph, share it."""
    return decompose(Shape(dtype, dims), block)
