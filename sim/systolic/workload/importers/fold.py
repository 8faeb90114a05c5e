"""Scales behind a product, put into its weights: a batch norm for inference is no work of its own.

A product or convolution with constant weights may be followed by factors and terms that are
constants along its columns. Factors go into the weights, and into the terms before them; the terms
stay, and leave the array with the sums. Weights are rounded once more by this, as they are by every
tool that folds batch norms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from systolic.arrays import Array
from systolic.workload.importers.form import ModelForm, ModelNode
from systolic.workload.importers.windows import CONVOLUTIONS

PRODUCTS = ("matmul", *CONVOLUTIONS, "conv_transpose")


def folded(form: ModelForm, results: Sequence[str]) -> None:
    """Put factors into the weights that they scale; results: tensors that stay as they are."""
    taken = Counter(name for node in form.nodes for name in node.inputs)
    for name in results:
        taken[name] += 1
    while any(_fold(form, node, taken, results) for node in form.nodes):
        pass


def _fold(form: ModelForm, scale: ModelNode, taken: Counter[str], results: Sequence[str]) -> bool:
    """Fold one factor; return whether there was one."""
    found = _constant_operand(form, scale, ("multiply", "divide"))
    if found is None:
        return False
    source, factor = found
    if scale.attributes["operator"] == "divide":
        with np.errstate(divide="ignore"):
            factor = 1 / factor
    terms: list[tuple[ModelNode, Array]] = []
    made = form.maker(source)
    while made is not None and made.kind == "binary" and taken[made.output] == 1:
        term = _constant_operand(form, made, ("add", "subtract"))
        if term is None:
            return False
        terms.append((made, term[1]))
        made = form.maker(term[0])
    if made is None or made.kind not in PRODUCTS or taken[made.output] != 1:
        return False
    weights = made.inputs[1]
    if weights not in form.constants or not np.isfinite(factor).all():
        return False
    _scale_weights(form, made, factor)
    for node, array in terms:
        _scale_term(form, node, array * factor)
    _leave_out(form, scale, source, results)
    taken[source] = taken[scale.output]
    return True


def _constant_operand(
    form: ModelForm, node: ModelNode, operators: Sequence[str]
) -> tuple[str, Array] | None:
    """Return the operand of a binary that is not constant, and the constant one, a number a column.

    None if the node is no such binary.
    """
    if node.kind != "binary" or node.attributes["operator"] not in operators:
        return None
    left, right = node.inputs
    if right not in form.constants or left in form.constants:
        if node.attributes["operator"] in ("divide", "subtract") or left not in form.constants:
            return None
        left, right = right, left
    array, out = form.constants[right], form.shapes[node.output]
    if form.shapes[left].dims != out.dims or array.dtype.kind in "iub":
        return None
    given = node.attributes.get("broadcast_dimensions")
    along = tuple(range(out.rank - array.ndim, out.rank)) if given is None else tuple(given)
    flat = all(
        size == 1 or axis == out.rank - 1 for size, axis in zip(array.shape, along, strict=True)
    )
    if not flat:
        return None
    return left, array.astype(np.float64).reshape(-1)


def _scale_weights(form: ModelForm, product: ModelNode, factor: Array) -> None:
    source, weights = product.inputs
    array = form.constants[weights]
    scaled = (array.astype(np.float64) * factor).astype(array.dtype)
    name = form.whole(scaled)
    _put(form, replace(product, inputs=(source, name)))


def _scale_term(form: ModelForm, node: ModelNode, term: Array) -> None:
    place = next(n for n, name in enumerate(node.inputs) if name in form.constants)
    old = form.constants[node.inputs[place]]
    whole = term if term.size == old.size else np.broadcast_to(term, term.shape)
    shape = old.shape if term.size == old.size else None
    if shape is None:  # one number becomes one for each column
        name = form.whole(whole.astype(old.dtype))
        rank = form.shapes[node.output].rank
        attributes = {**node.attributes, "broadcast_dimensions": (rank - 1,)}
        inputs = tuple(name if n == place else each for n, each in enumerate(node.inputs))
        _put(form, replace(node, inputs=inputs, attributes=attributes))
        return
    name = form.whole(whole.astype(old.dtype).reshape(shape))
    inputs = tuple(name if n == place else each for n, each in enumerate(node.inputs))
    _put(form, replace(node, inputs=inputs))


def _put(form: ModelForm, node: ModelNode) -> None:
    """Put a node in the place of the one that makes the same tensor."""
    at = next(n for n, each in enumerate(form.nodes) if each.output == node.output)
    form.nodes[at] = node
    form.replaced(node)


def _leave_out(form: ModelForm, node: ModelNode, source: str, results: Sequence[str]) -> None:
    """Leave a node out: what takes its result takes `source`, which keeps its name if it can."""
    made = form.maker(source)
    assert made is not None
    form.nodes[:] = [each for each in form.nodes if each.output != node.output]
    if node.output not in results:
        for each in [each for each in form.nodes if node.output in each.inputs]:
            inputs = tuple(source if name == node.output else name for name in each.inputs)
            _put(form, replace(each, inputs=inputs))
        return
    at = next(n for n, each in enumerate(form.nodes) if each.output == source)
    form.nodes[at] = replace(made, output=node.output)
    form.replaced(form.nodes[at])
