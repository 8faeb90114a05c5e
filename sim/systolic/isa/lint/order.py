"""The order of starts and ends that holds for every timing.

Every instruction has a clock: for each queue, the last position that surely has started when the
instruction starts. `known` is, for each instruction and each queue, the first position that starts
only after the instruction is done. Both grow by the guarantees of `systolic.isa.lint.guarantees`
and of waits (`systolic.isa.lint.posts`) until nothing is added. Each step adds only facts that
follow from the steps before, so all of them hold for every timing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.isa.effects import times
from systolic.isa.instruction import MatMul, Post
from systolic.isa.lint.guarantees import NEVER, Structure
from systolic.isa.lint.posts import Chain, PostsAndWaits, Waits

MOST_ROUNDS = 64
"""The work ends after this number of rounds. All that is known then is true, but more might be."""


class Order:
    """The order of a program that does not get stuck.

    order: an order in which its instructions can start.
    """

    def __init__(self, structure: Structure, order: Sequence[int]) -> None:
        self.structure = structure
        count = len(structure.program.instructions)
        self.clock = np.full((count, len(structure.names)), -1, np.int32)
        self.known = np.full_like(self.clock, NEVER)
        self.known[np.arange(count), structure.queue] = structure.after_done
        self._edges, self._semaphores = _edges_and_semaphores(structure)
        self._fixed = self._sources(s for s in self._semaphores if s.is_final)
        for post, wait in self._edges:
            self._fixed[wait].append(post)
        self._heads = _Heads.of(structure, order)
        self._multiplies = _Multiplies.of(structure)
        self._rows: dict[int, dict[int, list[tuple[int, int]]]] = {}
        self._columns: dict[int, dict[int, list[tuple[int, int]]]] = {}
        self._settle()
        self._knowing = _pairs(self.known)
        self._seen: tuple[int, list[int]] = (-1, [])

    def _settle(self) -> None:
        """Add what follows until nothing is added: what is final says all at the first time."""
        self._learn_edges()
        open_ones = [semaphore for semaphore in self._semaphores if not semaphore.is_final]
        to_learn = self._semaphores
        for _ in range(MOST_ROUNDS):
            self._tick(open_ones)
            self._learn(to_learn)
            changed = [semaphore.update(self.clock, self.known) for semaphore in open_ones]
            if not any(changed):
                break
            to_learn = open_ones
        else:
            self._tick(open_ones)
            self._learn(open_ones)
        self._learn_parts()

    def _sources(self, semaphores: Iterable[PostsAndWaits]) -> defaultdict[int, list[int]]:
        """Return, by instruction, those that surely have started before by some semaphores."""
        sources: defaultdict[int, list[int]] = defaultdict(list)
        for semaphore in semaphores:
            for index, found in zip(semaphore.waits.members, semaphore.sources, strict=True):
                sources[index] += [source for source in found if source >= 0]
        return sources

    def _tick(self, open_ones: Sequence[PostsAndWaits]) -> None:
        """Work out all clocks from the starts that are surely before each start.

        What does not wait differs from the instruction before it in its own position alone.
        """
        fixed, found = self._fixed, self._sources(open_ones)
        none: tuple[int, ...] = ()
        queue, position = self.structure.queue_of, self.structure.position_of
        heads, head_of = self._heads, self._heads.of_each.tolist()
        clock = list(self.clock)  # a row of it for each instruction
        for index, behind in zip(heads.order, heads.before, strict=True):
            mine = clock[index]
            if behind >= 0:
                np.maximum(mine, clock[behind], out=mine)
            for source in (*fixed.get(index, none), *found.get(index, none)):
                np.maximum(mine, clock[head_of[source]], out=mine)
                if mine[queue[source]] < position[source]:
                    mine[queue[source]] = position[source]
            mine[queue[index]] = position[index]
        self.clock = self.clock[heads.of_each]
        self.clock[np.arange(len(self.clock)), self.structure.queue] = self.structure.position

    def _learn(self, semaphores: Sequence[PostsAndWaits]) -> None:
        """Work out which positions start after an instruction is done, from the waits."""
        facts = [fact for semaphore in semaphores for fact in semaphore.ends()]
        if facts:
            index, queue, position = np.array(facts, np.int32).T
            np.minimum.at(self.known, (index, queue), position)
        self._learn_multiplies()

    def _learn_edges(self) -> None:
        """Note that what waits for the one post of a semaphore starts after that is made."""
        if self._edges:
            post, wait = np.array(self._edges, np.int64).T
            queue, position = self.structure.queue[wait], self.structure.position[wait]
            np.minimum.at(self.known, (post, queue), position)

    def _learn_multiplies(self) -> None:
        """Give the known positions of each MatMul also to MatMuls that are done no later.

        A position that starts only after MatMul B is done starts after MatMul A is done too, if A
        stands before B in the queue and its window ends no later than B's, whatever stands between
        them or behind B. Where multiplies are made side by side, on tiles, nothing follows.
        """
        if self._multiplies is None:
            return
        members, sequences = self._multiplies
        known = self.known[members]
        found = known.copy()
        never = np.full((1, known.shape[1]), NEVER, np.int32)
        for places, no_sooner in sequences:
            later = np.minimum.accumulate(known[places][::-1], axis=0)[::-1]
            np.minimum(found, np.concatenate([later, never])[no_sooner], out=found)
        self.known[members] = found

    def _learn_parts(self) -> None:
        """Note the waits that guarantee some rows, or some partitions, of a MatMul.

        Some of the posts that the engines of DMA make for one copy say nothing of its parts.
        """
        for semaphore in self._semaphores:
            for number, chain in enumerate(semaphore.chains):
                if chain.is_of_array and max(chain.counts) > 1:
                    for group in semaphore.waits.groups:
                        self._learn_group(semaphore, number, chain, group)
        for by_queue in (*self._rows.values(), *self._columns.values()):
            for queue, entries in by_queue.items():
                entries.sort()
                most = accumulate((part for _, part in entries), max)
                by_queue[queue] = [(at, part) for (at, _), part in zip(entries, most, strict=True)]

    def _learn_group(
        self, semaphore: PostsAndWaits, number: int, chain: Chain, group: slice
    ) -> None:
        queue = semaphore.waits.queues[group.start]
        reached = accumulate((each[number] for each in semaphore.reached[group]), max)
        for position, posts in zip(semaphore.waits.positions[group], reached, strict=True):
            run = chain.run_of(max(posts, 1))
            part = posts - chain.starts[run]
            if 0 < part < chain.counts[run]:
                kept = self._rows if chain.on[run] == "row" else self._columns
                by_queue = kept.setdefault(chain.members[run], {})
                by_queue.setdefault(queue, []).append((position, part))

    # -- questions --------------------------------------------------------------------------------

    def done_before(self, index: int, later: int) -> bool:
        """Return whether an instruction surely is done when `later` starts."""
        seen = self._seen_by(later)
        for queue, position in self._knowing[index]:  # noqa: SIM110 (`any` takes twice as long)
            if seen[queue] >= position:
                return True
        return False

    def _seen_by(self, index: int) -> list[int]:
        """Return the clock of an instruction: asked for again and again for the same one."""
        if self._seen[0] != index:
            self._seen = index, self.clock[index].tolist()
        return self._seen[1]

    def read_before(self, index: int, later: int) -> bool:
        """Return whether an instruction's operands surely have been read when `later` starts."""
        structure = self.structure
        seen = self._seen_by(later)[structure.queue_of[index]]
        if seen >= structure.after_reads_of[index] or self.done_before(index, later):
            return True
        return self.columns_before(index, later) > 0

    def rows_before(self, index: int, later: int) -> int:
        """Return how many first rows of a MatMul surely are written when `later` starts."""
        return self._part_before(self._rows, index, later)

    def columns_before(self, index: int, later: int) -> int:
        """Return how many first partitions of a MatMul surely are written when `later` starts."""
        return self._part_before(self._columns, index, later)

    def _part_before(
        self, parts: dict[int, dict[int, list[tuple[int, int]]]], index: int, later: int
    ) -> int:
        best = 0
        if index not in parts:
            return best
        for queue, entries in parts[index].items():
            place = bisect_right(entries, (int(self.clock[later, queue]), NEVER))
            if place:
                best = max(best, entries[place - 1][1])
        return best


class _Multiplies(NamedTuple):
    """All MatMuls in the order of their queue, and sequences of them that are done in order.

    members: int64 [MatMuls], the instructions. sequences: for each sequence its MatMuls, counted
    from 0, and for each of all MatMuls the first of the sequence that stands behind it and is done
    no sooner: its place in the sequence, behind the last one if there is none.
    """

    members: npt.NDArray[np.int64]
    sequences: tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], ...]

    @classmethod
    def of(cls, structure: Structure) -> _Multiplies | None:
        """Return the MatMuls of a program; None if there are none, or if there are tiles."""
        work = structure.program.instructions
        members = [index for index, each in enumerate(work) if isinstance(each, MatMul)]
        if structure.has_tiles or not members:
            return None
        done = Post(0)
        ends = np.array([structure.window(index, done)[1] for index in members], np.int64)
        own = np.arange(len(members))
        sequences = []
        for sequence in _ascending(ends.tolist()):
            places = np.array(sequence, np.int64)
            behind = np.searchsorted(places, own, "right")
            sequences.append((places, np.maximum(behind, np.searchsorted(ends[places], ends))))
        return cls(np.array(members, np.int64), tuple(sequences))


def _ascending(ends: Sequence[int]) -> list[list[int]]:
    """Return as few sequences as can be, of places of numbers that do not descend."""
    last: list[int] = []  # of each sequence, ascending
    found: list[list[int]] = []
    for place, end in enumerate(ends):
        at = bisect_right(last, end) - 1
        if at < 0:
            last.insert(0, end)
            found.insert(0, [place])
        else:
            last[at] = end
            found[at].append(place)
    return found


def _pairs(known: npt.NDArray[np.int32]) -> list[list[tuple[int, int]]]:
    """Return, for each instruction, each (queue, position) whose position is not NEVER."""
    found: list[list[tuple[int, int]]] = [[] for _ in known]
    rows, queues = np.nonzero(known < NEVER)
    positions = known[rows, queues]
    for row, queue, position in zip(
        rows.tolist(), queues.tolist(), positions.tolist(), strict=True
    ):
        found[row].append((queue, position))
    return found


class _Heads(NamedTuple):
    """The instructions that wait, and the first of each queue: others have a clock of these.

    order: in an order in which they can start. before: for each, the head of the instruction before
    it in its queue; -1 if there is none. of_each: int64 [instructions], the last head of its queue
    that stands not behind it.
    """

    order: list[int]
    before: list[int]
    of_each: npt.NDArray[np.int64]

    @classmethod
    def of(cls, structure: Structure, order: Sequence[int]) -> _Heads:
        """Return the heads of a program."""
        work = structure.program.instructions
        waits = np.array([bool(each.waits) for each in work], np.bool_)
        of_each, before = np.empty((2, len(work)), np.int64)
        for queue in structure.members:
            members = np.array(queue, np.int64)
            is_head = waits[members]
            is_head[0] = True
            places = np.maximum.accumulate(np.where(is_head, np.arange(len(members)), 0))
            of_each[members] = members[places]
            before[members[0]], before[members[1:]] = -1, of_each[members[:-1]]
        visited = np.array(order, np.int64)
        heads = visited[of_each[visited] == visited]
        return cls(heads.tolist(), before[heads].tolist(), of_each)


def _edges_and_semaphores(
    structure: Structure,
) -> tuple[list[tuple[int, int]], list[PostsAndWaits]]:
    """Return (posts, waits) for each wait for the only post of a semaphore, and the others.

    Most semaphores are posted once. The others are those that have both waits and posts.
    """
    waits: dict[int, list[tuple[int, int]]] = defaultdict(list)
    posts: dict[int, list[tuple[int, Post]]] = defaultdict(list)
    for index, instruction in enumerate(structure.program.instructions):
        for wait in instruction.waits:
            if wait.value > 0:
                waits[wait.semaphore].append((index, wait.value))
        for post in instruction.posts:
            posts[post.semaphore].append((index, post))
    edges: list[tuple[int, int]] = []
    others: list[PostsAndWaits] = []
    for semaphore, waiting in waits.items():
        posting = posts.get(semaphore, [])
        if len(posting) == 1 and _is_single(structure, *posting[0]):
            edges += [(posting[0][0], index) for index, _ in waiting]
        elif posting:
            others.append(PostsAndWaits(_chains(structure, posting), Waits.of(structure, waiting)))
    return edges, others


def _is_single(structure: Structure, index: int, post: Post) -> bool:
    return times(structure.program.instructions[index], post, structure.chip) == 1


def _chains(structure: Structure, posts: Iterable[tuple[int, Post]]) -> list[Chain]:
    """Return the posts of a semaphore, by queue."""
    by_queue: dict[int, list[tuple[int, Post]]] = defaultdict(list)
    for index, post in posts:
        by_queue[structure.queue_of[index]].append((index, post))
    return [Chain(structure, members) for members in by_queue.values()]
