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
from heapq import nsmallest
from itertools import combinations, product
from typing import NamedTuple

from systolic.compiler.cost.word_balance import (
    EngineShares,
    StepKind,
    WordBalance,
    word_balance,
)
from systolic.compiler.cost.word_relays import TurnTicks, WordTimes
from systolic.hw.spec import Chip

HALVES = 2
"""A source lies in two banks, and so do bands that have been brought beside one another."""

FIRST = 2
"""DMA may send so many of the first bands of each half of the source: later ones would end last."""
BEST = 8
"""Of so many shares of the engines all bands are tried that DMA may send."""
NEARLY = 1.06
"""Those shares take at most so many times the least when DMA sends fewer bands."""
ROUNDED = 0.5
"""No cost in ticks is rounded by as much."""


class WordStep(NamedTuple):
    """A step of a relay of words, by the numbers of a band and of a part of it.

    engine: that copies, or takes the result out. ports: at which it reads each piece. place: the
    number of the bank to which it brings a band.
    """

    kind: StepKind
    band: int
    part: int
    engine: str = ""
    ports: tuple[int, ...] = ()
    place: int = 0


@dataclass(frozen=True, slots=True)
class WordPlan:
    """The steps in the order in which they are queued. cycles: of the array, about, of them all."""

    steps: tuple[WordStep, ...]
    cycles: int


def word_plan(chip: Chip, times: WordTimes, most: float) -> WordPlan | None:
    """Return the order of the least estimate; None if none takes so few cycles.

    most: of the array.
    """
    period = chip.period("pe_array")
    best, limit = None, most * period
    found = dict[EngineShares, int]()
    every = [*_shares(times)]
    for trial in _trials(times, every, lambda shares: (0,) if shares.late else (0, 1)):
        made = _Order(chip, times, trial, limit * NEARLY).plan()
        if made is None:
            continue
        found[trial.shares] = min(made.cycles, found.get(trial.shares, made.cycles))
        if made.cycles * period <= limit:
            best, limit = made, (made.cycles - 1) * period
    few = nsmallest(BEST, found, key=lambda shares: (found[shares], every.index(shares)))
    for trial in _trials(times, few, lambda shares: (1, 2) if shares.late else (2,)):
        made = _Order(chip, times, trial, limit).plan()
        if made is not None:
            best, limit = made, (made.cycles - 1) * period
    return best


class _Trial(NamedTuple):
    """Shares of the engines, the bands that DMA sends, and what that takes at least."""

    shares: EngineShares
    sent: frozenset[int]
    least: WordBalance


def _trials(
    times: WordTimes,
    some: Iterable[EngineShares],
    counts: Callable[[EngineShares], Iterable[int]],
) -> list[_Trial]:
    """Return shares with so many bands that DMA sends, those first that could take least."""
    known = dict[object, WordBalance]()
    found = list[_Trial]()
    for shares in some:
        for sent in _sent(times, counts(shares)):
            key = shares[:3], len(sent)
            if key not in known:
                known[key] = word_balance(times, shares, len(sent))
            found.append(_Trial(shares, sent, known[key]))
    return sorted(found, key=lambda trial: trial.least.ticks)


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
    takings = _some(times.turn.taken) or [frozenset[str]()]
    ways = product(brings, _some(times.order), takings, (False, True))
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


class _CopyBegin(NamedTuple):
    """When which engine can begin a copy, and when it leaves each port."""

    begin: int
    engine: str
    ends: list[int]


class _TurnBegin(NamedTuple):
    """When which engine can take the result of a turn out, and when the array begins it."""

    begin: int
    waiting: _Waiting
    first: int
    engine: str


@dataclass(slots=True)
class _Order:
    """Goes through time, in ticks.

    limit: of those that it may take. free: when each unit is. ports: the engine that was last at
    each, and until when. copies: what waits for each port. turns: what waits for the array, by its
    kind, the first one first. left: the parts of each band that have not been turned. done: when
    those that have been are there. last: when all is done. brought: how many bands have been.
    least: what all takes at least, by the prices of the balance. array: what the array has yet to
    do.
    """

    chip: Chip
    times: WordTimes
    trial: _Trial
    limit: float
    steps: list[WordStep] = field(default_factory=list)
    free: dict[str, int] = field(default_factory=dict)
    ports: dict[int, tuple[str, int]] = field(default_factory=dict)
    copies: dict[tuple[int, ...], deque[_Waiting]] = field(default_factory=dict)
    turns: dict[StepKind, list[_Waiting]] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    last: int = 0
    brought: int = 0
    least: float = 0
    array: int = 0

    def plan(self) -> WordPlan | None:
        """Return the steps in their order; None as soon as they must take more than the limit."""
        times, chip = self.times, self.chip
        self.least = self.trial.least.ticks
        turned = len(times.halves) - len(self.trial.sent)
        self.array = turned * (times.parts * times.turn.each + times.columns * times.back.each)
        self.left = dict.fromkeys(range(len(times.halves)), times.parts)
        self.free = {"pe_array": 0, "dma": 0} | self.trial.least.heads
        if self._too_long():
            return None
        for band, half in enumerate(times.halves):
            if times.bring:
                step = WordStep("bring", band, 0, ports=_from(times.pieces[band], band % HALVES))
                self._may_copy(_Waiting(step, 0))
            else:
                self._may_order(band, half, 0)
        while self._next():
            if self._too_long():
                return None
        return WordPlan(tuple(self.steps), -(-self.last // chip.period("pe_array")))

    def _too_long(self) -> bool:
        least = self.least - ROUNDED
        return max(least, self.last, self.free["pe_array"] + self.array) > self.limit

    def _may_order(self, band: int, port: int, ready: int) -> None:
        if band in self.trial.sent:
            self._may_copy(_Waiting(WordStep("order all", band, 0, ports=(port,)), ready))
            return
        for part in range(self.times.parts):
            self._may_copy(_Waiting(WordStep("order", band, part, ports=(port,)), ready))

    def _may_copy(self, waiting: _Waiting) -> None:
        self.copies.setdefault(waiting.step.ports, deque()).append(waiting)

    def _next(self) -> bool:
        """Do what can begin first, a turn before a copy; return whether there was anything."""
        turn = self._first_turn()
        first, chosen = turn.begin if turn is not None else -1, None
        for queue in self.copies.values():
            if queue:
                copy = self._first_copy(queue[0])
                if first < 0 or copy.begin < first:
                    first, chosen = copy.begin, (queue, copy)
        if chosen is not None:
            self._copy(*chosen)
        elif turn is not None:
            self._turn(turn)
        return first >= 0

    def _first_copy(self, waiting: _Waiting) -> _CopyBegin:
        """Return when the engine begins that will be done with a copy first."""
        best = None
        for name, each in self.trial.least.ticks_of[waiting.step.kind].items():
            made = self._when(waiting, name, each)
            if best is None or made.ends[-1] < best.ends[-1]:
                best = made
        assert best is not None
        return best

    def _when(self, waiting: _Waiting, name: str, ticks: int) -> _CopyBegin:
        """Return when an engine begins and when it leaves each port, behind the one before it."""
        now, ports = max(waiting.ready, self.free[name]), waiting.step.ports
        begin, ends, each = -1, [], ticks // len(ports)
        for port in ports:
            last, free = self.ports.get(port, (name, 0))
            now = max(now, free + self.times.seen[last] if last != name else free)
            begin = now if begin < 0 else begin
            now += each
            ends.append(now)
        return _CopyBegin(begin, name, ends)

    def _copy(self, queue: deque[_Waiting], copy: _CopyBegin) -> None:
        name, ends, times = copy.engine, copy.ends, self.times
        step = queue.popleft().step._replace(engine=name)
        if step.kind == "bring":
            # two engines that bring at the same time write to two banks
            place = times.ends[step.band] if times.ends else self.brought % HALVES
            step, self.brought = step._replace(place=place), self.brought + 1
        self.steps.append(step)
        self._busy_until(step.kind, name, ends[-1])
        for port, end in zip(step.ports, ends, strict=True):
            self.ports[port] = name, end
        done = ends[-1] + times.seen[name]
        if step.kind == "bring":
            self._may_order(step.band, HALVES + step.place, done)
        elif step.kind == "order all":
            self._send(step.band, done)
        elif times.ends:
            self.last = max(self.last, done)
        else:
            self._may_turn(WordStep("turn", step.band, step.part), done)

    def _busy_until(self, kind: StepKind, name: str, end: int) -> None:
        """Have an engine do a step until then: idle ticks and slower engines cost its price."""
        balance = self.trial.least
        self.least += (end - self.free[name]) * balance.engines[name] - balance.kinds[kind]
        self.free[name] = end

    def _send(self, band: int, ready: int) -> None:
        assert self.times.send is not None
        size, latency = self.times.send
        self.free["dma"] = max(ready, self.free["dma"]) + size
        self.steps.append(WordStep("send", band, 0))
        self.last = max(self.last, self.free["dma"] + latency)

    def _may_turn(self, step: WordStep, ready: int) -> None:
        insort(self.turns.setdefault(step.kind, []), _Waiting(step, ready), key=lambda w: w.ready)

    def _first_turn(self) -> _TurnBegin | None:
        """Return the turn whose result can be taken out first; of several one of the first kind.

        Turns are queued in the order in which results are taken out, which takes longer than they.
        """
        found = [self._taken(some[0]) for some in self.turns.values() if some]
        return min(found, key=lambda turn: (turn.begin, turn.waiting.step.kind), default=None)

    def _taken(self, waiting: _Waiting) -> _TurnBegin:
        """Return when a turn begins, and when which engine takes its result out."""
        ticks, shares = self._turn_ticks(waiting.step), self.trial.shares
        first = max(waiting.ready + ticks.load, self.free["pe_array"])
        names = shares.taking
        if shares.late and any(self.copies.values()):
            names = (names - shares.ordering) or names
        begins = {name: max(first + ticks.until, self.free[name]) for name in sorted(names)}
        name = min(begins, key=lambda each: begins[each] + ticks.taken[each])
        return _TurnBegin(begins[name], waiting, first, name)

    def _turn_ticks(self, step: WordStep) -> TurnTicks:
        return self.times.turn if step.kind == "turn" else self.times.back

    def _turn(self, turn: _TurnBegin) -> None:
        waiting, name = turn.waiting, turn.engine
        self.turns[waiting.step.kind].pop(0)
        step, ticks = waiting.step._replace(engine=name), self._turn_ticks(waiting.step)
        self.steps.append(step)
        self.free["pe_array"] = turn.first + ticks.each
        self.array -= ticks.each
        self._busy_until(step.kind, name, turn.begin + ticks.taken[name])
        done, band = self.free[name] + self.times.seen[name], step.band
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
