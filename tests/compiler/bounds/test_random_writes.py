"""What random programs of copies bring together, and what they need for it: counted in memory.

A cell holds an element. Engines write words of one, two or four cells, a descriptor copies a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from compiler.bounds.test_own_writes import kept

CELLS, SOURCE = 96, 48
JUNK = -1
PAIRS, BYTES = (1, 1, 2), (1, 1, 2, 2, 4)
"""The cells of words that engines write, of elements of two bytes and of one."""


@dataclass
class Memory:
    """Cells with the number of the cell from which each element came, and what wrote it.

    written: an engine has written it at some time. writes, descriptors, moved: how many there were,
    and how many cells descriptors moved.
    """

    cells: list[int] = field(default_factory=lambda: [*range(SOURCE)] + [JUNK] * (CELLS - SOURCE))
    written: list[bool] = field(default_factory=lambda: [False] * CELLS)
    writes: int = 0
    descriptors: int = 0
    moved: int = 0

    def word(self, here: int, there: int, width: int) -> None:
        """Let an engine copy a word."""
        assert here % width == there % width == 0
        self.cells[there : there + width] = self.cells[here : here + width]
        self.written[there : there + width] = [True] * width
        self.writes += 1

    def run(self, here: int, there: int, length: int) -> None:
        """Let a descriptor copy a run."""
        self.cells[there : there + length] = self.cells[here : here + length]
        self.written[there : there + length] = self.written[here : here + length]
        self.descriptors += 1
        self.moved += length


def drawn(rng: Random, most: int, widths: tuple[int, ...] = PAIRS) -> Memory:
    """Return a memory after copies of words in steps and of runs, most of them long.

    widths: of words, in cells.
    """
    memory = Memory()
    for _ in range(rng.randint(1, most)):
        if rng.random() < 0.4:
            length = rng.choice([1, 2, rng.randint(3, 40), rng.randint(8, 40)])
            memory.run(*(rng.randrange(CELLS - length + 1) for _ in range(2)), length)
            continue
        width, count = rng.choice(widths), rng.choice([1, rng.randint(2, 12)])
        steps = [width * rng.choice([1, 2, 3, 4]) for _ in range(2)]
        starts = [rng.randrange(0, CELLS - width + 1, width) for _ in range(2)]
        for n in range(count):
            here, there = (start + n * step for start, step in zip(starts, steps, strict=True))
            if max(here, there) + width <= CELLS:
                memory.word(here, there, width)
    return memory


def lines_of(cells: list[int], reach: int) -> list[list[int]]:
    """Return lines of cells in which no two elements less than `reach` apart were as far apart."""
    lines, line, taken = list[list[int]](), list[int](), set[int]()
    for place in reversed(range(CELLS)):
        element = cells[place]
        fits = element != JUNK and element not in taken
        near = [other for other in line if other - place < reach]
        if not fits or any(cells[other] - element == other - place for other in near):
            lines.append(line)
            line = []
        if fits:
            line.append(place)
            taken.add(element)
    return [*lines, line]


@pytest.mark.parametrize("seed", range(1000))
def test_no_program_brings_lines_together_with_fewer_writes(seed: int) -> None:
    memory = drawn(Random(seed), 12)
    for g in range(2, 9):
        lines = lines_of(memory.cells, g)
        by_engines = sum(memory.written[place] for line in lines for place in line)
        neighbours = sum(len(line) - 1 for line in lines if line)
        assert neighbours * (g - 1) <= g * (by_engines + (g - 1) * memory.descriptors)
        groups = sum(len(line) // g for line in lines)
        assert groups * (g - 1) <= by_engines + 2 * (g - 1) * memory.descriptors


def test_a_descriptor_of_one_element_gives_it_two_neighbours() -> None:
    """So the bound of pairs is reached: 2 / 2 <= 1."""
    memory = Memory()
    memory.run(8, 20, 1)
    assert [line for line in lines_of(memory.cells, 2) if len(line) > 1] == [[21, 20, 19]]


def saved(memory: Memory, here: int, there: int) -> tuple[int, int]:
    """Return how many elements of two bytes need writes of their own, and what they had instead.

    They come from cells before `here` to cells from `there` on, twice what the lemma counts for
    them (`systolic.compiler.bounds.own_writes`).
    """
    first = {memory.cells[n]: n for n in reversed(range(there, len(memory.cells)))}
    pairs = [(element, place) for element, place in first.items() if 0 <= element < here]
    places = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    alone = [pairs[n] for n in kept(2 * places[0], 2 * places[1], 2)]
    by_queues = sum(not memory.written[place] for _, place in alone)
    return len(alone), 2 * memory.writes + memory.moved + by_queues + 4 * memory.descriptors


@pytest.mark.parametrize("seed", range(1000))
def test_no_program_saves_more_writes_than_half_of_what_descriptors_move(seed: int) -> None:
    elements, counted = saved(drawn(Random(seed), 12), SOURCE, SOURCE)
    assert 2 * elements <= counted


def saved_of_bytes(memory: Memory, here: int, there: int) -> tuple[int, int]:
    """Return how many bytes need writes of their own, and twice what they had instead.

    As `saved`, of elements of one byte: of a word of the source all must have one place in words of
    the result, and of a word of the result one in words of the source.
    """
    first = {memory.cells[n]: n for n in reversed(range(there, len(memory.cells)))}
    goes, came = dict[int, int](), dict[int, int]()
    alone = [
        place
        for element, place in sorted(first.items())
        if 0 <= element < here
        and goes.setdefault(element // 4, place % 4) == place % 4
        and came.setdefault(place // 4, element % 4) == element % 4
    ]
    by_queues = sum(not memory.written[place] for place in alone)
    return len(alone), 2 * memory.writes + memory.moved + by_queues + 6 * memory.descriptors


@pytest.mark.parametrize("seed", range(1000))
def test_no_program_saves_more_writes_of_bytes_than_half_of_what_descriptors_move(
    seed: int,
) -> None:
    elements, counted = saved_of_bytes(drawn(Random(seed), 12, BYTES), SOURCE, SOURCE)
    assert 2 * elements <= counted


@pytest.mark.parametrize(("words_of_four", "writes", "moved"), [(False, 48, 30), (True, 44, 44)])
def test_four_rows_of_bytes_that_are_interleaved_save_a_quarter_or_more(
    *, words_of_four: bool, writes: int, moved: int
) -> None:
    """Four rows of 16 whose bytes lie in words together, row b of byte n in cell 4 n + b.

    Every second byte comes in a half of a word with one of the next row, which is copied to that
    row; or every fourth with those of three rows, the third of which is copied first.
    """
    size, home = 64, 64
    memory = Memory([*range(size)] + [JUNK] * (2 * size), [False] * (3 * size))
    if words_of_four:
        for n in range(0, 16, 4):
            memory.word(4 * n, home + n, 4)
        memory.run(home + 2, home + 32, 14)
    for n in range(2 if words_of_four else 0, 16, 4 if words_of_four else 2):
        memory.word(4 * n, home + n, 2)
        memory.word(4 * n + 2, home + 32 + n, 2)
    for row in (0, 2):
        memory.run(home + 16 * row + 1, home + 16 * row + 16, 15)
    for n in range(1, 16, 2):
        for row in range(4):
            memory.word(4 * n + row, home + 16 * row + n, 1)
    assert memory.cells[home : home + size] == [4 * n + row for row in range(4) for n in range(16)]
    assert (memory.writes, memory.moved) == (writes, moved)
    elements, counted = saved_of_bytes(memory, size, home)
    assert elements == size
    ends = 6 * memory.descriptors
    assert 2 * elements <= counted
    if not words_of_four:  # but for the ends of the two descriptors it could be no less
        assert counted - ends + memory.descriptors == 2 * elements


def test_rows_that_are_interleaved_save_a_quarter_of_the_writes() -> None:
    """Of two rows of 20 that lie side by side: 30 writes, and a descriptor of 19 elements."""
    memory = Memory()
    for n in range(0, 20, 2):
        memory.word(2 * n, 48 + n, 2)
    memory.run(49, 68, 19)
    for n in range(1, 20, 2):
        memory.word(2 * n, 48 + n, 1)
        memory.word(2 * n + 1, 68 + n, 1)
    assert memory.cells[48:88] == [*range(0, 40, 2), *range(1, 40, 2)]
    assert (memory.writes, memory.moved, memory.descriptors) == (30, 19, 1)
    elements, counted = saved(memory, 40, 48)
    assert elements == 40
    assert counted - 3 == 2 * elements  # but for the ends of the descriptor it could be no less


def test_rows_that_follow_one_another_save_nearly_a_third() -> None:
    """Each third element comes in a word with that of the next row, to which the row is copied.

    A word lies at an even cell, so half of them come before the row is copied to its place, an odd
    number of cells on, and half behind that. The first row has each third element alone at first.
    """
    rows, wide = 10, 12
    size, end = rows * wide, 6 * rows * wide
    memory = Memory([*range(size)] + [JUNK] * (end - size), [False] * end)
    memory.run(0, size + 1, size)  # an odd number of cells on: words from there begin within others
    for n in range(0, wide, 3):
        memory.word(n * rows, 2 * size + 2 + n, 1)
    for row in range(rows):
        before = 2 * size + 2 + 2 * row * (wide + 2)
        place = before + wide + 3
        with_next = [] if row == rows - 1 else [*range((row + 1) % 3, wide, 3)]
        for start in (before, place):
            for n in with_next:
                if (start + n) % 2 == 0:
                    here = n * rows + row
                    memory.word(here + here % 2 * (size + 1), start + n, 2)
            if start == before:
                memory.run(before, place, wide + 1)
        if row < rows - 1:
            memory.run(place + 1, place + wide + 1, wide)
        for n in range(wide):
            if memory.cells[place + n] != n * rows + row:
                memory.word(n * rows + row, place + n, 1)
        assert memory.cells[place : place + wide] == [*range(row, size, rows)]
    assert memory.writes == 4 + 9 * (4 + 4) + 8
    elements, counted = saved(memory, size, 2 * size)
    assert 2 * elements <= counted
