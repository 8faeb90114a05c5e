"""Lowering of operations element by element: an engine's instruction for each tile.

An operation may be joined with the one before it: a product, or another operation element by
element, whose result nothing else takes. If an engine has an instruction that does both, this
instruction does them, and the sums of a product leave the result buffer through it. The
intermediate tensor must be of the accumulator's type (f32, or s32 of integers), so that no rounding
is left out. Otherwise the instructions follow one another on the chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from systolic.compiler.cost.engines import some_engine_does
from systolic.compiler.ir.carried import NARROW_BITS
from systolic.compiler.ir.lane_step import (
    COPY,
    LaneStep,
    activate,
    joined,
    requantise,
    select,
    with_each,
    with_lane,
)
from systolic.compiler.ir.nodes import Axes, ConvertNode, Matrix, MultiplyNode
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.engines.broadcasts import operand_axes, shared_axes
from systolic.compiler.lower.engines.predicates import selects
from systolic.compiler.lower.views import physical
from systolic.hw.datatypes import data_type
from systolic.isa import TensorScalar
from systolic.isa.access import Buffer
from systolic.layout import Shape
from systolic.workload import Operation
from systolic.workload.operations.activation import ActivationAttributes
from systolic.workload.operations.binary import BinaryAttributes, placed_dims
from systolic.workload.operations.requantise import RequantiseAttributes, scaled_axes
from systolic.workload.operations.select import SelectAttributes
from systolic.workload.operations.tensor_scalar import TensorScalarAttributes

POLES = (
    "exponential", "expm1", "log", "log1p", "reciprocal", "rsqrt", "square_root", "divide", "power",
    "remainder",
)  # fmt: skip
"""What makes infinities or NaN of numbers that are far from the ends of their type."""


def each_element(
    step: Callable[[Operation], LaneStep],
) -> Callable[[LayerBuilder, Operation], None]:
    """Return the lowering of an operation of one input that is one instruction of an engine.

    The result is a matrix of the view that the input has, so nothing is moved. `step` gives the
    instruction of an operation: `COPY`, or ``activate("tanh")``.
    """

    def lower(builder: LayerBuilder, op: Operation) -> None:
        (source,) = op.inputs
        if _in_strands(builder, op, step(op)):
            return

        def again(axes: Axes | None) -> Matrix:
            if axes is None:
                matrix, axes = builder.any_view(source)
            else:
                matrix = builder.view(source, axes)
            result = builder.result_like(op.output, axes, matrix)
            builder.node(ConvertNode, (matrix,), result, step=step(op))
            return result

        builder.note_remake(op.output, again, due=_is_due(builder, op))
        if not join(builder, op, source, step(op)):
            again(None)

    return lower


def activation_step(op: Operation) -> LaneStep:
    """Return the instruction of an activation."""
    given = op.attributes_as(ActivationAttributes)
    return activate(given.function, given.scale, given.bias)


def lower_tensor_scalar(builder: LayerBuilder, op: Operation) -> None:
    """Let an engine calculate with each element and the number."""
    each_element(lambda op: scalar_step(op, builder.graph.shape(op.inputs[0])))(builder, op)


def scalar_step(op: Operation, source: Shape) -> LaneStep:
    """Return the instruction of a tensor scalar."""
    given = op.attributes_as(TensorScalarAttributes)
    settings = {
        "op": given.operator, "scalar": given.immediate(source), "reverse": given.reverse
    }  # fmt: skip
    return LaneStep(TensorScalar, settings)


def lower_binary(builder: LayerBuilder, op: Operation) -> None:
    """Take one operand as it lies, and bring the other in a view that goes with it."""
    operator = op.attributes_as(BinaryAttributes).operator
    if _in_strands(builder, op, with_each(operator)):
        return
    _note_remake(builder, op, _binary_as)
    for place in (0, 1):
        if _joined_binary(builder, op, place):
            return
    _binary_as(builder, op, _result_axes(builder, op))


def _binary_as(builder: LayerBuilder, op: Operation, axes: Axes) -> Matrix:
    """Make the result as a view, of operands in views that go with it."""
    operator = op.attributes_as(BinaryAttributes).operator
    left, right = (_operand(builder, op, place, axes) for place in (0, 1))
    own = next((each for each in (left, right) if builder.has_own_tiles(each)), left)
    result = builder.result_like(op.output, axes, own)
    if right.cols == 1 and left.cols == result.cols:
        builder.node(ConvertNode, (left, right), result, step=with_lane(operator))
    elif left.cols == 1 and right.cols == result.cols:
        step = with_lane(operator, reverse=True)
        builder.node(ConvertNode, (right, left), result, step=step)
    else:
        builder.node(ConvertNode, (left, right), result, step=with_each(operator))
    return result


def lower_select(builder: LayerBuilder, op: Operation) -> None:
    """Bring all three operands in views that go together."""
    _note_remake(builder, op, _select_as)
    _select_as(builder, op, _result_axes(builder, op))


def _select_as(builder: LayerBuilder, op: Operation, axes: Axes) -> Matrix:
    widened = selects(builder.chip)  # a select by bits needs operands of the result's type
    predicate, on_true, on_false = (
        _operand(builder, op, place, axes, widened=widened) for place in range(len(op.inputs))
    )
    own = next((m for m in (on_true, on_false, predicate) if builder.has_own_tiles(m)), on_true)
    result = builder.result_like(op.output, axes, own)
    builder.node(ConvertNode, (on_false, predicate, on_true), result, step=select())
    return result


def _note_remake(
    builder: LayerBuilder,
    op: Operation,
    make: Callable[[LayerBuilder, Operation, Axes], Matrix],
) -> None:
    """Note how the result is made as a view that goes with all operands."""

    def again(axes: Axes | None) -> Matrix | None:
        if axes is None:
            return make(builder, op, _result_axes(builder, op))
        fits = all(_goes_with(builder, op, place, axes) for place in range(len(op.inputs)))
        return make(builder, op, axes) if fits else None

    builder.note_remake(op.output, again, due=_is_due(builder, op))


def _is_due(builder: LayerBuilder, op: Operation) -> bool:
    """Return whether the result must not be turned by products with the identity.

    They would spread an infinity that the function makes of a small number, or that it makes before
    the graph's own turn of an operand. The steps of a softmax or a norm make none.
    """
    producers = [builder.graph.producer(name) for name in op.inputs]
    turned = any(each and each.kind == "transpose" for each in producers)
    return turned or _has_a_pole(op) or any(builder.is_due(name) for name in op.inputs)


def _has_a_pole(op: Operation) -> bool:
    if op.part_of:
        return False
    match op.attributes:
        case ActivationAttributes(function=function):
            return function in POLES
        case BinaryAttributes(operator=operator) | TensorScalarAttributes(operator=operator):
            return operator in POLES
    return False


def lower_requantise(builder: LayerBuilder, op: Operation) -> None:
    """Join the requantisation with what makes its operand, or bring the scales to its lanes."""
    source, _ = op.inputs
    step = requantise(op.attributes_as(RequantiseAttributes).ends(builder.graph.shape(op.output)))
    if (maker := builder.maker(source)) is not None:
        axes = builder.matrix(maker.output).axes
        if _scaled_by_lane(builder, op, axes) and _joined_step(builder, source, step):
            join(builder, op, source, step, (_operand(builder, op, 1, axes),))
            return
    builder.any_view(source)
    views = [seen for seen in builder.views(source) if _goes_with(builder, op, 1, seen[1])]
    if not views:
        axes = physical(builder.graph.shape(op.output))
        views = [(builder.view(source, axes), axes)]
    matrix, axes = next((v for v in views if _scaled_by_lane(builder, op, v[1])), views[0])
    scales = _operand(builder, op, 1, axes)
    if scales.cols > 1:
        matrix = _scaled(builder, builder.view(source, axes), scales)
        step = step.with_number("scale", 1.0)
    result = builder.result_like(op.output, axes, matrix)
    operands = (matrix, scales) if step.others else (matrix,)
    builder.node(ConvertNode, operands, result, step=step)


def _scaled_by_lane(builder: LayerBuilder, op: Operation, axes: Axes) -> bool:
    """Return whether each lane of a view has one scale."""
    if not _goes_with(builder, op, 1, axes):
        return False
    return builder.size(op.inputs[1], operand_axes(axes, _placed(builder, op, 1))[-1]) == 1


def _scaled(builder: LayerBuilder, matrix: Matrix, scales: Matrix) -> Matrix:
    """Return elements times the scales of their columns, in float32: what an instruction makes."""
    made = builder.temporary(matrix, "f32", matrix.cols)
    builder.node(ConvertNode, (matrix, scales), made, step=with_each("multiply"))
    return made


def _in_strands(builder: LayerBuilder, op: Operation, step: LaneStep) -> bool:
    """Make a tensor in strands if all operands lie so alike; return whether it is done.

    Strands are turned as whole elements, to every other view.
    """
    graph = builder.graph
    if any(graph.shape(name).dims != graph.shape(op.output).dims for name in op.inputs):
        return False
    for name in op.inputs:
        builder.place_tiled(name)
    found = [strands for name in op.inputs if (strands := builder.strands(name))]
    if len(found) < len(op.inputs) or len({(each.axes, each.ways) for each in found}) > 1:
        return False
    if not builder.can_turn(graph.shape(op.output).element_type, at_once=True):
        return False
    builder.strand_tensors.each(tuple(found), op.output, step)
    return True


# One instruction for two operations


def _joined_binary(builder: LayerBuilder, op: Operation, place: int) -> bool:
    """Join the operation with the maker of an operand of its own shape; False if it cannot be."""
    tensor, graph = op.inputs[place], builder.graph
    maker = builder.maker(tensor)
    if maker is None or graph.shape(tensor).dims != graph.shape(op.output).dims:
        return False
    axes = next(axes for _, axes in builder.views(tensor))
    if not _goes_with(builder, op, 1 - place, axes):
        return False
    operator = op.attributes_as(BinaryAttributes).operator
    other = operand_axes(axes, _placed(builder, op, 1 - place))
    columns = builder.size(op.inputs[1 - place], other[-1])
    step = with_each(operator, first=("left", "right")[place])
    if columns == 1:
        step = with_lane(operator, reverse=place == 1)
    if _joined_step(builder, tensor, step) is None:
        return False
    operand = _operand(builder, op, 1 - place, axes)
    if isinstance(maker, MultiplyNode) and operand.cols > 1:
        operand = builder.in_tiles(operand, builder.matrix(maker.output).block)
    return join(builder, op, tensor, step, (operand,))


def join(
    builder: LayerBuilder,
    op: Operation,
    tensor: str,
    step: LaneStep,
    others: tuple[Matrix, ...] = (),
) -> bool:
    """Let the maker of a tensor do an operation on it as well; return whether it can."""
    found = _joined_step(builder, tensor, step)
    if found is None:
        return False
    maker, both = found
    if isinstance(maker, MultiplyNode):
        builder.forget_remake(op.output)  # its operand is nowhere but in the result buffer
    inputs, axes = builder.withdraw(maker)
    result = builder.result_like(op.output, axes, builder.matrix(maker.output))
    names = tuple(matrix.name for matrix in (*inputs, *others))
    builder.add_node(replace(maker, inputs=names, output=result.name, step=both))
    builder.choose(f"{op.output} is made with {tensor}, by one instruction for each tile")
    return True


def _joined_step(
    builder: LayerBuilder, tensor: str, step: LaneStep
) -> tuple[MultiplyNode | ConvertNode, LaneStep] | None:
    """Return the maker of a tensor, and the instruction that does its step and another."""
    maker = builder.maker(tensor)
    if not isinstance(maker, MultiplyNode | ConvertNode):
        return None
    dtype = builder.graph.shape(tensor).element_type
    source = builder.matrix(maker.inputs[0]).dtype
    if dtype != data_type(source).accumulator:
        return None
    both = joined(maker.step, step, dtype)
    buffer = Buffer.RESULT if isinstance(maker, MultiplyNode) else Buffer.STATE
    if both is None or not some_engine_does(builder.chip, both, buffer):
        return None
    return maker, both


# Views that go together


def _placed(builder: LayerBuilder, op: Operation, place: int) -> tuple[int | None, ...]:
    """Return, for each dimension of the result, the operand's; None where it is spread."""
    dims, out = (builder.graph.shape(name).dims for name in (op.inputs[place], op.output))
    if op.kind == "requantise":
        return placed_dims(dims, out, scaled_axes(dims, out))
    if op.kind == "select":
        given = op.attributes_as(SelectAttributes).matched
    else:
        given = op.attributes_as(BinaryAttributes).matched
    return placed_dims(dims, out, given if dims else ())


def _goes_with(builder: LayerBuilder, op: Operation, place: int, axes: Axes) -> bool:
    """Return whether an operand can be spread over a result seen as `axes`."""
    dims, out = (builder.graph.shape(name).dims for name in (op.inputs[place], op.output))
    return shared_axes(axes, _placed(builder, op, place), dims, out)


def _result_axes(builder: LayerBuilder, op: Operation) -> Axes:
    """Return the view in which most is there already, and with which all operands go."""
    out, found = builder.graph.shape(op.output), list[Axes]()
    for tensor in op.inputs:
        if builder.graph.shape(tensor).dims == out.dims:
            builder.any_view(tensor)
            found += [axes for _, axes in builder.views(tensor)]
    places = range(len(op.inputs))
    fitting = [axes for axes in found if all(_goes_with(builder, op, n, axes) for n in places)]
    repeated = {axes: _repeated_rows(builder, op, axes) for axes in fitting}
    return min(fitting, key=lambda axes: repeated[axes], default=physical(out))


def _repeated_rows(builder: LayerBuilder, op: Operation, axes: Axes) -> int:
    """Return how many operands must be repeated down the rows of a result seen as `axes`."""
    rows = builder.size(op.output, axes[-2])
    tall = [
        builder.size(name, operand_axes(axes, _placed(builder, op, n))[-2])
        for n, name in enumerate(op.inputs)
    ]
    return sum(size == 1 < rows for size in tall)


def _operand(
    builder: LayerBuilder, op: Operation, place: int, axes: Axes, *, widened: bool = True
) -> Matrix:
    """Return an operand as the view that is spread over a result seen as `axes`.

    widened: it may be taken as it was before a cast to a wider type.
    """
    tensor = op.inputs[place]
    tensor = _before_widening(builder, tensor) if widened else tensor
    wanted = operand_axes(axes, _placed(builder, op, place))
    builder.settle(tensor)
    matrix = builder.known(tensor, wanted) or builder.view(tensor, wanted)
    rows = builder.size(op.output, axes[-2])
    return builder.repeated(matrix, tensor, rows) if matrix.rows == 1 < rows else matrix


def _before_widening(builder: LayerBuilder, tensor: str) -> str:
    """Return the tensor that was cast to this one for one operation only; else the tensor itself.

    Engines calculate in float32 or int32, whatever the types of their operands are. So a cast to
    that type is taken back where the operation reads the elements as they were.
    """
    cast = builder.graph.producer(tensor)
    if cast is None or cast.kind != "cast":
        return tensor
    source, maker = cast.inputs[0], builder.maker(tensor)
    before, after = builder.user_type(source), builder.user_type(tensor)
    widened = before not in NARROW_BITS and data_type(before).accumulator == after
    if not widened or maker is None or not isinstance(maker, ConvertNode) or maker.step is not COPY:
        return tensor
    builder.withdraw(maker)
    builder.choose(f"{source} is taken as it is, not as {tensor}")
    return source
