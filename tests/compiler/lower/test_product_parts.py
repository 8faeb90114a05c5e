"""Is the value right? Batches of which a part is moved to rows in reach of a product during it.

numpy is the oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.lower.test_idle_engines import elements_moved, move_whatever_others_take, small_chip
from compiler.lower.test_product_places import multiplied
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.tiers import quick_first
from systolic.compiler import CompiledGraph, compile_graph
from systolic.compiler.lower import product_parts
from systolic.hw.spec import Chip
from systolic.isa import Copy, LoadWeights, MatMul
from systolic.workload import Graph
from systolic.workload.options import Options

SEEDS = range(60)
ENGINES = "activation", "pooling"


def text(rng: Random, batch: list[int], rows: int, cols: int) -> str:
    """Return a tensor in any order of dimensions, in tiles or not."""
    dims = [*batch, rows, cols]
    order = rng.sample(range(len(dims)), len(dims))
    tile = rng.choice(["", "", ":T(8,16)", ":T(8,16)(2,1)"])
    return f"bf16[{','.join(map(str, dims))}]{{{','.join(map(str, order))}{tile}}}"


def batched_product(rng: Random) -> Graph:
    """Return a product of two or more matrices, of one or two dimensions."""
    batch = [rng.randint(2, 4), rng.randint(2, 3)][: rng.randint(1, 2)]
    M, K, N = rng.randint(2, 12), rng.choice([3, 5, 8, 11, 16]), rng.randint(2, 12)
    dims = ",".join(map(str, [*batch, M, N]))
    return multiplied(text(rng, batch, M, K), text(rng, batch, K, N), f"f32[{dims}]")


@pytest.fixture
def _whatever_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    move_whatever_others_take(monkeypatch)
    monkeypatch.setattr(product_parts, "FEWER", 0)


def compiled_of(seed: int) -> tuple[Graph, Chip, Random, CompiledGraph]:
    rng = Random(seed)
    graph, chip = batched_product(rng), small_chip(rng)
    return graph, chip, rng, compile_graph("product", graph, chip, verify=True)


def parts_of(compiled: CompiledGraph) -> set[int]:
    changes = [node.change for node in compiled.layers.nodes]
    return {change.part for change in changes if change is not None}


@pytest.mark.usefixtures("_whatever_others_take")
@pytest.mark.parametrize("seed", quick_first(SEEDS, 15))
def test_values_are_those_of_numpy_in_parts(seed: int) -> None:
    graph, chip, rng, _ = compiled_of(seed)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    run_on_both_engines(graph, chip, inputs)


@pytest.mark.usefixtures("_whatever_others_take")
def test_some_of_these_batches_are_moved_in_parts() -> None:
    assert sum(parts_of(compiled_of(seed)[3]) >= {1, 2} for seed in SEEDS) >= 10


PARTS = "f16[32,64,384]{1,2,0:T(8,128)(2,1)}", "f16[32,384,128]", "f16[32,64,128]{0,2,1}"
"""A product of 96 tiles of 128 vectors each; x must be moved."""


def test_others_are_moved_while_the_first_matrices_are_multiplied() -> None:
    """14 of 32 matrices by two engines, which takes about a fifth of the product, then the rest."""
    result = systolic.run(multiplied(*PARTS), "ideal_128x128", values=False)
    assert parts_of(result.compiled) == {1, 2}
    made = [*zip(result.program.instructions, result.trace.times, strict=True)]
    moved = [(i, t) for i, t in made if isinstance(i, Copy) and i.source.buffer is i.target.buffer]
    ends = {name: max(t.done for i, t in moved if i.engine == name) for name in ENGINES}
    begun = min(t.start for i, t in made if isinstance(i, MatMul))
    assert ends["activation"] < begun < ends["pooling"]
    elements = elements_moved(result.compiled)
    every = 32 * 64 * 384
    assert elements == {"activation": every * 7 // 32, "pooling": every * 25 // 32}
    assert result.cycles == 14591


def test_all_at_once_the_array_waits_for_all_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_parts, "FEWER", 1e9)
    result = systolic.run(multiplied(*PARTS), "ideal_128x128", values=False)
    assert parts_of(result.compiled) == {0}
    assert result.cycles == 18879


def test_a_given_engine_moves_all_matrices_at_once() -> None:
    options = Options(drain_engine="activation")
    result = systolic.run(multiplied(*PARTS), "ideal_128x128", values=False, options=options)
    assert parts_of(result.compiled) == {0}


@pytest.mark.slow
def test_an_operand_that_the_array_would_turn_is_moved_during_turns_of_the_other() -> None:
    """Both turned by the array: 19,071 cycles. To move all of x first is no sooner."""
    graph = multiplied("bf16[12,96,512]{2,0,1}", "bf16[12,512,128]{1,0,2}", "f32[12,96,128]")
    result = systolic.run(graph, "ideal_128x128", values=False)
    moved = [node for node in result.compiled.layers.nodes if node.kind == "move"]
    assert {result.compiled.layers.matrix(node.output).tensor for node in moved} == {"x"}
    assert result.cycles == 14028


def test_what_is_made_late_lies_apart_from_what_the_product_makes() -> None:
    """In one bank the engine that moves waits for the one that takes sums out: 18,314 cycles."""
    graph = multiplied(
        "bf16[4,8,96,128]{3,2,1,0:T(8,128)(2,1)}", "bf16[4,8,128,384]", "bf16[4,8,96,384]"
    )
    result = systolic.run(graph, "hbm3_128x128", values=False)
    assert parts_of(result.compiled) == {1, 2}
    assert result.cycles == 14638


def test_of_a_product_strand_by_strand_others_are_moved_during_the_first_strand() -> None:
    """All at once: 19,149 cycles. 63 of 96 matrices come first, and each strand takes a third."""
    graph = multiplied(
        "f16[96,128,128]{0,2,1}",
        "f16[96,128,64]{2,1,0:T(8,128)(2,1)}",
        "f16[96,128,64]{2,1,0:T(8,128)(2,1)}",
    )
    result = systolic.run(graph, "lpddr5_6400_128x128", values=False)
    assert parts_of(result.compiled) == {1, 2}
    assert result.cycles == 17421


def test_weights_that_lie_at_home_and_vectors_that_come_have_banks_of_their_own() -> None:
    """In one bank loads would wait for the multiplies of the matrix before: 25,293 cycles."""
    graph = multiplied(
        "f16[96,128,128]{0,2,1}",
        "f16[96,128,64]{2,1,0:T(8,128)(2,1)}",
        "f16[96,128,64]{2,1,0:T(8,128)(2,1)}",
    )
    result = systolic.run(graph, "lpddr5_6400_128x128", values=False)
    program, size = result.program.instructions, result.compiled.chip.state_buffer.bank_bytes
    loaded = {i.weights.start // size for i in program if isinstance(i, LoadWeights)}
    assert loaded.isdisjoint(i.moving.start // size for i in program if isinstance(i, MatMul))


def test_what_lies_between_the_legs_of_a_late_move_is_in_no_bank_of_weights() -> None:
    """A load of weights from that bank would hold the engine up: 7,602 cycles."""
    graph = multiplied("f32[2,12,96,64]", "f32[2,12,64,197]{0,1,2,3}", "f32[2,12,96,197]")
    result = systolic.run(graph, "hbm3_128x128", values=False)
    program, size = result.program.instructions, result.compiled.chip.state_buffer.bank_bytes
    loaded = {i.weights.start // size for i in program if isinstance(i, LoadWeights)}
    (last,) = [n for n in result.compiled.layers.nodes if n.change and n.change.part == 2][1:]
    assert last.change is not None
    assert last.change.engine == "pooling"
    read = [i.source for i in program if isinstance(i, Copy) and i.engine == "pooling"]
    late = read[-len(last.change.given) :]
    assert loaded.isdisjoint(access.start // size for access in late)
    assert result.cycles == 7139


def test_an_operand_in_tiles_that_the_array_would_turn_is_moved_in_parts() -> None:
    """Turned by the array: 22,726 cycles. To move all of x first takes longer than to turn it."""
    graph = multiplied(
        "f32[8,512,256]{2,1,0:T(8,128)}", "f32[8,256,197]{0,1,2}", "f32[8,512,197]{2,1,0:T(8,128)}"
    )
    result = systolic.run(graph, "hbm2e_128x128", values=False)
    assert parts_of(result.compiled) == {1, 2}
    assert result.summary["turned_cycles"] == 0
    assert result.cycles == 19095


def test_engines_share_the_moves_of_an_odd_number_of_matrices() -> None:
    """Five of eight come first, so that one engine has a half more to copy than the other."""
    graph = multiplied("bf16[8,384,197]", "bf16[8,197,197]", "bf16[8,384,197]")
    result = systolic.run(graph, "hbm3_128x128", values=False)
    first, *_, last = (n.change for n in result.compiled.layers.nodes if n.change)
    assert (first.part, last.part) == (1, 2)
    assert result.cycles == 14725
