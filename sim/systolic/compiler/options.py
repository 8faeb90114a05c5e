"""What a user may choose about a compilation; plain data, named as in the run file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """Compile settings.

    drain: copy a transposed sub-block whole, row by row, or partition by partition (patent, para
    85); drain_engine: who copies; identity: already in the state buffer, or built by
    one Select; via: what is transposed goes through the array, or is by DMA, through DRAM; None:
    whichever the cost model says is cheaper; block: (p, q) of equation 1, by default partitions x
    partitions.

    Of a product: stationary: which operand of a product is held in the array; group: [p, q], how
    many stationary tiles by how many banks of moving vectors accumulate together; outer: which of
    the two the outer loop runs over; tile_columns: columns of the tiles that are moved as one.
    None: chosen by the cost model.
    """

    drain: Literal["row", "partition", "block"] = "block"
    drain_engine: Literal["activation", "pooling"] = "activation"
    identity: Literal["stored", "built"] = "stored"
    via: Literal["pe", "dram"] | None = None
    block: tuple[int, int] | None = None
    stationary: Literal["lhs", "rhs"] | None = None
    group: tuple[int, int] | None = None
    outer: Literal["stationary", "moving"] | None = None
    tile_columns: int | None = None
