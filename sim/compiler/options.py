"""What a user may choose about a compilation; plain data, named as in the run file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """Compile settings of a transpose.

    drain: copy a finished sub-block whole, row by row, or partition by partition (patent, para 85);
    drain_engine: who copies; identity: already in the state buffer, or written by instructions;
    via: through the array, or through DRAM and back; block: (p, q) of equation 1, by default
    partitions x partitions.

    Of a graph: stationary: which operand of a product is held in the array; group: [p, q], how
    many stationary tiles by how many banks of moving vectors accumulate together; outer: which of
    the two the outer loop runs over; tile_columns: columns of the tiles that are moved as one.
    None: chosen by the cost model.
    """

    drain: Literal["row", "partition", "block"] = "block"
    drain_engine: Literal["activation", "pooling"] = "activation"
    identity: Literal["stored", "built"] = "stored"
    via: Literal["pe", "dram"] = "pe"
    block: tuple[int, int] | None = None
    stationary: Literal["lhs", "rhs"] | None = None
    group: tuple[int, int] | None = None
    outer: Literal["stationary", "moving"] | None = None
    tile_columns: int | None = None
