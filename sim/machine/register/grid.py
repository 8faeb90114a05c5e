"""The grid: moving, sum, weight and shadow registers of every PE, stepped together.

A shift of a whole plane by one register is a move of its base by one word in a buffer with room to
spare; where the room ends the plane is moved back. So stepping a plane costs only what enters it.
Planes hold 32-bit words, looked at as float32 or int32. The grid does not know why a vector comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.hw.spec import Chip
from sim.machine.register.control import Control, cols_of
from sim.machine.register.fronts import Fronts, Way
from sim.machine.register.multiply import multiply_add
from sim.machine.register.shape import Stages

Array = npt.NDArray[Any]
LINE_WORDS, APART_WORDS = 16, 272
SPARE = 256
"""Cycles until the planes are moved back. A matter of speed only."""


class Grid:
    """Registers of an array. Cycles are the array's.

    base: where the planes begin; quiet: the cycle from which all moving and sum registers are 0
    again unless a vector is injected; loaded: the registers that loads write, and their types.
    """

    def __init__(self, chip: Chip, is_mixed: bool) -> None:
        self.stages = stages = Stages.of(chip)
        self.control = Control(stages, SPARE)
        self.base = SPARE
        self.quiet = 0
        self._is_double = chip.pe_array.weight_buffer == "double"
        self._is_mixed = is_mixed
        self._is_fused = chip.pe_array.fused_multiply_add
        self._allocate(stages)
        self._skew = (stages.row_delays() * stages.rows) + np.arange(stages.rows)
        self._skew_step = stages.down * stages.rows + 1
        self._skew_span = stages.rows * self._skew_step
        self._size = stages.rows * stages.cols
        self._is_plain = stages.is_plain
        self._waves = stages.waves()
        self._exchanges: list[int] = []
        self._narrow: dict[int, int] = {}
        self._mixed_until = 0
        self._has_wild_weights = False
        self.is_integer = False
        self._look_as(np.float32)
        from_left = chip.pe_array.weight_path == "left"
        way = (
            Way(stages.rows, stages.down, stages.cell_rows, stages.cols)
            if from_left
            else Way(stages.cols, stages.right, stages.cell_cols, 1)
        )
        self.fronts = Fronts(way, is_mixed)
        self._zeros = np.zeros(way.size, np.float32)
        double = self.shadow_bits, self.shadow_is_integer
        self.loaded = double if self._is_double else (self.weight_bits, self.weight_is_integer)

    def _allocate(self, stages: Stages) -> None:
        R, C = stages.rows, stages.cols
        moving, sums = SPARE + R * stages.wide, (SPARE + stages.deep) * C
        planes = _planes(moving, sums, R * C, R * C, R * C)
        self._moving_bits, self._sum_flat, self.weight_bits, self.shadow_bits = planes[:4]
        self._product_bits = planes[4]
        self._sum_bits = self._sum_flat.reshape(-1, C)
        self._skew_bits = np.zeros((SPARE + stages.drained, R), np.int32)
        self.adder_bits = np.zeros((R, C), np.int32)
        self.weight_is_integer = np.zeros(R * C, bool)
        self.shadow_is_integer = np.zeros(R * C, bool)

    def _look_as(self, dtype: type[np.float32] | type[np.int32]) -> None:
        """Let the datapath take its words for this type from now on."""
        self.is_integer = dtype is np.int32
        self._moving = self._moving_bits.view(dtype)
        self._sums = self._sum_flat.view(dtype)
        self._skewed = self._skew_bits.view(dtype)
        self._skewed_flat = self._skewed.reshape(-1)
        self._weight = self.weight_bits.view(dtype)
        self._product = self._product_bits.view(dtype)
        self._choose_step()

    def _choose_step(self) -> None:
        """Mask the multiply-add if an idle PE could leave a trace by doing it like the others."""
        wild = not self.is_integer and (self._has_wild_weights or self._is_fused)
        self._is_masked = wild or not self.stages.is_plain

    def advance(self) -> None:
        """Begin a cycle: every moving and sum register takes its neighbour's word."""
        if self.base == 0:
            self._wrap()
        self.base -= 1

    def _wrap(self) -> None:
        for plane in (self._moving_bits, self._sum_bits, self._skew_bits):
            plane[SPARE:] = plane[:-SPARE].copy()
            plane[:SPARE] = 0
        self.control.wrap()
        self.base = SPARE
        if self._has_wild_weights and not self.is_integer:
            self._has_wild_weights = self._holds_wild_weights()
            self._choose_step()

    def _holds_wild_weights(self) -> bool:
        held = (self.weight_bits, self.shadow_bits, self.fronts.carried())
        return not all(np.isfinite(bits.view(np.float32)).all() for bits in held)

    def inject(self, cycle: int, operand: Array, is_integer: bool) -> None:
        """Read a moving vector [K] into the skew registers."""
        if is_integer != self.is_integer:
            self._mixed_until = self.quiet
            self._look_as(np.int32 if is_integer else np.float32)
        self._skewed[self.base, : len(operand)] = operand
        self.quiet = cycle + self.stages.drained + self.stages.write_latency + 1

    def exchange(self, cycle: int) -> None:
        """The vector injected in this cycle takes the exchange of weights along."""
        if self._is_double:
            self._exchanges.append(cycle)

    def narrow(self, cols: int, cycle: int) -> None:
        """A vector that leaves no trace beyond `cols` columns was injected in this cycle."""
        if cols < self.stages.cols and self.stages.is_plain:
            self._narrow[cols] = cycle + self.stages.drained

    def send(self, operand: Array, is_integer: bool, pe: int, arrival: int) -> None:
        """Send weights on their way; the first reaches `pe` in cycle `arrival`."""
        carried = self.fronts.send(operand, is_integer, pe, arrival)
        # An integer's bits may be anything as float32; the product with 0 finds NaN and infinity.
        zeros = self._zeros if carried.size == self._zeros.size else self._zeros[: carried.size]
        if is_integer or carried.dot(zeros) != 0.0:
            self._has_wild_weights = True
            self._choose_step()

    def step(self, cycle: int) -> None:
        """Multiply and add in every PE."""
        base, stages = self.base, self.stages
        size = self._size
        moving = self._moving[base : base + size]
        if self._is_plain:
            first = (base + stages.entry) * stages.rows
            skewed = self._skewed_flat[first : first + self._skew_span : self._skew_step]
            moving[:: stages.cols] = skewed
        else:
            self._enter_anywhere(base)
        if self._exchanges:
            self._exchange(cycle)
        if self._narrow:
            self._close(cycle)
        if self._is_masked or cycle < self._mixed_until:
            self._step_masked(base, cycle)
            return
        np.multiply(moving, self._weight, self._product)
        first = base * stages.cols
        sums = self._sums[first : first + size]
        np.add(sums, self._product, sums)

    def results(self) -> Array:
        """Return the bits [C] that are before the result buffer in this cycle (a view)."""
        row: Array = self._sum_bits[self.base + self.stages.deep - 1]
        return row

    def adders(self) -> Array:
        """Return the bits [R, C] of every adder's output in this cycle (a view)."""
        if not self.stages.is_plain:
            return self.adder_bits
        return self._sum_bits[self.base : self.base + self.stages.rows]

    def operands(self) -> Array:
        """Return the bits [R, C] of every PE's moving operand (may be a view)."""
        stages = self.stages
        size = self._moving_bits.itemsize
        cells: Array = np.ndarray(
            (stages.rows, stages.col_cells, stages.cell_cols),
            np.int32,
            buffer=self._moving_bits,
            offset=self.base * size,
            strides=(stages.wide * size, stages.right * size, 0),
        )
        return cells.reshape(stages.rows, stages.cols)

    def _enter_anywhere(self, base: int) -> None:
        stages = self.stages
        words = self._skew_bits.reshape(-1)[self._skew + base * stages.rows]
        self._moving_bits[base : base + stages.rows * stages.wide : stages.wide] = words

    def _exchange(self, cycle: int) -> None:
        """Copy shadow to weight in the PEs that a vector with an exchange has reached."""
        for injected in self._exchanges:
            here = self._waves[cycle - injected]
            self.weight_bits[here] = self.shadow_bits[here]
            if self._is_mixed:
                self.weight_is_integer[here] = self.shadow_is_integer[here]
        if cycle - self._exchanges[0] == len(self._waves) - 1:
            del self._exchanges[0]

    def _close(self, cycle: int) -> None:
        """Stop moving words at the first column their vector does not use."""
        stages, control = self.stages, self.control
        pitch = stages.cols
        for cols, last in list(self._narrow.items()):
            at = self.base + stages.entry + cols
            rows = np.flatnonzero(cols_of(control.code[at : at + stages.rows]) == cols)
            self._moving_bits[self.base + cols + rows * pitch] = 0
            if cycle >= last:
                del self._narrow[cols]

    def _step_masked(self, base: int, cycle: int) -> None:
        """Multiply and add only where a vector is, row by row of each cell."""
        stages = self.stages
        active = self.control.active(base)
        last = base + stages.down * (stages.row_cells - 1) + 1
        sums = self._sum_bits[base : last : stages.down]
        moving = self.operands()
        weight = self.weight_bits.reshape(stages.rows, stages.cols)
        kinds = self._kinds(base, cycle)
        for row in range(stages.cell_rows):
            rows = slice(row, None, stages.cell_rows)
            for dtype, takes_part in kinds:
                multiply_add(
                    sums.view(dtype),
                    moving[rows].view(dtype),
                    weight[rows].view(dtype),
                    active[rows] & takes_part[rows],
                    self._is_fused,
                )
            self.adder_bits[rows] = sums

    def _kinds(self, base: int, cycle: int) -> list[tuple[type, Array]]:
        """Return the types in flight and [R, C] masks of where each may be."""
        mine: type = np.int32 if self.is_integer else np.float32
        if cycle >= self._mixed_until:
            return [(mine, np.ones((self.stages.rows, 1), bool))]
        integer = self.control.integer(base)
        return [(np.float32, ~integer), (np.int32, integer)]


def _planes(*sizes: int) -> list[Array]:
    """Return zero planes of so many words, apart enough not to share cache sets.

    Planes a multiple of a page apart slow each other down several times.
    """
    lines = [-(-size // LINE_WORDS) * LINE_WORDS + APART_WORDS for size in sizes]
    pool = np.zeros(sum(lines), np.int32)
    starts = np.cumsum([0, *lines])
    return [pool[start : start + size] for start, size in zip(starts, sizes, strict=False)]
