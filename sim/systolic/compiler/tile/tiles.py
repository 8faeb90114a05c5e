"""Which tile of a matrix holds an element, and which tiles a step reads for a part of its result.

Windows have no tiles of their own: their elements lie in tiles of the matrix that holds them.
"""

from __future__ import annotations

from collections.abc import Iterator

from systolic.compiler.ir.nodes import ConvertNode, Layers, Matrix, Node, spread_place
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.tasks import MatrixTile, tiling
from systolic.spans import Span


class Tiles:
    """The tiles of all matrices: T(p,q), or a matrix's own.

    matrices: by name. block: p and q.
    """

    def __init__(self, layers: Layers, block: tuple[int, int]) -> None:
        """Note the matrices."""
        self.matrices = {matrix.name: matrix for matrix in layers.matrices}
        self.block = block

    def of(self, matrix: Matrix) -> Iterator[tuple[tuple[Span, Span], MatrixTile]]:
        """Yield the rows, the columns and the name of each tile of a matrix."""
        blocks = tiling(matrix, self.block)
        for block in blocks:
            (row, col), (rows, cols) = block.origin, block.extents
            number = block.number // blocks.count_per_matrix
            yield (
                (Span(row, rows), Span(col, cols)),
                MatrixTile(matrix.name, number, block.row, block.column),
            )

    def holding(self, matrix: Matrix, number: int, row: int, col: int) -> MatrixTile:
        """Return the tile that holds an element: for a window, one of its holder's."""
        if matrix.window is not None:
            held = self.matrices[matrix.holder]
            window = matrix.window
            place = window.number(number), window.row(row), window.column(row, col)
            return self.holding(held, *place)
        p, q = matrix.block or self.block
        return MatrixTile(matrix.name, number, row // p, col // q)

    def others(self, node: Node, number: int, rows: Span, cols: Span) -> Iterator[MatrixTile]:
        """Yield the tiles of a step's further operands for rows and columns of its result."""
        for _, name in node.others:
            out = self.matrices[node.output]
            yield self.operand(self.matrices[name], out, number, rows, cols)

    def operand(
        self, operand: Matrix, out: Matrix, number: int, rows: Span, cols: Span
    ) -> MatrixTile:
        """Return the tile of an operand that a step spreads over rows and columns of a result."""
        there, row, col = spread_place(operand, out, (number, rows.first, cols.first))
        return self.holding(operand, there, row, col)

    def sides(self, name: str) -> int:
        """Return the columns of an operand's tiles, if it has several in tiles of its own."""
        matrix = self.matrices[name]
        if matrix.cols == 1 or isinstance(matrix.window, PixelWindow):
            return 0
        return (matrix.block or self.block)[1] if matrix.block or not matrix.window else 0

    def sums_made(
        self, node: ConvertNode, number: int, rows: Span, cols: Span
    ) -> Iterator[MatrixTile]:
        """Yield the tile of the sums that a step makes of segments of what it makes."""
        if node.reduced:
            sums = self.matrices[node.reduced]
            yield self.holding(sums, number, rows.first, cols.first // self.block[0])
