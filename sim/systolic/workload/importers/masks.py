"""Masks of attention: what a softmax must not see is a large negative number, not infinity.

Exporters hide scores by minus infinity, whose power is 0. A large negative number has the power 0
as well, and passes through a product with the identity, which makes NaN of 0 times infinity. So
where the only taker is a softmax, and each of its lines keeps something, the number takes the
place. If what is kept is a triangle, the select is a causal mask, which needs no mask in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from systolic.arrays import Array, Mask
from systolic.workload.importers.form import ModelForm, ModelNode
from systolic.workload.operations.causal_mask import CausalMaskAttributes

HIDDEN = CausalMaskAttributes().value


def finite_masks(form: ModelForm, results: Sequence[str]) -> None:
    """Replace the infinities by which selects hide scores from softmaxes; results: outputs."""
    for softmax in [node for node in form.nodes if node.kind == "softmax"]:
        select = form.maker(softmax.inputs[0])
        takers = [node for node in form.nodes if softmax.inputs[0] in node.inputs]
        if select is None or select.kind != "select" or len(takers) > 1:
            continue
        if select.output not in results and (made := _finite(form, select, softmax)) is not None:
            at = next(n for n, node in enumerate(form.nodes) if node.output == select.output)
            form.nodes[at] = made
            form.replaced(made)


def _finite(form: ModelForm, select: ModelNode, softmax: ModelNode) -> ModelNode | None:
    """Return the select with a finite number, or a causal mask; None if it hides otherwise."""
    predicate, scores, other = select.inputs
    hidden = form.constants.get(other)
    kept = form.constants.get(predicate)
    shape = form.shapes[select.output]
    if hidden is None or kept is None or not np.isneginf(hidden.astype(np.float64)).all():
        return None
    seen = _spread(kept, shape.dims, select)
    axis = softmax.attributes.get("axis", shape.rank - 1)
    if seen is None or not seen.any(axis=axis).all():
        return None
    value = max(HIDDEN, float(np.finfo(np.float16).min)) if shape.element_type == "f16" else HIDDEN
    offset = _triangle(seen)
    if offset is not None and form.shapes[scores].dims == shape.dims:
        attributes = {"offset": offset, "value": value}
        return replace(select, kind="causal_mask", inputs=(scores,), attributes=attributes)
    name = form.whole(np.full(hidden.shape, value).astype(hidden.dtype))
    return replace(select, inputs=(predicate, scores, name))


def _spread(kept: Array, dims: tuple[int, ...], select: ModelNode) -> Mask | None:
    """Return a predicate in the dimensions of the result; None if they do not go together."""
    along = select.attributes.get("broadcast_dimensions")
    if along is not None and kept.ndim < len(dims):
        sizes = [1] * len(dims)
        for size, axis in zip(kept.shape, along, strict=True):
            sizes[axis] = size
        kept = kept.reshape(sizes)
    try:
        return np.broadcast_to(kept.astype(bool), dims)
    except ValueError:
        return None


def _triangle(seen: Mask) -> int | None:
    """Return the offset of the diagonal up to which matrices are kept; None: it is none."""
    if seen.ndim < 2:
        return None
    rows, cols = seen.shape[-2:]
    plane = seen[(0,) * (seen.ndim - 2)]
    offset = int(plane[0].sum()) - 1
    triangle = np.tri(rows, cols, offset, dtype=bool)
    return offset if np.array_equal(seen, np.broadcast_to(triangle, seen.shape)) else None
