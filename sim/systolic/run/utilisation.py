"""How much of the array a run used: the share of all PEs in all cycles that multiplied.

The work is counted from the program alone; the machine adds only the length of the run.
"""

from __future__ import annotations

from systolic.hw.spec import Chip
from systolic.isa import MatMul, Program


def array_utilisation(program: Program, chip: Chip, cycles: int) -> float:
    """Return the share of PE-cycles spent multiplying, 0 to 1.

    A multiply of M vectors through K rows and N columns keeps K x N PEs busy for M times the
    cycles that a vector of its type takes. There are rows x cols x `cycles` PE-cycles.
    """
    busy = sum(_busy(i, chip) for i in program.instructions if isinstance(i, MatMul))
    available = chip.pe_array.rows * chip.pe_array.cols * cycles
    return busy / available if available else 0.0


def _busy(multiply: MatMul, chip: Chip) -> int:
    moving = multiply.moving
    vector_cycles = chip.pe_array.cycles_per_vector[moving.dtype]
    return moving.partitions * multiply.result.partitions * moving.elements * vector_cycles
