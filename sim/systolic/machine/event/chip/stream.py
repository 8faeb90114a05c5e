"""A piece of a copy of a chip on its way: it moves the least of all the shares that it holds."""

from __future__ import annotations

from systolic.hw.spec import Chip
from systolic.machine.event.chip.ways import PiecePlan, Ways
from systolic.machine.event.dma.pace import CopyRate
from systolic.machine.event.dma.stream import DmaStream
from systolic.machine.event.ports.stream import Asker, ShareOfBytes
from systolic.machine.event.ticks import TickEnvironment


class PieceStream(DmaStream):
    """Descriptors of one piece: what differs from a copy of one core is what it shares."""

    def __init__(
        self, env: TickEnvironment, chip: Chip, plan: PiecePlan, ways: Ways, asker: Asker
    ) -> None:
        self._ways = ways
        super().__init__(env, chip, plan, asker)
        self.has_course = plan.knows_course

    def _best_rate(self) -> CopyRate:
        """Return a rate that it never exceeds."""
        return self._ways.best(self._plan.copy, self.holdings)

    def _rate_of(self, shares: tuple[ShareOfBytes, ...]) -> CopyRate:
        """Return the rate that these shares, in the order of its holdings, allow."""
        return self._ways.rate(self._plan.copy, self.holdings, shares)
