"""Instructions of the array: loads of weights, and products with them."""

from __future__ import annotations

from dataclasses import dataclass

from systolic.hw.datatypes import data_type
from systolic.isa.access import Access
from systolic.isa.array_tile import ArrayTile
from systolic.isa.instruction.posts import Post, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWeights:
    """Load a K x N tile of stationary weights: K partitions, N elements each (state buffer)."""

    weights: Access
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return "pe_array"

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that is loaded; None: the array is one."""
        return None

    @property
    def rows_per_pe(self) -> int:
        """Return how many rows of the stationary matrix a PE holds."""
        return 1

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `weights` go to a PE."""
        return self.rows_per_pe

    @property
    def columns(self) -> int:
        """Return N, the columns of weights that are loaded."""
        return self.weights.elements // self.elements_per_pe


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul:
    """Stream M moving vectors (K partitions, M elements each) through the loaded weights.

    result: N partitions of the result buffer, M words each, in one bank. With accumulate, the
    column sum is added to the stored word. Without a LoadWeights since the MatMul before, the
    weights are reused.
    """

    moving: Access
    result: Access
    accumulate: bool = False
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return "pe_array"

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that multiplies; None: the array is one."""
        return None

    @property
    def rows_per_pe(self) -> int:
        """Return how many moving values a PE takes of each vector."""
        return 1

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `moving` a PE takes of each vector."""
        return self.rows_per_pe

    @property
    def vectors(self) -> int:
        """Return M, the number of moving vectors."""
        return self.moving.elements // self.elements_per_pe


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThrough(MatMul):
    """A MatMul that passes weights on with all their bits, and neither multiplies nor adds.

    A PE whose moving element is not 0 sends its weight down in place of the sum that came from
    above, every other PE sends that on. So an identity as moving vectors turns the weights.
    result: of the weights' type; an element takes a word, its upper bits are 0. Nothing is added:
    accumulate is False.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDoubleRow(LoadWeights):
    """A LoadWeights of 2 K rows into K rows of PEs: each PE holds two of a column.

    weights: K partitions, 2 N elements each; two that follow one another are of one column, the
    first of row 2 r, the second of row 2 r + 1.
    """

    @property
    def rows_per_pe(self) -> int:
        """Return how many rows of the stationary matrix a PE holds."""
        return 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulDoubleRow(MatMul):
    """A MatMul of vectors of 2 K elements: a PE multiplies two pairs in the time of one.

    moving: K partitions, 2 M elements each; two that follow one another are of one vector. A PE
    adds the product of its first row to the sum from above, then the product of its second row.
    """

    @property
    def rows_per_pe(self) -> int:
        """Return how many moving elements a PE takes of each vector."""
        return 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTile(LoadWeights):
    """A LoadWeights of one tile of the array; tiles without a PE in common keep their weights.

    tile_size: rows and columns. tile_position: its first row and column in the array, multiples of
    them. weights: K partitions from that row on, K and N no more than the tile's rows and columns.
    """

    tile_size: tuple[int, ...]
    tile_position: tuple[int, ...]

    @property
    def tile(self) -> ArrayTile:
        """Return the tile of the array that is loaded."""
        return ArrayTile.at(self.tile_position, self.tile_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulTile(MatMul):
    """A MatMul on one tile of the array, beside those on other tiles.

    tile_size, tile_position: of the LoadTile whose weights it takes. moving: K partitions
    from the tile's first row on. result: N partitions from the tile's first column on.
    """

    tile_size: tuple[int, ...]
    tile_position: tuple[int, ...]

    @property
    def tile(self) -> ArrayTile:
        """Return the tile of the array that multiplies."""
        return ArrayTile.at(self.tile_position, self.tile_size)


MX_ROWS = 4
"""Rows of the contraction that a PE has of an MX product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMx(LoadWeights):
    """A LoadWeights of 4 K rows into K rows of PEs, of numbers that share scales (OCP MX).

    weights: K partitions, 4 N elements each, or N of a type that packs four; four that follow one
    another are of one column, of rows 4 r to 4 r + 3. scales: a scale for each column and group of
    8 partitions, N elements in each partition (`systolic.isa.scales`). tile_size, tile_position: a
    tile of whole rows of the array, as of LoadTile; empty: all of it.
    """

    scales: Access
    tile_size: tuple[int, ...] = ()
    tile_position: tuple[int, ...] = ()

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that is loaded; None: the array is one."""
        return ArrayTile.at(self.tile_position, self.tile_size) if self.tile_size else None

    @property
    def rows_per_pe(self) -> int:
        """Return how many rows of the stationary matrix a PE holds."""
        return MX_ROWS

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `weights` go to a PE."""
        return MX_ROWS // data_type(self.weights.dtype).packed


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulMx(MatMul):
    """A MatMul of vectors of 4 K numbers that share scales: a PE multiplies four pairs at a time.

    moving: K partitions, 4 M elements each, or M of a type that packs four; four that follow one
    another are of one vector. scales: a scale for each vector and group of 8 partitions. Each
    number is taken to float32 times its scale. A PE adds the product of its first row to the sum
    from above, then of its second, third and fourth. tile_size, tile_position: of the
    LoadMx.
    """

    scales: Access
    tile_size: tuple[int, ...] = ()
    tile_position: tuple[int, ...] = ()

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that multiplies; None: the array is one."""
        return ArrayTile.at(self.tile_position, self.tile_size) if self.tile_size else None

    @property
    def rows_per_pe(self) -> int:
        """Return how many moving values a PE takes of each vector."""
        return MX_ROWS

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `moving` a PE takes of each vector."""
        return MX_ROWS // data_type(self.moving.dtype).packed
