"""The bits that a chip must give for a compiled graph: the reference in the program's arithmetic.

The program says in which order a product adds its rows, and what the array turns on the way by
multiplying it with an identity. There a NaN or an infinity spreads over what is multiplied
together, and -0.0 becomes +0.0; all other values stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from systolic.arrays import Array, Integers
from systolic.compiler import CompiledGraph, ProgramArithmetic
from systolic.run.structural_zeros import with_spread
from systolic.workload import Operation, Rules, reference_transpose, reference_values


def expected_values(
    compiled: CompiledGraph, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], bool]:
    """Return all tensors with the bits that the chip must give, and whether signs of zeros may go.

    Of a graph in parts each part has the arithmetic of its own program.
    """
    if compiled.parts:
        return _in_parts(compiled, inputs)
    arithmetic = compiled.arithmetic
    read = _AsRead(compiled, arithmetic, inputs)
    values = reference_values(arithmetic.graph, inputs, arithmetic.rules, arithmetic.own, read)
    values |= {name: read("", name, values[name]) for name in compiled.graph.outputs}
    return values, arithmetic.loses_signs


def _in_parts(
    compiled: CompiledGraph, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], bool]:
    """Return what `expected_values` does, part by part: each takes boxes of what others made."""
    graph, values, turned = compiled.divided or compiled.graph, dict(inputs), False
    rules = compiled.arithmetic.rules
    for part in compiled.parts:
        if isinstance(part, Operation):
            values[part.output] = _of_operation(part, compiled, values, rules)
            continue
        own = {}
        for name in part.compiled.graph.inputs:
            tensor, box = part.boxes[name]
            own[name] = np.array(values[tensor][box.slices], order="C")  # of rank 0 too
        made, turns = expected_values(part.compiled, own)
        turned = turned or turns
        for name in made.keys() - own.keys():
            tensor, box = part.boxes[name]
            shape = graph.shape(tensor)
            values.setdefault(tensor, np.zeros(shape.dims, shape.dtype))[box.slices] = made[name]
    return values, turned


def _of_operation(
    op: Operation, compiled: CompiledGraph, values: Mapping[str, Array], rules: Rules
) -> Array:
    """Return the result of an operation that has no instructions."""
    out = (compiled.divided or compiled.graph).shape(op.output)
    return op.row.reference([values[name] for name in op.inputs], out, op.attributes, rules)


class _AsRead:
    """The values of tensors as operations read them ("": as the end of the run does)."""

    def __init__(
        self, compiled: CompiledGraph, arithmetic: ProgramArithmetic, inputs: Mapping[str, Array]
    ) -> None:
        self._compiled, self._lines, self._inputs = compiled, arithmetic.lines, inputs

    def __call__(self, reader: str, tensor: str, values: Array) -> Array:
        if self._lines is not None:
            return self._after_lines(tensor, values)
        if turns_whole(values) or not (sums := self._sums.get((reader, tensor))):
            return values
        flat = np.append(values.ravel(), np.zeros(1, values.dtype))  # the last: of no element
        for at in sums:
            flat[at] = reference_transpose(flat[at]).T
        return np.asarray(flat[:-1].reshape(values.shape))

    @cached_property
    def _sums(self) -> dict[tuple[str, str], list[Integers]]:
        found: dict[tuple[str, str], list[Integers]] = {}
        for each in self._compiled.turned_elements():
            found.setdefault((each.reader, each.tensor), []).append(each.at)
        return found

    def _after_lines(self, tensor: str, values: Array) -> Array:
        """Return the sums of a convolution as structural zeros leave them."""
        assert self._lines is not None
        if tensor != self._lines.tensor or values.dtype.kind in "iu":
            return values
        source, weights = (self._inputs[name] for name in self._lines.operands)
        return with_spread(self._lines, source, weights, values)


def turns_whole(values: Array) -> bool:
    """Return whether identity products leave every element as it is."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        negative_zeros = (values == 0) & np.signbit(values)
        return bool(np.isfinite(values).all() and not negative_zeros.any())
