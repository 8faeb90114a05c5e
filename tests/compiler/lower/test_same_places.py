"""Results on the chip that lie where their sources are. numpy is the oracle of values."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.packed import run
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.layout import Shape
from systolic.workload import Graph, GraphBuilder, Tensor
from systolic.workload.graph import make_graph


def graph_of(kind: str, source: str, result: str, axes: tuple[int, ...] | None = None) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", source)
    told = {} if axes is None else {"permutation": axes}
    builder.add(kind, ("x",), result, name="y", **told)
    return builder.graph()


STAYS = [
    # Both have tiles, and the dimensions in front of them are merged, or one of them is cut.
    ("reshape", "s32[4,16,56,56]{3,2,1,0:T(8,128)}", "s32[64,56,56]{2,1,0:T(8,128)}", None),
    ("reshape", "bf16[8,32,24,56]{3,2,1,0:T(8,128)(2,1)}",
     "bf16[8,2,16,24,56]{4,3,2,1,0:T(8,128)(2,1)}", None),
    # One has none: its rows lie as far apart as the other's.
    ("relayout", "s32[3,3,256,64]", "s32[3,3,256,64]{3,2,1,0:T(8,128)}", None),
    ("reshape", "s32[8,12,77,77]{3,2,1,0:T(8,128)}", "s32[96,77,77]", None),
    ("transpose", "f32[1000,512]{0,1}", "f32[512,1000]{1,0:T(8,128)}", (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source", "result", "axes"), STAYS)
def test_nothing_moves(kind, source, result, axes):
    graph = graph_of(kind, source, result, axes)
    shape = graph.shape("x")
    values = np.arange(shape.num_elements()).reshape(shape.dims) % 120
    values = values.astype(shape.dtype)
    ended = systolic.run(graph, "neuroncore_v3", {"x": values})
    assert ended.cycles == 0
    assert ended.summary["bound"]["cycles"] == 0
    wanted = values if axes is None else values.transpose(axes)
    assert np.array_equal(ended.outputs["y"], wanted.reshape(graph.shape("y").dims))
    places = ended.summary["on_chip"]
    assert [places["x"][key] for key in ("partition", "byte")] == [
        places["y"][key] for key in ("partition", "byte")
    ]


MOVES = [
    # Two rows side by side are no unbroken rows, in which alone a tensor without tiles lies.
    ("relayout", "f16[8,256,768]", "f16[8,256,768]{2,1,0:T(8,128)(2,1)}", None),
    # Other dimensions lie in the tiles.
    ("relayout", "s32[3,3,256,64]{2,3,1,0}", "s32[3,3,256,64]{3,2,1,0:T(8,128)}", None),
    ("reshape", "s32[4,16,56,56]{3,2,1,0:T(8,128)}", "s32[4,896,56]{2,1,0:T(8,128)}", None),
]


@pytest.mark.parametrize(("kind", "source", "result", "axes"), MOVES)
def test_what_must_move_does(kind, source, result, axes):
    graph = graph_of(kind, source, result, axes)
    assert systolic.run(graph, "ideal_128x128", values=False).cycles > 0


def test_other_bytes_are_other_places():
    graph = graph_of(*STAYS[0])
    tensors = {
        name: Tensor(graph.shape(name), "state_buffer", 0, byte)
        for name, byte in (("x", 0), ("y", 65536))
    }
    moved = make_graph(tensors, graph.operations)
    assert systolic.run(moved, "hbm3_128x128", values=False).cycles > 0


@pytest.mark.parametrize("seed", quick_first(range(120), 30))
def test_random_ends_are_right_on_both_engines(seed):
    """Of tensors of few rows in tiles, merged or cut in front of them; some stay, some move."""
    rng = Random(seed)
    dims = [rng.choice([1, 2, 3]), rng.choice([2, 4]), rng.choice([2, 3, 5, 9]), rng.randint(1, 9)]
    merged = [dims[0] * dims[1], *dims[2:]] if rng.random() < 0.7 else [dims[0], *dims[1:]]
    tiles = [rng.choice(["", ":T(2,4)", ":T(4,4)", ":T(2,4)(2,1)"]) for _ in range(2)]
    dtype = rng.choice(["s32", "s8", "u8"])  # the array would make inf * 0 of other values
    ends = [
        f"{dtype}[{','.join(map(str, each))}]{{{','.join(map(str, range(len(each))[::-1]))}{tile}}}"
        for each, tile in zip((dims, merged), tiles, strict=True)
    ]
    if rng.random() < 0.5:
        ends.reverse()
    graph = graph_of("reshape", *ends)
    chip = ideal_chip(4, 4, state_buffer={"partitions": 8})
    compiled, inputs, outputs = run(graph, chip, seed)
    want = inputs["x"].reshape(Shape.parse(ends[1]).dims)
    assert np.array_equal(outputs["y"].view(np.uint8), np.ascontiguousarray(want).view(np.uint8))
    moves = bool(compiled.program.instructions)
    assert moves or run_bound(graph, chip).ticks == 0
