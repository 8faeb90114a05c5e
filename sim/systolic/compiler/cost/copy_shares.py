"""The shares of a copy within DRAM that DMA queues take: of the same bytes in another place.

A queue with one burst in hand waits for each row that it opens, and for each burst of another queue
in its channel. All queues go through their shares at the same pace. So a share begins a channel
further than the one before, and where no two queues come to one bank with other rows. Not here:
copies box by box (`box_copies`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.compiler.ir.ranges import spans
from systolic.hw.formulas.dram import place
from systolic.hw.spec import Chip
from systolic.spans import Span

MOST_STEPS = 2048
"""The most places of a share that are looked at."""
UNEVEN = 4
"""A share may begin a part of a fair one earlier or later: one of so many."""
STARTS = 16
"""So many beginnings on either side are tried."""
APART = 0.25, 0.0
"""How far queues may drift from the same pace, in parts of the bytes that rows of all channels
have: the first for which there are shares, as no queue waits for another. More makes them uneven.
"""

_Rows = npt.NDArray[np.int64]
"""The bank and the row in which a stream is, step by step: [2, steps]."""


class CopiedBytes(NamedTuple):
    """What a copy moves: from which byte of DRAM on, to which, so many, and those of an element."""

    source: int
    target: int
    size_bytes: int
    element_bytes: int


def copy_shares(chip: Chip, copied: CopiedBytes) -> list[Span]:
    """Return the bytes of each queue that has any, counted from the first."""
    found = shares_apart(chip, copied) if waits_for_bursts(chip) else None
    if found is not None:
        return found
    share = -(-copied.size_bytes // copied.element_bytes // chip.dma.useful_queues)
    return list(spans(0, copied.size_bytes, copied.size_bytes, share * copied.element_bytes))


def waits_for_bursts(chip: Chip) -> bool:
    """Return whether a queue has one burst of DRAM in hand, and waits for each."""
    parts = chip.dram.organisation
    return parts is not None and parts.outstanding == 1


def shares_apart(chip: Chip, copied: CopiedBytes) -> list[Span] | None:
    """Return shares whose queues do not close one another's rows; None if there are none."""
    parts, queues = chip.dram.organisation, chip.dma.useful_queues
    assert parts is not None
    unit = parts.interleave_bytes
    fair = copied.size_bytes // queues // unit
    if fair < 2 * parts.channels or unit % copied.element_bytes:
        return None
    steps = np.unique(np.linspace(0, fair, MOST_STEPS, dtype=np.int64)) * unit
    begins = [
        [first * unit for first in _beginnings(n, fair, parts.channels)] for n in range(queues)
    ]

    def streams(first: int) -> list[_Rows]:
        ends = (place(parts, base + first + steps, chip.dram.size_bytes) for base in copied[:2])
        return [np.stack((np.asarray(end.bank), np.asarray(end.row))) for end in ends]

    for part in APART:
        drift = round(part * parts.row_bytes * parts.channels / int(steps[1]))
        drift = min(drift, len(steps) // 2)
        found = _first_apart(begins, streams, drift)
        if found is not None:
            ends = [*found[1:], copied.size_bytes]
            return [Span(first, stop - first) for first, stop in zip(found, ends, strict=True)]
    return None


def _first_apart(
    begins: Sequence[Sequence[int]], streams: Callable[[int], list[_Rows]], drift: int
) -> list[int] | None:
    """Return for each queue the first of its beginnings that is apart from those before."""
    chosen, taken = list[int](), list[_Rows]()
    for some in begins:
        for first in some:
            found = streams(first)
            pairs = [*combinations(found, 2), *product(found, taken)]
            if not any(_meet(*pair, drift) for pair in pairs):
                break
        else:
            return None
        chosen.append(first)
        taken += found
    return chosen


def _beginnings(queue: int, fair: int, channels: int) -> Iterator[int]:
    """Yield where a queue's share may begin, the nearest to its fair place first, in units.

    A unit is what lies side by side in a channel; that of the first share is in channel 0.
    """
    if queue == 0:
        yield 0
        return
    middle = queue * fair + (queue - queue * fair) % channels
    step = max(1, fair // UNEVEN // STARTS // channels) * channels
    for distance in range(0, fair // UNEVEN, step):
        yield from dict.fromkeys((middle + distance, middle - distance))


def _meet(one: _Rows, other: _Rows, drift: int) -> bool:
    """Return whether two streams may be in one bank with different rows, so many steps apart."""
    for ahead, behind in ((one, other), (other, one)):
        first, last = ahead[:, drift:], behind[:, : behind.shape[1] - drift]
        if bool(np.any((first[0] == last[0]) & (first[1] != last[1]))):
            return True
    return drift > 0 and _meet(one, other, 0)
