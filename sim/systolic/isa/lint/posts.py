"""The posts of one semaphore, by queue, and the posts that a wait for a count guarantees.

The question is which posts have surely been made when a wait for the count v is satisfied. A post p
has been made if fewer than v posts are possible without it. Possible without p are all posts that
do not surely come after p, nor after the waiting instruction itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from systolic.isa.effects import times
from systolic.isa.instruction import DmaCopy, Post
from systolic.isa.lint.guarantees import NEVER, Structure

Ints = npt.NDArray[np.int64]


class Chain:
    """The posts of one queue to one semaphore, in the order of the queue, as runs.

    A run is the posts of one instruction. members: the instruction of each run. starts: how many
    posts there are before each run, and in all. on: the event of each run. follow: for each run,
    the first run from which on all posts come after its last post.
    """

    def __init__(self, structure: Structure, posts: Sequence[tuple[int, Post]]) -> None:
        instructions = structure.program.instructions
        self.members = np.array([index for index, _ in posts], np.int64)
        self.on = tuple(post.on for _, post in posts)
        counts = [times(instructions[i], post, structure.chip) for i, post in posts]
        self.counts = np.array(counts, np.int64)
        self.starts = np.array([0, *accumulate(counts)], np.int64)
        windows = [structure.window(index, post) for index, post in posts]
        least = list(accumulate((low for low, _ in reversed(windows)), min))[::-1]
        follow = [bisect_left(least, high, run) for run, (_, high) in enumerate(windows, 1)]
        self.follow = np.array(follow, np.int64)
        self.is_of_array = not posts or not isinstance(instructions[posts[0][0]], DmaCopy)
        self.is_serial = follow == list(range(1, len(posts) + 1))

    @property
    def total(self) -> int:
        """Return the number of posts."""
        return int(self.starts[-1])

    def run_of(self, posts: Ints) -> Ints:
        """Return the run that holds the posts-th post, counted from 1."""
        found: Ints = np.searchsorted(self.starts, posts, "left") - 1
        return found


@dataclass
class Waits:
    """Every wait for one semaphore, sorted by queue and position in the queue."""

    members: Ints
    values: Ints
    queues: Ints
    positions: Ints

    @classmethod
    def of(cls, structure: Structure, waits: Sequence[tuple[int, int]]) -> Waits:
        """Return the waits (instruction, value)."""
        members = np.array([index for index, _ in waits], np.int64)
        order = np.lexsort((structure.position[members], structure.queue[members]))
        members = members[order]
        values = np.array([value for _, value in waits], np.int64)[order]
        queues = structure.queue[members].astype(np.int64)
        return cls(members, values, queues, structure.position[members].astype(np.int64))

    @cached_property
    def groups(self) -> list[slice]:
        """Return the waits of each queue."""
        queues = self.queues
        ends = (np.flatnonzero(queues[1:] != queues[:-1]) + 1).tolist()
        return [slice(a, b) for a, b in pairwise([0, *ends, len(queues)])]


class PostsAndWaits:
    """Posts and waits of one semaphore.

    reached: [waits, chains] how many first posts of each chain surely have been made when the wait
    is satisfied. sources: the latest instruction of each chain that surely has started by then (-1:
    none).
    """

    def __init__(self, chains: Sequence[Chain], waits: Waits) -> None:
        self.chains, self.waits = tuple(chains), waits
        shape = len(waits.members), len(self.chains)
        self.reached = np.zeros(shape, np.int64)
        self.sources = np.full(shape, -1, np.int64)
        self.is_final = False
        total = sum(chain.total for chain in self.chains)
        if len(self.chains) == 1 and self.chains[0].is_serial:
            self._settle(waits.values[:, None])
        elif bool((waits.values >= total).all()):
            self._settle(np.array([[chain.total for chain in self.chains]] * shape[0], np.int64))

    def _settle(self, reached: Ints) -> None:
        self.reached = reached
        for number, chain in enumerate(self.chains):
            self.sources[:, number] = chain.members[chain.run_of(reached[:, number])]
        self.is_final = True

    def update(self, clock: npt.NDArray[np.int32], known: npt.NDArray[np.int32]) -> bool:
        """Work out again what the waits guarantee; return whether it is more than before."""
        if self.is_final:
            return False
        possible = self._possible(clock)
        reached = np.zeros_like(self.reached)
        sources = np.full_like(self.sources, -1)
        for number, chain in enumerate(self.chains):
            reached[:, number] = self._guaranteed(number, possible, clock, known)
            others = possible.sum(axis=1) - possible[:, number]
            started = np.maximum(reached[:, number], self.waits.values - others)
            some = started > 0
            sources[some, number] = chain.members[chain.run_of(started[some])]
        changed = bool((reached != self.reached).any() or (sources != self.sources).any())
        self.reached, self.sources = reached, sources
        return changed

    def _possible(self, clock: npt.NDArray[np.int32]) -> Ints:
        """Return [waits, chains]: how many posts may come before the waiting instruction starts."""
        waits = self.waits
        found = np.empty(self.reached.shape, np.int64)
        for number, chain in enumerate(self.chains):
            for group in waits.groups:
                seen = clock[chain.members, waits.queues[group.start]]
                place = np.searchsorted(seen, waits.positions[group], "left")
                found[group, number] = chain.starts[place]
        return found

    def _guaranteed(
        self,
        number: int,
        possible: Ints,
        clock: npt.NDArray[np.int32],
        known: npt.NDArray[np.int32],
    ) -> Ints:
        """Return, for each wait, how many first posts of a chain surely have been made."""
        chain, values = self.chains[number], self.waits.values
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
        mine = self.chains[number]
        found = np.empty((len(mine.members), len(self.chains)), np.int64)
        seen_by = known[mine.members]
        for other_number, other in enumerate(self.chains):
            place = np.full(len(mine.members), len(other.members), np.int64)
            if other is mine:
                place = mine.follow.copy()
            for queue in np.flatnonzero((seen_by < NEVER).any(axis=0)):
                after = np.searchsorted(clock[other.members, queue], seen_by[:, queue], "left")
                np.minimum(place, after, out=place)
            found[:, other_number] = other.starts[place]
        np.maximum.accumulate(found, axis=0, out=found)
        return found
