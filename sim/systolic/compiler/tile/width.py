"""The number of columns of a compilation's tiles."""

from __future__ import annotations

from systolic.compiler.ir.nodes import Layers, MultiplyNode
from systolic.compiler.ir.on_chip.chip_tiles import LARGEST_COLUMNS, block_rows, whole_banks
from systolic.compiler.ir.tasks import tiling
from systolic.errors import CompileError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.workload.options import Options

FEWEST_TILES = 4
"""Fewest tiles of the largest matrix: with fewer, loading, work and storing hardly overlap."""


def tile_columns(layers: Layers, chip: Chip, options: Options, room_bytes: int) -> int:
    """Return q: as large as possible for long runs in DRAM, while a task's tiles fit twice.

    room_bytes: the bytes of each partition of the state buffer to plan with.

    Raises CompileError if the options ask for impossible columns.
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

    If queues meet in the banks of DRAM, a row of a tile should use each channel once. A longer row
    comes to the same banks a second time, after other queues have opened rows in them.
    """
    dram = chip.dram.organisation
    if dram is None or _multiplies(layers):
        return LARGEST_COLUMNS
    return min(LARGEST_COLUMNS, dram.channels * dram.interleave_bytes // size)


def _fewest_tiles(layers: Layers, chip: Chip) -> int:
    """Return how many tiles the largest matrix must have at least.

    If DRAM has rows to open, and nothing is multiplied, overlap is worth more than long runs.
    """
    bare = chip.dram.organisation is None or _multiplies(layers)
    return FEWEST_TILES if bare else 2 * FEWEST_TILES


def _multiplies(layers: Layers) -> bool:
    return any(isinstance(node, MultiplyNode) for node in layers.nodes)


def _most_tiles(layers: Layers, block: tuple[int, int]) -> int:
    return max((tiling(m, block).count for m in layers.matrices if not m.window), default=0)
