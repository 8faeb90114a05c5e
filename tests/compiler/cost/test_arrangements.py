"""Are the estimates of moves from DRAM to DRAM right in what decides between their tiles?

The oracles are closed formulas, hand-worked totals, and the cycles of the machine.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import systolic
from systolic.compiler.cost.arrangements import ONE_BY_ONE, Estimate, Planner, shared_out
from systolic.compiler.cost.dma import shared_cycles, tile_latencies
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.factors import FactorPlaces, Move
from systolic.compiler.lower.candidates import turned
from systolic.config import load_chip
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options


def planner(name: str, *, by_address: bool = False) -> Planner:
    return Planner(load_chip(CHIPS / f"{name}.toml"), Options(), by_address)


def relaid(source: str, out: str) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", source)
    builder.add("relayout", ("x",), out, name="y")
    return builder.graph()


def test_every_tile_of_a_queue_with_one_copy_in_hand_waits_for_its_latency() -> None:
    # 3 matrices, 200 rows in two tiles of rows, 2,500 columns in three: 600 + 42 cycles for each.
    shape, axes = Shape.parse("s8[3,200,2500]"), ((0,), (1,), (2,))
    assert tile_latencies(load_chip(CHIPS / "ideal_128x128.toml"), shape, axes) == 3 * 2 * 3 * 642
    assert tile_latencies(load_chip(CHIPS / "neuroncore_v2.toml"), shape, axes) == 642


def test_queues_that_share_fewer_bytes_than_they_could_move_take_longer() -> None:
    # Two queues of 272 bytes share 53: 53,000 bytes take 1,000 cycles, where each alone takes 1,000
    # for all, and both 500 for half of them.
    assert shared_cycles(load_chip(CHIPS / "patent_128x64.toml"), 53_000) == 500
    assert shared_cycles(load_chip(CHIPS / "ddr4_128x128.toml"), 53_000) == 0


def test_the_channels_of_dram_count_if_addresses_do() -> None:
    # Runs of two words: 32 of them lie 512 bytes apart, and then come others 2 MiB away, in another
    # row of the same bank. So the bank opens rows all the time, and not all banks do in turn.
    sizes, steps = (2, 8, 16, 32, 96), (1, 65536, 4096, 128, 524288)
    places = FactorPlaces((4, 1, 2, 3, 0), steps)
    move = replace(Move.dense("s32", sizes, places.order), after=places)
    plan = Arrangement(move, (), (1, 2), (1, 2))
    quick, close = (
        planner("hbm2e_128x128", by_address=given).by_engine(plan, 0) for given in (False, True)
    )
    assert close.outwards > 3 * quick.outwards
    assert close.ticks > quick.ticks
    ideal = (planner("ideal_128x128", by_address=given) for given in (False, True))
    alike = [each.by_engine(plan, 0) for each in ideal]
    assert alike[0] == alike[1]


def test_one_direction_takes_no_longer_than_dram_has_to_do_for_both() -> None:
    # 4 tiles: 32 runs of 1,024 bytes come, 4,096 of 8 bytes go. Two queues have each direction.
    plan = Arrangement(Move.dense("s8", (4, 8, 1024), (0, 2, 1)), (0,), (1,), (2,))
    chip = load_chip(CHIPS / "ddr4_2400_128x128.toml")
    found = planner("ddr4_2400_128x128").by_array(plan, 0)
    # A short run opens a row: four in 26 cycles, in 4 channels. A long one is 16 bursts of 4.
    # Refresh takes 437 of 9,360 cycles, and each copy waits for 720 + 17.
    busy = (4096 * 26 / 4 / 4 + 32 * 16 * 4 / 4) * 9360 / (9360 - 437)
    assert found.outwards == round(2 * busy + 4 * 737) // 2 * chip.period("dma")
    assert found.inwards < found.outwards // 3  # fewer runs, as if all queues moved such


def test_both_directions_share_what_dram_passes() -> None:
    # 100 ticks in, 100 out, 10 of work in each of 10 tiles; DRAM passes all bytes in 180.
    given = Estimate(100, 100, 100, 10, 5)
    assert given.ticks == 100 + 200 // 10 + 2 * 5
    passed = Estimate(100, 100, 100, 10, 5, bytes_pass=180)
    assert passed.ticks == 180 + (300 - 180) // 10 + 2 * 5


def test_the_first_and_the_last_tile_have_more_queues() -> None:
    # The array is busiest, and 40 of loads and of stores in 4 tiles are before and behind it.
    assert Estimate(40, 40, 100, 4, 0).ticks == 100 + 80 // 4
    assert Estimate(40, 40, 100, 4, 0, ends=2).ticks == 100 + 80 // 4 // 2


def test_of_two_tiles_that_are_turned_all_queues_move_the_first_one_first() -> None:
    # Of 30 and 50 ticks of loads and stores half are of each tile. The array is at each for 40: the
    # second one comes meanwhile, and the first one goes. Copies wait for 3 at either end.
    by_all = Estimate(30, 50, 40 * 2, 2, 3, moved=80, queues=4, shared=4)
    assert by_all.ticks == round((15 + 40 + 40 + 25 + 2 * 3) * ONE_BY_ONE)
    # Copies of 100 and 120 ticks keep the array waiting: 50 + 50 + 60 + 60.
    assert replace(by_all, inwards=100, outwards=120).ticks == round((220 + 2 * 3) * ONE_BY_ONE)


@pytest.mark.parametrize(
    ("copies", "each", "ticks"),
    [(1, [10, 30], 10), (3, [10, 30], 30), (4, [10, 30], 30), (2, [5], 10)],
)
def test_the_engine_that_is_done_first_takes_the_next_copy(copies, each, ticks) -> None:
    assert shared_out(copies, each) == ticks


def test_an_engine_copies_neighbours_last_where_distance_costs_time() -> None:
    # s8[128,8] in pairs of four rows: copied row by row, elements lie 1,024 bytes apart in the
    # result, and an engine of neuroncore_v2 takes two cycles for each.
    move = Move.dense("s8", (128, 8, 2, 128, 4), (0, 2, 4, 1, 3))
    plan = Arrangement(move, (), (0,), (0,))
    together, apart = planner("neuroncore_v2").engine_columns(plan)
    assert (together[-1], apart) == (3, ())
    assert planner("ideal_128x128").engine_columns(plan) == plan.engine_columns()


def test_partitions_may_have_parts_of_two_factors_or_the_middle_of_one() -> None:
    two = Move.dense("s8", (96, 32, 1024), (1, 2, 0))
    sizes = {plan.move.sizes for plan in turned(two, 128, 128, either_end=True, finely=True)}
    assert (96, 8, 4, 32, 32) in sizes
    one = Move.dense("s8", (96, 32768), (1, 0))
    found = {(plan.move.sizes, plan.batch, plan.rows_out)
             for plan in turned(one, 128, 128, either_end=True, finely=True)}  # fmt: skip
    assert ((96, 8, 128, 32), (1,), (2,)) in found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "out"),
    [
        ("hbm2e_128x128", "s32[2,4,128,96]", "s32[2,4,128,96]{0,2,1,3:T(8,128)}"),
        ("hbm3_128x128", "f16[4,77,8,96]{3,2,1,0:T(8,128)(2,1)}", "f16[4,77,8,96]"),
        ("patent_128x64", "bf16[4,12,64,128]", "bf16[4,12,64,128]{1,0,2,3}"),
    ],
)  # fmt: skip
def test_the_estimate_of_what_is_chosen_is_near_its_cycles(name, source, out) -> None:
    result = systolic.run(relaid(source, out), name, values=False)
    (choice,) = (text for text in result.compiled.layers.choices if "(about" in text)
    estimate = int(choice.split("(about ")[1].split()[0])
    assert 0.6 * estimate < result.cycles < 1.6 * estimate


def test_results_of_small_turns_are_copied_out_together() -> None:
    # 192 turns of 16 rows. A copy takes the engine 64 cycles at least: of four results as many.
    move, hardware = Move.dense("bf16", (16, 128, 192), (1, 2, 0)), planner("multi_clock_128x128")
    drained = 192 * 16 * hardware.chip.period("activation")
    work = hardware.array_work(Arrangement(move, (), (0,), (1,)))
    assert drained < work < 1.2 * drained
    # A batch of 192 tiles with one turn each has nothing to copy together.
    lone = hardware.array_work(Arrangement(move, (2,), (0,), (1,)))
    assert lone > 4 * drained
