"""The shape that each HLO instruction must have, from its operands' shapes and its attributes.

A text whose shapes contradict one another is refused here, before anything is made of it. Source:
https://openxla.org/xla/operation_semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from systolic.layout import Shape
from systolic.workload.importers.hlo.attributes import (
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
from systolic.workload.importers.hlo.module import Computation, HloInstruction, HloShape

HloKind: TypeAlias = tuple[str, tuple[int, ...]]
"""Element type and dimensions: a shape without its layout."""
Inferred: TypeAlias = "HloKind | tuple[Inferred, ...] | None"
Computations: TypeAlias = Mapping[str, Computation]

SAME_FLOATS = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "sqrt",
    "rsqrt", "cbrt", "sine", "cosine", "tan", "floor", "ceil", "round-nearest-afz",
    "round-nearest-even", "erf",
)  # fmt: skip
SAME_TYPE = ("negate", "abs", "sign", "copy", "optimization-barrier", "reduce-precision")
INTEGERS = ("not", "popcnt", "count-leading-zeros")
PAIRS = (
    "add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum", "and",
    "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical", "atan2",
)  # fmt: skip


def kind_of(shape: Shape) -> HloKind:
    """Return element type and dimensions."""
    return shape.element_type, shape.dims


def check_shape(
    made: HloInstruction, operands: Sequence[HloInstruction], computations: Computations
) -> None:
    """Raise AttributeFaultError if an instruction's shape is not what its operands give.

    Opcodes without a row pass; the lowering says that they are not done.
    """
    rule = RULES.get(made.opcode)
    if rule is None:
        return
    shapes = [operand.shape for operand in operands]
    expected = rule(made, shapes, computations)
    found = kinds(made.shape)
    if expected != found:
        fault(f"{made.opcode} gives {kind_text(expected)}, but the text says {kind_text(found)}")


def kinds(shape: HloShape) -> Inferred:
    """Return a shape without layouts."""
    if isinstance(shape, tuple):
        return tuple(kinds(each) for each in shape)
    return None if shape is None else kind_of(shape)


def kind_text(kind: Inferred) -> str:
    """Return a shape without layouts as HLO spells it."""
    if kind is None:
        return "token[]"
    if len(kind) == 2 and isinstance(kind[0], str):
        return f"{kind[0]}[{','.join(map(str, kind[1]))}]"
    return f"({', '.join(kind_text(each) for each in kind)})"


Rule: TypeAlias = Callable[[HloInstruction, Sequence[HloShape], Computations], Inferred]
ArrayRule: TypeAlias = Callable[[HloInstruction, Sequence[Shape]], Inferred]


def _arrays(rule: ArrayRule, count: int | None) -> Rule:
    """Return a rule for operands that must be arrays, `count` of them (None: any number)."""

    def checked(made: HloInstruction, shapes: Sequence[HloShape], _: Computations) -> Inferred:
        if count is not None and len(shapes) != count:
            fault(f"{made.opcode} takes {count} operand{'s' * (count != 1)}, found {len(shapes)}")
        found = [shape for shape in shapes if isinstance(shape, Shape)]
        if len(found) < len(shapes):
            fault(f"{made.opcode} takes arrays, found a tuple or a token")
        return rule(made, found)

    return checked


# element by element


def _same(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    return kind_of(shapes[0])


def _floats(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    if shapes[0].dtype.kind in "iub":
        fault(f"{made.opcode} takes floats, found {shapes[0]}")
    return kind_of(shapes[0])


def _pair(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    lhs, rhs = shapes
    if kind_of(lhs) != kind_of(rhs):
        fault(f"{made.opcode} takes two operands of one type and size, found {lhs} and {rhs}")
    return kind_of(lhs)


def _compare(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    direction = text_of(made, "direction")
    if direction not in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        fault(f"direction= needs EQ, NE, LT, LE, GT or GE, found {direction}")
    _pair(made, shapes)
    return "pred", shapes[0].dims


def _select(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    predicate, on_true, on_false = shapes
    if kind_of(on_true) != kind_of(on_false):
        fault(f"select takes two operands of one type and size, found {on_true} and {on_false}")
    if predicate.element_type != "pred" or predicate.dims not in ((), on_true.dims):
        fault(f"select needs a predicate pred{list(on_true.dims)}, found {predicate}")
    return kind_of(on_true)


def _clamp(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    low, middle, high = shapes
    for end in (low, high):
        if end.element_type != middle.element_type or end.dims not in ((), middle.dims):
            fault(f"clamp needs ends that go with {middle}, found {end}")
    return kind_of(middle)


def _convert(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    return made.array.element_type, shapes[0].dims


def _bitcast_convert(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    (source,), out = shapes, made.array
    if source.type.bits != out.type.bits:
        fault(f"bitcast-convert between types of {source.type.bits} and {out.type.bits} bits")
    return out.element_type, source.dims


# places


def _iota(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    axis = number(made, "iota_dimension")
    if not 0 <= axis < made.array.rank:
        fault(f"iota_dimension= needs a dimension of {made.array}, found {axis}")
    return kind_of(made.array)


def _broadcast(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    (source,), out = shapes, made.array
    dims = numbers(made, "dimensions", ())
    if len(dims) != source.rank or len(set(dims)) < len(dims):
        fault(f"dimensions= needs a number for each of {source}, found {list(dims)}")
    for size, dim in zip(source.dims, dims, strict=True):
        if not 0 <= dim < out.rank or out.dims[dim] != size:
            fault(f"{source} cannot be broadcast to {out} along {list(dims)}")
    return source.element_type, out.dims


def _reshape(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    (source,), out = shapes, made.array
    if _count(source.dims) != _count(out.dims):
        fault(f"{source} has {_count(source.dims)} elements, {out} {_count(out.dims)}")
    return source.element_type, out.dims


def _bitcast(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    (source,), out = shapes, made.array
    if _count(source.dims) * source.type.bits != _count(out.dims) * out.type.bits:
        fault(f"bitcast of {source} to {out}, which has not as many bits")
    return kind_of(out)


def _count(dims: Sequence[int]) -> int:
    total = 1
    for dim in dims:
        total *= dim
    return total


def _transpose(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    (source,), order = shapes, numbers(made, "dimensions", ())
    if sorted(order) != list(range(source.rank)):
        fault(f"dimensions= needs each dimension of {source} once, found {list(order)}")
    return source.element_type, tuple(source.dims[axis] for axis in order)


def _reverse(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    axes = numbers(made, "dimensions")
    if len(set(axes)) < len(axes) or not {*axes} <= {*range(shapes[0].rank)}:
        fault(f"dimensions= needs dimensions of {shapes[0]}, found {list(axes)}")
    return kind_of(shapes[0])


def _slice(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    (source,), found = shapes, slices(made)
    if len(found) != source.rank:
        fault(f"slice= needs {source.rank} slices for {source}, found {len(found)}")
    for each, size in zip(found, source.dims, strict=True):
        if not (0 <= each.start <= each.stop <= size and each.step >= 1):
            fault(f"slice {each.start}:{each.stop}:{each.step} of a dimension of {size}")
    return source.element_type, tuple(-(-(s.stop - s.start) // s.step) for s in found)


def _concatenate(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    if not shapes:
        fault("concatenate needs operands")
    (axis,) = numbers(made, "dimensions")
    first = shapes[0]
    for shape in shapes:
        rest = [size for n, size in enumerate(shape.dims) if n != axis]
        if (shape.rank, shape.element_type) != (first.rank, first.element_type) or rest != [
            size for n, size in enumerate(first.dims) if n != axis
        ]:
            fault(f"{first} and {shape} cannot follow one another along dimension {axis}")
    if not 0 <= axis < first.rank:
        fault(f"dimensions= needs a dimension of {first}, found {axis}")
    total = sum(shape.dims[axis] for shape in shapes)
    return first.element_type, (*first.dims[:axis], total, *first.dims[axis + 1 :])


def _pad(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    source, value = shapes
    if value.dims or value.element_type != source.element_type:
        fault(f"pad needs a scalar {source.element_type}[], found {value}")
    found = paddings(made)
    if len(found) != source.rank or any(inner < 0 for _, _, inner in found):
        fault(f"padding= needs {source.rank} paddings for {source}, found {len(found)}")
    sizes = [
        max(size + max(size - 1, 0) * inner + low + high, 0)
        for size, (low, high, inner) in zip(source.dims, found, strict=True)
    ]
    return source.element_type, tuple(sizes)


def _dynamic_slice(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    source, *places = shapes
    sizes = numbers(made, "dynamic_slice_sizes")
    _check_places(made, source, places)
    if len(sizes) != source.rank or any(n > m for n, m in zip(sizes, source.dims, strict=True)):
        fault(f"dynamic_slice_sizes= needs sizes within {source}, found {list(sizes)}")
    return source.element_type, sizes


def _dynamic_update_slice(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    source, update, *places = shapes
    _check_places(made, source, places)
    inside = update.rank == source.rank and all(
        n <= m for n, m in zip(update.dims, source.dims, strict=True)
    )
    if not inside or update.element_type != source.element_type:
        fault(f"dynamic-update-slice needs an update within {source}, found {update}")
    return kind_of(source)


def _check_places(made: HloInstruction, source: Shape, places: Sequence[Shape]) -> None:
    wrong = [shape for shape in places if shape.dims or shape.dtype.kind not in "iu"]
    if wrong or len(places) != source.rank:
        fault(f"{made.opcode} needs {source.rank} integer scalars as places in {source}")


# products


def _dot(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    lhs, rhs = shapes
    given = {
        key: numbers(made, key, ())
        for key in (
            "lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims",
        )
    }  # fmt: skip
    for side, shape in (("lhs", lhs), ("rhs", rhs)):
        used = (*given[f"{side}_batch_dims"], *given[f"{side}_contracting_dims"])
        if len(set(used)) < len(used) or not {*used} <= {*range(shape.rank)}:
            fault(f"{side}_..._dims: needs different dimensions of {shape}, found {list(used)}")
    for what in ("batch", "contracting"):
        left = tuple(lhs.dims[axis] for axis in given[f"lhs_{what}_dims"])
        right = tuple(rhs.dims[axis] for axis in given[f"rhs_{what}_dims"])
        if left != right:
            fault(f"{what} dimensions differ: {list(left)} of {lhs}, {list(right)} of {rhs}")
    batch = tuple(lhs.dims[axis] for axis in given["lhs_batch_dims"])
    free = [
        shape.dims[axis]
        for side, shape in (("lhs", lhs), ("rhs", rhs))
        for axis in range(shape.rank)
        if axis not in (*given[f"{side}_batch_dims"], *given[f"{side}_contracting_dims"])
    ]
    return made.array.element_type, (*batch, *free)


def _convolution(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    source, weights = shapes
    labels = convolution_labels(made)
    rank = len(labels.pixels)
    if source.rank != rank + 2 or weights.rank != rank + 2:
        fault(f"dim_labels= needs {rank + 2} dimensions, found {source} and {weights}")
    groups, batches = number(made, "feature_group_count", 1), number(made, "batch_group_count", 1)
    seen = window(made, rank)
    if seen.size != tuple(weights.dims[axis] for axis in labels.weight_pixels):
        fault(f"window= has the size {list(seen.size)}, which is not that of {weights}")
    taken = weights.dims[labels.inputs] * groups
    filters = weights.dims[labels.filters]
    if min(groups, batches) < 1 or source.dims[labels.channels] != taken or filters % groups:
        fault(f"{source} and {weights} do not go with feature_group_count={groups}")
    if source.dims[labels.batch] % batches or filters % batches:
        fault(f"{source} and {weights} do not go with batch_group_count={batches}")
    made_dims = seen.made(tuple(source.dims[axis] for axis in labels.pixels))
    out = [0] * (rank + 2)
    out[labels.out_batch] = source.dims[labels.batch] // batches
    out[labels.out_filters] = filters
    for axis, size in zip(labels.out_pixels, made_dims, strict=True):
        out[axis] = size
    return made.array.element_type, tuple(out)


# reductions


def _reduce(made: HloInstruction, shapes: Sequence[HloShape], known: Computations) -> Inferred:
    found = [shape for shape in shapes if isinstance(shape, Shape)]
    if len(found) < len(shapes) or len(found) % 2 or not found:
        fault("reduce takes arrays and as many scalars to begin with")
    half = len(found) // 2
    axes = numbers(made, "dimensions")
    first = found[0]
    if len(set(axes)) < len(axes) or not {*axes} <= {*range(first.rank)}:
        fault(f"dimensions= needs dimensions of {first}, found {list(axes)}")
    for source, begin in zip(found[:half], found[half:], strict=True):
        if source.dims != first.dims or begin.dims or begin.element_type != source.element_type:
            fault(f"reduce cannot begin {source} with {begin}")
    _check_region(made, known, 2 * half)
    kept = tuple(size for axis, size in enumerate(first.dims) if axis not in axes)
    kinds = tuple((source.element_type, kept) for source in found[:half])
    return kinds if half > 1 or isinstance(made.shape, tuple) else kinds[0]


def _check_region(made: HloInstruction, known: Computations, parameters: int) -> None:
    region = called(made, "to_apply", known)
    if (found := len(region.parameters)) != parameters:
        fault(f'to_apply: "{region.name}" needs {parameters} parameters, found {found}')


def _reduce_window(
    made: HloInstruction, shapes: Sequence[HloShape], known: Computations
) -> Inferred:
    found = [shape for shape in shapes if isinstance(shape, Shape)]
    if len(found) != 2 or len(shapes) != 2:
        fault("reduce-window of several arrays at once is not done")
    source, begin = found
    if begin.dims or begin.element_type != source.element_type:
        fault(f"reduce-window cannot begin {source} with {begin}")
    _check_region(made, known, 2)
    return source.element_type, window(made, source.rank).made(source.dims)


# tuples and computations


def _tuple(made: HloInstruction, shapes: Sequence[HloShape], _: Computations) -> Inferred:
    return tuple(kinds(shape) for shape in shapes)


def _element(made: HloInstruction, shapes: Sequence[HloShape], _: Computations) -> Inferred:
    (given,), index = shapes, number(made, "index")
    if not isinstance(given, tuple) or not 0 <= index < len(given):
        fault(f"index= needs an element of a tuple, found {index}")
    return kinds(given[index])


def _inlined(key: str) -> Rule:
    def rule(made: HloInstruction, shapes: Sequence[HloShape], known: Computations) -> Inferred:
        computation = called(made, key, known)
        wanted = [kinds(each.shape) for each in computation.parameters]
        if wanted != [kinds(shape) for shape in shapes]:
            given = ", ".join(kind_text(kinds(shape)) for shape in shapes)
            fault(f'"{computation.name}" takes {", ".join(map(kind_text, wanted))}, found {given}')
        return kinds(computation.root.shape)

    return rule


def _while(made: HloInstruction, shapes: Sequence[HloShape], known: Computations) -> Inferred:
    state = tuple(kinds(shape) for shape in shapes)
    condition, body = (called(made, key, known) for key in ("condition", "body"))
    for each, wanted in ((condition, ("pred", ())), (body, state[0])):
        if tuple(kinds(p.shape) for p in each.parameters) != state:
            fault(f'"{each.name}" does not take the state of the loop, {kind_text(state)}')
        if kinds(each.root.shape) != wanted:
            fault(
                f'"{each.name}" gives {kind_text(kinds(each.root.shape))}, not {kind_text(wanted)}'
            )
    return state[0]


def _conditional(made: HloInstruction, shapes: Sequence[HloShape], known: Computations) -> Inferred:
    branches = branches_of(made, known)
    selector, *given = shapes
    if not isinstance(selector, Shape) or selector.dims:
        fault("conditional needs a scalar that selects")
    if len(given) != len(branches):
        fault(f"conditional needs an operand for each of {len(branches)} branches")
    results = {kinds(branch.root.shape) for branch in branches}
    for branch, shape in zip(branches, given, strict=True):
        if [kinds(p.shape) for p in branch.parameters] != [kinds(shape)]:
            fault(f'"{branch.name}" does not take {kind_text(kinds(shape))}')
    if len(results) > 1:
        fault("the branches of a conditional give different shapes")
    return results.pop()


def called(made: HloInstruction, key: str, known: Computations) -> Computation:
    """Return the one computation that an attribute names."""
    found = names(made, key)
    if len(found) != 1 or found[0] not in known:
        fault(f'{key}= needs a computation of the module, found "{", ".join(found)[:60]}"')
    return known[found[0]]


def branches_of(made: HloInstruction, known: Computations) -> list[Computation]:
    """Return the computations of a conditional: by number, or for true and for false."""
    if "branch_computations" not in made.attributes:
        return [called(made, key, known) for key in ("true_computation", "false_computation")]
    found = names(made, "branch_computations")
    if missing := [name for name in found if name not in known]:
        fault(f'branch_computations= needs computations of the module, found "{missing[0][:60]}"')
    return [known[name] for name in found]


def _gather(made: HloInstruction, shapes: Sequence[Shape]) -> Inferred:
    source, places = shapes
    sizes, collapsed = numbers(made, "slice_sizes"), numbers(made, "collapsed_slice_dims", ())
    batching = numbers(made, "operand_batching_dims", ())
    offsets, axis = numbers(made, "offset_dims", ()), number(made, "index_vector_dim")
    if len(sizes) != source.rank or any(n > m for n, m in zip(sizes, source.dims, strict=True)):
        fault(f"slice_sizes= needs sizes within {source}, found {list(sizes)}")
    window_dims = [n for d, n in enumerate(sizes) if d not in (*collapsed, *batching)]
    batch = [n for d, n in enumerate(places.dims) if d != axis]
    if len(window_dims) != len(offsets) or not {*offsets} <= {*range(len(offsets) + len(batch))}:
        fault(f"offset_dims= needs {len(window_dims)} numbers, found {list(offsets)}")
    wide, small = iter(window_dims), iter(batch)
    rank = len(window_dims) + len(batch)
    return source.element_type, tuple(next(wide if d in offsets else small) for d in range(rank))


def _scatter(made: HloInstruction, shapes: Sequence[HloShape], known: Computations) -> Inferred:
    found = [shape for shape in shapes if isinstance(shape, Shape)]
    half = len(found) // 2
    if len(found) < len(shapes) or len(found) % 2 == 0 or not half:
        fault("scatter takes arrays, places, and as many updates as arrays")
    sources, places, updates = found[:half], found[half], found[half + 1 :]
    window = numbers(made, "update_window_dims", ())
    left_out = numbers(made, "inserted_window_dims", ())
    batching = numbers(made, "input_batching_dims", ())
    vector = number(made, "index_vector_dim")
    along = numbers(made, "scatter_dims_to_operand_dims")
    count = places.dims[vector] if vector < places.rank else 1
    if not 0 <= vector <= places.rank or count != len(along):
        fault(f"index_vector_dim= needs {len(along)} places for each update in {places}")
    kept = [d for d in range(sources[0].rank) if d not in (*left_out, *batching)]
    scattered = [n for d, n in enumerate(places.dims) if d != vector]
    for source, update in zip(sources, updates, strict=True):
        rest = [n for d, n in enumerate(update.dims) if d not in window]
        inside = len(window) == len(kept) and {*window} <= {*range(update.rank)}
        if source.dims != sources[0].dims or source.element_type != update.element_type:
            fault(f"scatter cannot put {update} into {source}")
        if not {*along} <= {*range(source.rank)} or not inside or rest != scattered:
            fault(f"update_window_dims= of {update} do not go with {source} and {places}")
        if any(update.dims[w] > source.dims[d] for d, w in zip(kept, window, strict=True)):
            fault(f"scatter needs updates within {source}, found {update}")
    _check_region(made, known, 2 * half)
    made_kinds = tuple(kind_of(source) for source in sources)
    return made_kinds if half > 1 else made_kinds[0]


RULES: dict[str, Rule] = {
    **{name: _arrays(_floats, 1) for name in SAME_FLOATS},
    **{name: _arrays(_same, 1) for name in (*SAME_TYPE, *INTEGERS)},
    **{name: _arrays(_pair, 2) for name in PAIRS},
    "is-finite": _arrays(lambda made, shapes: ("pred", shapes[0].dims), 1),
    "compare": _arrays(_compare, 2),
    "select": _arrays(_select, 3),
    "clamp": _arrays(_clamp, 3),
    "convert": _arrays(_convert, 1),
    "bitcast-convert": _arrays(_bitcast_convert, 1),
    "iota": _arrays(_iota, 0),
    "broadcast": _arrays(_broadcast, 1),
    "reshape": _arrays(_reshape, 1),
    "bitcast": _arrays(_bitcast, 1),
    "transpose": _arrays(_transpose, 1),
    "reverse": _arrays(_reverse, 1),
    "slice": _arrays(_slice, 1),
    "concatenate": _arrays(_concatenate, None),
    "pad": _arrays(_pad, 2),
    "dynamic-slice": _arrays(_dynamic_slice, None),
    "dynamic-update-slice": _arrays(_dynamic_update_slice, None),
    "dot": _arrays(_dot, 2),
    "convolution": _arrays(_convolution, 2),
    "gather": _arrays(_gather, 2),
    "scatter": _scatter,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "tuple": _tuple,
    "get-tuple-element": _element,
    "call": _inlined("to_apply"),
    "fusion": _inlined("calls"),
    "while": _while,
    "conditional": _conditional,
}
