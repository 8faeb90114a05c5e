"""Estimates for transposing matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.hw.formulas.timing import descriptor_cycles, load_reads, result_cycles
from systolic.hw.spec import Chip


def turn_cost(chip: Chip, dims: Sequence[int], dtype: str) -> int:
    """Return about how many cycles it takes to transpose matrices [batch..., rows, columns].

    If the array takes the type, every block is loaded and multiplied with an identity. Load and
    multiply overlap, and the last block has to go through the array and out. Otherwise the elements
    go one by one through a DMA queue.
    """
    *batch, rows, cols = dims
    array, matrices = chip.pe_array, math.prod(batch)
    if dtype not in array.cycles_per_vector:
        return matrices * rows * cols * int(descriptor_cycles(chip, 1))
    height, width = min(rows, array.rows), min(cols, array.cols)
    each = max(height * array.cycles_per_vector[dtype], load_reads(chip, height, width, dtype))
    blocks = matrices * -(-rows // array.rows) * -(-cols // array.cols)
    return blocks * each + result_cycles(chip, width) + height
