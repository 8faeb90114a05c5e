"""Which line of the space-time diagram shows which PEs: rows, columns, or diagonals of the array.

On a diagonal row and column have the same sum: where registers are one cycle apart, all its PEs do
the same in the same cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from systolic.report.wavefront.bands import Group
from systolic.report.wavefront.manner import By


@dataclass(frozen=True, eq=False)
class PeLines:
    """by: what the lines are. line: [R, C], the row, column or diagonal of each PE."""

    by: By
    line: npt.NDArray[np.int64]

    @classmethod
    def of(cls, by: By, rows: int, cols: int) -> PeLines:
        """Return the lines of an array of that many rows and columns."""
        r, c = np.indices((rows, cols))
        return cls(by, {"row": r, "column": c, "diagonal": r + c}[by])

    @property
    def count(self) -> int:
        """Return how many lines there are."""
        return int(self.line[-1, -1]) + 1

    @property
    def name(self) -> str:
        """Return the name of a band of these lines."""
        return line_name(self.by)

    def order(self) -> npt.NDArray[np.int64]:
        """Return [R, C] the place of each PE if they stand line by line, and row by row in each."""
        order = np.empty(self.line.size, np.int64)
        order[np.argsort(self.line.ravel(), kind="stable")] = np.arange(self.line.size)
        return order.reshape(self.line.shape)

    def groups(self) -> tuple[Group, ...]:
        """Return the names of the lines, and of the PEs in each."""
        return tuple(
            Group(f"{self.by} {line}", tuple(map(self._pe, *np.nonzero(self.line == line))))
            for line in range(self.count)
        )

    def _pe(self, row: int, col: int) -> str:
        """Return the name of a PE in its line."""
        return {"row": f"{col}", "column": f"{row}", "diagonal": f"{row},{col}"}[self.by]


def line_name(by: By) -> str:
    """Return the name of a band with a line for each row, column or diagonal."""
    return f"PE {by}s"
