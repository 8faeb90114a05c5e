"""Turns of elements that no type of the array carries: byte by byte, by identity products.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.compiler import compile_graph
from systolic.compiler.cost.turns import parts_turned
from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.lower.table import lower_graph
from systolic.compiler.tile.cut import cut_tiles
from systolic.compiler.tile.order import TaskOrder
from systolic.compiler.tile.verify import verify_tiled
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.run.result import Result
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder, Tensor, TransposeAttributes
from systolic.workload.options import Options


def array_chip(rng: Random, types: dict[str, int]) -> Chip:
    rows, cols = rng.randint(2, 8), rng.randint(2, 8)
    return ideal_chip(
        rows, cols,
        pe_array={"cycles_per_vector": types},
        state_buffer={"partitions": rng.randint(max(rows, cols), 12), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(1, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
    )  # fmt: skip


def lone(home: str, kind: str, source: str, out: str, **attributes: object) -> Graph:
    builder = GraphBuilder(home)
    builder.add(kind, (builder.tensor("x", source),), out, name="y", **attributes)
    return builder.graph()


def drawn(rng: Random, dtype: str) -> Graph:
    """Return a permutation or a reshape of two to four dimensions, in DRAM or on the chip."""
    dims = [rng.randint(1, 9) for _ in range(rng.randint(2, 4))]
    home, kind = rng.choice(["dram", "state_buffer"]), rng.choice(["transpose", "relayout"])
    axes = tuple(rng.sample(range(len(dims)), len(dims)))
    after = [dims[axis] for axis in axes] if kind == "transpose" else dims
    texts = []
    for sizes in (dims, after):
        order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
        tiles = rng.choice(["", "", ":T(4,4)"]) if len(dims) > 1 else ""
        texts.append(f"{dtype}[{','.join(map(str, sizes))}]{{{order}{tiles}}}")
    extra = {"permutation": axes} if kind == "transpose" else {}
    return lone(home, kind, texts[0], texts[1], **extra)


def bits_of(rng: Random, graph: Graph) -> np.ndarray:
    """Return elements of any bits: also NaNs, infinities and -0.0."""
    shape = graph.shape("x")
    size = int(np.prod(shape.dims)) * shape.dtype.itemsize
    return np.frombuffer(rng.randbytes(size), shape.dtype).reshape(shape.dims)


def check_every_bit(graph: Graph, chip: Chip, x: np.ndarray) -> Result:
    """Return the event engine's result: every bit of x arrives on both engines, at equal cycles."""
    event, register = (
        systolic.run(graph, chip, {"x": x}, engine=engine) for engine in ("event", "register")
    )
    op = graph.operations[0]
    turned = op.kind == "transpose"
    expected = x.transpose(op.attributes_as(TransposeAttributes).axes) if turned else x
    for result in (event, register):
        assert result.outputs["y"].tobytes() == np.ascontiguousarray(expected).tobytes()
    assert event.cycles == register.cycles >= run_bound(graph, chip).cycles
    return event


TYPES = [("s32", {"u8": 1}), ("s32", {"bf16": 1}), ("f32", {"bf16": 1}), ("f16", {"u8": 1})]


@pytest.mark.parametrize(("dtype", "types"), TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_every_bit_arrives_and_both_engines_agree(
    seed: int, dtype: str, types: dict[str, int]
) -> None:
    rng = Random(f"bytes {dtype} {seed}")
    graph, chip = drawn(rng, dtype), array_chip(rng, types)
    compile_graph("bytes", graph, chip, verify=True)
    check_every_bit(graph, chip, bits_of(rng, graph))


def test_four_turns_where_the_array_takes_bytes() -> None:
    """30 x 40 in one block: four identity products, each copied out to every fourth byte."""
    chip = ideal_chip(64, 64, pe_array={"cycles_per_vector": {"u8": 1, "bf16": 1}})
    assert parts_turned(chip, "s32") == 4
    graph = lone("state_buffer", "transpose", "s32[30,40]", "s32[40,30]", permutation=(1, 0))
    compiled = compile_graph("bytes", graph, chip, verify=True)
    count = {k: n for k, n in compiled.program.count().items() if k != "Select"}
    assert count == {"LoadWeights": 4, "MatMul": 4, "Copy": 4}
    assert "x is turned byte by byte: 4 turns" in " ".join(compiled.layers.choices)


def test_bytes_are_cast_where_the_array_takes_small_floats_only() -> None:
    chip = ideal_chip(64, 64, pe_array={"cycles_per_vector": {"bf16": 1}})
    graph = lone("state_buffer", "transpose", "s32[30,40]", "s32[40,30]", permutation=(1, 0))
    compiled = compile_graph("bytes", graph, chip, verify=True)
    assert compiled.program.count()["MatMul"] == 4
    assert "x is turned byte by byte, as bf16: 4 turns" in " ".join(compiled.layers.choices)


@pytest.mark.parametrize(("dtype", "turns"), [("bf16", 0), ("s8", 0), ("f32", 4), ("f16", 2)])
def test_bytes_are_turned_only_where_nothing_carries_the_type(dtype: str, turns: int) -> None:
    assert parts_turned(array_chip(Random(1), {"bf16": 1}), dtype) == turns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chip", "source", "out", "most"),
    [
        # element by element: 2,619,190, 1,459,680 and 1,700,460 cycles
        ("multi_clock_128x128", "s32[3,3,128,128]{3,2,1,0:T(8,128)}", "{2,1,3,0}", 17_000),
        ("lpddr5_6400_128x128", "s32[1280,768]{0,1:T(8,128)}", "{1,0}", 32_000),
    ],
)
def test_large_tensors_of_integers_change_their_order_on_the_chip(
    chip: str, source: str, out: str, most: int
) -> None:
    graph = lone("state_buffer", "relayout", source, source.split("{")[0] + out)
    assert systolic.run(graph, load_chip(CHIPS / f"{chip}.toml"), values=False).cycles <= most


@pytest.mark.slow
@pytest.mark.parametrize("tile_by_tile", [True, False])
@pytest.mark.parametrize("bytes_per_partition", [400, 512])
def test_what_has_no_room_leaves_half_made_and_comes_back(
    bytes_per_partition: int, tile_by_tile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles of the result leave for DRAM when some of their bytes are turned, and lose none.

    They need not leave if all bytes of a tile are turned before the next tile is begun.
    """
    if not tile_by_tile:
        monkeypatch.setattr(TaskOrder, "finish_tile_by_tile", lambda order, first: None)
    chip = ideal_chip(
        4, 4,
        state_buffer={
            "partitions": 10, "bytes_per_partition": bytes_per_partition, "banks": 1,
        },
        result_buffer={"banks": 2, "bank_bytes": 64},
    )  # fmt: skip
    builder = GraphBuilder("dram")
    builder.tensor("x", "s32[4,12,1,11]{1,3,0,2}")
    out = Tensor(Shape.parse("s32[12,4,1,11]{1,0,3,2}"), "state_buffer")
    builder.transpose("x", out, (1, 0, 2, 3), name="y")
    graph, options = builder.graph(), Options(via="pe")
    compiled = compile_graph("bytes", graph, chip, options, verify=True)
    x = np.arange(528, dtype=np.int32).reshape(4, 12, 1, 11) * 1_000_003
    assert bool(compiled.plan.scheduled.evictions) != tile_by_tile
    for engine in ("event", "register"):
        result = systolic.run(graph, chip, {"x": x}, options=options, engine=engine)
        assert (result.outputs["y"] == x.transpose(1, 0, 2, 3)).all()


def test_tiles_of_many_bytes_do_not_leave_a_small_buffer_byte_by_byte() -> None:
    """Half of this 2.4 MB result fits: each byte of all of it took 22,220,198 cycles in all."""
    x = "f32[8,77,12,80]{0,3,2,1}"
    graph = lone("dram", "transpose", x, "f32[8,77,80,12]", permutation=(0, 1, 3, 2))
    result = systolic.run(graph, load_chip(CHIPS / "neuroncore_v1.toml"), values=False)
    assert result.cycles <= 200_000


def test_a_byte_that_is_never_made_is_found() -> None:
    graph = lone("state_buffer", "transpose", "s32[5,7]", "s32[7,5]", permutation=(1, 0))
    chip, options = array_chip(Random(3), {"u8": 1}), Options()
    layers = lower_graph(graph, chip, options)
    tiled = cut_tiles(layers, chip, options)
    verify_tiled(tiled, layers)
    last = max(task.node for task in tiled.tasks)
    lost = tuple(task for task in tiled.tasks if task.node != last)
    with pytest.raises(BrokenPassError, match=r"35 elements of y\.\d+ are not written"):
        verify_tiled(type(tiled)(tiled.block, tiled.loops, lost), layers)
    twice = (*tiled.tasks, tiled.tasks[-1])
    with pytest.raises(BrokenPassError, match="written twice"):
        verify_tiled(type(tiled)(tiled.block, tiled.loops, twice), layers)


def product(rng: Random) -> Graph:
    """Return a product of bytes, each of whose tensors lies row by row or column by column."""
    m, k, n = (rng.randint(1, 24) for _ in range(3))
    builder = GraphBuilder("dram")
    texts = [
        f"{dtype}[{rows},{cols}]{rng.choice(['{1,0}', '{0,1}'])}"
        for dtype, rows, cols in (("s8", m, k), ("s8", k, n), ("s32", m, n))
    ]
    builder.matmul(builder.tensor("x", texts[0]), builder.tensor("w", texts[1]), texts[2], name="y")
    return builder.graph()


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_sums_of_bytes_are_stored_right_and_no_sooner_than_their_bound(seed: int) -> None:
    rng = Random(f"sums {seed}")
    graph, chip = product(rng), array_chip(rng, {"s8": 1, "u8": 1})
    inputs = {
        name: np.frombuffer(rng.randbytes(int(np.prod(graph.shape(name).dims))), np.int8).reshape(
            graph.shape(name).dims
        )
        for name in ("x", "w")
    }
    event, register = (
        systolic.run(graph, chip, inputs, engine=engine) for engine in ("event", "register")
    )
    expected = inputs["x"].astype(np.int32) @ inputs["w"].astype(np.int32)
    assert (event.outputs["y"] == expected).all()
    assert (register.outputs["y"] == expected).all()
    assert event.cycles == register.cycles >= run_bound(graph, chip).cycles


def test_integers_in_dram_are_turned_in_tiles() -> None:
    """By engines, lane by lane, 381,842 cycles."""
    graph = lone(
        "dram", "transpose", "s32[2,128,3072]{1,0,2}", "s32[3072,2,128]{1,0,2}",
        permutation=(2, 0, 1),
    )  # fmt: skip
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    assert systolic.run(graph, chip, values=False).cycles <= 130_000
