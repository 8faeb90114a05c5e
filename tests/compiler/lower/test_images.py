"""Convolutions and pooling: sums by plain loops, which instructions are made, what is refused.

The numbers are small whole ones, exact in float32 in any order.
"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.image_graphs import looped_convolution, looped_windows, made_sides
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.pixels import PixelWindow
from systolic.errors import WorkloadError
from systolic.hw.spec import Chip
from systolic.isa import Activate, Copy, DmaCopy, MatMul, OnEngine
from systolic.isa.effects import reads
from systolic.isa.instruction import Memset, Pool
from systolic.workload import GraphBuilder

PLAIN = {"stride": [1, 1], "padding": [0, 0, 0, 0], "dilation": [1, 1]}
CHIP = ideal_chip(4, 4)
REDUCED = {"max": np.max, "min": np.min, "sum": np.sum, "mean": np.mean, "median": np.median,
           "product": np.prod}  # fmt: skip


def whole(dims, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, dims).astype(np.float32)


def convolution(images, weights, *, home: str = "dram", layout: str = "", **given) -> GraphBuilder:
    builder, taken = GraphBuilder(home), {**PLAIN, **given}
    groups = taken.pop("groups", 1)
    builder.tensor("x", f"f32[{','.join(map(str, images))}]{layout}")
    builder.tensor("w", f"f32[{','.join(map(str, weights))}]")
    sides = made_sides(*images[1:3], taken, weights[:2])
    out = f"f32[{images[0]},{sides[0]},{sides[1]},{weights[3]}]{layout}"
    builder.add("conv2d", ("x", "w"), out, name="y", groups=groups, **taken)
    return builder


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("layout", ["{3,2,1,0}", "{2,1,3,0}"])
@pytest.mark.parametrize(
    ("images", "weights", "given"),
    [
        ((2, 5, 6, 3), (3, 3, 3, 5), {"padding": [1, 1, 1, 1]}),
        ((2, 5, 6, 4), (3, 2, 4, 5), {"padding": [1, 0, 0, 2]}),  # channels fill a block of rows
        ((1, 7, 6, 8), (2, 3, 8, 3), {"stride": [2, 1], "dilation": [2, 2]}),
        ((3, 4, 4, 2), (1, 1, 2, 6), {"stride": [2, 2]}),
        ((9, 4, 4, 2), (4, 4, 2, 3), {}),  # one result for each image
        ((2, 4, 5, 6), (2, 2, 3, 4), {"groups": 2}),
        ((3, 5, 6, 2), (3, 3, 2, 5), {"padding": [1, 1, 1, 1]}),  # tiles of two taps are alike
        ((2, 6, 7, 2), (3, 4, 2, 3), {"stride": [2, 1], "dilation": [1, 2]}),
        ((2, 4, 5, 4), (3, 3, 2, 4), {"groups": 2, "padding": [1, 0, 2, 1]}),
        ((2, 4, 5, 3), (3, 3, 1, 3), {"groups": 3, "padding": [1, 1, 1, 1]}),  # depthwise
    ],
)
def test_sums_are_those_of_plain_loops(images, weights, given, layout, engine):
    data = {"x": whole(images), "w": whole(weights, 2)}
    builder = convolution(images, weights, layout=layout, **given)
    found = systolic.run(builder.graph(), CHIP, data, engine=engine)
    taken = {**PLAIN, **given}
    groups = taken.pop("groups", 1)
    expected = looped_convolution(data["x"], data["w"], taken, groups)
    assert np.array_equal(found.outputs["y"], expected)


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize(
    ("images", "weights", "given"),
    [
        ((1, 16, 16, 3), (3, 3, 3, 4), {"stride": [2, 2], "padding": [1, 1, 1, 1]}),
        ((2, 13, 9, 5), (4, 3, 5, 3), {"stride": [3, 2], "padding": [2, 1, 0, 1]}),
        ((2, 11, 8, 3), (3, 2, 3, 2),
         {"stride": [2, 1], "padding": [1, 1, 1, 1], "dilation": [2, 1]}),
    ],
)  # fmt: skip
def test_rows_lie_in_phases_where_windows_step_over_them(images, weights, given, engine):
    data = {"x": whole(images), "w": whole(weights, 2)}
    found = systolic.run(convolution(images, weights, **given).graph(), CHIP, data, engine=engine)
    expected = looped_convolution(data["x"], data["w"], {**PLAIN, **given})
    assert np.array_equal(found.outputs["y"], expected)
    rows = given["stride"][0]
    (moving,) = [m for m in found.compiled.layers.matrices if isinstance(m.window, PixelWindow)]
    assert moving.window.pixels.stride == (1, given["stride"][1])
    assert moving.window.pixels.image[0] % rows == 0


def test_nothing_but_operands_and_results_passes_dram():
    """The windows of 9 pixels would be nine times the images."""
    builder = convolution((2, 6, 6, 3), (3, 3, 3, 4), layout="{2,1,3,0}", padding=[1, 1, 1, 1])
    data = {"x": whole((2, 6, 6, 3)), "w": whole((3, 3, 3, 4), 2)}
    program = systolic.run(builder.graph(), CHIP, data).compiled.program
    copies = [each for each in program.instructions if isinstance(each, DmaCopy)]
    moved = sum(
        access.size_bytes
        for copy in copies
        for access in (copy.source, copy.target)
        if access.buffer == "dram"
    )
    assert moved == 4 * (2 * 36 * 3 + 9 * 3 * 4 + 2 * 36 * 4)


def test_channels_that_fill_the_rows_are_read_where_they_lie():
    """Of 4 channels on 4 rows each of 4 taps is one product for a chunk, with nothing copied."""
    builder = convolution((1, 5, 5, 4), (2, 2, 4, 4), home="state_buffer", layout="{2,1,3,0}")
    data = {"x": whole((1, 5, 5, 4)), "w": whole((2, 2, 4, 4), 2)}
    program = systolic.run(builder.graph(), CHIP, data).compiled.program
    multiplies = [each for each in program.instructions if isinstance(each, MatMul)]
    starts = {each.moving.start - multiplies[0].moving.start for each in multiplies}
    assert {0, 4, 20, 24} <= starts  # the next pixel, the next row, and both
    assert not [each for each in program.instructions if isinstance(each, Memset)]


def test_taps_that_lie_apart_alike_are_copied_once():
    """Of 3 x 3 taps, two to a tile of 4 rows, in images of 6 x 6, columns from the window's first.

    Taps 0 and 1 are read for 7 and 8, 12 and 13, and 14 too; taps 2 and 6 lie 4 columns apart. So
    two channels of 36 columns are copied at distances of 0, 1, 0 and 4, and not for nine taps.
    Before that they are copied once, from tiles that came from DRAM to a tile of whole images.
    """
    builder = convolution((1, 6, 6, 2), (3, 3, 2, 4), layout="{2,1,3,0}")
    data = {"x": whole((1, 6, 6, 2)), "w": whole((3, 3, 2, 4), 2)}
    found = systolic.run(builder.graph(), CHIP, data)
    copied = [
        each.target.partitions * each.target.elements
        for each in found.compiled.program.instructions
        if isinstance(each, Copy | DmaCopy)
        and each.source.buffer == each.target.buffer == "state_buffer"
    ]
    assert sum(copied) == 2 * (36 + 36 + 35 + 36 + 32)
    assert np.array_equal(found.outputs["y"], looped_convolution(data["x"], data["w"], PLAIN))


def on_chip(program) -> list[Copy | DmaCopy]:
    return [
        each
        for each in program.instructions
        if isinstance(each, Copy | DmaCopy)
        and each.source.buffer == each.target.buffer == "state_buffer"
    ]


def quick_copies(**tables) -> Chip:
    """Return a chip whose queues copy faster than its engines."""
    dma = {"bytes_per_cycle": 256, "latency_cycles": 20, "queues": 2}
    return ideal_chip(16, 16, **{"dma": dma, **tables})


@pytest.mark.parametrize("engine", ["event", "register"])
def test_taps_of_a_row_come_by_one_copy(engine):
    """Of 5 x 5 taps of 3 channels the 5 of the first row are copied from the images.

    All 25 are then copied from those 5: a row of taps by one copy, or by two if it lies in two
    tiles of 16 rows, and not tap by tap.
    """
    builder = convolution((1, 12, 12, 3), (5, 5, 3, 3), layout="{2,1,3,0}")
    data = {"x": whole((1, 12, 12, 3)), "w": whole((5, 5, 3, 3), 2)}
    found = systolic.run(builder.graph(), quick_copies(), data, engine=engine)
    assert np.array_equal(found.outputs["y"], looped_convolution(data["x"], data["w"], PLAIN))
    copies = [each.target for each in on_chip(found.compiled.program)]
    row, window = 12 * 12 - 4, 12 * 12 - 4 - 4 * 12
    assert [each.partition for each in copies if each.elements == row] == [0, 3, 6, 9, 12]
    rest = [each.partitions for each in copies if each.elements == window]
    assert sum(rest) == 5 * 5 * 3
    assert len(rest) == 5 + 4


def test_taps_are_copied_from_the_images_where_there_is_no_room_for_more():
    """A row of 5 taps takes 140 columns of 4 bytes beside 5 tiles of 92: 2,400 bytes."""
    builder = convolution((1, 12, 12, 3), (5, 5, 3, 3), layout="{2,1,3,0}")
    for bytes_per_partition, most in ((4096, 15), (2800, 3)):
        state_buffer = {"bytes_per_partition": bytes_per_partition, "banks": 1}
        chip = quick_copies(state_buffer=state_buffer)
        options = Options(structural_zeros=False)
        found = systolic.run(builder.graph(), chip, values=False, options=options)
        program = found.compiled.program
        taps = [each.target for each in on_chip(program) if each.target.elements == 92]
        assert max(each.partitions for each in taps) == most


@pytest.mark.parametrize("engine", ["event", "register"])
def test_sums_begin_with_the_first_band_of_pixels(engine):
    """The taps of 24 x 24 pixels come in 7 bands of 75 columns, or a few less: all of a band first.

    The first band has fewer, because nothing is multiplied while it is copied.
    What the sums take from DRAM comes before these copies, which wait for the images.
    """
    chip = quick_copies(
        dma={"bytes_per_cycle": 32, "latency_cycles": 20, "queues": 2},
        result_buffer={"bank_bytes": 128},
    )
    builder = convolution((1, 24, 24, 2), (3, 3, 2, 3), layout="{2,1,3,0}")
    data = {"x": whole((1, 24, 24, 2)), "w": whole((3, 3, 2, 3), 2)}
    options = Options(structural_zeros=False)
    found = systolic.run(builder.graph(), chip, data, engine=engine, options=options)
    assert np.array_equal(found.outputs["y"], looped_convolution(data["x"], data["w"], PLAIN))
    instructions = found.compiled.program.instructions
    copies = [(n, each) for n, each in enumerate(instructions) if isinstance(each, DmaCopy)]
    taps = [(n, each.target) for n, each in copies
            if each.source.buffer == each.target.buffer and each.target.elements < 100]  # fmt: skip
    starts = [each.start for _, each in taps]
    assert len(set(starts)) > 2
    assert starts == sorted(starts)
    assert 2 * taps[0][1].elements <= 1 + max(target.elements for _, target in taps)
    brought = [n for n, each in copies if each.source.buffer == "dram"]
    assert max(brought) < min(n for n, _ in taps)
    times = {each.instruction: each for each in found.trace.times}
    first = next(n for n, each in enumerate(instructions) if isinstance(each, MatMul))
    assert times[first].start < times[taps[len(taps) // 2][0]].start


CHANNELS = {"x": 4, "a": 4, "b": 4, "c": 3}
"""Of images before and after three convolutions; three equal ones would be parts."""


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("images", [1, 3])
def test_sums_are_taken_out_to_where_their_padding_lies(images, engine):
    """Of three convolutions, the sums of two go into padding; no engine copies them again."""
    builder, padding = GraphBuilder("dram"), [1, 1, 1, 1]
    data = {"x": whole((images, 5, 6, 4))}
    builder.tensor("x", f"f32[{images},5,6,4]{{2,1,3,0}}")
    expected = data["x"]
    for number, (before, after) in enumerate(zip("xab", "abc", strict=True)):
        weights = (3, 3, CHANNELS[before], CHANNELS[after])
        data[f"w{after}"] = whole(weights, number + 2)
        builder.tensor(f"w{after}", f"f32{list(weights)}".replace(" ", ""))
        given = {**PLAIN, "padding": padding}
        out = f"f32[{images},5,6,{CHANNELS[after]}]{{2,1,3,0}}"
        builder.add("conv2d", (before, f"w{after}"), out, name=after, groups=1, **given)
        expected = looped_convolution(expected, data[f"w{after}"], given)
    found = systolic.run(builder.graph(), CHIP, data, engine=engine)
    assert np.array_equal(found.outputs["c"], expected)
    within = [
        each for layer, each in zip(
            found.compiled.synchronised.layers, found.compiled.program.instructions, strict=True
        )
        if isinstance(each, Copy | DmaCopy) and layer in ("b", "c")
        and all(access.buffer == "state_buffer" for access in (each.source, each.target))
    ]  # fmt: skip
    assert within == []


def test_padding_comes_right_before_what_is_made_within_it():
    """If padding came first of all, its tiles would be on the chip long before they are used."""
    builder, given = GraphBuilder("dram"), {**PLAIN, "padding": [1, 1, 1, 1]}
    builder.tensor("x", "f32[1,5,6,4]{2,1,3,0}")
    for before, after in zip("xab", "abc", strict=True):
        builder.tensor(f"w{after}", f"f32[3,3,{CHANNELS[before]},{CHANNELS[after]}]")
        builder.add("conv2d", (before, f"w{after}"), f"f32[1,5,6,{CHANNELS[after]}]{{2,1,3,0}}",
                    name=after, groups=1, **given)  # fmt: skip
    compiled = compile_graph("padded", builder.graph(), CHIP)
    order = [
        (task.kind.word(), compiled.layers.nodes[task.node].layer) for task in compiled.tiled.tasks
    ]
    last = max(number for number, each in enumerate(order) if each == ("multiply", "a"))
    assert min(number for number, each in enumerate(order) if each == ("gather", "b")) == last + 1


def test_bias_and_ramp_take_the_sums_out():
    builder = GraphBuilder("dram")
    builder.tensor("x", "bf16[2,4,4,3]")
    builder.tensor("w", "bf16[3,3,3,5]")
    builder.tensor("b", "f32[5]")
    builder.add("conv2d", ("x", "w"), "f32[2,4,4,5]", name="s", padding=[1, 1, 1, 1])
    builder.add("binary", ("s", "b"), "f32[2,4,4,5]", name="t", operator="add",
                broadcast_dimensions=[3])  # fmt: skip
    builder.add("activation", ("t",), "bf16[2,4,4,5]", name="y", function="ramp")
    graph = builder.graph()
    data = {name: whole(graph.shape(name).dims).astype(graph.shape(name).dtype)
            for name in graph.inputs}  # fmt: skip
    found = systolic.run(graph, CHIP, data)
    given = {**PLAIN, "padding": [1, 1, 1, 1]}
    sums = looped_convolution(data["x"], data["w"], given) + data["b"]
    expected = np.maximum(sums, 0).astype(graph.shape("y").dtype)
    assert np.array_equal(found.outputs["y"].astype(np.float32), expected.astype(np.float32))
    instructions = found.compiled.program.instructions
    out_of_sums = [
        each
        for each in instructions
        if isinstance(each, OnEngine)
        and any(read.buffer == "result_buffer" for read in reads(each))
        and not isinstance(each, Copy)  # of turned images
    ]
    assert out_of_sums
    assert all(isinstance(each, Activate) and each.function == "ramp" for each in out_of_sums)


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("reduction", REDUCED)
def test_pooled_windows_are_those_of_plain_loops(reduction, engine):
    padding = [0, 0, 0, 0] if reduction == "median" else [1, 0, 0, 1]
    given = {"stride": [2, 1], "padding": padding, "dilation": [1, 2]}
    size, images = (2, 2), whole((3, 5, 6, 5))
    sides = made_sides(5, 6, given, size)
    builder = GraphBuilder("dram")
    builder.tensor("x", "f32[3,5,6,5]")
    builder.add("pool", ("x",), f"f32[3,{sides[0]},{sides[1]},5]", name="y", window=size,
                reduction=reduction, **given)  # fmt: skip
    value = {"max": -np.inf, "min": np.inf, "product": 1}.get(reduction, 0)
    expected = REDUCED[reduction](looped_windows(images, given, size, value), axis=(3, 4))
    found = systolic.run(builder.graph(), CHIP, {"x": images}, engine=engine)
    assert np.array_equal(found.outputs["y"], expected.astype(np.float32))


def test_all_windows_of_a_tile_are_one_instruction():
    builder = GraphBuilder("state_buffer")
    builder.tensor("x", "f32[6,4,4,3]{2,1,3,0}")
    builder.add("pool", ("x",), "f32[6,2,2,3]{2,1,3,0}", name="y", window=[2, 2], stride=[2, 2],
                reduction="max")  # fmt: skip
    program = systolic.run(builder.graph(), ideal_chip(16, 16), {"x": whole((6, 4, 4, 3))})
    pools = [each for each in program.compiled.program.instructions if isinstance(each, Pool)]
    assert [each.source.pattern for each in pools] == [((8, 12), (2, 2), (4, 2), (1, 2))]


def test_a_large_image_is_pooled_row_by_row():
    """A bank has 8 words: 16 results do not fit, so 8 pixels are read at once, or those of a row.

    A row of 4 results reads 2 rows of 8 pixels, and the next one 16 pixels of 4 bytes further on.
    """
    chip = ideal_chip(16, 16, result_buffer={"bank_bytes": 32})
    builder, images = GraphBuilder("state_buffer"), whole((1, 8, 8, 3))
    builder.tensor("x", "f32[1,8,8,3]{2,1,3,0}")
    builder.add("pool", ("x",), "f32[1,4,4,3]{2,1,3,0}", name="y", window=[2, 2], stride=[2, 2],
                reduction="max")  # fmt: skip
    found = systolic.run(builder.graph(), chip, {"x": images})
    pools = [each for each in found.compiled.program.instructions if isinstance(each, Pool)]
    assert [each.source.pattern for each in pools] == [((2, 4), (8, 2), (1, 2))] * 4
    starts = [each.source.start for each in pools]
    assert [start - starts[0] for start in starts] == [0, 64, 128, 192]
    given = {"stride": [2, 2], "padding": [0] * 4, "dilation": [1, 1]}
    expected = np.max(looped_windows(images, given, (2, 2), 0), axis=(3, 4))
    assert np.array_equal(found.outputs["y"], expected)


def pooled_convolution(*, pools: bool) -> GraphBuilder:
    """1 x 1 taps of 32 channels, two tiles of rows of 16, and perhaps the largest of 2 x 2."""
    builder = convolution((1, 8, 8, 32), (1, 1, 32, 4), home="state_buffer", layout="{2,1,3,0}")
    if pools:
        builder.add("pool", ("y",), "f32[1,4,4,4]{2,1,3,0}", name="z", window=[2, 2],
                    stride=[2, 2], reduction="max")  # fmt: skip
    return builder


@pytest.mark.parametrize("engine", ["event", "register"])
def test_pooling_begins_while_the_sums_of_later_pixels_grow(engine):
    """A group is one row of sums, not all 8: the second row is there after 4 of 16 multiplies.

    Without pooling all 8 rows grow side by side, which takes as many cycles of the array.
    """
    chip = ideal_chip(
        16, 16, pe_array={"weight_buffer": "double"}, result_buffer={"bank_bytes": 32}
    )
    inputs = {"x": whole((1, 8, 8, 32)), "w": whole((1, 1, 32, 4), 2)}
    alone = compile_graph("alone", pooled_convolution(pools=False).graph(), chip)
    found = systolic.run(pooled_convolution(pools=True).graph(), chip, inputs, engine=engine)
    groups = [loops.group for plan in (alone, found.compiled) for _, loops in plan.tiled.loops]
    assert groups == [(1, 8), (1, 1)]
    instructions = found.compiled.program.instructions
    starts = {cls: [time.start for time in found.trace.times
                    if isinstance(instructions[time.instruction], cls)]
              for cls in (Pool, MatMul)}  # fmt: skip
    assert len(starts[Pool]) == 4
    assert len(starts[MatMul]) == 16
    assert min(starts[Pool]) < sorted(starts[MatMul])[9]
    sums = looped_convolution(inputs["x"], inputs["w"], PLAIN)
    given = {"stride": [2, 2], "padding": [0] * 4, "dilation": [1, 1]}
    expected = np.max(looped_windows(sums, given, (2, 2), 0), axis=(3, 4))
    assert np.array_equal(found.outputs["z"], expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": 2},
         "groups: 2 of 3 channels each, and 6 filters shared out among them, do not go with "
         "f32[2,5,6,3]: weights are f32[3,3,3,6]"),
        ({"stride": [0, 1]},
         "stride: needs 2 numbers of at least 1 (down and across), found [0, 1]"),
        ({"padding": [1, -1, 0, 0]},
         "padding: needs 4 numbers of at least 0 (above, below, left and right), "
         "found [1, -1, 0, 0]"),
        ({"dilation": [3, 1]},
         "a window of 3 x 3 with dilation 3 x 1 reaches over 7 x 3 pixels, more than the 5 x 6 of "
         "f32[2,5,6,3] with its padding"),
        ({"padding": [1, 1, 1, 1]},
         "f32[2,5,6,3] with weights f32[3,3,3,6] has dimensions [2,5,6,6], but out is "
         "f32[2,3,4,6]"),
    ],
)  # fmt: skip
def test_a_convolution_that_does_not_fit_is_refused(given, message):
    builder = GraphBuilder()
    builder.tensor("x", "f32[2,5,6,3]")
    builder.tensor("w", "f32[3,3,3,6]")
    builder.add("conv2d", ("x", "w"), "f32[2,3,4,6]", name="y", **given)
    with pytest.raises(WorkloadError) as refused:
        builder.graph()
    assert str(refused.value) == f'operation "y": {message}'


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window": [2]}, "window: needs 2 numbers of at least 1 (down and across), found [2]"),
        ({"window": [6, 2]},
         "a window of 6 x 2 with dilation 1 x 1 reaches over 6 x 2 pixels, more than the 5 x 6 of "
         "f32[2,5,6,3] with its padding"),
        ({"window": [2, 2], "reduction": "median", "padding": [1, 0, 0, 0]},
         "padding: a median has none, which would be among its elements, found [1, 0, 0, 0]"),
        ({"window": [2, 2]}, "f32[2,5,6,3] gives f32[2,4,5,3], but out is f32[2,5,6,3]"),
    ],
)  # fmt: skip
def test_pooling_that_does_not_fit_is_refused(given, message):
    builder = GraphBuilder()
    builder.tensor("x", "f32[2,5,6,3]")
    builder.add("pool", ("x",), "f32[2,5,6,3]", name="y", **{"reduction": "max", **given})
    with pytest.raises(WorkloadError) as refused:
        builder.graph()
    assert str(refused.value) == f'operation "y": {message}'
