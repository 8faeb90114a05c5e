"""Instance norm: each channel of each image by its own mean and variance, then a factor and a term.

Every step is float32 and rounded once; the last result is cast.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.arrays import Array
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
from systolic.workload.operations.row import Row


def _check(shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes) -> None:
    check_channels(shapes, out, attributes, (FACTORS.name, TERMS.name))


def instance_norm_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes
) -> list[CompositePart]:
    """Return the operations of an instance norm."""
    channels = shapes[0].dims[attributes.of(shapes[0].rank)]
    return groups_parts(shapes, out, attributes, channels)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ChannelNormAttributes) -> Array:
    return groups_exact(arrays, attributes, out.dims[attributes.of(out.rank)])


INSTANCE_NORM = Row(
    operands=(SOURCE, FACTORS, TERMS),
    attributes=ChannelNormAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(instance_norm_parts),
    exact=_exact,
    computes=True,
    parts=instance_norm_parts,
)
