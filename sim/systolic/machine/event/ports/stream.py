"""A stream: one instruction's accesses on their way through the ports, slot by slot.

A slot takes one cycle of the unit. The arbiter alone moves a stream: it advances while granted
and stands while refused. What it did is kept as runs, never as single cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import simpy

from systolic.machine.event.ports.beats import Beats, stretch
from systolic.machine.event.ports.course import Course, PlacedCourse, course_in_slots
from systolic.machine.event.ports.ports import Need, Needs, Port, Stretch, Timeline
from systolic.machine.event.ticks import TickEnvironment
from systolic.trace.records import ALL_PARTITIONS


class Granted(NamedTuple):
    """From `tick` on, `slots` slots beginning with number `slot` were granted one after another."""

    slot: int
    tick: int
    slots: int


class Lost(NamedTuple):
    """A port that `winner` has, and the partition of it where each has its own."""

    port: Port
    winner: str
    partition: int = ALL_PARTITIONS


class Holding(NamedTuple):
    """A number of shares of a bandwidth that streams divide among themselves, by its name."""

    pool: str
    shares: int


class Asker(NamedTuple):
    """What asks for ports: an instruction of a unit, for one of its clients.

    rank: place in the arbitration, lowest first. period: ticks of a cycle of the unit, which is how
    long a slot takes. holdings: what it holds of bandwidths while it is under way (DMA only).
    """

    unit: str
    client: str
    instruction: int
    rank: tuple[int, int]
    period: int
    holdings: tuple[Holding, ...] = ()


class ShareOfBytes(NamedTuple):
    """Shares `first` <= number < first + held of the `of` into which a bandwidth is divided."""

    first: int
    held: int
    of: int


@dataclass(slots=True)
class Refusal:
    """From `tick` on, `cycles` cycles were refused: another had the port."""

    tick: int
    cycles: int
    lost: Lost


class RoundPart(NamedTuple):
    """`cycles` cycles in which a stream advances, or in which it has lost a port."""

    cycles: int
    lost: Lost | None


by_rank = attrgetter("rank")


def is_array(unit: str) -> bool:
    """Return whether a unit is an array: ``pe_array``, or the array of a core of several."""
    return unit == "pe_array" or unit.endswith(".pe_array")


def _nothing() -> None:
    """Do nothing: what follows a stream for which no action was given."""


class Stream:
    """Accesses that cost one slot each, or one slot in every `spacing`.

    Args:
        asker: what asks for ports.
        timeline: needs by access number (not by slot).
        spacing: slots from one access to the next; only the first of them needs ports.
        is_awaited: something depends on being told of its end in that very tick.

    """

    settles_ports = False  # whether streams of its kind settle among themselves which has a port
    needs_arbiter = False  # whether of these its kind leaves ports to the arbiter all the same
    has_course = True  # whether it is known in advance what a stream of its kind will use
    has_rounds = False  # whether what a stream of its kind asks for repeats (`rounds`)

    # How a stream begins; each has its own from the first change on.
    position = 0
    tick = 0
    granted = False
    asks_last_at = -1
    _refused_at = -1
    _resumed: simpy.Event | None = None
    mask_of_sums = 0  # the ports that follow it (`hold`), as `mask`; `wide_mask` has both
    _round: Sequence[RoundPart] = ()
    _part = 0
    _part_left = 0
    _placed: PlacedCourse | None = None

    @property
    def course_is_exact(self) -> bool:
        """Return whether all is used that its course says, for as long."""
        return self.spacing == 1

    def settle_ports(self, *, among_themselves: bool) -> None:
        """Say whether streams of its kind are to do so from now on, or the arbiter."""

    def __init__(
        self,
        env: TickEnvironment,
        asker: Asker,
        timeline: Timeline,
        spacing: int = 1,
        *,
        is_awaited: bool = False,
    ) -> None:
        self._env = env
        self.is_awaited = is_awaited
        self.unit, self.client, self.instruction = asker.unit, asker.client, asker.instruction
        self.rank, self.period, self.holdings = asker.rank, asker.period, asker.holdings
        self.timeline, self.spacing = timeline, spacing
        self.mask = self.wide_mask = timeline.mask
        self.slots = timeline.slots * spacing
        self.progress: list[Granted] = []
        self.refusals: list[Refusal] = []
        self._on_finished: Callable[[], None] = _nothing

    def then(self, action: Callable[[], None]) -> None:
        """Have `action` called when the cycle of the last slot is over."""
        self._on_finished = action

    def leave_sums(self, mask: int) -> None:
        """Say which ports follow it (`hold`), as `mask`."""
        self.mask_of_sums = mask
        self.wide_mask = self.mask | mask

    def finish(self) -> None:
        """Call the action, once, and forget it: it refers to the stream and would keep it."""
        action, self._on_finished = self._on_finished, _nothing
        action()

    def begin(self, tick: int) -> None:
        """Place the stream at its first slot, to be decided in the cycle that begins at `tick`."""
        self.tick = tick

    def ask_last(self) -> None:
        """Let all other streams ask for ports first, in the present tick only."""
        self.asks_last_at = self.tick

    def reach(self) -> Needs:
        """Return each port it may need, for all partitions between the outermost."""
        return self.timeline.reach

    def needs(self) -> tuple[Needs, int]:
        """Return what the next slot needs and for how many slots that stays so."""
        return self._needs_at(self.position)

    def patience(self) -> int | None:
        """Return for how many cycles, if held, it asks for the same; None: until it is granted."""
        return None

    def course(self) -> PlacedCourse:
        """Return what it will use if nothing is refused, from now on at least.

        While it is refused the same course begins later and later.
        """
        origin, placed = self.tick - self.position * self.period, self._placed
        if placed is None or placed.origin != origin:
            course = placed.course if placed else self._course_in_slots()
            placed = self._placed = PlacedCourse(course, origin)
        return placed

    def _course_in_slots(self) -> Course:
        return course_in_slots(self.timeline, self.spacing, self.period)

    def needs_in_progress(self) -> Needs:
        """Return what the slot granted last needs, while its cycle is not yet over."""
        return self._needs_at(self.position - 1)[0]

    def _needs_at(self, slot: int) -> tuple[Needs, int]:
        access, phase = divmod(slot, self.spacing)
        if phase:
            return (), self.spacing - phase
        if access >= self.timeline.slots:
            return (), 1
        needs, until = self.timeline.at(access)
        if self.spacing > 1 and needs:
            return needs, 1
        return needs, (until - access) * self.spacing

    def accesses_ahead(self) -> tuple[Needs, int, int]:
        """Return what the next accesses need, the slots to the first, and to the end of the last.

        They are those from the next slot on that all need the same.
        """
        access = -(-self.position // self.spacing)
        needs, until = self.timeline.at(min(access, self.timeline.slots - 1))
        if access >= self.timeline.slots:
            return (), self.slots - self.position, self.slots - self.position
        return needs, access * self.spacing - self.position, until * self.spacing - self.position

    def remaining(self) -> int:
        """Return the cycles to the end if nothing is refused any more."""
        return self.slots - self.position

    def state(self) -> Hashable:
        """Return all that decides what it asks for; None if it may never be so again."""
        return None

    def pace_in_use(self) -> Hashable:
        """Return how fast it moves what it asks for (DMA only)."""
        return None

    def place(self) -> int:
        """Return a number that grows as the stream comes to things, some of them alike."""
        raise NotImplementedError

    def alike_ahead(self) -> int:
        """Return how many things from the one at `place` on are alike."""
        raise NotImplementedError

    def follow(self, parts: Sequence[RoundPart]) -> None:
        """Repeat the parts of a round from now on; if there are none, wait for decisions again."""
        self._round, self._part, self._part_left = parts, -1, 0

    def advance(self, tick: int) -> None:
        """Account for every cycle that began before `tick`, as last decided."""
        cycles = -(-(tick - self.tick) // self.period)
        while self._round and cycles > 0:
            if not self._part_left:
                self._begin_part()
            spent = min(cycles, self._part_left)
            self._spend(spent)
            self._part_left -= spent
            cycles -= spent
        if cycles > 0:
            self._spend(cycles)

    def _begin_part(self) -> None:
        """Go on with the next part of a round."""
        self._part = (self._part + 1) % len(self._round)
        self._part_left, lost = self._round[self._part]
        if lost is None:
            self.grant()
        else:
            self.refuse(lost)

    def _spend(self, cycles: int) -> None:
        if self.granted:
            self._move(cycles)
        else:
            self.refusals[-1].cycles += cycles
        self.tick += cycles * self.period

    def _move(self, cycles: int) -> None:
        cycles = min(cycles, self.slots - self.position)
        self._note_progress(self.position, cycles)
        self.position += cycles

    def _note_progress(self, slot: int, cycles: int) -> None:
        last = self.progress[-1] if self.progress else None
        if last and last.tick + last.slots * self.period == self.tick:
            self.progress[-1] = Granted(last.slot, last.tick, last.slots + cycles)
        else:
            self.progress.append(Granted(slot, self.tick, cycles))

    def grant(self) -> None:
        """Let the stream advance from now on."""
        self.granted = True
        if self._resumed is not None:
            event, self._resumed = self._resumed, None
            event.succeed()

    def resumed(self) -> simpy.Event | None:
        """Return an event that comes when the stream advances again; None if it is not held.

        Nothing of it ends before. So who waits for its end need not look before either.
        """
        if self.granted or not self.refusals:
            return None
        if self._resumed is None:
            self._resumed = simpy.Event(self._env)
        return self._resumed

    def refuse(self, lost: Lost) -> None:
        """Hold the stream from now on."""
        if self.refusals and not self.refusals[-1].cycles:
            self.refusals.pop()  # of a decision that was made again in the same tick
        last = self.refusals[-1] if self.refusals else None
        again = last is not None and last.tick + last.cycles * self.period == self.tick
        if not (again and last and last.lost == lost):
            self.refusals.append(Refusal(self.tick, 0, lost))
        self._refused_at = self.tick
        self.granted = False

    def set_shares(self, shares: tuple[ShareOfBytes, ...]) -> bool:
        """Say which shares it holds from now on, by holding; return if its pace changes (DMA)."""
        return False

    def done(self, tick: int) -> bool:
        """Return whether nothing remains, the cycle of the last slot being over at `tick`."""
        return self.tick <= tick and self.remaining() == 0

    def runs(self, number: int = 0) -> Iterator[Granted]:
        """Yield the progress so far, and beyond it what follows if nothing more is refused.

        It begins with run `number`; all runs before the last of the progress are final.
        """
        for place in range(number, len(self.progress) - 1):
            yield self.progress[place]
        last, rest = self.progress[-1:], self.slots - self.position
        if rest:
            last = self._continued(last, Granted(self.position, self._next_tick(), rest))
        yield from last

    def _continued(self, last: list[Granted], following: Granted) -> list[Granted]:
        """Return the last run and one that follows it, as one if nothing lies between them."""
        if last and last[0].tick + last[0].slots * self.period == following.tick:
            return [last[0]._replace(slots=last[0].slots + following.slots)]
        return [*last, following]

    def tick_of(self, access: int) -> int:
        """Return the tick of an access: final for what was granted, else the earliest possible."""
        slot = access * self.spacing
        ahead = slot - self.position
        if ahead >= 0:
            return self._earliest_tick() + ahead * self.period
        for run in reversed(self.progress):
            if run.slot <= slot:
                return run.tick + (slot - run.slot) * self.period
        raise IndexError(access)

    def _next_tick(self) -> int:
        """Return the tick of the slot at `position` if nothing more is refused."""
        refused_now = not self.granted and self._refused_at == self.tick
        return max(self._earliest_tick(), self.tick + self.period * refused_now)

    def _earliest_tick(self) -> int:
        """Return the earliest possible tick of the slot at `position`.

        What is refused in this tick may still be granted in it: others may come, and then it is
        decided again.
        """
        if self.granted:
            return self.tick
        return max(self.tick, -(-self._env.tick // self.period) * self.period)

    def made(self, access: int, tick: int) -> bool:
        """Return whether an access was made in a cycle that began at or before `tick`.

        To be asked when that tick has been decided.
        """
        certain = self.granted or access * self.spacing < self.position
        return certain and self.tick_of(access) <= tick

    def ticks(self) -> npt.NDArray[np.int64]:
        """Return the ticks of all accesses, int64."""
        parts = []
        for slot, tick, slots in self.runs():
            first = -(-slot // self.spacing)
            last = -(-(slot + slots) // self.spacing)
            index = np.arange(first, min(last, self.timeline.slots), dtype=np.int64)
            parts.append(tick + (index * self.spacing - slot) * self.period)
        return np.concatenate(parts)

    def ticks_at(self, accesses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the ticks of some accesses by number; costs as many, however long the stream."""
        runs = [*self.runs()]
        begins = np.array([run.slot for run in runs], np.int64)
        ticks = np.array([run.tick for run in runs], np.int64)
        slots = accesses * self.spacing
        run = np.searchsorted(begins, slots, side="right") - 1
        return np.asarray(ticks[run] + (slots - begins[run]) * self.period)

    def port_use(self, stretches: Iterable[Stretch]) -> Iterable[tuple[Need, Beats]]:
        """Return each need and when it used the port, for what was granted of some stretches."""
        return self._port_use(stretches) if stretches else ()

    def _port_use(self, stretches: Iterable[Stretch]) -> Iterator[tuple[Need, Beats]]:
        for needed in stretches:
            for run in self.progress:
                first = max(needed.first * self.spacing, run.slot)
                stop = min(needed.stop * self.spacing, run.slot + run.slots)
                if uses := self._accesses(run, first, stop):
                    for need in needed.needs:
                        yield need, uses

    def _accesses(self, run: Granted, first: int, stop: int) -> Beats | None:
        """Return when slots first <= slot < stop of a run made an access; None if none did."""
        period, spacing = self.period, self.spacing
        first = -(-first // spacing) * spacing
        if first >= stop:
            return None
        tick = run.tick + (first - run.slot) * period
        if spacing == 1:
            return stretch(tick, tick + (stop - first) * period)
        return Beats(tick, period, spacing * period, -(-(stop - first) // spacing))
