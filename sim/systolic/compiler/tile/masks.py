"""Which part of a product a select takes; tiles that it takes nothing from are not computed."""

from __future__ import annotations

from collections.abc import Sequence

from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.ir.ranges import spans
from systolic.spans import Span

Spans = Sequence[Span]


def taken_columns(step: LaneStep, rows: Span, columns: Span, block: int) -> tuple[Spans, Spans]:
    """Return the columns where a select takes some element of these rows, and the others.

    block: columns of a tile. Columns that are taken and columns that are not lie in different
    tiles. A select has a diagonal, so the columns of either kind are one span, or none.
    """
    tiles = list(spans(columns.first, columns.stop, block, block))
    taken = [tile for tile in tiles if step.selects(rows, tile)]
    others = [tile for tile in tiles if not step.selects(rows, tile)]
    return _joined(taken), _joined(others)


def _joined(neighbours: Spans) -> Spans:
    """Return neighbouring spans as one."""
    if not neighbours:
        return []
    first = neighbours[0].first
    return [Span(first, neighbours[-1].stop - first)]
