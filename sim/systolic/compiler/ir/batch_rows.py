"""A batch in whole rows: a tile has rows of all matrices, in the order of memory.

Each copy has a latency. A batch of small matrices comes and goes faster in whole rows than matrix
by matrix. Not here: costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from systolic.compiler.ir.nodes import Axes
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class BatchRows:
    """A tensor in memory whose matrices lie within tiles of whole rows.

    shape: the same bytes. tiles: the view whose tiles are brought or stored, [rows, columns of all
    matrices]. matrices: the view of the matrices themselves, [batch..., rows, columns].
    """

    shape: Shape
    tiles: Axes
    matrices: Axes


def whole_rows(shape: Shape, axes: Axes) -> Axes:
    """Return the view with the same rows, and with all other dimensions in the order of memory."""
    rows = axes[-2]
    return rows, tuple(axis for axis in shape.layout.major_to_minor if axis not in rows)
