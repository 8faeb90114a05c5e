"""Descriptors of one copy on their way; equal descriptors are a group, one event for all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.machine.event.dma.costs import DRAM, working_cycles
from systolic.machine.event.dma.descriptors import BundleGroup
from systolic.machine.event.dma.moved import MovedBundles
from systolic.machine.event.dma.needs import bank_edge, descriptor_needs
from systolic.machine.event.dma.pace import (
    FOREVER,
    BestRate,
    BytePace,
    CopyRate,
    HeldShares,
    Orbit,
    SharedRate,
)
from systolic.machine.event.dma.plan import CopyPlan
from systolic.machine.event.ports.beats import Beats
from systolic.machine.event.ports.course import (
    Course,
    PlacedCourse,
    Use,
    UseTable,
    joined,
    table_of,
)
from systolic.machine.event.ports.ports import Need, Needs, Port, Stretch, Timeline
from systolic.machine.event.ports.stream import Asker, Lost, ShareOfBytes, Stream
from systolic.machine.event.ticks import TickEnvironment

ALL = ShareOfBytes(0, 1, 1)

NO_SLOTS = Timeline([], 0)
"""The timeline of what moves bytes at a pace, not slot by slot."""

LONG_CYCLES = 512
"""A bundle of more cycles is looked at byte by byte: a round of such bundles has more decisions
than a contest remembers.
"""


class DmaStream(Stream):
    """Descriptors on their way: fetch, then bytes at a pace that users of DRAM and engine share.

    A copy from DRAM to DRAM holds two shares and counts every byte twice, as read and as written.

    Cycles that were granted are only counted at first (`_behind`); what they moved is worked out
    when something depends on it (`_catch_up`). So a copy that meets nothing costs nothing while
    others are decided.
    """

    has_rounds = True

    def __init__(
        self,
        env: TickEnvironment,
        chip: Chip,
        plan: CopyPlan,
        asker: Asker,
    ) -> None:
        # Others share its bandwidth, and the next copy may start.
        super().__init__(env, asker, NO_SLOTS, is_awaited=True)
        self.mask = self.wide_mask = plan.mask
        self._plan, self._copy, self._groups = plan, plan.copy, plan.groups
        self._overlaps = chip.dma.descriptor_cost == "max"
        self._own_rate, self._dram_rate = chip.dma.bytes_per_cycle, chip.dram.bytes_per_cycle
        self._working = working_cycles(chip, plan.copy)
        self._best = self._best_rate()
        self._piece, self._group = plan.pieces[0], 0
        self._shared: CopyRate = self._best
        self._is_at_best = True
        self._paces = plan.paces(self._shared)
        self._pace = self._paces[0]
        self._is_only_delayed = False
        self._index = self._begun = self._fetched = self._moved = 0
        self._behind = self._from = 0
        self._over: int | None = None
        self._done = MovedBundles(plan, asker.period)
        self._is_split = plan.is_split

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the bytes of each descriptor, int64."""
        return self._plan.sizes

    @property
    def first_byte(self) -> int | None:
        """Return the tick of the cycle in which the first byte moved; None: none has."""
        return self._done.first_byte

    @property
    def port_cycles(self) -> dict[Port, int]:
        """Return the cycles in which it used each port of the state buffer."""
        return self._done.port_cycles

    def runs_by_size(self) -> Iterator[tuple[int, int]]:
        """Yield (bytes, how many) for the descriptors."""
        return ((g.size_bytes, g.count * g.rows) for g in self._groups)

    def begin(self, tick: int) -> None:
        """Begin with the first descriptor in the cycle at `tick`."""
        super().begin(tick)
        self._begun = tick // self.period

    def span(self) -> tuple[int, int]:
        """Return the ticks of the first and the last cycle in which bytes moved."""
        first = self._done.first_byte
        assert first is not None
        return first, self.end_tick()

    def set_shares(self, shares: tuple[ShareOfBytes, ...]) -> bool:
        """Hold these shares of DRAM's bandwidth and of the engine's; return if its pace changes.

        Most changes leave it as it is: a queue moves no more than its engine can, however few
        share DRAM with it.
        """
        found = self._plan.rates.get(shares)
        if found is None:
            rate = self._rate_of(shares)
            found = self._plan.rates[shares] = rate, self._plan.paces(rate)
        rate, paces = found
        if paces is self._paces:
            return False
        self.advance(self._env.tick)
        self._catch_up()
        self._shared, self._paces = rate, paces
        self._placed = self._over = None
        self._is_at_best = paces is self._plan.paces(self._best)
        self._take_up()
        return True

    def _best_rate(self) -> CopyRate:
        """Return a rate that it never exceeds."""
        dram_shares = dict(self.holdings).get(DRAM, 0)
        return BestRate(self._own_rate, self._dram_rate, dram_shares, self._working)

    def _rate_of(self, shares: tuple[ShareOfBytes, ...]) -> CopyRate:
        """Return the rate that these shares, in the order of its holdings, allow."""
        engine, dram = ALL, None
        for (pool, _), share in zip(self.holdings, shares, strict=True):
            if pool == DRAM:
                dram = HeldShares(self._dram_rate, *share)
            elif engine is ALL or share.of > engine.of:
                engine = share
        return SharedRate(HeldShares(self._own_rate, *engine), dram, self._working)

    def refuse(self, lost: Lost) -> None:
        """Hold the stream from now on."""
        self._catch_up()
        self._over = None
        if not self._is_only_delayed:
            self._placed = None
        super().refuse(lost)

    def done(self, tick: int) -> bool:
        """Return whether nothing remains, the cycle of the last byte being over at `tick`."""
        if self._over is not None and self.tick < self._over * self.period:
            return False
        self._catch_up()
        return self._group == len(self._groups) and self.tick <= tick

    def remaining(self) -> int:
        """Return the cycles to the end at the present pace."""
        cycle = self.tick // self.period
        if self._over is None:
            self._catch_up()
            cycles = self._remaining(self._shared, cycle)
            if self.granted:
                self._over = cycle + cycles  # until it is refused, or its pace changes
            return cycles
        return max(0, self._over - cycle)

    def _take_up(self) -> None:
        """Note the bundles of the group in hand, and the pace that their ports let pass."""
        if self._group < len(self._groups):
            self._piece = self._plan.pieces[self._group]
            self._pace = self._paces[self._group]

    def _remaining(self, rate: CopyRate, cycle: int) -> int:
        """Return the cycles from `cycle` to the end at a rate."""
        if self._group == len(self._groups):
            return 0
        group, at, begun = self._groups[self._group], cycle, self._is_begun(cycle)
        if begun:
            at = self._descriptor_over(rate, cycle)
        count = group.count - self._index - begun
        if count:
            at += self._pace_at(rate).orbit(self._piece, at).cycles(count)
        return at - cycle + self._plan.cycles_from(self._group + 1, rate, at)

    def _pace_at(self, rate: CopyRate) -> BytePace:
        """Return the pace of the group in hand at a rate, nearly always that at which it moves."""
        return self._pace if rate is self._shared else self._plan.paces(rate)[self._group]

    def _is_begun(self, cycle: int) -> bool:
        """Return whether the descriptor in hand cannot be taken for one that begins in `cycle`."""
        if self._overlaps:
            return cycle != self._begun or bool(self._moved)
        return bool(self._fetched or self._moved)

    def _descriptor_over(self, rate: CopyRate, cycle: int) -> int:
        """Return the cycle after the last of the descriptor in hand, at a rate from `cycle` on."""
        left, cost = self._piece.size - self._moved, self._piece.fetch
        pace = self._pace_at(rate)
        if not self._overlaps:
            cycle += cost - self._fetched
            return cycle + pace.cycles(cycle, left)
        over = cycle + pace.cycles(cycle, left) if left else cycle
        return max(over, self._begun + cost)

    def reach(self) -> Needs:
        """Return each port it may need, for all partitions between the outermost."""
        return self._plan.reach

    def needs(self) -> tuple[Needs, int]:
        """Return the ports the next cycle needs, and for how many cycles."""
        self._catch_up()
        group, pace, cycle = self._groups[self._group], self._pace, self.tick // self.period
        if quiet := self._quiet(cycle):
            return (), quiet
        needed = self._ports_in(cycle)
        if not pace.amount(cycle):
            return needed, pace.alike(cycle)
        return needed, min(
            self._plan.cycles_in_banks(group, cycle, self._moved, pace), pace.alike(cycle)
        )

    def _quiet(self, cycle: int) -> int:
        """Return for how many cycles from `cycle` on the descriptor in hand moves nothing."""
        if not self._overlaps:
            return self._piece.fetch - self._fetched
        if self._moved < self._piece.size:
            return 0
        return self._begun + self._piece.fetch - cycle

    @property
    def course_is_exact(self) -> bool:
        """Return whether all is used that its course says, for as long.

        Bytes may be over before the cost of a descriptor is, and there may be cycles without any.
        """
        return not self._overlaps and all(pace.least for pace in self._paces)

    def course(self) -> PlacedCourse:
        """Return what it will use if nothing is refused, from now on at least.

        It holds until its pace changes, or until it is refused if that does more than delay it.
        """
        if self._placed is None:
            self._placed = self._make_course()
        return self._placed

    def _make_course(self) -> PlacedCourse:
        self._catch_up()
        is_steady = all(pace.phases == 1 for pace in self._paces)
        self._is_only_delayed = is_steady and self._ends_with_bytes()
        is_in_cycle = self.granted and self.tick > self._env.tick
        if is_steady and self._plan.has_course and not is_in_cycle:
            return self._planned_course()
        tables = [table_of(self._uses_in_progress()), self._table_ahead()]
        return PlacedCourse(Course.of_table(joined(tables)), 0)

    def _ends_with_bytes(self) -> bool:
        """Return whether descriptors are over when their bytes are, and not later for their cost.

        Then a cycle in which one is held only delays all that follows.
        """
        if not self._overlaps or self._group == len(self._groups):
            return True
        cycle, left = self.tick // self.period, self._piece.size - self._moved
        if self._begun + self._piece.fetch > cycle + self._pace.cycles(cycle, left):
            return False
        pieces = zip(self._plan.pieces, self._paces, strict=True)
        return all(piece.fetch <= pace.cycles(0, piece.size) for piece, pace in pieces)

    def _planned_course(self) -> PlacedCourse:
        """Return the course of a copy at a pace that never varies, such that it fits from now on.

        The bundle in hand ends when it will; it may seem to have begun at another time.
        """
        plan, cycle = self._plan.course(self._paces, self.period), self.tick // self.period
        bundle = plan.groups[self._group] + self._index
        if self._group < len(self._groups) and self._is_begun(cycle):
            bundle, cycle = bundle + 1, self._descriptor_over(self._shared, cycle)
        return PlacedCourse(plan.course, cycle * self.period - plan.begins[bundle])

    def _uses_in_progress(self) -> Iterator[Use]:
        """Yield what it uses in a cycle that has begun and is not over."""
        if self.granted and self.tick > self._env.tick:
            for need in self.needs_in_progress():
                yield Use(need, self.tick - self.period, self.tick)

    def _spend(self, cycles: int) -> None:
        super()._spend(cycles)
        if self._placed is not None and not self.granted:
            course, origin = self._placed
            self._placed = PlacedCourse(course, origin + cycles * self.period)

    def _table_ahead(self) -> UseTable:
        """Return what it will use at the present pace, bundle by bundle."""
        self._catch_up()
        cycle, index, parts = self.tick // self.period, self._index, list[UseTable]()
        over_banks: list[Use] = []  # of neighbouring groups, made a table together
        if self._group < len(self._groups) and self._is_begun(cycle):
            first = cycle if self._overlaps else cycle + self._piece.fetch - self._fetched
            cycle = self._descriptor_over(self._shared, cycle)
            group = self._groups[self._group]
            if group.one_bank:
                times = np.array([first]) * self.period, np.array([cycle]) * self.period
                parts.append(self._plan.table_of(self._group, index, *times))
            else:
                over_banks += self._plan.uses_over_banks(
                    self._group, self._pace, first, self._moved, self.period
                )
            index += 1
        for place in range(self._group, len(self._groups)):
            group, piece = self._groups[place], self._plan.pieces[place]
            if index < group.count:
                orbit = self._paces[place].orbit(piece, cycle)
                ends = cycle + orbit.ends(group.count - index)
                moving = ends[:-1] if self._overlaps else ends[:-1] + piece.fetch
                if group.one_bank:
                    times = moving * self.period, ends[1:] * self.period
                    parts += [table_of(over_banks), self._plan.table_of(place, index, *times)]
                    over_banks.clear()
                else:
                    over_banks += self._plan.uses_over_banks(
                        place, self._paces[place], int(moving[0]), 0, self.period
                    )
                cycle = int(ends[-1])
            index = 0
        return joined([*parts, table_of(over_banks)])

    def pace_in_use(self) -> Hashable:
        """Return the pace that its shares allow, as long as they stay the same."""
        return self._shared

    def state(self) -> Hashable:
        """Return how far it is in its pace and its bundle, and the partitions if ports differ.

        Of a bundle that `_is_by_itself` the bytes moved are left out: it is as it is now again at
        other bytes in the same bank. None if all of them have moved, and only its cost is not over.
        """
        self._catch_up()
        group, cycle = self._groups[self._group], self.tick // self.period
        phase = cycle % self._shared.phases
        if self._is_by_itself():
            if self._moved == self._piece.size:
                return None
            return self._group, self._index, self._bytes_in_bank(), self._fetched, phase
        lanes = tuple(group.partitions[:, self._index].tolist()) if self._is_split else ()
        begun = min(cycle - self._begun, self._piece.fetch) if self._overlaps else 0
        return self._group, lanes, self._fetched, self._moved, begun, phase

    def place(self) -> int:
        """Return the number of the bundle in hand in its group, or the number of bytes moved.

        It is the number of bytes if `state` leaves them out.
        """
        self._catch_up()
        return self._moved if self._is_by_itself() else self._index

    def alike_ahead(self) -> int:
        """Return how many bundles, or bytes of the one in hand, want the same ports from now on."""
        self._catch_up()
        if self._is_by_itself():
            return self._bytes_in_bank() - self._moved
        return self._bundles_alike()

    def _is_by_itself(self) -> bool:
        """Return whether what repeats is looked for within the bundle in hand.

        It is if no bundle behind it wants the same ports, or if it takes long.
        """
        return self._bundles_alike() == 1 or self._pace.cycles(0, self._piece.size) > LONG_CYCLES

    def _bundles_alike(self) -> int:
        """Return how many bundles from that in hand on want the same ports."""
        group = self._groups[self._group]
        if not self._is_split or group.count == 1:
            return group.count - self._index
        edges = self._plan.lane_edges[self._group]
        return edges[bisect_right(edges, self._index)] - self._index

    def _bytes_in_bank(self) -> int:
        """Return the byte of the bundle in hand that is the first in other banks, or behind all."""
        group = self._groups[self._group]
        if group.one_bank:
            return self._piece.size
        return min(self._piece.size, bank_edge(self._plan.ends, group, self._moved))

    def patience(self) -> int | None:
        """Return for how many cycles it asks for the same: its share may be another in the next."""
        self._catch_up()
        if self._pace.phases == 1:
            return None
        group, most = self._groups[self._group], self._moved + self._pace.most
        if not group.one_bank and bank_edge(self._plan.ends, group, self._moved) < most:
            return 1
        same = self._pace.alike(self.tick // self.period)
        return None if same == FOREVER else same

    def _ports_in(self, cycle: int) -> Needs:
        """Return the ports of the bytes that move next, if they move in this cycle."""
        amount, group = self._pace.amount(cycle), self._groups[self._group]
        if not amount:
            return ()
        if group.one_bank:
            return self._plan.needs(self._group, self._index)
        stop = min(self._moved + amount, self._piece.size)
        return descriptor_needs(
            self._copy, self._plan.ends, group, self._index, first=self._moved, stop=stop
        )

    def needs_in_progress(self) -> Needs:
        """Return the ports of the cycle granted last."""
        self._catch_up()
        if self._last_bundle is not None:
            self._last_needs, self._last_bundle = self._plan.needs(*self._last_bundle), None
        return self._last_needs

    _last_needs: Needs = ()
    _last_bundle: tuple[int, int] | None = None
    """The group and the number of the bundle of the cycle granted last, if in one bank."""

    def _note_last(self, needs: Needs) -> None:
        self._last_needs, self._last_bundle = needs, None

    def _move(self, cycles: int) -> None:
        self._note_progress(0, cycles)
        if not self._behind:
            self._from = self.tick // self.period
        self._behind += cycles

    def _catch_up(self) -> None:
        """Work out what was moved in the cycles granted since the last time."""
        if not self._behind:
            return
        cycle, stop, self._behind = self._from, self._from + self._behind, 0
        while cycle < stop and self._group < len(self._groups):
            group = self._groups[self._group]
            if not self._is_begun(cycle) and group.one_bank:
                orbit = self._pace.orbit(self._piece, cycle)
                whole = min(orbit.whole(stop - cycle), group.count - self._index)
                if whole:
                    cycle = self._end_descriptors(group, whole, cycle, orbit)
                    continue
            cycle += self._step(group, stop - cycle, cycle)

    def _step(self, group: BundleGroup, cycles: int, cycle: int) -> int:
        """Work on a single descriptor for up to `cycles` cycles; return the cycles spent."""
        quiet = min(cycles, self._quiet(cycle))
        if quiet:
            self._fetched += quiet
            if quiet == cycles or self._overlaps:
                self._note_last(())
                self._end_if_over(group, cycle + quiet)
                return quiet
        return quiet + self._move_bytes(group, cycles - quiet, cycle + quiet)

    def _move_bytes(self, group: BundleGroup, cycles: int, cycle: int) -> int:
        """Move bytes of the descriptor in hand for up to `cycles` cycles; return those spent."""
        pace, left = self._pace, self._piece.size - self._moved
        if group.one_bank and pace.phases == 1 and not self._plan.uses_results:  # as most are
            return self._move_steadily(group, min(cycles, -(-left // pace.most)), cycle)
        spent = min(cycles, self._plan.cycles_in_banks(group, cycle, self._moved, pace))
        moving = cycle + pace.cycles(cycle, 1) - 1
        needs: Needs = ()
        if moving < cycle + spent:
            self._done.see_first_byte(moving)
            if group.one_bank and not self._plan.uses_results:
                self._done.add_busy(pace.busy(cycle, spent))
            else:
                needs = self._ports_in(moving)
                for need in self._plan.once(needs):
                    self._done.count(need, pace, cycle, spent)
        if group.one_bank and pace.amount(cycle + spent - 1):
            self._last_bundle = self._group, self._index
        else:
            is_alike = needs and pace.phases == 1
            self._note_last(needs if is_alike else self._ports_in(cycle + spent - 1))
        self._moved += min(left, pace.moved(cycle, spent))
        self._end_if_over(group, cycle + spent)
        return spent

    def _move_steadily(self, group: BundleGroup, spent: int, cycle: int) -> int:
        """Move as many bytes in each of some cycles, in one bank of the state buffer or in DRAM."""
        self._done.see_first_byte(cycle)
        self._done.add_busy(spent)
        self._last_bundle = self._group, self._index
        self._moved = min(self._piece.size, self._moved + spent * self._pace.most)
        self._end_if_over(group, cycle + spent)
        return spent

    def _end_if_over(self, group: BundleGroup, stop: int) -> None:
        """End the descriptor in hand if it was over in the cycle before `stop`."""
        cost_is_over = not self._overlaps or stop >= self._begun + self._piece.fetch
        if self._moved == self._piece.size and cost_is_over:
            self._done.end_one(stop)
            self._next(group, 1, stop)

    def _end_descriptors(self, group: BundleGroup, count: int, cycle: int, orbit: Orbit) -> int:
        """Note that `count` bundles, begun in `cycle`, are over; return the cycle after."""
        pace, moving = self._pace, cycle if self._overlaps else cycle + self._piece.fetch
        self._done.see_first_byte(moving + pace.cycles(moving, 1) - 1)
        self._last_bundle = self._group, self._index + count - 1
        self._done.add_busy(orbit.busy(count))
        if self._plan.uses_results:
            self._done.count_results(self._group, pace, cycle, orbit, count)
        stop = self._done.end_many(count, cycle, orbit)
        if self._overlaps:
            begun = cycle + orbit.cycles(count - 1)
            if begun + pace.cycles(begun, self._piece.size) < stop:
                self._note_last(())
        self._next(group, count, stop)
        return stop

    def port_use(self, stretches: Iterable[Stretch] = ()) -> Iterator[tuple[Need, Beats]]:
        """Yield each port of the result buffer and when it was used; a copy has no stretches."""
        return self._done.port_use()

    def _next(self, group: BundleGroup, count: int, cycle: int) -> None:
        """Go on by `count` descriptors; the next one begins in `cycle`."""
        self._index += count
        self._fetched = self._moved = 0
        self._begun = cycle
        if self._index == group.count:
            self._done.count_group(self._group)
            self._group, self._index = self._group + 1, 0
            self._take_up()

    def end_tick(self) -> int:
        """Return the tick of the last byte: final once it has moved, else the earliest possible.

        Other copies may end and leave DRAM to this one, so the bytes to come count at the best
        rate.
        """
        if self._over is not None and self.granted and self._is_at_best and not self._round:
            return (self._over - 1) * self.period
        self.advance(self._env.tick)
        self._catch_up()
        if self._group == len(self._groups):
            return (self._done.stop - 1) * self.period
        tick = self.tick
        if not self.granted:
            tick = max(tick, -(-self._env.tick // self.period) * self.period)
        return tick + (self._remaining(self._best, tick // self.period) - 1) * self.period

    def descriptor_ticks(self) -> npt.NDArray[np.int64]:
        """Return the tick of each descriptor's last byte, int64."""
        return self._done.descriptor_ticks()
