"""Do units that work at once lie in banks of their own? Read off the compiled instructions."""

from __future__ import annotations

import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.place.banks import BanksByRole
from systolic.compiler.place.free_bytes import RECENT, Room, Wish
from systolic.config import load_chip
from systolic.isa import Activate, Buffer, Copy, DmaCopy, LoadWeights, MatMul
from systolic.isa.instruction import ScalarTensorTensor, TensorTensor
from systolic.spans import Interval
from systolic.workload import GraphBuilder
from systolic.workload.options import Options

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


def test_what_is_streamed_lies_apart_from_what_engines_read_meanwhile():
    """Each role has one bank, so images and what is made of them would lie in the same one.

    While the last product streams h, engines add x to its sums.
    """
    builder = GraphBuilder("dram")
    builder.tensor("image", "f32[1,6,6,4]{2,1,3,0}")
    given = {"stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "groups": 1}
    for name, source in (("x", "image"), ("h", "x"), ("sums", "h")):
        builder.tensor(f"w{name}", "f32[1,1,4,4]")
        builder.add("conv2d", (source, f"w{name}"), "f32[1,6,6,4]{2,1,3,0}", name=name, **given)
    builder.add("binary", ("sums", "x"), "f32[1,6,6,4]{2,1,3,0}", name="y", operator="add",
                broadcast_dimensions=[0, 1, 2, 3])  # fmt: skip
    chip = ideal_chip(4, 4, state_buffer={"bytes_per_partition": 12288, "banks": 3})
    compiled = compile_graph("test", builder.graph(), chip)
    size = chip.state_buffer.bank_bytes
    made = zip(compiled.synchronised.layers, compiled.program.instructions, strict=True)
    work = [each for layer, each in made if layer == "sums"]
    streamed = {each.moving.start // size for each in work if isinstance(each, MatMul)}
    added = {each.right.start // size for each in work if isinstance(each, TensorTensor)}
    assert streamed
    assert added
    assert streamed.isdisjoint(added)


def residual_block() -> tuple[list[ScalarTensorTensor], list[Activate], list[MatMul]]:
    """Return how a sum of a product, a bias and a residual is taken out and gone over, of y."""
    builder, size = GraphBuilder("dram"), "1,24,24,128"
    builder.tensor("image", f"bf16[{size}]{{2,1,3,0}}")
    builder.tensor("bias", "f32[128]")
    given = {"stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "groups": 1}
    for name, source, made in (("x", "image", "bf16"), ("sums", "x", "f32")):
        builder.tensor(f"w{name}", "bf16[1,1,128,128]")
        builder.add("conv2d", (source, f"w{name}"), f"{made}[{size}]", name=name, **given)
    builder.add("binary", ("sums", "bias"), f"f32[{size}]", name="biased", operator="add",
                broadcast_dimensions=[3])  # fmt: skip
    builder.add("cast", ("x",), f"f32[{size}]", name="shortcut")
    builder.add("binary", ("biased", "shortcut"), f"f32[{size}]", name="added", operator="add",
                broadcast_dimensions=[0, 1, 2, 3])  # fmt: skip
    builder.add("activation", ("added",), f"bf16[{size}]", name="y", function="ramp")
    builder.tensor("wz", "bf16[1,1,128,128]")
    builder.add("conv2d", ("y", "wz"), f"bf16[{size}]", name="z", **given)
    program = compile_graph("test", builder.graph(), CHIP).program.instructions
    kinds = ScalarTensorTensor, Activate, MatMul
    taken, over, products = ([i for i in program if isinstance(i, kind)] for kind in kinds)
    return taken, over, products


def test_one_engine_takes_sums_out_while_another_goes_over_them():
    taken, over, _ = residual_block()
    assert {each.engine for each in over} == {"activation"}
    assert {each.engine for each in taken} == {"pooling"}


def test_biases_of_images_lie_apart_from_what_engines_stream():
    """A read of one bias would wait until the other engine has gone over its sums."""
    taken, over, _ = residual_block()
    assert banks(each.scalar for each in taken).isdisjoint(banks(each.source for each in over))
    assert banks(each.scalar for each in taken) <= {0}


def test_sums_that_engines_go_over_lie_apart_from_what_is_read_meanwhile():
    """The residual is added to the next sums, and their vectors stream, at the same time."""
    taken, over, products = residual_block()
    gone_over = banks(each.source for each in over)
    assert gone_over.isdisjoint(banks(each.tensor for each in taken))
    assert gone_over.isdisjoint(
        banks(each.moving for each in products if each.moving.dtype == "bf16")
    )


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


def test_narrow_results_and_repeated_rows_lie_apart_from_other_results():
    """Sums of rows lie with stationary tiles, and factors of a norm with what is turned.

    Where tiles are of 512 columns: folded rows make larger ones, as images do, and nothing lies
    apart.
    """
    builder = GraphBuilder("dram")
    x, w, v = (builder.tensor(name, "bf16[512,512]") for name in ("x", "w", "v"))
    factors, terms = (builder.tensor(name, "f32[512]") for name in ("factors", "terms"))
    sums = builder.matmul(x, w, "f32[512,512]")
    normed = builder.layer_norm(sums, factors, terms)
    narrow = builder.add("cast", (normed,), "bf16[512,512]")
    builder.matmul(narrow, v, "f32[512,512]", name="y")
    compiled = compile_graph("test", builder.graph(), CHIP, Options(tile_columns=512))
    rings = BanksByRole(compiled.layers, CHIP)
    made = {node.word(): node.output for node in compiled.layers.nodes}
    few, repeated = (rings.wish_of(made[kind]).ranges for kind in ("reduce", "repeat"))
    result, turned, held = (rings.wish(role).ranges for role in ("result", "turned", "stationary"))
    assert {*few} == {*held}
    assert {*repeated} == {*turned}
    assert {*few, *repeated}.isdisjoint(result)
