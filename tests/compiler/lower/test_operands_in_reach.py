"""Is the value right? Operands that lie on the chip so that a product takes them where they are.

numpy is the oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.lower.test_product_places import chip_of_eight, in_rows_the_wrong_way, multiplied
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.hw.spec import Chip
from systolic.isa import MatMul
from systolic.workload import Graph

SEEDS = range(60)
IN_REACH = "lies in reach of a product, its columns at a distance"


def tensors_in_reach(graph: Graph, chip: Chip) -> list[str]:
    choices = compile_graph("product", graph, chip, verify=True).layers.choices
    return [choice.split()[1] for choice in choices if IN_REACH in choice]


@pytest.mark.parametrize("seed", SEEDS)
def test_values_are_those_of_numpy(seed: int) -> None:
    rng = Random(seed)
    graph, chip = in_rows_the_wrong_way(rng), chip_of_eight(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)


def test_some_of_these_operands_lie_in_reach_also_with_more_rows_than_partitions() -> None:
    found = {"x": set[bool](), "w": set[bool]()}
    for seed in SEEDS:
        rng = Random(seed)
        graph, chip = in_rows_the_wrong_way(rng), chip_of_eight(rng)
        for name in tensors_in_reach(graph, chip):
            found[name].add(graph.shape("x").dims[-1] > 8)
    assert found == {"x": {False, True}, "w": {False, True}}


WIDE = "bf16[12,96,512]{2,0,1}", "bf16[12,512,128]{0,1,2}", "f32[12,96,128]"
"""The batch of w is minor, so its 512 rows lie in four lines, its columns and matrices apart."""


@pytest.mark.parametrize("w", [WIDE[1], "bf16[12,512,128]{0,1,2:T(128,12)}"])
def test_the_array_takes_such_an_operand_where_it_is(w: str) -> None:
    """Turned by the array, w would take 48 turns, and all 14,028 cycles.

    The layout that is printed for it gives the same run.
    """
    result = systolic.run(multiplied(WIDE[0], w, WIDE[2]), "ideal_128x128", values=False)
    assert f"y: w {IN_REACH}" in result.compiled.layers.choices
    assert {home.tensor: str(home.shape) for home in result.compiled.layers.homes}["w"] == (
        "bf16[12,512,128]{0,1,2:T(128,12)}"
    )
    moving = [i.moving for i in result.program.instructions if isinstance(i, MatMul)]
    assert {access.pattern[0][0] for access in moving} == {12 * 4, 1}  # 1: of x, which is turned
    assert result.cycles < 14_028


def test_rows_of_half_the_partitions_lie_in_reach_too() -> None:
    """In rows of all partitions, every second column of w lay in the other half of them."""
    graph = multiplied("f32[2,12,96,64]", "f32[2,12,64,197]{0,1,2,3}", "f32[2,12,96,197]")
    result = systolic.run(graph, "hbm3_128x128", values=False)
    assert f"y: w {IN_REACH}" in result.compiled.layers.choices


def test_an_operand_without_room_to_lie_so_is_moved() -> None:
    """Of 16 partitions 9 would hold it, which takes more of each than the state buffer leaves."""
    graph = multiplied("f32[4,9,9]{1,2,0}", "f32[4,9,40]{0,1,2}", "f32[4,9,40]")

    def in_reach(size: int) -> bool:
        buffer = {"partitions": 16, "banks": 8, "bytes_per_partition": size}
        chip = ideal_chip(16, 16, state_buffer=buffer)
        return "w" in tensors_in_reach(graph, chip)

    assert in_reach(4096)
    assert not in_reach(1536)
