"""Ports of PSUM that sums in flight take: at fixed distances behind the vectors of a multiply."""

from __future__ import annotations

from systolic.machine.event.ports.beats import Beats, stretch
from systolic.machine.event.ports.ports import Need, mask_of
from systolic.machine.event.ports.stream import Granted, Stream


class Hold:
    """Ports of PSUM that sums in flight take; they follow a multiply and are never refused.

    silent: accesses of the multiply, from its first on, whose vectors leave no sums.
    """

    client = "moving"

    def __init__(
        self, stream: Stream, needs: tuple[Need, ...], behind: int, width: int, *, silent: int = 0
    ) -> None:
        self.stream, self.needs, self.mask = stream, needs, mask_of(needs)
        self._silent = silent
        self._behind, self._width = behind, width
        self._uses: tuple[Beats, ...] | None = None
        self._over = 0

    def uses(self) -> tuple[Beats, ...]:
        """Return when the ports are held, in the order of time, by a multiply that has ended."""
        if self._uses is None:
            self._uses = tuple(filter(None, map(self._behind_run, self.stream.progress)))
        return self._uses

    def _behind_run(self, run: Granted) -> Beats | None:
        """Return when the ports are held by the sums of a run; None if it leaves none."""
        stream, width = self.stream, self._width
        step, period = stream.spacing, stream.period
        first = max(-(-run.slot // step), self._silent)
        count = min(-(-(run.slot + run.slots) // step), stream.timeline.slots) - first
        if count <= 0:
            return None
        begin = run.tick + (first * step - run.slot + self._behind) * period
        if step <= width:
            return stretch(begin, begin + ((count - 1) * step + width) * period)
        return Beats(begin, width * period, step * period, count)

    def state(self, tick: int) -> tuple[bool, int | None]:
        """Return whether the ports are held at `tick`, and the tick at which that may change.

        To be asked in the order of time: runs whose sums have left are not looked at again.
        """
        last = max(0, len(self.stream.progress) - 1)
        for number, run in enumerate(self.stream.runs(self._over), self._over):
            uses = self._behind_run(run)
            if uses and (near := uses.near(tick)):
                self._over = min(number, last)
                first, stop = near
                return (True, stop) if first <= tick else (False, first)
        self._over = last
        return False, None

    def over(self, tick: int) -> bool:
        """Return whether nothing will be held from `tick` on."""
        if not self.stream.done(tick):
            return False
        uses = self.uses()
        return not uses or uses[-1].stop <= tick
