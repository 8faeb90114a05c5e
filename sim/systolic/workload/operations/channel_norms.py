"""What the norms with numbers for each channel have in common: keys and checks.

Channels may be any axis. Batch norm has their means and variances as operands; `group_norm` and
`instance_norm` take them over all other axes but the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.norms import NormAttributes
from systolic.workload.operations.row import Operand, check_gives, plain
from systolic.workload.operations.softmax import check_axis, check_floats


@dataclass(frozen=True, slots=True)
class ChannelNormAttributes(NormAttributes):
    """What is added to variances, and the axis of the channels."""

    axis: Annotated[int | None, Field(description="axis of the channels (default: the last)")] = (
        None
    )

    def of(self, rank: int) -> int:
        """Return the axis of the channels of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis

    def group_count(self, channels: int) -> int:
        """Return in how many groups channels are made even: each by itself."""
        return channels


def check_channels(
    shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes, names: Sequence[str]
) -> None:
    """Raise WorkloadError unless all are floats, with numbers of these names for each channel."""
    source, *numbers = shapes
    if source.rank < 2:
        raise WorkloadError(f"needs at least two axes, found {plain(source)}")
    axis = attributes.of(source.rank)
    check_axis(source, axis)
    check_floats(*shapes, out)
    channels = source.dims[axis]
    for name, shape in zip(names, numbers, strict=True):
        if shape.dims != (channels,):
            raise WorkloadError(
                f"{name}: needs a number for each of {channels} channels, axis {axis} of "
                f"{plain(source)}, found {plain(shape)}"
            )
    check_gives(source, out.element_type, source.dims, out)


def along(numbers: Array, rank: int, axis: int) -> Array:
    """Return one number for each channel so that they spread over a tensor of that rank."""
    return numbers.reshape([-1 if each == axis else 1 for each in range(rank)])


FACTORS = Operand("factors", "XLA shape of a norm's factors, one for each channel")
TERMS = Operand("terms", "XLA shape of a norm's terms, one for each channel")
