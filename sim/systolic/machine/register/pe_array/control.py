"""Control words that travel with the vectors: one chain of registers for the whole grid.

PEs that lie equally far from the injection see the same word in the same cycle, so one chain,
tapped at every distance, is what each PE's own control register would hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from systolic.arrays import Array
from systolic.machine.register.pe_array.distances import Stages

ACCUMULATES, INTEGER, THROUGH, DOUBLE, FOURFOLD = 1, 2, 4, 8, 16
"""Bits of a vector's kind."""
FURTHER = (DOUBLE, FOURFOLD, FOURFOLD)
"""The bit of the vectors that have a value for a PE's second row, its third, its fourth."""
_FIELD = 16
_MASK = (1 << _FIELD) - 1


def code_of(cols: int, rows: int, kind: int) -> int:
    """Return N, K and kind as one word."""
    return cols | rows << _FIELD | kind << 2 * _FIELD


def cols_of(code: Array) -> Array:
    """Return the N of each code."""
    return code & _MASK


def rows_of(code: Array) -> Array:
    """Return the K of each code."""
    return code >> _FIELD & _MASK


def kind_of(code: Array) -> Array:
    """Return the kind of each code."""
    return code >> 2 * _FIELD


@dataclass
class Control:
    """The chain, youngest word at `base`, as columns of equal length `spare` + depth.

    code: N, K and kind of the vector (see `code_of`; 0: an empty slot); word: its PSUM word;
    vector, owner: its number and its instruction.
    """

    stages: Stages
    spare: int
    code: Array = field(init=False)
    word: Array = field(init=False)
    vector: Array = field(init=False)
    owner: Array = field(init=False)

    def __post_init__(self) -> None:
        s = self.stages
        depth = s.to_result + s.across + s.drained + 2
        for name in ("code", "word", "vector", "owner"):
            setattr(self, name, np.zeros(self.spare + depth, np.int64))
        self._taps = s.to_result + s.col_delays()
        self._col = np.arange(s.cols)
        self._row_of = np.arange(s.rows)[:, None]

    def wrap(self) -> None:
        """Move the chain to the far end; slots to come are empty."""
        for chain in (self.code, self.word, self.vector, self.owner):
            chain[self.spare :] = chain[: -self.spare].copy()
            chain[: self.spare] = 0

    def at_pes(self, chain: Array, base: int) -> Array:
        """Return [R, C]: the word of the chain that each PE sees."""
        s = self.stages
        size = chain.itemsize
        view = np.ndarray(
            (s.row_cells, s.cell_rows, s.col_cells, s.cell_cols),
            chain.dtype,
            buffer=chain,
            offset=(base + s.entry) * size,
            strides=(s.down * size, 0, s.right * size, 0),
        )
        return view.reshape(s.rows, s.cols)

    def valid(self, base: int) -> Array:
        """Return [R, C]: whether a vector is in the PE."""
        return np.asarray(cols_of(self.at_pes(self.code, base)) > self._col)

    def active(self, base: int) -> Array:
        """Return [R, C]: whether the PE multiplies (a vector is there, and the row is used)."""
        code = self.at_pes(self.code, base)
        return np.asarray((cols_of(code) > self._col) & (rows_of(code) > self._row_of))

    def integer(self, base: int) -> Array:
        """Return [R, C]: whether the vector in the PE is one of integers."""
        return np.asarray((kind_of(self.at_pes(self.code, base)) & INTEGER) != 0)

    def pass_through(self, base: int) -> Array:
        """Return [R, C]: whether the vector in the PE lets weights pass through."""
        return np.asarray((kind_of(self.at_pes(self.code, base)) & THROUGH) != 0)

    def further(self, base: int, number: int) -> Array:
        """Return [R, C]: whether the vector in the PE has a value for a row beyond its first."""
        return np.asarray((kind_of(self.at_pes(self.code, base)) & FURTHER[number]) != 0)

    def at_results(self, chain: Array, base: int) -> Array:
        """Return [C]: the word of the chain where each column enters the result buffer."""
        return chain[self._taps + base]

    def arriving(self, base: int) -> Array:
        """Return the columns in which a sum reaches the result buffer in this cycle."""
        return np.flatnonzero(cols_of(self.at_results(self.code, base)) > self._col)
