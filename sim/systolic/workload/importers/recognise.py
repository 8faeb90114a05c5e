"""Operations of the table that a form has in pieces, found by what the pieces compute.

Exporters take functions and norms apart, each in its own way: a gelu is eight operations in one
file and five in the next. So pieces are not compared with patterns. A *cone* is the operations
between one tensor and another, if nothing else takes what they make. The float64 result of a cone
is compared with that of each operation that it might be, on numbers of all sizes. One that agrees
takes the place of all pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelNode
from systolic.workload.operation import make_attributes
from systolic.workload.operations.activation import FUNCTIONS
from systolic.workload.operations.table import OPERATIONS

PIECES = ("activation", "binary", "reduce", "reshape", "select", "cast")
"""Kinds of operations of which a function or a norm may be made."""
MOST_PIECES = 24
MOST_ELEMENTS = 1 << 22
"""The largest tensor on which a norm is tried."""
NEAR = 2e-6
"""Constants of a file are float32; agreement within their precision is agreement."""


@dataclass(frozen=True, slots=True)
class Cone:
    """Operations in order, the last being the root, and the tensors that they take from outside."""

    nodes: tuple[ModelNode, ...]
    sources: tuple[str, ...]

    @property
    def root(self) -> ModelNode:
        """Return the last operation."""
        return self.nodes[-1]


def recognised(form: ModelForm, results: Sequence[str]) -> None:
    """Replace pieces by the operations that they are; results: tensors that stay."""
    while (found := _first(form, set(results))) is not None:
        cone, node = found
        gone = {each.output for each in cone.nodes}
        at = next(n for n, each in enumerate(form.nodes) if each.output == cone.root.output)
        form.nodes[at] = node
        form.nodes[:] = [each for each in form.nodes if each is node or each.output not in gone]
        form.replaced(node)


def _first(form: ModelForm, results: set[str]) -> tuple[Cone, ModelNode] | None:
    takers = _takers(form)
    for root in reversed(form.nodes):
        if root.kind not in ("binary", "activation", "select"):
            continue
        for cone in _cones(form, root, takers, results):
            if (node := _match(form, cone)) is not None:
                return cone, node
    return None


def _takers(form: ModelForm) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in form.nodes:
        for name in node.inputs:
            found.setdefault(name, set()).add(node.output)
    return found


def _cones(
    form: ModelForm, root: ModelNode, takers: Mapping[str, set[str]], results: set[str]
) -> Iterator[Cone]:
    """Yield the cones that end in `root` and begin at one tensor of its shape, largest first."""
    nodes = _ancestors(form, root)
    dims = form.shapes[root.output].dims
    for first in [*nodes, root]:
        for source in first.inputs:
            if form.shapes[source].dims != dims or source in form.constants:
                continue
            cone = _between(form, root, source)
            if cone is not None and _is_closed(cone, takers, results):
                yield cone


def _ancestors(form: ModelForm, root: ModelNode) -> list[ModelNode]:
    """Return the pieces that lead to `root`, the farthest first; a few at most."""
    found: dict[str, ModelNode] = {}
    waiting = [root]
    while waiting and len(found) < MOST_PIECES:
        for name in waiting.pop(0).inputs:
            made = form.maker(name)
            if made is not None and made.kind in PIECES and name not in found:
                found[name] = made
                waiting.append(made)
    return list(reversed(found.values()))


def _between(form: ModelForm, root: ModelNode, source: str) -> Cone | None:
    """Return the operations from a tensor to `root`; None if they take another one of its size."""
    inside: dict[str, ModelNode] = {}
    outside: dict[str, None] = {source: None}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        inside[node.output] = node
        if len(inside) > MOST_PIECES:
            return None
        for name in node.inputs:
            made = form.maker(name)
            if name in outside or name in inside:
                continue
            if made is not None and made.kind in PIECES:
                waiting.append(made)
            else:
                outside[name] = None
    order = {node.output: n for n, node in enumerate(form.nodes)}
    nodes = tuple(sorted(inside.values(), key=lambda node: order[node.output]))
    others = [name for name in outside if name != source and name not in form.constants]
    last = form.shapes[source].dims[-1:]
    if len(nodes) < 2 or any(form.shapes[name].dims != last for name in others):
        return None
    return Cone(nodes, (source, *others))


def _is_closed(cone: Cone, takers: Mapping[str, set[str]], results: set[str]) -> bool:
    """Return whether nothing outside takes what the cone's pieces make, but for its root."""
    names = {node.output for node in cone.nodes}
    inner = names - {cone.root.output}
    return not any(takers[name] - names or name in results for name in inner)


# what a cone may be


def _match(form: ModelForm, cone: Cone) -> ModelNode | None:
    """Return the operation that a cone is; None if it is none of the table."""
    source = form.shapes[cone.sources[0]]
    if source.dtype.kind in "iub" or any(form.shapes[n.output].type.is_narrow for n in cone.nodes):
        return None
    if not any(node.kind == "reduce" for node in cone.nodes):
        return _function(form, cone) if len(cone.sources) == 1 else None
    if np.prod(source.dims, dtype=np.int64) > MOST_ELEMENTS:
        return None
    return _norm(form, cone)


_SAMPLES = np.unique(np.concatenate([np.linspace(-12, 12, 389), [-80.0, -1e-3, 0.0, 1e-3, 80.0]]))


def _function(form: ModelForm, cone: Cone) -> ModelNode | None:
    """Return the activation that a cone of one tensor is, tried on one row of numbers."""
    found = _evaluated(form, cone, {cone.sources[0]: _SAMPLES}, row=True)
    if found is None:
        return None
    for name, function in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            wanted = np.asarray(function(_SAMPLES), np.float64)
        if name != "identity" and _agree(found, wanted):
            return _instead(form, cone, "activation", {"function": name})
    return None


def _norm(form: ModelForm, cone: Cone) -> ModelNode | None:
    """Return the softmax or the norm that a cone is."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(form.shapes[name].dims) + 0.5 for name in cone.sources}
    found = _evaluated(form, cone, arrays)
    if found is None:
        return None
    for kind, attributes, sources in _norms(form, cone):
        node = _instead(form, cone, kind, attributes, sources)
        wanted = _result(form, node, [arrays[name] for name in sources])
        if wanted is not None and _agree(found, wanted):
            return node
    return None


def _norms(form: ModelForm, cone: Cone) -> Iterator[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Yield the operations that a cone with reductions may be, with their operands."""
    source, *others = cone.sources
    axes = {node.attributes["axes"] for node in cone.nodes if node.kind == "reduce"}
    if not others and len(axes) == 1 and len(next(iter(axes))) == 1:
        yield "softmax", {"axis": next(iter(axes))[0]}, (source,)
    for epsilon in _small_numbers(form, cone):
        if len(others) == 1:
            yield "rms_norm", {"epsilon": epsilon}, (source, others[0])
        if len(others) == 2:
            yield "layer_norm", {"epsilon": epsilon}, (source, *others)
            yield "layer_norm", {"epsilon": epsilon}, (source, *reversed(others))


def _small_numbers(form: ModelForm, cone: Cone) -> list[float]:
    """Return the small constants of a cone, one of which may be an epsilon."""
    found = [node.attributes.get("bias", 0.0) for node in cone.nodes]
    found += [
        float(form.constants[name].flat[0])
        for node in cone.nodes
        for name in node.inputs
        if name in form.constants and form.constants[name].size == 1
    ]
    return [value for value in dict.fromkeys(found) if 0 < value < 0.01]


def _instead(
    form: ModelForm,
    cone: Cone,
    kind: str,
    attributes: Mapping[str, Any],
    sources: tuple[str, ...] | None = None,
) -> ModelNode:
    given = sources or cone.sources
    return replace(cone.root, kind=kind, inputs=given, attributes=dict(attributes))


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


def _agree(one: Array, other: Array) -> bool:
    if one.shape != other.shape or not np.array_equal(np.isnan(one), np.isnan(other)):
        return False
    limit = NEAR * np.maximum(
        np.abs(other), np.nanmax(np.abs(other[np.abs(other) < 1e3]), initial=0) * 1e-1
    )
    with np.errstate(invalid="ignore"):
        return bool(np.all((np.abs(one - other) <= limit) | (one == other) | np.isnan(other)))
