"""Does recognition agree with numpy about which changes of layout leave elements where they are?"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systolic.compiler.lower.recognise import moves_nothing
from systolic.layout import Shape


def order(shape: Shape, elements: np.ndarray) -> list[int]:
    """Return the elements as they lie, from the first to the last in memory."""
    return elements.transpose(shape.layout.major_to_minor).ravel().tolist()


def drawn(rng: Random) -> tuple[Shape, Shape, list[int]]:
    """Return a shape, a permutation of its dimensions, and the permuted shape in any layout."""
    rank = rng.randint(1, 4)
    dims = [rng.choice([1, 1, 2, 3, 5]) for _ in range(rank)]
    axes, before, after = (rng.sample(range(rank), rank) for _ in range(3))
    sizes = [f"f32[{','.join(map(str, d))}]" for d in (dims, [dims[axis] for axis in axes])]
    source, result = (
        Shape.parse(f"{text}{{{','.join(map(str, layout))}}}")
        for text, layout in zip(sizes, (before, after), strict=True)
    )
    return source, result, axes


@pytest.mark.parametrize("seed", range(10))
def test_elements_that_stay(seed):
    """Dimensions of size 1 may be anywhere, and any two of others have places of their own."""
    rng, seen = Random(seed), set()
    for _ in range(100):
        source, result, axes = drawn(rng)
        elements = np.arange(source.num_elements()).reshape(source.dims)
        stay = order(source, elements) == order(result, elements.transpose(axes))
        assert stay or not moves_nothing(source, result, axes), (source, result, axes)
        seen.add(stay)
    assert seen == {False, True}
