"""The weight registers of every PE: active, shadow, and what is on its way to them.

Which weights are there, not what is done with them.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Chip
from systolic.machine.register.pe_array.distances import Stages
from systolic.machine.register.pe_array.in_transit import Fronts, GridPath


class Weights:
    """Active and shadow planes, flat 32-bit words; cycles are the array's.

    is_wild: some weight, also one on its way, may be a NaN or an infinity if looked at as float32;
    active_is_integer, shadow_is_integer: [R * C], kept only in a run with both accumulators.
    """

    def __init__(
        self, chip: Chip, stages: Stages, active: Array, shadow: Array, *, is_mixed: bool
    ) -> None:
        array = chip.pe_array
        self.active, self.shadow = active, shadow
        self.active_is_integer = np.zeros(active.size, bool)
        self.shadow_is_integer = np.zeros(active.size, bool)
        self.is_wild = False
        self.has_exchanges = False
        self._is_double = array.weight_buffer == "double"
        self._is_mixed = is_mixed
        self._waves = stages.waves()
        self._exchanges: list[int] = []
        way = (
            GridPath(stages.rows, stages.down, stages.cell_rows, stages.cols)
            if array.weight_path == "left"
            else GridPath(stages.cols, stages.right, stages.cell_cols, 1)
        )
        self._fronts = Fronts(way, is_mixed)
        self._zeros = [np.zeros(count, np.float32) for count in range(way.size + 1)]

    @property
    def are_still(self) -> bool:
        """Return whether no weight is on its way."""
        return self._fronts.is_empty

    def send(self, operand: Array, is_integer: bool, pe: int, arrival: int) -> None:
        """Send the elements of one lane; the first reaches `pe` in cycle `arrival`."""
        carried = self._fronts.send(operand, is_integer, pe, arrival)
        zeros = self._zeros[carried.size]
        # An integer's bits may be anything as float32; the product with 0 finds NaN and infinity.
        if is_integer or carried.dot(zeros) != 0.0:
            self.is_wild = True

    def begin_exchange(self, cycle: int) -> None:
        """The vector injected in this cycle takes an exchange along."""
        if self._is_double:
            self._exchanges.append(cycle)
            self.has_exchanges = True

    def exchange(self, cycle: int) -> None:
        """Copy shadow to active in the PEs that a vector with an exchange has reached."""
        for injected in self._exchanges:
            here = self._waves[cycle - injected]
            self.active[here] = self.shadow[here]
            if self._is_mixed:
                self.active_is_integer[here] = self.shadow_is_integer[here]
        if cycle - self._exchanges[0] == len(self._waves) - 1:
            del self._exchanges[0]
            self.has_exchanges = bool(self._exchanges)

    def write(self, cycle: int) -> None:
        """Let weights that have arrived into their registers."""
        if self._is_double:
            self._fronts.step(cycle, self.shadow, self.shadow_is_integer)
        else:
            self._fronts.step(cycle, self.active, self.active_is_integer)

    def look_again(self) -> None:
        """Forget that a weight was wild if none is any more."""
        if self.is_wild:
            held = (self.active, self.shadow, self._fronts.carried())
            self.is_wild = not all(np.isfinite(bits.view(np.float32)).all() for bits in held)
