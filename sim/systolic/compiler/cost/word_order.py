"""The order of a relay of words, with its estimate: engines and the array work side by side.

Every bank has one port for reads. So an engine that copies from a bank has it for itself, and the
next one begins behind it. All other units work meanwhile. The order is found by going through time:
what can begin first is done next, by the engine that will be done with it first. That is tried with
each share of the engines: some of them copy in lanes, and some take results out.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from itertools import combinations, product
from typing import Literal, NamedTuple

from systolic.compiler.cost.word_relays import TurnTicks, WordTimes
from systolic.hw.spec import Chip

HALVES = 2
"""A source lies in two banks, and so do bands that have been brought beside one another."""

FIRST = 2
"""DMA may send so many of the first bands of each half of the source: later ones would end last."""
BEST = 8
"""Of so many shares of the engines all bands are tried that DMA may send."""
LATE = 0, 8, 1 << 16
"""How many turns may wait until an engine that puts elements in order takes results out."""

StepKind = Literal["bring", "order", "order all", "send", "turn", "turn back"]


class EngineShares(NamedTuple):
    """Which engines bring parts beside one another, put elements in order, and take results out.

    late: those that put in order take results out when so many turns wait, or all is in order.
    """

    bringing: frozenset[str]
    ordering: frozenset[str]
    taking: frozenset[str]
    late: int


class WordStep(NamedTuple):
    """A step of a relay of words, by the numbers of a band and of a part of it.

    engine: that copies, or takes the result out. ports: at which it reads each piece.
    """

    kind: StepKind
    band: int
    part: int
    engine: str = ""
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WordPlan:
    """The steps in the order in which they are queued. cycles: of the array, about, of them all."""

    steps: tuple[WordStep, ...]
    cycles: int


def word_plan(chip: Chip, times: WordTimes) -> WordPlan:
    """Return the order of the least estimate."""
    plans = dict[EngineShares, WordPlan]()
    for shares in _shares(times):
        ways = _sent(times, (0,) if shares.late else (0, 1))
        few = (_Order(chip, times, shares, sent).plan() for sent in ways)
        plans[shares] = min(few, key=lambda plan: plan.cycles)
    found = [*plans.values()]
    for shares in nsmallest(BEST, plans, key=lambda some: plans[some].cycles):
        ways = _sent(times, (1, 2) if shares.late else (2,))
        found += [_Order(chip, times, shares, sent).plan() for sent in ways]
    return min(found, key=lambda plan: plan.cycles)


def _sent(times: WordTimes, counts: Iterable[int]) -> Iterator[frozenset[int]]:
    """Yield which bands DMA may send: so many of the first ones of each half of the source."""
    bands = range(len(times.halves))
    halves = [[n for n in bands if times.halves[n] == half] for half in range(HALVES)]
    if times.bring:
        halves = [[*bands[half::HALVES]] for half in range(HALVES)]
    first = [band for half in halves for band in half[:FIRST]]
    for count in counts:
        if not count or (times.send is not None and count < len(bands)):
            yield from map(frozenset, combinations(first, count))


def _shares(times: WordTimes) -> Iterator[EngineShares]:
    """Yield shares in which every engine has a part."""
    every = frozenset(times.engines)
    fastest = frozenset(sorted(times.bring, key=lambda name: times.bring[name])[:1])
    brings = dict.fromkeys((fastest, frozenset(times.bring)))
    ways = product(brings, _some(times.order), _some(times.turn.taken), LATE)
    for bringing, ordering, taking, late in ways:
        if bringing | ordering | taking == every and (not late or ordering & taking):
            yield EngineShares(bringing, ordering, taking, late)


def _some(engines: Iterable[str]) -> list[frozenset[str]]:
    names = [*engines]
    counts = range(1, len(names) + 1)
    return [frozenset(some) for count in counts for some in combinations(names, count)]


class _Waiting(NamedTuple):
    """A step whose engine is yet to be found, and when it can begin."""

    step: WordStep
    ready: int


class _Begin(NamedTuple):
    """When something can begin, what comes first of two at once, and what does it."""

    tick: int
    rank: int
    do: Callable[[], None]


@dataclass(slots=True)
class _Order:
    """Goes through time, in ticks.

    free: when each unit is. ports: the engine that was last at each, and until when. copies: what
    waits for each port. turns: what waits for the array, by its kind, the first one first. left:
    the parts of each band that have not been turned. done: when those that have been are there.
    seen: when what an engine has written can be used. last: when all is done.
    """

    chip: Chip
    times: WordTimes
    shares: EngineShares
    sent: frozenset[int] = frozenset()
    steps: list[WordStep] = field(default_factory=list)
    free: dict[str, int] = field(default_factory=dict)
    ports: dict[int, tuple[str, int]] = field(default_factory=dict)
    copies: dict[tuple[int, ...], deque[_Waiting]] = field(default_factory=dict)
    turns: dict[StepKind, list[_Waiting]] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    last: int = 0

    def plan(self) -> WordPlan:
        """Return the steps in their order."""
        times, chip = self.times, self.chip
        self.left = dict.fromkeys(range(len(times.halves)), times.parts)
        self.free = dict.fromkeys((*times.engines, "pe_array", "dma"), 0)
        for name in times.engines:
            cycles = chip.engine(name).latency_cycles + chip.post_cycles(name)
            self.seen[name] = cycles * chip.period(name)
        for band, half in enumerate(times.halves):
            if times.bring:
                step = WordStep("bring", band, 0, ports=_from(times.pieces, band % HALVES))
                self._may_copy(_Waiting(step, 0))
            else:
                self._may_order(band, half, 0)
        while self._next():
            pass
        return WordPlan(tuple(self.steps), -(-self.last // chip.period("pe_array")))

    def _may_order(self, band: int, port: int, ready: int) -> None:
        if band in self.sent:
            self._may_copy(_Waiting(WordStep("order all", band, 0, ports=(port,)), ready))
            return
        for part in range(self.times.parts):
            self._may_copy(_Waiting(WordStep("order", band, part, ports=(port,)), ready))

    def _may_copy(self, waiting: _Waiting) -> None:
        self.copies.setdefault(waiting.step.ports, deque()).append(waiting)

    def _next(self) -> bool:
        """Do what can begin first; return whether there was anything."""
        found = [*self._copies(), *self._turns()]
        if not found:
            return False
        min(found, key=lambda each: each[:2]).do()
        return True

    def _copies(self) -> Iterator[_Begin]:
        for queue in self.copies.values():
            if queue:
                name = self._engine(queue[0])
                begin, _ = self._when(queue[0], name)
                yield _Begin(begin, 1, partial(self._copy, queue, name))

    def _engine(self, waiting: _Waiting) -> str:
        """Return the engine that will be done with a copy first."""
        brings = waiting.step.kind == "bring"
        names = self.shares.bringing if brings else self.shares.ordering
        return min(sorted(names), key=lambda each: self._when(waiting, each)[1])

    def _ticks(self, step: WordStep) -> dict[str, int]:
        if step.kind == "order all":
            return self.times.order_all
        return self.times.bring if step.kind == "bring" else self.times.order

    def _when(self, waiting: _Waiting, name: str) -> tuple[int, tuple[int, ...]]:
        """Return when an engine begins and when it leaves each port, behind the one before it."""
        now, each = max(waiting.ready, self.free[name]), self._ticks(waiting.step)[name]
        begin, ends = -1, []
        for port in waiting.step.ports:
            last, free = self.ports.get(port, (name, 0))
            now = max(now, free + self.seen[last] if last != name else free)
            begin = now if begin < 0 else begin
            now += each // len(waiting.step.ports)
            ends.append(now)
        return begin, tuple(ends)

    def _copy(self, queue: deque[_Waiting], name: str) -> None:
        _, ends = self._when(queue[0], name)
        step = queue.popleft().step._replace(engine=name)
        self.steps.append(step)
        self.free[name] = ends[-1]
        self.ports |= {port: (name, end) for port, end in zip(step.ports, ends, strict=True)}
        done = ends[-1] + self.seen[name]
        if step.kind == "bring":
            self._may_order(step.band, HALVES + step.band % HALVES, done)
        elif step.kind == "order all":
            self._send(step.band, done)
        else:
            self._may_turn(WordStep("turn", step.band, step.part), done)

    def _send(self, band: int, ready: int) -> None:
        assert self.times.send is not None
        size, latency = self.times.send
        self.free["dma"] = max(ready, self.free["dma"]) + size
        self.steps.append(WordStep("send", band, 0))
        self.last = max(self.last, self.free["dma"] + latency)

    def _turns(self) -> Iterator[_Begin]:
        """Yield the turn whose result can be taken out first; of several one of the first kind.

        Turns are queued in the order in which results are taken out, which takes longer than they.
        """
        found = [(self._taken(some[0]), some[0]) for some in self.turns.values() if some]
        if found:
            (first, begin, name), waiting = min(
                found, key=lambda some: (some[0][1], some[1].step.kind)
            )
            yield _Begin(begin, 0, partial(self._turn, waiting, first, begin, name))

    def _may_turn(self, step: WordStep, ready: int) -> None:
        insort(self.turns.setdefault(step.kind, []), _Waiting(step, ready), key=lambda w: w.ready)

    def _taken(self, waiting: _Waiting) -> tuple[int, int, str]:
        """Return when a turn begins, and when which engine takes its result out."""
        ticks, shares = self._turn_ticks(waiting.step), self.shares
        first = max(waiting.ready + ticks.load, self.free["pe_array"])
        names = shares.taking
        waiting_turns = sum(map(len, self.turns.values()))
        if waiting_turns < shares.late and any(self.copies.values()):
            names = (names - shares.ordering) or names
        begins = {name: max(first + ticks.until, self.free[name]) for name in sorted(names)}
        name = min(begins, key=lambda each: begins[each] + ticks.taken[each])
        return first, begins[name], name

    def _turn_ticks(self, step: WordStep) -> TurnTicks:
        return self.times.turn if step.kind == "turn" else self.times.back

    def _turn(self, waiting: _Waiting, first: int, begin: int, name: str) -> None:
        self.turns[waiting.step.kind].remove(waiting)
        step, ticks = waiting.step._replace(engine=name), self._turn_ticks(waiting.step)
        self.steps.append(step)
        self.free["pe_array"], self.free[name] = first + ticks.each, begin + ticks.taken[name]
        done, band = self.free[name] + self.seen[name], step.band
        self.last = max(self.last, done)
        if step.kind == "turn back":
            return
        self.left[band] -= 1
        self.done[band] = max(done, self.done.get(band, 0))
        if not self.left[band]:
            for part in range(self.times.columns):
                self._may_turn(WordStep("turn back", band, part), self.done[band])


def _from(ports: tuple[int, ...], half: int) -> tuple[int, ...]:
    """Return the ports of pieces that begin in one half: neighbours begin in both."""
    first = len(ports) // HALVES * half
    return (*ports[first:], *ports[:first])
