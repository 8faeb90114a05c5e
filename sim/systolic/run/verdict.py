"""The verdict on a run's values: compared with the reference, with numpy and with float64.

Not here: the bits that the chip must give (`systolic.run.expected`). Nothing is simulated or
printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.compiler import CompiledGraph
from systolic.errors import ResultError
from systolic.hw.spec import Chip
from systolic.report.summary.values import wrong_text
from systolic.run.expected import expected_values
from systolic.trace.words import decimal
from systolic.workload import (
    Operation,
    TransposeAttributes,
    differing,
    exact_graph,
    first_differing,
    max_abs_error,
    numpy_transpose,
    range_losses,
)


def graph_verdict(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> dict[str, Any]:
    """Return the verdict on the values: compared with the reference, with numpy and with float64.

    Keys: checked; equal; max_abs_error (from float64); differs_from_numpy (how many elements);
    wrong (a record for each output that differs from the reference); out_of_range (a record for
    each tensor whose type could not hold its numbers).
    """
    (op, *others), graph = compiled.graph.operations, compiled.graph
    if op.kind == "transpose" and not others:
        return _transpose_verdict(compiled, chip, op, inputs[op.inputs[0]], outputs[op.output])
    values, turned = expected_values(compiled, inputs)
    true = exact_graph(graph, inputs)
    strict = sum(differences(outputs[n], values[n]) for n in outputs)
    spoiled = sum(_spoiled(outputs[n], true[n]) for n in outputs)
    wrong = [_wrong(n, outputs[n], values[n], signed_zeros=not turned) for n in outputs]
    return _verdict(
        wrong=wrong,
        max_abs_error=max(max_abs_error(outputs[n], true[n]) for n in outputs),
        differs_from_numpy=strict + spoiled,
        out_of_range=[asdict(loss) for loss in range_losses(graph, values)],
    )


def _spoiled(found: Array, true: Array) -> int:
    """Return how many elements are NaN and should be numbers: zeros times an infinity or a NaN."""
    if found.dtype.kind in "iub":
        return 0
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(np.isnan(found) & np.isfinite(true)))


def _verdict(
    *,
    wrong: Sequence[Mapping[str, Any] | None],
    max_abs_error: float,
    differs_from_numpy: int,
    out_of_range: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    found = [record for record in wrong if record]
    return {
        "checked": True,
        "equal": not found,
        "max_abs_error": max_abs_error,
        "differs_from_numpy": differs_from_numpy,
        "wrong": found,
        "out_of_range": list(out_of_range),
    }


def require_right(summary: Mapping[str, Any]) -> None:
    """Raise ResultError if a run's values were compared and are wrong."""
    values = summary.get("values", {})
    if values.get("checked") and not values["equal"]:
        raise ResultError(f"{summary['run']}: the result is wrong: {wrong_text(values)}")


def _wrong(
    name: str, found: Array, expected: Array, *, signed_zeros: bool = True
) -> dict[str, Any] | None:
    """Return where and how an output differs from the expected array; None if they are equal."""
    found, expected = _comparable(found, expected, signed_zeros)
    elements = differing(found, expected)
    if not elements:
        return None
    first = first_differing(found, expected)
    assert first is not None
    return {
        "output": name,
        "elements": elements,
        "of": found.size,
        "first": list(first),
        "found": decimal(found[first]),
        "expected": decimal(expected[first]),
    }


def _transpose_verdict(
    compiled: CompiledGraph, chip: Chip, op: Operation, data: Array, result: Array
) -> dict[str, Any]:
    """Return the verdict on a lone transpose, down to the sign of a zero."""
    expected = numpy_transpose(data, op.attributes_as(TransposeAttributes).axes)
    unlike_numpy = differing(result, expected)
    error = max_abs_error(result, expected) if unlike_numpy else 0.0
    del expected  # a large tensor's copies are the most memory a run takes
    expected = expected_values(compiled, {op.inputs[0]: data})[0][op.output]
    return _verdict(
        wrong=[_wrong(op.output, result, expected)],
        max_abs_error=error,
        differs_from_numpy=unlike_numpy,
    )


def differences(found: Array, expected: Array, *, signed_zeros: bool = True) -> int:
    """Return how many elements differ in any bit; -0.0 equals +0.0 unless `signed_zeros`.

    A product with the identity makes +0.0 of -0.0 (docs/timing_model.md, "Values").
    """
    return differing(*_comparable(found, expected, signed_zeros))


def _comparable(found: Array, expected: Array, signed_zeros: bool) -> tuple[Array, Array]:
    """Return both arrays in row-major order, without signs of zeros unless `signed_zeros`."""
    found, expected = np.ascontiguousarray(found), np.ascontiguousarray(expected)
    if not signed_zeros:
        found, expected = found.copy(), expected.copy()
        found[found == 0] = 0
        expected[expected == 0] = 0
    return found, expected
