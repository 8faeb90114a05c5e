"""Which multiplies of an array that must warm up were slow, told from when they were made.

The engines state the rule of docs/timing_model.md (section 2) twice. This is a third statement of
it, for reports and tests.
"""

from __future__ import annotations

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
    window, slow = array.warm_up_cycles, list[bool]()
    since = multiplies[0].start if multiplies else 0
    for number, each in enumerate(multiplies):
        rested = 2 * _busy(array, multiplies, slow, each.start) < window
        was_slow = slow[-1] if slow else True
        if rested and not was_slow:
            since = each.start
        stays = was_slow and (rested or each.start < since + window)
        slow.append(bool(window) and (number == 0 or stays or (rested and not was_slow)))
    return slow


def _busy(
    array: PEArray, multiplies: Sequence[MadeMultiply], slow: Sequence[bool], start: int
) -> int:
    """Return the busy cycles of the window before `start`, of the multiplies made by then."""
    first, total = start - array.warm_up_cycles, 0
    for number in range(len(slow) - 1, -1, -1):
        each = multiplies[number]
        stop = each.last + each.spacing * (array.warm_up_factor if slow[number] else 1)
        if stop <= first:
            break
        total += stop - max(each.start, first)
    return total
