"""Views of operands that are spread over a larger result: which axes they have, and whether.

A result is seen as [batch..., rows, columns]. An operand is seen in the same groups, each with
those of its own dimensions that are matched with the result's. A group of an operand has the size
of the result's, or 1, and then a step of 0 or a repeated row stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.compiler.ir.nodes import Axes


def operand_axes(axes: Axes, placed: Sequence[int | None]) -> Axes:
    """Return the view of an operand that goes with a result seen as `axes`.

    placed: for each dimension of the result, the operand's dimension; None where it has none.
    """
    return tuple(
        tuple(place for axis in group if (place := placed[axis]) is not None) for group in axes
    )


def shared_axes(
    axes: Axes, placed: Sequence[int | None], dims: Sequence[int], out: Sequence[int]
) -> bool:
    """Return whether each group of the operand's view has the result's size or 1.

    dims: of the operand; out: of the result.
    """
    for group, own in zip(axes, operand_axes(axes, placed), strict=True):
        size, wanted = math.prod(dims[d] for d in own), math.prod(out[axis] for axis in group)
        if size not in (1, wanted):
            return False
    return True
