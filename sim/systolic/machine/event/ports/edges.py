"""At which edges of their clocks must streams of several clocks be decided again?

At any edge a stream may ask for other ports, and a port may be free. But most edges change nothing:
a refused stream asks in vain while another one holds the port, and a stream that meets no other
goes on. For a state buffer whose banks serve all partitions together. Not here: the decision.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from systolic.isa import Buffer
from systolic.machine.event.ports.ports import Need, Needs, Port, mask_of
from systolic.machine.event.ports.stream import Stream, is_array


class _Claim(NamedTuple):
    """What a stream uses, or wants, of ports from now on.

    held: in the cycle in progress, to the tick `edge`; if none is, that is the cycle before the
    first that begins now. then: from `begin` on to the tick `stop`, in `period` of every `every`
    ticks. A refused stream holds nothing.
    """

    stream: Stream
    held: Needs
    edge: int
    then: Needs
    begin: int
    stop: int
    every: int


def edges_that_count(streams: Collection[Stream], now: int, held: int) -> list[int]:
    """Return the ticks at which streams, decided at `now`, are to be decided again.

    held: the ports that sums hold, as a mask.
    """
    claims = [_claim(stream, now) for stream in streams]
    granted = [claim for claim in claims if claim.stream.granted]
    return [_again(claim, granted, now, held) for claim in claims]


def next_edge(stream: Stream, now: int) -> int:
    """Return the first edge of a stream's clock at which it may be decided after `now`."""
    return stream.tick + (stream.period if stream.tick == now else 0)


def _claim(stream: Stream, now: int) -> _Claim:
    is_late = stream.granted and stream.tick > now
    held, period = stream.needs_in_progress() if is_late else (), stream.period
    if is_late and not stream.remaining():
        return _Claim(stream, held, stream.tick, (), stream.tick, stream.tick, period)
    if stream.granted and stream.spacing > 1:
        needs, wait, slots = stream.accesses_ahead()
        begin = stream.tick + wait * period
        stop = stream.tick + slots * period
        return _Claim(stream, held, stream.tick, needs, begin, stop, stream.spacing * period)
    needs, slots = stream.needs()
    stop = stream.tick + slots * period
    return _Claim(stream, held, stream.tick, needs, stream.tick, stop, period)


def _again(claim: _Claim, granted: list[_Claim], now: int, held: int) -> int:
    if held and mask_of((*claim.held, *claim.then)) & held:
        return next_edge(claim.stream, now)
    if claim.stream.granted:
        return _end_of(claim, granted, now)
    return _next_chance(claim, granted, now)


def _end_of(claim: _Claim, granted: list[_Claim], now: int) -> int:
    """Return until when a granted stream goes on: to its next edge, if it meets another one."""
    mine = (*claim.held, *claim.then)
    for other in granted:
        if other is claim:
            continue
        if _is_refused(claim.stream, mine, other, (*other.held, *other.then)):
            return next_edge(claim.stream, now)
    return claim.stop


def _next_chance(claim: _Claim, granted: list[_Claim], now: int) -> int:
    """Return the first edge at which a refused stream may get what it wants, or lose to another.

    Each stream that holds what it wants must have left it, or begin to use it in that very tick, in
    which the stream with the lower rank comes first.
    """
    stream, edge = claim.stream, next_edge(claim.stream, now)
    if stream.patience() is not None:
        return edge
    chances = [
        _after(edge, claim, other, now)
        for other in granted
        if _is_refused(stream, claim.then, other, (*other.held, *other.then))
    ]
    return min(chances, default=edge)


def _after(edge: int, claim: _Claim, other: _Claim, now: int) -> int:
    """Return the first edge of a refused stream at which another does not hold what it wants.

    Or at which its stall has another name: the first port refused, and what holds it.
    """
    stream, lost = claim.stream, claim.stream.refusals[-1].lost
    in_progress = _refused_port(stream, claim.then, other, other.held)
    follows = _refused_port(stream, claim.then, other, other.then)
    refused = [port for port in (in_progress, follows) if port is not None]
    if other.stream.client != lost.winner or any(port != lost.port for port in refused):
        return edge
    if in_progress is None and not (follows and other.begin == now):
        return edge  # another stream refuses it
    step = stream.period
    if in_progress is not None:
        edge += max(0, -(-(other.edge - edge) // step)) * step
    if follows is None or edge < other.begin:
        return edge  # the last cycle, or one between that in progress and the first that follows
    turns = _turns(
        (edge - other.begin) % other.every,
        step,
        (other.every, other.stream.period),
        first=stream.rank < other.stream.rank,
    )
    stop = edge + max(0, -(-(other.stop - edge) // step)) * step
    return stop if turns is None else min(stop, edge + turns * step)


def _refused_port(stream: Stream, wanted: Needs, other: _Claim, held: Needs) -> Port | None:
    """Return the first port that a stream wants and another holds; None if there is none."""
    return next((a.port for a in wanted for b in held if _meet(stream, a, other.stream, b)), None)


def _is_refused(stream: Stream, wanted: Needs, other: _Claim, held: Needs) -> bool:
    return _refused_port(stream, wanted, other, held) is not None


def _meet(one: Stream, a: Need, other: Stream, b: Need) -> bool:
    if a.port != b.port:
        return False
    if (one.unit, one.client) == (other.unit, other.client) and not a.meets(b):
        return False  # lanes of their own
    return not (one.unit == other.unit and is_array(one.unit) and a.port.buffer == Buffer.RESULT)


@lru_cache(maxsize=4096)
def _turns(phase: int, step: int, used: tuple[int, int], *, first: bool) -> int | None:
    """Return the least n for which phase + n * step is free; None if none is.

    used: (first ticks, of a number of ticks). first: in the tick in which a use
    begins, the port is free as well.
    """
    every, long = used
    for turns in range(every):
        place = (phase + turns * step) % every
        if place >= long or (first and place == 0):
            return turns
    return None
