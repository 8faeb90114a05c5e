"""Neighbours that a move parts: counted place by place in memory, and no run beats their bound."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest

import systolic
from support.axes import told
from support.chips import ideal_chip
from support.refusals import is_for_room
from support.tiers import quick_first
from systolic.compiler.bounds.neighbours import parted_lines
from systolic.compiler.bounds.run import run_bound
from systolic.compiler.ir.homes import in_unbroken_rows
from systolic.compiler.lower.views import home_views
from systolic.config import load_chip
from systolic.errors import SystolicError
from systolic.hw.formulas.parts import Lines
from systolic.layout import Shape, over_partitions
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder

CHIP = ideal_chip(4, 4, state_buffer={"partitions": 8})
TYPES = {"f32": [""], "bf16": ["", "(2,1)"], "s8": ["", "(4,1)", "(2,1)"], "u8": [""]}


def drawn(rng: Random, dims: list[int], dtype: str) -> str:
    """Return a shape in any order, in half of all cases in tiles."""
    order = rng.sample(range(len(dims)), len(dims))
    tiles = f":T({rng.choice([4, 8])},{rng.choice([4, 16])}){rng.choice(TYPES[dtype])}"
    tiles = tiles if rng.random() < 0.5 else ""
    return f"{dtype}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}{tiles}}}"


def reordered(rng: Random, dims: list[int]) -> tuple[str, list[int] | None, list[int]]:
    """Return a kind of move, its axes and the dimensions of its result."""
    kind = rng.choice(["relayout", "transpose", "reshape"])
    if kind == "reshape":
        at = rng.randrange(len(dims) - 1)
        joined = [*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]]
        return kind, None, joined if len(joined) > 1 else [dims[1], dims[0]]
    axes = rng.sample(range(len(dims)), len(dims)) if kind == "transpose" else [*range(len(dims))]
    return kind, axes, [dims[axis] for axis in axes]


def places(rng: Random, shape: Shape, *, outside: bool) -> np.ndarray:
    """Return partition and address of every element in logical order, from memory itself."""
    if not outside and not shape.layout.tiles:
        shape = in_unbroken_rows(shape, rng.choice([*home_views(shape)]), 8)
    index = [*np.unravel_index(np.arange(shape.num_elements()), shape.dims)]
    offset = shape.linear_index(index)
    if outside:
        return np.stack([np.zeros_like(offset), offset])
    return np.stack(over_partitions(shape, 8).place(offset))


def parted(here: np.ndarray, there: np.ndarray, distance: int) -> int:
    """Return how many pairs that are so far apart here are not as far apart there."""
    at = {(p, a): n for n, (p, a) in enumerate(here.T.tolist())}
    pairs = [(n, at[p, a + distance]) for (p, a), n in at.items() if (p, a + distance) in at]
    if not pairs:
        return 0
    one, other = np.array(pairs).T
    apart = there[:, other] - there[:, one]
    return int(((apart[0] != 0) | (apart[1] != distance)).sum())


@pytest.mark.parametrize("seed", range(400))
def test_memory_parts_no_fewer_neighbours_than_a_bound_says(seed: int) -> None:
    rng = Random(seed)
    dims = [rng.choice([1, 2, 3, 4, 6, 8, 9, 16]) for _ in range(rng.randint(2, 3))]
    dtype = rng.choice([*TYPES])
    _, axes, after = reordered(rng, dims)
    source, result = (Shape.parse(drawn(rng, each, dtype)) for each in (dims, after))
    outside = rng.random() < 0.5
    was, lies = (places(rng, each, outside=outside) for each in (source, result))
    if axes is not None:  # by the logical order of the result
        was = was.reshape(2, *dims).transpose(0, *(1 + axis for axis in axes)).reshape(2, -1)
    many = math.prod(dims)
    found = [*parted_lines(source, result, axes, CHIP, outside=outside)]
    for lines in found:
        unit = lines.unit_bytes // source.dtype.itemsize
        assert sum(n * count for n, count in lines.lengths) * unit <= many
        for far in range(1, min(lines.reach, 6)):
            told = sum((n - far) * count for n, count in lines.lengths if n > far)
            assert any(
                told <= parted(here, there, far * unit)
                for here, there in ((lies, was), (was, lies))
            )


def test_lines_by_hand() -> None:
    """Rows of 768 in pairs: elements of a row are two places apart there, those of a pair not."""
    pairs, rows = Shape.parse("f16[8,768]{1,0:T(8,128)(2,1)}"), Shape.parse("f16[8,768]")
    of_result, of_source = parted_lines(pairs, rows, (0, 1), CHIP, outside=True)
    assert of_result == Lines(((768, 8),), 2, 64)
    assert of_source == Lines(((2, 4 * 768),), 2, 64)
    turned = Shape.parse("f16[8,768]{0,1}")
    assert [each.lengths for each in parted_lines(rows, turned, (0, 1), CHIP, outside=True)] == [
        ((8, 768),),
        ((768, 8),),
    ]
    # Row by row before and after, and only as words of two rows.
    assert not [*parted_lines(rows, Shape.parse("f16[2,4,768]"), None, CHIP, outside=True)]
    (words,) = parted_lines(turned, pairs, (0, 1), CHIP, outside=True)
    assert words == Lines(((4, 768),), 4, 64)


SHIPPED = sorted(path.stem for path in CHIPS.glob("*.toml"))


@pytest.mark.parametrize(
    ("chip", "seed"), quick_first([(c, s) for s in range(8) for c in SHIPPED], len(SHIPPED))
)
def test_no_small_move_or_product_beats_its_bound_on_a_shipped_chip(chip: str, seed: int) -> None:
    """The run itself would end with an error that says so."""
    rng, hardware = Random(f"{chip} {seed}"), load_chip(Path(CHIPS) / f"{chip}.toml")
    builder = GraphBuilder(rng.choice(["dram", "state_buffer"]))
    dtype = rng.choice([*TYPES])
    if seed % 4 == 3:
        M, K, N = (rng.choice([2, 8, 9, 24]) for _ in range(3))
        dtype = "bf16"
        x, w = (drawn(rng, [2, *sides], dtype) for sides in ((M, K), (K, N)))
        out = drawn(rng, [2, M, N], "f32")
        builder.matmul(builder.tensor("x", x), builder.tensor("w", w), out, name="y")
    else:
        dims = [rng.choice([1, 2, 3, 8, 16, 24]) for _ in range(rng.randint(2, 4))]
        kind, axes, after = reordered(rng, dims)
        source, result = (drawn(rng, each, dtype) for each in (dims, after))
        x = builder.tensor("x", source)
        builder.add(kind, (x,), result, name="y", **told(axes if kind == "transpose" else ()))
    graph = builder.graph()
    try:
        run = systolic.run(graph, hardware, values=False)
    except SystolicError as error:
        assert is_for_room(error) or "each in a partition" in str(error), error  # noqa: PT017
        return
    assert run.trace.ticks >= run_bound(graph, hardware).ticks
