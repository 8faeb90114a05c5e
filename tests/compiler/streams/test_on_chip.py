"""Legs on the chip: boxes of a move, copied element by element, against the rule of placement."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from support.chips import ideal_chip
from support.placement_law import PlacementLaw
from systolic.compiler.ir.on_chip.chip_places import LANE
from systolic.compiler.places.modes import Mode, Modes, places
from systolic.compiler.streams.moved import move_groups
from systolic.compiler.streams.on_chip.homes import ChipHome, boxes_between, homes_of
from systolic.compiler.streams.on_chip.legs import (
    MEMORY,
    RESULT,
    SOURCE,
    ChipBox,
    lane_copies,
    queue_copies,
    turns,
)
from systolic.layout import Shape
from systolic.workload import Graph, GraphBuilder

TILES = ("", "", "T(4,8)", "T(8,4)", "T(2,2)", "T(8,8)(2,1)", "T(4,8)(4,1)")
Pair = tuple[int, ...]


def drawn(rng: Random) -> Graph:
    """Return a transpose or a reshape of a small tensor, each end in tiles or without."""
    dims = [rng.choice([1, 2, 3, 4, 6, 8, 12]) for _ in range(3)]
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", shape(rng, dims))
    if rng.random() < 0.5:
        axes = rng.sample(range(3), 3)
        builder.transpose("x", shape(rng, [dims[axis] for axis in axes]), tuple(axes), name="y")
    else:
        builder.add("reshape", ("x",), shape(rng, [dims[0] * dims[1], dims[2]]), name="y")
    return builder.graph()


def shape(rng: Random, dims: list[int]) -> Shape:
    order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
    tiles = rng.choice(TILES)
    layout = f"{order}:{tiles}" if tiles else order
    return Shape.parse(f"s8[{','.join(map(str, dims))}]{{{layout}}}")


def moves(rng: Random) -> Iterator[tuple[Graph, tuple[ChipHome, ChipHome], tuple[ChipBox, ...]]]:
    """Yield a graph, its ends (result, source) and the boxes between them, for all homes."""
    graph, chip = drawn(rng), ideal_chip(8, 8)
    (op,) = graph.operations
    ends = [
        list(homes_of(name, graph.tensor(name), chip, [], of_result=of_result))
        for name, of_result in ((op.output, True), (op.inputs[0], False))
    ]
    for result, source in product(*ends):
        found = boxes_between((result, source), graph.shape("x"), move_groups(graph, op))
        if found is not None:
            yield graph, (result, source), found


def pairs(box: ChipBox) -> set[Pair]:
    """Return the places of all elements of a box, on all sides."""
    sides = [box.at[side] + places(box.modes, side) for side in range(MEMORY + 1)]
    return {tuple(map(int, each)) for each in zip(*sides, strict=True)}


def reached(at: Pair, modes: Modes) -> set[tuple[int, int]]:
    sides = [at[side] + places(modes, side) for side in (RESULT, SOURCE)]
    return {tuple(map(int, each)) for each in zip(*sides, strict=True)}


@pytest.mark.parametrize("seed", range(60))
def test_boxes_have_each_element_at_its_place_on_both_sides(seed: int) -> None:
    for graph, ends, boxes in moves(Random(seed)):
        laws = [PlacementLaw(end.places.shape, 8) for end in ends]
        (op,) = graph.operations
        source = graph.shape("x")
        numbers = np.arange(source.num_elements()).reshape(source.dims)
        made = op.row.reference([numbers], graph.shape("y"), op.attributes, None)
        wanted = set()
        for index in np.ndindex(*graph.shape("y").dims):
            there = np.unravel_index(int(made[index]), source.dims)
            lanes = [law.place(at) for law, at in zip(laws, (index, there), strict=True)]
            memory = int(source.linear_index([int(n) for n in there]))
            wanted.add((*(lane * LANE + column for lane, column in lanes), memory))
        found = [pairs(box) for box in boxes]
        assert sum(map(len, found)) == len(wanted)
        assert set().union(*found) == wanted


@pytest.mark.parametrize("seed", range(60))
def test_every_leg_of_a_box_moves_its_elements_and_no_others(seed: int) -> None:
    for _, _, boxes in moves(Random(seed)):
        for box in boxes:
            wanted = {each[:MEMORY] for each in pairs(box)}
            if copies := lane_copies(box):
                lanes = Mode(copies.rows, (LANE, LANE, 0))
                assert wanted == set().union(
                    *(reached(at, (lanes, *copies.columns)) for at in copies.firsts)
                )
            by_dma = queue_copies(box)
            assert wanted == set().union(
                *(set(zip(*queued(by_dma, at), strict=True)) for at in by_dma.firsts)
            )
            made = turns(box, 8, 8)
            if made is not None:
                every = [(each.at, (*each.rows, *each.cols, *each.inside)) for each in made]
                assert wanted == set().union(*(reached(*each) for each in every))
                assert all(math.prod(mode.extent for mode in each.rows) <= 8 for each in made)


def queued(copies, at: Pair) -> Iterator[list[int]]:
    """Yield the places of the elements of a copy by DMA on each side, in its order."""
    for side in (RESULT, SOURCE):
        lanes = Mode(copies.lanes[side], (LANE,))
        modes = [Mode(mode.extent, (mode.steps[side],)) for mode in copies.patterns[side]]
        yield [int(n) for n in at[side] + places((lanes, *modes))]
