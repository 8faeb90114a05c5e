"""The critical path: what the run's end waited for, followed back to cycle 0.

Every link of the path is a stretch of time in which the run's end hung on one instruction. The
links follow one another without gaps, so their cycles sum to the run's. Not here: slack (`slack`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from systolic.critical_path.causes import DISPATCH, FETCH, Cause, Causes
from systolic.critical_path.holders import Holders
from systolic.critical_path.points import Lives, Point, Stint
from systolic.hw.units import kind_of
from systolic.trace.records import Stall

UNEXPLAINED = "unexplained"
"""A start that nothing explains. A test holds that there is none."""

TimeOfCopy = Callable[[int, int], dict[str, int]]
"""Given a copy and the ticks in which it moved, return by reason what these were spent on."""


@dataclass(frozen=True, slots=True)
class Link:
    """The path was with one instruction from tick `first` to before tick `stop`.

    reasons: what the ticks were spent on; they sum to stop - first. That is what the instruction
    did, and in front of it what passed between the point that it waited for and its start.
    """

    instruction: int
    unit: str
    first: int
    stop: int
    reasons: dict[str, int]

    @property
    def reason(self) -> str:
        """Return what most of the link was spent on."""
        return max(self.reasons, key=lambda reason: self.reasons[reason])


def critical_path(causes: Causes, moving: TimeOfCopy) -> list[Link]:
    """Return the links of the path, the first of them first; none if the program is empty.

    moving: says of the cycles in which a copy moved what they were spent on.
    """
    lives = causes.lives
    if not lives.times:
        return []
    walk = _Walk(lives, causes, moving, Holders(lives))
    last = max(lives.times, key=lambda index: lives.end(index).tick)
    return list(reversed(list(_joined(walk.back(lives.end(last))))))


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk back through the causes."""

    lives: Lives
    causes: Causes
    moving: TimeOfCopy
    holders: Holders

    def back(self, point: Point) -> Iterator[Link]:
        """Yield the links that lead to a point, the last of them first."""
        here: Point | None = point
        while here is not None:
            here = yield from self._to(here)

    def _to(self, point: Point) -> Generator[Link, None, Point | None]:
        """Yield the link that ends at a point; return the point that its instruction waited for."""
        index = point.instruction
        stints = list(_refusing(self.lives.stints(point), point.refused))
        held = self._held(stints)
        if held is not None:
            kept = [stint for stint in stints if stint.first >= held.tick]
            yield self._link(point, held.tick, self._reasons(index, kept))
            return held
        reasons = self._reasons(index, stints)
        cause = self.causes.in_line(index) if stints else None
        if cause is not None:
            return (yield from self._behind(cause, stints[0].first, point, reasons))
        could = self.causes.could_start(index)
        reasons[DISPATCH] += self.lives.times[index].start - could
        cause = self.causes.last(index)
        if cause is not None and cause.reason == FETCH:
            reasons[FETCH] += could - cause.tick  # until a cycle of the unit begins
            yield self._link(point, cause.tick, reasons)
            return (yield from self._fetches(index))
        return (yield from self._behind(cause, could, point, reasons))

    def _held(self, stints: list[Stint]) -> Point | None:
        """Return the point at which the last port that was refused was given up by its holder.

        None if no port was refused, or the records do not say who had it.
        """
        for stint in reversed(stints):
            if stint.stall is not None:
                holder = self.holders.of(stint.stall)
                return None if holder is None else self.lives.held(holder, stint.stall)
        return None

    def _behind(
        self, cause: Cause | None, first: int, point: Point, reasons: Counter[str]
    ) -> Generator[Link, None, Point | None]:
        """Yield the link from a cause to a point. first: when the instruction began."""
        before = None if cause is None else cause.point
        tick = 0 if before is None else before.tick
        reasons[UNEXPLAINED if cause is None else cause.reason] += first - tick
        yield self._link(point, tick, reasons)
        return before

    def _reasons(self, index: int, stints: list[Stint]) -> Counter[str]:
        reasons = Counter[str]()
        for stint in stints:
            reasons[stint.reason] += stint.stop - stint.first
        if reasons["moving"] and kind_of(self.lives.local(self.lives.times[index].unit)) == "dma":
            reasons.update(self.moving(index, reasons.pop("moving")))
        return +reasons

    def _link(self, point: Point, first: int, reasons: Counter[str]) -> Link:
        index = point.instruction
        return Link(index, self.lives.times[index].unit, first, point.tick, dict(+reasons))

    def _fetches(self, index: int) -> Generator[Link, None, Point | None]:
        """Yield the fetches that came one behind another on the path; return what began them."""
        stop = self.lives.fetches[index].arrival
        while True:
            before, start = self.causes.fetch_before(index), self.causes.slot_before(index)
            begin = self.lives.fetches[index].begin
            tick = begin if before is not None or start is None else start.tick
            yield self._link(Point(index, stop, stop), tick, Counter({FETCH: stop - tick}))
            if before is None:
                return start
            index, stop = before, begin


def _refusing(stints: Iterator[Stint], refused: Stall | None) -> Iterator[Stint]:
    """Yield stints; from the first refused cycle on they say to which unit the port was refused."""
    for stint in stints:
        if refused is None or stint.stall is not None or stint.stop <= refused.tick:
            yield stint
            continue
        if stint.first < refused.tick:
            yield stint._replace(stop=refused.tick)
        yield Stint(max(stint.first, refused.tick), stint.stop, f"refusing {refused.unit}")


def _joined(links: Iterator[Link]) -> Iterator[Link]:
    """Yield links, later first, those as one that follow one another with one instruction."""
    held: Link | None = None
    for link in links:
        if link.first == link.stop:
            continue
        if held is not None and held.instruction == link.instruction:
            reasons = Counter(held.reasons) + Counter(link.reasons)
            held = Link(held.instruction, held.unit, link.first, held.stop, dict(reasons))
            continue
        if held is not None:
            yield held
        held = link
    if held is not None:
        yield held


def in_cycles(ticks: list[int], period: int) -> list[int]:
    """Return consecutive stretches of ticks from 0 on in cycles that sum to the whole's."""
    edges = [-(-edge // period) for edge in accumulate(ticks, initial=0)]
    return [stop - first for first, stop in pairwise(edges)]
