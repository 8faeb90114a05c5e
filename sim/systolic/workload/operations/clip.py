"""Clip: every element brought between two ends: the larger of it and one, then the smaller.

A NaN stays. Floats are compared in float32, integers in int32; the result is cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    first_shape,
    is_integer,
    plain,
)

WORD = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class ClipAttributes(Attributes):
    """The ends of the range."""

    least: Annotated[
        float, Field(description="least result of a clip (default: -infinity)")
    ] = -np.inf
    most: Annotated[float, Field(description="largest result of a clip (default: infinity)")] = (
        np.inf
    )


def _check(shapes: Sequence[Shape], out: Shape, attributes: ClipAttributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, source.dims, out)
    if is_integer(source) != is_integer(out):
        raise WorkloadError(f"clip of {plain(source)} gives the same kind, but out is {plain(out)}")
    if not attributes.least <= attributes.most:
        raise WorkloadError(f"least is {attributes.least}, but most is {attributes.most}")
    for key, end in (("least", attributes.least), ("most", attributes.most)):
        if is_integer(source) and np.isfinite(end) and end != end // 1:
            raise WorkloadError(f"{key}: needs a whole number for {plain(source)}, found {end}")


def clip_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ClipAttributes
) -> list[CompositePart]:
    """Return the two operations of a clip, which one instruction does."""
    recipe, whole = Recipe(shapes), is_integer(shapes[0])
    least, most = attributes.least, attributes.most
    if whole:
        least, most = (float(np.clip(end, WORD.min, WORD.max)) for end in (least, most))
    recipe.scalar("min", recipe.scalar("max", "0", least), most)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ClipAttributes) -> Array:
    (array,) = arrays
    whole = array.dtype.kind in "iub"
    wide = array.astype(np.int64 if whole else np.float64)
    clipped = np.clip(wide, attributes.least, attributes.most)
    return clipped.astype(wide.dtype)


CLIP = Row(
    operands=ONE_SHAPE,
    attributes=ClipAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(clip_parts),
    exact=_exact,
    computes=True,
    parts=clip_parts,
)
