"""Rows of ONNX operators that put elements into other places: shapes, boxes, paddings, indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError, shortened
from systolic.layout import Shape
from systolic.workload.importers.arithmetic import one_number
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue, ModelView
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow, axis_of
from systolic.workload.importers.onnx.model import OnnxNode
from systolic.workload.importers.runtime_places import at_places
from systolic.workload.operations.dynamic_scatter import MOST_UPDATES

# what is known by the shapes alone


def _shape(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    end = node.number("end", len(dims))
    return np.array(dims[node.number("start") : end], np.int64)


def _size(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return np.array(math.prod(at.dims(given[0])), np.int64)


def _filled(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.sized(at.numbers(given[0], "a shape"))
    value = node.attributes.get("value", np.zeros(1, np.float32))
    return np.broadcast_to(value.reshape(()), dims)


# the same elements in other dimensions


def _reshape(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    own, wanted = at.dims(given[0]), list(at.numbers(given[1], "a shape"))
    if not node.number("allowzero"):
        for axis, size in enumerate(wanted):
            if size == 0:
                if axis >= len(own):
                    sizes = shortened(str(wanted))
                    raise WorkloadError(f"shape {sizes}: {list(own)} has no dimension {axis}")
                wanted[axis] = own[axis]
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        raise WorkloadError(f"shape {shortened(str(wanted))} of {list(own)}")
    if -1 in wanted:
        rest = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = math.prod(own) // rest if rest else 0
    return at.reshape(given[0], wanted)


def _flatten(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    axis = node.number("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return at.reshape(given[0], (math.prod(dims[:axis]), math.prod(dims[axis:])))


def _axes(
    at: OnnxContext, node: OnnxNode, given: NodeOperands, rank: int
) -> tuple[int, ...] | None:
    """Return axes that are an attribute, or an operand in newer opsets; None if left out."""
    if "axes" in node.attributes:
        found = node.numbers("axes")
    elif given[1] is not None:
        found = at.numbers(given[1], "axes")
    else:
        return None
    return tuple(axis_of(axis, rank) for axis in found)


def _squeeze(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    axes = _axes(at, node, given, len(dims))
    gone = [axis for axis, size in enumerate(dims) if size == 1] if axes is None else axes
    for axis in gone:
        if dims[axis] != 1:
            raise WorkloadError(f"axis {axis} of {list(dims)} has {dims[axis]} elements")
    return at.reshape(given[0], [n for axis, n in enumerate(dims) if axis not in gone])


def _unsqueeze(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    own = at.dims(given[0])
    count = len(node.numbers("axes")) if "axes" in node.attributes else len(
        at.numbers(given[1], "axes")
    )  # fmt: skip
    axes = _axes(at, node, given, len(own) + count) or ()
    if len({*axes}) < count:
        raise WorkloadError(f"axes {list(axes)}: each is needed once")
    rest = iter(own)
    return at.reshape(
        given[0], [1 if axis in axes else next(rest) for axis in range(len(own) + count)]
    )


def _transpose(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    rank = len(at.dims(given[0]))
    order = node.numbers("perm", tuple(reversed(range(rank))))
    if sorted(order) != list(range(rank)):
        raise WorkloadError(f"perm {list(order)} of {rank} dimensions")
    return at.transpose(given[0], order)


def _expand(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.numbers(given[1], "a shape")
    own = at.dims(given[0])
    try:
        found = at.sized(np.broadcast_shapes(own, dims))
    except ValueError:
        raise WorkloadError(f"{list(own)} does not spread to {list(dims)}") from None
    return at.spread(given[0], found)


def _tile(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    found = given[0]
    for axis, count in enumerate(at.numbers(given[1], "repeats")):
        size = at.dims(found)[axis]
        if count != 1:
            at.sized((size, count))
            found = taken(at, found, axis, [n % size for n in range(size * count)])
    return found


# parts


def _concat(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    values = [each for each in given if each is not None]
    dims = at.dims(values[0])
    axis = axis_of(node.number("axis", 1), len(dims))
    for each in values[1:]:
        own = at.dims(each)
        if len(own) != len(dims) or any(
            n != m for d, (n, m) in enumerate(zip(own, dims, strict=True)) if d != axis
        ):
            raise WorkloadError(f"{list(dims)} and {list(own)} do not join along axis {axis}")
    return at.joined([each for each in values if at.dims(each)[axis]], axis)


def _split(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    axis = axis_of(node.number("axis"), len(dims))
    if "split" in node.attributes:
        sizes: Sequence[int] = node.numbers("split")
    elif given[1] is not None:
        sizes = at.numbers(given[1], "sizes of parts")
    else:
        count = node.number("num_outputs", len(node.outputs))
        each = -(-dims[axis] // count)
        sizes = [min(each, dims[axis] - first) for first in range(0, dims[axis], each)]
    if sum(sizes) != dims[axis] or min(sizes) < 0:
        raise WorkloadError(f"parts of {list(sizes)} along axis {axis} of {list(dims)}")
    ends = np.cumsum([0, *sizes])
    return tuple(at.part(given[0], axis, int(first), int(stop)) for first, stop in pairwise(ends))


def _slice(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    if node.version < 10:
        starts, ends = node.numbers("starts"), node.numbers("ends")
        axes = node.numbers("axes", tuple(range(len(starts))))
        steps = (1,) * len(starts)
    else:
        starts, ends = at.numbers(given[1], "starts"), at.numbers(given[2], "ends")
        axes = tuple(range(len(starts))) if given[3] is None else at.numbers(given[3], "axes")
        steps = (1,) * len(starts) if given[4] is None else at.numbers(given[4], "steps")
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise WorkloadError(f"starts {list(starts)}, ends {list(ends)}, steps {list(steps)}")
    found = given[0]
    for axis, first, stop, step in zip(axes, starts, ends, steps, strict=True):
        along = axis_of(axis, len(dims))
        places = range(dims[along])[first:stop:step]
        found = _places(at, found, along, places)
    return found


def _places(at: OnnxContext, value: ModelValue, axis: int, places: range) -> ModelValue:
    if not places:
        raise CannotLowerError("a part without elements")
    if places.step > 0:
        return at.part(value, axis, places.start, places[-1] + 1, places.step)
    return taken(at, value, axis, places)


def taken(at: OnnxContext, value: ModelValue, axis: int, places: Sequence[int]) -> ModelValue:
    """Take known places along an axis."""
    if isinstance(value, np.ndarray):
        return np.take(value, list(places), axis)
    return at.form.take(value, axis, places)


def _pad(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    if node.version < 11:
        pads, fill = node.numbers("pads"), node.real("value")
        axes: Sequence[int] = range(len(dims))
    else:
        pads = at.numbers(given[1], "paddings")
        single = 0.0 if given[2] is None else one_number(at.known(given[2], "a filling"))
        fill = 0.0 if single is None else single
        axes = range(len(dims)) if given[3] is None else at.numbers(given[3], "axes")
    if len(pads) != 2 * len(axes):
        raise WorkloadError(f"pads {list(pads)} of {len(axes)} axes")
    sides = [(0, 0)] * len(dims)
    for n, axis in enumerate(axes):
        sides[axis_of(axis, len(dims))] = pads[n], pads[n + len(axes)]
    at.sized([low + size + high for size, (low, high) in zip(dims, sides, strict=True)])
    mode = node.text("mode", "constant")
    if mode == "constant":
        value = at.form.view(at.plain(given[0]))
        return at.form.padded(value, [(low, high, 0) for low, high in sides], fill)
    found = given[0]
    for axis, (low, high) in enumerate(sides):
        if low or high:
            found = taken(at, found, axis, _around(dims[axis], low, high, mode))
    return found


NUMPY_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _around(size: int, low: int, high: int, mode: str) -> list[int]:
    """Return the places of a padded axis."""
    if mode not in NUMPY_MODES:
        raise CannotLowerError(f"the mode {mode}")
    cut = np.arange(size)[max(-low, 0) : size - max(-high, 0)]
    sides = (max(low, 0), max(high, 0))
    return [int(n) for n in np.pad(cut, sides, NUMPY_MODES[mode])]  # type: ignore[call-overload]


# by indices


def _indices(at: OnnxContext, value: ModelValue, size: int) -> ModelValue:
    """Return indices that may be counted from the end, counted from the start."""
    if isinstance(value, np.ndarray):
        wrong = (value < -size) | (value >= size)
        if wrong.any():
            raise WorkloadError(f"index {value[wrong].flat[0]} of {size} elements")
        return np.where(value < 0, value + size, value)
    places = at.cast(value, "s32")
    below = at.compared("less", places, at.like(0, places))
    return at.select(below, at.binary("add", places, at.like(size, places)), places)


def _is_finite(value: ModelValue) -> bool:
    """Return whether a value is known, and has no infinity and no NaN: products may take it."""
    return isinstance(value, np.ndarray) and bool(np.isfinite(value.astype(np.float64)).all())


def _gather(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims, lines = at.dims(given[0]), at.dims(given[1])
    axis = axis_of(node.number("axis"), len(dims))
    places = _indices(at, given[1], dims[axis])
    out = (*dims[:axis], *lines, *dims[axis + 1 :])
    at.sized(out)
    if isinstance(places, np.ndarray):
        found = taken(at, given[0], axis, [int(each) for each in places.reshape(-1)])
        return at.reshape(found, out)
    if _is_finite(given[0]):  # a table, such as an embedding's
        names = [at.whole(given[0]), at.whole(places)]
        return at.made("gather", names, Shape(at.kind(given[0]), out), axis=axis)
    order = [axis, *(d for d in range(len(dims)) if d != axis)]
    flat = at.form.view(at.reshape(places, (math.prod(lines),)))
    moved = at.form.view(at.transpose(given[0], order))
    found = at_places(at.form, moved, flat, 0)
    back = at.transpose(found, [*range(1, axis + 1), 0, *range(axis + 1, len(dims))])
    return at.reshape(back, out)


def _gather_elements(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Take along an axis a place of its own for each element; both have all other axes."""
    dims, lines = at.dims(given[0]), at.dims(given[1])
    axis = axis_of(node.number("axis"), len(dims))
    if len(lines) != len(dims) or any(
        n > m for d, (n, m) in enumerate(zip(lines, dims, strict=True)) if d != axis
    ):
        raise WorkloadError(f"indices of {list(lines)} for {list(dims)}")
    source = given[0]
    for d, size in enumerate(lines):
        if d != axis and size < dims[d]:
            source = at.part(source, d, 0, size)
    places = _indices(at, given[1], dims[axis])
    order = [*(d for d in range(len(dims)) if d != axis), axis]
    back = sorted(range(len(order)), key=lambda n: order[n])
    many = math.prod(size for d, size in enumerate(lines) if d != axis)
    moved = at.plain(at.reshape(at.transpose(source, order), (many, dims[axis])))
    line = at.form.view(at.plain(at.reshape(at.transpose(places, order), (many, lines[axis]))))
    whole = ModelView(at.form.whole(line), line.dims, (0, 1))
    found = at_places(at.form, moved, whole, 1)
    return at.transpose(at.reshape(found, [lines[d] for d in order]), back)


def _gather_nd(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """See the dimensions along which places are given as one; each place has a number in it."""
    dims, lines, batch = at.dims(given[0]), at.dims(given[1]), node.number("batch_dims")
    count = lines[-1]
    sizes, rest = dims[batch : batch + count], dims[batch + count :]
    many = math.prod(lines[batch:-1])
    number: ModelValue = None
    for n, size in enumerate(sizes):
        own = at.reshape(at.part(given[1], len(lines) - 1, n, n + 1), (*lines[:batch], many))
        place = _indices(at, own, size)
        step = np.array(math.prod(sizes[n + 1 :]), np.int32)
        term = at.binary("multiply", at.cast(place, "s32"), step)
        number = term if number is None else at.binary("add", number, term)
    flat = at.reshape(given[0], (*dims[:batch], math.prod(sizes), *rest))
    line = at.form.view(at.plain(number))
    whole = ModelView(at.form.whole(line), line.dims, tuple(range(len(line.dims))))
    found = at_places(at.form, at.plain(flat), whole, batch)
    return at.reshape(found, (*lines[:-1], *rest))


COMBINERS = {"none": None, "add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _scatter_nd(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """See the dimensions along which places are given as one, and put whole lines there."""
    dims, lines = at.dims(given[0]), at.dims(given[1])
    count, many = lines[-1], math.prod(lines[:-1])
    number: ModelValue = np.zeros(many, np.int32)
    for n, size in enumerate(dims[:count]):
        own = at.reshape(at.part(given[1], len(lines) - 1, n, n + 1), (many,))
        number = _further(at, number, size, _indices(at, own, size))
    flat = (math.prod(dims[:count]), math.prod(dims[count:]))
    return _scattered(at, node, given, flat, number)


def _scatter_elements(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Put each element at a place of its own along an axis; along others it keeps its place."""
    dims, lines = at.dims(given[0]), at.dims(given[1])
    axis = axis_of(node.number("axis"), len(dims))
    number: ModelValue = np.zeros(lines, np.int32)
    for d, size in enumerate(dims):
        own = _indices(at, given[1], size) if d == axis else np.indices(lines)[d]
        number = _further(at, number, size, own)
    flat = (math.prod(dims), 1)
    return _scattered(at, node, given, flat, at.reshape(number, (math.prod(lines),)))


def _further(at: OnnxContext, number: ModelValue, size: int, own: ModelValue) -> ModelValue:
    """Return the numbers of places where a further dimension of `size` is counted too."""
    before = at.binary("multiply", at.cast(number, "s32"), at.like(size, at.cast(number, "s32")))
    return at.binary("add", before, at.cast(own, "s32"))


def _scattered(
    at: OnnxContext,
    node: OnnxNode,
    given: NodeOperands,
    flat: tuple[int, int],
    number: ModelValue,
) -> ModelValue:
    """Put lines of elements at places of a tensor that is seen as `flat` lines, or combine them."""
    (many,) = at.dims(number)
    if not 1 <= many <= MOST_UPDATES:
        raise CannotLowerError(f"{many:,} updates, which come one after another")
    given_lines = at.reshape(given[2], (many, flat[1]))
    names = [at.whole(each) for each in (at.reshape(given[0], flat), given_lines, number)]
    combiner = COMBINERS[node.text("reduction", "none")]
    shape = Shape(at.kind(given[0]), flat)
    found = at.made("dynamic_scatter", names, shape, axis=0, combiner=combiner)
    return at.reshape(found, at.dims(given[0]))


def _cumulative(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    shape = at.shape(given[0])
    axis = axis_of(at.numbers(given[1], "an axis")[0], shape.rank)
    return at.made(
        "cumulative",
        [at.whole(given[0])],
        Shape(shape.element_type, shape.dims),
        axis=axis,
        exclusive=bool(node.number("exclusive")) or None,
        from_end=bool(node.number("reverse")) or None,
    )


def _depth_to_space(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    images, channels, height, width = at.dims(given[0])
    block = node.number("blocksize")
    rest = channels // (block * block)
    if node.text("mode", "DCR") == "DCR":
        seen = at.reshape(given[0], (images, block, block, rest, height, width))
        turned = at.transpose(seen, (0, 3, 4, 1, 5, 2))
    else:
        seen = at.reshape(given[0], (images, rest, block, block, height, width))
        turned = at.transpose(seen, (0, 1, 4, 2, 5, 3))
    return at.reshape(turned, (images, rest, height * block, width * block))


def _space_to_depth(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    images, channels, height, width = at.dims(given[0])
    block = node.number("blocksize")
    down, across = height // block, width // block
    seen = at.reshape(given[0], (images, channels, down, block, across, block))
    turned = at.transpose(seen, (0, 3, 5, 1, 2, 4))
    return at.reshape(turned, (images, block * block * channels, down, across))


def _trilu(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    offset = 0 if given[1] is None else at.numbers(given[1], "a diagonal")[0]
    upper = bool(node.number("upper", 1))
    kept: Array = np.tri(dims[-2], dims[-1], offset - 1 if upper else offset, dtype=bool)
    kept = np.broadcast_to(~kept if upper else kept, dims)
    return at.form.select(
        kept, at.plain(given[0]), at.like(0, given[0]), Shape(at.kind(given[0]), dims)
    )


def _one_hot(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    depth = at.numbers(given[1], "a depth")[0]
    lines = at.dims(given[0])
    axis = axis_of(node.number("axis", -1), len(lines) + 1)
    at.sized((*lines, depth))
    off, on = (at.part(given[2], 0, n, n + 1) for n in range(2))
    places = given[0]
    if isinstance(places, np.ndarray):
        places = places.astype(np.int32)
    elif at.kind(places) != "s32":
        places = at.cast(places, "s32")
    below = at.compared("less", places, at.like(0, places))
    places = at.select(below, at.binary("add", places, at.like(depth, places)), places)
    wide = at.reshape(places, (*lines[:axis], 1, *lines[axis:]))
    sizes = [depth if d == axis else 1 for d in range(len(lines) + 1)]
    is_it = at.compared("equal", wide, np.arange(depth, dtype=np.int32).reshape(sizes))
    return at.select(is_it, at.reshape(on, (1,) * len(sizes)), at.reshape(off, (1,) * len(sizes)))


PLACES: dict[str, OnnxRow] = {
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _filled,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements,
    "CumSum": _cumulative,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Trilu": _trilu,
    "OneHot": _one_hot,
}
