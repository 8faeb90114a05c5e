"""Do tensors on the chip lie where the work says: in tiles from a partition and a byte on?

Pasting back the place that the compiler chose must give the same run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from support.chips import ideal_chip
from support.tiled_homes import chip_8x8, random_graph, run
from systolic.compiler import compile_graph
from systolic.config import load_chip, load_run
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.machine import simulate
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder, Tensor
from systolic.workload.graph import make_graph

PARTITIONS, BYTES = 8, 8192
RUNS = Path(__file__).resolve().parents[3] / "configs" / "runs"


def with_places(graph: Graph, rng: Random) -> Graph:
    """The graph with random places, in halves of the buffer that do not meet."""
    tensors = dict(graph.tensors)
    for number, name in enumerate(tensors):
        shape, size = tensors[name].shape, BYTES // len(tensors) // 4 * 4
        if not shape.layout.tiles:
            continue
        first = shape.layout.tiles[0]
        tall = max(1, first.dims[-2]) if first.rank > 1 else 1
        byte = number * size + 4 * rng.randrange(64) if rng.random() < 0.8 else None
        partition = rng.randrange(PARTITIONS - tall + 1) if rng.random() < 0.5 else 0
        tensors[name] = replace(tensors[name], partition=partition, byte=byte)
    return make_graph(tensors, graph.operations)


@pytest.mark.parametrize("seed", range(40))
def test_random_places(seed: int) -> None:
    rng = Random(seed)
    check_places(with_places(random_graph(rng), rng), rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 160))
def test_many_random_places(seed: int) -> None:
    rng = Random(seed)
    check_places(with_places(random_graph(rng), rng), rng)


def check_places(graph: Graph, rng: Random) -> None:
    compiled, _ = run(graph, chip_8x8(banks=rng.choice([1, 8])), rng.choice(["event", "register"]))
    placements = compiled.placements()
    for name, tensor in graph.tensors:
        if tensor.has_place:
            assert placements[name].base_partition == tensor.partition
            assert tensor.byte in (None, placements[name].base_byte)


def pasted(graph: Graph, chip: Chip) -> tuple[int, int, int]:
    """Cycles of a graph, of the graph with every place pasted back, and how many places."""
    first = compile_graph("first", graph, chip)
    tensors = dict(graph.tensors)
    found = first.placements()
    for name, placed in found.items():
        tensors[name] = Tensor(
            placed.shape, "state_buffer", placed.base_partition, placed.base_byte
        )
    second = compile_graph("second", make_graph(tensors, graph.operations), chip)
    assert {n: (p.shape, p.base_byte) for n, p in second.placements().items()} == {
        n: (p.shape, p.base_byte) for n, p in found.items()
    }
    cycles = [
        simulate(chip, each.program, [], values=False).trace.cycles() for each in (first, second)
    ]
    return cycles[0], cycles[1], len(found)


SHAPES = ["f32[8,8]", "f32[20,12]", "s8[20,12]{0,1}", "bf16[3,5,9]", "s32[20,12]"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("array_types", [None, ("bf16", "f32")])
def test_a_pasted_place_gives_the_same_run(shape: str, array_types: tuple[str, ...] | None) -> None:
    """An array without integers turns those of 32 bits byte by byte."""
    kinds = {"cycles_per_vector": dict.fromkeys(array_types, 1)} if array_types else {}
    chip = ideal_chip(8, 8, pe_array=kinds)
    builder, dims = GraphBuilder(home="state_buffer"), Shape.parse(shape).dims
    x = builder.tensor("x", shape)
    axes = tuple(range(len(dims)))[::-1]
    kind = Shape.parse(shape).element_type
    builder.transpose(x, Shape(kind, dims[::-1]), axes, name="y")
    before, after, places = pasted(builder.graph(), chip)
    assert (after, places) == (before, 2)


def test_a_pasted_product_gives_the_same_run() -> None:
    builder = GraphBuilder(home="state_buffer")
    x, w = builder.tensor("x", "f32[20,24]{0,1}"), builder.tensor("w", "f32[24,12]")
    builder.matmul(x, w, "f32[20,12]", name="y")
    before, after, places = pasted(builder.graph(), ideal_chip(8, 8))
    assert (after, places) == (before, 3)


def relayout(source: Tensor, result: Tensor) -> Graph:
    builder = GraphBuilder()
    builder.add("relayout", (builder.tensor("x", source),), result, name="y")
    return builder.graph()


ON_CHIP = ("matmul_1024_onchip", "matmul_deep", "permute_onchip", "transpose_300x1000",
           "transpose_fig4_partitions", "transpose_multi_clock", "transpose_rank4")  # fmt: skip


@pytest.mark.parametrize("name", ON_CHIP)
def test_pasted_places_give_the_shipped_runs_again(name: str) -> None:
    config = load_run(RUNS / f"{name}.toml")
    before, after, places = pasted(config.graph, config.chip)
    assert (after, places > 1) == (before, True)


SOURCE = Shape.parse("f32[8,8]{1,0:T(8,8)}")


@pytest.mark.parametrize(
    ("source", "result", "message"),
    [
        (Tensor(SOURCE, byte=0), Tensor(SOURCE, byte=16),
         "state_buffer of test 8 x 8 has no room for y at byte 16: bytes 16 to 47 of its "
         "partitions must be free, begin at a multiple of 4, and lie within 8192"),
        (Tensor(SOURCE, byte=2), Tensor(SOURCE),
         "state_buffer of test 8 x 8 has no room for x at byte 2: bytes 2 to 33 of its "
         "partitions must be free, begin at a multiple of 4, and lie within 8192"),
        (Tensor(SOURCE, byte=8192), Tensor(SOURCE),
         "state_buffer of test 8 x 8 has no room for x at byte 8192: bytes 8192 to 8223 of its "
         "partitions must be free, begin at a multiple of 4, and lie within 8192"),
        (Tensor(SOURCE, partition=1), Tensor(SOURCE),
         "f32[8,8]{1,0:T(8,8)}: a tile has 8 rows, each in a partition of its own, but there are "
         "7 partitions"),
        (Tensor(SOURCE, partition=8), Tensor(SOURCE),
         "partition 8 is not in the state buffer of test 8 x 8, which has 8"),
        (Tensor(SOURCE, "dram", byte=0), Tensor(SOURCE),
         'tensor "x": only a tensor in the state buffer, in tiles, has a place there '
         "(partition, byte), found f32[8,8]{1,0:T(8,8)} in dram"),
        (Tensor(Shape.parse("f32[8,8]"), byte=0), Tensor(SOURCE),
         'tensor "x": only a tensor in the state buffer, in tiles, has a place there '
         "(partition, byte), found f32[8,8]{1,0} in state_buffer"),
        (Tensor(Shape.parse("f32[8,8]").with_padding((9, 9), 1)), Tensor(SOURCE),
         'tensor "x": f32[8,8]{1,0} in the state buffer has padded_dimensions, but no tiles, '
         "which say where its padding lies there"),
    ],
)  # fmt: skip
def test_refusals(source: Tensor, result: Tensor, message: str) -> None:
    with pytest.raises(SystolicError) as refused:
        compile_graph("test", relayout(source, result), chip_8x8())
    assert str(refused.value) == message


def test_an_intermediate_result_has_no_place() -> None:
    builder = GraphBuilder(home="state_buffer")
    x = builder.tensor("x", "f32[8,8]")
    y = builder.transpose(x, Tensor(SOURCE, byte=0), name="y")
    builder.transpose(y, "f32[8,8]", name="z")
    with pytest.raises(SystolicError, match='tensor "y": only inputs and outputs have a place'):
        builder.graph()


MOVES = [  # (kind, source, result, permutation, chip)
    # Lane by lane, on two engines.
    ("transpose", "f16[2,56,56,64]{2,1,3,0}", "f16[56,56,2,64]{0,2,1,3}", (2, 1, 0, 3),
     "ideal_128x128"),
    # Rows by words that DMA copies on, with gaps between the result's rows of tiles.
    ("transpose", "s8[4,256,16,64]{0,1,3,2}", "s8[16,64,4,256]", (2, 3, 0, 1), "ddr4_2400_128x128"),
    # One matrix, in blocks: words would be quicker where tiles are given.
    ("relayout", "bf16[1024,512]", "bf16[1024,512]{0,1}", None, "neuroncore_v1"),
    # Only the result has no tiles.
    ("relayout", "s32[3,3,128,128]{3,2,1,0:T(8,128)}", "s32[3,3,128,128]{2,1,3,0}", None,
     "multi_clock_128x128"),
    # The source lies in the result's tiles, and nothing moves.
    ("relayout", "s32[3,3,256,64]", "s32[3,3,256,64]{3,2,1,0:T(8,128)}", None, "ddr4_128x128"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source", "result", "axes", "chip"), MOVES)
def test_a_pasted_move_gives_the_same_run(
    kind: str, source: str, result: str, axes: tuple[int, ...] | None, chip: str
) -> None:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", source)
    told = {} if axes is None else {"permutation": axes}
    builder.add(kind, ("x",), result, name="y", **told)
    before, after, places = pasted(builder.graph(), load_chip(CHIPS / f"{chip}.toml"))
    assert (after, places) == (before, 2)


def test_other_places_than_the_compiler_s_own_are_kept() -> None:
    """Half a bank further on, the tensors lie where they are said to, and the run is another."""
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", "f16[2,56,56,64]{2,1,3,0}")
    builder.transpose("x", "f16[56,56,2,64]{0,2,1,3}", (2, 1, 0, 3), name="y")
    graph = builder.graph()
    found = compile_graph("first", graph, chip).placements()
    tensors = {
        name: Tensor(placed.shape, "state_buffer", 0, placed.base_byte + 8192)
        for name, placed in found.items()
    }
    second = compile_graph("second", make_graph(tensors, graph.operations), chip).placements()
    assert {n: p.base_byte - 8192 for n, p in second.items()} == {
        n: p.base_byte for n, p in found.items()
    }
