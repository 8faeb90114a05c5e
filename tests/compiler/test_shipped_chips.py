"""Is the value right? Random graphs of all operations on the shipped chips of one core.

The tensors are in either memory.
What the compiler emits must be legal on the chip that it compiles for. A chip may have no room for
a graph, or no engine, or no array, that does an operation at all; nothing else is refused.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

import systolic
from support.all_operations import random_graph
from support.lane_graphs import values
from support.refusals import is_for_room
from systolic.errors import SystolicError
from systolic.shipped import chips_of_one_core
from systolic.workload import OPERATIONS, Graph, GraphBuilder

NAMES = chips_of_one_core()
HOMES = ("dram", "state_buffer")
QUICK, SLOW = 6, 60
LACKS = ("no engine of ", "cannot take ")
"""What a chip may say of an operation that none of its units does."""


def drawn(seed: int) -> tuple[Graph, dict[str, np.ndarray]]:
    rng = Random(seed)
    graph = random_graph(rng)
    return graph, {name: values(rng, graph.shape(name)) for name in graph.inputs}


def ran(chip: str, graph: Graph, inputs: dict[str, np.ndarray] | None = None) -> bool:
    """Run with the right values; False if the chip has no room, or no unit that does the work."""
    try:
        with np.errstate(all="ignore"):
            run = systolic.run(graph, chip, inputs)
    except SystolicError as error:
        if is_for_room(error) or any(text in str(error) for text in LACKS):
            return False
        raise
    assert inputs is None or run.summary["values"]["equal"], f"{chip}: {graph}"
    return True


def test_the_graphs_have_every_operation() -> None:
    kinds = Counter(op.kind for seed in range(12 * SLOW) for op in drawn(seed)[0].operations)
    assert kinds.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("chip", NAMES)
def test_random_graphs(chip: str) -> None:
    assert sum(ran(chip, *drawn(seed)) for seed in range(QUICK)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("chip", NAMES)
def test_many_random_graphs(chip: str) -> None:
    assert sum(ran(chip, *drawn(seed)) for seed in range(QUICK, SLOW)) > (SLOW - QUICK) // 3


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("chip", NAMES)
def test_padding_by_a_pixel(chip: str, home: str) -> None:
    """The rows behind an image's last begin on any partition, where some engines may not begin."""
    rim = (0, 1, 1, 0)
    builder = GraphBuilder(home)
    builder.tensor("x", "bf16[1,8,8,16]")
    builder.pad("x", out="bf16[1,10,10,16]", low=rim, high=rim, name="y")
    x = np.arange(1024).reshape(1, 8, 8, 16).astype(builder.graph().shape("x").dtype)
    run = systolic.run(builder.graph(), chip, {"x": x})
    padded = np.pad(x, [(each, each) for each in rim])
    assert np.array_equal(run.outputs["y"], padded)


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("chip", NAMES)
def test_taps_that_share_partitions(chip: str, home: str) -> None:
    """A fill behind a tap begins on any partition, where some engines may not begin."""
    builder = GraphBuilder(home)
    builder.tensor("x", "bf16[1,5,5,16]")
    builder.tensor("w", "bf16[3,3,16,4]")
    builder.conv2d("x", "w", out="f32[1,3,3,4]", name="y")
    numbers = np.random.default_rng(1)
    shapes = (builder.graph().shape(name) for name in "xw")
    x, w = (numbers.integers(-3, 4, each.dims).astype(each.dtype) for each in shapes)
    found = systolic.run(builder.graph(), chip, {"x": x, "w": w}).outputs["y"]
    x, w = x.astype(np.float32), w.astype(np.float32)
    taps = [x[:, v : v + 3, u : u + 3] @ w[v, u] for v in range(3) for u in range(3)]
    assert np.array_equal(found, sum(taps))
