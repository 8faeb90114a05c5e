"""What the rooms of the builder ask it for: views of tensors, which it brings, turns or moves.

Batches, homes on the chip and strands each know a part of where tensors lie. They ask the builder
(`builder`) for what they need, and it asks them. Not here: how a view is made.
"""

from __future__ import annotations

from abc import abstractmethod

from systolic.compiler.cost.batches import ALONE, Beside
from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.lower.matrices import Matrices
from systolic.compiler.lower.moves.strands import Strands
from systolic.layout import Shape


class ViewMaker(Matrices):
    """Matrices and nodes, and views of tensors that are made when they are asked for."""

    @abstractmethod
    def place_tiled(self, tensor: str) -> None:
        """Let an input on the chip lie where its tiles say, if it has tiles and no place yet."""

    @abstractmethod
    def settle(self, tensor: str) -> None:
        """Let a tensor on the chip be a matrix of some view, so that `views` has it."""

    @abstractmethod
    def views(self, tensor: str) -> list[tuple[Matrix, Axes]]:
        """Return the matrices that show the tensor so far, each with the axes of its view."""

    @abstractmethod
    def any_view(self, tensor: str) -> tuple[Matrix, Axes]:
        """Return some matrix of the tensor, with the axes of its view."""

    @abstractmethod
    def turned(self, source: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Return the tensor as `axes`, the transpose of `source`."""

    @abstractmethod
    def moved(self, source: Matrix, change: ChangeOfView, tensor: str, axes: Axes) -> Matrix:
        """Return the elements of `source` as the matrices of another view, moved on the chip."""

    @abstractmethod
    def view(self, tensor: str, axes: Axes, beside: Beside = ALONE) -> Matrix:
        """Return a matrix of the tensor seen as `axes`, moved or turned if need be."""

    @abstractmethod
    def cost_of_turning(self, shape: Shape, axes: Axes) -> int:
        """Return about how many cycles it takes to turn a tensor that is seen as `axes`."""

    @abstractmethod
    def changed(self, tensor: str, *targets: Axes) -> Matrix:
        """Move a tensor on the chip to the cheapest of some views, directly or with a turn."""

    @abstractmethod
    def strands(self, tensor: str) -> Strands | None:
        """Return the strands in which a tensor lies, if nothing else shows it yet."""

    @abstractmethod
    def in_lanes(self, tensor: str, view: Axes, *, given: bool) -> Matrix:
        """Return a tensor on the chip in tiles of whole rows."""

    @abstractmethod
    def keep_matrix(self, tensor: str, matrix: Matrix, axes: Axes) -> None:
        """Keep a matrix, which shows the tensor as `axes`, on the chip until the end."""
