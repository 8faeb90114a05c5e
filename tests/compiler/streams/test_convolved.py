"""Is the value right? Convolutions and products as lines, in every way: by bits, both engines."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.lane_graphs import values
from systolic.compiler.compiled import CompiledGraph
from systolic.compiler.pipeline import compile_graph, programs_of_lines
from systolic.config import load_chip
from systolic.isa import require_clean
from systolic.machine import simulate
from systolic.run.judge import judge_on
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.run.verdict import graph_verdict
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options


def chip(rng: Random):
    """Return a small chip whose ports serve a bank or a partition."""
    scope = rng.choice(["bank", "partition"])
    return ideal_chip(
        *rng.choice([(8, 8), (16, 8), (12, 16)]),
        state_buffer={"bytes_per_partition": 1 << 16, "port_scope": scope},
        result_buffer={"banks": rng.choice([2, 4, 8]), "bank_bytes": 4 * rng.choice([32, 64])},
        dma={"queues": rng.choice([1, 2, 4]), "latency_cycles": rng.randint(0, 20)},
    )


def convolution(rng: Random) -> Graph:
    """Return a convolution of few channels, perhaps with what goes over its sums."""
    builder, dtype = GraphBuilder("dram"), rng.choice(["f32", "bf16", "s8"])
    down, across = rng.choice([(1, 1), (1, 1), (3, 3), (2, 3), (3, 1)])
    stride = rng.choice([(1, 1), (2, 2), (1, 2)]) if (down, across) != (1, 1) else (1, 1)
    dilation = rng.choice([(1, 1), (1, 1), (2, 2)])
    reach = ((down - 1) * dilation[0] + 1, (across - 1) * dilation[1] + 1)
    padding = [rng.randint(0, reach[n // 2] - 1) for n in range(4)]
    images, height, width = rng.choice([1, 2]), rng.randint(6, 14), rng.randint(6, 14)
    channels = rng.choice([1, 2] if down * across > 1 else [2, 5, 20])
    filters = rng.choice([2, 5])
    groups = rng.choice([1, 1, channels])
    filters *= groups
    order, to = (rng.choice(["{3,2,1,0}", "{3,2,1,0}", "{2,1,3,0}"]) for _ in range(2))
    x = builder.tensor("x", f"{dtype}[{images},{height},{width},{channels}]{order}")
    w = builder.tensor("w", f"{dtype}[{down},{across},{channels // groups},{filters}]")
    high = (height + padding[0] + padding[1] - reach[0]) // stride[0] + 1
    wide = (width + padding[2] + padding[3] - reach[1]) // stride[1] + 1
    out = f"{'s32' if dtype == 's8' else 'f32'}[{images},{high},{wide},{filters}]{to}"
    given = {"stride": stride, "padding": tuple(padding), "dilation": dilation, "groups": groups}
    sums = builder.add("conv2d", (x, w), out, name="sums", **given)
    over = rng.random() < 0.5
    if over and dtype == "s8":
        scales = builder.tensor("scales", f"f32[{filters}]")
        builder.add("requantise", (sums, scales), out.replace("s32", "s8"), name="y")
    elif over:
        bias = builder.tensor("bias", f"f32[{filters}]")
        added = {"operator": "add", "broadcast_dimensions": (3,)}
        sums = builder.add("binary", (sums, bias), out, name="biased", **added)
        last = out.replace("f32", dtype)
        builder.add("activation", (sums,), last, name="y", function="ramp")
    return builder.graph()


def product(rng: Random) -> Graph:
    """Return rows, perhaps in several matrices or with K along columns, times one matrix."""
    builder, dtype = GraphBuilder("dram"), rng.choice(["f32", "bf16", "s8"])
    batch = [rng.choice([1, 2, 3]) for _ in range(rng.choice([0, 1, 2]))]
    rows, inner, columns = rng.randint(3, 60), rng.choice([1, 3, 20]), rng.choice([2, 5, 16])
    order = [f"{{{','.join(map(str, range(len(batch) + 1, -1, -1)))}}}", ""]
    turned = [len(batch), len(batch) + 1, *range(len(batch) - 1, -1, -1)]
    order[1] = f"{{{','.join(map(str, turned))}}}"
    dims = [",".join(map(str, (*batch, rows, n))) for n in (inner, columns)]
    x = builder.tensor("x", f"{dtype}[{dims[0]}]{rng.choice(order)}")
    ones = "1," * rng.randint(0, len(batch))
    w = builder.tensor("w", f"{dtype}[{ones}{inner},{columns}]")
    out = f"{'s32' if dtype == 's8' else 'f32'}[{dims[1]}]{rng.choice(order)}"
    sums = builder.matmul(x, w, out, name="sums")
    if dtype != "s8" and rng.random() < 0.5:
        bias = builder.tensor("bias", f"f32[{columns}]")
        added = {"operator": "add", "broadcast_dimensions": (len(batch) + 1,)}
        builder.add("binary", (sums, bias), out, name="y", **added)
    return builder.graph()


def check(seed: int) -> int:
    """Check all ways of a convolution or product; return how many there are."""
    rng = Random(seed)
    graph, hardware = rng.choice([convolution, product])(rng), chip(rng)
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    if seed % 4 == 0 and graph.shape("x").dtype.kind == "f":
        inputs["x"].reshape(-1)[rng.randrange(inputs["x"].size)] = np.inf
    ways = 0
    for compiled in programs_of_lines("lines", graph, hardware, Options(), every=True):
        assert isinstance(compiled, CompiledGraph)
        ways += 1
        require_clean(compiled.program, hardware, initial_accesses(compiled))
        images, times = graph_images(compiled, inputs), []
        for engine in ("event", "register"):
            outcome = simulate(hardware, compiled.program, images, engine=engine)
            found = graph_results(compiled, outcome.memory)
            verdict = graph_verdict(compiled, hardware, inputs, found)
            assert verdict["equal"], (seed, str(graph), compiled.layers.choices, verdict["wrong"])
            if graph.shape("w").dtype.kind == "f" and np.isfinite(inputs["x"]).all():
                largest = np.abs(found[graph.outputs[0]].astype(np.float64)).max()
                assert verdict["max_abs_error"] <= 0.02 * largest + 1e-3
            times.append(outcome.trace.times)
        assert times[0] == times[1]
    return ways


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_random_convolutions(first):
    assert sum(check(seed) for seed in range(first, first + 4)) > 2


@pytest.mark.slow
def test_many_random_convolutions():
    assert sum(check(seed) for seed in range(100, 200)) > 100


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_only_a_bias_along_the_filters_is_one_number_of_each(axis):
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "bf16[1,16,16,3]"), builder.tensor("w", "bf16[3,3,3,16]")
    bias = builder.tensor("bias", "f32[16]")
    sums = builder.conv2d(x, w, out="f32[1,16,16,16]", padding=(1, 1, 1, 1), name="sums")
    builder.add("binary", (sums, bias), "f32[1,16,16,16]", name="y", operator="add",
                broadcast_dimensions=(axis,))  # fmt: skip
    graph, rng = builder.graph(), np.random.default_rng(axis)
    inputs = {
        name: rng.integers(-3, 4, graph.shape(name).dims).astype(graph.shape(name).dtype)
        for name in graph.inputs
    }
    found = systolic.run(graph, "ideal_128x128", inputs)
    added = [1, 1, 1, 1]
    added[axis] = 16
    padded = np.pad(inputs["x"].astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    made = np.einsum("nhwcij,ijcf->nhwf", windows, inputs["w"].astype(np.float32))
    np.testing.assert_array_equal(found.outputs["y"], made + inputs["bias"].reshape(added))


def test_a_product_is_a_convolution_with_windows_of_one_pixel():
    """Both become the same instructions."""
    chip, made = load_chip(CHIPS / "ideal_128x128.toml"), []
    for kind, ones in (("matmul", ""), ("conv2d", "1,1,")):
        builder = GraphBuilder("dram")
        x = builder.tensor("x", f"bf16[{ones}1024,64]")
        w = builder.tensor("w", f"bf16[{ones}64,64]")
        builder.add(kind, (x, w), f"bf16[{ones}1024,64]", name="y")
        made.append(compile_graph("one", builder.graph(), chip, judge=judge_on(chip)))
    product, convolved = made
    assert product.streamed is not None
    assert product.program.instructions == convolved.program.instructions


def test_a_product_with_a_choice_of_its_own_gets_its_tiles():
    builder, chip = GraphBuilder("dram"), ideal_chip(8, 8)
    x, w = builder.tensor("x", "bf16[64,8]"), builder.tensor("w", "bf16[8,8]")
    builder.matmul(x, w, "bf16[64,8]", name="y")

    def ways(options: Options) -> int:
        return len(list(programs_of_lines("y", builder.graph(), chip, options, every=False)))

    assert ways(Options())
    asked = Options(stationary="rhs"), Options(tile_columns=64), Options(via="pe")
    assert not any(map(ways, asked))
