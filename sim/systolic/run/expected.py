"""The bits that a chip must give for a compiled graph: the reference in the program's arithmetic.

The program says in which order a product adds its rows, and what the array turns on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from systolic.arrays import Array
from systolic.compiler import CompiledGraph, k_tiles
from systolic.compiler.ir.folded_rows import RowFold
from systolic.compiler.ir.nodes import MultiplyNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.lower.engines.whole_rows import row_work
from systolic.compiler.places.modes import places
from systolic.compiler.streams.convolved import Convolution
from systolic.compiler.streams.lines import k_bounds, k_order
from systolic.compiler.streams.turned import TurnedSpans
from systolic.hw.spec import Chip
from systolic.layout import pack, unpack
from systolic.run.structural_zeros import with_spread
from systolic.run.turned import IdentityProducts, ReaderTurns, turns_whole
from systolic.workload import Graph, Operation, Rules, reference_transpose, reference_values
from systolic.workload.expand import expanded


def expected_values(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], bool]:
    """Return all tensors with the bits that the chip must give, and whether signs of zeros may go.

    Of a graph in parts each part has the arithmetic of its own program.
    """
    if compiled.parts:
        return _in_parts(compiled, chip, inputs)
    (op, *others), graph = compiled.graph.operations, compiled.graph
    if compiled.streamed is not None and compiled.streamed.convolution is None:
        held = partial(_as_spans_leave_it, graph, compiled.streamed.turned)
        return reference_values(graph, inputs, rules_of(chip), held=held), False
    if op.kind == "transpose" and not others:
        found = IdentityProducts(compiled, chip).transposed(op, inputs[op.inputs[0]])
        return {**inputs, op.output: found}, False
    # What parts of composites read is turned.
    compiled = replace(compiled, graph=expanded(graph, row_work(chip)))
    own, parts = rules_of_products(compiled, chip), compiled.graph
    if compiled.streamed is not None and compiled.streamed.convolution is not None:
        work = compiled.streamed.convolution
        held = partial(_as_lines_leave_it, work=work, chip=chip, inputs=inputs)
        values = reference_values(parts, inputs, rules_of(chip), own, held)
        return values | {name: held("", name, values[name]) for name in graph.outputs}, True
    turns = IdentityProducts(compiled, chip)
    held = partial(_as_turns_leave_it, turns.by_reader())
    values = reference_values(parts, turns.inputs_as_turned(inputs), rules_of(chip), own, held)
    values |= {name: held("", name, values[name]) for name in graph.outputs}
    return values, turns.lose_signs


def _in_parts(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], bool]:
    """Return what `expected_values` does, part by part: each takes boxes of what others made."""
    graph, values, turned = compiled.divided or compiled.graph, dict(inputs), False
    for part in compiled.parts:
        if isinstance(part, Operation):
            arrays, out = [values[name] for name in part.inputs], graph.shape(part.output)
            found = part.row.reference(arrays, out, part.attributes, rules_of(chip))
            values[part.output] = found
            continue
        own = {}
        for name in part.compiled.graph.inputs:
            tensor, box = part.boxes[name]
            own[name] = np.array(values[tensor][box.slices], order="C")  # of rank 0 too
        made, turns = expected_values(part.compiled, chip, own)
        turned = turned or turns
        for name in made.keys() - own.keys():
            tensor, box = part.boxes[name]
            shape = graph.shape(tensor)
            values.setdefault(tensor, np.zeros(shape.dims, shape.dtype))[box.slices] = made[name]
    return values, turned


def _as_lines_leave_it(
    op: str,
    tensor: str,
    values: Array,
    *,
    work: Convolution,
    chip: Chip,
    inputs: Mapping[str, Array],
) -> Array:
    """Return a tensor as an operation reads it: structural zeros spread what is not finite."""
    if tensor != work.op.output or values.dtype.kind in "iu":
        return values
    source, weights = (inputs[name] for name in work.op.inputs)
    passes = chip.pe_array.turns_by_passing(work.dtype)
    return with_spread(work.lines, source, weights, values, passes=passes)


def _as_spans_leave_it(
    graph: Graph, turned: Sequence[TurnedSpans], op: str, tensor: str, values: Array
) -> Array:
    """Return a tensor as an operation reads it, after the array has turned spans of it."""
    mine = [spans for spans in turned if (spans.reader, spans.tensor) == (op, tensor)]
    if not mine or turns_whole(values):
        return values
    shape = graph.shape(tensor)
    memory = pack(values, shape).ravel().copy()
    for spans in mine:
        at = spans.at + places(spans.terms)[:, None] + places(spans.spans)
        memory[at] = reference_transpose(memory[at]).T
    return unpack(memory, shape)


def _as_turns_leave_it(turned: ReaderTurns, op: str, tensor: str, values: Array) -> Array:
    """Return a tensor as an operation ("": the end of the run) reads it, perhaps turned."""
    turn = turned.get((op, tensor))
    return values if turn is None or turns_whole(values) else turn(values)


def rules_of(chip: Chip) -> Rules:
    """Return what the arithmetic of a chip depends on."""
    fused = chip.pe_array.fused_multiply_add
    return Rules(lambda K: k_tiles(chip, K), fused, segment=block_rows(chip), rows=row_work(chip))


def rules_of_products(compiled: CompiledGraph, chip: Chip) -> dict[str, Rules]:
    """Return the rules of operations whose rows of the contraction are in other K-tiles, by name.

    Rows lie folded, a K-tile has whole rows of a convolution's windows, or the weights of a
    depthwise convolution lie along diagonals.
    """
    work = compiled.streamed.convolution if compiled.streamed else None
    if work is not None:
        bounds = k_bounds(work.lines)
        order = partial(k_order, work.lines)
        own = replace(rules_of(chip), k_tiles=lambda K: bounds, k_order=order)
        return {work.op.name: own}
    products = [node for node in compiled.layers.nodes if isinstance(node, MultiplyNode)]
    folded = {
        node.layer: replace(rules_of(chip), k_order=RowFold(block_rows(chip), node.fold).order)
        for node in products
        if node.fold > 1
    }
    diagonal = {
        node.layer: replace(rules_of(chip), channels_of_tile=node.diagonal.p)
        for node in products
        if node.diagonal
    }
    return folded | diagonal
