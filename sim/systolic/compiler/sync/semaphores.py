"""The fifth pass: dependencies become semaphores; those that follow from others are removed.

A semaphore belongs to one key of `dependencies`. Either all copies of one DMA queue post it, and
these end in order; or all instructions of one unit that use one region in one role post it, and
these come in phases that exclude each other. So a count always says which instructions have posted.

A wait is removed if it follows from other waits. Example: a multiply waits for a load, and the
load has waited for a copy; then the multiply need not wait for the copy. Waits of earlier
instructions in the same queue count too. An instruction that is known to have posted one key has
posted the others that it posts at the same event.

A post is removed if every instruction that waits for it also waits for a later post of the same
queue, and the later instruction ends only after the earlier one. Example: of two copies of one DMA
queue that bring two halves of a tile, only the second posts. No timing is assumed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from systolic.compiler.ir.dependencies import Key, Ref
from systolic.compiler.ir.dma_posts import waits_for_dma_engines
from systolic.compiler.ir.drafts import Draft
from systolic.hw.spec import Chip
from systolic.isa import Copy, Instruction, LoadWeights, MatMul, Post, Program, Wait

Counts = npt.NDArray[np.int32]
"""How many posts of each key are known of; keys have numbers."""

AllWaits = list[dict[Key, int]]
"""The count of each key that each instruction waits for."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What the pass removed.

    data, memory: dependencies between instructions of different queues. waits: waits after those on
    the same semaphore were merged; kept: waits that remain. asked_posts: one for each instruction
    and semaphore on which another instruction depends; posts: posts that remain. semaphores: how
    many are in use.
    """

    data: int
    memory: int
    waits: int
    kept: int
    asked_posts: int
    posts: int
    semaphores: int


@dataclass(frozen=True, slots=True)
class Synchronised:
    """The result of the fifth pass: the program, the layer of each instruction, the saving."""

    program: Program
    layers: tuple[str, ...]
    saving: Saving


def synchronise_drafts(name: str, drafts: Sequence[Draft], chip: Chip) -> Synchronised:
    """Return the program of these drafts on a chip."""
    posters = _posters(drafts)
    places = {(key, step): at for key, steps in posters.items() for at, step in enumerate(steps, 1)}
    asked = [_asked(drafts, draft.needs, places) for draft in drafts]
    known = _Known(drafts, posters, places)
    kept = _reduce(drafts, asked, known)
    waits, posts, names = _number(kept, known, drafts)
    program = Program(
        name,
        tuple(
            replace(d.instruction, waits=tuple(w), posts=tuple(p))
            for d, w, p in zip(drafts, waits, posts, strict=True)
        ),
        names,
    )
    edges = sum(len(d.needs) for d in drafts)
    data = sum(d.data for d in drafts)
    saving = Saving(
        data,
        edges - data,
        sum(map(len, asked)),
        sum(map(len, kept)),
        sum(map(len, posters.values())),
        sum(map(len, posts)),
        len(names),
    )
    program = waits_for_dma_engines(program, chip)
    return Synchronised(program, tuple(d.layer for d in drafts), saving)


def _posters(drafts: Sequence[Draft]) -> dict[Key, list[int]]:
    """Return, for each key, the instructions that others depend on, in the order of their posts."""
    found: dict[Key, set[int]] = {}
    for draft in drafts:
        for ref in draft.needs:
            found.setdefault(ref.key, set()).add(ref.step)
    return {
        key: [step for step in sorted(steps) for _ in range(drafts[step].posts_of(key)[1])]
        for key, steps in found.items()
    }


def _asked(
    drafts: Sequence[Draft], needs: Sequence[Ref], places: dict[tuple[Key, int], int]
) -> dict[Key, int]:
    """Return the count of each key that covers all needs."""
    asked: dict[Key, int] = {}
    for ref in needs:
        count = places[ref.key, ref.step]
        if ref.part:
            count += ref.part - drafts[ref.step].posts_of(ref.key)[1]
        asked[ref.key] = max(asked.get(ref.key, 0), count)
    return asked


class _Known:
    """What follows from waits: counts of keys, and posts of one event that imply one another.

    relied_on: the posts of each key from which others follow, counted from 1: they must stay.
    """

    def __init__(
        self,
        drafts: Sequence[Draft],
        posters: dict[Key, list[int]],
        places: dict[tuple[Key, int], int],
    ) -> None:
        self._drafts, self.posters, self._places = drafts, posters, places
        self.number = {key: n for n, key in enumerate(posters)}
        self.posted_by: dict[int, list[Key]] = {}
        for key, steps in posters.items():
            for step in steps:
                self.posted_by.setdefault(step, []).append(key)
        self.waited: dict[Key, list[int]] = {key: [] for key in posters}
        self.relied_on: dict[Key, set[int]] = {key: set() for key in posters}

    def implies(self, known: Counts, key: Key, value: int) -> bool:
        """Return whether known counts of other keys imply a count, and note on what that relies."""
        missing = reversed(self.posters[key][known[self.number[key]] : value])
        found = []
        for step in missing:
            twin = self._twin(known, key, step)
            if twin is None:
                return False
            found.append(twin)
        for other, place in found:
            self.relied_on[other].add(place)
        return True

    def _twin(self, known: Counts, key: Key, step: int) -> tuple[Key, int] | None:
        """Return a post of another key that a step makes at the event at which it posts a key.

        The post is known, and an instruction waits for it.
        """
        event, count = self._drafts[step].posts_of(key)
        for other in self.posted_by[step] if count == 1 else ():
            place = self._places[other, step]
            if other == key or known[self.number[other]] < place:
                continue
            if self._drafts[step].posts_of(other) == (event, 1) and self._stays(other, place):
                return other, place
        return None

    def _stays(self, key: Key, place: int) -> bool:
        """Return whether a post is needed for the next count for which an instruction waits."""
        waited = self.waited[key]
        at = bisect_left(waited, place)
        if at == len(waited):
            return False
        first, last = (self.posters[key][n - 1] for n in (place, waited[at]))
        return first == last or not follows(
            key, self._drafts[first].instruction, self._drafts[last].instruction
        )

    def wait(self, key: Key, value: int) -> None:
        """Note that an instruction waits for a count."""
        waited = self.waited[key]
        at = bisect_left(waited, value)
        if at == len(waited) or waited[at] != value:
            waited.insert(at, value)


def _reduce(drafts: Sequence[Draft], asked: Sequence[dict[Key, int]], known: _Known) -> AllWaits:
    """Return the waits that do not follow from others."""
    posters = known.posters
    nothing = np.zeros(len(posters), np.int32)
    in_queue: dict[str, Counts] = {}
    by_post: dict[Key, list[Counts]] = {key: [nothing] for key in posters}
    kept: AllWaits = []
    for step, draft in enumerate(drafts):
        queue = draft.instruction.queue
        counts = in_queue.get(queue, nothing)
        mine: dict[Key, int] = {}
        for key, value in sorted(asked[step].items(), key=lambda w: -posters[w[0]][w[1] - 1]):
            n = known.number[key]
            if counts[n] >= value:
                continue
            if known.implies(counts, key, value):
                counts = counts.copy()
            else:
                mine[key] = value
                known.wait(key, value)
                counts = np.maximum(counts, by_post[key][value])
            counts[n] = value
        in_queue[queue] = counts
        kept.append(mine)
        for key in known.posted_by.get(step, ()):
            by_post[key].append(np.maximum(by_post[key][-1], counts))
    return kept


def _number(
    kept: AllWaits, known: _Known, drafts: Sequence[Draft]
) -> tuple[list[list[Wait]], list[list[Post]], tuple[str, ...]]:
    """Return waits and posts of each instruction, and the names of the semaphores."""
    posters = known.posters
    targets: dict[Key, set[int]] = {}
    for mine in kept:
        for key, value in mine.items():
            targets.setdefault(key, set()).add(value)
    waits: list[list[Wait]] = [[] for _ in drafts]
    posts: list[list[Post]] = [[] for _ in drafts]
    counts: dict[Key, dict[int, int]] = {}
    for semaphore, (key, values) in enumerate(targets.items()):
        posting = _posting(key, posters[key], sorted(values), drafts, known.relied_on[key])
        counts[key] = {value: n for n, value in enumerate(posting, 1)}
        for step in dict.fromkeys(posters[key][value - 1] for value in posting):
            posts[step].append(Post(semaphore, drafts[step].posts_of(key)[0]))
    number = {key: n for n, key in enumerate(targets)}
    for step, mine in enumerate(kept):
        waits[step] = [Wait(number[key], counts[key][value]) for key, value in mine.items()]
    return waits, posts, tuple(" ".join(key) for key in targets)


def _posting(
    key: Key,
    steps: Sequence[int],
    values: Sequence[int],
    drafts: Sequence[Draft],
    relied_on: Collection[int],
) -> list[int]:
    """Return which steps of a key, counted from 1, must post so that all these counts occur.

    relied_on: steps that post in any case.
    """
    if any(drafts[step].posts_of(key)[1] > 1 for step in steps[: values[-1]]):
        return list(range(1, values[-1] + 1))  # rows and partitions are all posted
    found: list[int] = []
    low = 0
    for value in values:
        last = drafts[steps[value - 1]].instruction
        found += [
            n
            for n in range(low + 1, value)
            if n in relied_on or not follows(key, drafts[steps[n - 1]].instruction, last)
        ]
        found.append(value)
        low = value
    return found


def follows(key: Key, first: Instruction, last: Instruction) -> bool:
    """Return whether `last` is done only after the event of `first` that posts `key`.

    By docs/timing_model.md: DMA copies end in order. Sums leave the array in order, unless the
    later multiply has fewer columns. Loads have read before the multiply behind them begins. An
    engine starts to read a lane after it has read all operands of earlier instructions in that
    lane.
    """
    if len(key) == 1:
        return True
    if isinstance(last, MatMul):
        return isinstance(first, LoadWeights) or (
            isinstance(first, MatMul) and first.result.partitions <= last.result.partitions
        )
    if isinstance(first, Copy) and isinstance(last, Copy):
        one, other = first.source, last.source
        return key[0] == "read" and (
            one.partition < other.partition + other.partitions
            and other.partition < one.partition + one.partitions
        )
    return isinstance(first, LoadWeights) and isinstance(last, LoadWeights)
