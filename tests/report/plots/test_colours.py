"""Do two things that are there at once have two colours, as long as there are enough?"""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from systolic.report.paper.theme import LIGHT
from systolic.report.plots.colours import colours_apart, spans_of
from systolic.report.plots.memory import memory_colours
from systolic.report.plots.subject import PlotRun
from systolic.run.execute import run
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS


@pytest.mark.parametrize("seed", range(30))
def test_two_at_once_are_two_colours(seed: int) -> None:
    random, spans = Random(seed), {}
    while len(spans) < 200:
        first = random.randrange(10_000)
        stop = first + random.randrange(1, 400)
        there = [each for each in spans.values() if each[0] < stop and first < each[1]]
        if len(there) < len(LIGHT.series) // 2:
            spans[f"op{len(spans)}"] = first, stop
    found = colours_apart(spans, LIGHT)
    assert set(found.values()) == set(LIGHT.series)
    for one, other in combinations(spans, 2):
        (a, b), (c, d) = spans[one], spans[other]
        if a < d and c < b:
            assert found[one] != found[other], (one, other)


def test_a_few_have_the_first_colours() -> None:
    spans = {"a": (0, 9), "b": (20, 30), "c": (40, 41)}
    assert list(colours_apart(spans, LIGHT).values()) == list(LIGHT.series[:3])


def test_spans_are_from_the_first_to_the_last() -> None:
    assert spans_of([("a", 5, 9), ("b", 1, 2), ("a", 3, 4)]) == {"a": (3, 9), "b": (1, 2)}


@pytest.fixture(scope="module")
def block() -> PlotRun:
    return plotted(run(CONFIGS / "networks" / "bert_block.toml", values=False))


def test_the_largest_tensors_of_the_memory_have_colours_of_their_own(block: PlotRun) -> None:
    found = memory_colours(block, LIGHT)
    layers = block.observed.operations
    assert layers is not None
    spans = spans_of(
        (layers[life.writer], life.first, life.stop) for life in block.lives() if life.writer >= 0
    )
    assert set(spans) <= set(found)
    same = [
        pair for pair in combinations(spans, 2)
        if found[pair[0]] == found[pair[1]]
        and spans[pair[0]][0] < spans[pair[1]][1] and spans[pair[1]][0] < spans[pair[0]][1]
    ]  # fmt: skip
    assert same == []
