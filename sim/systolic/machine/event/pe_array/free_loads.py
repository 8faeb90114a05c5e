"""An array whose weights are there at once: what a run would take if loads were for free.

A load still has its turn in the queue, its dispatch and its fetch, and waits for semaphores.
"""

from __future__ import annotations

from systolic.isa import Access, Instruction, LoadWeights
from systolic.machine.event.pe_array.unit import PEArrayUnit
from systolic.machine.event.ports.ports import Timeline, steady


class FreeLoadsUnit(PEArrayUnit):
    """The rules of the weight buffer do not hold; a multiply may start in the cycle of its load."""

    def earliest(self, instruction: Instruction) -> int:
        """Return the first tick at which the array can take an instruction."""
        return 0 if isinstance(instruction, LoadWeights) else self.after_multiply()

    def release(self, instruction: Instruction) -> None:
        """Return None: a load waits for no injection."""

    def _load_timeline(self, weights: Access) -> Timeline:
        """Return one slot that needs no port."""
        return steady((), 1)
