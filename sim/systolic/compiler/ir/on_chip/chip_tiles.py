"""The limits that a chip's sizes set for tiles: rows of K-tiles, rows of blocks, and banks."""

from __future__ import annotations

from systolic.compiler.ir.nodes import Matrix
from systolic.compiler.ir.ranges import spans
from systolic.hw.spec import Chip

LARGEST_COLUMNS = 1024
"""The most columns of a tile, unless its matrix asks for another number."""


def turn_rows(matrix: Matrix, block: tuple[int, int], chip: Chip) -> list[int]:
    """Return the boundaries of the rows of a matrix that an identity product takes together."""
    p, _ = matrix.block or block
    return [0, *(span.stop for span in spans(0, matrix.rows, p, min(chip.pe_array.rows, p)))]


def k_tiles(chip: Chip, K: int) -> list[int]:
    """Return the boundaries of the K-tiles of a contraction: at most R rows, within one block."""
    rows = block_rows(chip)
    return [0, *(span.stop for span in spans(0, K, rows, min(chip.pe_array.rows, rows)))]


def block_rows(chip: Chip) -> int:
    """Return p: the partitions that whole K-tiles fill."""
    rows = min(chip.pe_array.rows, chip.state_buffer.partitions)
    return chip.state_buffer.partitions // rows * rows


def whole_banks(chip: Chip) -> int:
    """Return the bytes of a bank if no tile may lie across two, else 0."""
    # On the top path a row of weights is read in one cycle, through one port.
    return chip.state_buffer.bank_bytes if chip.pe_array.weight_path == "top" else 0
