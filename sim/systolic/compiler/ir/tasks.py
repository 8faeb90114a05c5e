"""Tiles and tasks: what the second pass (`cut`) makes of nodes.

A tile T(p,q) is what is moved, kept or thrown away as one: p partitions, q columns, the same for
all matrices of a compilation. A task is what the array or an engine does between two looks at
where tiles are. Dependencies between tasks follow from the tiles they read and write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from systolic.compiler.cost.products import Loops
from systolic.compiler.ir.nodes import Layers, Matrix
from systolic.compiler.options import Options
from systolic.errors import CompileError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.layout import Decomposition, Shape, decompose

LARGEST_COLUMNS = 1024
FEWEST_TILES = 4
"""Of the largest matrix: with fewer, loading, work and storing hardly overlap."""

Span = tuple[int, int]
"""First index and how many."""


class Tile(NamedTuple):
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
    `moving`, all sums side by side; `first` and `last` of a sum. turn: `rows` x `cols` sub-blocks
    of the tile it reads. move: what one tile has of another. bounce, convert and store: one whole
    tile.
    """

    kind: Literal["multiply", "turn", "bounce", "move", "convert", "store"]
    node: int
    reads: tuple[Tile, ...]
    writes: tuple[Tile, ...]
    number: int = 0
    rows: tuple[Span, ...] = ()
    cols: tuple[Span, ...] = ()
    moving: tuple[Span, ...] = ()
    first: bool = True
    last: bool = True


@dataclass(frozen=True, slots=True)
class Tiled:
    """The result of the second pass: the tile T(p,q), loops by node, tasks in order."""

    block: tuple[int, int]
    loops: tuple[tuple[int, Loops], ...]
    tasks: tuple[Task, ...]


def tiling(matrix: Matrix, block: tuple[int, int]) -> Decomposition:
    """Return the matrix cut into tiles, as the layouts say it: its own, or T(p,q) of `block`."""
    return decompose(Shape(matrix.dtype, matrix.dims), matrix.block or block)


def turn_rows(matrix: Matrix, block: tuple[int, int], chip: Chip) -> list[int]:
    """Return the boundaries of the rows of a matrix that an identity product takes together."""
    p, _ = matrix.block or block
    return [0, *(r + n for r, n in spans(0, matrix.rows, p, min(chip.pe_array.rows, p)))]


def k_tiles(chip: Chip, K: int) -> list[int]:
    """Return the boundaries of the K-tiles of a contraction: at most R rows, none across blocks."""
    bounds = [0]
    for _, rows in spans(0, K, block_rows(chip), min(chip.pe_array.rows, block_rows(chip))):
        bounds.append(bounds[-1] + rows)
    return bounds


def block_rows(chip: Chip) -> int:
    """Return p: as many partitions as whole K-tiles fill."""
    rows = min(chip.pe_array.rows, chip.state_buffer.partitions)
    return chip.state_buffer.partitions // rows * rows


def tile_columns(layers: Layers, chip: Chip, options: Options, room_bytes: int) -> int:
    """Return q: as wide as long runs in DRAM ask for, but so that a task's tiles fit twice.

    room_bytes: of each partition of the state buffer, to be planned with.

    Raises CompileError if the options ask for columns that cannot be.
    """
    p = block_rows(chip)
    widest = -(-max((m.cols for m in layers.matrices), default=p) // p) * p
    if options.tile_columns is not None:
        return _asked_columns(options.tile_columns, p, widest)
    size = max((data_type(m.dtype).size_bytes for m in layers.matrices), default=4)
    q = min(_largest_columns(layers, chip, size) // p * p or p, widest)
    bank = whole_banks(chip)
    while q > p and (
        8 * q * size > room_bytes
        or 0 < bank < q * size
        or _most_tiles(layers, (p, q)) < _fewest_tiles(layers, chip)
    ):
        q = max(p, q // 2 // p * p)
    return q


def _asked_columns(asked: int, p: int, widest: int) -> int:
    if asked % p or asked > widest:
        raise CompileError(
            f"compile.tile_columns: needs a multiple of {p}, at most {widest} (the widest matrix), "
            f"found {asked}"
        )
    return asked


def _largest_columns(layers: Layers, chip: Chip, size: int) -> int:
    """Return how many columns of `size` bytes a tile has at most.

    Where queues meet in the banks of DRAM, a row of a tile asks each channel once: a longer one
    comes back to where others have opened rows meanwhile.
    """
    dram = chip.dram.organisation
    if dram is None or _multiplies(layers):
        return LARGEST_COLUMNS
    return min(LARGEST_COLUMNS, dram.channels * dram.interleave_bytes // size)


def _fewest_tiles(layers: Layers, chip: Chip) -> int:
    """Return how many tiles the largest matrix must have at least.

    Where DRAM has rows to open, and nothing is multiplied, overlap is worth more than long runs.
    """
    bare = chip.dram.organisation is None or _multiplies(layers)
    return FEWEST_TILES if bare else 2 * FEWEST_TILES


def _multiplies(layers: Layers) -> bool:
    return any(node.kind == "multiply" for node in layers.nodes)


def _most_tiles(layers: Layers, block: tuple[int, int]) -> int:
    return max((tiling(m, block).count for m in layers.matrices), default=0)


def whole_banks(chip: Chip) -> int:
    """Return the bytes of a bank if no tile may lie across two, else 0."""
    # On the top path a row of weights is read in one cycle, through one port.
    return chip.state_buffer.bank_bytes if chip.pe_array.weight_path == "top" else 0


def spans(first: int, stop: int, block: int, piece: int) -> Iterator[Span]:
    """Yield pieces of at most `piece`, none across a multiple of `block`."""
    while first < stop:
        size = min(piece, stop - first, block - first % block)
        yield first, size
        first += size
