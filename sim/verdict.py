"""The verdict on the values of a run: against the reference, against numpy, and against float64.

Nothing is simulated or printed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.compiler import CompiledGraph, k_tiles
from sim.compiler.matrix import Axes, Matrix
from sim.compiler.tile import turn_rows
from sim.hw.spec import Chip
from sim.workload import (
    Rules,
    differing,
    exact_graph,
    max_abs_error,
    numpy_transpose,
    reference_graph,
    reference_transpose,
)

Array = npt.NDArray[Any]


def graph_verdict(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> dict[str, Any]:
    """Return the verdict on the values: against the reference, numpy's type, and float64."""
    (op, *others), graph = compiled.graph.operations, compiled.graph
    if op.kind == "transpose" and not others:
        result = outputs[op.output]
        return _transpose_verdict(compiled, chip, inputs[op.inputs[0]], result, op.permutation)
    expected = reference_graph(graph, _as_turned(compiled, chip, inputs), rules_of(chip))
    true = exact_graph(graph, inputs)
    strict = sum(differences(outputs[n], expected[n]) for n in outputs)
    turned = any(node.kind == "turn" for node in compiled.layers.nodes)
    wrong = sum(differences(outputs[n], expected[n], signed_zeros=not turned) for n in outputs)
    return {
        "checked": True,
        "equal": wrong == 0,
        "max_abs_error": max(max_abs_error(outputs[n], true[n]) for n in outputs),
        "differs_from_numpy": strict,
    }


def _transpose_verdict(
    compiled: CompiledGraph, chip: Chip, data: Array, result: Array, permutation: Sequence[int]
) -> dict[str, Any]:
    """Return the verdict on a lone transpose, down to the sign of a zero."""
    exact = numpy_transpose(data, permutation)
    unlike_numpy = differing(result, exact)
    error = max_abs_error(result, exact) if unlike_numpy else 0.0
    equal = unlike_numpy == 0
    turned = [n.inputs[0] for n in compiled.layers.nodes if n.kind == "turn"]
    if turned:
        del exact  # a large tensor's copies are the most memory a run takes
        matrix = compiled.layers.matrix(turned[0])
        back = {axis: place for place, axis in enumerate(permutation)}
        *batch, rows, cols = (tuple(back[axis] for axis in group) for group in matrix.axes)
        found = _turned(compiled, chip, matrix, data)
        contract = as_tensor(found, (*batch, cols, rows), result.shape)
        equal = differing(result, contract) == 0
    return {
        "checked": True,
        "equal": equal,
        "max_abs_error": error,
        "differs_from_numpy": unlike_numpy,
    }


def _turned(compiled: CompiledGraph, chip: Chip, matrix: Matrix, data: Array) -> Array:
    """Return what identity products make of a matrix, [batch..., columns, rows]."""
    matrices = as_matrices(data, matrix.axes)
    last = matrices.ndim - 1
    swapped = (*range(last - 1), last, last - 1)
    bounds = turn_rows(matrix, compiled.tiled.block, chip)
    return reference_transpose(matrices, swapped, row_blocks=bounds, row_axes=(last - 1,))


def _as_turned(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the inputs as identity products leave them: a NaN or an infinity has spread."""
    found = dict(inputs)
    for node in compiled.layers.nodes:
        matrix = compiled.layers.matrix(node.inputs[0])
        name = matrix.tensor
        if node.kind != "turn" or name not in inputs or np.isfinite(inputs[name]).all():
            continue
        turned = np.swapaxes(_turned(compiled, chip, matrix, inputs[name]), -1, -2)
        found[name] = as_tensor(turned, matrix.axes, inputs[name].shape)
    return found


def as_tensor(matrices: Array, axes: Axes, dims: tuple[int, ...]) -> Array:
    """Return in logical order what `as_matrices` shows as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    moved = np.ascontiguousarray(matrices).reshape([dims[axis] for axis in order])
    return np.ascontiguousarray(moved.transpose(np.argsort(order)))


def differences(found: Array, expected: Array, *, signed_zeros: bool = True) -> int:
    """Return how many elements differ in any bit; -0.0 equals +0.0 unless `signed_zeros`.

    A product with the identity makes +0.0 of -0.0 (docs/timing_model.md, "Values").
    """
    found, expected = np.ascontiguousarray(found), np.ascontiguousarray(expected)
    if not signed_zeros:
        found, expected = found.copy(), expected.copy()
        found[found == 0] = 0
        expected[expected == 0] = 0
    return differing(found, expected)


def rules_of(chip: Chip) -> Rules:
    """Return what the arithmetic of a chip depends on."""
    return Rules(lambda K: k_tiles(chip, K), chip.pe_array.fused_multiply_add)


def as_matrices(array: Array, axes: Axes) -> Array:
    """Return a tensor seen as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    sizes = [math.prod(array.shape[axis] for axis in group) for group in axes]
    return array.transpose(order).reshape(sizes)
