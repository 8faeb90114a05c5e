"""Compile and simulate a transpose from plain values: what `sim.run` does, without files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.compiler import Compiled, Options, compile_transpose
from sim.hw.spec import Chip
from sim.layout import Shape
from sim.machine import Outcome, simulate
from sim.run import images, read_result
from sim.workload import Transpose, transpose


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
) -> tuple[np.ndarray, Outcome, Compiled, Transpose]:
    """Return result, outcome, compilation and operation."""
    operation = transpose(
        Shape.parse(shape), permutation, None if out is None else Shape.parse(out), home
    )
    compiled = compile_transpose(
        "test", operation.shape, operation.permutation, chip, options, home, operation.out
    )
    outcome = simulate(
        chip, compiled.program, images(compiled, data, operation.shape), **simulate_options
    )
    return read_result(compiled, outcome.memory, operation), outcome, compiled, operation
