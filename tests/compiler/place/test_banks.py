"""Do units that work at once lie in banks of their own? Read off the compiled instructions."""

from __future__ import annotations

import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.place.free_bytes import RECENT, Room, Wish
from systolic.config import load_chip
from systolic.isa import Buffer, Copy, DmaCopy, LoadWeights, MatMul
from systolic.spans import Interval
from systolic.workload import GraphBuilder

CHIP = load_chip("configs/chips/ideal_128x128.toml")


def product_from_dram(lhs: str, rhs: str):
    builder = GraphBuilder("dram")
    x = builder.tensor("x", f"bf16[1024,1024]{lhs}")
    w = builder.tensor("w", f"bf16[1024,1024]{rhs}")
    builder.matmul(x, w, "bf16[1024,1024]", name="y")
    return compile_graph("test", builder.graph(), CHIP).program.instructions


def banks(accesses) -> set[int]:
    return {a.start // CHIP.state_buffer.bank_bytes for a in accesses if a.buffer is Buffer.STATE}


@pytest.mark.parametrize("lhs", ["{0,1}", "{1,0}"])
@pytest.mark.parametrize("rhs", ["{0,1}", "{1,0}"])
def test_ports_are_not_shared(lhs, rhs):
    instructions = product_from_dram(lhs, rhs)
    weights = banks(i.weights for i in instructions if isinstance(i, LoadWeights))
    moving = banks(i.moving for i in instructions if isinstance(i, MatMul))
    arriving = banks(i.target for i in instructions if isinstance(i, DmaCopy))
    leaving = banks(i.source for i in instructions if isinstance(i, DmaCopy))
    copied = banks(i.target for i in instructions if isinstance(i, Copy))
    assert weights.isdisjoint(moving)
    assert leaving.isdisjoint(weights | moving)
    assert arriving.isdisjoint(copied)
    assert len(arriving) >= 2


def test_a_wish_is_followed_while_there_is_room():
    room = Room(100)
    wish = Wish("low", [Interval(40, 60), Interval(20, 40)])
    assert [room.take(12, wish)[0] for _ in range(4)] == [40, 20, 0, 52]
    assert room.take(12, Wish("high"))[0] == 88
    room.give_back(40, 12, [])
    assert room.take(8, wish)[0] == 32  # fresh before used, within the wish
    assert room.take(12, wish)[0] == 64  # who used bytes 40 to 51 may still be at work
    for _ in range(RECENT):
        start, _ = room.take(4, Wish("high"))
        room.give_back(start, 4, [])
    assert room.take(12, wish)[0] == 40


def test_bytes_given_back_just_now_are_taken_if_there_are_no_others():
    room = Room(100)
    wish = Wish("low", [Interval(40, 60)])
    assert [room.take(size, Wish("low"))[0] for size in (40, 20, 40)] == [0, 40, 60]
    room.give_back(40, 20, [])
    assert room.take(12, wish)[0] == 40
    assert room.take(12, wish) is None


def test_banks_of_odd_sizes_hold_tiles_at_whole_words():
    room = Room(100)
    low, high = Wish("low", [Interval(10, 50)]), Wish("high", [Interval(51, 99)])
    assert [room.take(8, low)[0] for _ in range(2)] == [12, 20]
    assert [room.take(8, high)[0] for _ in range(2)] == [88, 80]


@pytest.mark.parametrize(("end", "starts"), [("low", [0, 16, 32]), ("high", [48, 32, 16])])
def test_banks_are_filled_from_the_end_that_is_wished_for(end, starts):
    room = Room(64, bank_bytes=16)
    assert [room.take(12, Wish(end))[0] // 16 * 16 for _ in range(3)] == starts


def test_moving_tiles_come_from_the_end_that_stationary_ones_leave_free():
    """With one bank the middle stays free in one piece."""
    chip = ideal_chip(4, 4, state_buffer={"banks": 1})
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[8,8]{0,1}"), builder.tensor("w", "f32[8,8]")
    builder.matmul(x, w, "f32[8,8]", name="y")
    program = systolic.run(builder.graph(), chip, values=False).compiled.program
    weights = [i.weights.start for i in program.instructions if isinstance(i, LoadWeights)]
    moving = [i.moving.start for i in program.instructions if isinstance(i, MatMul)]
    middle = chip.state_buffer.bytes_per_partition // 2
    assert max(weights) < middle <= min(moving)
