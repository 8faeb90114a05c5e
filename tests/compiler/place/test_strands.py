"""Tensors of whose rows several share a partition, as T(8,128)(2,1) says: strands at a distance.

The memory is held to the rule of placement byte by byte, padding included (`support.tiled_homes`),
values to numpy, cycles to the register engine.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.tiled_homes import chip_8x8, run
from systolic.compiler.ir.nodes import Matrix
from systolic.compiler.lower.moves.strands import Strands, turned_parts
from systolic.config import load_chip
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

SHARED = ("(4,4)(2,1)", "(8,8)(2,1)", "(8,8)(4,1)", "(8,4)(4,1)", "(6,4)(3,1)", "(*,4,4)(2,1)")
KINDS = ("transpose", "relayout", "reshape", "cast", "activation", "binary", "matmul")


def tiled(rng: Random, dtype: str, dims: tuple[int, ...], share: float) -> str:
    order = rng.sample(range(len(dims)), len(dims))
    tiles = rng.choice(SHARED if len(dims) > 2 else SHARED[:-1])
    text = f":T{tiles}" if rng.random() < share else rng.choice(["", ":T(4,8)", ":T(2,4)"])
    return f"{dtype}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}{text}}}"


def random_graph(rng: Random, kind: str) -> Graph:
    """One operation; most of its tensors have rows that share partitions."""
    builder, dtype = GraphBuilder(home="state_buffer"), rng.choice(("f32", "bf16", "s8"))
    if kind in ("activation", "binary", "matmul"):
        dtype = rng.choice(("f32", "bf16"))
    if kind == "matmul":
        m, k, n = (rng.randint(1, 24) for _ in range(3))
        lhs = builder.tensor("lhs", tiled(rng, dtype, (m, k), 0.6))
        rhs = builder.tensor("rhs", tiled(rng, dtype, (k, n), 0.6))
        builder.matmul(lhs, rhs, tiled(rng, "f32", (m, n), 0.6), name="out")
        return builder.graph()
    dims = tuple(rng.randint(1, 26) for _ in range(2))
    if rng.random() < 0.3:
        dims = tuple(rng.randint(1, 9) for _ in range(3))
    source = builder.tensor("source", tiled(rng, dtype, dims, 0.8))
    if kind == "transpose":
        axes = rng.sample(range(len(dims)), len(dims))
        builder.transpose(source, tiled(rng, dtype, tuple(dims[a] for a in axes), 0.6), axes)
    elif kind == "reshape":
        flat = int(np.prod(dims))
        first = rng.choice([n for n in range(1, flat + 1) if flat % n == 0])
        builder.add("reshape", (source,), tiled(rng, dtype, (first, flat // first), 0.6), name="o")
    elif kind == "activation":
        out = tiled(rng, dtype, dims, 0.6)
        builder.add("activation", (source,), out, name="o", function="ramp")
    elif kind == "binary":
        other = source if rng.random() < 0.2 else builder.tensor("b", tiled(rng, dtype, dims, 0.8))
        out = tiled(rng, dtype, dims, 0.6)
        builder.add("binary", (source, other), out, name="o", operator="subtract")
    else:
        to = dtype if kind == "relayout" or dtype == "s8" else {"f32": "bf16", "bf16": "f32"}[dtype]
        to = "f32" if kind == "cast" and to == dtype else to
        builder.add(kind, (source,), tiled(rng, to, dims, 0.6), name="o")
    return builder.graph()


def on_both_engines(rng: Random, kind: str) -> None:
    graph, chip = random_graph(rng, kind), chip_8x8(banks=rng.choice([1, 8]))
    run(graph, chip)
    run(graph, chip, "register")
    inputs = {n: np.ones(graph.shape(n).dims, graph.shape(n).dtype) for n in graph.inputs}
    cycles = [systolic.run(graph, chip, inputs, engine=e).cycles for e in ("event", "register")]
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_random_work(kind: str, seed: int) -> None:
    on_both_engines(Random(f"{kind} {seed}"), kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6, 46))
def test_more_random_work(kind: str, seed: int) -> None:
    on_both_engines(Random(f"{kind} {seed}"), kind)


def lone(kind: str, source: str, out: str, **attributes: object) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.add(kind, (builder.tensor("x", source),), out, name="y", **attributes)
    return builder.graph()


def counts(graph: Graph) -> dict[str, int]:
    compiled, _ = run(graph, chip_8x8())
    return {k: n for k, n in compiled.program.count().items() if k != "Select"}


def test_a_transpose_takes_a_product_for_each_strand_and_block() -> None:
    """24 x 16 in pairs: two strands of 12 rows, two blocks of rows each, two of columns: eight."""
    graph = lone("transpose", "f32[24,16]{1,0:T(8,8)(2,1)}", "f32[16,24]", permutation=(1, 0))
    assert counts(graph) == {"LoadWeights": 8, "MatMul": 8, "Copy": 8}


@pytest.mark.parametrize("to", ["{1,0}", "{1,0:T(8,8)(2,1)}"])
def test_a_type_that_the_array_does_not_take_is_cast_behind_the_turn(to: str) -> None:
    """Strands of s32 could not be turned: the array takes their bytes alone."""
    builder = GraphBuilder(home="state_buffer")
    source = builder.tensor("source", "s8[16,10]{0,1:T(8,8)(2,1)}")
    builder.add("cast", (source,), f"s32[16,10]{to}", name="out")
    for engine in ("event", "register"):
        run(builder.graph(), chip_8x8(), engine)


def test_between_two_shared_formats_each_quarter_is_turned_once() -> None:
    """16 x 32: strands of 8 rows and, in the result, of 16: two blocks in each of four quarters."""
    tiles = ":T(8,8)(2,1)}"
    source, out = "f32[16,32]{1,0" + tiles, "f32[32,16]{1,0" + tiles
    graph = lone("transpose", source, out, permutation=(1, 0))
    assert counts(graph) == {"LoadWeights": 8, "MatMul": 8, "Copy": 8}


def test_alike_before_and_after_is_one_copy_for_each_strand() -> None:
    source, out = "bf16[21,13]{1,0:T(8,8)(4,1)}", "f32[21,13]{1,0:T(4,4)(4,1)}"
    assert counts(lone("cast", source, out)) == {"Copy": 4}


def test_the_same_bytes_need_no_instruction() -> None:
    source, out = "f32[21,8]{1,0:T(8,8)(2,1)}", "f32[21,8]{1,0:T(4,4)(2,1)}"
    assert not counts(lone("relayout", source, out))


def test_a_format_that_is_turned_costs_no_more_than_without_tiles() -> None:
    """256 x 200 has 2 x 2 blocks of 128 x 128; in pairs 2 strands of 128 rows x 2 blocks."""
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    cycles = {}
    for text in ("bf16[256,200]", "bf16[256,200]{1,0:T(8,128)(2,1)}"):
        graph = lone("transpose", text, "bf16[200,256]", permutation=(1, 0))
        x = np.arange(256 * 200).reshape(256, 200) % 251
        found = systolic.run(graph, chip, {"x": x.astype(graph.shape("x").dtype)})
        np.testing.assert_array_equal(found.outputs["y"].astype(int), x.T)
        cycles[text] = found.cycles
    plain, pairs = cycles.values()
    assert pairs <= plain + 64


@pytest.mark.parametrize("kind", ["transpose", "relayout"])
@pytest.mark.parametrize("out", ["{1,0}", "{0,1}", "{1,0:T(4,4)(2,1)}", "{0,1:T(8,4)(4,1)}"])
def test_what_an_infinity_and_a_signed_zero_become_is_foretold(kind: str, out: str) -> None:
    """The sum of a block with an infinity in it is no number; the reference says where."""
    dims, attributes = ("19,11", {}) if kind == "relayout" else ("11,19", {"permutation": (1, 0)})
    graph = lone(kind, "f32[19,11]{1,0:T(8,4)(4,1)}", f"f32[{dims}]{out}", **attributes)
    x = np.where(np.arange(19 * 11).reshape(19, 11) % 3, np.float32(-0.0), np.float32(2))
    x[7, 3] = np.inf
    found = systolic.run(graph, chip_8x8(), {"x": x})
    assert found.summary["values"]["equal"]
    turned = found.compiled.program.count().get("MatMul", 0) > 0
    assert np.isnan(found.outputs["y"]).any() == turned


BROKEN = "{1,0:T(4,4)(2,2)}"
"""Tiles to which no access pattern leads: elements are moved one by one."""
PAIRS = ("{0,1:T(8,4)(2,1)}", "{1,0:T(8,8)(2,1)}")


@pytest.mark.parametrize("dtype", ["f32", "s8"])
@pytest.mark.parametrize(
    ("source", "out"), [(BROKEN, p) for p in PAIRS] + [(p, BROKEN) for p in PAIRS]
)
def test_scattered_elements_become_strands_and_strands_are_scattered(
    dtype: str, source: str, out: str
) -> None:
    """An infinity spreads over a block wherever it is turned on the way, as is foretold."""
    graph = lone("relayout", f"{dtype}[12,20]{source}", f"{dtype}[12,20]{out}")
    data = np.arange(240).reshape(12, 20).astype(graph.shape("x").dtype)
    if dtype == "f32":
        data[7, 11], data[2, 3] = np.inf, -0.0
    result = systolic.run(graph, chip_8x8(), {"x": data})
    assert result.summary["values"]["equal"]


def test_parts_of_a_tensor_and_of_its_transpose_cover_both_once() -> None:
    """Against the definition, element by element: 7 x 5, three ways, to two ways."""
    source, target = _strands(7, 5, 3), _strands(5, 7, 2)
    seen = {}
    for here, there in turned_parts(source, target):
        assert (here.rows, here.cols) == (there.cols, there.rows)
        for r in range(here.rows):
            for c in range(here.cols):
                before, after = here.first + c * here.step, there.first + r * there.step
                row, col = 3 * r + before % 3, before // 3
                assert (row, col) not in seen
                seen[row, col] = (c, after)
    assert seen == {(r, c): (c // 2, r * 2 + c % 2) for r in range(7) for c in range(5)}


def _strands(rows: int, cols: int, ways: int) -> Strands:
    holder = Matrix("x", "x", "f32", (-(-rows // ways), cols * ways), ((0,), (1,)))
    return Strands(holder, ((0,), (1,)), ways, rows)
