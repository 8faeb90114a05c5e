"""The fifth pass: dependencies become semaphores; those that follow from others are removed.

A semaphore belongs to one key of `dependencies`. Either all copies of one DMA queue post it, and
these end in order; or all instructions of one unit that use one region in one role post it, and
these come in phases that exclude each other. So a count always says which instructions have posted.

A wait is removed if it follows from other waits. Example: a multiply waits for a load, and the
load has waited for a copy; then the multiply need not wait for the copy. Waits of earlier
instructions in the same queue count too.

A post is removed if every instruction that waits for it also waits for a later post of the same
queue, and the later instruction ends only after the earlier one. Example: of two copies of one DMA
queue that bring two halves of a tile, only the second posts. No timing is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from systolic.compiler.ir.dependencies import Key, Ref
from systolic.compiler.ir.drafts import Draft
from systolic.isa import Copy, Instruction, LoadWeights, MatMul, Post, Program, Wait

Counts = npt.NDArray[np.int32]


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


def synchronise_drafts(name: str, drafts: Sequence[Draft]) -> Synchronised:
    """Return the program of these drafts."""
    posters = _posters(drafts)
    places = {(key, step): at for key, steps in posters.items() for at, step in enumerate(steps, 1)}
    asked = [_asked(drafts, draft.needs, places) for draft in drafts]
    kept = _reduce(drafts, asked, posters)
    waits, posts, names = _number(kept, posters, drafts)
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


def _reduce(
    drafts: Sequence[Draft], asked: Sequence[dict[Key, int]], posters: dict[Key, list[int]]
) -> list[dict[Key, int]]:
    """Return the waits that do not follow from others."""
    number = {key: n for n, key in enumerate(posters)}
    posts: dict[int, list[int]] = {}
    for key, steps in posters.items():
        for step in steps:
            posts.setdefault(step, []).append(number[key])
    nothing = np.zeros(len(number), np.int32)
    known_in_queue: dict[str, Counts] = {}
    known_by_post: list[list[Counts]] = [[nothing] for _ in number]
    kept: list[dict[Key, int]] = []
    for step, draft in enumerate(drafts):
        queue = draft.instruction.queue
        known = known_in_queue.get(queue, nothing)
        mine: dict[Key, int] = {}
        for key, value in sorted(asked[step].items(), key=lambda w: -posters[w[0]][w[1] - 1]):
            n = number[key]
            if known[n] >= value:
                continue
            mine[key] = value
            known = np.maximum(known, known_by_post[n][value])
            known[n] = value
        known_in_queue[queue] = known
        kept.append(mine)
        for n in posts.get(step, ()):
            known_by_post[n].append(np.maximum(known_by_post[n][-1], known))
    return kept


def _number(
    kept: Sequence[dict[Key, int]], posters: dict[Key, list[int]], drafts: Sequence[Draft]
) -> tuple[list[list[Wait]], list[list[Post]], tuple[str, ...]]:
    """Return waits and posts of each instruction, and the names of the semaphores."""
    targets: dict[Key, set[int]] = {}
    for mine in kept:
        for key, value in mine.items():
            targets.setdefault(key, set()).add(value)
    waits: list[list[Wait]] = [[] for _ in drafts]
    posts: list[list[Post]] = [[] for _ in drafts]
    counts: dict[Key, dict[int, int]] = {}
    for semaphore, (key, values) in enumerate(targets.items()):
        posting = _posting(key, posters[key], sorted(values), drafts)
        counts[key] = {value: n for n, value in enumerate(posting, 1)}
        for step in dict.fromkeys(posters[key][value - 1] for value in posting):
            posts[step].append(Post(semaphore, drafts[step].posts_of(key)[0]))
    number = {key: n for n, key in enumerate(targets)}
    for step, mine in enumerate(kept):
        waits[step] = [Wait(number[key], counts[key][value]) for key, value in mine.items()]
    return waits, posts, tuple(" ".join(key) for key in targets)


def _posting(
    key: Key, steps: Sequence[int], values: Sequence[int], drafts: Sequence[Draft]
) -> list[int]:
    """Return which steps of a key, counted from 1, must post so that all these counts occur."""
    if any(drafts[step].posts_of(key)[1] > 1 for step in steps[: values[-1]]):
        return list(range(1, values[-1] + 1))  # rows and partitions are all posted
    found: list[int] = []
    low = 0
    for value in values:
        last = drafts[steps[value - 1]].instruction
        found += [
            n
            for n in range(low + 1, value)
            if not follows(key, drafts[steps[n - 1]].instruction, last)
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
