"""How a bandwidth is dealt out among the streams that hold shares of it. Not here: their pace."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import chain

from systolic.machine.event.ports.stream import Holding, ShareOfBytes


@lru_cache(maxsize=1024)
def dealt(holdings: tuple[tuple[Holding, ...], ...]) -> tuple[tuple[ShareOfBytes, ...], ...]:
    """Return the shares that each stream has of what it holds.

    holdings: of all streams, in the order in which shares are dealt. The same come again and again.
    """
    total = Counter[str]()
    for pool, held in chain.from_iterable(holdings):
        total[pool] += held
    before, found = Counter[str](), list[tuple[ShareOfBytes, ...]]()
    for mine in holdings:
        shares = list[ShareOfBytes]()
        for pool, held in mine:
            shares.append(ShareOfBytes(before[pool], held, total[pool]))
            before[pool] += held
        found.append(tuple(shares))
    return tuple(found)
