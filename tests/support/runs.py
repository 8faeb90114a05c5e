"""Compile and simulate a transpose from plain values: what `systolic.run` does, without files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from systolic.compiler import CompiledGraph, Options, compile_graph
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.machine import Outcome, simulate
from systolic.run.tensors import graph_images, graph_results
from systolic.workload import Graph, Tensor, TransposeAttributes
from systolic.workload.lone import default_out, lone_graph


def transpose_graph(
    source: Shape,
    permutation: Sequence[int] | None = None,
    out: str | None = None,
    home: Any = "state_buffer",
) -> Graph:
    """Return a lone transpose; its result is row major unless `out` says otherwise."""
    attributes = TransposeAttributes(None if permutation is None else tuple(permutation))
    inputs = [Tensor(source, home)]
    wanted = default_out("transpose", inputs, attributes)
    assert wanted is not None
    result = wanted if out is None else Tensor(Shape.parse(out), home)
    return lone_graph("transpose", inputs, result, attributes)


def compile_transpose(
    shape: str | Shape,
    permutation: Sequence[int] | None,
    chip: Chip,
    options: Options | None = None,
    home: Any = "state_buffer",
    out: str | None = None,
) -> CompiledGraph:
    """Return the compilation."""
    source = Shape.parse(shape) if isinstance(shape, str) else shape
    graph = transpose_graph(source, permutation, out, home)
    return compile_graph("test", graph, chip, options)


def run_transpose(
    chip: Chip,
    shape: str,
    data: np.ndarray,
    permutation: Sequence[int] | None = None,
    *,
    home: Any = "state_buffer",
    out: str | None = None,
    options: Options | None = None,
    **simulate_options: Any,
) -> tuple[np.ndarray, Outcome, CompiledGraph]:
    """Return result, outcome and compilation."""
    compiled = compile_transpose(shape, permutation, chip, options, home, out)
    images = graph_images(compiled, {"source": data})
    outcome = simulate(chip, compiled.program, images, **simulate_options)
    return graph_results(compiled, outcome.memory)["result"], outcome, compiled
