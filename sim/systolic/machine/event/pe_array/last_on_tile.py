"""What each tile of the array has done last.

Not here: what follows of it for the next instruction (`unit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from systolic.isa import MatMul
from systolic.machine.event.ports.stream import Stream


@dataclass(slots=True)
class StreamedMultiply:
    """The last multiply of a tile. over: before that tick no other may start that must follow."""

    multiply: MatMul
    stream: Stream
    injections: int
    over: int

    @property
    def last(self) -> int:
        """Return the tick of the last injection, as now known."""
        return self.stream.tick_of(self.injections - 1)


@dataclass(slots=True)
class LastOnTile:
    """What a tile has done last: its load, its multiply, and whether no multiply followed the load.

    weights: [K, N], what it multiplies with (if values are asked for).
    """

    load: Stream | None = None
    multiply: StreamedMultiply | None = None
    is_fresh: bool = False
    weights: npt.NDArray[Any] | None = None

    def begin_load(self, load: Stream, weights: npt.NDArray[Any] | None) -> None:
        """Note a load that starts."""
        self.load, self.weights, self.is_fresh = load, weights, True

    def begin_multiply(self, multiply: StreamedMultiply) -> bool:
        """Note a multiply that starts; return whether it is the first since a load."""
        is_first, self.is_fresh = self.is_fresh, False
        self.multiply = multiply
        return is_first
