"""Is the value right? Moves from lanes to lanes in rounds, on engines with independent lanes.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, in memories full of other bits, and the program checker look at every dependency.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.lower.test_digit_moves import drawn
from compiler.lower.test_relays import moved, relaid
from support.chips import ideal_chip
from support.packed import run
from systolic.compiler.cost import lane_rounds as costs
from systolic.compiler.ir.change_of_view import Piece
from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.lane_rounds import in_rounds, rounds_of_box
from systolic.compiler.ir.relays import BoxStep
from systolic.compiler.lower import relays
from systolic.hw.spec import Chip
from systolic.isa import Copy

pytestmark = pytest.mark.usefixtures("rows_end_with_dimensions")

LANES = {"independent_lanes": True}


def small_chip(rng: Random) -> Chip:
    """A chip on which one engine or both have independent lanes, with ports of either scope."""
    scope = rng.choice(["bank", "partition"])
    return ideal_chip(
        8, 8,
        state_buffer={"partitions": 16, "banks": 8, "port_scope": scope},
        result_buffer={"banks": 2, "bank_bytes": 64},
        activation=LANES, pooling=LANES if rng.random() < 0.5 else {},
    )  # fmt: skip


NONE = {1, 7, 8, 15, 16, 18, 21, 22, 23, 26, 31}
"""Moves that stay in their lanes, need no instruction, or whose digits cut one another."""


@pytest.mark.parametrize("seed", sorted({*range(36)} - NONE))
def test_all_elements_arrive_on_both_engines(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "FEWER", 1e-9)  # whatever other ways take
    monkeypatch.setattr(relays, "side_by_side_cycles", lambda *_: 1e9)
    monkeypatch.setattr(relays, "LEAST_CYCLES", -1)
    monkeypatch.setattr(relays, "ROUGHLY", 1e9)
    monkeypatch.setattr(relays.RelayPlanner, "relays", lambda *_: ())
    rng = Random(seed)
    graph = drawn(rng)
    compiled, inputs, outputs = run(graph, small_chip(rng), seed)
    assert any("as a relay of" in choice for choice in compiled.layers.choices)
    assert outputs["y"].tobytes() == moved(graph, inputs["x"]).tobytes()  # also those of a NaN


@pytest.mark.parametrize("seed", [9, 11, 17, 28, 48, 50, 56])
def test_a_leg_in_rounds_stands_beside_legs_of_other_ways(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "FEWER", 1e-9)  # whatever other ways take
    monkeypatch.setattr(relays, "side_by_side_cycles", lambda *_: 1e9)
    monkeypatch.setattr(relays, "LEAST_CYCLES", -1)
    monkeypatch.setattr(relays, "ROUGHLY", 1e9)
    monkeypatch.setattr(relays.RelayPlanner, "in_rounds", lambda *_: ())
    rng = Random(seed)
    graph = drawn(rng)
    compiled, inputs, outputs = run(graph, small_chip(rng), seed)
    assert any(node.change.engine for node in compiled.layers.nodes if node.change is not None)
    assert outputs["y"].tobytes() == moved(graph, inputs["x"]).tobytes()


def test_a_digit_without_good_parts_has_a_last_part_that_is_smaller() -> None:
    """197 columns go in 4 parts to 48 lanes, in rounds, and on by DMA in rows, a part each queue.

    In 24 lanes, with a copy by DMA for each of them, it takes 16,179 cycles.
    """
    graph = relaid("s8[2,12,197,197]{3,2,1,0:T(8,128)(4,1)}", "s8[2,12,197,197]{2,3,1,0}")
    result = systolic.run(graph, "hbm2e_128x128", values=False)
    lanes = {i.target.partition for i in result.program.instructions if isinstance(i, Copy)}
    assert (result.cycles, lanes) == (4674, {*range(48)})


@pytest.mark.parametrize(("leave", "arrive"), [(3, 5), (5, 3), (4, 4)])
def test_a_lane_is_free_when_the_next_round_takes_it(leave: int, arrive: int) -> None:
    """Copies of 8 cycles that begin a cycle apart: a round of n takes 8 cycles, or 9 if square."""
    steps = [BoxStep(leave, LANE, 1), BoxStep(arrive, 1, LANE), BoxStep(8, 64, 64)]
    begin, free = -1, dict[tuple[str, int], int]()
    for piece in rounds_of_box((0, 0), steps):
        lanes = [("source", piece.source_row), ("target", piece.row)]
        begin = max(begin + 1, *(free.get(lane, 0) for lane in lanes))
        free |= dict.fromkeys(lanes, begin + 8)
    rounds, few, late = max(leave, arrive), min(leave, arrive), leave == arrive
    assert begin + 8 == rounds * 8 + (rounds - 1) * late + few - 1


def test_rounds_of_unlike_boxes_have_no_lane_in_common() -> None:
    """Lanes 0 to 4 each go to lanes 8 to 10, the last one in a box of its own."""
    ends = [(s, t) for s in range(4) for t in range(8, 11)] + [(4, t) for t in range(8, 11)]
    ordered = in_rounds([Piece(t, 1, 0, 4, s, 1, 0, ((1, 4),)) for s, t in ends])
    assert {(p.source_row, p.row) for p in ordered} == {*ends}
    for first in range(0, 15, 3):
        lanes = [(p.source_row, p.row) for p in ordered[first : first + 3]]
        assert all(len({*side}) == 3 for side in zip(*lanes, strict=True))


@pytest.mark.parametrize("scope", ["bank", "partition"])
def test_two_engines_take_a_half_each_in_banks_of_their_own(
    scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 rows in 8 lanes become pairs of rows: 2 x 256 elements of each lane, by two engines."""
    monkeypatch.setattr(costs, "LEAST_SHARED", 16)
    monkeypatch.setattr("systolic.compiler.schedule.moves.LEAST_SHARED", 16)
    chip = ideal_chip(
        8, 8, state_buffer={"partitions": 8, "banks": 8, "port_scope": scope},
        activation=LANES, pooling=LANES,
    )  # fmt: skip
    graph = relaid("f16[4,16,256]", "f16[4,16,256]{2,1,0:T(8,256)(2,1)}")
    compiled, inputs, outputs = run(graph, chip)
    engines = {i.engine for i in compiled.program.instructions}
    assert engines == {"activation", "pooling"}
    assert outputs["y"].tobytes() == inputs["x"].tobytes()


@pytest.mark.parametrize(
    ("source", "out", "chip", "cycles", "copies"),
    [
        # Row r goes from lane r mod 128 to lane r / 2 mod 128: 12,288 elements of each lane, a half
        # by each engine; the last lane begins 127 cycles late, and writes are a cycle later.
        # Through the array 50,047.
        (
            "f16[8,256,768]", "f16[8,256,768]{2,1,0:T(8,128)(2,1)}", "patent_128x64",
            12288 // 2 + 128, 512,
        ),
        # Lane 16 a + b becomes lane a + 8 b, with 77 x 80 words in another order: half by half
        # through the array 20,208.
        ("s32[8,16,77,80]", "s32[8,16,77,80]{2,0,1,3}", "ddr4_128x128", 3192, 320),
        # 64 rows fill half of the lanes, and keep theirs: one copy takes 1,537 cycles. In all lanes
        # 1,536 elements, a half by each engine, and what the last ones begin later.
        ("s8[32,64,96]", "s8[32,64,96]{0,1,2}", "ideal_128x128", 768 + 4, None),
    ],
)  # fmt: skip
def test_lanes_are_at_work_at_once(
    source: str, out: str, chip: str, cycles: int, copies: int | None
) -> None:
    result = systolic.run(relaid(source, out), chip, values=False)
    assert result.cycles == cycles
    assert copies is None or result.program.count() == {"Copy": copies}
