"""What random programs of copies bring together, and what they need for it: counted in memory.

A cell holds an element. Engines write words of one or two cells, a descriptor copies a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

CELLS, SOURCE = 96, 48
JUNK = -1


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


def drawn(rng: Random, most: int) -> Memory:
    """Return a memory after copies of words in steps and of runs, most of them long."""
    memory = Memory()
    for _ in range(rng.randint(1, most)):
        if rng.random() < 0.4:
            length = rng.choice([1, 2, rng.randint(3, 40), rng.randint(8, 40)])
            memory.run(*(rng.randrange(CELLS - length + 1) for _ in range(2)), length)
            continue
        width, count = rng.choice([1, 1, 2]), rng.choice([1, rng.randint(2, 12)])
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
