"""Is the value right? Operands of products that are spread over partitions before they are turned.

numpy is the oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

import systolic
from compiler.lower.test_digit_moves import product
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.compiler.lower import product_places, relays
from systolic.hw.spec import Chip
from systolic.isa import DmaCopy
from systolic.workload import Graph, GraphBuilder


def multiplied(x: str, w: str, y: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", x)
    builder.tensor("w", w)
    builder.matmul("x", "w", y, name="y")
    return builder.graph()


SPREAD = 1, 4, 9, 10, 17, 28, 43
RELAYS = 0, 2, 3, 7, 12, 19, 25, 36


@pytest.mark.parametrize(
    ("seed", "ways", "others"),
    [(seed, "1 leg and from place to place on the chip, to rows", "relayed") for seed in SPREAD]
    + [(seed, "as a relay of", "_spread") for seed in RELAYS],
)
def test_operands_are_spread_first_or_go_as_a_relay(
    seed: int, ways: str, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_places.OperandWays, others, lambda *_: ())
    monkeypatch.setattr(product_places, "LEAST_CYCLES", -1)
    monkeypatch.setattr(relays, "ROUGHLY", 1e9)
    monkeypatch.setattr(product_places, "NEAR", 0)
    monkeypatch.setattr(product_places, "FEWER", 0)  # whatever other ways take
    rng = Random(seed)
    graph = product(rng)
    lanes = {"independent_lanes": rng.random() < 0.5}
    chip = ideal_chip(8, 8, state_buffer={"partitions": 8, "banks": 8}, activation=lanes,
                      result_buffer={"banks": 4, "bank_bytes": 64})  # fmt: skip
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compiled = compile_graph("multiplied", graph, chip, verify=True)
    assert any(ways in choice for choice in compiled.layers.choices)
    run_on_both_engines(graph, chip, inputs)


def test_an_operand_in_four_partitions_is_spread_in_runs_of_rows() -> None:
    """Each queue sends the 384 rows of a partition, 512 bytes each, to 128 partitions.

    Turned where they lie, four partitions at once, they take 122,679 cycles.
    """
    graph = multiplied(
        "bf16[8,384,128]{2,0,1:T(8,128)(2,1)}",
        "bf16[8,128,197]{0,2,1:T(8,128)(2,1)}",
        "bf16[8,384,197]{2,1,0:T(8,128)(2,1)}",
    )
    result = systolic.run(graph, "lpddr5_6400_128x128", values=False)
    sent = [i for i in result.program.instructions if isinstance(i, DmaCopy)]
    assert [(i.source.partition, i.source.partitions, i.target.partitions) for i in sent] == [
        (lane, 1, 128) for lane in range(4)
    ]
    assert result.cycles == 28388


TALL = range(40)


def with_many_rows(rng: Random) -> Graph:
    """Return a product whose contraction is longer than a tile has rows, its lhs in tiles."""
    batch, M, N = rng.randint(2, 5), rng.randint(2, 10), rng.randint(2, 10)
    K, order = rng.choice([9, 12, 16, 20, 24]), rng.sample(range(3), 3)
    tile = f"T({rng.choice([2, 4, 8])},16){rng.choice(['', '(2,1)'])}"
    return multiplied(
        f"bf16[{batch},{M},{K}]{{{','.join(map(str, order))}:{tile}}}",
        f"bf16[{batch},{K},{N}]",
        f"f32[{batch},{M},{N}]",
    )


def chip_of_eight(rng: Random):
    lanes = {"independent_lanes": rng.random() < 0.5}
    return ideal_chip(8, 8, state_buffer={"partitions": 8, "banks": 8}, activation=lanes,
                      result_buffer={"banks": 4, "bank_bytes": 64})  # fmt: skip


def goes_to_rows_in_reach(choices: Iterable[str]) -> bool:
    return any("x goes" in choice and "in reach of a product" in choice for choice in choices)


def goes_to_rows(seed: int) -> bool:
    rng = Random(seed)
    graph = with_many_rows(rng)
    return goes_to_rows_in_reach(compile_graph("product", graph, chip_of_eight(rng)).layers.choices)


@pytest.mark.parametrize("seed", TALL)
def test_operands_of_more_rows_than_partitions_are_right_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph, chip = with_many_rows(rng), chip_of_eight(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)


def test_some_of_these_operands_go_to_several_lines_of_rows() -> None:
    assert sum(map(goes_to_rows, TALL)) >= 5


def test_an_operand_of_384_rows_goes_to_three_lines_of_rows_at_once() -> None:
    """Column by column its 12 x 384 vectors of 80 elements would be a copy each."""
    graph = multiplied(
        "bf16[12,80,384]{0,1,2:T(8,128)(2,1)}", "bf16[12,384,384]{1,2,0}", "f32[12,80,384]{1,0,2}"
    )
    result = systolic.run(graph, "hbm3_128x128", values=False)
    assert goes_to_rows_in_reach(result.compiled.layers.choices)
    assert len(result.program.instructions) < 12 * 384
    assert result.cycles == 32258


def in_rows_the_wrong_way(rng: Random) -> Graph:
    """Return a product of operands without tiles, whose dimensions lie in any order."""
    batch, M, K, N = (rng.randint(2, most) for most in (5, 10, 12, 10))
    orders = (",".join(map(str, rng.sample(range(3), 3))) for _ in range(2))
    x, w = (
        f"bf16[{batch},{rows},{cols}]{{{order}}}"
        for order, (rows, cols) in zip(orders, ((M, K), (K, N)), strict=True)
    )
    return multiplied(x, w, f"f32[{batch},{M},{N}]")


def goes_to_rows_without_tiles(graph: Graph, chip: Chip) -> bool:
    return goes_to_rows_in_reach(compile_graph("product", graph, chip, verify=True).layers.choices)


@pytest.fixture
def _whatever_turns_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_places, "LEAST_CYCLES", -1)
    monkeypatch.setattr(relays, "ROUGHLY", 1e9)
    monkeypatch.setattr(product_places, "FEWER", 0)


@pytest.mark.usefixtures("_whatever_turns_take")
@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_operands_without_tiles_are_moved_instead_of_turned(seed: int) -> None:
    rng = Random(seed)
    graph, chip = in_rows_the_wrong_way(rng), chip_of_eight(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)


@pytest.mark.usefixtures("_whatever_turns_take")
def test_some_of_these_operands_are_moved() -> None:
    rngs = [Random(seed) for seed in range(40)]
    assert (
        sum(goes_to_rows_without_tiles(in_rows_the_wrong_way(r), chip_of_eight(r)) for r in rngs)
        >= 5
    )
