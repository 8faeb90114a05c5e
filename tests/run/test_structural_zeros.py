"""Infinities and NaN in convolutions of few channels: zeros between weights spread them.

A run's own verdict follows them; here it is held against the words of the machine, which multiplies
every zero. Without the spread most of these runs would be called wrong.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from systolic.compiler import CompiledGraph, Options
from systolic.compiler.ir.nodes import DiagonalNode
from systolic.run import expected
from systolic.workload import Graph, GraphBuilder

CHIPS = ("ideal_128x128", "neuroncore_v2", "patent_128x64", "ideal_4x4")


def drawn(rng: Random) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return a convolution, with a function over its sums at times, and inputs with odd numbers."""
    window, dilation = rng.choice([(1, 1), (2, 1), (3, 1), (3, 2)])
    height, width = rng.randint(5, 24), rng.randint(5, 24)
    channels, filters = rng.choice([1, 2, 3]), rng.choice([1, 4, 8])
    builder = GraphBuilder("dram")
    order = rng.choice(["{3,2,1,0}", "{2,1,3,0}"])
    x = builder.tensor("x", f"bf16[{rng.choice([1, 2])},{height},{width},{channels}]{order}")
    groups = rng.choice([1, 1, channels])
    filters *= groups
    w = builder.tensor("w", f"bf16[{window},{window},{channels // groups},{filters}]")
    stride, padding = rng.choice([1, 1, 2]), rng.choice([0, window // 2])
    builder.add(
        "conv2d", (x, w), name="y", stride=(stride, stride), padding=(padding,) * 4,
        dilation=(dilation, dilation), groups=groups,
    )  # fmt: skip
    if rng.random() < 0.5:
        builder.add("activation", ("y",), name="z", function="ramp")
    graph, inputs = builder.graph(), {}
    numbers = np.random.default_rng(rng.randint(0, 1 << 30))
    for name in graph.inputs:
        array = numbers.standard_normal(graph.shape(name).dims)
        for _ in range(rng.randint(1, 2) if name == "x" else rng.choice([0, 0, 1])):
            array.flat[numbers.integers(array.size)] = rng.choice([np.inf, -np.inf, np.nan])
        inputs[name] = array.astype(graph.shape(name).dtype)
    return graph, inputs


def is_in_lines(compiled: CompiledGraph) -> bool:
    own = compiled.streamed
    inside = [each.compiled for each in compiled.parts if hasattr(each, "compiled")]
    return (own is not None and own.convolution is not None) or any(map(is_in_lines, inside))


def ran(seed: int, **options: bool) -> tuple[bool, bool]:
    """Return whether a run was done as lines, and whether its values are those of the verdict."""
    rng = Random(f"structural zeros {seed}")
    graph, inputs = drawn(rng)
    run = systolic.run(graph, rng.choice(CHIPS), inputs, options=Options(**options))
    return is_in_lines(run.compiled), run.summary["values"]["equal"]


@pytest.mark.parametrize("seed", range(10))
def test_the_verdict_follows_what_structural_zeros_spread(seed):
    assert ran(seed)[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 200))
def test_the_verdict_follows_many(seed):
    assert ran(seed)[1]


def test_without_the_spread_runs_would_be_called_wrong(monkeypatch):
    monkeypatch.setattr(expected, "with_spread", lambda work, source, weights, sums: sums)
    found = [ran(seed) for seed in range(10)]
    assert sum(lines and not equal for lines, equal in found) >= 3


def test_structural_zeros_can_be_forbidden():
    assert any(ran(seed)[0] for seed in range(4))
    assert not any(ran(seed, structural_zeros=False)[0] for seed in range(4))


@pytest.mark.parametrize("structural_zeros", [True, False])
def test_a_channel_spoils_those_whose_weights_share_its_tile(structural_zeros):
    builder, numbers = GraphBuilder("dram"), np.random.default_rng(5)
    x = builder.tensor("x", "bf16[1,9,9,150]")
    w = builder.tensor("w", "bf16[3,3,1,150]")
    builder.add("conv2d", (x, w), name="y", groups=150)
    graph = builder.graph()
    inputs = {
        name: numbers.standard_normal(graph.shape(name).dims).astype(graph.shape(name).dtype)
        for name in graph.inputs
    }
    inputs["x"][0, 4, 4, 3] = np.inf
    options = Options(structural_zeros=structural_zeros)
    run = systolic.run(graph, "ideal_128x128", inputs, options=options)
    assert run.summary["values"]["equal"]
    assert (
        any(isinstance(node, DiagonalNode) for node in run.compiled.layers.nodes)
        == structural_zeros
    )
    if structural_zeros:
        odd = ~np.isfinite(run.outputs["y"].astype(np.float32)).all(axis=(0, 1, 2))
        assert list(np.flatnonzero(odd)) == list(range(128))
        values = run.summary["values"]
        own = 9  # windows see the infinity; the turn of the images spreads it to all 49
        assert values["differs_from_numpy"] == 49 * 128 - own
        assert values["out_of_range"] == []
