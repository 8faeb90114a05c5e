"""What has been worked out of the chip that was asked for last, for estimates that ask often."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, TypeVarTuple
from weakref import ref

from systolic.hw.spec import Chip

MOST_KNOWN = 1 << 14
"""So many answers are kept: a process that compiles for days does not grow by them."""
_Found = TypeVar("_Found")
_Key = TypeVarTuple("_Key")


class LastChip:
    """Remembers what functions of a chip and a key have returned, for one chip at a time.

    The ways of a move are many, and each asks. The chip is told by identity, and not kept alive.
    """

    def __init__(self) -> None:
        self._last: tuple[ref[Chip], dict[Hashable, Any]] | None = None

    def of(self, work: Callable[[Chip, *_Key], _Found], chip: Chip, *key: *_Key) -> _Found:
        """Return what a function says of a chip and a key; it is called if that is not known."""
        last = self._last
        if last is None or last[0]() is not chip:
            last = self._last = ref(chip), {}
        known, asked = last[1], (work, key)
        if asked not in known:
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[asked] = work(chip, *key)
        found: _Found = known[asked]
        return found


LAST_CHIP = LastChip()
