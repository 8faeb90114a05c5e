"""Which multiplies of an array that must warm up were slow, told from when they were made.

The engines state the rule of docs/timing_model.md (section 2) twice. This is a third statement of
it, for reports and tests.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from systolic.hw.spec import PEArray


class MadeMultiply(NamedTuple):
    """A multiply: the cycles of its start and of its last injection, and its spacing if warm."""

    start: int
    last: int
    spacing: int


def slow_multiplies(array: PEArray, multiplies: Sequence[MadeMultiply]) -> list[bool]:
    """Return for each multiply, in their order, whether it was streamed by a cold array."""
    window, slow, latest = array.warm_up_cycles, list[bool](), list[int]()
    since = multiplies[0].start if multiplies else 0
    for number, each in enumerate(multiplies):
        rested = 2 * _busy(multiplies, latest, each.start, window) < window
        was_slow = slow[-1] if slow else True
        if rested and not was_slow:
            since = each.start
        stays = was_slow and (rested or each.start < since + window)
        slow.append(bool(window) and (number == 0 or stays or (rested and not was_slow)))
        stop = each.last + each.spacing * (array.warm_up_factor if slow[number] else 1)
        latest.append(max(stop, latest[-1]) if latest else stop)
    return slow


def _busy(
    multiplies: Sequence[MadeMultiply], latest: Sequence[int], start: int, window: int
) -> int:
    """Return the cycles of the window before `start` in which one of the multiplies was made.

    latest: the last cycle, and one more, in which each of them or an earlier one was made. On tiles
    they may be made side by side, so from the start of each to that cycle one is.
    """
    covered, total = start - window, 0
    for number in range(bisect_right(latest, covered), len(latest)):
        stop = min(latest[number], start)
        total += max(0, stop - max(multiplies[number].start, covered))
        covered = max(covered, stop)
    return total
