"""simpy's environment with integer ticks, and two places after all ordinary events of a tick.

Within a tick: first units act (simpy's urgent and normal events), then ports are decided, then
the units that waited for the decision are told. So what units do in a tick never depends on the
order in which simpy happens to serve them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

Ticks = npt.NDArray[np.int64]

DECIDE, SETTLED = 2, 3
"""Priorities behind simpy's urgent (0) and normal (1)."""


class _Clock(simpy.Environment):
    """A simpy environment with a place for its time."""

    __slots__ = ("tick",)

    tick: int


class TickEnvironment(_Clock):
    """A simpy environment whose time is counted in whole ticks.

    tick: the present one. It is asked for several times an event, so it is no property, which would
    be a call, but another name of where simpy keeps its time. Only whole numbers are added to it.
    """

    _now = _Clock.tick

    def skip_to(self, tick: int) -> bool:
        """Go on to a tick at once if nothing comes until it is over; return whether that is so."""
        if self.peek() <= tick:
            return False
        assert tick > self.tick, "a later tick"
        self.tick = tick
        return True

    def at_end_of_tick(self, place: int, tick: int | None = None) -> simpy.Event:
        """Return an event that comes in a tick (None: the present one), at DECIDE or SETTLED."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        priority: Any = place
        self.schedule(event, priority=priority, delay=0 if tick is None else tick - self.tick)
        return event
