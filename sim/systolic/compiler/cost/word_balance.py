"""What a relay of words takes at least, if its work goes to the engines as evenly as can be.

Give each engine a price, all of them together 1: a tick in which it is busy or idle costs so much,
and each step costs at least what the cheapest engine that may make it would cost. So all steps
together take at least their costs in ticks, whatever the order is (the dual of the linear program
that shares the work out). The same prices hold while the order is found: what an engine has been
idle is added, and so is what a dearer engine has cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from systolic.compiler.cost.word_relays import WordTimes

StepKind = Literal["bring", "order", "order all", "send", "turn", "turn back"]


class EngineShares(NamedTuple):
    """Which engines bring parts beside one another, put elements in order, and take results out.

    late: those that put elements in order take no results out until all are in order.
    """

    bringing: frozenset[str]
    ordering: frozenset[str]
    taking: frozenset[str]
    late: bool


@dataclass(frozen=True, slots=True)
class WordBalance:
    """The prices of the greatest bound.

    ticks: all takes at least. engines: the price of each engine's tick. kinds: the least cost of a
    step. heads: before then each engine has nothing to do. ticks_of: the engines that may make a
    step, with the ticks that each takes.
    """

    ticks: float
    engines: dict[str, float]
    kinds: dict[StepKind, float]
    heads: dict[str, int]
    ticks_of: dict[StepKind, dict[str, int]]


def word_balance(times: WordTimes, shares: EngineShares, sent: int) -> WordBalance:
    """Return what a share of the engines takes at least where DMA sends so many bands."""
    turned = len(times.halves) - sent
    counts: dict[StepKind, int] = {
        "bring": len(times.halves) if times.bring else 0,
        "order": turned * times.parts,
        "order all": sent,
        "turn": turned * times.parts,
        "turn back": turned * times.columns,
    }
    every: dict[StepKind, tuple[dict[str, int], frozenset[str]]] = {
        "bring": (times.bring, shares.bringing),
        "order": (times.order, shares.ordering),
        "order all": (times.order_all, shares.ordering),
        "turn": (times.turn.taken, shares.taking),
        "turn back": (times.back.taken, shares.taking),
    }
    ticks_of: dict[StepKind, dict[str, int]] = {}
    for kind, (ticks, names) in every.items():
        ticks_of[kind] = {name: ticks[name] for name in sorted(ticks) if name in names}
    heads, tails = _heads(times, shares), _tails(times, shares, sent)
    best = None
    for prices in _prices(times, shares):
        kinds = {
            kind: min((prices[name] * each for name, each in ticks.items()), default=0.0)
            for kind, ticks in ticks_of.items()
        }
        least = sum(counts[kind] * kinds[kind] for kind in counts)
        least += sum(price * (heads[name] + tails[name]) for name, price in prices.items())
        if best is None or least > best.ticks:
            best = WordBalance(least, prices, kinds, heads, ticks_of)
    assert best is not None
    return best


def _heads(times: WordTimes, shares: EngineShares) -> dict[str, int]:
    """Return the ticks of each engine before anything waits for it."""
    seen = min(times.seen.values())
    bring = min(times.bring.values()) + seen if times.bring else 0
    turn = bring + min(times.order.values()) + seen + times.turn.load + times.turn.until
    heads = dict.fromkeys(times.engines, turn)
    heads |= dict.fromkeys(shares.ordering, bring) | dict.fromkeys(shares.bringing, 0)
    return heads


def _tails(times: WordTimes, shares: EngineShares, sent: int) -> dict[str, int]:
    """Return the ticks from the end of each engine's last step until all is done."""
    if times.ends:
        return dict(times.seen)
    turns = sum(
        ticks.load + ticks.until + min(ticks.taken.values()) + min(times.seen.values())
        for ticks in (times.turn, times.back)
    )
    if sent:
        assert times.send is not None
        turns = min(turns, sum(times.send))
    return {
        name: times.seen[name] + (0 if name in shares.taking else turns) for name in times.engines
    }


def _prices(times: WordTimes, shares: EngineShares) -> Iterator[dict[str, float]]:
    """Yield prices of some engines: the same ones, or those that make a step cost the same."""
    every = sorted(times.engines)
    same = dict.fromkeys(every, 1)
    for names in dict.fromkeys((frozenset(every), *shares[:3])):
        for ticks in (same, times.bring, times.order, times.turn.taken):
            if names and names <= ticks.keys():
                speeds = [1 / ticks[name] if name in names else 0.0 for name in every]
                yield {n: speed / sum(speeds) for n, speed in zip(every, speeds, strict=True)}
