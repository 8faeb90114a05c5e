"""Where an element lies in a buffer with partitions, stated a second time, digit by digit.

Dimensions carry names. A tile replaces a dimension by its number of tiles, which keeps the name and
gets a prime, and by the place in the tile. Plain Python, one element at a time. Not here: anything
of `systolic.layout.placement`.
"""

from __future__ import annotations

from dataclasses import dataclass

from systolic.layout import COMBINE, Shape


@dataclass
class Digit:
    """A physical dimension: what it is, its size, and the coordinate of the element."""

    name: str
    size: int
    at: int


class PlacementLaw:
    """The place of each element of a tiled shape in a buffer of so many partitions."""

    def __init__(self, shape: Shape, partitions: int) -> None:
        self.shape, self.partitions = shape, partitions
        digits = self._digits((0,) * shape.rank)
        self.rows = next((d.size for d in digits if d.name == "row"), 1)
        self.tall = next((d.size for d in digits if d.name == "grid"), 1)
        self.stack = partitions // self.rows
        self.addresses = 1
        for digit in digits:
            self.addresses *= self._size(digit)

    def place(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Return the partition and the address, in elements, of an element."""
        digits = self._digits(index)
        row = sum(d.at for d in digits if d.name == "row")
        tile = sum(d.at for d in digits if d.name == "grid")
        address = 0
        for digit in digits:
            at = {"row": 0, "grid": digit.at // self.stack}.get(digit.name, digit.at)
            address = address * self._size(digit) + at
        return tile % self.stack * self.rows + row, address

    def _size(self, digit: Digit) -> int:
        if digit.name == "row":
            return 1
        return -(-digit.size // self.stack) if digit.name == "grid" else digit.size

    def _digits(self, index: tuple[int, ...]) -> list[Digit]:
        layout, dims = self.shape.layout, self.shape.dims
        digits = [Digit("", dims[axis], index[axis]) for axis in reversed(layout.minor_to_major)]
        while len(digits) < 2:  # a scalar or a vector is a matrix of one row
            digits.insert(0, Digit("", 1, 0))
        for number, tile in enumerate(layout.tiles):
            digits = self._tiled(digits, tile.dims, first=number == 0)
        return digits

    def _tiled(self, digits: list[Digit], tile: tuple[int, ...], *, first: bool) -> list[Digit]:
        digits = [Digit("", 1, 0) for _ in range(len(tile) - len(digits))] + digits
        rest, covered = digits[: len(digits) - len(tile)], digits[len(digits) - len(tile) :]
        folded: list[tuple[Digit, int]] = []
        for digit, size in zip(covered, tile, strict=True):
            if folded and folded[-1][1] == COMBINE:
                before, _ = folded.pop()
                together = before.at * digit.size + digit.at
                digit = Digit("", before.size * digit.size, together)
            folded.append((digit, size))
        outer, inner = [], []
        for place, (digit, size) in enumerate(folded):
            second = first and place == len(folded) - 2
            count = -(-digit.size // size)
            outer.append(Digit("grid" if second else digit.name, count, digit.at // size))
            inner.append(Digit("row" if second else "", size, digit.at % size))
        if first and len(folded) == 1 and rest:
            rest[-1] = Digit("grid", rest[-1].size, rest[-1].at)
        return rest + outer + inner
