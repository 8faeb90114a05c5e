"""Elements that share words and need a write each: in memory, by search, and in random programs."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import numpy as np
import pytest

from compiler.bounds.test_neighbours import CHIP, drawn, places, reordered
from systolic.compiler.bounds.own_writes import moves_alone
from systolic.config import load_chip
from systolic.hw.formulas.moves import copied_bound
from systolic.layout import Shape
from systolic.shipped import CHIPS

WORD = 4
TYPES = {"bf16": 2, "s8": 1}


def kept(source: np.ndarray, result: np.ndarray, size_bytes: int) -> list[int]:
    """Return elements of which the lemma says that each needs a write: as many as one can take.

    source, result: the byte at which each element begins, before and after, of one lane each.
    Elements of a word of the result must have other distances modulo a word, or distances that are
    no multiple of what the element brings alone; and so on. See `bounds.own_writes`.
    """
    taken: list[int] = []
    words: set[int] = set()
    halves: set[int] = set()
    for n, (s, r) in enumerate(zip(source.tolist(), result.tolist(), strict=True)):
        far = s - r
        if size_bytes == 1 and far % 2 == 0:
            if s // 2 in halves:
                continue
            halves.add(s // 2)
        if far % WORD == 0:
            if r // WORD in words:
                continue
            words.add(r // WORD)
        taken.append(n)
    return taken


@pytest.mark.parametrize("seed", range(300))
def test_in_memory_every_element_of_such_a_move_is_one_of_those_that_need_a_write(seed):
    rng = Random(seed)
    dims = [rng.choice([2, 3, 4, 6, 7, 8, 12, 16, 32]) for _ in range(rng.randint(2, 4))]
    dtype = rng.choice([*TYPES])
    _, axes, after = reordered(rng, dims)
    source, result = (Shape.parse(drawn(rng, each, dtype)) for each in (dims, after))
    if moves_alone(source, result, axes, CHIP):
        assert _all_need_a_write(source, result, rng, axes)


def _all_need_a_write(
    source: Shape, result: Shape, rng: Random, axes: list[int] | None = None
) -> bool:
    """Return whether in memory every element of a move is one of those that need a write."""
    was, lies = (places(rng, each, outside=False) for each in (source, result))
    if axes is not None:
        was = was.reshape(2, *source.dims).transpose(0, *(1 + axis for axis in axes)).reshape(2, -1)
    # A lane's bytes are far from those of any other, so that they count as one memory.
    size = source.dtype.itemsize
    lines = [place[0] * (1 << 20) + place[1] * size for place in (was, lies)]
    return len(kept(*lines, size)) == source.num_elements()


def test_such_moves_are_many_and_others_too():
    rng, found = Random(0), Counter[bool]()
    for _ in range(400):
        dims = [rng.choice([2, 4, 8, 16, 32]) for _ in range(rng.randint(2, 3))]
        dtype = rng.choice([*TYPES])
        _, axes, after = reordered(rng, dims)
        source, result = (Shape.parse(drawn(rng, each, dtype)) for each in (dims, after))
        found[moves_alone(source, result, axes, CHIP)] += 1
    assert min(found[True], found[False]) > 80, found


@pytest.mark.parametrize(
    ("source", "result", "alone"),
    [
        ("bf16[64,64]", "bf16[64,64]{0,1}", True),
        ("bf16[64,64]{1,0:T(8,128)(2,1)}", "bf16[64,64]", True),
        ("bf16[64,64]{1,0:T(8,128)(2,1)}", "bf16[64,64]{0,1}", False),  # pairs of rows stay pairs
        ("bf16[64,64]", "bf16[64,64]{1,0:T(8,128)}", False),  # and rows rows
        ("s8[64,64]{1,0:T(8,128)(4,1)}", "s8[64,64]", True),
        ("s8[64,64]{1,0:T(8,128)(2,1)}", "s8[64,64]{1,0:T(8,128)(4,1)}", False),
        ("s8[64,30]", "s8[64,30]{0,1}", False),  # a row of 30 bytes is no whole number of words
        ("f32[64,64]", "f32[64,64]{0,1}", False),  # a word each: nothing is shared
    ],
)
def test_moves_by_hand(source, result, alone):
    assert moves_alone(Shape.parse(source), Shape.parse(result), (0, 1), CHIP) is alone


def test_a_reshape_by_hand():
    """Index 8 i + j: columns of j lie side by side before, of i afterwards; then of j both times"""
    split = Shape.parse("bf16[4,8,8]{1,2,0}"), Shape.parse("bf16[4,8,8]{2,1,0}")
    whole = Shape.parse("bf16[4,64]")
    assert moves_alone(whole, split[0], None, CHIP)
    assert not moves_alone(whole, split[1], None, CHIP)


def test_rows_that_end_within_a_word_may_carry_into_the_rows_of_another_shape():
    """Row 4 i + j of 76 and row i of 8 tiles of four: of 77 rows the places in a word shift."""
    result = "{1,0:T(8,128)(4,1)}"
    for rows, alone in ((76, True), (77, False)):
        source = Shape.parse(f"s8[8,{rows}]{{0,1:T(8,128)(4,1)}}")
        after = Shape.parse(f"s8[{2 * rows},4]{result}")
        assert moves_alone(source, after, None, CHIP) is alone
        assert _all_need_a_write(source, after, Random(0)) is alone


def test_no_three_writes_turn_two_by_two_elements_of_two_bytes():
    """Breadth first through all that three copies of an element or a word can do.

    Two rows (a0, b0) and (a1, b1), each a word; wanted (a0, a1) and (b0, b1) in two others. A fifth
    word is free for anything.
    """
    start = ("a0", "b0", "a1", "b1") + (None,) * 6
    singles = [((n,), (m,)) for n, m in product(range(10), repeat=2) if n != m]
    words = [((n, n + 1), (m, m + 1)) for n, m in product(range(0, 10, 2), repeat=2) if n != m]
    seen, last = {start}, {start}
    for writes in range(1, 5):
        new = set()
        for cells in last:
            for out_of, into in (*singles, *words):
                moved = list(cells)
                for n, m in zip(out_of, into, strict=True):
                    moved[m] = cells[n]
                new.add(tuple(moved))
        last = new - seen
        seen |= last
        done = any(cells[4:8] == ("a0", "a1", "b0", "b1") for cells in last)
        assert done == (writes == 4)
        if writes == 3:  # of the fourth only what ends the work
            last = {cells for cells in last if _differ(cells[4:8]) <= 1}


def _differ(cells: tuple[str | None, ...]) -> int:
    return sum(a != b for a, b in zip(cells, ("a0", "a1", "b0", "b1"), strict=True))


@pytest.mark.parametrize("seed", range(400))
def test_no_program_of_copies_brings_more_elements_than_it_has_writes(seed):
    """Random copies of one, two or four bytes, mostly wide ones, over half a dozen words."""
    rng = Random(seed)
    size = rng.choice([1, 2])
    memory = np.arange(48)
    memory[24:] = -1
    writes = rng.randint(1, 14)
    for _ in range(writes):
        wide = rng.choice([w for w in (1, 2, 4, 4, 4) if w >= size])
        out_of, into = (rng.randrange(0, 48, wide) for _ in range(2))
        memory[into : into + wide] = memory[out_of : out_of + wide]
    there = np.flatnonzero((memory[24::size] >= 0) & (memory[24::size] % size == 0)) * size + 24
    # An element counts once, wherever it came to several times.
    first = {int(memory[place]): int(place) for place in there[::-1]}
    here = np.array([*first], dtype=np.int64)
    assert len(kept(here, np.array([*first.values()], dtype=np.int64), size)) <= writes


def test_a_write_is_of_one_element_then():
    """Two engines of 128 lanes: 256 elements in a cycle, written in the next; two queues of 272
    bytes from cycle 600 on, each of 272 elements of one byte, or of 136 of two."""
    patent = load_chip(CHIPS / "patent_128x64.toml")
    for size_bytes, by_queues in ((1, 544), (2, 272), (4, 136)):
        assert copied_bound(patent, 599 * 256, size_bytes, alone=True).cycles == 599 + 1
        later = 10 * (256 + by_queues)
        assert copied_bound(patent, 600 * 256 + later, size_bytes, alone=True).cycles == 610 + 1
