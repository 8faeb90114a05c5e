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
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.parts import Lines
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.layout import Shape, over_partitions
from systolic.machine import Image, simulate
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
        parts = [n for n in (2, 3, 4, 8) if dims[at] % n == 0]
        if parts and rng.random() < 0.5:
            minor = rng.choice(parts)
            return kind, None, [*dims[:at], dims[at] // minor, minor, *dims[at + 1 :]]
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


@pytest.mark.parametrize("seed", quick_first(range(600), 150))
def test_memory_parts_no_fewer_neighbours_than_a_bound_says(seed: int) -> None:
    rng = Random(seed)
    dims = [rng.choice([1, 2, 3, 4, 6, 8, 9, 16, 32]) for _ in range(rng.randint(2, 3))]
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
        for far in range(1, min(lines.reach, 16)):
            told = sum((n - far) * count for n, count in lines.lengths if n > far)
            assert told <= parted(lies, was, far * unit)


WIDE = ideal_chip(32, 32, state_buffer={"partitions": 32})


@pytest.mark.parametrize("seed", quick_first(range(300), 40))
def test_no_two_elements_of_a_line_without_tiles_are_as_far_apart_in_any_rows(seed: int) -> None:
    """Rows of any view, of the source in tiles of any number of rows, which stand on one another"""
    rng = Random(seed)
    dims = [rng.choice([2, 4, 8, 16, 32]) for _ in range(rng.randint(2, 4))]
    _, axes, after = reordered(rng, dims)
    source, result = (
        Shape.parse(f"f32[{','.join(map(str, each))}]{{{','.join(map(str, order))}}}")
        for each in (dims, after)
        for order in [rng.sample(range(len(each)), len(each))]
    )
    placed = []
    for shape, p in ((source, rng.choice([2, 4, 8, 16, 32, 32])), (result, 32)):
        index = [*np.unravel_index(np.arange(shape.num_elements()), shape.dims)]
        lies = in_unbroken_rows(shape, rng.choice([*home_views(shape)]), p)
        placed.append(np.stack(over_partitions(lies, 32).place(lies.linear_index(index))))
    was, lies = placed
    if axes is not None:
        was = was.reshape(2, *dims).transpose(0, *(1 + axis for axis in axes)).reshape(2, -1)
    for lines in parted_lines(source, result, axes, WIDE, outside=False):
        for far in range(1, min(lines.reach, 32)):
            told = sum((n - far) * count for n, count in lines.lengths if n > far)
            assert told <= parted(lies, was, far)


def test_rows_in_turn_may_be_as_far_apart_as_columns() -> None:
    """Of 64 rows of 32 columns row 32 is in partition 0 of 32 again, 32 places on; not of pairs."""
    for dims, reach in (("64,32", 32), ("64,2,32", 64)):
        source = Shape.parse(f"f32[{dims}]")
        result = Shape.parse(f"f32[{dims}]{{{','.join(map(str, range(source.rank)))}}}")
        (lines,) = parted_lines(source, result, range(source.rank), WIDE, outside=False)
        assert lines.reach == reach


def test_lines_by_hand() -> None:
    """Rows of 768 in pairs: elements of a row are two places apart there, those of a pair not."""
    pairs, rows = Shape.parse("f16[8,768]{1,0:T(8,128)(2,1)}"), Shape.parse("f16[8,768]")
    (unpaired,) = parted_lines(pairs, rows, (0, 1), CHIP, outside=True)
    assert unpaired == Lines(((768, 8),), 2, 64)
    of_pairs, whole = parted_lines(rows, pairs, (0, 1), CHIP, outside=True)
    assert of_pairs == Lines(((2, 4 * 768),), 2, 64)
    assert whole == Lines(((256, 4 * 6),), 2, 64)  # six tiles of 128 columns in each pair of rows
    turned = Shape.parse("f16[8,768]{0,1}")
    columns, memory = parted_lines(rows, turned, (0, 1), CHIP, outside=True)
    assert columns.lengths == ((8, 768),)
    assert memory == Lines(((8 * 768, 1),), 2, 2)  # nor are the last of a column and the next first
    # Of three matrices of 2 x 4 that are turned, the last of one and the first of the next are.
    three = [Shape.parse(f"f16[3,2,4]{order}") for order in ("{2,1,0}", "{1,2,0}")]
    assert [*parted_lines(*three, (0, 1, 2), CHIP, outside=True)][-1] == Lines(((8, 3),), 2, 2)
    # Row by row before and after, and only as words of two rows.
    assert not [*parted_lines(rows, Shape.parse("f16[2,4,768]"), None, CHIP, outside=True)]
    assert not [*parted_lines(turned, pairs, (0, 1), CHIP, outside=True)]
    (words,) = parted_lines(pairs, turned, (0, 1), CHIP, outside=True)
    assert words == Lines(((4, 768),), 4, 64)


N = 1024


def test_long_runs_part_neighbours_of_a_source_if_padding_comes_between() -> None:
    """Every second element goes to a row of its own, two places apart: a tile of it is one run.

    So 8 tiles of two rows are 16 descriptors of 255 elements, 7 and 20 cycles each, behind 642
    cycles of latency; a bound that counted 1,024 pairs said 1,288.
    """
    builder = GraphBuilder("dram")
    builder.tensor("x", f"bf16[1,{N},2]")
    result = Shape.parse(f"bf16[2,1,{N}]{{2,1,0:T(8,128)(2,1)}}")
    builder.transpose("x", result, (2, 0, 1), name="y")
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    base, row = 1 << 20, 2 * int(result.linear_index([np.array([n]) for n in (1, 0, 0)])[0])
    at = [
        Access(Buffer.DRAM, "bf16", 0, 1, start, ((far, N // 128), (1, 255)))
        for y in (0, 1)
        for start, far in ((2 * y, 256), (base + y * row, 1024))
    ]
    copies = (DmaCopy(dma_queue=n, source=at[2 * n], target=at[2 * n + 1]) for n in (0, 1))
    whole = Access(Buffer.DRAM, "bf16", 0, 1, 0, ((1, 2 * N),))
    x = np.arange(2 * N, dtype=np.uint16).view(data_type("bf16").numpy)
    found = simulate(chip, Program("by_hand", tuple(copies)), [Image(whole, x[None])])
    for y in (0, 1):
        lies = Access(Buffer.DRAM, "bf16", 0, 1, base + y * row, ((1024, N // 128), (2, 128)))
        made = found.memory.read(lies).ravel().view(np.uint16)
        assert (made == np.arange(y, 2 * N, 2)).all()
    bound = run_bound(builder.graph(), chip).cycles
    assert bound <= found.trace.cycles() < 900


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
