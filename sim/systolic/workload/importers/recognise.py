"""Operations of the table that a form has in pieces, found by what the pieces compute.

Exporters take functions and norms apart, each in its own way: a gelu is eight operations in one
file and five in the next. So pieces are not compared with patterns. A *cone* is the operations
between one tensor and another, if nothing else takes what they make. The float64 result of a cone
is compared with the result of each operation that it might be, on numbers of all sizes. One that
agrees takes the place of all pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.layout.element_types import element_type
from systolic.workload.importers.cones import Cone, Cones
from systolic.workload.importers.form import ModelForm, ModelNode
from systolic.workload.operation import make_attributes
from systolic.workload.operations.activation import FUNCTIONS
from systolic.workload.operations.table import OPERATIONS

MOST_ELEMENTS = 1 << 22
"""The largest tensor on which a norm is tried."""
NEAR = 2e-6
"""Constants of a file are float32; agreement within their precision is agreement."""
NEAR_ZERO = 1e-12
"""Where a function is nearly 0 agreement is this near: a term of 1e-6 is part of what is meant."""
SIZES = (1.0, 1e-2)
"""Of numbers on which norms are tried: beside small variances an epsilon counts."""
SMALL_BYTES = 1 << 10
PRED = element_type("pred")


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a cone is: an operation, and which of the cone's sources are its operands."""

    kind: str
    attributes: Mapping[str, Any]
    operands: tuple[int, ...] = (0,)


def recognised(form: ModelForm, results: Sequence[str]) -> None:
    """Replace pieces by the operations that they are; results: tensors that stay."""
    known: dict[Hashable, Recognised | None] = {}
    while _replaced(form, results, known):
        pass


def _replaced(
    form: ModelForm, results: Sequence[str], known: dict[Hashable, Recognised | None]
) -> bool:
    """Go through a form once, from its end; return whether a cone was replaced.

    known: what cones are, by their structure. Layers of a network have the same.
    """
    cones, gone, new = Cones(form, results), set[str](), dict[str, list[ModelNode]]()
    for root in reversed(form.nodes):
        if root.output in gone:
            continue
        for cone in cones.ending_in(root):
            found = _known_match(form, cone, known)
            if found is None:
                continue
            nodes = _instead(form, cone, found)
            gone |= cone.inner
            new[root.output] = nodes
            for node in nodes:
                form.replaced(node)
            cones.replaced(cone, nodes)
            break
    form.nodes[:] = [
        each
        for node in form.nodes
        if node.output not in gone
        for each in new.get(node.output, [node])
    ]
    return bool(new)


def _instead(form: ModelForm, cone: Cone, found: Recognised) -> list[ModelNode]:
    """Return the operation that a cone is, and a reshape if its source has other dimensions."""
    root, (first, *others) = cone.root, (cone.sources[n] for n in found.operands)
    sources = (first, *(_as_line(form, name) for name in others))
    node = replace(root, kind=found.kind, inputs=sources, attributes=dict(found.attributes))
    before, out = form.shapes[sources[0]], form.shapes[root.output]
    if before.dims == out.dims:
        return [node]
    made = form.named(root.output, Shape(out.element_type, before.dims))
    reshape = replace(root, kind="reshape", inputs=(made,), attributes={})
    return [replace(node, output=made), reshape]


def _as_line(form: ModelForm, name: str) -> str:
    """Return a tensor of one dimension with the numbers of a constant; others have one already."""
    array = form.constants.get(name)
    return name if array is None or array.ndim == 1 else form.whole(array.reshape(-1))


def _known_match(
    form: ModelForm, cone: Cone, known: dict[Hashable, Recognised | None]
) -> Recognised | None:
    key = _structure(form, cone)
    if key is None:
        return _match(form, cone)
    if key not in known:
        known[key] = _match(form, cone)
    return known[key]


def _structure(form: ModelForm, cone: Cone) -> Hashable:
    """Return what a cone computes, whatever its tensors are called; None if that is too large."""
    numbers: dict[str, int] = {name: n for n, name in enumerate(cone.sources)}
    found: list[Hashable] = [str(form.shapes[name]) for name in cone.sources]
    for node in cone.nodes:
        for name in node.inputs:
            if name in numbers:
                found.append(numbers[name])
                continue
            array = form.constants[name]
            if array.nbytes > SMALL_BYTES:
                return None
            found.append((array.dtype.name, array.shape, array.tobytes()))
        numbers[node.output] = len(numbers)
        settings = tuple(sorted(node.attributes.items()))
        found.append((node.kind, settings, str(form.shapes[node.output])))
    return tuple(found)


# what a cone may be


def _match(form: ModelForm, cone: Cone) -> Recognised | None:
    """Return the operation that a cone is; None if it is none of the table."""
    source = form.shapes[cone.sources[0]]
    kinds = {form.shapes[node.output].type for node in cone.nodes} - {PRED}
    whole = any(kind.is_narrow or kind.dtype.kind in "iu" for kind in kinds)
    if source.dtype.kind in "iub" or whole:  # a cast to whole numbers rounds and saturates
        return None
    if not any(node.kind == "reduce" for node in cone.nodes):
        if len(cone.sources) not in (1, 5):
            return None
        if len(cone.sources) == 1:
            return _function(form, cone)
    same_dims = source.dims == form.shapes[cone.root.output].dims
    if not same_dims or source.num_elements() > MOST_ELEMENTS:
        return None
    return _norm(form, cone)


_SAMPLES = np.unique(np.concatenate([np.linspace(-12, 12, 389), [-80.0, -1e-3, 0.0, 1e-3, 80.0]]))


@cache
def _functions() -> dict[str, Array]:
    """Return what the functions of the table make of the samples."""
    with np.errstate(all="ignore"):
        return {
            name: np.asarray(function(_SAMPLES), np.float64)
            for name, function in FUNCTIONS.items()
            if name != "identity"
        }


def _function(form: ModelForm, cone: Cone) -> Recognised | None:
    """Return the activation that a cone of one tensor is, tried on one row of numbers."""
    found = _evaluated(form, cone, {cone.sources[0]: _SAMPLES}, row=True)
    if found is None:
        return None
    for name, wanted in _functions().items():
        if _agree(found, wanted, NEAR_ZERO):
            return Recognised("activation", {"function": name})
    return None


def _norm(form: ModelForm, cone: Cone) -> Recognised | None:
    """Return the softmax or the norm that a cone is, of large and of small numbers."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(form.shapes[name].dims) + 0.5 for name in cone.sources}
    source = cone.sources[0]
    tried = [{**arrays, source: arrays[source] * size} for size in SIZES]
    found = [_evaluated(form, cone, each) for each in tried]
    for one in _norms(form, cone):
        if all(
            _is(form, cone, one, each, result) for each, result in zip(tried, found, strict=True)
        ):
            return one
    return None


def _is(
    form: ModelForm,
    cone: Cone,
    one: Recognised,
    arrays: Mapping[str, Array],
    found: Array | None,
) -> bool:
    """Return whether an operation makes of arrays what a cone has made of them."""
    if found is None:
        return False
    node = replace(cone.root, kind=one.kind, attributes=one.attributes)
    first, *others = (arrays[cone.sources[n]] for n in one.operands)
    wanted = _result(form, node, [first, *(array.reshape(-1) for array in others)])
    if wanted is None:
        return False
    return _agree(found, wanted, NEAR * _largest(wanted) * 1e-1)


def _largest(array: Array) -> float:
    return float(np.nanmax(np.abs(array[np.abs(array) < 1e3]), initial=0))


def _norms(form: ModelForm, cone: Cone) -> Iterator[Recognised]:
    """Yield the operations that a cone with reductions may be."""
    source, *others = _dims(form, cone)
    if len(others) == 4:
        yield from _batch_norms(form, cone)
    axes = {node.attributes["axes"] for node in cone.nodes if node.kind == "reduce"}
    if not others and len(axes) == 1 and len(next(iter(axes))) == 1:
        yield Recognised("softmax", {"axis": next(iter(axes))[0]})
    for epsilon in _small_numbers(form, cone):
        settings = {"epsilon": epsilon}
        if others == [source[-1:]]:
            yield Recognised("rms_norm", settings, (0, 1))
        if others == [source[-1:]] * 2:
            yield from _either(Recognised("layer_norm", settings))
        if len(others) == 2 and others[0] == others[1]:
            for axis in range(1, len(source)):
                if (source[axis],) == others[0]:
                    yield from _either(_of_channels(form, cone, settings | {"axis": axis}))


def _dims(form: ModelForm, cone: Cone) -> list[tuple[int, ...]]:
    """Return the dimensions of a cone's source, and of the lines of numbers that join it."""
    first, *others = (form.shapes[name] for name in cone.sources)
    return [first.dims, *((shape.num_elements(),) for shape in others)]


def _batch_norms(form: ModelForm, cone: Cone) -> Iterator[Recognised]:
    """Yield the batch norms that a cone with four numbers for each channel may be."""
    source, *others = _dims(form, cone)
    axes = [axis for axis, size in enumerate(source) if others == [(size,)] * 4]
    for epsilon, axis in itertools.product(_small_numbers(form, cone), axes):
        for operands in itertools.permutations(range(1, 5)):
            settings = {"epsilon": epsilon, "axis": axis}
            yield Recognised("batch_norm", settings, (0, *operands))


def _either(found: Recognised) -> Iterator[Recognised]:
    """Yield a norm with factors and terms, and one with terms and factors."""
    for operands in ((0, 1, 2), (0, 2, 1)):
        yield replace(found, operands=operands)


def _of_channels(form: ModelForm, cone: Cone, settings: Mapping[str, Any]) -> Recognised:
    """Return the instance or group norm that has as many means for each image as a cone has."""
    source = form.shapes[cone.sources[0]]
    first = next(node for node in cone.nodes if node.kind == "reduce")
    groups = form.shapes[first.output].num_elements() // max(source.dims[0], 1)
    channels = source.dims[settings["axis"]]
    if groups == channels or not groups or channels % groups:
        return Recognised("instance_norm", settings)
    return Recognised("group_norm", {**settings, "groups": groups})


def _small_numbers(form: ModelForm, cone: Cone) -> list[float]:
    """Return the small constants of a cone; one may be an epsilon."""
    found = [node.attributes.get("bias", 0.0) for node in cone.nodes]
    found += [
        float(form.constants[name].flat[0])
        for node in cone.nodes
        for name in node.inputs
        if name in form.constants and form.constants[name].size == 1
    ]
    return [value for value in dict.fromkeys(found) if 0 < value < 0.01]


def _evaluated(
    form: ModelForm, cone: Cone, arrays: Mapping[str, Array], *, row: bool = False
) -> Array | None:
    """Return the float64 result of a cone; row: of operations on one row of numbers."""
    values = dict(arrays)
    for node in cone.nodes:
        operands = list[Array]()
        for name in node.inputs:
            operand = values.get(name, _constant(form, name, row=row))
            if operand is None:
                return None
            operands.append(operand)
        result = _row_result(node, operands) if row else _result(form, node, operands)
        if result is None:
            return None
        values[node.output] = result
    return values[cone.root.output]


def _constant(form: ModelForm, name: str, *, row: bool) -> Array | None:
    array = form.constants.get(name)
    if array is None:
        return None
    if not row:
        return array.astype(np.float64)
    return array.reshape(()).astype(np.float64) if array.size == 1 else None


def _row_result(node: ModelNode, operands: Sequence[Array]) -> Array | None:
    """Return an operation's result for one row of numbers, whatever its dimensions are."""
    if node.kind in ("reshape", "cast"):
        return operands[0]
    wide = np.broadcast_arrays(*operands) if len(operands) > 1 else list(operands)
    given = {k: v for k, v in node.attributes.items() if k != "broadcast_dimensions"}
    plain = replace(node, attributes=given)
    return _calculated(plain, [np.array(each) for each in wide], Shape("f64", wide[0].shape))


def _result(form: ModelForm, node: ModelNode, operands: Sequence[Array]) -> Array | None:
    shape = form.shapes[node.output]
    return _calculated(node, operands, Shape("f64", shape.dims))


def _calculated(node: ModelNode, operands: Sequence[Array], out: Shape) -> Array | None:
    row = OPERATIONS[node.kind]
    attributes = row.settle(
        [Shape("f64", each.shape) for each in operands],
        make_attributes(node.kind, row, node.attributes),
    )
    with np.errstate(all="ignore"):
        return np.asarray(row.exact(operands, out, attributes), np.float64)


def _agree(one: Array, other: Array, near_zero: float) -> bool:
    if one.shape != other.shape or not np.array_equal(np.isnan(one), np.isnan(other)):
        return False
    limit = np.maximum(NEAR * np.abs(other), near_zero)
    with np.errstate(invalid="ignore"):
        return bool(np.all((np.abs(one - other) <= limit) | (one == other) | np.isnan(other)))
