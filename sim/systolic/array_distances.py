"""How many cycles a place in the array is away, from its registers: said once. A leaf.

For lint, records and pictures. The two engines and `hw.formulas` derive it again, each on its own
and on purpose: they are witnesses for one another.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Index = TypeVar("Index", int, npt.NDArray[np.int64])


def cycles_to(index: Index, hop: int, cell: int) -> Index:
    """Return the cycles from the first row (or column) of the array to another one.

    hop: cycles per register; cell: rows (or columns) of PEs that have no register between them.
    """
    return hop * (index // cell)
