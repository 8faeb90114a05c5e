"""An array whose weights are there at once: what a run would take if loads were for free.

A load still has its turn in the queue, its dispatch and its fetch, and waits for semaphores.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.hw.spec import Chip
from systolic.isa import Instruction, LoadWeights, MatMul
from systolic.machine.event.pe_array.plans import ArrayPlans
from systolic.machine.event.pe_array.unit import PEArrayUnit
from systolic.machine.event.ports.ports import Timeline, steady
from systolic.machine.event.ports.stream import Stream


class FreeLoadPlans(ArrayPlans):
    """A load takes one slot that needs no port."""

    def of_load(self, load: LoadWeights) -> Timeline:
        """Return one slot that needs no port."""
        return steady((), 1)


class FreeLoadsUnit(PEArrayUnit):
    """The rules of the weight buffer do not hold; a multiply may start in the cycle of its load."""

    def _plans_for(self, chip: Chip) -> ArrayPlans:
        """Return plans in which a load needs no port."""
        return FreeLoadPlans(chip)

    def earliest(self, instruction: Instruction) -> int:
        """Return the first tick at which the array can take an instruction."""
        return self.after_multiplies(instruction) if isinstance(instruction, MatMul) else 0

    def release(self, instruction: Instruction) -> Sequence[tuple[Stream, int]]:
        """Return nothing: a load waits for no injection."""
        return ()
