"""The posts of one semaphore, by queue, and the posts that a wait for a count guarantees.

The question is which posts have surely been made when a wait for the count v is satisfied. A post p
has been made if fewer than v posts are possible without it. Possible without p are all posts that
do not surely come after p, nor after the waiting instruction itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.isa.effects import times
from systolic.isa.instruction import DmaCopy, Post
from systolic.isa.lint.guarantees import NEVER, Structure

Ints = npt.NDArray[np.int64]

# Most semaphores have few posts and few waits, and are final at once. So all is kept in lists, and
# arrays are made of them for the others alone.


class Chain:
    """The posts of one queue to one semaphore, in the order of the queue, as runs.

    A run is the posts of one instruction. members: the instruction of each run. counts: its posts.
    starts: how many posts there are before each run, and in all. on: the event of each run. follow:
    for each run, the first run from which on all posts come after its last post.
    """

    def __init__(self, structure: Structure, posts: Sequence[tuple[int, Post]]) -> None:
        instructions = structure.program.instructions
        self.members = [index for index, _ in posts]
        self.on = tuple([post.on for _, post in posts])
        self.counts = [times(instructions[i], post, structure.chip) for i, post in posts]
        self.starts = [0, *accumulate(self.counts)]
        windows = [structure.window(index, post) for index, post in posts]
        least = list(accumulate([low for low, _ in reversed(windows)], min))[::-1]
        self.follow = [bisect_left(least, high, run) for run, (_, high) in enumerate(windows, 1)]
        self.is_of_array = not posts or not isinstance(instructions[posts[0][0]], DmaCopy)
        self._arrays: ChainArrays | None = None
        self.is_serial = self.follow == list(range(1, len(posts) + 1))

    @property
    def total(self) -> int:
        """Return the number of posts."""
        return self.starts[-1]

    def run_of(self, post: int) -> int:
        """Return the run that holds the post of that number, counted from 1."""
        return bisect_left(self.starts, post) - 1

    @property
    def arrays(self) -> ChainArrays:
        """Return members, counts, starts and follow as arrays."""
        if self._arrays is None:
            lists = self.members, self.counts, self.starts, self.follow
            self._arrays = ChainArrays._make(np.array(each, np.int64) for each in lists)
        return self._arrays


class ChainArrays(NamedTuple):
    """Members, counts, starts and follow of a chain, int64 [runs], starts [runs + 1]."""

    members: Ints
    counts: Ints
    starts: Ints
    follow: Ints


@dataclass
class Waits:
    """Every wait for one semaphore, sorted by queue and position in the queue."""

    members: list[int]
    values: list[int]
    queues: list[int]
    positions: list[int]
    _groups: list[slice] = field(default_factory=list)

    @classmethod
    def of(cls, structure: Structure, waits: Sequence[tuple[int, int]]) -> Waits:
        """Return the waits (instruction, value)."""
        queue, position = structure.queue_of, structure.position_of
        found = sorted([(queue[index], position[index], index, value) for index, value in waits])
        return cls(
            members=[index for *_, index, _ in found],
            values=[value for *_, value in found],
            queues=[number for number, *_ in found],
            positions=[place for _, place, *_ in found],
        )

    @property
    def groups(self) -> list[slice]:
        """Return the waits of each queue."""
        if not self._groups:
            queues = self.queues
            ends = [place for place in range(1, len(queues)) if queues[place] != queues[place - 1]]
            self._groups = [slice(a, b) for a, b in pairwise([0, *ends, len(queues)])]
        return self._groups

    @property
    def value_array(self) -> Ints:
        """Return the values, int64 [waits]."""
        return np.array(self.values, np.int64)


class PostsAndWaits:
    """Posts and waits of one semaphore.

    reached: [waits, chains] how many first posts of each chain surely have been made when the wait
    is satisfied. sources: the latest instruction of each chain that surely has started by then (-1:
    none).
    """

    def __init__(self, chains: Sequence[Chain], waits: Waits) -> None:
        self.chains, self.waits = tuple(chains), waits
        self._shape = len(waits.members), len(self.chains)
        self.reached = [[0] * len(self.chains)] * len(waits.members)
        self.sources = [[-1] * len(self.chains)] * len(waits.members)
        self.is_final = False
        totals = [chain.total for chain in self.chains]
        if len(totals) == 1 and self.chains[0].is_serial:
            self._settle([[value] for value in waits.values])
        elif min(waits.values) >= sum(totals):
            self._settle([totals] * len(waits.members))

    def _settle(self, reached: list[list[int]]) -> None:
        self.reached = reached
        self.sources = [
            [chain.members[chain.run_of(n)] for chain, n in zip(self.chains, each, strict=True)]
            for each in reached
        ]
        self.is_final = True

    def ends(self) -> Iterator[tuple[int, int, int]]:
        """Yield (instruction, queue, position): what starts there starts after its last post.

        That is the first wait of the queue behind which the whole run has surely been made.
        """
        for number, chain in enumerate(self.chains):
            for group in self.waits.groups:
                run, most, queue = 0, 0, self.waits.queues[group.start]
                for place in range(group.start, group.stop):
                    most = max(most, self.reached[place][number])
                    while run < len(chain.members) and chain.starts[run + 1] <= most:
                        yield chain.members[run], queue, self.waits.positions[place]
                        run += 1

    def update(self, clock: npt.NDArray[np.int32], known: npt.NDArray[np.int32]) -> bool:
        """Work out again what the waits guarantee; return whether it is more than before."""
        if self.is_final:
            return False
        possible = self._possible(clock)
        reached_by = np.zeros(self._shape, np.int64)
        source_of = np.full(self._shape, -1, np.int64)
        for number, chain in enumerate(self.chains):
            reached_by[:, number] = self._guaranteed(number, possible, clock, known)
            others = possible.sum(axis=1) - possible[:, number]
            started = np.maximum(reached_by[:, number], self.waits.value_array - others)
            some = started > 0
            run = np.searchsorted(chain.arrays.starts, started[some], "left") - 1
            source_of[some, number] = chain.arrays.members[run]
        before = self.reached, self.sources
        self.reached, self.sources = reached_by.tolist(), source_of.tolist()
        return (self.reached, self.sources) != before

    def _possible(self, clock: npt.NDArray[np.int32]) -> Ints:
        """Return [waits, chains]: how many posts may come before the waiting instruction starts."""
        waits = self.waits
        found = np.empty(self._shape, np.int64)
        for number, chain in enumerate(self.chains):
            for group in waits.groups:
                seen = clock[chain.arrays.members, waits.queues[group.start]]
                place = np.searchsorted(seen, waits.positions[group], "left")
                found[group, number] = chain.arrays.starts[place]
        return found

    def _guaranteed(
        self,
        number: int,
        possible: Ints,
        clock: npt.NDArray[np.int32],
        known: npt.NDArray[np.int32],
    ) -> Ints:
        """Return, for each wait, how many first posts of a chain surely have been made."""
        chain, values = self.chains[number].arrays, self.waits.value_array
        free = self._not_after(number, clock, known)
        low = np.zeros(len(values), np.int64)
        high = np.full(len(values), len(chain.members), np.int64)
        while (low < high).any():
            middle = np.minimum((low + high) // 2, len(chain.members) - 1)
            enough = np.minimum(possible, free[middle]).sum(axis=1) <= values
            open_ = low < high
            low = np.where(open_ & enough, middle + 1, low)
            high = np.where(open_ & ~enough, middle, high)
        partial = np.minimum(low, len(chain.members) - 1)
        excess = np.minimum(possible, free[partial]).sum(axis=1) - values
        within = np.where(low == partial, np.maximum(0, chain.counts[partial] - excess), 0)
        within[chain.counts[partial] == 1] = 0
        reached: Ints = np.minimum(chain.starts[low] + within, possible[:, number])
        return reached

    def _not_after(
        self, number: int, clock: npt.NDArray[np.int32], known: npt.NDArray[np.int32]
    ) -> Ints:
        """Return [runs, chains]: how many posts of each chain may come before a run's last post.

        The numbers are made ascending: an earlier run has no more posts than a later one.
        """
        mine = self.chains[number].arrays
        found = np.empty((len(mine.members), len(self.chains)), np.int64)
        seen_by = known[mine.members]
        for other_number, other in enumerate(chain.arrays for chain in self.chains):
            place = np.full(len(mine.members), len(other.members), np.int64)
            if other_number == number:
                place = mine.follow.copy()
            for queue in np.flatnonzero((seen_by < NEVER).any(axis=0)):
                after = np.searchsorted(clock[other.members, queue], seen_by[:, queue], "left")
                np.minimum(place, after, out=place)
            found[:, other_number] = other.starts[place]
        np.maximum.accumulate(found, axis=0, out=found)
        return found
