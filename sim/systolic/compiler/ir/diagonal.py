"""Weights of a depthwise convolution as a stationary matrix; few of its tiles are not zero.

Each channel has one weight for each tap of the window. The rows of the stationary matrix are taps
and channels, in blocks of p rows; its columns are channels. A tile in the block of tap t and
channels b has the weights of that tap along its diagonal if its columns are the channels b too;
otherwise it is zero, and is neither made nor multiplied. Not here: addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from systolic.compiler.ir.ranges import spans
from systolic.spans import Span


@dataclass(frozen=True, slots=True)
class DiagonalTiles:
    """How many taps and channels there are, and p, the rows of a block."""

    taps: int
    channels: int
    p: int

    @property
    def blocks(self) -> int:
        """Return how many blocks of channels there are."""
        return -(-self.channels // self.p)

    @property
    def rows(self) -> int:
        """Return the rows of the stationary matrix: whole blocks, full or not."""
        return self.taps * self.blocks * self.p

    def tiles(self) -> Iterator[tuple[int, Span, Span]]:
        """Yield the tap, the rows and the columns of each tile that is not zero."""
        for tap in range(self.taps):
            for block in range(self.blocks):
                first = block * self.p
                count = min(self.p, self.channels - first)
                rows = Span((tap * self.blocks + block) * self.p, count)
                yield tap, rows, Span(first, count)

    def rows_of(self, cols: Span, most: int) -> list[Span]:
        """Return the rows, at most `most` together, that are not zero in columns of one block."""
        block, within = divmod(cols.first, self.p)
        count = min(self.p, self.channels - block * self.p)
        needed = [
            span
            for span in spans(0, count, self.p, most)
            if span.first < within + cols.count and within < span.stop
        ]
        return [
            Span((tap * self.blocks + block) * self.p + span.first, span.count)
            for tap in range(self.taps)
            for span in needed
        ]
