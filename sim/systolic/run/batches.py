"""Items on their way to other processes, a few at a time, and what becomes of them if one ends.

A batch takes about `seconds`, so that quick items do not wait for messages, and the results of
slow ones come one by one. If a process ends with a batch, each of the batch's items is tried again
alone; an item with which a second process ends is given up. Not here: the processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

BatchItem = TypeVar("BatchItem")

MOST_ITEMS = 50
MOST_ENDS = 2
SHARE_OF_LAST = 0.3
"""The weight of a new batch in the mean time of an item; the batches before have the rest."""


@dataclass(slots=True)
class Entry(Generic[BatchItem]):
    """An item, and how many processes have ended while they were at it."""

    item: BatchItem
    ends: int = 0


class ItemBatches(Generic[BatchItem]):
    """Takes items from where they come from only when they are asked for."""

    def __init__(self, items: Iterable[BatchItem], seconds: float) -> None:
        self._items = iter(items)
        self._again: deque[list[Entry[BatchItem]]] = deque()
        self._seconds = seconds
        self._mean: float | None = None

    def take(self) -> list[Entry[BatchItem]]:
        """Return the next batch; an empty one if nothing is left to do for now."""
        if self._again:
            return self._again.popleft()
        size = 1
        if self._mean is not None:
            size = max(1, min(MOST_ITEMS, int(self._seconds / max(self._mean, 1e-6))))
        found: list[Entry[BatchItem]] = []
        for item in self._items:
            found.append(Entry(item))
            if len(found) == size:
                break
        return found

    def done(self, batch: list[Entry[BatchItem]], seconds: float) -> None:
        """Note how long a batch took."""
        mean = seconds / len(batch)
        before = mean if self._mean is None else self._mean
        self._mean = before + SHARE_OF_LAST * (mean - before)

    def not_begun(self, batch: list[Entry[BatchItem]]) -> None:
        """Take back a batch that no process has begun."""
        self._again.append(batch)

    def ended(self, batch: list[Entry[BatchItem]]) -> list[Entry[BatchItem]]:
        """Take back a batch with which a process ended; return the items that are given up."""
        given_up = []
        for entry in batch:
            entry.ends += 1
            if entry.ends >= MOST_ENDS and len(batch) == 1:
                given_up.append(entry)
            else:
                self._again.append([entry])
        return given_up
