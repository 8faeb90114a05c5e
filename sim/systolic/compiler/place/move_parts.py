"""Matrices of a batch that is moved in two parts: where the first part ends, and its middle.

What waits for the first matrices must not wait for the others. And engines share the moves of the
first ones, so half of these, not half of all, lie before the end of a bank. Not here: which part is
moved when (`lower.product_parts`).
"""

from __future__ import annotations

from systolic.compiler.ir.change_of_view import Piece
from systolic.compiler.ir.nodes import Layers


def halves_of_first_parts(layers: Layers) -> dict[str, int]:
    """Return the columns in the middle of what engines share of matrices that move in two parts."""
    moves = [(node, node.change) for node in layers.nodes if node.change is not None]
    in_parts = {name for n, change in moves if change.part == 2 for name in (n.inputs[0], n.output)}
    found: dict[str, int] = {}
    for node, change in moves:
        for name, ends in ((node.inputs[0], _source_columns), (node.output, _target_columns)):
            if change.shared and name in in_parts:
                columns = [end for piece in change.given for end in ends(piece)]
                found[name] = (min(columns) + max(columns) + 1) // 2
    return found


def _source_columns(piece: Piece) -> tuple[int, int]:
    """Return the first and the last column of the source that a piece has."""
    return piece.source_col, piece.source_col + sum(step * (n - 1) for step, n in piece.pairs)


def _target_columns(piece: Piece) -> tuple[int, int]:
    """Return the first and the last column of the target that a piece has."""
    return piece.col, piece.col + sum(step * (n - 1) for step, n in piece.into)


def columns_of_first_parts(layers: Layers) -> dict[str, int]:
    """Return the columns of matrices that are made in two parts, and worked on after the first."""
    return {
        node.output: min(piece.col for piece in node.change.given)
        for node in layers.nodes
        if node.change is not None and node.change.part == 2 and node.change.in_part
    }
