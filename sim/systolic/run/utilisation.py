"""How much of the array work takes: the share of its multiply-adds that the work needs.

Of n cycles of an array of R x C PEs there are n x R x C multiply-adds. What the shapes of the work
mean is its `utilisation`; what the program multiplies, transposes too, is `multiplying`.
"""

from __future__ import annotations

from collections.abc import Mapping

from systolic.hw.spec import Chip
from systolic.isa import MatMul, MatMulDoubleRow, MatMulMx, MatMulTile, PassThrough, Program
from systolic.isa.streaming import streaming


def utilisation(multiply_adds: int, cycles: int, chip: Chip) -> float:
    """Return the share of the array's multiply-adds in some cycles that work needs, 0 to 1."""
    available = chip.pe_array.rows * chip.pe_array.cols * cycles
    return multiply_adds / available if available else 0.0


def multiplying(program: Program, chip: Chip, cycles: int) -> float:
    """Return the share of PE-cycles in which a PE multiplies, for transposes too, 0 to 1.

    A multiply of M vectors through K rows and N columns keeps K x N PEs busy for M times the
    cycles that a vector of its type takes. There are rows x cols x `cycles` PE-cycles.
    """
    busy = sum(_busy(i, chip) for i in program.instructions if isinstance(i, MatMul))
    available = chip.pe_array.rows * chip.pe_array.cols * cycles
    return busy / available if available else 0.0


def array_reach(program: Program, chip: Chip) -> dict[str, int] | None:
    """Return how many rows and columns of the array multiplies use, of an array beyond partitions.

    None if the state buffer has a partition for each row and column, as most chips have.
    """
    rows, cols, partitions = chip.pe_array.rows, chip.pe_array.cols, chip.state_buffer.partitions
    if partitions >= max(rows, cols):
        return None
    used = [i for i in program.instructions if isinstance(i, MatMul)]
    return {
        "rows": rows,
        "used_rows": max((i.moving.partitions for i in used), default=0),
        "cols": cols,
        "used_cols": max((i.result.partitions for i in used), default=0),
        "partitions": partitions,
    }


def multiplies(instructions: Mapping[str, int]) -> int:
    """Return how many multiplies there are among instructions, counted by the name of the class."""
    kinds = (MatMul, PassThrough, MatMulTile, MatMulDoubleRow, MatMulMx)
    return sum(instructions.get(kind.__name__, 0) for kind in kinds)


def array_multiplies(program: Program, chip: Chip) -> int | None:
    """Return how often the array streams the vectors of a multiply, all passes counted.

    None on a chip of single passes, where it is the number of multiplies.
    """
    if not chip.pe_array.passes:
        return None
    multiplies = (i for i in program.instructions if isinstance(i, MatMul))
    return sum(streaming(each, chip.pe_array).passes for each in multiplies)


def _busy(multiply: MatMul, chip: Chip) -> int:
    moving = multiply.moving
    vector_cycles = streaming(multiply, chip.pe_array).vector_cycles
    return moving.partitions * multiply.result.partitions * multiply.vectors * vector_cycles
