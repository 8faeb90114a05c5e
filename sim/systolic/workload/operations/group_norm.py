"""Group norm: each group of channels of each image by its own mean and variance, then by channel.

Every step is float32 and rounded once; the last result is cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.channel_norms import (
    FACTORS,
    TERMS,
    ChannelNormAttributes,
    check_channels,
    first_shape,
    groups_exact,
    groups_parts,
)
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.norms import SOURCE
from systolic.workload.operations.recipe import CompositePart
from systolic.workload.operations.row import Row, plain


@dataclass(frozen=True, slots=True)
class GroupNormAttributes(ChannelNormAttributes):
    """What is added to variances, the axis of the channels, and how many groups they make."""

    groups: Annotated[
        int, Field(description="groups of channels, each with a mean and a variance (default: 1)")
    ] = 1


def _check(shapes: Sequence[Shape], out: Shape, attributes: GroupNormAttributes) -> None:
    check_channels(shapes, out, attributes, (FACTORS.name, TERMS.name))
    channels = shapes[0].dims[attributes.of(shapes[0].rank)]
    if attributes.groups < 1 or channels % attributes.groups:
        raise WorkloadError(
            f"groups: needs a divisor of the {channels} channels of {plain(shapes[0])}, found "
            f"{attributes.groups}"
        )


def group_norm_parts(
    shapes: Sequence[Shape], out: Shape, attributes: GroupNormAttributes
) -> list[CompositePart]:
    """Return the operations of a group norm."""
    return groups_parts(shapes, out, attributes, attributes.groups)


def _exact(arrays: Sequence[Array], out: Shape, attributes: GroupNormAttributes) -> Array:
    return groups_exact(arrays, attributes, attributes.groups)


GROUP_NORM = Row(
    operands=(SOURCE, FACTORS, TERMS),
    attributes=GroupNormAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(group_norm_parts),
    exact=_exact,
    computes=True,
    parts=group_norm_parts,
)
