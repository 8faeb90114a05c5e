"""Is the value right? Functions of JAX, run by name, against JAX's own results."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.command_line import refused, run_command
from systolic import from_jax

jax = pytest.importorskip("jax")


def layer(parameters, x):
    hidden = jax.nn.gelu(x @ parameters["w"] + parameters["b"])
    return jax.nn.softmax(hidden), hidden.sum()


RNG = np.random.default_rng(5)
PARAMETERS = {"b": RNG.standard_normal(6).astype(np.float32),
              "w": RNG.standard_normal((8, 6)).astype(np.float32)}  # fmt: skip
X = RNG.standard_normal((3, 8)).astype(np.float32)


def test_a_function_runs_and_is_compared():
    result = from_jax(layer, PARAMETERS, X, chip="ideal_4x4")
    assert list(result.outputs) == ["output_0", "output_1"]
    assert result.summary["jax"].keys() == {"output_0", "output_1"}
    assert max(result.summary["jax"].values()) < 1e-6
    wanted = layer(PARAMETERS, X)
    np.testing.assert_allclose(result.outputs["output_0"], np.asarray(wanted[0]), atol=1e-6)


def test_the_comparison_notices_a_difference(monkeypatch):
    true = jax.tree.leaves
    monkeypatch.setattr(
        jax.tree, "leaves", lambda tree: [np.asarray(leaf) * 1.5 for leaf in true(tree)]
    )
    result = from_jax(lambda x: x * 2 + 1, X, chip="ideal_4x4")
    assert result.summary["jax"]["output_0"] > 0.01


def test_an_argument_on_which_nothing_depends_is_an_input_too():
    result = from_jax(jax.grad(lambda x, w: (x @ w).sum()), X, np.ones((8, 2), np.float32),
                      chip="ideal_4x4")  # fmt: skip
    assert result.summary["jax"]["output_0"] < 1e-6


def test_stablehlo_gives_the_cycles_of_hlo(tmp_path):
    lowered = jax.jit(layer).lower(PARAMETERS, X)
    (tmp_path / "net.mlir").write_text(lowered.as_text("stablehlo"))
    (tmp_path / "net.hlo").write_text(lowered.as_text("hlo"))
    cycles = {
        systolic.run(tmp_path / f"net.{kind}", "ideal_4x4", values=False).cycles
        for kind in ("mlir", "hlo")
    }
    assert len(cycles) == 1


def test_broken_stablehlo_is_a_line(tmp_path):
    file = tmp_path / "net.mlir"
    file.write_text("module @m {\n  func.func public @main(")
    assert "is not StableHLO that JAX's parser reads" in refused("run", file, "--chip", "ideal_4x4")


def test_the_command_line_takes_stablehlo(tmp_path):
    file = tmp_path / "net.mlir"
    file.write_text(jax.jit(layer).lower(PARAMETERS, X).as_text("stablehlo"))
    status, out, errors = run_command(
        "run", file, "--chip", "ideal_4x4", "--out", tmp_path / "out", "--no-plots"
    )
    assert (status, errors) == (0, "")
    assert "result equals numpy: yes" in out
