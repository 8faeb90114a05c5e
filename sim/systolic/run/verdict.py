"""The verdict on a run's values: compared with the reference, with numpy and with float64.

Nothing is simulated or printed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from systolic.arrays import Array, Integers
from systolic.compiler import CompiledGraph, k_tiles
from systolic.compiler.ir.carried import NARROW_BITS
from systolic.compiler.ir.chip_tiles import block_rows, turn_rows
from systolic.compiler.ir.folded_rows import RowFold
from systolic.compiler.ir.nodes import Axes, Matrix, TensorInDram
from systolic.compiler.ir.windows import DigitWindow, MatrixWindow, PartWindow, StridedWindow
from systolic.compiler.lower.whole_rows import row_work
from systolic.compiler.places.modes import places
from systolic.compiler.streams.convolved import Convolution
from systolic.compiler.streams.lines import k_bounds, k_order
from systolic.compiler.streams.turned import TurnedSpans
from systolic.errors import ResultError
from systolic.hw.spec import Chip
from systolic.layout import pack, unpack
from systolic.report.summary.values import wrong_text
from systolic.run.structural_zeros import with_spread
from systolic.spans import Span
from systolic.trace.words import decimal
from systolic.workload import (
    Graph,
    Operation,
    Rules,
    TransposeAttributes,
    differing,
    exact_graph,
    first_differing,
    max_abs_error,
    numpy_transpose,
    range_losses,
    reference_transpose,
    reference_values,
)
from systolic.workload.expand import expanded


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
    values, turned = _expected(compiled, chip, inputs)
    true = exact_graph(graph, inputs)
    strict = sum(differences(outputs[n], values[n]) for n in outputs)
    wrong = [_wrong(n, outputs[n], values[n], signed_zeros=not turned) for n in outputs]
    return _verdict(
        wrong=wrong,
        max_abs_error=max(max_abs_error(outputs[n], true[n]) for n in outputs),
        differs_from_numpy=strict,
        out_of_range=[asdict(loss) for loss in range_losses(graph, values)],
    )


def _expected(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], bool]:
    """Return all tensors with the bits that the chip must give, and whether signs of zeros may go.

    Of a graph in parts each part has the arithmetic of its own program.
    """
    if compiled.parts:
        return _expected_in_parts(compiled, chip, inputs)
    (op, *others), graph = compiled.graph.operations, compiled.graph
    if compiled.streamed is not None and compiled.streamed.convolution is None:
        held = partial(_as_spans_leave_it, graph, compiled.streamed.turned)
        return reference_values(graph, inputs, rules_of(chip), held=held), False
    if op.kind == "transpose" and not others:
        found = _transposed(compiled, chip, op, inputs[op.inputs[0]])
        return {**inputs, op.output: found}, False
    compiled = replace(
        compiled, graph=expanded(graph, row_work(chip))
    )  # what parts of composites read is turned
    own = rules_of_products(compiled, chip)
    spread = _spread_by_turns(compiled, chip)
    held = partial(_held, spread)
    parts = compiled.graph
    if compiled.streamed is not None and compiled.streamed.convolution is not None:
        work = compiled.streamed.convolution
        held = partial(_as_lines_leave_it, work=work, chip=chip, inputs=inputs)
        values = reference_values(parts, inputs, rules_of(chip), own, held)
        return values | {name: held("", name, values[name]) for name in graph.outputs}, True
    values = reference_values(parts, _as_turned(compiled, chip, inputs), rules_of(chip), own, held)
    values |= {name: _held(spread, "", name, values[name]) for name in graph.outputs}
    nodes = range(len(compiled.layers.nodes))
    return values, any(_multiplies_to_turn(compiled, chip, number) for number in nodes)


def _expected_in_parts(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], bool]:
    """Return what `_expected` does, part by part: each takes boxes of what others made."""
    graph, values, turned = expanded(compiled.graph, row_work(chip)), dict(inputs), False
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
        made, turns = _expected(part.compiled, chip, own)
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
    if not mine or _turns_whole(values):
        return values
    shape = graph.shape(tensor)
    memory = pack(values, shape).ravel().copy()
    for spans in mine:
        at = spans.at + places(spans.terms)[:, None] + places(spans.spans)
        memory[at] = reference_transpose(memory[at]).T
    return unpack(memory, shape)


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
    expected = _expected(compiled, chip, {op.inputs[0]: data})[0][op.output]
    return _verdict(
        wrong=[_wrong(op.output, result, expected)],
        max_abs_error=error,
        differs_from_numpy=unlike_numpy,
    )


def _transposed(compiled: CompiledGraph, chip: Chip, op: Operation, data: Array) -> Array:
    """Return the result of a lone transpose as its identity products leave it."""
    axes = op.attributes_as(TransposeAttributes).axes
    nodes = enumerate(compiled.layers.nodes)
    turned = [n.inputs[0] for k, n in nodes if _multiplies_to_turn(compiled, chip, k)]
    if _turns_whole(data):
        return numpy_transpose(data, axes)  # what the array turns is as numpy has it
    if turned and _by_digits(compiled):
        return _as_digits_leave_it(compiled, chip, op, data)
    if _in_strands(compiled):
        return _as_strands_leave_it(compiled, chip, op, data)
    narrow = compiled.graph.shape(op.output).element_type in NARROW_BITS
    if not turned or narrow:
        return numpy_transpose(data, axes)
    matrix = compiled.layers.matrix(turned[0])
    if _is_of_factors(compiled, matrix, op):
        return numpy_transpose(_factors_as_turned(compiled, chip, op.inputs[0], data), axes)
    back = {axis: place for place, axis in enumerate(axes)}
    *batch, rows, cols = (tuple(back[axis] for axis in group) for group in matrix.axes)
    found = _turned(compiled, chip, matrix, data)
    return as_tensor(found, (*batch, cols, rows), compiled.graph.shape(op.output).dims)


def _turned(compiled: CompiledGraph, chip: Chip, matrix: Matrix, data: Array) -> Array:
    """Return what identity products make of a matrix, [batch..., columns, rows]."""
    return _turn(compiled, chip, matrix, as_matrices(data, matrix.axes))


def _turn(compiled: CompiledGraph, chip: Chip, matrix: Matrix, matrices: Array) -> Array:
    """Return what identity products make of a matrix that holds these, [batch..., columns, rows].

    Of rows that share partitions, those of each strand are multiplied together. What passes
    through the array instead keeps its bits.
    """
    last = matrices.ndim - 1
    swapped = (*range(last - 1), last, last - 1)
    if chip.pe_array.turns_by_passing(matrix.dtype):
        return matrices.transpose(swapped)
    ways = _ways(compiled, matrix, matrices)
    if ways == 1:
        bounds = turn_rows(matrix, compiled.tiled.block, chip)
        return reference_transpose(matrices, swapped, row_blocks=bounds, row_axes=(last - 1,))
    found = np.empty([matrices.shape[axis] for axis in swapped], matrices.dtype)
    for strand in range(min(ways, matrices.shape[-2])):
        rows = matrices[..., strand::ways, :]
        bounds = turn_rows(replace(matrix, rows=rows.shape[-2]), compiled.tiled.block, chip)
        turned = reference_transpose(rows, swapped, row_blocks=bounds, row_axes=(last - 1,))
        found[..., strand::ways] = turned
    return found


def _multiplies_to_turn(compiled: CompiledGraph, chip: Chip, number: int) -> bool:
    """Return whether a node is made of identity products, in which signs of zeros are lost."""
    node = compiled.layers.nodes[number]
    if node.kind != "turn" or number in compiled.scheduled.by_engine:
        return False
    source, made = (compiled.layers.matrix(name) for name in (node.inputs[0], node.output))
    if isinstance(made.window, PartWindow):
        return False  # parts are integers, which products with an identity leave as they are
    return not chip.pe_array.turns_by_passing(source.dtype)


def _ways(compiled: CompiledGraph, matrix: Matrix, matrices: Array) -> int:
    """Return how many rows of a tensor share a row of the matrix in which they lie."""
    if not isinstance(matrix.window, StridedWindow):
        return 1
    columns: int = matrices.shape[-1]
    return compiled.layers.matrix(matrix.holder).cols // columns


def _is_of_factors(compiled: CompiledGraph, matrix: Matrix, op: Operation) -> bool:
    """Return whether a turned matrix shows the factors of a move, not dimensions of a tensor.

    Rows that were picked from a place are dimensions of the result.
    """
    if matrix.tensor != op.output or op.row.index_map is not None:
        return False
    return _shown_place(compiled, matrix) is not None


def _shown_place(compiled: CompiledGraph, matrix: Matrix) -> TensorInDram | None:
    """Return the place in DRAM from which a matrix comes, as it is or in another type."""
    nodes = {node.output: node for node in compiled.layers.nodes}
    while not matrix.dram and (node := nodes.get(matrix.holder)) and node.kind == "convert":
        matrix = compiled.layers.matrix(node.inputs[0])
    return next((place for place in compiled.layers.dram if place.name == matrix.dram), None)


def _factors_as_turned(compiled: CompiledGraph, chip: Chip, name: str, data: Array) -> Array:
    """Return a tensor as identity products of its factors leave it, in logical order.

    Tiles that leave gaps cut it into parts, each with factors of its own; the array may turn some
    of the parts, and the padding that came with them stays behind.
    """
    shape, layers = compiled.graph.shape(name), compiled.layers
    start = next((place.start for place in layers.dram if place.name == name), None)
    if start is None:
        return data
    memory = pack(data, shape).ravel().copy()
    for number, node in enumerate(layers.nodes):
        if not _multiplies_to_turn(compiled, chip, number):
            continue
        matrix = layers.matrix(node.inputs[0])
        part = _shown_place(compiled, matrix)
        if part is not None and part.start == start:
            places = _places_shown(matrix, part)
            turned = np.swapaxes(_turn(compiled, chip, matrix, memory[places]), -1, -2)
            memory[places] = turned
    return unpack(memory, shape)


def _places_shown(matrix: Matrix, part: TensorInDram) -> Integers:
    """Return where elements of a part lie in its tensor, [batch..., rows, columns].

    A dimension of the part that the matrix does not show has padding behind its first index.
    """
    window = matrix.window
    dims = window.inner.dims if isinstance(window, MatrixWindow) else part.shape.dims
    shown = [axis for group in matrix.axes for axis in group]
    index = [np.asarray(0)] * len(dims)
    grid = np.indices([dims[axis] for axis in shown])
    for axis, numbers in zip(shown, grid, strict=True):
        index[axis] = numbers
    first = (part.base - part.start) // part.shape.dtype.itemsize
    found = np.asarray(first + part.shape.linear_index(index), np.int64)
    return found.reshape([math.prod(dims[axis] for axis in group) for group in matrix.axes])


def _as_turned(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the inputs as identity products leave them.

    A NaN or an infinity spreads in them, and -0.0 becomes +0.0, of which a quotient shows the sign.
    """
    found, twice = dict(inputs), dict[str, Array]()
    first, *others = compiled.graph.operations
    if _by_digits(compiled):
        return found | _digits_as_turned(compiled, chip, inputs)
    if first.kind == "relayout" and not others and _in_strands(compiled):
        (name,) = first.inputs
        if _turns_whole(inputs[name]):
            return found
        return {name: _as_strands_leave_it(compiled, chip, first, inputs[name])}
    for number, node in enumerate(compiled.layers.nodes):
        if not _multiplies_to_turn(compiled, chip, number):
            continue
        matrix = compiled.layers.matrix(node.inputs[0])
        of_layer = [op for op in compiled.graph.operations if op.layer == node.layer]
        op = next((op for op in of_layer if op.output == matrix.tensor), of_layer[0])
        name = op.inputs[0] if _is_of_factors(compiled, matrix, op) else matrix.tensor
        if name not in inputs or _turns_whole(inputs[name]):
            continue
        place = _shown_place(compiled, matrix)
        if place is not None and place.shape.dims != inputs[name].shape:
            found[name] = _factors_as_turned(compiled, chip, name, inputs[name])
            continue
        before = twice.get(matrix.holder, inputs[name])
        turned = np.swapaxes(_turned(compiled, chip, matrix, before), -1, -2)
        found[name] = as_tensor(turned, matrix.axes, inputs[name].shape)
        twice[compiled.layers.matrix(node.output).holder] = found[name]
    return found


ReaderTurns = dict[tuple[str, str], Callable[[Array], Array]]
"""An operation and a tensor: what identity products make of its values before they are read."""


def _held(spread: ReaderTurns, op: str, tensor: str, values: Array) -> Array:
    """Return a computed tensor as an operation ("": the end of the run) reads it."""
    turn = spread.get((op, tensor))
    return values if turn is None or _turns_whole(values) else turn(values)


def _spread_by_turns(compiled: CompiledGraph, chip: Chip) -> ReaderTurns:
    """Return the tensors made on the way that identity products turn, by who reads them so."""
    graph, layers = compiled.graph, compiled.layers
    made = {op.output: op for op in graph.operations}
    turned: dict[str, tuple[str, Callable[[Array], Array]]] = {}
    found: ReaderTurns = {}
    if len(made) == 1 and graph.operations[0].kind in ("relayout", "reshape"):
        return found  # what its turns do, they do to its input (`_as_turned`)
    for number, node in enumerate(layers.nodes):
        sources = [layers.matrix(name) for name in node.inputs]
        read = [each for each in sources if each.holder in turned]
        if _multiplies_to_turn(compiled, chip, number):
            result = layers.matrix(node.output)
            known = result.tensor in made and sources[0].tensor in made  # inputs: `_as_turned`
            if known and any(result.axes) and result.window is None:
                axes = (*result.axes[:-2], result.axes[-1], result.axes[-2])
                matrix = replace(sources[0], axes=axes)
                made_by = partial(_turned_values, compiled, chip, matrix)
                turned[result.holder] = result.tensor, made_by
            continue
        if node.output and read and layers.matrix(node.output).tensor == read[0].tensor:
            turned[layers.matrix(node.output).holder] = turned[read[0].holder]
            continue
        for each in read:
            tensor, turn = turned[each.holder]
            found[_reader(graph, "" if node.kind == "store" else node.layer, tensor), tensor] = turn
    for kept in layers.kept:
        if (holder := layers.matrix(kept.matrix).holder) in turned:
            tensor, turn = turned[holder]
            found[_reader(graph, "", tensor), tensor] = turn
    return found


def _reader(graph: Graph, layer: str, tensor: str) -> str:
    """Return the operation that takes a tensor and of whose result a layer reads the elements."""
    if tensor in graph.outputs and not layer:
        return ""
    takers = [op for op in graph.operations if tensor in op.inputs]
    own = [op.name for op in takers if op.layer == layer]
    return next(iter([*own, *(op.name for op in takers)]), layer)


def _turned_values(compiled: CompiledGraph, chip: Chip, matrix: Matrix, values: Array) -> Array:
    """Return a tensor as identity products of a matrix of it leave it, in logical order."""
    turned = np.swapaxes(_turned(compiled, chip, matrix, values), -1, -2)
    return as_tensor(turned, matrix.axes, values.shape)


def _by_digits(compiled: CompiledGraph) -> bool:
    """Return whether a tensor is moved between the places of tiles on the chip."""
    windows = (m.window for m in compiled.layers.matrices)
    return any(isinstance(window, DigitWindow) for window in windows)


def _digits_as_turned(
    compiled: CompiledGraph, chip: Chip, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the inputs that move from place to place, as their identity products leave them."""
    found: dict[str, Array] = {}
    (first, *_), layers = compiled.graph.operations, compiled.layers
    for home in layers.homes:
        if home.tensor not in inputs or _turns_whole(inputs[home.tensor]):
            continue
        data = inputs[home.tensor]
        held = _held_by_digits(compiled, chip, home.tensor, data)
        if len(held) == 1:
            continue
        last = layers.matrix([*held][-1])
        if any(last.axes):  # rows of an operand
            found[home.tensor] = as_tensor(held[last.name], last.axes, data.shape)
        else:
            made = _as_digits_leave_it(compiled, chip, first, data)
            found[home.tensor] = made.reshape(data.shape)
    return found


def _as_digits_leave_it(compiled: CompiledGraph, chip: Chip, op: Operation, data: Array) -> Array:
    """Return the result of a lone move between places on the chip as its products leave it."""
    held = _held_by_digits(compiled, chip, op.inputs[0], data)
    last = next(home.matrix for home in compiled.layers.homes if home.tensor == op.output)
    found = compiled.placements()[op.output].array(np.ascontiguousarray(held[last]).view(np.uint8))
    return np.asarray(found)


def _held_by_digits(
    compiled: CompiledGraph, chip: Chip, tensor: str, data: Array
) -> dict[str, Array]:
    """Return what the matrices hold that a tensor on the chip goes through, place by place."""
    layers = compiled.layers
    home = next(home for home in layers.homes if home.tensor == tensor)
    source = layers.matrix(home.matrix)
    if any(source.axes):
        return {source.name: data}
    image = compiled.placements()[tensor].image(data).view(data.dtype)
    held = {source.name: image.reshape(source.rows, source.cols)}
    for number, node in enumerate(layers.nodes):
        taken, made = layers.matrix(node.inputs[0]), layers.matrix(node.output)
        if taken.holder not in held or node.kind not in ("turn", "convert"):
            continue
        if made.window is None:  # all places, in a type that the array takes
            held[made.name] = held[taken.holder]
            continue
        if not isinstance(made.window, DigitWindow):
            continue
        elements = held[taken.holder][_places_in_holder(taken)]
        if node.kind == "turn" and _multiplies_to_turn(compiled, chip, number):
            elements = _turn(compiled, chip, taken, elements)
        elif node.kind == "turn":
            elements = elements.swapaxes(1, 2)
        there = layers.matrix(made.holder)
        empty = np.zeros((there.rows, there.cols), data.dtype)
        held.setdefault(made.holder, empty)[_places_in_holder(made)] = elements
    return held


def _places_in_holder(matrix: Matrix) -> tuple[Array, Array]:
    """Return the holder's rows and columns of a matrix, [matrices, rows, columns]."""
    assert matrix.window is not None
    rows = matrix.window.row(0) + np.arange(matrix.rows)
    every = Span(0, matrix.cols)
    columns = [matrix.window.columns(n, 0, every) for n in range(matrix.matrices)]
    return rows[None, :, None], np.stack(columns)[:, None, :]


def _in_strands(compiled: CompiledGraph) -> bool:
    """Return whether rows that share partitions are turned."""
    windows = (m.window for m in compiled.layers.matrices)
    return any(isinstance(window, StridedWindow) for window in windows)


def _as_strands_leave_it(compiled: CompiledGraph, chip: Chip, op: Operation, data: Array) -> Array:
    """Return the result of a lone transpose or relayout as all its identity products leave it.

    It may be turned twice, and each time a NaN or an infinity spreads over a block.
    """
    layers, held = compiled.layers, dict[str, Array]()
    for node in layers.nodes:
        if node.kind == "store":
            stored = layers.matrix(node.inputs[0]).holder
            return as_tensor(held[stored], node.axes, compiled.graph.shape(op.output).dims)
        source, made = layers.matrix(node.inputs[0]), layers.matrix(node.output)
        if _is_scattered(source):  # it is collected from its tiles as a view
            held[made.holder] = as_matrices(data, made.axes)
        if _is_scattered(made):
            dims = compiled.graph.shape(source.tensor).dims
            return as_tensor(held[source.holder], source.axes, dims)
        if source.holder not in held and not _is_scattered(source):
            held[source.holder] = as_matrices(data, source.axes)
        if made.holder not in held:
            before = held[source.holder]
            held[made.holder] = (
                _turn(compiled, chip, source, before)
                if node.kind == "turn"
                else _moved(compiled, op, (source, made), before)
                if node.kind == "move"
                else before
            )
    last = layers.matrix(layers.nodes[-1].output).holder
    axes = layers.matrix(last).axes
    return as_tensor(held[last], axes, compiled.graph.shape(op.output).dims)


def _is_scattered(matrix: Matrix) -> bool:
    """Return whether a matrix is the places of a tensor's tiles, which no view shows."""
    return not any(matrix.axes)


def _moved(
    compiled: CompiledGraph, op: Operation, ends: tuple[Matrix, Matrix], matrices: Array
) -> Array:
    """Return the matrices of one view as those of another, after a transpose if it lies between."""
    (source, made), graph = ends, compiled.graph
    tensor = as_tensor(matrices, source.axes, graph.shape(source.tensor).dims)
    if source.tensor != made.tensor and op.kind == "transpose":
        tensor = tensor.transpose(op.attributes_as(TransposeAttributes).axes)
    return as_matrices(tensor, made.axes)


def _turns_whole(values: Array) -> bool:
    """Return whether identity products leave every element as it is."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        negative_zeros = (values == 0) & np.signbit(values)
        return bool(np.isfinite(values).all() and not negative_zeros.any())


def as_tensor(matrices: Array, axes: Axes, dims: tuple[int, ...]) -> Array:
    """Return in logical order what `as_matrices` shows as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    moved = np.ascontiguousarray(matrices).reshape([dims[axis] for axis in order])
    return np.asarray(moved.transpose(np.argsort(order)), order="C")


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
    products = [node for node in compiled.layers.nodes if node.kind == "multiply"]
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


def as_matrices(array: Array, axes: Axes) -> Array:
    """Return a tensor seen as [batch..., rows, columns]."""
    order = [axis for group in axes for axis in group]
    sizes = [math.prod(array.shape[axis] for axis in group) for group in axes]
    return array.transpose(order).reshape(sizes)
