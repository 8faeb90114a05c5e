"""Twin of `event.pe_array.row_order`: the registers of every PE, stepped together.

A shift of a whole plane by one register is a move of its base by one word in a buffer with room to
spare; where the room ends the plane is moved back. So stepping a plane costs only what enters it.
Planes hold 32-bit words, looked at as float32 or int32. The grid does not know why a vector comes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Chip
from systolic.isa.array_tile import ArrayTile
from systolic.machine.register.pe_array.control import Control, cols_of
from systolic.machine.register.pe_array.distances import Stages
from systolic.machine.register.pe_array.further_rows import SPARE, FurtherRows, operands_in
from systolic.machine.register.pe_array.multiply import multiply_add, plain_step
from systolic.machine.register.pe_array.pass_through import bits_of, pass_on
from systolic.machine.register.pe_array.weights import Weights

LINE_WORDS, APART_WORDS = 16, 272


class Grid:
    """Registers of a tile of the array, or of all of it. Cycles are the array's.

    Tiles have registers of their own: nothing of one enters another.

    products: how many a run makes, which decides how they are made; base: where the planes begin;
    quiet: the cycle from which all moving and sum registers are 0 again unless a vector is
    injected; bits: the weights as the bits they were read as, if any are to pass through; further:
    what the PEs have for rows beyond their first, if any vector has values for them.
    """

    def __init__(
        self,
        chip: Chip,
        tile: ArrayTile,
        is_mixed: bool,
        products: int,
        *,
        has_pass_through: bool = False,
        rows_per_pe: int = 1,
    ) -> None:
        self.stages = stages = Stages.of(chip, tile)
        self.control = Control(stages, SPARE)
        self.base = SPARE
        self.quiet = 0
        self._size = size = stages.rows * stages.cols
        moving, sums = SPARE + stages.rows * stages.wide, (SPARE + stages.deep) * stages.cols
        self._moving_bits, self._sum_bits, active, shadow = _planes(moving, sums, size, size)
        self._plain_step = plain_step(products)
        self.weights = Weights(chip, stages, active, shadow, is_mixed=is_mixed)
        self.bits: Weights | None = None
        if has_pass_through:
            active, shadow = np.zeros(size, np.int32), np.zeros(size, np.int32)
            self.bits = Weights(chip, stages, active, shadow, is_mixed=False)
        self.further = [FurtherRows(chip, stages, is_mixed=is_mixed) for _ in range(1, rows_per_pe)]
        self._passing_until = self._several_until = 0
        self._sum_rows = self._sum_bits.reshape(-1, stages.cols)
        self._float_rows = self._sum_rows.view(np.float32)
        self._zeros = np.zeros(stages.cols, np.float32)
        self._skew_bits = np.zeros((SPARE + stages.drained, stages.rows), np.int32)
        self._skew = stages.row_delays() * stages.rows + np.arange(stages.rows)
        self._skew_step = stages.down * stages.rows + 1
        self._adder_bits = np.zeros((stages.rows, stages.cols), np.int32)
        self._is_plain = stages.is_plain
        self._is_fused = chip.pe_array.fused_multiply_add
        self._narrow: dict[int, int] = {}
        self._mixed_until = 0
        self._look_as(np.float32)

    def _look_as(self, dtype: type[np.float32] | type[np.int32]) -> None:
        """Let the datapath take its words for this type from now on."""
        self._is_integer = dtype is np.int32
        self._is_masked = not self._is_plain or (self._is_fused and not self._is_integer)
        self._moving = self._moving_bits.view(dtype)
        self._sums = self._sum_bits.view(dtype)
        self._skewed = self._skew_bits.view(dtype)
        self._skewed_flat = self._skewed.reshape(-1)
        self._weight = self.weights.active.view(dtype)

    def advance(self) -> None:
        """Begin a cycle: every moving and sum register takes its neighbour's word."""
        if self.base == 0:
            self._wrap()
        self.base -= 1

    def _wrap(self) -> None:
        for plane in (self._moving_bits, self._sum_rows, self._skew_bits):
            plane[SPARE:] = plane[:-SPARE].copy()
            plane[:SPARE] = 0
        self.control.wrap()
        for rows in self.further:
            rows.wrap()
        self.base = SPARE
        if not self._is_integer:
            self.weights.look_again()

    def inject(self, cycle: int, operand: Array, is_integer: bool) -> None:
        """Read a moving vector [K] into the skew registers."""
        if is_integer != self._is_integer:
            self._mixed_until = self.quiet
            self._look_as(np.int32 if is_integer else np.float32)
        self._skewed[self.base, : len(operand)] = operand
        self.quiet = cycle + self.stages.drained + self.stages.write_latency + 1

    def inject_further(self, operands: Sequence[Array], is_integer: bool) -> None:
        """Read what the vector injected in this cycle has for further rows, [K] for each."""
        for rows, operand in zip(self.further, operands, strict=False):
            rows.inject(self.base, operand, np.int32 if is_integer else np.float32)
        self._several_until = self.quiet

    def let_pass(self) -> None:
        """The vector injected in this cycle lets weights pass through."""
        self._passing_until = self.quiet

    def send(self, operand: Array, is_integer: bool, pe: int, arrival: int) -> None:
        """Send the weights of one lane; the first reaches `pe` in cycle `arrival`."""
        self.weights.send(operand, is_integer, pe, arrival)
        if self.bits is not None:
            self.bits.send(bits_of(operand), True, pe, arrival)

    def send_further(
        self, operands: Sequence[Array], is_integer: bool, pe: int, arrival: int
    ) -> None:
        """Send the weights of one lane for further rows."""
        for rows, operand in zip(self.further, operands, strict=False):
            rows.weights.send(operand, is_integer, pe, arrival)

    def begin_exchange(self, cycle: int) -> None:
        """The vector injected in this cycle takes an exchange of weights along."""
        self.weights.begin_exchange(cycle)
        for rows in self.further:
            rows.weights.begin_exchange(cycle)
        if self.bits is not None:
            self.bits.begin_exchange(cycle)

    def write_weights(self, cycle: int) -> None:
        """Let weights that have arrived into their registers."""
        self.weights.write(cycle)
        for rows in self.further:
            rows.weights.write(cycle)
        if self.bits is not None:
            self.bits.write(cycle)

    def narrow(self, cols: int, cycle: int) -> None:
        """A vector that leaves no trace beyond `cols` columns was injected in this cycle."""
        if cols < self.stages.cols and self.stages.is_plain:
            self._narrow[cols] = cycle + self.stages.drained

    def step(self, cycle: int) -> None:
        """Multiply and add in every PE."""
        base, stages, weights = self.base, self.stages, self.weights
        size = self._size
        moving = self._moving[base : base + size]
        if self._is_plain:
            first = (base + stages.entry) * stages.rows
            last = first + self._skew_step * stages.rows
            moving[:: stages.cols] = self._skewed_flat[first : last : self._skew_step]
        else:
            self._enter_anywhere(base)
        for rows in self.further:
            rows.enter(base)
        if weights.has_exchanges:
            weights.exchange(cycle)
            for rows in self.further:
                rows.weights.exchange(cycle)
            if self.bits is not None:
                self.bits.exchange(cycle)
        if self._narrow:
            self._close(cycle)
        if self._is_masked or self._may_leak(cycle):
            self._step_masked(base, cycle)
            return
        first = base * stages.cols
        self._plain_step(moving, self._weight, self._sums[first : first + size])

    def _may_leak(self, cycle: int) -> bool:
        """Return whether an idle PE could leave a trace by multiplying like the others."""
        if cycle < max(self._mixed_until, self._passing_until, self._several_until):
            return True
        return self.weights.is_wild and not self._is_integer

    def results(self) -> Array:
        """Return the bits [C] that are before the result buffer in this cycle (a view)."""
        row: Array = self._sum_rows[self.base + self.stages.deep - 1]
        return row

    def has_wild_results(self) -> bool:
        """Return whether a NaN or an infinity, if they are float32, is among the results."""
        row = self._float_rows[self.base + self.stages.deep - 1]
        return bool(row.dot(self._zeros) != 0.0)

    def adders(self) -> Array:
        """Return the bits [R, C] of every adder's output in this cycle (a view)."""
        if not self.stages.is_plain:
            return self._adder_bits
        return self._sum_rows[self.base : self.base + self.stages.rows]

    def operands(self) -> Array:
        """Return the bits [R, C] of every PE's moving operand (may be a view)."""
        stages = self.stages
        return operands_in(self._moving_bits, stages, self.base)

    def _enter_anywhere(self, base: int) -> None:
        stages = self.stages
        words = self._skew_bits.reshape(-1)[self._skew + base * stages.rows]
        self._moving_bits[base : base + stages.rows * stages.wide : stages.wide] = words

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
        sums = self._sum_rows[base : last : stages.down]
        moving = self.operands()
        weight = self.weights.active.reshape(stages.rows, stages.cols)
        kinds = self._kinds(base, cycle)
        passing = self._passing(base, cycle)
        multiplying = active if passing is None else active & ~passing
        several = self._several(base, cycle, active)
        for row in range(stages.cell_rows):
            rows = slice(row, None, stages.cell_rows)
            for dtype, takes_part in kinds:
                multiply_add(
                    sums.view(dtype),
                    moving[rows].view(dtype),
                    weight[rows].view(dtype),
                    multiplying[rows] & takes_part[rows],
                    self._is_fused,
                )
                for further, has_row in several:
                    multiply_add(
                        sums.view(dtype),
                        further.operands(base)[rows].view(dtype),
                        further.held()[rows].view(dtype),
                        has_row[rows] & takes_part[rows],
                        self._is_fused,
                    )
                if passing is not None:
                    here = passing[rows] & active[rows] & takes_part[rows]
                    pass_on(sums, moving[rows].view(dtype), self._passed()[rows], here)
            self._adder_bits[rows] = sums

    def _passing(self, base: int, cycle: int) -> Array | None:
        """Return [R, C]: whether the vector in the PE lets weights pass; None if none does."""
        return self.control.pass_through(base) if cycle < self._passing_until else None

    def _several(self, base: int, cycle: int, active: Array) -> list[tuple[FurtherRows, Array]]:
        """Return of each further row which PEs [R, C] multiply for it; none if no PE does."""
        if cycle >= self._several_until:
            return []
        return [
            (rows, active & self.control.further(base, number))
            for number, rows in enumerate(self.further)
        ]

    def _passed(self) -> Array:
        """Return the bits [R, C] that pass from every PE where its moving element is not 0."""
        assert self.bits is not None
        return self.bits.active.reshape(self.stages.rows, self.stages.cols)

    def _kinds(self, base: int, cycle: int) -> list[tuple[type, Array]]:
        """Return the types in flight and [R, C] masks of where each may be."""
        mine: type = np.int32 if self._is_integer else np.float32
        if cycle >= self._mixed_until:
            return [(mine, np.ones((self.stages.rows, 1), bool))]
        integer = self.control.integer(base)
        return [(np.float32, ~integer), (np.int32, integer)]


def _planes(*sizes: int) -> list[Array]:
    """Return zero planes of some words each, apart enough not to share cache sets.

    Planes a multiple of a page apart slow each other down several times.
    """
    lines = [-(-size // LINE_WORDS) * LINE_WORDS + APART_WORDS for size in sizes]
    pool = np.zeros(sum(lines), np.int32)
    starts = np.cumsum([0, *lines])
    return [pool[start : start + size] for start, size in zip(starts, sizes, strict=False)]
