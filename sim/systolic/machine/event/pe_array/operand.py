"""Twin of `register.pe_array.scaled`: what a load or a multiply reads, and what the PEs take of it.

Both are the same, but for numbers that share scales (MX). No time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from systolic.arrays import Array
from systolic.isa import LoadWeights, MatMul
from systolic.isa.access import Access
from systolic.isa.effects import scales_touched
from systolic.machine.memory import Memory
from systolic.machine.values.microscaling import scaled


@dataclass(frozen=True, slots=True, eq=False)
class ArrayOperand:
    """elements: as they lie in memory, [K, elements]; scales: what was read of them, by quadrant.

    values: [K, n * rows of a PE], the values of a PE and column (or vector) side by side.
    """

    elements: Array
    values: Array
    scales: tuple[tuple[Access, Array], ...] = ()


def read_operand(memory: Memory, instruction: LoadWeights | MatMul) -> ArrayOperand:
    """Read the weights, or the moving vectors, of an instruction of the array."""
    access = instruction.weights if isinstance(instruction, LoadWeights) else instruction.moving
    elements = memory.read(access)
    parts = scales_touched(instruction)
    if not parts:
        return ArrayOperand(elements, elements)
    found = tuple((part, memory.read(part)) for part in parts)
    values = scaled(elements, np.concatenate([read for _, read in found]), access.dtype)
    return ArrayOperand(elements, values, found)


def planes_of(values: Array, rows_per_pe: int) -> list[Array]:
    """Return what is for the first, the second, ... row of each PE."""
    return [values[:, row::rows_per_pe] for row in range(rows_per_pe)]


def rows_apart(values: Array, rows_per_pe: int) -> Array:
    """Return values [K, n * rows of a PE] with a row for each row of the contraction."""
    if rows_per_pe == 1:
        return values
    K = values.shape[0]
    apart = values.reshape(K, -1, rows_per_pe).transpose(0, 2, 1)
    return apart.reshape(K * rows_per_pe, -1)
