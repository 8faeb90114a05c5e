"""HLO instructions as operations of the form: a row for each opcode that graphs can say.

`lower_module` goes through the entry computation as an interpreter would. Calls and fusions are gone
through where they stand, loops turn by turn as long as their condition is known, and what follows
from constants alone is calculated. Everything that cannot be done is collected and said at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.importers.errors import ImportFileError, fail_at, line_and_column
from systolic.workload.importers.form import Form, Value, View
from systolic.workload.importers.hlo.attributes import (
    AttributeFault,
    convolution_labels,
    fault,
    names,
    number,
    numbers,
    paddings,
    slices,
    text_of,
    window,
)
from systolic.workload.importers.hlo.inference import check_shape
from systolic.workload.importers.hlo.known import known_value
from systolic.workload.importers.hlo.literals import literal
from systolic.workload.importers.hlo.module import Computation, HloShape, Instruction, Module

MOST_INSTRUCTIONS = 200_000
"""The most instructions that are gone through, those of unrolled loops counted each time."""


@dataclass(frozen=True, slots=True)
class NotDone:
    """An operation that the chip cannot do: its opcode, its place, and why."""

    opcode: str
    offset: int
    why: str


class CannotLower(Exception):
    """Raised by a row that meets a form of its opcode that graphs cannot say."""


@dataclass(slots=True)
class Lowered:
    """A module as a form: its results in the order of the root tuple, and what is not done."""

    form: Form
    results: tuple[Value, ...]
    result_shapes: tuple[Shape, ...]
    not_done: list[NotDone] = field(default_factory=list)


def lower_module(module: Module, parameters: Mapping[int, str] | None = None) -> Lowered:
    """Return a module as a form. parameters: names for parameters of the entry, by number.

    Raises:
        ImportFileError: shapes contradict one another, a loop has no known end, a computation calls
            itself; with line and column.

    """
    return _Interpreter(module).entry(parameters or {})


class _Interpreter:
    def __init__(self, module: Module) -> None:
        self._module = module
        self.form = Form()
        self._not_done: list[NotDone] = []
        self._running: list[str] = []
        self._steps = 0
        self.operand_shapes: list[HloShape] = []

    def entry(self, parameters: Mapping[int, str]) -> Lowered:
        module = self._module
        for computation in module.computations.values():
            self._check(computation)
        given = module.parameter_shapes
        values: list[Value] = []
        for at, made in enumerate(module.entry.parameters):
            shape = made.shape if given is None or at >= len(given) else given[at]
            values.append(self._input(parameters.get(at, made.name), shape, made))
        result = self._run(module.entry, values)
        shapes = _leaves(module.result_shape or module.entry.root.shape)
        return Lowered(self.form, tuple(_flat(result)), tuple(shapes), self._not_done)

    def _input(self, name: str, shape: HloShape, made: Instruction) -> Value:
        if isinstance(shape, tuple):
            return tuple(self._input(f"{name}.{n}", each, made) for n, each in enumerate(shape))
        if shape is None:
            return None
        return self.form.input(name, shape)

    def _check(self, computation: Computation) -> None:
        """Raise ImportFileError if a shape is not what the operands give."""
        made = {each.name: each for each in computation.instructions}
        for each in computation.instructions:
            try:
                check_shape(each, [made[name] for name in each.operands], self._module.computations)
            except AttributeFault as error:
                fail_at(self._module.text, each.offset, str(error))

    def _run(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """Return the value of a computation's root."""
        if computation.name in self._running:
            fail_at(self._module.text, computation.offset, f"{computation.name} calls itself")
        self._running.append(computation.name)
        values: dict[str, Value] = {}
        needed = _needed(computation)
        shapes = {made.name: made.shape for made in computation.instructions}
        for made in computation.instructions:
            if made.name in needed:
                self._count(made)
                values[made.name] = self._value(made, values, shapes, arguments)
        self._running.pop()
        return values[computation.root.name]

    def _count(self, made: Instruction) -> None:
        self._steps += 1
        if self._steps > MOST_INSTRUCTIONS:
            at = self._module.text, made.offset
            fail_at(*at, f"more than {MOST_INSTRUCTIONS} instructions when all loops are unrolled")

    def _value(
        self,
        made: Instruction,
        values: Mapping[str, Value],
        shapes: Mapping[str, HloShape],
        arguments: Sequence[Value],
    ) -> Value:
        if made.opcode == "parameter":
            return arguments[int(made.argument)]
        operands = [values[name] for name in made.operands]
        self.operand_shapes = [shapes[name] for name in made.operands]
        self.form.begin(made.title, made.offset)
        try:
            return self._made(made, operands)
        except AttributeFault as error:
            fail_at(self._module.text, made.offset, str(error))
        except CannotLower as error:
            self._not_done.append(NotDone(made.opcode, made.offset, str(error)))
            return self._stand_in(made.shape)

    def _made(self, made: Instruction, operands: list[Value]) -> Value:
        if made.opcode == "constant":
            return literal(made.argument, made.array)
        if made.opcode in CONTROL:
            return CONTROL[made.opcode](self, made, operands)
        if all(isinstance(each, np.ndarray) for each in operands):
            known = known_value(made, [each for each in operands if isinstance(each, np.ndarray)])
            if known is not None:
                return known
        row = ROWS.get(made.opcode)
        if row is None:
            raise CannotLower("graphs have no such operation")
        return row(self.form, made, operands)

    def _stand_in(self, shape: HloShape) -> Value:
        """Return inputs in place of what cannot be done, so that the rest is looked at too."""
        if isinstance(shape, tuple):
            return tuple(self._stand_in(each) for each in shape)
        return None if shape is None else self.form.input("missing", shape)

    # control

    def called(self, made: Instruction, operands: list[Value]) -> Value:
        key = "calls" if made.opcode == "fusion" else "to_apply"
        return self._run(self._named(made, key), operands)

    def _named(self, made: Instruction, key: str) -> Computation:
        (name,) = names(made, key)
        if name not in self._module.computations:
            fault(f'{key}: there is no computation "{name}"')
        return self._module.computations[name]

    def tupled(self, made: Instruction, operands: list[Value]) -> Value:
        return tuple(operands)

    def element(self, made: Instruction, operands: list[Value]) -> Value:
        (given,) = operands
        assert isinstance(given, tuple)
        return given[number(made, "index")]

    def loop(self, made: Instruction, operands: list[Value]) -> Value:
        condition, body = self._named(made, "condition"), self._named(made, "body")
        (state,) = operands
        while True:
            goes_on = self._run(condition, [state])
            if not isinstance(goes_on, np.ndarray):
                raise CannotLower("how often the loop turns is known only when running")
            if not bool(goes_on):
                return state
            state = self._run(body, [state])

    def conditional(self, made: Instruction, operands: list[Value]) -> Value:
        selector, *arguments = operands
        if "branch_computations" in made.attributes:
            branches = [self._module.computations[n] for n in names(made, "branch_computations")]
        else:
            keys = ("true_computation", "false_computation")
            branches = [self._named(made, key) for key in keys]
        if isinstance(selector, np.ndarray):
            at = int(selector)
            if selector.dtype == bool:
                at = 1 - at
            elif not 0 <= at < len(branches):
                at = len(branches) - 1
            return self._run(branches[at], [arguments[at]])
        found = [self._run(each, [a]) for each, a in zip(branches, arguments, strict=True)]
        if len(found) != 2 or self.form.shape(selector).element_type != "pred":
            raise CannotLower("one of several branches, by a number known only when running")
        return self._chosen(selector, found[0], found[1])

    def _chosen(self, selector: Value, on_true: Value, on_false: Value) -> Value:
        if isinstance(on_true, tuple):
            assert isinstance(on_false, tuple)
            pairs = zip(on_true, on_false, strict=True)
            return tuple(self._chosen(selector, one, other) for one, other in pairs)
        return self.form.select(selector, on_true, on_false, self.form.shape(on_true))

    def ordered(self, made: Instruction, operands: list[Value]) -> Value:
        return None

    def barrier(self, made: Instruction, operands: list[Value]) -> Value:
        return operands[0]


    def bitcast(self, made: Instruction, operands: list[Value]) -> Value:
        """The same bytes in another shape: seen in the order of memory, and from there put back.

        How the operand lies is what the text says of it, not how the form lets it lie.
        """
        (value,), (before,), after = operands, self.operand_shapes, made.array
        assert isinstance(before, Shape)
        if before.element_type != after.element_type:
            raise CannotLower("the bits of one type taken as another")
        if before.layout.tiles or after.layout.tiles:
            raise CannotLower("a bitcast between tiles")
        form = self.form
        memory = form.transpose(value, tuple(reversed(before.layout.minor_to_major)))
        back = tuple(reversed(after.layout.minor_to_major))
        seen = form.reshape(memory, Shape(after.element_type, [after.dims[a] for a in back]))
        return form.transpose(seen, sorted(range(len(back)), key=lambda axis: back[axis]))


Control: TypeAlias = Callable[[_Interpreter, Instruction, list[Value]], Value]
CONTROL: dict[str, Control] = {
    "call": _Interpreter.called,
    "fusion": _Interpreter.called,
    "tuple": _Interpreter.tupled,
    "get-tuple-element": _Interpreter.element,
    "while": _Interpreter.loop,
    "conditional": _Interpreter.conditional,
    "after-all": _Interpreter.ordered,
    "optimization-barrier": _Interpreter.barrier,
    "bitcast": _Interpreter.bitcast,
}


def _needed(computation: Computation) -> set[str]:
    """Return the names of the instructions on which the root depends."""
    needed = {computation.root.name}
    for made in reversed(computation.instructions):
        if made.name in needed:
            needed.update(made.operands)
    return needed


def _flat(value: Value) -> list[Value]:
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in _flat(each)]
    return [] if value is None else [value]


def _leaves(shape: HloShape) -> list[Shape]:
    if isinstance(shape, tuple):
        return [leaf for each in shape for leaf in _leaves(each)]
    return [] if shape is None else [shape]


# rows


Row: TypeAlias = Callable[[Form, Instruction, list[Value]], Value]


def _function(name: str) -> Row:
    def row(form: Form, made: Instruction, operands: list[Value]) -> Value:
        return form.unary(operands[0], "activation", function=name)

    return row


def _negate(form: Form, made: Instruction, operands: list[Value]) -> Value:
    if _is_integer(made.array):
        zero = np.zeros((), made.array.dtype)
        return form.binary("subtract", np.broadcast_to(zero, made.array.dims), operands[0], made.array)
    return form.unary(operands[0], "activation", function="identity", scale=-1.0)


def _is_integer(shape: Shape) -> bool:
    return shape.dtype.kind in "iub" or shape.type.integer_range is not None


def _pair(operator: str) -> Row:
    def row(form: Form, made: Instruction, operands: list[Value]) -> Value:
        if made.array.type.is_narrow:
            raise CannotLower(f"{operator} of {made.array.element_type}")
        return _simpler(form, operator, operands, made.array) or form.binary(
            operator, operands[0], operands[1], made.array
        )

    return row


def _simpler(form: Form, operator: str, operands: list[Value], out: Shape) -> Value:
    """Return an operation with one number as an instruction of one operand; None if it is none."""
    lhs, rhs = operands
    if _is_integer(out):
        return None
    if (single := _number(rhs)) is not None:
        return _with_number(form, operator, lhs, single)
    if (single := _number(lhs)) is not None and operator in ("add", "multiply", "max", "min"):
        return _with_number(form, operator, rhs, single)
    if single is not None and operator == "divide" and single == 1:
        return form.unary(rhs, "activation", function="reciprocal")
    return None


def _number(value: Value) -> float | None:
    """Return the one number that a known value is everywhere."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    if any(n > 1 and step for n, step in zip(value.shape, value.strides, strict=True)):
        return None
    return float(value.flat[0])


def _with_number(form: Form, operator: str, value: Value, single: float) -> Value:
    unary = {
        ("max", -math.inf): "identity",
        ("min", math.inf): "identity",
        ("multiply", 1.0): "identity",
        ("divide", 1.0): "identity",
        ("max", 0.0): "ramp",
        ("power", 2.0): "square",
        ("power", 0.5): "square_root",
        ("power", -0.5): "rsqrt",
        ("power", -1.0): "reciprocal",
    }.get((operator, single))
    if unary == "identity":
        return value
    if unary is not None:
        return form.unary(value, "activation", function=unary)
    if operator in ("add", "subtract") and math.isfinite(single) and single:
        bias = single if operator == "add" else -single
        return form.unary(value, "activation", function="identity", bias=bias)
    if operator == "multiply" and math.isfinite(single):
        return form.unary(value, "activation", function="identity", scale=single)
    if operator == "divide" and single and math.frexp(single)[0] in (0.5, -0.5):
        return form.unary(value, "activation", function="identity", scale=1 / single)
    return None


def _compare(form: Form, made: Instruction, operands: list[Value]) -> Value:
    operator = {
        "EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater",
        "GE": "greater_equal",
    }[text_of(made, "direction")]  # fmt: skip
    if form.shape(operands[0]).type.is_narrow:
        raise CannotLower(f"comparison of {form.shape(operands[0]).element_type}")
    return form.binary(operator, operands[0], operands[1], made.array)


def _select(form: Form, made: Instruction, operands: list[Value]) -> Value:
    predicate, on_true, on_false = operands
    if isinstance(predicate, np.ndarray) and predicate.size:
        if (single := _number(predicate.astype(np.uint8))) is not None:
            return on_true if single else on_false
        if (mask := _causal(form, predicate, on_true, on_false)) is not None:
            return mask
    return form.select(predicate, on_true, on_false, made.array)


def _causal(form: Form, predicate: Array, on_true: Value, on_false: Value) -> Value:
    """Return a causal mask, if the predicate is a triangle and the others one finite number."""
    hidden = _number(on_false)
    if hidden is None or predicate.ndim < 2 or any(predicate.strides[:-2]):
        return None
    rows, cols = predicate.shape[-2:]
    plane = predicate[(0,) * (predicate.ndim - 2)]
    offset = int(plane[0].sum()) - 1
    if not np.array_equal(plane, np.tri(rows, cols, offset, dtype=bool)):
        return None
    if not math.isfinite(hidden):
        return None
    return form.unary(on_true, "causal_mask", offset=offset, value=hidden)


def _clamp(form: Form, made: Instruction, operands: list[Value]) -> Value:
    low, middle, high = operands
    if not _is_integer(made.array) and (_number(low), _number(high)) == (0.0, 6.0):
        return form.unary(middle, "activation", function="relu6")
    low, high = (_spread(form, end, made.array) for end in (low, high))
    least = form.binary("max", middle, low, made.array)
    return form.binary("min", least, high, made.array)


def _spread(form: Form, value: Value, out: Shape) -> Value:
    shape = form.shape(value)
    if shape.rank == out.rank:
        return value
    return np.broadcast_to(value, out.dims) if isinstance(value, np.ndarray) else (
        form.view(value).spread(out.dims, ())
    )


def _convert(form: Form, made: Instruction, operands: list[Value]) -> Value:
    if form.shape(operands[0]).element_type == made.array.element_type:
        return operands[0]
    return form.unary(operands[0], "cast", made.array.element_type)


def _broadcast(form: Form, made: Instruction, operands: list[Value]) -> Value:
    dims, value = numbers(made, "dimensions", ()), operands[0]
    if list(dims) != sorted(dims):
        order = sorted(range(len(dims)), key=lambda axis: dims[axis])
        value = form.transpose(value, order)
        dims = tuple(sorted(dims))
    return form.view(value).spread(made.array.dims, dims)


def _reshape(form: Form, made: Instruction, operands: list[Value]) -> Value:
    return form.reshape(operands[0], made.array)


def _transpose(form: Form, made: Instruction, operands: list[Value]) -> Value:
    return form.transpose(operands[0], numbers(made, "dimensions", ()), made.array)


def _copy(form: Form, made: Instruction, operands: list[Value]) -> Value:
    return operands[0]


def _slice(form: Form, made: Instruction, operands: list[Value]) -> Value:
    found = slices(made)
    if all(s.stop > s.start for s in found) and _is_all(found, form.shape(operands[0])):
        return operands[0]
    return _box(form, form.whole(operands[0]), found, made.array)


def _is_all(found: Sequence[slice], shape: Shape) -> bool:
    return [(s.start, s.stop, s.step) for s in found] == [(0, size, 1) for size in shape.dims]


def _box(form: Form, tensor: str, found: Sequence[slice], out: Shape) -> Value:
    step = tuple(s.step for s in found)
    name = form.node(
        "slice",
        (tensor,),
        out,
        start=tuple(s.start for s in found),
        stop=tuple(s.stop for s in found),
        step=step if any(each > 1 for each in step) else None,
    )
    return View(name, out.dims, tuple(range(out.rank)))


def _concatenate(form: Form, made: Instruction, operands: list[Value]) -> Value:
    (axis,) = numbers(made, "dimensions")
    inputs = [form.whole(each) for each in operands]
    if len(inputs) == 1:
        return operands[0]
    name = form.node("concat", inputs, made.array, axis=axis)
    return View(name, made.array.dims, tuple(range(made.array.rank)))


def _pad(form: Form, made: Instruction, operands: list[Value]) -> Value:
    source, value = operands
    single, found = _number(value), paddings(made)
    if single is None:
        raise CannotLower("a padding whose value is known only when running")
    if any(inner for _, _, inner in found):
        raise CannotLower("interior padding")
    tensor, dims = form.whole(source), form.shape(source).dims
    cut = [slice(max(-low, 0), size - max(-high, 0), 1)
           for size, (low, high, _) in zip(dims, found, strict=True)]
    element_type = made.array.element_type
    if not _is_all(cut, form.shape(source)):
        inner = Shape(element_type, [s.stop - s.start for s in cut])
        tensor = form.whole(_box(form, tensor, cut, inner))
    low = tuple(max(each, 0) for each, _, _ in found)
    high = tuple(max(each, 0) for _, each, _ in found)
    name = form.node("pad", (tensor,), made.array, low=low, high=high, value=single or None)
    return View(name, made.array.dims, tuple(range(made.array.rank)))


def _dynamic_slice(form: Form, made: Instruction, operands: list[Value]) -> Value:
    source, *places = operands
    if not all(isinstance(place, np.ndarray) for place in places):
        raise CannotLower("a place that is known only when running")
    sizes, dims = numbers(made, "dynamic_slice_sizes"), form.shape(source).dims
    starts = [
        min(max(int(place), 0), whole - size)  # type: ignore[arg-type]
        for place, whole, size in zip(places, dims, sizes, strict=True)
    ]
    found = [slice(start, start + size, 1) for start, size in zip(starts, sizes, strict=True)]
    if _is_all(found, form.shape(source)):
        return source
    return _box(form, form.whole(source), found, made.array)


# products


def _dot(form: Form, made: Instruction, operands: list[Value]) -> Value:
    """Bring both operands to [batch, M, K] and [batch, K, N] by layouts, and see the result back."""
    lhs, rhs = (form.view(each) for each in operands)
    left = _Side(lhs.dims, numbers(made, "lhs_batch_dims", ()), numbers(made, "lhs_contracting_dims", ()))
    right = _Side(rhs.dims, numbers(made, "rhs_batch_dims", ()), numbers(made, "rhs_contracting_dims", ()))
    if not left.inner:
        raise CannotLower("a product that sums over no dimension")
    one = _matrices(form, lhs, left, (*left.batch, *left.free, *left.inner), last=left.inner)
    other = _matrices(form, rhs, right, (*right.batch, *right.inner, *right.free), last=right.free)
    batch = tuple(left.dims[axis] for axis in left.batch)
    rows = math.prod(left.dims[axis] for axis in left.free)
    cols = math.prod(right.dims[axis] for axis in right.free)
    product = Shape(made.array.element_type, (*batch, rows, cols))
    out = made.array if made.array.dims == product.dims else product
    name = form.node("matmul", (one, other), out)
    return form.reshape(View(name, product.dims, tuple(range(product.rank))), made.array)


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot: its dimensions, those of the batch, and those that are summed over."""

    dims: tuple[int, ...]
    batch: tuple[int, ...]
    inner: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        used = (*self.batch, *self.inner)
        return tuple(axis for axis in range(len(self.dims)) if axis not in used)


def _matrices(form: Form, value: View, side: _Side, order: tuple[int, ...], last: Sequence[int]) -> str:
    """Return an operand as [batch, rows, columns], `last` being the dimensions of its columns."""
    turned = form.transpose(form.view(View(form.whole(value), value.dims, tuple(range(len(value.dims))))), order)
    cols = math.prod(side.dims[axis] for axis in last)
    batch = tuple(side.dims[axis] for axis in side.batch)
    rows = math.prod(value.dims) // max(cols * math.prod(batch), 1)
    element_type = form.shape(value).element_type
    return form.whole(form.reshape(turned, Shape(element_type, (*batch, rows, cols))))


def _convolution(form: Form, made: Instruction, operands: list[Value]) -> Value:
    """Bring images and weights to the order of `conv2d` by layouts; the machine cuts the windows."""
    labels = convolution_labels(made)
    if len(labels.pixels) not in (1, 2):
        raise CannotLower(f"a convolution over {len(labels.pixels)} dimensions")
    seen = window(made, len(labels.pixels))
    if any(each > 1 for each in seen.base_dilation) or any(seen.reversed):
        raise CannotLower("a transposed convolution, or one with reversed weights")
    if min((*seen.low, *seen.high)) < 0 or number(made, "batch_group_count", 1) > 1:
        raise CannotLower("a convolution with negative padding, or with groups of images")
    source = form.transpose(operands[0], (labels.batch, *labels.pixels, labels.channels))
    weights = form.transpose(operands[1], (*labels.weight_pixels, labels.inputs, labels.filters))
    one = len(labels.pixels) == 1
    if one:
        source, weights = _flat_images(form, source), _flat_weights(form, weights)
    stride, dilation = _two(seen.stride, 1), _two(seen.dilation, 1)
    low, high = _two(seen.low, 0), _two(seen.high, 0)
    inner = [made.array.dims[axis] for axis in (labels.out_batch, *labels.out_pixels, labels.out_filters)]
    dims = [inner[0], 1, *inner[1:]] if one else inner
    name = form.node(
        "conv2d",
        (form.whole(source), form.whole(weights)),
        Shape(made.array.element_type, dims),
        stride=None if stride == (1, 1) else stride,
        padding=(low[0], high[0], low[1], high[1]) if any((*low, *high)) else None,
        dilation=None if dilation == (1, 1) else dilation,
        groups=number(made, "feature_group_count", 1),
    )
    found: Value = View(name, tuple(dims), tuple(range(4)))
    if one:
        found = form.reshape(found, Shape(made.array.element_type, inner))
    wanted = (labels.out_batch, *labels.out_pixels, labels.out_filters)
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    return form.transpose(found, order)


def _two(given: tuple[int, ...], other: int) -> tuple[int, int]:
    return (other, given[0]) if len(given) == 1 else (given[0], given[1])


def _flat_images(form: Form, source: View) -> View:
    images, width, channels = source.dims
    element_type = form.shape(source).element_type
    return form.reshape(source, Shape(element_type, (images, 1, width, channels)))


def _flat_weights(form: Form, weights: View) -> View:
    return form.reshape(weights, Shape(form.shape(weights).element_type, (1, *weights.dims)))


# reductions


REDUCERS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "product"}


def _reducer(form: Form, made: Instruction, known: Computation | None) -> str:
    """Return the reduction that a computation of two parameters does."""
    root = known.root if known else None
    plain = root and known and {*root.operands} == {each.name for each in known.parameters}
    if root is None or not plain or root.opcode not in REDUCERS:
        raise CannotLower("a reduction by a computation of its own")
    return REDUCERS[root.opcode]


NEUTRAL = {"sum": 0.0, "product": 1.0, "max": -math.inf, "min": math.inf}


def _begins_neutral(reduction: str, begin: Value, shape: Shape) -> bool:
    single = _number(begin)
    if single is None:
        return False
    limits = shape.type.integer_range
    if limits is not None and reduction in ("max", "min"):
        return single == limits[0 if reduction == "max" else 1]
    return single == NEUTRAL[reduction]


def _reduced(interpreter: _Interpreter, made: Instruction, operands: list[Value]) -> Value:
    if len(operands) != 2:
        raise CannotLower("a reduction of several arrays at once, such as an argmax")
    source, begin = operands
    (name,) = names(made, "to_apply")
    form, out = interpreter.form, _single(made.shape)
    reduction = _reducer(form, made, interpreter._module.computations.get(name))
    if form.shape(source).type.is_narrow:
        raise CannotLower(f"a reduction of {form.shape(source).element_type}")
    axes = numbers(made, "dimensions")
    if isinstance(source, np.ndarray) and isinstance(begin, np.ndarray):
        return _known_reduction(reduction, source, begin, axes, out)
    found: Value = form.reduce(reduction, source, axes, out) if axes else source
    if not _begins_neutral(reduction, begin, form.shape(source)):
        operator = {"sum": "add", "product": "multiply"}.get(reduction, reduction)
        row = _pair(operator)
        plain = Instruction(made.name, operator, out, (), "", {}, made.offset)
        found = row(form, plain, [found, _spread(form, begin, out)])
    return (found,) if isinstance(made.shape, tuple) else found


def _single(shape: HloShape) -> Shape:
    found = shape[0] if isinstance(shape, tuple) else shape
    assert isinstance(found, Shape)
    return found


def _known_reduction(
    reduction: str, source: Array, begin: Array, axes: tuple[int, ...], out: Shape
) -> Value:
    functions = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}
    wide = source if source.dtype.kind in "iub" else source.astype(np.float64)
    found = functions[reduction].reduce(wide, axis=axes)
    return np.asarray(functions[reduction](found, begin.astype(found.dtype)).astype(out.dtype))


def _window_reduced(interpreter: _Interpreter, made: Instruction, operands: list[Value]) -> Value:
    source, begin = operands
    form = interpreter.form
    (name,) = names(made, "to_apply")
    reduction = _reducer(form, made, interpreter._module.computations.get(name))
    shape = form.shape(source)
    seen = window(made, shape.rank)
    if not _begins_neutral(reduction, begin, shape):
        raise CannotLower("windows that begin with another number than the neutral one")
    if any(each > 1 for each in seen.base_dilation) or min((*seen.low, *seen.high)) < 0:
        raise CannotLower("windows over images with gaps, or with negative padding")
    moved = [axis for axis in range(shape.rank) if (seen.size[axis], seen.stride[axis]) != (1, 1)
             or seen.low[axis] or seen.high[axis]]
    if len(moved) > 2:
        raise CannotLower(f"windows over {len(moved)} dimensions")
    if not moved:
        return source
    others = [axis for axis in range(shape.rank) if axis not in moved]
    if len(moved) == 1:
        # windows along one dimension: the images have the height 1
        moved = [*(axis for axis in others[-1:] if len(others) > 1 and shape.dims[axis] == 1), *moved]
    order = [*others, *moved] if False else [axis for axis in others[:1]]
    order = [*others[:1], *moved, *others[1:]]
    turned = form.transpose(form.view(source), order)
    dims = [shape.dims[axis] for axis in order]
    images = dims[0] if others[:1] else 1
    pixels = [shape.dims[axis] for axis in moved]
    height, width = pixels if len(pixels) == 2 else (1, pixels[0])
    channels = math.prod(shape.dims[axis] for axis in others[1:])
    folded = form.reshape(turned, Shape(shape.element_type, (images, height, width, channels)))
    size, stride = (_two(tuple(each[axis] for axis in moved), 1) for each in (seen.size, seen.stride))
    dilation = _two(tuple(seen.dilation[axis] for axis in moved), 1)
    low, high = (_two(tuple(each[axis] for axis in moved), 0) for each in (seen.low, seen.high))
    down, across = (
        made.array.dims[moved[0]] if len(moved) == 2 else 1,
        made.array.dims[moved[-1]],
    )
    out = Shape(made.array.element_type, (images, down, across, channels))
    pooled = form.node(
        "pool",
        (form.whole(folded),),
        out,
        reduction=reduction,
        window=size,
        stride=None if stride == (1, 1) else stride,
        dilation=None if dilation == (1, 1) else dilation,
        padding=(low[0], high[0], low[1], high[1]) if any((*low, *high)) else None,
    )
    back = Shape(made.array.element_type, [made.array.dims[axis] for axis in order])
    found = form.reshape(View(pooled, out.dims, tuple(range(4))), back)
    return form.transpose(found, sorted(range(len(order)), key=lambda n: order[n]))


CONTROL["reduce"] = _reduced
CONTROL["reduce-window"] = _window_reduced

ROWS: dict[str, Row] = {
    "exponential": _function("exponential"),
    "log": _function("log"),
    "logistic": _function("sigmoid"),
    "tanh": _function("tanh"),
    "sqrt": _function("square_root"),
    "rsqrt": _function("rsqrt"),
    "sine": _function("sin"),
    "abs": _function("abs"),
    "sign": _function("sign"),
    "negate": _negate,
    "add": _pair("add"),
    "subtract": _pair("subtract"),
    "multiply": _pair("multiply"),
    "divide": _pair("divide"),
    "power": _pair("power"),
    "maximum": _pair("max"),
    "minimum": _pair("min"),
    "and": _pair("and"),
    "or": _pair("or"),
    "xor": _pair("xor"),
    "shift-left": _pair("shift_left"),
    "shift-right-arithmetic": _pair("shift_right_arithmetic"),
    "shift-right-logical": _pair("shift_right_logical"),
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "convert": _convert,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "copy": _copy,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "dynamic-slice": _dynamic_slice,
    "dot": _dot,
    "convolution": _convolution,
}


def refuse_not_done(module: Module, lowered: Lowered) -> None:
    """Raise ImportFileError if something cannot be done: all of it, a line for each opcode."""
    if not lowered.not_done:
        return
    lines = []
    for opcode in dict.fromkeys(each.opcode for each in lowered.not_done):
        found = [each for each in lowered.not_done if each.opcode == opcode]
        line, column = line_and_column(module.text, found[0].offset)
        lines.append(f"{opcode} ({len(found)}, first at line {line}, column {column}): {found[0].why}")
    raise ImportFileError("cannot be done on the chip: " + "; ".join(lines))
