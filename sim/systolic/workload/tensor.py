"""Operations as frozen values: what is to be computed, never how or on which chip.

A tensor is a shape (an XLA shape with its layout) and the memory it lives in before and after.
Not here: the elements themselves (`data`) and the meaning of an operation (`reference`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from systolic.errors import WorkloadError, shortened
from systolic.layout import Shape

Home = Literal["state_buffer", "dram"]
HOMES: tuple[Home, ...] = get_args(Home)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array with a place to live: shape (type, dimensions, layout) and memory."""

    shape: Shape
    home: Home = "state_buffer"

    def __str__(self) -> str:
        return f"{self.shape} in {self.home}"


@dataclass(frozen=True, slots=True)
class Transpose:
    """Permute axes: axis i of the result is axis `permutation[i]` of the source, as in numpy.

    Make one with `transpose`, which checks that the parts go together.
    """

    source: Tensor
    result: Tensor
    permutation: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        """Return the shape of the source."""
        return self.source.shape

    @property
    def out(self) -> Shape:
        """Return the shape of the result."""
        return self.result.shape

    @property
    def home(self) -> Home:
        """Return the memory in which source and result live."""
        return self.source.home

    def __str__(self) -> str:
        axes = ", ".join(map(str, self.permutation))
        return f"{self.shape} -> {self.out} (axes {axes}), home {self.home}"


def parse_shape(text: str) -> Shape:
    """Return the shape an XLA shape text spells, such as ``f32[128,64]``; LayoutError if none."""
    return Shape.parse(text)


def transpose(
    shape: Shape,
    permutation: Sequence[int] | None = None,
    out: Shape | None = None,
    home: Home = "state_buffer",
) -> Transpose:
    """Return the transpose of an array of that shape.

    Args:
        shape: the source, of rank 2 or more, with at least one element.
        permutation: for each axis of the result, the source's axis; rank 2 defaults to (1, 0).
        out: shape of the result, for its layout; its type and dimensions must be those that
            follow from the others. Default: row major.
        home: where source and result live.

    Raises:
        WorkloadError: the parts do not go together.

    """
    _check_source(shape)
    axes = _axes(shape, permutation)
    dims = tuple(shape.dims[axis] for axis in axes)
    result = Shape(shape.element_type, dims) if out is None else out
    if (result.element_type, result.dims) != (shape.element_type, dims):
        wanted = Shape(shape.element_type, dims)
        raise WorkloadError(f"the result is {_plain(wanted)}, but out is {_plain(result)}")
    return Transpose(Tensor(shape, home), Tensor(result, home), axes)


def _plain(shape: Shape) -> str:
    return f"{shape.element_type}[{','.join(map(str, shape.dims))}]"


def _check_source(shape: Shape) -> None:
    if shape.rank < 2:
        raise WorkloadError(
            f"a transpose needs at least 2 dimensions, {_plain(shape)} has {shape.rank}"
        )
    if 0 in shape.dims:
        raise WorkloadError(f"{_plain(shape)} has no elements: there is nothing to transpose")


def _axes(shape: Shape, permutation: Sequence[int] | None) -> tuple[int, ...]:
    if permutation is None:
        if shape.rank > 2:
            raise WorkloadError(
                f"a permutation is needed: {_plain(shape)} has {shape.rank} dimensions "
                "(only a matrix has just one other order)"
            )
        return (1, 0)
    axes = tuple(permutation)
    if sorted(axes) != list(range(shape.rank)):
        found = shortened(str(list(axes)))
        raise WorkloadError(
            f"each axis from 0 to {shape.rank - 1} must be named once, found {found}"
        )
    return axes
