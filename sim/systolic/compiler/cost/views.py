"""Estimates by which lowerings choose how a tensor comes to a view. No bounds, no machine."""

from __future__ import annotations

import math

from systolic.compiler.cost.products import runs_cycles
from systolic.compiler.ir.dram_tensor import DramTensor
from systolic.compiler.ir.nodes import Axes
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.layout import Shape

SAMPLE = 8, 256
"""Rows and columns of a matrix looked at."""


def load_cost(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many cycles one queue takes to bring a tensor from DRAM as `axes`."""
    *batch, all_rows, all_cols = _sizes(shape, axes)
    rows, cols = min(all_rows, SAMPLE[0]), min(all_cols, SAMPLE[1])
    size = shape.dtype.itemsize
    cycles = 0
    for part in DramTensor(shape, 0, axes).rectangles((0,) * len(batch), (0, 0), (rows, cols)):
        step, run = part.access.pattern[-1]
        length = min(run, part.cols.count) if step == 1 else 1
        count = part.rows.count * part.cols.count // length
        cycles += runs_cycles(chip, part.access, count, length * size)
    return cycles * math.prod(batch) * all_rows * all_cols // (rows * cols)


def turn_cost(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many cycles it takes to turn a tensor that is seen as `axes`."""
    *batch, rows, cols = _sizes(shape, axes)
    array = chip.pe_array
    v = array.cycles_per_vector[shape.element_type]
    blocks = math.prod(batch) * -(-rows // array.rows) * -(-cols // array.cols)
    K, N = min(rows, array.rows), min(cols, array.cols)
    alone = result_cycles(chip, N) + K  # the last block's way through and out
    return blocks * max(K * v, load_reads(array, K, N)) + alone


def _sizes(shape: Shape, axes: Axes) -> list[int]:
    return [math.prod(shape.dims[d] for d in group) for group in axes]
