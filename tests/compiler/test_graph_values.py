"""Is the value right? Random small graphs on random chips, against plain numpy, bit for bit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from sim.compiler import Options
from sim.errors import SystolicError
from sim.hw.datatypes import data_type
from sim.layout import Shape
from sim.run_graph import differences, rules_of, run_graph
from sim.workload import Graph, GraphBuilder, reference_graph
from support.chips import ideal_chip

FLOATS = ("f32", "bf16", "f16", "f8e4m3fn", "f8e5m2")


def random_chip(rng: Random):
    rows, cols = rng.randint(1, 9), rng.randint(1, 9)
    partitions = rng.randint(max(rows, cols), 12)
    return ideal_chip(
        rows, cols,
        state_buffer={"partitions": partitions, "banks": rng.choice([1, 8]),
                      "bytes_per_partition": rng.choice([512, 2048, 65536])},
        pe_array={
            "weight_buffer": rng.choice(["double", "single", "serial"]),
            "weight_path": rng.choice(["left", "top"]),
            "fused_multiply_add": rng.random() < 0.2,
        },
        result_buffer={"banks": rng.randint(1, 8), "bank_bytes": 4 * rng.randint(4, 40)},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.randint(0, 20)},
    )  # fmt: skip


def random_layout(rng: Random, rank: int) -> str:
    order = list(range(rank))
    rng.shuffle(order)
    tile = rng.choice(["", "", ":T(4,8)", ":T(2,2)(2,1)"]) if rank >= 2 else ""
    return "{" + ",".join(map(str, order)) + tile + "}"


def random_shape(rng: Random, dtype: str, dims) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]{random_layout(rng, len(dims))}"


def random_graph(rng: Random) -> Graph:
    """A chain of one to four operations that starts with a product or a move."""
    homes = ["state_buffer", "dram"]
    builder = GraphBuilder(rng.choice(homes))
    integer = rng.random() < 0.3
    dtype = "s8" if integer else rng.choice(FLOATS)
    batch = [rng.randint(1, 3) for _ in range(rng.choice([0, 0, 1, 2]))]
    dims = [*batch, rng.randint(1, 20), rng.randint(1, 20)]
    now = builder.tensor("x", random_shape(rng, dtype, dims), rng.choice(homes))
    for number in range(rng.randint(1, 4)):
        now, dtype, dims = _grow(rng, builder, now, dtype, dims, number)
    return builder.graph()


def _grow(rng, builder, now, dtype, dims, number):
    integer = data_type(dtype).accumulator == "s32"
    kinds = ["matmul", "matmul", "transpose", "relayout", "reshape", "cast"]
    kind = rng.choice([k for k in kinds if k != "matmul" or dtype != "s32"])
    if kind == "matmul":
        n = rng.randint(1, 20)
        out = rng.choice(["s8", "s32"] if integer else [t for t in FLOATS])
        others = [*dims[:-2], dims[-1], n]
        other = builder.tensor(f"w{number}", random_shape(rng, dtype, others),
                               rng.choice(["state_buffer", "dram"]))
        result = [*dims[:-1], n]
        return builder.matmul(now, other, random_shape(rng, out, result), name=f"y{number}"), out, result
    if kind == "transpose":
        axes = list(range(len(dims)))
        rng.shuffle(axes)
        result = [dims[a] for a in axes]
        return builder.transpose(now, random_shape(rng, dtype, result), axes, name=f"y{number}"), dtype, result
    if kind == "reshape":
        result = [dims[0] * dims[1], *dims[2:], 1] if rng.random() < 0.5 else [1, *dims]
    else:
        result = dims
    out = dtype
    if kind == "cast":
        out = rng.choice(["s8", "s32"] if integer else FLOATS)
    return builder.add(kind, (now,), random_shape(rng, out, result), name=f"y{number}"), out, result


def random_values(rng: Random, shape: Shape) -> np.ndarray:
    numbers = np.random.default_rng(rng.randint(0, 1 << 30))
    if shape.dtype.kind in "iu":
        return numbers.integers(-128, 128, shape.dims).astype(shape.dtype)
    return numbers.standard_normal(shape.dims, dtype=np.float32).astype(shape.dtype)


@pytest.mark.parametrize("seed", range(120))
def test_random_graphs(seed):
    rng = Random(seed)
    chip, graph = random_chip(rng), random_graph(rng)
    options = Options(
        identity=rng.choice(["stored", "built"]), drain_engine=rng.choice(["activation", "pooling"])
    )
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    try:
        run = run_graph(graph, chip, inputs, options=options)
    except SystolicError as error:
        assert "no room" in str(error)
        return
    expected = reference_graph(graph, inputs, rules_of(chip))
    for name, array in expected.items():
        assert run.outputs[name].shape == array.shape
        turned = any(node.kind == "turn" for node in run.compiled.layers.nodes)
        wrong = differences(run.outputs[name], array, signed_zeros=not turned)
        assert wrong == 0, f"{name}: {graph}"
