"""What a copy has moved so far: when its descriptors ended, and how long it used each port.

Not here: which bytes move next, and when (`systolic.machine.event.dma.stream`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.isa import Buffer
from systolic.machine.event.dma.pace import BytePace, Orbit, PacedDescriptor
from systolic.machine.event.dma.plan import CopyPlan
from systolic.machine.event.ports.beats import Beats, stretch
from systolic.machine.event.ports.ports import Need, Port
from systolic.machine.event.ticks import Ticks


class _Finished(NamedTuple):
    """`number` bundles, begun in `cycle`, that ended one after another in an orbit; no orbit: one.

    stop: the cycle after the last.
    """

    stop: int
    number: int = 1
    cycle: int = 0
    orbit: Orbit | None = None

    def stops(self) -> Ticks:
        """Return the cycle after each, int64."""
        if self.orbit is None:
            return np.array([self.stop])
        return self.cycle + self.orbit.ends(self.number)[1:]


class MovedBundles:
    """The bundles of a copy that are over, and the cycles in which its bytes passed each port.

    period: ticks of a cycle. first_byte: the tick of the cycle in which the first byte moved.
    port_cycles: by port of the state buffer.
    """

    def __init__(self, plan: CopyPlan, period: int) -> None:
        self.first_byte: int | None = None
        self.port_cycles: dict[Port, int] = {}
        self._busy = 0  # cycles in which bytes of the group in hand moved, not yet counted
        self._plan, self._period = plan, period
        self._ended: list[_Finished] = []
        self._beside_sums: list[tuple[Need, int, int]] = []

    @property
    def stop(self) -> int:
        """Return the cycle after the last bundle that is over."""
        return self._ended[-1].stop

    def see_first_byte(self, cycle: int) -> None:
        """Note that bytes move in a cycle."""
        if self.first_byte is None:
            self.first_byte = cycle * self._period

    def add_busy(self, cycles: int) -> None:
        """Note that bytes of the group in hand, each bundle in one bank, moved in some cycles."""
        self._busy += cycles

    def end_one(self, stop: int) -> None:
        """Note that a bundle was over in the cycle before `stop`."""
        self._ended.append(_Finished(stop))

    def end_many(self, count: int, cycle: int, orbit: Orbit) -> int:
        """Note that `count` bundles, begun in `cycle`, are over; return the cycle after."""
        stop = cycle + orbit.cycles(count)
        self._ended.append(_Finished(stop, count, cycle, orbit))
        return stop

    def count(self, need: Need, pace: BytePace, cycle: int, cycles: int) -> None:
        """Count the cycles from `cycle` on in which bytes move through a port.

        Of the result buffer's ports the cycles themselves are noted: sums pass over an access.
        """
        if need.port.buffer != Buffer.RESULT:
            self._add(need, pace.busy(cycle, cycles))
        elif pace.least:
            self._beside_sums.append((need, cycle, cycle + cycles))
        else:
            moving = (at for at in range(cycle, cycle + cycles) if pace.amount(at))
            self._beside_sums += [(need, at, at + 1) for at in moving]

    def count_results(
        self, place: int, pace: BytePace, cycle: int, orbit: Orbit, count: int
    ) -> None:
        """Count the cycles in which bundles of a group use the result buffer's ports.

        place: the number of the group. count: of its bundles, the first begun in `cycle`.
        """
        piece: PacedDescriptor = self._plan.pieces[place]
        fetch = 0 if piece.overlaps else piece.fetch
        for need in self._plan.needs(place, 0):
            if need.port.buffer == Buffer.RESULT:
                for number in range(count):
                    first = cycle + orbit.cycles(number) + fetch
                    self.count(need, pace, first, pace.cycles(first, piece.size))

    def count_group(self, place: int) -> None:
        """Count the cycles in which bytes of a group moved, whose bundles lie in one bank each."""
        if not self._busy:
            return
        # Those of other bundles are of other partitions.
        for need in self._plan.once(self._plan.needs(place, 0)):
            if need.port.buffer != Buffer.RESULT:
                self._add(need, self._busy)
        self._busy = 0

    def _add(self, need: Need, cycles: int) -> None:
        """Count cycles of a port of the state buffer, in each partition that has one of its own."""
        ports = need.stop - need.first if self._plan.has_own_port(need) else 1
        self.port_cycles[need.port] = self.port_cycles.get(need.port, 0) + cycles * ports

    def port_use(self) -> Iterator[tuple[Need, Beats]]:
        """Yield each port of the result buffer and when it was used."""
        for need, first, stop in self._beside_sums:
            yield need, stretch(first * self._period, stop * self._period)

    def descriptor_ticks(self) -> npt.NDArray[np.int64]:
        """Return the tick of each descriptor's last byte, int64, in the order of the copy."""
        groups = self._plan.groups
        stops = np.concatenate([ended.stops() for ended in self._ended])
        rows = np.repeat([g.rows for g in groups], [g.count for g in groups])
        return self._plan.in_order(np.repeat((stops - 1) * self._period, rows))
