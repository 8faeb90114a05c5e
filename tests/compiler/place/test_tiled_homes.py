"""Do tensors with tiles lie in the state buffer as their tiles say, at cycle 0 and at the end?"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from support.chips import ideal_chip
from support.tiled_homes import chip_8x8, random_graph, run
from systolic.compiler import Options, compile_graph
from systolic.errors import SystolicError
from systolic.layout import Shape
from systolic.workload import Graph, GraphBuilder, Tensor
from systolic.workload.graph import named_operation


@pytest.mark.parametrize("seed", range(60))
def test_random_formats(seed: int) -> None:
    rng = Random(seed)
    run(random_graph(rng), chip_8x8(banks=rng.choice([1, 8])))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 460))
def test_many_random_formats(seed: int) -> None:
    rng = Random(seed)
    run(random_graph(rng), chip_8x8(banks=rng.choice([1, 8])), rng.choice(["event", "register"]))


@pytest.mark.parametrize("source", ["f32[20,12]", "f32[20,12]{0,1}"])
@pytest.mark.parametrize("out", ["", "{1,0:T(8,5)}", "{0,1:T(4,8)}", "{1,0:T(4,4)(2,1)}"])
def test_a_tensor_from_dram_comes_to_its_place_on_the_chip(source: str, out: str) -> None:
    """Three tiles of rows are placed together, and each of them is brought."""
    relayout = named_operation("relayout", ("x",), "y", {})
    tensors = {"x": Tensor(Shape.parse(source), "dram"),
               "y": Tensor(Shape.parse(f"f32[20,12]{out}"), "state_buffer")}  # fmt: skip
    run(Graph(tuple(tensors.items()), (relayout,)), chip_8x8())


def test_the_same_bytes_need_no_instruction() -> None:
    """T(2,4), T(8,4) and T(4,4) put row r in partition r mod 8: one place under three names."""
    builder = GraphBuilder(home="state_buffer")
    x = builder.tensor("x", "f32[20,8]{1,0:T(2,4)}")
    builder.add("relayout", (x,), "f32[20,8]{1,0:T(8,4)}", name="y")
    compiled, _ = run(builder.graph(), chip_8x8())
    assert not compiled.program.instructions


def test_a_transpose_between_tiles_is_turned_by_the_array_alone() -> None:
    """Three tiles of 8 rows and two of columns: six products, six copies out, nothing else."""
    builder = GraphBuilder(home="state_buffer")
    x = builder.tensor("x", "f32[24,16]{1,0:T(2,8)}")
    builder.transpose(x, "f32[16,24]{1,0:T(4,8)}", name="y")
    compiled, _ = run(builder.graph(), chip_8x8())
    counts = compiled.program.count()
    assert {k: n for k, n in counts.items() if k != "Select"} == {
        "LoadWeights": 6, "MatMul": 6, "Copy": 6,
    }  # fmt: skip


def relayout(source: str, out: str, **tables: Any) -> None:
    builder = GraphBuilder(home="state_buffer")
    builder.add("relayout", (builder.tensor("x", source),), out, name="y")
    compile_graph("test", builder.graph(), chip_8x8(**tables))


@pytest.mark.parametrize(
    ("source", "out", "message"),
    [
        ("f32[20,8]{1,0:T(9,8)}", "f32[20,8]{1,0}",
         "f32[20,8]{1,0:T(9,8)}: a tile has 9 rows, each in a partition of its own, but there are "
         "8 partitions"),
        ("f32[20,8]{1,0}", "f32[20,8]{1,0:T(20,8)(2,1)}",
         "f32[20,8]{1,0:T(20,8)(2,1)}: a tile has 10 rows, each in a partition of its own, but "
         "there are 8 partitions"),
        ("f32[20,8]{1,0:T(8,1024)}", "f32[20,8]{1,0}",
         "state_buffer of test 8 x 8 has no room for x: in its tiles f32[20,8]{1,0:T(8,1024)} "
         "takes 12288 bytes of each of 8 partitions, found 8192"),
        ("u8[4,8]{1,0:T(4,8)E(4)}", "u8[4,8]{1,0}",
         "u8[4,8]{1,0:T(4,8)E(4)}: u8 elements can be held in E(8), found E(4)"),
    ],
)  # fmt: skip
def test_refusals(source: str, out: str, message: str) -> None:
    with pytest.raises(SystolicError) as refused:
        relayout(source, out)
    assert str(refused.value) == message


@pytest.mark.parametrize(("size", "shared"), [(32768, False), (16384, True)])
def test_padding_keeps_what_was_there(size: int, shared: bool) -> None:
    """A result's padding keeps its bytes; if the input lay there first, they are the input's."""
    chip = ideal_chip(4, 4, state_buffer={"bytes_per_partition": size, "partitions": 4})
    builder = GraphBuilder(home="state_buffer")
    x = builder.tensor("x", "s8[7,2,7,8]{0,1,2,3:T(128,4,16)(1)}")
    out = Shape.parse("s8[8,2,7,7]{0,1,2,3:T(128,4,16)(1)}")
    builder.transpose(x, out, (3, 1, 2, 0), name="y")
    graph = builder.graph()
    placed = compile_graph("test", graph, chip, Options()).placements()
    ends = [(p.base_byte, p.base_byte + p.bytes_per_partition_used) for p in placed.values()]
    overlap = min(end for _, end in ends) > max(start for start, _ in ends)
    assert overlap == shared
    run(graph, chip)
