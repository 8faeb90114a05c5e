"""Views: the matrices as which a tensor may be seen, and the view that its layout has on chip."""

from __future__ import annotations

from collections.abc import Iterator

from systolic.compiler.ir.nodes import Axes
from systolic.layout import Layout, Shape


def physical(shape: Shape) -> Axes:
    """Return the view that a tensor has on the chip: its dimensions from major to minor."""
    order = shape.layout.major_to_minor
    if len(order) < 2:
        return ((), tuple(order))
    return tuple((axis,) for axis in order)


def home_views(shape: Shape) -> Iterator[Axes]:
    """Yield every view in which a tensor may live on the chip, the usual view first.

    A matrix has its minor dimension along the address and the other on the partitions. If there are
    more dimensions, neighbours may share the partitions or the address. They lie in the layout's
    order, from the batch over the partitions to the address.
    """
    yield physical(shape)
    order, rank = shape.layout.major_to_minor, shape.rank
    if rank > 2:
        for col in range(1, rank):
            for row in range(col):
                yield (*((axis,) for axis in order[:row]), order[row:col], order[col:])


def lies_as(shape: Shape, axes: Axes) -> bool:
    """Return whether `axes` is one of the views of `home_views` for a tensor of the shape."""
    if shape.rank <= 2:
        return axes == physical(shape)
    order = tuple(axis for group in axes for axis in group)
    return order == shape.layout.major_to_minor and bool(axes[-1])


def swap(axes: Axes) -> Axes:
    """Return the view of the transposed matrices."""
    return (*axes[:-2], axes[-1], axes[-2])


def ends_in(group: tuple[int, ...], minor: tuple[int, ...]) -> bool:
    """Return whether dimensions that make up rows or columns end in those."""
    return group[len(group) - len(minor) :] == minor


def row_major(shape: Shape) -> bool:
    """Return whether the elements lie in logical order without gaps."""
    return shape.layout == Layout.row_major(shape.rank)
