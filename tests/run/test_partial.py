"""Is the value right? What a chip cannot do is done on the host, between runs of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.chips import ideal_chip
from support.command_line import run_command
from systolic.run.partial import refused_operations, run_partial
from systolic.workload import GraphBuilder

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "workload" / "importers" / "hlo" / "corpus"
CHIP = ideal_chip(4, 4, engines={
    "activation": {"does": ["copy", "activate", "pool", "memset", "tensor_tensor",
                            "tensor_scalar"]},
})  # fmt: skip


def graph_with_a_mask():
    """The sums are taken inside the first part, behind it on the host, and are an output."""
    builder = GraphBuilder()
    for name in ("a", "b"):
        builder.tensor(name, "f32[3,5]")
    builder.binary("a", "b", operator="add", name="sums")
    builder.activation("sums", function="square", name="squares")
    builder.causal_mask("squares", name="chosen", value=-2.0)
    builder.activation("chosen", function="abs", name="y")
    return builder.graph(["sums", "y"])


def test_host_and_chip_take_turns():
    graph = graph_with_a_mask()
    a, b = np.random.default_rng(1).integers(-3, 3, (2, 3, 5)).astype(np.float32)
    refused = refused_operations(graph, CHIP)
    assert list(refused) == ["chosen"]
    assert "does select" in refused["chosen"]
    result = run_partial(graph, CHIP, {"a": a, "b": b})
    sums = a + b
    assert np.array_equal(result.outputs["sums"], sums)
    assert np.array_equal(result.outputs["y"], np.where(np.tri(3, 5), sums**2, 2.0))
    assert [(step.operation, step.bytes_moved) for step in result.host] == [("chosen", 2 * 15 * 4)]
    assert result.cycles == sum(part.cycles for part in result.parts)
    assert len(result.parts) == 2


@pytest.mark.parametrize("values", ["exact", "none"])
def test_the_command_says_what_the_host_did(values, tmp_path):
    status, out, errors = run_command(
        "run", CORPUS / "attn_finite.hlo", "--chip", "neuroncore_v1", "--partial", "--out",
        tmp_path, "--no-plots", "--values", values,
    )  # fmt: skip
    assert (status, errors) == (0, "")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {step["op"] for step in summary["host"]} == {"matmul"}
    assert all(step["cycles"] == 0 for step in summary["host"])
    assert f"{summary['cycles']:,} cycles of the chip" in out
    assert (tmp_path / "output_0.npy").exists() == (values == "exact")
